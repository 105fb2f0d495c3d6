"""Damaged files are told apart by the rule that they break."""

from __future__ import annotations

import pytest

import frazil
from frazil.fsck import Code, Report, fsck
from frazil.storage.memory import MemoryStorage
from frazil.transaction.opened import context_of
from tests.support.nodes import array_document, group_document
from tests.unit.fsck.samples import commit


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
