"""Damaged files are told apart by the rule that they break."""

from __future__ import annotations

from collections import Counter

import pytest
from zstandard import ZstdCompressor

import frazil
from frazil.errors import RepositoryNotFoundError
from frazil.formats.envelope import HEADER, FileKind, seal, unseal
from frazil.formats.repo_info import REPO_KEY
from frazil.fsck import Code, Report, fsck
from frazil.fsck.files import (
    ascends,
    content_of,
    display_bytes,
    open_anyway,
    read_log_file,
    read_manifest_file,
    read_snapshot_file,
)
from frazil.ids import ManifestId, NodeId, SnapshotId
from frazil.storage.assets import log_key, manifest_key, snapshot_key
from frazil.storage.memory import MemoryStorage
from frazil.testing.faulty import FaultyStorage
from frazil.transaction.opened import context_of
from tests.support.generations import OLD
from tests.support.nodes import array_document, group_document
from tests.unit.fsck.repairs import v1, v2
from tests.unit.fsck.samples import Sick, commit, files_of

# --- single files ---


HEADERS = {
    "nothing": (0, b"", Code.FILE_SHORT),
    "another beginning": (0, b"NOPE", Code.FILE_MAGIC),
    "a spec to come": (36, b"\x09", Code.FILE_SPEC),
    "another kind": (37, b"\x04", Code.FILE_KIND),
    "another compression": (38, b"\x00", Code.FILE_COMPRESSION),
    "no compressed body": (39, b"this is no zstd frame", Code.FILE_BODY),
}


@pytest.mark.parametrize(("at", "value", "code"), HEADERS.values(), ids=HEADERS)
def test_a_damaged_header_is_told_by_its_field(
    sick: Sick, at: int, value: bytes, code: Code
) -> None:
    key = snapshot_key(sick.tip)
    blob = sick.get(key)
    damaged = blob[:at] + value + blob[at + len(value) :] if value else blob[:38]
    read = read_snapshot_file(damaged, key)
    assert [(each.code, each.target) for each in read.findings] == [(code, key)]
    assert (read.content, read.root, read.size_bytes) == (None, None, len(damaged))


def test_files_of_each_kind_are_read(sick: Sick) -> None:
    key = snapshot_key(sick.tip)
    snapshot = read_snapshot_file(sick.get(key), key)
    assert snapshot.content == sick.snapshot()
    assert (snapshot.spec, snapshot.findings) == (sick.spec, ())
    log = read_log_file(sick.get(log_key(sick.tip)), log_key(sick.tip))
    assert log.content is not None
    assert log.content.id == sick.tip
    manifest = read_manifest_file(sick.get(sick.manifest_key()), sick.manifest_key())
    assert manifest.content is not None
    assert manifest.content.num_refs == 4


