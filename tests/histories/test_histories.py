"""Processes do what they like, are killed, and lose replies; every read can be explained.

A case of a long run is a seed: it gives what the processes choose, when they are killed, and
which faults the proxy has. The order in which processes run is the machine's, so that a seed
that failed once may have to be tried again; the journals of the run stay in its folder.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.histories.running import (
    Outcome,
    Party,
    Plan,
    ours,
    play_on_disk,
    play_on_s3,
)
from tests.support.generations import Spec, spec_id
from tests.support.peer import official
from tests.support.servers import S3Server
from tests.support.soaking import REPORT, Soak

SHORT_S = 8.0
LONG_S = 60.0


def peer(number: int) -> Party:
    """A process of an official package."""
    found = official(number)
    return Party(found.name, found.python, found.module, 1)


def require_sound(outcome: Outcome, folder: Path) -> None:
    """Nothing is lost, doubled, unreadable or unexplained."""
    tell(outcome.summary())
    told = "\n".join([*outcome.verdict.problems[:10], *outcome.findings[:10]])
    assert not told, f"{told}\njournals: {folder}\n{outcome.summary()}"
    assert outcome.verdict.compared


def tell(summary: str) -> None:
    """Leave what a run was made of beside the notes of `make soak`."""
    print(summary)
    if place := os.environ.get(REPORT):
        with Path(place).with_suffix(".runs").open("a", encoding="utf-8") as out:
            out.write(f"{summary}\n")


def folder_of(base: Path, name: str) -> Path:
    """A folder for one run."""
    made = base / name
    made.mkdir()
    return made


@pytest.mark.slow
def test_a_short_history_on_local_disk_is_explained(tmp_path: Path) -> None:
    require_sound(play_on_disk(Plan([ours(4)], 2, SHORT_S, seed=1), tmp_path), tmp_path)


@pytest.mark.slow
@pytest.mark.peer
def test_a_short_history_on_s3_with_faults_and_a_peer_is_explained(
    tmp_path: Path, s3_server: S3Server
) -> None:
    plan = Plan([ours(3), peer(2)], 2, SHORT_S, seed=1)
    outcome = play_on_s3(plan, tmp_path, s3_server)
    require_sound(outcome, tmp_path)
    assert sum(outcome.faults.values()) > outcome.faults["pass"], "the proxy had no faults"


@pytest.mark.soak
@pytest.mark.timeout(0)
@pytest.mark.parametrize("spec", [2, 1, "g3", "g2", "g1"], ids=spec_id)
def test_histories_on_local_disk_are_explained(tmp_path: Path, spec: Spec, soak: Soak) -> None:
    def play(plan: Plan, folder: Path) -> Outcome:
        return play_on_disk(plan, folder)

    play_seeds(soak, tmp_path, [ours(4)], spec, play)


@pytest.mark.soak
@pytest.mark.timeout(0)
@pytest.mark.parametrize("where", ["disk", "s3"])
def test_histories_with_an_upgrade_are_explained(
    tmp_path: Path, s3_server: S3Server, where: str, soak: Soak
) -> None:
    def play(plan: Plan, folder: Path) -> Outcome:
        upgraded = replace(plan, is_upgraded=True)
        if where == "disk":
            return play_on_disk(upgraded, folder)
        return play_on_s3(upgraded, folder, s3_server)

    play_seeds(soak, tmp_path, [ours(4)], 1, play)


@pytest.mark.soak
@pytest.mark.peer
@pytest.mark.timeout(0)
@pytest.mark.parametrize(("spec", "peers"), [(2, (2,)), (1, (1, 2))], ids=["v2", "v1"])
def test_histories_on_s3_with_faults_and_peers_are_explained(
    tmp_path: Path, s3_server: S3Server, spec: Spec, peers: tuple[int, ...], soak: Soak
) -> None:
    def play(plan: Plan, folder: Path) -> Outcome:
        return play_on_s3(plan, folder, s3_server)

    play_seeds(soak, tmp_path, [ours(4), *map(peer, peers)], spec, play)


def play_seeds(
    soak: Soak,
    base: Path,
    parties: list[Party],
    spec: Spec,
    play: Callable[[Plan, Path], Outcome],
) -> None:
    """One history after the other, as long as there is time."""

    def one(seed: str) -> None:
        folder = folder_of(base, seed)
        seconds = min(LONG_S, max(SHORT_S, soak.left))
        outcome = play(Plan(parties, spec, seconds, int(seed)), folder)
        soak.inputs += outcome.verdict.operations.total()
        require_sound(outcome, folder)

    soak.run(soak.seeds(), one)


@pytest.mark.soak
@pytest.mark.timeout(0)
def test_a_server_that_forgets_conditions_is_found_out(
    tmp_path: Path, s3_server: S3Server, soak: Soak
) -> None:
    def one(seed: str) -> None:
        plan = Plan([ours(4)], 2, 2 * SHORT_S, int(seed), kill_every_s=60)
        folder = folder_of(tmp_path, seed)
        outcome = play_on_s3(plan, folder, s3_server, forgets_conditions=True)
        assert outcome.verdict.problems, outcome.summary()

    soak.run([str(soak.seed)], one)
