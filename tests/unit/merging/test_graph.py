"""Merge bases, compared with those found by looking at every pair of snapshots."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from itertools import pairwise, product

import pytest

from frazil.errors import ErrorKind, SessionStateError
from frazil.ids import SnapshotId
from frazil.merging.graph import Graph, follows_expired
from frazil.model.lineage import MERGE_PARENTS
from frazil.transaction.opened import context_of
from tests.support.ages import AT_ONCE
from tests.support.branches import Branches


class History:
    """A repository with empty commits, and what each of them descends from."""

    def __init__(self, spec: int) -> None:
        self.repo = Branches(spec)
        root = self.tip("main")
        self.before: dict[SnapshotId, set[SnapshotId]] = {root: {root}}
        """ancestors, the snapshot itself included"""

    def tip(self, branch: str) -> SnapshotId:
        return SnapshotId.parse(self.repo.tip(branch))

    def commit(self, branch: str, merged: SnapshotId | None = None) -> SnapshotId:
        """A commit that says, if asked, that it merged a snapshot."""
        parent = self.tip(branch)
        metadata = None if merged is None else {MERGE_PARENTS: [str(parent), str(merged)]}
        session = self.repo.repository.writable_session(branch)
        made = SnapshotId.parse(session.commit("change", metadata, allow_empty=True))
        theirs = set() if merged is None else self.before[merged]
        self.before[made] = {made} | self.before[parent] | theirs
        return made

    def graph(self) -> Graph:
        return Graph(context_of(self.repo.repository))


@pytest.fixture
def history(spec: int) -> History:
    """A history with one snapshot."""
    return History(spec)


def test_two_branches_meet_where_they_parted(history: History) -> None:
    base = history.commit("main")
    history.repo.branch("dev")
    ours = history.commit("main")
    theirs = [history.commit("dev") for _ in range(2)]
    found = history.graph().common([ours], [theirs[-1]])
    assert found.bases == (base,)
    assert found.only_theirs == tuple(reversed(theirs))


def test_what_was_merged_counts_as_an_ancestor(history: History) -> None:
    history.repo.branch("dev")
    theirs = history.commit("dev")
    ours = history.commit("main", merged=theirs)
    later = history.commit("dev")
    graph = history.graph()
    assert graph.is_ancestor(theirs, of=ours)
    assert not graph.is_ancestor(ours, of=theirs)
    assert graph.common([ours], [later]).bases == (theirs,)
    assert graph.common([ours], [later]).only_theirs == (later,)


def test_crossing_merges_have_two_bases(history: History) -> None:
    history.repo.branch("dev")
    one, two = history.commit("main"), history.commit("dev")
    ours, theirs = history.commit("main", merged=two), history.commit("dev", merged=one)
    assert history.graph().common([ours], [theirs]).bases == (one, two)


@pytest.mark.parametrize("seed", range(4))
def test_bases_are_the_newest_that_both_have(history: History, seed: int) -> None:
    chosen = random.Random(seed)
    branches = ["main", "b", "c"]
    for name in branches[1:]:
        history.repo.branch(name)
    for _ in range(14):
        branch, other = chosen.choice(branches), chosen.choice(branches)
        merged = history.tip(other) if chosen.random() < 0.4 and other != branch else None
        history.commit(branch, merged)
    before, graph = history.before, history.graph()
    for ours, theirs in product(before, repeat=2):
        both = before[ours] & before[theirs]
        newest = {one for one in both if not any(one in before[two] - {two} for two in both)}
        found = graph.common([ours], [theirs])
        assert set(found.bases) == newest
        assert set(found.only_theirs) == before[theirs] - before[ours]
        assert all(one not in before[two] for two, one in pairwise(found.only_theirs[::-1]))
        assert graph.is_ancestor(ours, of=theirs) == (ours in before[theirs])


def test_strangers_have_no_base(history: History) -> None:
    ours = history.commit("main")
    assert history.graph().common([ours], [SnapshotId.random()], strict=False).bases == ()


def test_a_base_that_expired_and_is_gone_is_refused_only_where_it_is_needed(repo: Branches) -> None:
    for name in ("0", "2"):
        repo.commit("main", {f"a/c/{name}": b"x"})
        repo.commit("dev", {f"a/c/{name}": b"y"})
    later = datetime.now(UTC) + timedelta(days=1)
    repo.repository.expire_snapshots(later)
    repo.repository.garbage_collect(later, unsafe_minimum_age=AT_ONCE)
    context = context_of(repo.repository)
    ours, theirs = (SnapshotId.parse(repo.tip(name)) for name in ("main", "dev"))
    with pytest.raises(SessionStateError) as caught:
        Graph(context).common([ours], [theirs])
    assert caught.value.kind == ErrorKind.MERGE_BASE_EXPIRED
    assert Graph(context).is_ancestor(ours, of=ours)
    assert follows_expired(context, context.refs.entry(ours))


def test_a_commit_upon_another_follows_nothing_expired(repo: Branches) -> None:
    made = SnapshotId.parse(repo.commit("main", {"a/c/0": b"x"}))
    context = context_of(repo.repository)
    assert not follows_expired(context, context.refs.entry(made))
