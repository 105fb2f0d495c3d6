"""Nothing is found after anything that one does to a repository."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest
import zarr

import frazil
from frazil.errors import FormatError
from frazil.fsck import Code, Report, fsck, repair
from frazil.storage.memory import MemoryStorage
from frazil.transaction.opened import context_of
from frazil.upgrade import upgrade_repository
from tests.support.actions import CASES, Prepare, base_of
from tests.support.ages import AT_ONCE
from tests.support.generations import OLD
from tests.support.nodes import array_document, group_document, write_keys
from tests.unit.fsck.samples import commit, make

AWAY = timedelta(days=1)


def assert_clean(report: Report) -> None:
    """No errors and no warnings."""
    assert report.is_clean, "\n".join(map(str, report.findings))


@pytest.mark.parametrize(("action", "spec"), CASES)
def test_nothing_is_found_after(action: Prepare, spec: int) -> None:
    storage = MemoryStorage()
    action(base_of(storage, spec))()
    assert_clean(fsck(storage))


@pytest.mark.parametrize("spec", [1, 2])
def test_nothing_is_found_after_expiry_and_collection(spec: int) -> None:
    storage = MemoryStorage()
    repository = make(storage, spec)
    middle = list(repository.ancestry(branch="main"))[2].written_at
    repository.expire_snapshots(middle + timedelta(microseconds=1))
    assert_clean(fsck(storage))
    repository.garbage_collect(datetime.now(UTC) + AWAY, unsafe_minimum_age=AT_ONCE)
    assert_clean(fsck(storage))
    commit(repository, "goes on", a__c__0=b"another!")
    report = fsck(storage, deep=True)
    assert_clean(report)
    assert sum(report.unreferenced.values()) == 0


def test_nothing_is_found_after_the_expiry_of_two_branches() -> None:
    storage = MemoryStorage()
    repository = frazil.Repository.create(storage, spec_version="g1")
    repository.create_branch("b", repository.lookup_branch("main"))
    for branch in ("main", "b", "main", "b"):
        session = repository.writable_session(branch)
        write_keys(session, {f"{branch}/zarr.json": group_document()})
        session.commit(branch, allow_empty=True)
    assert repository.expire_snapshots(datetime.now(UTC) + AWAY)
    assert_clean(fsck(storage))


def test_nothing_is_found_after_expiry_before_and_after_an_upgrade() -> None:
    storage = MemoryStorage()
    repository = make(storage, 1)
    repository.expire_snapshots(list(repository.ancestry(branch="main"))[1].written_at)
    upgraded = upgrade_repository(repository)
    last = datetime.now(UTC)
    for number in range(3):
        commit(upgraded, f"goes on {number}", a__c__0=f"number {number}".encode())
    assert upgraded.expire_snapshots(last)
    assert_clean(fsck(storage))


@pytest.mark.parametrize("expired", [False, True])
def test_nothing_is_found_after_an_upgrade(expired: bool) -> None:
    storage = MemoryStorage()
    repository = make(storage, 1)
    if expired:
        repository.expire_snapshots(datetime.now(UTC) + AWAY)
    upgraded = upgrade_repository(repository)
    assert_clean(fsck(storage))
    commit(upgraded, "goes on", a__c__0=b"another!")
    moving = upgraded.rearrange_session("main")
    moving.move("/b", "/g/b")
    moving.commit("moved")
    assert_clean(fsck(storage, deep=True))


@pytest.mark.parametrize("spec", [1, 2])
def test_nothing_is_found_after_packing_and_resizing(spec: int, tmp_path: Path) -> None:
    repository = frazil.Repository.create(str(tmp_path / "repo"), spec_version=spec)
    session = repository.writable_session("main")
    array = zarr.create_array(
        session.store, name="t", shape=(40, 50), chunks=(5, 50), dtype="float32", fill_value=0
    )
    array[:] = np.arange(2000, dtype="float32").reshape(40, 50)
    session.commit("filled")
    repository.space.compact()
    session = repository.writable_session("main")
    array = zarr.open_array(session.store, path="t")
    array.resize((23, 50))
    array.attrs["title"] = "smaller"
    session.commit("shrunk")
    session = repository.writable_session("main")
    zarr.open_array(session.store, path="t").resize((50, 50))
    session.commit("grown")
    report = fsck(repository, deep=True)
    assert_clean(report)
    assert report.decoded_chunks > 8


@pytest.mark.parametrize("spec", OLD)
def test_repositories_from_before_spec_1_are_checked_too(spec: str) -> None:
    storage = MemoryStorage()
    settings = frazil.RepositoryConfig(inline_chunk_threshold_bytes=4)
    repository = frazil.Repository.create(storage, spec_version=spec).reopen(settings)
    commit(repository, "first", {"zarr.json": group_document(), "a/zarr.json": array_document(4)})
    for index in range(3):
        commit(repository, f"chunk {index}", {f"a/c/{index}": b"native chunk"})
    assert_clean(fsck(repository))
    assert_clean(fsck(storage))
    with pytest.raises(FormatError, match="only checked"):
        repair(storage)
    objects = context_of(repository).storage
    objects.delete_many([next(item.key for item in objects.list("chunks/"))])
    report = fsck(storage)
    assert report.codes() == {Code.CHUNK_MISSING}
    assert report.findings[0].path == "/a"
