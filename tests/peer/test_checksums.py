"""Checksums of files and chunks are no news to the official packages, which verify them too."""

from __future__ import annotations

from pathlib import Path

import pytest

from frazil.formats.envelope import HEADER, has_checksum
from frazil.fsck import fsck
from frazil.storage.constructors import local_filesystem_storage
from tests.peer.conftest import Case
from tests.support.peer import PeerError

pytestmark = pytest.mark.peer


def files(repo: Path) -> dict[str, bytes]:
    """The binary files of a repository."""
    folders = ("snapshots", "manifests", "transactions")
    found = {path: path.read_bytes() for folder in folders for path in (repo / folder).iterdir()}
    if (repo / "repo").exists():
        found[repo / "repo"] = (repo / "repo").read_bytes()
    return {str(path): data for path, data in found.items()}


@pytest.mark.parametrize("sample", ["chunks", "checked"])
def test_both_read_and_commit_on_top(case: Case, sample: str) -> None:
    case.create()
    case.writer.call("write", case.repo, case.data, sample=sample)
    case.seen_alike()
    array = {"chunks": "some", "checked": "zstd"}[sample]
    case.reader.call("put", case.repo, array=array, index=1, value=3, message="by the other")
    case.writer.call("put", case.repo, array=array, index=2, value=4, message="and back")
    case.seen_alike()
    assert fsck(local_filesystem_storage(str(case.repo)), deep=True).is_sound


def test_all_our_files_have_one(case: Case, direction: str) -> None:
    if direction != "to_peer":
        pytest.skip("files of others may have none")
    case.create()
    case.writer.call("write", case.repo, case.data, sample="chunks")
    without = [
        name for name, data in files(case.repo).items() if not has_checksum(data[HEADER.size :])
    ]
    assert without == []


def test_the_official_package_refuses_what_does_not_match(case: Case, direction: str) -> None:
    if direction != "to_peer":
        pytest.skip("it is our files that have checksums")
    case.create()
    case.writer.call("write", case.repo, case.data, sample="chunks")
    whole = {path: path.read_bytes() for path in (case.repo / "snapshots").iterdir()}
    for path, data in whole.items():
        path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))  # a byte of the checksum
    with pytest.raises(PeerError, match=r"(?i)checksum|restored data|corrupt"):
        case.reader.call("describe", case.repo, case.data)
    for path, data in whole.items():
        path.write_bytes(data)
