"""Whose bytes they are: alone, shared, and free after expiry."""

from __future__ import annotations

import numpy as np
import pytest
import zarr

from frazil.bulk.write import write_region
from frazil.errors import InvalidInputError
from frazil.maintenance.sharing import Share
from frazil.model.config import RepositoryConfig
from frazil.repository import Repository
from frazil.storage.memory import MemoryStorage
from tests.support.ages import AT_ONCE
from tests.support.generations import SAME_KEYS, Spec, needs_expiry, spec_id
from tests.unit.maintenance.samples import keys, later, written_at

CHUNK = 16
"""Bytes of one chunk."""


@pytest.fixture(params=SAME_KEYS, ids=spec_id)
def spec(request: pytest.FixtureRequest) -> Spec:
    """Generations whose objects are looked at by key."""
    found: Spec = request.param
    return found


def make(storage: MemoryStorage, spec: Spec, *, packing: bool = False) -> tuple[Repository, str]:
    """Arrays of four chunks; one of `a` is written twice on main, one of `b` on dev."""
    config = RepositoryConfig(inline_chunk_threshold_bytes=0)
    repo = Repository.create(storage, config=config, spec_version=spec)
    session = repo.writable_session("main")
    for name in ("a", "g/b"):
        zarr.create_array(
            session.store, name=name, shape=(8,), chunks=(2,), dtype="i8", compressors=None
        )
        write_region(session, name, ..., np.arange(1, 9), packing=packing)
    base = session.commit("base")
    repo.create_branch("dev", base)
    session = repo.writable_session("dev")
    write_region(session, "g/b", slice(0, 2), 50, packing=packing)
    session.commit("dev")
    for value in (60, 70):
        session = repo.writable_session("main")
        write_region(session, "a", slice(0, 2), value, packing=packing)
        last = session.commit(f"main {value}")
    return repo, last


def by_name(shares: tuple[Share, ...]) -> dict[str, tuple[int, int, int]]:
    return {
        each.name: (
            each.referenced_bytes // CHUNK,
            each.unique_bytes // CHUNK,
            each.shared_bytes // CHUNK,
        )
        for each in shares
    }


def test_branches_share_what_both_lead_to(storage: MemoryStorage, spec: Spec) -> None:
    repo, _ = make(storage, spec)
    repo.create_tag("v1", repo.lookup_branch("dev"))
    found = repo.space.shares("branch")
    assert by_name(found.owners) == {"main": (10, 2, 8), "dev": (9, 0, 9), "v1": (9, 0, 9)}
    assert {each.name: each.kind for each in found.owners}["v1"] == "tag"
    assert found.total.referenced_bytes == 11 * CHUNK


def test_arrays_own_what_all_snapshots_hold_of_them(storage: MemoryStorage, spec: Spec) -> None:
    repo, _ = make(storage, spec)
    found = repo.space.shares("array")
    assert by_name(found.owners) == {"/a": (6, 6, 0), "/g/b": (5, 5, 0)}
    assert [each.name for each in found.owners] == ["/a", "/g/b"]


def test_snapshots_share_what_did_not_change(storage: MemoryStorage, spec: Spec) -> None:
    repo, last = make(storage, spec)
    found = by_name(repo.space.shares("snapshot").owners)
    assert found[last] == (8, 1, 7)
    assert len(found) == 5


def test_expiry_frees_what_only_old_snapshots_hold(storage: MemoryStorage, spec: Spec) -> None:
    repo, last = make(storage, spec)
    needs_expiry(repo)
    cutoff = written_at(repo, last)
    found = repo.space.shares("array", older_than=cutoff)
    assert {e.name: e.reclaimable_bytes // CHUNK for e in found.owners} == {"/a": 1, "/g/b": 0}
    assert found.total.reclaimable_bytes == CHUNK
    before = len(keys(storage, "chunks/"))
    repo.expire_snapshots(cutoff)
    repo.garbage_collect(later(), unsafe_minimum_age=AT_ONCE)
    assert before - len(keys(storage, "chunks/")) == 1
    assert repo.space.shares("array").total.reclaimable_bytes == 0


def test_bytes_in_packs_that_stay_are_stranded(storage: MemoryStorage, spec: Spec) -> None:
    repo, last = make(storage, spec, packing=True)
    needs_expiry(repo)
    repo.delete_branch("dev")
    session = repo.writable_session("main")
    write_region(session, "a", slice(0, 6), 80, packing=True)
    last = session.commit("more")
    total = repo.space.shares("array", older_than=written_at(repo, last)).total
    assert total.stranded_bytes == 3 * CHUNK
    assert total.reclaimable_bytes == 2 * CHUNK


def test_growth_tells_what_each_commit_added(storage: MemoryStorage, spec: Spec) -> None:
    repo, _ = make(storage, spec)
    added = [(each.entry.message, each.new_native_bytes // CHUNK) for each in repo.space.growth()]
    assert added[1:] == [("base", 8), ("dev", 1), ("main 60", 1), ("main 70", 1)]
    assert all(each.new_manifest_bytes > 0 for each in list(repo.space.growth())[1:])


def test_other_owners_are_refused(storage: MemoryStorage) -> None:
    repo, _ = make(storage, 2)
    with pytest.raises(InvalidInputError, match="array, snapshot, branch"):
        repo.space.shares("user")  # type: ignore[arg-type]
