"""Every edit against every other: what a rebase accepts is right, and nothing is lost.

The edits are a table in `tests/support/edits.py`; a line there is a row and a column here.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.support.edit_races import DETECT, SOLVERS, Race
from tests.support.edits import EDITS, MOVES

NAMES = sorted(EDITS)
EACH = 24
"""Of the others, one in so many is tried in `make test`, another one for each edit."""


def wrong(spec: int, ours: str, others: Sequence[str]) -> list[str]:
    """What is wrong with our edit on top of each of the others, whoever solves conflicts."""
    found = []
    for theirs in others:
        race = Race.start(spec, [ours], [theirs])
        if race is None:
            continue
        for solver in SOLVERS:
            if race.commit(solver):
                found += [
                    f"{solver}: {ours!r} on {theirs!r}: {text}" for text in race.complaints(solver)
                ]
                if solver == DETECT:  # there was nothing to solve
                    break
                again = Race.start(spec, [ours], [theirs])
                assert again is not None
                race = again
    return found


def usable(spec: int) -> list[str]:
    return [name for name in NAMES if spec > 1 or name not in MOVES]


CASES = [(spec, name) for spec in (1, 2) for name in usable(spec)]


@pytest.mark.parametrize(("spec", "ours"), CASES)
def test_what_is_rebased_is_right(spec: int, ours: str) -> None:
    others = usable(spec)
    assert not wrong(spec, ours, others[(NAMES.index(ours) + spec) % EACH :: EACH])


@pytest.mark.soak
@pytest.mark.parametrize(("spec", "ours"), CASES)
def test_what_is_rebased_is_right_for_all_pairs(spec: int, ours: str) -> None:
    assert not wrong(spec, ours, usable(spec))


PLAIN = [name for name in NAMES if name not in MOVES]


@given(
    spec=st.sampled_from([1, 2]),
    ours=st.lists(st.sampled_from(PLAIN), min_size=1, max_size=2)
    | st.lists(st.sampled_from(sorted(MOVES)), min_size=1, max_size=1),
    theirs=st.lists(st.sampled_from(PLAIN), min_size=2, max_size=4),
    solver=st.sampled_from(list(SOLVERS)),
)
def test_what_is_rebased_over_several_commits_is_right(
    spec: int, ours: list[str], theirs: list[str], solver: str
) -> None:
    assume(spec > 1 or not MOVES & {*ours, *theirs})
    # What came before cannot always be redone on theirs, and does not matter either.
    assume(not any(EDITS[n].replaces or n.startswith("remove") for n in ours[1:]))
    race = Race.start(spec, ours, theirs)
    assume(race is not None)
    assert race is not None
    if race.commit(solver):
        assert not race.complaints(solver)
