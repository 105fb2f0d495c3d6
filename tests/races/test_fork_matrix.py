"""Every edit of a fork beside every edit of another: what a merge accepts is right."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from frazil import Repository, SessionStateError
from frazil.fsck import fsck
from tests.support.edit_races import CHUNK, base_of, copy_of
from tests.support.edits import EDITS, IMPOSSIBLE, MOVES, State, make, redone, visible
from tests.support.nodes import contents

NAMES = sorted(EDITS.keys() - MOVES)
EACH = 12
"""Of the others, one in so many is tried in `make test`, another one for each edit."""


def merged(spec: int, first: str, second: str) -> Repository | None:
    """A repository with the edits of two forks of one session; None if that is refused."""
    repository = copy_of(base_of(spec)[0])
    session = repository.writable_session("main")
    forks = [session.fork(), session.fork()]
    for fork, name in zip(forks, (first, second), strict=True):
        make(fork, name)
    try:
        session.merge(*forks)
    except SessionStateError:
        return None
    session.commit("both")
    return repository


def orders(base: State, first: str, second: str) -> list[Mapping[str, object]]:
    """What may be there after both: one edit after the other, with whole chunks of the second.

    Or the changes of both laid over what was there, as when both append: who hands out work to
    forks must see to it that each gets chunks of its own.
    """
    alone = [redone(base, first), redone(base, second)]
    both = [
        key
        for key in filter(CHUNK.fullmatch, {*base, *alone[0], *alone[1]})
        if base.get(key) != alone[0].get(key) and base.get(key) != alone[1].get(key)
    ]
    laid = dict(base)
    for state in alone:
        laid = {key: laid[key] for key in laid if key not in base or key in state}
        laid |= {key: value for key, value in state.items() if base.get(key) != value}
    found: list[Mapping[str, object]] = [visible(laid)]
    for order in ((first, second), (second, first)):
        try:
            state = redone(base, *order)
        except IMPOSSIBLE:
            continue
        for key in both:
            if f"{key.rpartition('c/')[0]}zarr.json" in state and key in alone[1]:
                state[key] = alone[1][key]
        found.append(visible(state))
    return found


def wrong(spec: int, first: str, others: Sequence[str]) -> list[str]:
    """What is wrong with one fork's edit beside each of the others."""
    found = []
    for second in others:
        repository = merged(spec, first, second)
        if repository is None:
            continue
        seen = visible(contents(Repository.open(repository.storage).readonly_session("main")))
        if seen not in orders(base_of(spec)[1], first, second):
            found.append(f"{first!r} and {second!r}: {sorted(seen)}")
        told = [each for each in fsck(repository).findings if each.path != "/c/m"]
        found += [f"{first!r} and {second!r}: {each}" for each in told]
    return found


@pytest.mark.parametrize("first", NAMES)
def test_what_forks_did_is_right(first: str) -> None:
    assert not wrong(2, first, NAMES[NAMES.index(first) % EACH :: EACH])


@pytest.mark.soak
@pytest.mark.parametrize("spec", [1, 2])
@pytest.mark.parametrize("first", NAMES)
def test_what_forks_did_is_right_for_all_pairs(spec: int, first: str) -> None:
    assert not wrong(spec, first, NAMES)
