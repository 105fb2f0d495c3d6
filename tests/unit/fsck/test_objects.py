"""Verification finds what references need and storage does not have."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest
import zarr

import frazil
from frazil.fsck import Code, Report, fsck, objects, verify
from frazil.ids import ChunkId
from frazil.maintenance.id_sets import needed_objects
from frazil.model.chunks import ChunkRef, ChunkTable, NativeRef, VirtualRef
from frazil.model.config import RepositoryConfig
from frazil.model.nodes import Coordinates
from frazil.progress import Progress
from frazil.repository import Repository
from frazil.storage.memory import MemoryStorage
from frazil.testing.faulty import FaultyStorage
from tests.support.generations import SAME_KEYS, Spec, spec_id
from tests.unit.maintenance.samples import LENGTH, commit_refs, keys, make, put


@pytest.fixture(params=SAME_KEYS, ids=spec_id)
def spec(request: pytest.FixtureRequest) -> Spec:
    """Generations whose objects have the same keys."""
    found: Spec = request.param
    return found


@pytest.fixture
def storage() -> MemoryStorage:
    """An empty place."""
    return MemoryStorage()


@pytest.fixture
def repo(storage: MemoryStorage, spec: Spec) -> Repository:
    """An array with all chunks, one of them written twice, and a branch with an older state."""
    repo = make(storage, spec)
    for index in range(LENGTH):
        first = put(repo, index, index + 1)
    repo.create_branch("old", first)
    put(repo, 0, 100)
    return repo


def troubles(found: Report) -> dict[str, Code]:
    """What is wrong with which object."""
    return {finding.target: finding.code for finding in found.findings}


@pytest.fixture(params=[0, 10_000], ids=["listed", "asked"])
def few(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both ways to learn the sizes of objects."""
    monkeypatch.setattr(objects, "FEW_OBJECTS", request.param)


@pytest.mark.usefixtures("few")
def test_a_sound_repository_has_no_findings(repo: Repository) -> None:
    found = verify(repo)
    assert found.is_clean
    assert found.native_objects == LENGTH + 1
    assert found.snapshots == 11
    assert found.virtual_sources == 0


@pytest.mark.usefixtures("few")
def test_missing_and_short_objects_are_found_with_their_chunks(
    repo: Repository, storage: MemoryStorage
) -> None:
    session = repo.readonly_session("main")
    node = session.state.array("/line")
    refs = {index: session.state.chunk_ref(node, (index,)) for index in (2, 5)}
    names = {
        index: f"chunks/{ref.chunk_id}" for index, ref in refs.items() if isinstance(ref, NativeRef)
    }
    storage.delete_many([names[2]])
    storage.put(names[5], b"abc")
    found = verify(repo)
    assert troubles(found) == {names[2]: Code.CHUNK_MISSING, names[5]: Code.CHUNK_SHORT}
    by_target = {finding.target: finding for finding in found.findings}
    assert by_target[names[2]].path == "/line"
    assert by_target[names[2]].chunks[0] == (2,)
    assert by_target[names[2]].references > 1  # in many manifests
    assert "3 bytes" in by_target[names[5]].detail
    assert all(finding.path == "/line" for finding in found.findings)


def test_one_snapshot_is_checked_alone(repo: Repository, storage: MemoryStorage) -> None:
    newest = repo.readonly_session("main")
    ref = newest.state.chunk_ref(newest.state.array("/line"), (0,))
    assert isinstance(ref, NativeRef)
    storage.delete_many([f"chunks/{ref.chunk_id}"])
    assert verify(repo, [repo.lookup_branch("old")]).is_clean
    found = verify(repo, [repo.lookup_branch("main")])
    assert (found.snapshots, len(found.findings)) == (1, 1)


def test_lost_and_damaged_manifests_are_findings_and_the_rest_is_checked(
    repo: Repository, storage: MemoryStorage, spec: Spec
) -> None:
    tip = repo.list_manifest_files(repo.lookup_branch("main"))[0].id
    old = repo.list_manifest_files(repo.lookup_branch("old"))[0].id
    storage.delete_many([f"manifests/{tip}"])
    blob = storage.get(f"manifests/{old}")
    assert blob is not None
    storage.put(f"manifests/{old}", blob[:50])
    found = verify(repo)
    damaged = Code.FILE_BODY if spec in (1, 2) else Code.FILE_DAMAGED
    assert troubles(found) == {
        f"manifests/{tip}": Code.MANIFEST_MISSING,
        f"manifests/{old}": damaged,
    }
    assert found.native_objects == LENGTH - 1


