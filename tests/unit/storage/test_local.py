"""Local storage: what only a directory of files can do or suffer."""

from __future__ import annotations

import errno
import fcntl
import os
import pickle
import re
import resource
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from frazil.errors import ErrorKind, FrazilError, InvalidInputError, ReadOnlyError, StorageError
from frazil.storage.base import PLAIN, Attributes, Fetched, LostRace, Unchanged, Version, Written
from frazil.storage.file_lock import LOCK_NAME, RootLock
from frazil.storage.local import Durability, LocalStorage
from frazil.storage.tuning import DELETED_TOGETHER, LARGE_OBJECT, SYNC_ALL_FROM
from frazil.storage.turns import TURN_NAME
from tests.support.forking import Forked
from tests.support.power_cut import Recorder, Synced

CHUNK = Attributes(is_chunk=True, is_unnamed=True)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "repository"


@pytest.fixture
def storage(root: Path) -> LocalStorage:
    return LocalStorage(root)


def version_of(storage: LocalStorage, key: str) -> Version:
    found = storage.fetch(key)
    assert isinstance(found, Fetched)
    return found.version


def files_below(root: Path) -> set[str]:
    return {str(path.relative_to(root)) for path in root.rglob("*") if not path.is_dir()}


# --- the place ---


def test_settings_are_those_of_the_official_package(storage: LocalStorage) -> None:
    found = storage.default_settings()
    assert found.concurrency is not None
    assert found.retries is not None
    concurrency, retries = found.concurrency, found.retries
    assert concurrency.max_concurrent_requests_for_object == 5
    assert concurrency.ideal_concurrent_request_size == 4096
    assert (retries.max_tries, retries.initial_backoff_ms, retries.max_backoff_ms) == (1, 0, 0)


def test_looking_at_a_missing_directory_creates_nothing(storage: LocalStorage, root: Path) -> None:
    assert storage.get("repo") is None
    assert storage.is_empty()
    assert storage.can_write
    assert storage.delete_many(["repo"]).keys == 1
    assert storage.put_if("repo", b"x", Version("1-1-1")) == LostRace("repo")
    assert not root.exists()


def test_the_first_write_creates_the_directory(tmp_path: Path) -> None:
    storage = LocalStorage(tmp_path / "a/b/c")
    storage.put("refs/branch.main/ref.json", b"{}")
    assert (tmp_path / "a/b/c/refs/branch.main/ref.json").read_bytes() == b"{}"


def test_a_remade_directory_is_seen(storage: LocalStorage, root: Path) -> None:
    storage.put("repo", b"old")
    version = version_of(storage, "repo")
    assert isinstance(storage.put_if("repo", b"older", version), Written)
    shutil.rmtree(root)
    assert storage.get("repo") is None
    storage.put("repo", b"new")
    assert isinstance(storage.put_if("repo", b"newer", version_of(storage, "repo")), Written)
    assert LocalStorage(root).get("repo") == b"newer"


def test_it_pickles_and_tells_its_place(storage: LocalStorage, root: Path) -> None:
    storage.put("k", b"x")
    copy: LocalStorage = pickle.loads(pickle.dumps(storage))
    assert copy.get("k") == b"x"
    assert copy.url == f"file://{root}"
    assert repr(copy) == f"<frazil.Storage>\ntype: local filesystem\npath: {root}\n"
    assert LocalStorage("/data/with space").url == "file:///data/with%20space"


def test_a_relative_path_stays_where_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    storage = LocalStorage("here")
    monkeypatch.chdir("/")
    storage.put("k", b"x")
    assert (tmp_path / "here/k").read_bytes() == b"x"


@pytest.mark.parametrize("path", ["", "a\0b"])
def test_impossible_roots_are_refused(path: str) -> None:
    with pytest.raises(InvalidInputError):
        LocalStorage(path)


def test_versions_begin_with_the_official_tag(storage: LocalStorage, root: Path) -> None:
    storage.put("repo", b"12345")
    status = (root / "repo").stat()
    expected = f"{status.st_ino:x}-{status.st_mtime_ns // 1000:x}-5"
    assert version_of(storage, "repo").etag == expected


# --- names ---


