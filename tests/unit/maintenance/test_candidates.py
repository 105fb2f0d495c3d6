"""What may be garbage, above all what expired snapshots left behind."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
import zarr

from frazil.bulk.write import write_region
from frazil.model.config import RepositoryConfig
from frazil.repository import Repository
from frazil.storage.memory import MemoryStorage
from frazil.testing.faulty import FaultyStorage
from tests.support.ages import AT_ONCE
from tests.support.checks import check_repository, garbage_of
from tests.support.generations import Spec, needs_expiry
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