def test_lost_snapshots_are_findings(repo: Repository, storage: MemoryStorage) -> None:
    middle = [info.id for info in repo.ancestry(branch="main")][3]
    storage.delete_many([f"snapshots/{middle}"])
    found = verify(Repository.open(storage))
    assert troubles(found) == {f"snapshots/{middle}": Code.SNAPSHOT_MISSING}


def test_packed_chunks_need_the_longest_range(storage: MemoryStorage, spec: Spec) -> None:
    repo = make(storage, spec)
    pack = ChunkId.random()
    storage.put(f"chunks/{pack}", bytes(100))
    commit_refs(repo, {(0,): NativeRef(pack, 0, 50), (1,): NativeRef(pack, 50, 50)})
    assert verify(repo).is_clean
    commit_refs(repo, {(0,): NativeRef(pack, 0, 50), (1,): NativeRef(pack, 51, 50)})
    found = verify(repo)
    assert troubles(found) == {f"chunks/{pack}": Code.CHUNK_SHORT}
    assert "101 are needed" in found.findings[0].detail


@pytest.mark.parametrize("spec", [1, 2], ids=["v1", "v2"])  # others refuse such a manifest
def test_a_range_that_wraps_around_is_too_long(storage: MemoryStorage, spec: Spec) -> None:
    repo = make(storage, spec)
    pack = ChunkId.random()
    storage.put(f"chunks/{pack}", bytes(100))
    commit_refs(repo, {(0,): NativeRef(pack, 2**64 - 10, 20)})
    assert troubles(verify(repo)) == {f"chunks/{pack}": Code.CHUNK_SHORT}


def test_findings_are_bounded(repo: Repository, storage: MemoryStorage) -> None:
    storage.delete_many(sorted(keys(storage, "chunks/")))
    found = verify(repo, max_findings=3)
    assert len(found.findings) + found.more_findings == LENGTH + 1
    assert len(found.findings) == 3


def test_progress_reaches_its_end(repo: Repository) -> None:
    last: dict[str, tuple[int, int]] = {}

    def note(now: Progress) -> None:
        last[now.what] = now.done, now.total

    verify(repo, progress=note)
    assert set(last) == {"snapshots", "manifests", "chunk objects"}
    assert all(done == total for done, total in last.values())


@pytest.mark.parametrize("check", [fsck, verify])
@pytest.mark.parametrize("spec", [1, 2], ids=["v1", "v2"])
def test_every_file_is_read_once(check: Callable[[Repository], Report], spec: int) -> None:
    storage = FaultyStorage(MemoryStorage())
    repo = make(storage, spec)
    for index in range(LENGTH):
        put(repo, index, index + 1)
    repo = Repository.open(storage)
    storage.forget_calls()
    assert check(repo).is_clean
    read = [key for operation, key in storage.calls if operation == "get"]
    files = Counter(key for key in read if key.startswith(("snap", "mani", "tran")))
    assert set(files.values()) == {1}
    assert {key.partition("/")[0] for key in files} >= {"snapshots", "manifests"}


def test_needs_keep_the_longest_end_of_each_object() -> None:
    random = np.random.default_rng(7)
    names = random.integers(0, 256, (300, 12), np.uint8)
    picks = random.integers(0, 300, 2000)
    ends = random.integers(1, 10**9, 2000).astype(np.uint64)
    tables = [
        ChunkTable.from_refs(
            1,
            [((n,), NativeRef(ChunkId(names[picks[n]].tobytes()), 0, int(ends[n]))) for n in part],
        )
        for part in np.array_split(np.arange(2000), 9)
    ]
    ids, longest, counts = needed_objects(tables)
    expected = {
        names[i].tobytes(): (int(ends[picks == i].max()), int((picks == i).sum()))
        for i in np.unique(picks)
    }
    found = zip(ids, longest.tolist(), counts.tolist(), strict=True)
    assert {row.tobytes(): (end, count) for row, end, count in found} == expected


# --- virtual sources ---


