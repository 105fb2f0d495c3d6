"""What is done to single files: names that vanish, writes that end early, errors in our words."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from frazil.errors import ErrorKind, ReadOnlyError, StorageError
from frazil.storage.base import Bytes, Deleted, Version
from frazil.storage.posix import (
    MAX_PARTS,
    READ,
    StagedFile,
    create_file,
    delete_files,
    etag,
    failure,
    is_same,
    is_staging,
    naming,
    opened_folder,
    read_span,
    sizes_and_times,
    staging_files,
    version_of,
    write_all,
    write_parts,
)


@pytest.fixture
def staged(tmp_path: Path) -> Iterator[StagedFile]:
    """A file on its way to the name `repo`."""
    made = StagedFile(str(tmp_path / "repo"))
    write_all(made.descriptor, b"new")
    yield made
    made.close()


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


# --- staged files ---


def test_a_staged_file_is_no_object_until_it_is_renamed(tmp_path: Path, staged: StagedFile) -> None:
    (tmp_path / "repo").write_bytes(b"old")
    [hidden] = names(tmp_path) - {"repo"}
    assert is_staging(hidden)
    staged.rename()
    assert names(tmp_path) == {"repo"}
    assert (tmp_path / "repo").read_bytes() == b"new"
    assert etag(staged.status) == etag((tmp_path / "repo").stat())


def test_a_link_is_made_only_where_nothing_is(tmp_path: Path, staged: StagedFile) -> None:
    assert staged.link()
    assert staged.link()  # a network disk may have done it and lost the reply
    other = StagedFile(str(tmp_path / "repo"))
    write_all(other.descriptor, b"other")
    assert not other.link()
    other.close()
    assert (tmp_path / "repo").read_bytes() == b"new"


def test_a_staged_file_leaves_no_temporary_name(tmp_path: Path) -> None:
    for number in range(2):
        made = StagedFile(str(tmp_path / "repo"))
        assert made.link() == (number == 0)
        made.close()
    assert names(tmp_path) == {"repo"}


def test_a_rename_whose_reply_was_lost_has_happened(tmp_path: Path, staged: StagedFile) -> None:
    [hidden] = names(tmp_path)
    (tmp_path / hidden).rename(tmp_path / "repo")
    staged.rename()
    assert (tmp_path / "repo").read_bytes() == b"new"


def test_a_staged_file_that_somebody_deleted_is_not_taken_for_the_target(
    tmp_path: Path, staged: StagedFile
) -> None:
    [hidden] = names(tmp_path)
    (tmp_path / hidden).unlink()
    (tmp_path / "repo").write_bytes(b"old")
    with pytest.raises(FileNotFoundError):
        staged.rename()
    assert (tmp_path / "repo").read_bytes() == b"old"


@pytest.mark.parametrize("ahead_s", [0, 5, 100_000])
def test_a_file_is_dated_after_the_one_that_it_replaces(
    tmp_path: Path, staged: StagedFile, ahead_s: int
) -> None:
    """Also where the clock was set back since."""
    old = tmp_path / "old"
    old.write_bytes(b"old")
    when = os.fstat(staged.descriptor).st_mtime_ns + ahead_s * 1_000_000_000
    os.utime(old, ns=(when, when))
    staged.date_after(old.stat())
    assert os.fstat(staged.descriptor).st_mtime_ns // 1000 > old.stat().st_mtime_ns // 1000


@pytest.mark.parametrize(
    ("name", "is_ours"),
    [("repo#1", True), ("repo#", True), ("#12", True), ("repo", False), ("a#b", False)],
)
def test_temporary_names_end_in_a_sign_and_digits(name: str, is_ours: bool) -> None:
    assert is_staging(name) == is_ours


def test_temporary_files_are_found_below_a_folder_but_not_behind_links(tmp_path: Path) -> None:
    (tmp_path / "in/deep").mkdir(parents=True)
    (tmp_path / "out").mkdir()
    (tmp_path / "in/link").symlink_to(tmp_path / "out")
    for path in ("in/a#1", "in/deep/b#", "in/deep/c", "in/deep/d#e", "out/f#1"):
        (tmp_path / path).touch()
    found = sorted(staging_files(str(tmp_path / "in")))
    assert found == [str(tmp_path / "in/a#1"), str(tmp_path / "in/deep/b#")]
    assert [*staging_files(str(tmp_path / "none"))] == []


# --- bytes ---


@pytest.mark.parametrize("count", [0, 1, MAX_PARTS, MAX_PARTS + 1])
def test_any_number_of_parts_is_written_in_order(tmp_path: Path, count: int) -> None:
    parts = [b"%d," % number for number in range(count)]
    create_file(str(tmp_path / "file"), parts)
    assert (tmp_path / "file").read_bytes() == b"".join(parts)


@pytest.mark.parametrize("taken", [1, 3, 4, 5, 9])
def test_a_write_that_ends_early_is_continued(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, taken: int
) -> None:
    parts: list[Bytes] = [b"one", bytearray(b""), memoryview(b"two"), b"three"]
    monkeypatch.setattr(os, "writev", lambda at, all_: os.write(at, b"".join(all_)[:taken]))
    descriptor = os.open(tmp_path / "file", os.O_WRONLY | os.O_CREAT)
    write_parts(descriptor, parts)
    os.close(descriptor)
    assert (tmp_path / "file").read_bytes() == b"onetwothree"


def test_a_new_file_is_created_whole_or_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    create_file(str(tmp_path / "file"), [b"first"])
    with pytest.raises(FileExistsError):
        create_file(str(tmp_path / "file"), [b"second"])
    assert (tmp_path / "file").read_bytes() == b"first"

    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "full")

    monkeypatch.setattr(os, "writev", full)
    with pytest.raises(OSError, match="full"):
        create_file(str(tmp_path / "other"), [b"x"])
    assert names(tmp_path) == {"file"}


def test_parts_of_a_file_are_read_and_a_folder_is_none(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"0123456789")
    spans = {(None, None): b"0123456789", (2, 5): b"234", (8, 99): b"89", (-3, None): b"789"}
    for (start, end), wanted in spans.items():
        descriptor = os.open(tmp_path / "file", READ)
        assert read_span(descriptor, start, end) == wanted
        os.close(descriptor)
    descriptor = os.open(tmp_path, READ)
    assert read_span(descriptor, None, None) is None
    os.close(descriptor)


# --- versions ---


def test_versions_are_told_apart_by_content_even_where_inode_time_and_size_agree(
    tmp_path: Path,
) -> None:
    (tmp_path / "file").write_bytes(b"old")
    status = (tmp_path / "file").stat()
    old, new = version_of(status, b"old"), version_of(status, b"new")
    assert old.etag == new.etag
    assert not is_same(old, new)
    assert is_same(Version("another", old.generation), old)  # a copy has another inode
    assert is_same(old, Version(old.etag))
    assert not is_same(old, Version("another"))


# --- folders and errors ---


def test_what_cannot_be_deleted_is_told_by_its_key(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "folder").mkdir()
    keys = ["chunks/file", "chunks/folder", "chunks/gone"]
    with opened_folder(str(tmp_path), follow_symlinks=False) as folder:
        done = delete_files(folder, "/place/chunks", keys)
        assert delete_files(folder, "/place/chunks", []) == Deleted(0)
    assert done.keys == 2
    [(key, reason)] = done.failed
    assert key == "chunks/folder"
    assert "/place/chunks/folder" in reason
    assert names(tmp_path) == {"folder"}


def test_a_folder_that_is_a_link_is_opened_only_on_request(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real/a").write_bytes(b"12345")
    (tmp_path / "real/b").symlink_to("a")
    (tmp_path / "link").symlink_to("real")
    with opened_folder(str(tmp_path / "link"), follow_symlinks=True) as folder:
        first, second, third = sizes_and_times(folder, ["a", "b", "none"])
    assert first is not None
    assert first[0] == 5
    assert second is third is None
    refused = pytest.raises(NotADirectoryError)
    with refused, opened_folder(str(tmp_path / "link"), follow_symlinks=False):
        pass


@pytest.mark.parametrize(
    ("number", "writing", "text", "kind"),
    [
        (errno.EACCES, False, "permission denied", ErrorKind.IO),
        (errno.ENOSPC, True, "no space left on the disk", ErrorKind.IO),
        (errno.EDQUOT, True, "disk quota exhausted", ErrorKind.IO),
        (errno.ELOOP, False, "symbolic links inside a repository", ErrorKind.IO),
        (errno.ENAMETOOLONG, True, "object key too long", ErrorKind.IO),
        (errno.EIO, False, os.strerror(errno.EIO), ErrorKind.IO),
        (errno.ENOENT, True, "file has vanished", ErrorKind.OBJECT_NOT_FOUND),
    ],
)
def test_the_reason_and_the_path_are_told(
    number: int, writing: bool, text: str, kind: ErrorKind
) -> None:
    told = failure(OSError(number, os.strerror(number)), "/data/repo", writing=writing)
    assert isinstance(told, StorageError)
    assert told.kind is kind
    assert text in str(told)
    assert "/data/repo" in str(told)


@pytest.mark.parametrize("number", [errno.EROFS, errno.EACCES, errno.EPERM])
def test_a_place_that_may_not_be_written_is_called_read_only(number: int) -> None:
    with pytest.raises(ReadOnlyError, match="/data/repo") as caught, naming("/data/repo"):
        raise OSError(number, os.strerror(number))
    assert caught.value.kind is ErrorKind.READ_ONLY_STORAGE
