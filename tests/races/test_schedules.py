"""Two or three actors at once, changing over at storage calls: nothing acknowledged is lost."""

from __future__ import annotations

import random
import re
from itertools import pairwise

import pytest

from tests.races.judging import Scene
from tests.races.known import KNOWN_PAIRS
from tests.races.scheduling import Priorities, Schedule, Walk, check, play
from tests.races.worlds import known_ids
from tests.support.soaking import Soak

SAMPLE = 40
PARTS = 4


def is_known(scene: Scene) -> bool:
    """Whether two of the actors are known not to get along."""
    return any(
        (scene.kind, one, other) in KNOWN_PAIRS
        for one in scene.operations
        for other in scene.operations
    )


def assert_good(seed: int) -> None:
    schedule = Schedule.of(seed)
    if not is_known(schedule.scene):
        bad = check(schedule)
        assert not bad, "\n".join(bad)


@pytest.mark.parametrize("part", range(PARTS))
def test_some_schedules_lose_nothing(part: int) -> None:
    for seed in range(part, SAMPLE, PARTS):
        assert_good(seed)


@pytest.mark.soak
@pytest.mark.timeout(0)
def test_thousands_of_schedules_lose_nothing(soak: Soak) -> None:
    soak.run(soak.seeds(), lambda seed: assert_good(int(seed)))


@pytest.mark.parametrize("seed", range(4))
def test_a_schedule_is_played_again_exactly(seed: int) -> None:
    """Step by step: the same calls with the same keys by the same actors, and the same ends."""

    def played() -> object:
        schedule = Schedule.of(seed, ("v1", "v2"))
        with known_ids(f"schedule {seed}"):
            _, actors, order, trace = play(schedule)
        # Times are the one thing that differs; names of trash have them.
        calls = [re.sub(r"\b\d{8}T\d{6}Z|\b\d{14}\b", "TIME", call) for call in trace]
        return calls, order, [(actor.done, type(actor.refusal)) for actor in actors]

    assert played() == played()


def test_a_walk_lets_everybody_run_and_priorities_let_few_change() -> None:
    walk = Walk(random.Random(1), 0.5)
    assert {walk.choose(0, [0, 1, 2]) for _ in range(50)} == {0, 1, 2}
    order = Priorities(random.Random(1), 3)
    ran, current = [], None
    for _ in range(200):
        current = order.choose(current, [0, 1, 2])
        ran.append(current)
    changes = sum(before != after for before, after in pairwise(ran))
    assert 1 <= changes <= 3
