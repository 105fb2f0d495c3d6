"""Where the bytes are."""

from __future__ import annotations

from frazil.ids import SnapshotId
from frazil.maintenance.space import Usage, array_usage, objects_by_kind, snapshot_usage
from frazil.storage.memory import MemoryStorage
from frazil.transaction.opened import context_of
from tests.unit.maintenance.samples import make, put


def test_arrays_are_measured_by_their_references(storage: MemoryStorage, spec: int) -> None:
    repo = make(storage, spec)
    put(repo, 0, 1)
    put(repo, 1, 1)
    state = repo.readonly_session("main").state
    used = array_usage(state, state.array("/line"))
    sizes = [item.size_bytes for item in storage.list("chunks/")]
    assert used == Usage(chunks=2, native_bytes=sum(sizes))
    assert used.stored_bytes == sum(sizes)


def test_each_snapshot_tells_what_it_added(storage: MemoryStorage, spec: int) -> None:
    repo = make(storage, spec)
    put(repo, 0, 1)
    put(repo, 1, 1)
    put(repo, 0, 2)
    refs = context_of(repo).refs
    lineage = list(refs.ancestry(SnapshotId.parse(repo.lookup_branch("main"))))[::-1]
    found = list(snapshot_usage(context_of(repo).assets, lineage))
    one = next(storage.list("chunks/")).size_bytes
    assert [each.new_native_bytes for each in found] == [0, 0, one, one, one]
    assert [each.usage.chunks for each in found] == [0, 0, 1, 2, 2]
    assert found[-1].usage.native_bytes == 2 * one


def test_objects_are_counted_by_kind(storage: MemoryStorage, spec: int) -> None:
    repo = make(storage, spec)
    put(repo, 0, 1)
    kinds = objects_by_kind(storage)
    assert kinds["chunks"].objects == 1
    assert kinds["snapshots"].objects == 3
    assert sum(kind.size_bytes for kind in kinds.values()) == sum(
        item.size_bytes for item in storage.list("")
    )