def test_staging_names_and_locks_are_not_objects(storage: LocalStorage, root: Path) -> None:
    storage.put("repo", b"x")
    storage.put_if("repo", b"y", version_of(storage, "repo"))
    for name in ("repo#1", "repo#123456", "chunk#"):
        (root / name).write_bytes(b"half")
    assert LOCK_NAME in files_below(root)
    assert [item.key for item in storage.list()] == ["repo"]


@pytest.mark.parametrize("key", ["repo#1", "a/b#22", LOCK_NAME, "a#", "surrogate\ud800"])
def test_keys_that_no_listing_would_show_are_refused(storage: LocalStorage, key: str) -> None:
    for use in (storage.get, storage.head, storage.fetch):
        with pytest.raises(InvalidInputError):
            use(key)
    with pytest.raises(InvalidInputError):
        storage.put(key, b"x")


@pytest.mark.parametrize("prefix", ["chunks", "/", "../", "a//", "a/../", "/etc/"])
def test_prefixes_must_be_folders_of_this_place(storage: LocalStorage, prefix: str) -> None:
    with pytest.raises(InvalidInputError):
        storage.list(prefix)


def test_old_leftovers_of_killed_writers_can_be_removed(storage: LocalStorage, root: Path) -> None:
    storage.put("chunks/a", b"x")
    storage.put("repo", b"x")
    storage.put_if("repo", b"y", version_of(storage, "repo"))
    with storage.commit_turn(lambda: None):
        (root / "chunks/b#99").write_bytes(b"half")
    now = datetime.now(UTC)
    assert storage.remove_staging(now - timedelta(hours=1)) == 0
    assert storage.remove_staging(now + timedelta(hours=1)) == 1
    assert files_below(root) == {"chunks/a", "repo", LOCK_NAME, TURN_NAME}


def test_leftovers_that_vanish_meanwhile_are_no_failure(storage: LocalStorage, root: Path) -> None:
    storage.put("repo", b"x")
    for number in range(2000):
        (root / f"repo#{number}").touch()
    later = datetime.now(UTC) + timedelta(hours=1)
    with ThreadPoolExecutor(4) as pool:
        removed = pool.map(storage.remove_staging, [later] * 4)
    assert sum(removed) == 2000
    assert files_below(root) == {"repo"}


def test_writes_leave_no_other_files(storage: LocalStorage, root: Path) -> None:
    storage.put("chunks/a", b"x", CHUNK)
    storage.put("snapshots/a", b"x")
    storage.put_if("repo", b"x", None)
    storage.put_if("repo", b"y", None)
    storage.copy_if("repo", "overwritten/repo.1", version_of(storage, "repo"))
    assert files_below(root) == {"chunks/a", "snapshots/a", "repo", "overwritten/repo.1"}


# --- links ---


def test_the_root_may_be_a_link(tmp_path: Path, root: Path) -> None:
    root.mkdir()
    (tmp_path / "link").symlink_to(root)
    LocalStorage(tmp_path / "link").put("a/k", b"x")
    assert (root / "a/k").read_bytes() == b"x"


