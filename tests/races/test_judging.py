"""The judge of races notices what a user would complain of."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest

from frazil import ConflictError
from frazil.formats.config_codec import config_to_map
from frazil.storage.pool import start_in_pool
from frazil.transaction.opened import context_of
from tests.races.actors import Actor
from tests.races.judging import Order, Scene, judge
from tests.races.worlds import Place, commit

SCENE = Scene("v2", ("commit", "commit-elsewhere"))


def verdict(
    meddle: Callable[[Place, list[Actor]], object], scene: Scene = SCENE, noted: Order = (0, 1)
) -> list[str]:
    """What the judge says of two actors, one after the other, and something that went wrong."""

    def act() -> list[str]:
        place, actors = scene.begin()
        for actor in actors:
            actor.perform()
        meddle(place, actors)
        return judge(scene, place, actors, noted)

    return start_in_pool(act).result()


def lose_the_last_commit(place: Place, actors: list[Actor]) -> None:
    tip, before, *_ = actors[0].repo.ancestry(branch="main")
    actors[0].repo.reset_branch("main", before.id, from_snapshot_id=tip.id)


def commit_twice(place: Place, actors: list[Actor]) -> None:
    commit(actors[0].repo, "main", actors[0].name, {"a/c/0": actors[0].value})


def another_value(place: Place, actors: list[Actor]) -> None:
    session = actors[0].repo.writable_session("main")
    session.shift_array("/b", (1,))
    session.amend(actors[1].name)


def lose(place: Place, actors: list[Actor], *, prefix: str) -> None:
    newest = max(place.memory.list(prefix), key=lambda item: item.created_at)
    place.memory.delete_many([newest.key])


def crash(place: Place, actors: list[Actor]) -> None:
    actors[1].refusal = KeyError("a")


def refuse(place: Place, actors: list[Actor]) -> None:
    lose_the_last_commit(place, actors)
    actors[1].done = 0
    actors[1].refusal = ConflictError(message="somebody else was first")


def tell_of_a_refusal(place: Place, actors: list[Actor]) -> None:
    actors[1].done = 0
    actors[1].refusal = ConflictError(message="somebody else was first")


def drop_a_container_of_others(place: Place, actors: list[Actor]) -> None:
    refuse(place, actors)
    config = actors[0].repo.config
    config.clear_virtual_chunk_containers()
    context_of(actors[0].repo).refs.edit_config(lambda _: config_to_map(config))


@pytest.mark.parametrize(
    ("operations", "meddle", "word"),
    [
        (("save-config", "ingest-virtual"), drop_a_container_of_others, "not explained"),
        (("commit", "ingest-branch"), tell_of_a_refusal, "not explained"),
        (("commit", "repair-tip"), partial(lose, prefix="transactions/"), "log-missing"),
    ],
    ids=["container", "branch", "log"],
)
def test_who_is_refused_is_no_excuse(
    operations: tuple[str, str], meddle: Callable[[Place, list[Actor]], object], word: str
) -> None:
    """What others were told is there, and what was refused is not."""
    found = verdict(meddle, Scene("v2", operations), (0,))
    assert any(word in each for each in found), found


def test_nothing_is_wrong_when_nothing_is() -> None:
    assert verdict(lambda _place, _actors: None) == []


def test_what_was_refused_need_not_be_there() -> None:
    assert verdict(refuse) == []


@pytest.mark.parametrize(
    ("meddle", "word"),
    [
        (lose_the_last_commit, "not explained"),
        (commit_twice, "not explained"),
        (another_value, "not explained"),
        (partial(lose, prefix="chunks/"), "unreadable"),
        (partial(lose, prefix="manifests/"), "unreadable"),
        (partial(lose, prefix="transactions/"), "log-missing"),
        (crash, "KeyError"),
    ],
    ids=["lost", "twice", "value", "chunk", "manifest", "log", "crash"],
)
def test_losses_and_crashes_are_noticed(
    meddle: Callable[[Place, list[Actor]], object], word: str
) -> None:
    found = verdict(meddle)
    assert any(word in each for each in found), found
