"""Every edit merged with every other, picked and taken back: nothing of either side is lost.

The model takes a hierarchy for a set of facts: each attribute, each axis, each other field of the
metadata, each chunk. A fact that one side changed is as that side has it; what both changed
differently must have been refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Literal, TypeAlias

import pytest

from frazil import MergeConflictError, Repository
from frazil.fsck import fsck
from tests.support.edit_races import base_of, copy_of
from tests.support.edits import (
    EDITS,
    IMPOSSIBLE,
    MOVES,
    State,
    begin,
    committed,
    moved_back,
    visible,
)
from tests.support.nodes import contents

Facts: TypeAlias = Mapping[tuple[str, ...], object]
Work: TypeAlias = Callable[[Repository, str, str], None]

NAMES = sorted(EDITS)
UNSOUND = ("/c/m", "/a/m")
"""Where one of the edits puts a node below nothing, or below an array."""
EACH = 40
"""Of the others, one in so many is tried in `make test`, another one for each edit."""


def facts(state: State) -> Facts:
    """What a reader may learn from a state, one by one."""
    found: dict[tuple[str, ...], object] = {}
    for key, value in visible(state).items():
        if not key.endswith("zarr.json"):
            found[key,] = value
            continue
        for field, content in value.items():
            if field == "attributes":
                found |= {(key, field, name): each for name, each in content.items()}
            elif field == "shape":
                found |= {(key, field, str(axis)): each for axis, each in enumerate(content)}
                found[key, "rank"] = len(content)
            elif content is not None:
                found[key, field] = content
    return found


def three_ways(base: Facts, ours: Facts, theirs: Facts) -> Facts | None:
    """The facts after both; None if both changed one differently."""
    merged = {}
    for key in {*base, *ours, *theirs}:
        was, here, there = base.get(key), ours.get(key), theirs.get(key)
        if here != there and was not in (here, there):
            return None
        merged[key] = there if here == was else here
    return {key: value for key, value in merged.items() if value is not None}


def in_turn(base: State, *orders: tuple[str, ...]) -> list[Facts]:
    """The facts after edits in some orders, as far as these are possible."""
    found = []
    for order in orders:
        try:
            found.append(facts(committed(base, *order)))
        except IMPOSSIBLE:
            continue
    return found


def both_moved(base: State, ours: str, theirs: str) -> Facts | None:
    """The facts after moves of two sides; None if both gave a node another name, or parent."""
    was, here, there = (places(base, name) for name in (None, ours, theirs))
    merged: dict[str, tuple[str, str]] = {}
    for node, old in was.items():
        chosen = []
        for before, mine, other in zip(old, here[node], there[node], strict=True):
            if mine != other and before not in (mine, other):
                return None
            chosen.append(other if mine == before else mine)
        merged[node] = (chosen[0], chosen[1])

    def path(node: str) -> str:
        return "/".join((path(merged[node][0]), merged[node][1])).strip("/") if node else ""

    def moved(key: str) -> str:
        node = max((each for each in merged if key.startswith(f"{each}/")), key=len, default="")
        return f"{path(node)}{key[len(node) :]}".strip("/")

    return facts({moved(key): value for key, value in base.items()})


def places(base: State, name: str | None) -> dict[str, tuple[str, str]]:
    """Parent and name of each node after moves; nodes are called by where they are without."""
    nodes = [key.removesuffix("/zarr.json") for key in base if key.endswith("/zarr.json")]
    paths = {node: node for node in nodes}
    for source, target in () if name is None else EDITS[name].moves:
        old, new = source.strip("/"), target.strip("/")
        for node, path in paths.items():
            if f"{path}/".startswith(f"{old}/"):
                paths[node] = new + path[len(old) :]
    there = {path: node for node, path in paths.items()}
    split = {node: path.rpartition("/") for node, path in paths.items()}
    return {node: (there.get(above, ""), own) for node, (above, _, own) in split.items()}


def is_right(base: State, seen: Facts, ours: str, theirs: str) -> bool:
    """Whether this may be there after both edits."""
    if {ours, theirs} <= MOVES:
        return seen == both_moved(base, ours, theirs)
    both = [(ours, theirs), (theirs, ours)]
    # By its identity, a node in the place of one that the other deletes too is a new node.
    is_new = EDITS[ours].replaces or EDITS[theirs].replaces
    if MOVES & {ours, theirs} or (is_new and "remove" in f"{ours} {theirs}"):
        return seen in in_turn(base, *both)
    alone = [facts(committed(base, name)) for name in (ours, theirs)]
    return seen == three_ways(facts(base), *alone)


def merge(repository: Repository, ours: str, theirs: str) -> None:
    repository.create_branch("other", repository.lookup_branch("main"))
    begin(repository, ours).commit("ours")
    begin(repository, theirs, branch="other").commit("theirs")
    repository.versions.merge("other", "main", ff=False)


def pick(repository: Repository, ours: str, theirs: str) -> None:
    repository.create_branch("other", repository.lookup_branch("main"))
    begin(repository, ours).commit("ours")
    picked = begin(repository, theirs, branch="other").commit("theirs")
    repository.versions.cherry_pick(picked, "main")


def wrong(work: Work, spec: int, ours: str, others: Sequence[str]) -> list[str]:
    """What is wrong with an edit brought together with each of the others."""
    found = []
    storage, base = base_of(spec)
    for theirs in others:
        repository = copy_of(storage)
        try:
            work(repository, ours, theirs)
        except MergeConflictError:
            continue
        seen = facts(contents(Repository.open(repository.storage).readonly_session("main")))
        if not is_right(base, seen, ours, theirs):
            found.append(f"{ours!r} and {theirs!r}: {sorted(seen)}")
        told = [each for each in fsck(repository).findings if each.path not in UNSOUND]
        found += [f"{ours!r} and {theirs!r}: {each}" for each in told]
    return found


def wrong_reverts(spec: int, first: str, others: Sequence[str]) -> list[str]:
    """What is wrong after an edit is taken back, below each of the others."""
    found = []
    storage, base = base_of(spec)
    for second in others:
        if not in_turn(base, (first, second)):
            continue
        repository = copy_of(storage)
        reverted = begin(repository, first).commit("first")
        begin(repository, second).commit("second", allow_empty=True)
        try:
            repository.versions.revert(reverted, "main")
        except MergeConflictError:
            continue
        seen = facts(contents(Repository.open(repository.storage).readonly_session("main")))
        one, both = facts(committed(base, first)), facts(committed(base, first, second))
        wanted = [three_ways(one, both, facts(base)), *in_turn(base, (second,))]
        if EDITS[first].replaces and second.startswith("remove"):
            wanted.append(facts(base))  # what was replaced is another node, and comes back
        if first in MOVES:
            with suppress(*IMPOSSIBLE):
                # Whatever is by then at the places that nodes were moved to goes back with them.
                wanted.append(facts(moved_back(committed(base, first, second), first)))
        if seen not in wanted:
            found.append(f"without {first!r}, {second!r}: {sorted(seen)}")
        told = [each for each in fsck(repository).findings if each.path not in UNSOUND]
        found += [f"without {first!r}, {second!r}: {each}" for each in told]
    return found


WORKS = {"merge": merge, "pick": pick}


@pytest.mark.parametrize("ours", NAMES)
def test_nothing_is_lost_between_two_branches(ours: str) -> None:
    start = NAMES.index(ours)
    assert not wrong(merge, 2, ours, NAMES[start % EACH :: EACH])
    assert not wrong(pick, 2, ours, NAMES[(start + 7) % EACH :: EACH])
    assert not wrong_reverts(2, ours, NAMES[(start + 13) % EACH :: EACH])


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [("cut inside a chunk", "write new 3"), ("name dimension", "other rank")],
)
@pytest.mark.parametrize("policy", ["ours", "theirs"])
def test_what_has_no_place_on_the_axes_of_the_other_side_is_a_conflict(
    ours: str, theirs: str, policy: Literal["ours", "theirs"]
) -> None:
    for mine, other in ((ours, theirs), (theirs, ours)):
        repository = copy_of(base_of(2)[0])
        with pytest.raises(MergeConflictError):
            merge(repository, mine, other)
        repository.versions.merge("other", "main", policy=policy)
        chosen = committed(base_of(2)[1], mine if policy == "ours" else other)
        found = contents(Repository.open(repository.storage).readonly_session("main"))
        assert visible(found)["a/zarr.json"] == visible(chosen)["a/zarr.json"]
        assert not fsck(repository).findings


@pytest.mark.soak
@pytest.mark.parametrize("spec", [1, 2])
@pytest.mark.parametrize("work", list(WORKS))
@pytest.mark.parametrize("ours", NAMES)
def test_nothing_is_lost_between_two_branches_for_all_pairs(
    spec: int, work: str, ours: str
) -> None:
    names = [name for name in NAMES if spec > 1 or name not in MOVES]
    if ours in names:
        assert not wrong(WORKS[work], spec, ours, names)
        assert work != "merge" or not wrong_reverts(spec, ours, names)
