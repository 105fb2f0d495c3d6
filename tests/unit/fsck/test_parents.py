"""Parents of snapshots, found by what their logs say they changed."""

from __future__ import annotations

from frazil.fsck.files import RepositoryFiles
from frazil.fsck.log_rules import claims_of
from frazil.fsck.parents import explains, find_parents
from frazil.ids import SnapshotId
from frazil.storage.memory import MemoryStorage
from frazil.transaction.opened import context_of
from tests.unit.maintenance.samples import make, put


def test_a_log_explains_the_difference_to_the_parent_alone() -> None:
    repo = make(MemoryStorage(), 2)
    assets = context_of(repo).assets
    ids = [SnapshotId.parse(put(repo, n, n)) for n in range(3)]
    first, second, third = map(assets.snapshot, ids)
    log = assets.log(ids[2])
    assert log is not None
    claims = claims_of([log])
    assert explains(second, third, claims)
    assert not explains(third, third, claims)
    assert not explains(third, first, claims)


def test_unlisted_snapshots_are_put_behind_each_other() -> None:
    repo = make(MemoryStorage(), 2)
    context = context_of(repo)
    root = SnapshotId.parse(repo.lookup_branch("main"))
    ids = [SnapshotId.parse(put(repo, n, n)) for n in range(3)]
    loose = [context.assets.snapshot(one) for one in reversed(ids)]
    known = {root: context.assets.snapshot(root).flushed_at}
    placed = find_parents(RepositoryFiles(context.assets), known, loose)
    assert placed.parents == {ids[0]: root, ids[1]: ids[0], ids[2]: ids[1]}
    assert placed.leaves() == [ids[2]]
    assert placed.children(ids[0]) == [ids[1]]
    assert not placed.alone


def test_snapshots_without_their_parent_stay_alone() -> None:
    repo = make(MemoryStorage(), 2)
    context = context_of(repo)
    ids = [SnapshotId.parse(put(repo, n, n)) for n in range(3)]
    loose = [context.assets.snapshot(ids[2])]
    placed = find_parents(RepositoryFiles(context.assets), {}, loose)
    assert placed.alone == placed.leaves() == [ids[2]]
