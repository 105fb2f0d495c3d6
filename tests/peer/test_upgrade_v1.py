"""The official packages during an upgrade to version 2: as old clients, and as new ones."""

from __future__ import annotations

import shutil
from itertools import count
from pathlib import Path

import pytest

from frazil.fsck import fsck
from frazil.maintenance.upgrade import upgrade_v1_to_v2
from frazil.repository import Repository
from frazil.storage.local import LocalStorage
from frazil.transaction.opened import context_of
from tests.peer.conftest import PartyOf
from tests.races.test_upgrading import At
from tests.support.peer import PeerError, official
from tests.unit.maintenance.samples import make, messages, put, values

pytestmark = pytest.mark.peer


@pytest.mark.parametrize("number", [1, 2])
def test_a_commit_of_an_old_client_is_taken_over_or_refused(
    party_of: PartyOf, tmp_path: Path, number: int
) -> None:
    """It has a session open before, and commits at some storage call of the upgrade."""
    party = party_of(official(number))
    template = tmp_path / "template"
    put(make(LocalStorage(template), 1), 0, 1)
    outcomes = set()
    for call in count(1, 2):
        place = tmp_path / f"copy {call}"
        shutil.copytree(template, place)
        party.call("begin", place, number=call)
        party.call("change", number=call, array="line", index=2, value=7)
        told: list[bool] = []

        def finish(number: int = call, told: list[bool] = told) -> None:
            try:
                party.call("finish", number=number, message="by an old client")
                told.append(True)
            except PeerError:
                told.append(False)

        at = At(LocalStorage(place), 0, finish)
        repo = Repository.open(at)
        at.left = call
        upgrade_v1_to_v2(context_of(repo), dry_run=False)
        if not told:
            break
        outcomes.add(told[0])
        upgraded = Repository.open(LocalStorage(place))
        assert upgraded.spec_version == 2
        assert values(upgraded)[:3] == ([1, 0, 7] if told[0] else [1, 0, 0]), call
        assert (messages(upgraded)[0] == "by an old client") == told[0]
        assert fsck(LocalStorage(place)).is_clean
    assert outcomes == {True, False}


@pytest.mark.parametrize("number", [1, 2])
def test_an_old_client_cannot_commit_to_refs_that_stay(
    party_of: PartyOf, tmp_path: Path, number: int
) -> None:
    party = party_of(official(number))
    place = tmp_path / "repo"
    put(make(LocalStorage(place), 1), 0, 1)
    party.call("begin", place, number=1)
    party.call("change", number=1, array="line", index=2, value=7)
    repo = Repository.open(LocalStorage(place))
    upgrade_v1_to_v2(context_of(repo), dry_run=False, delete_unused_v1_files=False)
    with pytest.raises(PeerError):
        party.call("finish", number=1, message="late")
    with pytest.raises(PeerError):
        party.call("finish", number=1, message="late", solver="detect")
    assert values(Repository.open(LocalStorage(place)))[:3] == [1, 0, 0]


def test_a_new_client_reads_meanwhile_and_writes_afterwards(
    party_of: PartyOf, tmp_path: Path
) -> None:
    party = party_of(official(2))
    template = tmp_path / "template"
    put(make(LocalStorage(template), 1), 0, 1)
    outcomes = set()
    for call in count(1, 3):
        place = tmp_path / f"copy {call}"
        shutil.copytree(template, place)
        told: list[bool] = []

        def write(place: Path = place, told: list[bool] = told) -> None:
            assert party.call("values", place, array="line")[0] == 1
            try:
                party.call("put", place, array="line", index=2, value=7, message="by a new client")
                told.append(True)
            except PeerError:
                told.append(False)

        at = At(LocalStorage(place), 0, write)
        repo = Repository.open(at)
        at.left = call
        upgrade_v1_to_v2(context_of(repo), dry_run=False)
        if not told:
            break
        outcomes.add(told[0])
        found = values(Repository.open(LocalStorage(place)))[:3]
        assert found == ([1, 0, 7] if told[0] else [1, 0, 0]), call
        party.call("put", place, array="line", index=3, value=8, message="afterwards")
        assert values(Repository.open(LocalStorage(place)))[3] == 8
    assert outcomes == {True, False}
