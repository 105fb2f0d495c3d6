"""Repositories from before spec 1, upgraded here, are ordinary ones to the official packages."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from frazil.fsck import fsck
from frazil.repository import Repository
from frazil.storage.local import LocalStorage
from frazil.upgrade import clean_upgrade, upgrade_older
from tests.peer.conftest import PEERS, PartyOf
from tests.support.ages import AT_ONCE
from tests.support.old_repositories import make_old, told, with_colons
from tests.support.peer import assert_same, official, ours

pytestmark = pytest.mark.peer

OLDER = ("g1", "g2", "g2-msgpack", "3a", "3a-colons", "3c", "3e-27", "3g", "3i")
# Each form always meets one of the packages, by turns; `make peer` and `make soak` try all.
CASES = [
    pytest.param(older, peer, marks=[] if (row + column) % len(PEERS) == 0 else pytest.mark.soak)
    for row, older in enumerate(OLDER)
    for column, peer in enumerate(PEERS)
]


@pytest.mark.parametrize(("older", "peer"), CASES)
def test_upgraded_repositories_are_read_and_continued(
    older: str, peer: str, party_of: PartyOf, tmp_path: Path
) -> None:
    package, spec = PEERS[peer]
    place = LocalStorage(str(tmp_path / "repo"))
    make = with_colons if older == "3a-colons" else make_old
    make(place, older.removesuffix("-colons"))
    before = told(Repository.open(place))
    upgrade_older(place, to=spec)
    theirs, us = party_of(official(package)), party_of(ours())
    found = theirs.call("describe", tmp_path / "repo")
    assert_same(us.call("describe", tmp_path / "repo"), found)
    assert (found["branches"], found["tags"]) == (before["branches"], before["tags"])
    for name in before["branches"]:
        assert facts(found["history"][f"branch {name}"]) == facts(before["history"][name])
    assert told(Repository.open(place)) == before
    theirs.call("put", tmp_path / "repo", array="line", index=1, value=5, message="on top")
    us.call("put", tmp_path / "repo", array="line", index=2, value=6, message="and ours")
    if older in ("g1", "g2", "3a"):
        clean_upgrade(place, unsafe_minimum_age=AT_ONCE)
    both = [party.call("describe", tmp_path / "repo") for party in (us, theirs)]
    assert_same(*both)
    messages = [info["message"] for info in both[0]["history"]["branch main"]]
    assert messages[:2] == ["and ours", "on top"]
    assert fsck(place).is_clean


def facts(infos: list[dict[str, Any]]) -> list[tuple[str, str | None, str]]:
    """What both descriptions of a history tell."""
    return [(info["id"], info["parent"], info["message"]) for info in infos]


@pytest.mark.parametrize("peer", PEERS)
@pytest.mark.parametrize("older", ["g1", "g2"])
def test_chunks_left_where_they_are_are_read_as_virtual_ones(
    older: str, peer: str, party_of: PartyOf, tmp_path: Path
) -> None:
    package, spec = PEERS[peer]
    place = LocalStorage(str(tmp_path / "repo"))
    make_old(place, older)
    before = told(Repository.open(place))
    upgrade_older(place, to=spec, mode="virtual")
    parties = party_of(ours()), party_of(official(package))
    seen = [p.call("describe", tmp_path / "repo", tmp_path / "repo" / "c") for p in parties]
    assert_same(*seen)
    assert seen[0]["branches"] == before["branches"]
    assert seen[0]["bytes"][0] == 0
    assert seen[0]["bytes"][2] > 0