def test_links_do_not_lead_out(tmp_path: Path, storage: LocalStorage, root: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret").write_bytes(b"secret")
    storage.put("chunks/real", b"x")
    (root / "chunks/link").symlink_to(outside / "secret")
    (root / "snapshots").symlink_to(outside)
    for key in ("chunks/link", "snapshots/secret"):
        for use in (storage.get, storage.fetch, storage.head):
            with pytest.raises(StorageError, match="symbolic links"):
                use(key)
    with pytest.raises(StorageError, match="symbolic links"):
        storage.put("snapshots/new", b"x")
    with pytest.raises(StorageError, match="symbolic links"):
        storage.list("snapshots/")
    assert [item.key for item in storage.list()] == ["chunks/real"]
    storage.put("chunks/link", b"replaced, not followed")
    assert (outside / "secret").read_bytes() == b"secret"
    assert {path.name for path in outside.iterdir()} == {"secret"}


def test_trusted_links_are_followed(tmp_path: Path, root: Path) -> None:
    big_disk = tmp_path / "big-disk"
    big_disk.mkdir()
    root.mkdir()
    (root / "chunks").symlink_to(big_disk)
    storage = LocalStorage(root, follow_symlinks=True)
    storage.put("chunks/a", b"x", CHUNK)
    assert (big_disk / "a").read_bytes() == b"x"
    assert [item.key for item in storage.list("chunks/")] == ["chunks/a"]
    assert pickle.loads(pickle.dumps(storage)).get("chunks/a") == b"x"


# --- failures ---


def test_a_file_as_root_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    for root in (tmp_path / "file", tmp_path / "file/below"):
        storage = LocalStorage(root)
        uses: list[Callable[[], object]] = [
            lambda storage=storage: storage.get("repo"),  # type: ignore[misc]
            lambda storage=storage: list(storage.list()),  # type: ignore[misc]
            lambda storage=storage: storage.put("repo", b""),  # type: ignore[misc]
            lambda storage=storage: storage.put_if("repo", b"", None),  # type: ignore[misc]
        ]
        for use in uses:
            with pytest.raises(StorageError, match=re.escape(str(tmp_path / "file"))):
                use()


def test_an_object_cannot_be_a_folder_too(storage: LocalStorage) -> None:
    storage.put("a", b"x")
    assert storage.get("a/b") is None
    with pytest.raises(StorageError, match="a file is where a directory should be"):
        storage.put("a/b", b"x")
    storage.put("c/d", b"x")
    with pytest.raises(StorageError, match="directory"):
        storage.put("c", b"x")
    assert storage.get("a") == b"x"


def test_a_pipe_is_no_object_and_does_not_block(storage: LocalStorage, root: Path) -> None:
    root.mkdir()
    os.mkfifo(root / "pipe")
    with pytest.raises(StorageError, match="not a regular file"):
        storage.get("pipe")
    assert storage.head("pipe") is None
    assert storage.is_empty()


def test_too_long_a_key_is_named(storage: LocalStorage) -> None:
    storage.put("a", b"x")
    with pytest.raises(StorageError, match="too long"):
        storage.get("x" * 300)
    with pytest.raises(StorageError, match="too long"):
        storage.put("x" * 300, b"x")


@pytest.mark.parametrize("attributes", [Attributes(), CHUNK], ids=["metadata", "chunk"])
def test_a_full_disk_leaves_nothing_behind(
    storage: LocalStorage, root: Path, attributes: Attributes
) -> None:
    storage.put("chunks/a", b"x")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, hard))
    try:
        with pytest.raises(StorageError, match="chunks/b"):
            storage.put("chunks/b", b"x" * 100_000, attributes)
        with pytest.raises(StorageError, match="repo"):
            storage.put_if("repo", b"x" * 100_000, None)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert files_below(root) == {"chunks/a"}


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that every user of this machine can reach."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    yield folder
    folder.chmod(0o755)
    shutil.rmtree(folder)


def as_ordinary_user(work: Callable[[], object]) -> object:
    """Do something without the powers of root; return what it gave or raised."""
    mine = os.geteuid()
    if mine == 0:
        os.seteuid(65534)
    try:
        return work()
    except FrazilError as error:
        return error
    finally:
        os.seteuid(mine)


def test_a_read_only_directory_reads_and_says_so(open_folder: Path) -> None:
    LocalStorage(open_folder).put("chunks/a", b"x")
    for folder in (open_folder / "chunks", open_folder):
        folder.chmod(0o555)
    storage = LocalStorage(open_folder)
    assert as_ordinary_user(lambda: storage.can_write) is False
    assert as_ordinary_user(lambda: storage.get("chunks/a")) == b"x"
    writes: list[Callable[[], object]] = [
        lambda: storage.put("chunks/b", b"x"),
        lambda: storage.put("chunks/b", b"x", CHUNK),
        lambda: storage.put("new/b", b"x"),
        lambda: storage.put_if("repo", b"x", None),
        lambda: storage.put_if("chunks/a", b"y", version_of(storage, "chunks/a")),
        lambda: storage.delete_many(["chunks/a"]),
    ]
    for write in writes:
        error = as_ordinary_user(write)
        assert isinstance(error, ReadOnlyError)
        assert error.kind == ErrorKind.READ_ONLY_STORAGE
        assert str(open_folder) in str(error)
    assert storage.get("chunks/a") == b"x"