def test_a_body_that_breaks_off_is_damaged_and_no_rule_of_its_own(sick: Sick) -> None:
    body = unseal(sick.get(sick.manifest_key()), FileKind.MANIFEST, key="").body
    for size in (0, 3, len(body) // 2):
        blob = seal(body[:size], FileKind.MANIFEST, spec=sick.spec)
        read = read_manifest_file(blob, "manifests/x")
        assert [each.code for each in read.findings] == [Code.FILE_DAMAGED]
        assert read.content is None


def test_only_a_file_of_its_name_is_content(sick: Sick) -> None:
    key = snapshot_key(sick.tip)
    read = read_snapshot_file(sick.get(key), key)
    assert content_of(read, sick.tip) is read.content
    assert content_of(read, sick.history[1]) is None
    assert content_of(read_snapshot_file(b"", key), sick.tip) is None
    assert content_of(None, sick.tip) is None


def test_names_ascend_by_their_bytes() -> None:
    assert ascends([])
    assert ascends([b"a", b"ab", b"b"])
    assert not ascends([b"a", b"a"])
    assert not ascends([b"b", b"a"])
    assert display_bytes(b"/caf\xe9") == "'/caf\ufffd'"


# --- the files of a repository ---


def test_snapshots_and_manifests_are_kept_and_logs_are_not(sick: Sick) -> None:
    storage = FaultyStorage(sick.storage)
    files = files_of(storage, sick.spec)
    tip, manifest = sick.tip, sick.manifest_id()
    for _ in range(3):
        assert files.snapshot(tip) is not None
        assert files.manifest(manifest) is not None
        assert files.log(tip) is not None
    read = Counter(key for operation, key in storage.calls if operation == "get")
    assert read == {snapshot_key(tip): 1, manifest_key(manifest): 1, log_key(tip): 3}


def test_what_is_not_there_is_asked_for_again(sick: Sick) -> None:
    files, name = files_of(sick.storage, sick.spec), SnapshotId.random()
    assert files.snapshot(name) is None
    sick.storage.put(snapshot_key(name), sick.get(snapshot_key(sick.tip)))
    assert files.snapshot(name) is not None
    assert files.manifest(ManifestId.random()) is None


def test_references_of_an_array_that_is_not_in_a_manifest_are_none(sick: Sick) -> None:
    files, manifest = files_of(sick.storage, sick.spec), sick.manifest_id()
    found = files.tables(manifest, sick.node("/a").id)
    assert found is not None
    assert len(found) == 4
    none = files.tables(manifest, NodeId.random())
    assert none is not None
    assert len(none) == 0
    sick.storage.put(sick.manifest_key(), b"garbage")
    assert files_of(sick.storage, sick.spec).tables(manifest, sick.node("/a").id) is None


def test_files_without_a_checksum_are_told_once(sick: Sick) -> None:
    files, key = files_of(sick.storage, sick.spec), sick.manifest_key()
    files.snapshot(sick.tip)
    assert files.unchecked() == {}
    blob = sick.get(key)
    body = unseal(blob, FileKind.MANIFEST, key=key).body
    plain = blob[: HEADER.size] + ZstdCompressor(write_checksum=False).compress(body)
    sick.storage.put(key, plain)
    files.manifest(sick.manifest_id())
    assert files.unchecked() == {key: len(plain)}
    assert files.unchecked() == {}


# --- repositories that cannot be opened ---


@v2
def test_a_repository_whose_entry_is_lost_is_known_by_its_snapshots(sick: Sick) -> None:
    sick.storage.put(REPO_KEY, b"garbage")
    assert open_anyway(sick.storage).generation.spec == 2
    sick.delete(REPO_KEY)
    assert open_anyway(sick.storage).generation.spec == 2


@v1
def test_a_repository_without_refs_is_known_by_its_snapshots(sick: Sick) -> None:
    for item in list(sick.storage.list("refs/")):
        sick.delete(item.key)
    assert open_anyway(sick.storage).generation.spec == 1


@pytest.mark.parametrize("spec", OLD)
def test_an_older_repository_is_opened_as_what_it_is(spec: str) -> None:
    storage = MemoryStorage()
    made = context_of(frazil.Repository.create(storage, spec_version=spec)).generation
    assert open_anyway(storage).generation == made


@pytest.mark.parametrize("names", [(), ("snapshots/short",), ("chunks/x", "manifests/y")])
def test_a_place_without_snapshots_is_no_repository(names: tuple[str, ...]) -> None:
    storage = MemoryStorage()
    for name in names:
        storage.put(name, b"hello")
    with pytest.raises(RepositoryNotFoundError):
        open_anyway(storage)


def test_an_open_repository_is_taken_as_it_is(sick: Sick) -> None:
    repository = sick.repository
    context = context_of(repository)
    assert open_anyway(repository) is context
    assert open_anyway(context) is context


# --- older generations ---


def told(report: Report) -> set[tuple[Code, str]]:
    """What was found, and in which files."""
    return {(finding.code, finding.target) for finding in report.findings}


@pytest.mark.parametrize("spec", ["g1", "g2", "g2-msgpack", "g3"])
def test_findings_name_the_files_of_older_generations(spec: str) -> None:
    storage = MemoryStorage()
    repository = frazil.Repository.create(storage, spec_version=spec)
    commit(repository, "first", {"zarr.json": group_document(), "a/zarr.json": array_document(4)})
    commit(repository, "second", {"a/c/0": b"a chunk"})
    tip, where = repository.lookup_branch("main"), context_of(repository).key_in_place
    snapshot = where(f"snapshots/{tip}")
    manifest = where(f"manifests/{repository.list_manifest_files(tip)[0].id}")
    opened = frazil.Repository.open(storage)
    whole = {key: storage.get(key) or b"" for key in (snapshot, manifest)}
    for key, blob in whole.items():
        code = Code.SNAPSHOT_MISSING if key == snapshot else Code.MANIFEST_MISSING
        storage.delete_many([key])
        assert told(fsck(opened)) == {(code, key)}
        storage.put(key, blob[: len(blob) // 2])
        assert told(fsck(opened)) == told(fsck(storage)) == {(Code.FILE_DAMAGED, key)}
        storage.put(key, blob)
    assert told(fsck(storage)) == set()


def test_a_snapshot_of_which_only_the_successor_is_there_is_missing() -> None:
    storage, newer = MemoryStorage(), MemoryStorage()
    repository = frazil.Repository.create(storage, spec_version="g3")
    tip = commit(repository, "first", {"zarr.json": group_document()})
    later = commit(
        frazil.Repository.create(newer, spec_version=1), "first", {"zarr.json": group_document()}
    )
    opened = frazil.Repository.open(storage)
    storage.put(f"snapshots/{tip}", newer.get(f"snapshots/{later}") or b"")
    assert (Code.SNAPSHOT_MISSING, f"snapshots/{tip}") in told(fsck(opened))


def test_a_lost_attribute_file_is_found() -> None:
    storage = MemoryStorage()
    repository = frazil.Repository.create(storage, spec_version="g1")
    commit(repository, "first", {"zarr.json": group_document(long="x" * 5000)})
    snapshot = context_of(repository).key_in_place(f"snapshots/{repository.lookup_branch('main')}")
    [file] = [item.key for item in storage.list("a/")]
    storage.delete_many([file])
    report = fsck(storage)
    assert told(report) == {(Code.FILE_DAMAGED, snapshot)}
    assert file in report.findings[0].detail
