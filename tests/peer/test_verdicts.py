"""Which edits go together: we accept nothing that an official package refuses.

We may be stricter: it loses changes in some of the pairs that it accepts. That what we accept is
right is tested in `tests/races/test_edit_matrix.py`, without a peer.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.peer.conftest import PEERS, PartyOf, meet
from tests.support.edit_races import SOLVERS
from tests.support.edits import EDITS, MOVES, SHIFTS
from tests.support.peer import official, ours

pytestmark = pytest.mark.peer

EACH = 40
"""Of the others, one in so many is tried in `make test`, another one for each edit."""


def usable(peer: tuple[int, int]) -> list[str]:
    """The edits that a peer knows."""
    number, spec = peer
    unknown = {name for name in MOVES if spec < 2} | {name for name in SHIFTS if number < 2}
    return sorted(EDITS.keys() - unknown)


def laxer(party_of: PartyOf, peer: tuple[int, int], mine: str, others: list[str]) -> list[str]:
    """Pairs that we accept and the peer does not, with each solver."""
    number, spec = peer
    asked = {"spec": spec, "ours": mine, "others": others, "solvers": list(SOLVERS)}
    here = party_of(ours()).call("verdicts", **asked)
    there = party_of(official(number)).call("verdicts", **asked)
    return [
        f"{solver}: {mine!r} on {theirs!r}"
        for theirs, solvers in here.items()
        for solver in solvers
        if solver not in there.get(theirs, ())
    ]


def test_we_are_as_strict_as_the_peer(party_of: PartyOf, peer: tuple[int, int]) -> None:
    names, found = usable(peer), list[str]()
    for number, mine in enumerate(names):
        found += laxer(party_of, peer, mine, names[number % EACH :: EACH])
    assert not found


def test_an_array_that_got_other_axes_is_seen_alike(
    direction: str, peer: tuple[int, int], party_of: PartyOf, tmp_path: Path
) -> None:
    """The peer leaves a manifest behind that nobody can use; fsck rightly warns of that."""
    number, spec = peer
    writer, reader = meet(party_of, direction, number)
    repo = tmp_path / "repo"
    writer.call("create", repo, spec=spec)
    writer.call("edit", repo)
    writer.call("edit", repo, name="other rank")
    reader.call("edit", repo, name="write y")
    for party in (writer, reader):
        assert party.call("values", repo, array="a") == [[-1, -1]] * 4
        assert party.call("values", repo, array="g/y") == [9, 9, 1, 1]


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("peer", list(PEERS.values()), ids=list(PEERS))
def test_we_are_as_strict_as_the_peer_in_all_pairs(
    party_of: PartyOf, peer: tuple[int, int]
) -> None:
    names = usable(peer)
    found = [text for mine in names for text in laxer(party_of, peer, mine, names)]
    assert not found