def test_unreadable_is_not_absent(open_folder: Path) -> None:
    LocalStorage(open_folder).put("chunks/a", b"x")
    (open_folder / "chunks").chmod(0)
    storage = LocalStorage(open_folder)
    for use in (storage.get, storage.fetch, storage.head):
        error = as_ordinary_user(lambda use=use: use("chunks/a"))  # type: ignore[misc]
        assert isinstance(error, StorageError)
        assert "permission denied" in str(error)
    error = as_ordinary_user(lambda: list(storage.list("chunks/")))
    assert isinstance(error, StorageError)
    (open_folder / "chunks").chmod(0o755)


def refuse(number: int) -> Callable[..., None]:
    def call(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number))

    return call


def test_no_hard_links_no_creation(
    storage: LocalStorage, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "link", refuse(errno.EPERM))
    with pytest.raises(StorageError, match=r"no hard links \(link\)") as caught:
        storage.put_if("repo", b"x", None)
    assert caught.value.kind == ErrorKind.STORAGE_CONFIG
    assert files_below(root) == set()


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP])
def test_no_locks_no_replacement(
    storage: LocalStorage, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    storage.put("repo", b"old")
    version = version_of(storage, "repo")
    monkeypatch.setattr(fcntl, "flock", refuse(number))
    with pytest.raises(StorageError, match=r"no advisory locks \(flock\)"):
        storage.put_if("repo", b"new", version)
    assert storage.get("repo") == b"old"


def test_locks_granted_to_everybody_are_found_out(
    storage: LocalStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage.put("repo", b"old")
    version = version_of(storage, "repo")
    monkeypatch.setattr(fcntl, "flock", lambda *_: None)
    with pytest.raises(StorageError, match="no advisory locks"):
        storage.put_if("repo", b"new", version)
    assert storage.get("repo") == b"old"


def refuse_at(monkeypatch: pytest.MonkeyPatch, name: str, path: str, number: int) -> None:
    """Let a system call fail for one path."""
    real = getattr(os, name)

    def call(at: str, *more: Any, **how: Any) -> Any:  # noqa: ANN401 - what the system call takes
        if at == path:
            raise OSError(number, os.strerror(number), at)
        return real(at, *more, **how)

    monkeypatch.setattr(os, name, call)


def test_a_folder_that_nothing_can_be_deleted_from_is_told(
    storage: LocalStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage.put("chunks/a", b"one")
    quick = LocalStorage(storage.path, durability="none")  # others fail when they sync
    refuse_at(monkeypatch, "open", f"{storage.path}/chunks", errno.EACCES)
    [(key, reason)] = quick.delete_many(["chunks/a"]).failed
    assert key == "chunks/a"
    assert "cannot write here" in reason
    assert storage.get("chunks/a") == b"one"


def test_a_folder_that_a_failing_disk_does_not_show_is_told(
    storage: LocalStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage.put("chunks/a", b"one")
    again = LocalStorage(storage.path)
    refuse_at(monkeypatch, "lstat", f"{storage.path}/chunks", errno.EIO)
    with pytest.raises(StorageError, match=f"path={storage.path}/chunks"):
        again.get("chunks/a")


# --- the lock ---


@pytest.mark.parametrize("work", ["put", "put_if", "delete_many"])
def test_who_changes_an_object_waits_for_whoever_replaces_it(
    storage: LocalStorage, root: Path, work: str
) -> None:
    """Between looking at it and renaming over it nobody else may have written."""
    storage.put("repo", b"old")
    version = version_of(storage, "repo")
    changes: dict[str, Callable[[], object]] = {
        "put": lambda: storage.put("repo", b"new"),
        "put_if": lambda: storage.put_if("repo", b"new", version),
        "delete_many": lambda: storage.delete_many(["repo"]),
    }
    with ThreadPoolExecutor(1) as pool:
        with RootLock(str(root), timeout_s=5).hold():
            begun = pool.submit(changes[work])
            time.sleep(0.1)
            assert not begun.done()
            assert storage.get("repo") == b"old"
        begun.result(timeout=20)
    assert storage.get("repo") == (None if work == "delete_many" else b"new")


# --- names and sizes, as garbage collection asks for them ---


def test_names_and_sizes_of_a_folder(storage: LocalStorage, root: Path) -> None:
    storage.put_many([("chunks/a", b"12345"), ("chunks/b", b""), ("manifests/m", b"1")])
    (root / "chunks" / "folder").mkdir()
    os.utime(root / "chunks" / "a", ns=(1_700_000_000_123_456_789, 1_700_000_000_123_456_789))
    assert sorted(storage.names("chunks/")) == ["a", "b", "folder"]
    assert storage.names("manifests/") == ["m"]
    assert storage.names("none/") == []
    first, second, folder, missing = storage.measure("chunks/", ["a", "b", "folder", "gone"])
    assert first == (5, 1_700_000_000_123_456)
    assert second is not None
    assert second[0] == 0
    assert folder is missing is None
    assert storage.measure("none/", ["a", "b"]) == [None, None]
    with pytest.raises(InvalidInputError):
        storage.names("chunks")


def test_names_and_sizes_are_not_those_behind_a_link(
    storage: LocalStorage, root: Path, tmp_path: Path
) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "secret").write_bytes(b"secret")
    root.mkdir()
    (root / "chunks").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StorageError):
        storage.names("chunks/")
    assert storage.measure("chunks/", ["secret"]) == [None]
    trusting = LocalStorage(root, follow_symlinks=True)
    assert trusting.names("chunks/") == ["secret"]
    assert trusting.measure("chunks/", ["secret"])[0] is not None


@pytest.mark.skipif(os.geteuid() == 0, reason="root may look everywhere")
def test_a_folder_that_may_not_be_read_is_told(storage: LocalStorage, root: Path) -> None:
    storage.put("chunks/a", b"1")
    (root / "chunks").chmod(0)
    try:
        with pytest.raises(StorageError):
            storage.names("chunks/")
    finally:
        (root / "chunks").chmod(0o755)


# --- versions and durability ---


def test_equal_times_and_sizes_are_told_apart(storage: LocalStorage) -> None:
    """Inodes are reused and a tick of the clock is long: 200 versions in a moment, all new."""
    storage.put_if("repo", b"000", None)
    known = [version_of(storage, "repo")]
    for number in range(1, 200):
        written = storage.put_if("repo", f"{number:03}".encode(), known[-1])
        assert isinstance(written, Written)
        known.append(written.version)
    assert len({version.etag for version in known}) == 200
    assert all(isinstance(storage.fetch("repo", version), Fetched) for version in known[:-1])
    assert storage.fetch("repo", known[-1]) == Unchanged()


def test_a_foreign_writer_with_the_same_tag_does_not_deceive(
    storage: LocalStorage, root: Path
) -> None:
    storage.put("repo", b"old")
    version = version_of(storage, "repo")
    status = (root / "repo").stat()
    with (root / "repo").open("r+b") as file:  # same inode, size and, below, time
        file.write(b"new")
    os.utime(root / "repo", ns=(status.st_mtime_ns, status.st_mtime_ns))
    assert storage.put_if("repo", b"mine", version) == LostRace("repo")
    assert storage.get("repo") == b"new"


def test_an_object_with_another_time_and_the_same_bytes_can_be_replaced(
    storage: LocalStorage,
) -> None:
    """As after a backup was put back: the version that was read before is still there."""
    storage.put("repo", b"old")
    found = storage.fetch("repo")
    assert isinstance(found, Fetched)
    os.utime(f"{storage.path}/repo", ns=(0, 0))
    assert isinstance(storage.put_if("repo", b"new", found.version), Written)
    assert storage.get("repo") == b"new"


def test_a_version_is_that_of_the_bytes_whatever_becomes_of_the_memory_they_came_from(
    storage: LocalStorage,
) -> None:
    memory = bytearray(b"one")
    written = storage.put_if("repo", memory, None)
    assert isinstance(written, Written)
    memory[:] = b"two"
    storage.put("repo", b"two")
    assert storage.put_if("repo", b"three", written.version) == LostRace("repo")


@pytest.mark.parametrize("count", [1, 2, 100, SYNC_ALL_FROM - 1, SYNC_ALL_FROM])
@pytest.mark.parametrize("attributes", [CHUNK, PLAIN])
def test_making_durable(
    root: Path, count: int, attributes: Attributes, monkeypatch: pytest.MonkeyPatch
) -> None:
    root.mkdir()
    recorder = Recorder(root, monkeypatch)
    storage = LocalStorage(root / "below")
    keys = [f"chunks/{number % 3}/{number}" for number in range(count)]
    with recorder.watching() as recording:
        storage.put_many([(key, b"content") for key in keys], attributes)
        storage.make_durable([*keys, keys[0]])
    left = [*recording.remains(recording.done)]
    assert left == [{f"below/{key}": b"content" for key in keys}]
    syncs = [event for event in recording.events if isinstance(event, Synced)]
    assert any(event.what is None for event in syncs) == (count >= SYNC_ALL_FROM)


@pytest.mark.parametrize("work", ["make_durable", "put_if"])
def test_names_of_folders_that_somebody_else_made_last_too(
    root: Path, work: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that was killed, or another program, did not wait for the disk."""
    root.mkdir()
    recorder = Recorder(root, monkeypatch)
    storage = LocalStorage(root / "below")
    with recorder.watching() as recording:
        for folder in ("below", "below/chunks", "below/chunks/deep"):
            os.mkdir(root / folder)  # noqa: PTH102 - the call that is recorded
        if work == "put_if":
            assert isinstance(storage.put_if("chunks/deep/a", b"x", None), Written)
        else:
            storage.put("chunks/deep/a", b"x", CHUNK)
            storage.make_durable(["chunks/deep/a"])
    assert [*recording.remains(recording.done)] == [{"below/chunks/deep/a": b"x"}]


def test_what_is_gone_cannot_be_made_durable(storage: LocalStorage) -> None:
    storage.put("chunks/a", b"x")
    with pytest.raises(StorageError) as caught:
        storage.make_durable(["chunks/a", "chunks/gone"])
    assert caught.value.kind == ErrorKind.OBJECT_NOT_FOUND


@pytest.mark.parametrize("durability", ["none", "commit"])
def test_durability_can_be_turned_off(
    root: Path, durability: Durability, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With it the content, the name and the folder of each conditional write are on the disk."""
    root.mkdir()
    recorder = Recorder(root, monkeypatch)
    storage = LocalStorage(root / "below", durability=durability)
    with recorder.watching() as recording:
        written = storage.put_if("refs/a", b"first", None)
        assert isinstance(written, Written)
        written = storage.put_if("refs/a", b"second", written.version)
        assert isinstance(written, Written)
        storage.put("refs/b", b"large" * LARGE_OBJECT, CHUNK)
        storage.make_durable(["refs/a", "refs/b"])
    left = [*recording.remains(recording.done)]
    if durability == "none":
        assert {} in left
        assert not any(isinstance(event, Synced) for event in recording.events)
    else:
        # Of the lock, on which no data depends, not even the name need be there.
        seen = [{k: v for k, v in tree.items() if "#" not in k} for tree in left]
        assert all(
            s == {"below/refs/a": b"second", "below/refs/b": b"large" * LARGE_OBJECT} for s in seen
        )


def test_a_disk_that_fails_is_told(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", refuse(errno.EIO))
    with pytest.raises(StorageError):
        LocalStorage(root).put_if("refs/other", b"x", None)
    with pytest.raises(InvalidInputError):
        LocalStorage(root, durability="always")  # type: ignore[arg-type]


# --- second names and copies, also when somebody replaces them ---

LINK = os.link


@pytest.fixture
def held(storage: LocalStorage) -> LocalStorage:
    """A storage that holds `a`."""
    storage.put("a", b"one")
    return storage


def file_of(storage: LocalStorage, key: str) -> int:
    return Path(storage.path, key).stat().st_ino


def without_links(monkeypatch: pytest.MonkeyPatch, number: int = errno.EPERM) -> None:
    """A file system on which a file has one name."""
    monkeypatch.setattr(os, "link", refuse(number))


def test_a_copy_of_what_is_replaced_meanwhile_is_not_kept(
    held: LocalStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = version_of(held, "a")

    def late(source: str, target: str, **how: bool) -> None:
        held.put("a", b"two")
        LINK(source, target, **how)

    monkeypatch.setattr(os, "link", late)
    assert isinstance(held.copy_if("a", "kept/a", known), LostRace)
    assert held.get("kept/a") is None


def test_without_second_names_the_bytes_are_copied(
    held: LocalStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_links(monkeypatch)
    known = version_of(held, "a")
    assert isinstance(held.copy_if("a", "kept/a", known), Written)
    assert held.get("kept/a") == b"one"
    held.put("a", b"two")
    assert isinstance(held.copy_if("a", "kept/b", known), LostRace)
    assert held.get("kept/b") is None


def test_what_is_replaced_while_its_bytes_are_copied_is_not_kept(
    held: LocalStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = version_of(held, "a")

    def replaced(*_: object, **__: object) -> None:
        held.put("a", b"two")
        raise OSError(errno.EPERM, "no second names")

    monkeypatch.setattr(os, "link", replaced)
    assert isinstance(held.copy_if("a", "kept/a", known), LostRace)
    assert held.get("kept/a") is None


def test_a_disk_that_fails_is_not_taken_for_one_without_second_names(
    held: LocalStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_links(monkeypatch, errno.EIO)
    with pytest.raises(StorageError):
        held.copy_if("a", "kept/a", version_of(held, "a"))
    with pytest.raises(StorageError):
        held.duplicate("a", "kept/a")
    assert held.get("kept/a") is None


def test_a_duplicate_is_a_second_name_unless_that_is_not_wanted(held: LocalStorage) -> None:
    for _ in range(2):
        held.duplicate("a", "linked")
        assert file_of(held, "linked") == file_of(held, "a")
    held.duplicate("a", "copied", may_link=False)
    assert file_of(held, "copied") != file_of(held, "a")
    assert held.get("linked") == held.get("copied") == b"one"
    held.put("a", b"two")
    held.duplicate("a", "linked")
    assert held.get("linked") == b"two"


def test_many_deletions_in_a_folder_that_is_a_link_are_refused(
    held: LocalStorage, tmp_path: Path
) -> None:
    away = tmp_path / "away"
    away.mkdir()
    keys = [f"chunks/{number}" for number in range(DELETED_TOGETHER + 1)]
    for key in keys:
        (away / key.removeprefix("chunks/")).write_bytes(b"x")
    Path(held.path, "chunks").symlink_to(away)
    with pytest.raises(StorageError, match="symbolic links"):
        held.delete_many(keys)
    assert len([*away.iterdir()]) == len(keys)


def test_large_objects_come_in_the_order_that_they_were_asked_for(held: LocalStorage) -> None:
    values = {f"k{number}": bytes([number]) * (LARGE_OBJECT + number % 2) for number in range(4)}
    for key, value in values.items():
        held.put(key, value)
    asked: list[tuple[str, int | None, int | None]] = [("a", None, None), ("none", 0, 1)]
    asked += [(key, None, None) for key in values]
    assert held.get_many(asked) == [b"one", None, *values.values()]


# --- death ---


def _die_at(step: int, root: str, expected: Version | None) -> None:
    """Write conditionally and be killed at the n-th call into C."""
    storage = LocalStorage(root)
    calls = 0

    def watch(frame: FrameType, event: str, argument: object) -> None:
        nonlocal calls
        calls += event in ("c_call", "c_return")
        if calls == step:
            os.kill(os.getpid(), signal.SIGKILL)

    sys.setprofile(watch)
    storage.put_if("repo", b"new" * 1000, expected)
    sys.setprofile(None)


@pytest.mark.slow
@pytest.mark.parametrize("each", [3, pytest.param(1, marks=pytest.mark.soak)])
@pytest.mark.parametrize("is_update", [False, True], ids=["create", "replace"])
def test_death_at_every_step_leaves_old_or_new(tmp_path: Path, is_update: bool, each: int) -> None:
    outcomes = []
    for step in range(1, 400, each):
        storage = LocalStorage(tmp_path / str(step))
        old = b"old" if is_update else None
        if old is not None:
            storage.put("repo", old)
        expected = version_of(storage, "repo") if is_update else None
        code = Forked(_die_at, step, storage.path, expected).wait()
        found = storage.get("repo")
        outcomes.append(found)
        assert found in (old, b"new" * 1000)
        again = version_of(storage, "repo") if found is not None else None
        # It would be refused if it had to wait for a lock of the dead.
        assert isinstance(storage.put_if("repo", b"next", again), Written)
        assert [item.key for item in storage.list()] == ["repo"]
        if code != -signal.SIGKILL:
            assert code == 0
            break
    assert len(outcomes) > 30
    assert (outcomes[0], outcomes[-1]) == (old, b"new" * 1000)