def virtual(root: Path, checksum: bool) -> tuple[Repository, Path]:
    """Two chunks in one file."""
    (root / "files").mkdir()
    file = root / "files" / "a.bin"
    file.write_bytes(bytes(8))
    prefix = f"file://{root}/files/"
    config = RepositoryConfig()
    config.set_virtual_chunk_container(
        frazil.VirtualChunkContainer(prefix, frazil.local_filesystem_store(str(file.parent)))
    )
    repo = Repository.create(
        MemoryStorage(),
        config,
        authorize_virtual_chunk_access={prefix: frazil.LocalFileSystemAccess},
    )
    when = int(file.stat().st_mtime) + 1 if checksum else None
    refs: dict[Coordinates, ChunkRef] = {
        (n,): VirtualRef(f"{prefix}a.bin", 4 * n, 4, when) for n in range(2)
    }
    commit_refs(repo, refs)
    return repo, file


def test_unchanged_sources_are_fine_and_asked_once(tmp_path: Path) -> None:
    repo, _ = virtual(tmp_path, checksum=True)
    found = verify(repo, virtual=True)
    assert found.is_clean
    assert (found.virtual_references, found.virtual_sources) == (2, 1)


def test_sources_that_are_gone_short_or_changed_are_found(tmp_path: Path) -> None:
    repo, file = virtual(tmp_path, checksum=False)
    file.write_bytes(bytes(7))
    [short] = verify(repo, virtual=True).findings
    assert (short.code, short.references) == (Code.SOURCE_SHORT, 2)
    file.unlink()
    [gone] = verify(repo, virtual=True).findings
    assert gone.code == Code.SOURCE_UNREADABLE
    assert verify(repo).is_clean


def test_sources_newer_than_their_references_have_changed(tmp_path: Path) -> None:
    repo, file = virtual(tmp_path, checksum=True)
    later = file.stat().st_mtime + 100
    os.utime(file, (later, later))
    [changed] = verify(repo, virtual=True).findings
    assert changed.code == Code.SOURCE_CHANGED


def test_sources_without_leave_are_not_touched(tmp_path: Path) -> None:
    repo, _ = virtual(tmp_path, checksum=False)
    closed = repo.reopen(authorize_virtual_chunk_access={})
    [finding] = verify(closed, virtual=True).findings
    assert finding.code == Code.SOURCE_UNAUTHORIZED


def test_sources_of_virtual_chunks_are_asked_if_that_is_wanted(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    for name in ("one", "two", "three"):
        (data / f"{name}.bin").write_bytes(bytes(range(8)))
    prefix = data.as_uri() + "/"
    config = frazil.RepositoryConfig.default()
    store = frazil.ObjectStoreConfig.LocalFileSystem(str(data))
    config.set_virtual_chunk_container(frazil.VirtualChunkContainer(prefix, store))
    allowed = {prefix: frazil.LocalFileSystemAccess}
    repository = frazil.Repository.create(str(tmp_path / "repo"), config, allowed)
    session = repository.writable_session("main")
    zarr.create_array(
        session.store, name="t", shape=(24,), chunks=(8,), dtype="u1", compressors=None
    )
    when = datetime.now(UTC) + timedelta(seconds=2)
    for index, name in enumerate(("one", "two", "three")):
        session.store.set_virtual_ref(
            f"t/c/{index}", f"{prefix}{name}.bin", offset=0, length=8, checksum=when
        )
    session.commit("virtual")
    report = fsck(repository, deep=True, virtual=True)
    assert report.is_clean
    assert (report.virtual_sources, report.decoded_chunks) == (3, 3)
    (data / "one.bin").unlink()
    (data / "two.bin").write_bytes(b"abc")
    os.utime(data / "two.bin", (0, 0))
    later = when.timestamp() + 3600
    os.utime(data / "three.bin", (later, later))
    assert fsck(repository).is_clean
    found = fsck(repository, virtual=True)
    assert found.codes() == {Code.SOURCE_UNREADABLE, Code.SOURCE_SHORT, Code.SOURCE_CHANGED}
    unauthorised = frazil.Repository.open(str(tmp_path / "repo"))
    report = fsck(unauthorised, virtual=True)
    assert report.is_sound
    assert report.codes() == {Code.SOURCE_UNAUTHORIZED}


def test_inline_chunks_need_nothing() -> None:
    repo = Repository.create(MemoryStorage())
    with repo.transaction("main", message="small") as store:
        zarr.create_array(store, name="a", shape=(4,), dtype="i1")[:] = 1
    found = verify(repo)
    assert (found.is_clean, found.native_objects) == (True, 0)
