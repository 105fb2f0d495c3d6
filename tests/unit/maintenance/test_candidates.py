"""What may be garbage, above all what expired snapshots left behind."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest
import zarr

from frazil.bulk.write import write_region
from frazil.ids import SnapshotId
from frazil.maintenance.candidates import (
    PHASES,
    of_everything,
    of_expired,
    of_snapshots,
    unused_attribute_files,
)
from frazil.maintenance.walk import WalkLimits, native_chunks
from frazil.model.config import RepositoryConfig
from frazil.repository import Repository
from frazil.storage.local import LocalStorage
from frazil.storage.memory import MemoryStorage
from frazil.testing.faulty import FaultyStorage
from frazil.transaction.opened import context_of
from tests.support.ages import AT_ONCE
from tests.support.checks import check_repository, garbage_of
from tests.support.generations import Spec, needs_expiry
from tests.support.nodes import group_document, write_keys
from tests.unit.maintenance.samples import (
    expired,
    keys,
    later,
    make,
    put,
    values,
    with_lost,
    written_at,
)


class Counting(FaultyStorage):
    """A storage that remembers what was listed."""

    def __init__(self, inner: MemoryStorage) -> None:
        super().__init__(inner)
        self.listed: list[str] = []

    def list(self, prefix: str = ""):  # type: ignore[no-untyped-def]  # noqa: ANN201
        self.listed.append(prefix)
        return super().list(prefix)


def test_what_expired_snapshots_left_is_found_without_listing_chunks(
    storage: MemoryStorage, spec: Spec
) -> None:
    expired(storage, spec)
    watched = Counting(storage)
    repo = Repository.open(watched)
    full = set(repo.space.plan_garbage(later(), unsafe_minimum_age=AT_ONCE).keys())
    watched.listed.clear()
    plan = repo.space.plan_garbage(later(), incremental=True, unsafe_minimum_age=AT_ONCE)
    assert set(plan.keys()) == full
    assert plan.how == "incremental"
    assert plan.summary.chunks_deleted == 2
    assert not {"chunks/", "manifests/", "transactions/"} & set(watched.listed)
    done = repo.space.collect_planned(plan, unsafe_minimum_age=AT_ONCE)
    assert done.chunks_deleted == 2
    assert values(repo)[:2] == [3, 7]
    assert garbage_of(repo) == set()
    assert (
        repo.space.plan_garbage(later(), incremental=True, unsafe_minimum_age=AT_ONCE).objects == 0
    )


def test_nothing_expired_costs_no_manifest(storage: MemoryStorage, spec: Spec) -> None:
    repo = make(storage, spec)
    put(repo, 0, 1)
    assert (
        repo.space.plan_garbage(later(), incremental=True, unsafe_minimum_age=AT_ONCE).objects == 0
    )


def test_branches_that_are_gone_leave_garbage_too(storage: MemoryStorage, spec: Spec) -> None:
    repo = make(storage, spec)
    repo.create_branch("dev", repo.lookup_branch("main"))
    put(repo, 0, 5, "dev")
    repo.delete_branch("dev")
    plan = repo.space.plan_garbage(later(), incremental=True, unsafe_minimum_age=AT_ONCE)
    assert set(plan.keys()) == set(
        repo.space.plan_garbage(later(), unsafe_minimum_age=AT_ONCE).keys()
    )
    assert (plan.summary.snapshots_deleted, plan.summary.chunks_deleted) == (1, 1)


@pytest.mark.parametrize("since", [0, 2])
def test_expired_tips_are_found_in_backups(storage: MemoryStorage, since: int) -> None:
    repo = make(storage, 2)
    repo.create_branch("dev", repo.lookup_branch("main"))
    put(repo, 0, 5, "dev")
    last = put(repo, 0, 6)
    repo.expire_snapshots(written_at(repo, last), delete_expired_branches=True)
    assert repo.list_branches() == {"main"}
    for place in range(since):
        put(repo, place + 1, 7)
    assert set(
        repo.space.plan_garbage(later(), incremental=True, unsafe_minimum_age=AT_ONCE).keys()
    ) == set(repo.space.plan_garbage(later(), unsafe_minimum_age=AT_ONCE).keys())


def test_young_files_stay(storage: MemoryStorage, spec: Spec) -> None:
    repo = expired(storage, spec)
    before = datetime.now(UTC) - timedelta(days=1)
    assert (
        repo.space.plan_garbage(before, incremental=True, unsafe_minimum_age=AT_ONCE).objects == 0
    )
    with pytest.raises(TypeError):
        repo.space.plan_garbage(datetime(2024, 1, 1), incremental=True, unsafe_minimum_age=AT_ONCE)


def test_only_some_snapshots_may_be_looked_at(storage: MemoryStorage, spec: Spec) -> None:
    repo, ids = with_lost(storage, spec)
    plan = repo.space.plan_garbage(
        later(), incremental=True, snapshots=[ids[0]], unsafe_minimum_age=AT_ONCE
    )
    assert f"snapshots/{ids[0]}" in set(plan.keys())
    assert f"snapshots/{ids[1]}" not in set(plan.keys())
    tip = repo.lookup_branch("main")
    assert (
        repo.space.plan_garbage(
            later(), incremental=True, snapshots=[tip], unsafe_minimum_age=AT_ONCE
        ).objects
        == 0
    )


def test_a_pack_stays_while_one_of_its_chunks_is_needed(storage: MemoryStorage, spec: Spec) -> None:
    config = RepositoryConfig(inline_chunk_threshold_bytes=0)
    repo = Repository.create(storage, config=config, spec_version=spec)
    session = repo.writable_session("main")
    zarr.create_array(
        session.store, name="a", shape=(8,), chunks=(1,), dtype="i4", compressors=None
    )
    write_region(session, "a", ..., np.arange(1, 9), packing=True)
    session.commit("packed")
    needs_expiry(repo)
    for value in (20, 30):
        session = repo.writable_session("main")
        write_region(session, "a", slice(0, 7), value, packing=True)
        last = session.commit("most of it")
    repo.expire_snapshots(written_at(repo, last))
    assert len(keys(storage, "chunks/")) == 3
    plan = repo.space.plan_garbage(later(), incremental=True, unsafe_minimum_age=AT_ONCE)
    assert plan.summary.chunks_deleted == 1
    repo.space.collect_planned(plan, unsafe_minimum_age=AT_ONCE)
    assert np.asarray(repo.readonly_session("main").array("a")[:]).tolist() == [30] * 7 + [8]
    check_repository(repo)


# --- the candidates themselves ---


def candidates_of(repo: Repository, **options: int) -> dict[str, set[str]]:
    """Keys of everything that is old, by folder."""
    found = of_everything(context_of(repo), later(), **options)
    parts = (found.snapshots, found.logs, found.manifests)
    chunks = found.chunks(found.manifests)
    return {part.prefix: set(part.keys()) for part in (*parts, chunks)}


def test_everything_old_with_the_name_of_an_id_is_a_candidate(
    storage: MemoryStorage, spec: Spec
) -> None:
    repo = make(storage, spec)
    put(repo, 0, 1)
    expected = {folder: keys(storage, folder) for folder in PHASES}
    storage.put("chunks/notes.txt", b"hello")
    assert candidates_of(repo) == expected
    assert candidates_of(repo, at_once=1) == expected
    early = of_everything(context_of(repo), datetime.now(UTC) - timedelta(hours=1))
    assert len(early.snapshots) == len(early.chunks(early.manifests)) == 0


def test_a_disk_is_asked_for_ages_of_snapshots_alone(tmp_path: Path) -> None:
    repo = make(LocalStorage(tmp_path), 1)
    put(repo, 0, 1)
    found = of_everything(context_of(repo), datetime.now(UTC) - timedelta(hours=1))
    assert (len(found.snapshots), len(found.old_snapshots)) == (0, 0)
    assert (len(found.manifests), found.manifests.is_measured) == (1, False)


def test_what_snapshots_need_is_a_candidate_with_them(storage: MemoryStorage, spec: Spec) -> None:
    repo = make(storage, spec)
    first, second = put(repo, 0, 1), put(repo, 1, 2)
    found = of_snapshots(
        context_of(repo), [SnapshotId.parse(first)], later(), WalkLimits(), native_chunks
    )
    assert found.snapshots.keys() == [f"snapshots/{first}"]
    assert found.logs.keys() in ([], [f"transactions/{first}"])
    named = {f"manifests/{file.id}" for file in repo.list_manifest_files(first)}
    assert set(found.manifests.keys()) == named
    assert len(found.chunks(found.manifests)) == 1
    # Chunks go with manifests that are garbage, and none of them is.
    assert len(found.chunks(found.manifests.part(0, 0))) == 0
    assert second not in str(found.snapshots.keys())


def test_snapshots_whose_files_are_gone_are_no_candidates(storage: MemoryStorage) -> None:
    repo = make(storage, 2)
    wanted = [SnapshotId.random()]
    found = of_snapshots(context_of(repo), wanted, later(), WalkLimits(), native_chunks)
    assert len(found.snapshots) == len(found.manifests) == 0
    assert len(found.chunks(found.manifests)) == 0


def test_expiry_is_known_without_its_backup_as_far_as_logs_tell(storage: MemoryStorage) -> None:
    repo, lost = with_lost(storage, 2)
    storage.delete_many([*keys(storage, "overwritten/")])
    found = of_expired(context_of(repo), later(), WalkLimits(), native_chunks)
    assert {f"snapshots/{one}" for one in lost} <= set(found.snapshots.keys())


def test_attribute_files_that_no_snapshot_names_are_unused(storage: MemoryStorage) -> None:
    repo = Repository.create(storage, spec_version="g1")
    session = repo.writable_session("main")
    write_keys(session, {"zarr.json": group_document(long="x" * 5000)})
    session.commit("long")
    context = context_of(repo)
    assert len(keys(storage, "a/")) == 1
    assert unused_attribute_files(context, later()) == []
    storage.put("a/left.parquet", b"of a session that never committed")
    assert [item.key for item in unused_attribute_files(context, later())] == ["a/left.parquet"]
    assert unused_attribute_files(context, datetime.now(UTC) - timedelta(hours=1)) == []
