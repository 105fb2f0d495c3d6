"""Storage in a directory of a POSIX file system, safe against races and crashes.

**Writing.** Objects are staged under `<name>#<digits>` beside their target (a name the
official package skips in listings, and so do we) and renamed. Only those that nothing refers
to before a commit (chunks, manifests, snapshots, logs: their ids are random) are created under
their own name at once: a torn one left by a crash is garbage like any other, and a rename
costs half as much again. Large ones are sent to the disk right away (`EarlySync`), so that the
commit need not wait for them.

**Replacing** (`put_if` with a version) stages and syncs the new bytes, takes the lock of the
root (`file_lock`), compares the content with the expected version and renames. **Creating**
(`put_if` without) is link(2), atomic even against writers that know nothing of our lock.
Deleting a few objects takes the lock too. Readers take none. Writers of the official package
take none either: it compares and overwrites without, so let it not commit at the same time.

Writers that can rebase go one after the other (`turns`). Nothing relies on that.

**Durability** `"commit"`: conditional writes return when they would survive a power cut, and
everything a commit refers to is synced by `make_durable` just before. `put` alone promises
nothing. `"none"` leaves all of it to the kernel: a crash of the process still loses nothing,
a crash of the machine may lose or tear the last commits.

**Links.** The root may be a symbolic link. Links inside are refused, for a repository from
elsewhere could point them at any file of this machine; `follow_symlinks=True` trusts them.
"""
# System calls are the hot path of small chunks, and Path objects double its cost:
# ruff: noqa: PTH100, PTH102, PTH108, PTH112, PTH116, PTH120, PTH208

from __future__ import annotations

import contextlib
import errno
import os
import stat
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from functools import partial
from typing import Final, Literal, TypeAlias, TypeVar
from urllib.parse import quote

from frazil.errors import ErrorKind, InvalidInputError
from frazil.model.config import StorageConcurrencySettings, StorageRetriesSettings, StorageSettings
from frazil.model.display import Field, Verbatim
from frazil.storage.base import (
    PLAIN,
    Answers,
    Attributes,
    Bytes,
    Deleted,
    Fetched,
    Found,
    Listed,
    LostRace,
    Piece,
    Storage,
    Unchanged,
    Version,
    Written,
    all_deleted,
)
from frazil.storage.durable import sync, sync_descriptor
from frazil.storage.file_lock import LOCK_NAME, RootLock
from frazil.storage.folder_sync import FolderSync, sync_paths
from frazil.storage.keys import check_key, check_prefix, check_range
from frazil.storage.pieces import read_pieces
from frazil.storage.pool import fan_out
from frazil.storage.posix import (
    ABSENT,
    READ,
    StagedFile,
    create_file,
    delete_files,
    etag,
    failure,
    is_same,
    is_staging,
    listed_file,
    naming,
    opened_folder,
    read_span,
    sizes_and_times,
    staging_files,
    version_of,
    write_all,
)
from frazil.storage.tuning import DELETED_TOGETHER, DELETERS, LARGE_OBJECT, REMEMBERED_BYTES
from frazil.storage.turns import LINE_NAME, TURN_NAME, Turns

T = TypeVar("T")
Durability: TypeAlias = Literal["commit", "none"]

LOCK_TIMEOUT_S: Final = 30.0
"""Seconds after which waiting for the lock is an error."""
_NO_LINKS: Final = frozenset(
    {errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK, errno.EXDEV}
)
"""Error numbers of file systems without hard links."""


class LocalStorage(Storage):
    """The objects of a repository as files below one directory, which need not exist yet."""

    answers_inline = True

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        durability: Durability = "commit",
        follow_symlinks: bool = False,
        settings: StorageSettings | None = None,
    ) -> None:
        text = os.fspath(path)
        if not text or "\0" in text:
            raise InvalidInputError("invalid path", kind=ErrorKind.INVALID_PATH, path=repr(text))
        if durability not in ("commit", "none"):
            raise InvalidInputError("durability is commit or none", durability=durability)
        self._root: Final = os.path.abspath(text).rstrip("/")
        self._durability: Final = durability
        self._follow: Final = follow_symlinks
        self._settings: Final = settings
        self._read_flags: Final = READ if follow_symlinks else READ | os.O_NOFOLLOW
        self._lock: Final = RootLock(self._root, timeout_s=LOCK_TIMEOUT_S)
        self._turns: Final = Turns(self._root)
        self._syncing: Final = FolderSync(self._root)
        self._real_folders: set[str] = set()
        self._last: Fetched | None = None
        """the last object that a conditional operation read, which is often read again"""

    # --- reading ---

    def get(self, key: str, start: int | None = None, end: int | None = None) -> bytes | None:
        """Return the object or a part of it; about 10 us when it is small."""
        check_range(start, end)
        path = self._path(key)
        try:
            descriptor = os.open(path, self._read_flags)
            try:
                return read_span(descriptor, start, end)
            finally:
                os.close(descriptor)
        except OSError as error:
            self._check_absent(error, path)
            return None

    def get_many(self, ranges: Sequence[tuple[str, int | None, int | None]]) -> Found:
        """Many `get`s; small ones in line, where threads would only cost."""
        done: Found = []
        for position, (key, start, end) in enumerate(ranges):
            done.append(self.get(key, start, end))
            if len(done[-1] or b"") >= LARGE_OBJECT:
                return done + fan_out(lambda item: self.get(*item), ranges[position + 1 :])
        return done

    def read_into(self, pieces: Sequence[Piece]) -> None:
        """Fill memory straight from files; 8 to 11 us for each."""
        read_pieces(pieces, self._path, self._read_flags)

    def fetch(self, key: str, known: Version | None = None) -> Fetched | Unchanged | None:
        """Return the object with its version; only its times are looked at if still known."""
        path = self._path(key)
        try:
            descriptor = os.open(path, self._read_flags)
            try:
                status = os.fstat(descriptor)
                if known is not None and etag(status) == known.etag:
                    return Unchanged()
                data = read_span(descriptor, None, None)
                return None if data is None else Fetched(data, self._version(status, data))
            finally:
                os.close(descriptor)
        except OSError as error:
            self._check_absent(error, path)
            return None

    def head(self, key: str) -> Listed | None:
        path = self._path(key)
        try:
            status = os.stat(path, follow_symlinks=self._follow)
        except OSError as error:
            self._check_absent(error, path)
            return None
        if stat.S_ISLNK(status.st_mode):
            raise failure(OSError(errno.ELOOP, ""), path)
        return listed_file(key, status) if stat.S_ISREG(status.st_mode) else None

    def list(self, prefix: str = "") -> Iterator[Listed]:
        """Yield the objects below a prefix; what comes or goes meanwhile may be missing."""
        check_prefix(prefix)
        if prefix and not self._follow:
            self._refuse_links(prefix[:-1])
        return self._listing(f"{self._root}/{prefix}", prefix)

    def _listing(self, path: str, prefix: str) -> Iterator[Listed]:
        try:
            if not prefix and not stat.S_ISDIR(os.stat(path).st_mode):
                raise NotADirectoryError(errno.ENOTDIR, "", path)
            yield from self._walk(path, prefix)
        except OSError as error:
            self._check_absent(error, path)

    def _walk(self, folder: str, prefix: str) -> Iterator[Listed]:
        with os.scandir(folder) as entries:
            found = [(entry.name, entry) for entry in entries]
        # `a-b` sorts before `a/1`, so a folder takes its place with its slash.
        named = sorted(
            (f"{name}/" if entry.is_dir(follow_symlinks=self._follow) else name, entry)
            for name, entry in found
        )
        for name, entry in named:
            with contextlib.suppress(FileNotFoundError, NotADirectoryError):
                if name.endswith("/"):
                    yield from self._walk(entry.path, prefix + name)
                elif not is_staging(name):
                    status = entry.stat(follow_symlinks=self._follow)
                    if stat.S_ISREG(status.st_mode):
                        yield listed_file(prefix + name, status)

    def names(self, prefix: str) -> Answers[str]:
        """Names right below a prefix, in any order: a tenth of the work of `list`."""
        check_prefix(prefix)
        folder = f"{self._root}/{prefix}"
        try:
            if prefix and not self._follow:
                self._refuse_links(prefix[:-1])
            return os.listdir(folder)
        except OSError as error:
            self._check_absent(error, folder)
            return []

    def measure(self, prefix: str, names: Sequence[str]) -> Answers[tuple[int, int] | None]:
        """Size, and time in microseconds, of objects right below a prefix; None for no object."""
        path = f"{self._root}/{prefix[:-1]}"
        try:
            with opened_folder(path, follow_symlinks=self._follow) as folder:
                return sizes_and_times(folder, names)
        except OSError as error:
            self._check_absent(error, path)
            return [None] * len(names)

    # --- writing ---

    def put(self, key: str, data: Bytes, attributes: Attributes = PLAIN) -> None:
        """Write the object, whatever was there; lasting only after `make_durable`."""
        self.put_parts(key, (memoryview(data).cast("B"),), attributes)

    def put_parts(self, key: str, parts: Sequence[Bytes], attributes: Attributes = PLAIN) -> None:
        """Write the object from pieces of memory, which need not be joined before."""
        path = self._path(key)
        self._syncing.forget(path)
        with naming(path):
            try:
                if attributes.is_unnamed:
                    self._in_folder(path, lambda: create_file(path, parts))
                    if self._durability == "commit" and sum(map(len, parts)) >= LARGE_OBJECT:
                        self._syncing.begin(path)
                    return
            except FileExistsError:
                pass
            # What is there may be about to be replaced conditionally: not between those steps.
            turn = self._lock.hold() if os.path.lexists(path) else contextlib.nullcontext()
            with self._staged(path, b"".join(parts)) as staged, turn:
                staged.rename()

    def put_many(self, items: Iterable[tuple[str, Bytes]], attributes: Attributes = PLAIN) -> None:
        """Many `put`s, in line: making files in one directory is serial in the kernel."""
        for key, data in items:
            self.put(key, data, attributes)

    def put_if(
        self, key: str, data: Bytes, expected: Version | None, attributes: Attributes = PLAIN
    ) -> Written | LostRace:
        """Create or replace conditionally; no setting can turn the condition off."""
        return self.put_when(key, data, expected, lambda: None, attributes)

    def put_when(
        self,
        key: str,
        data: Bytes,
        expected: Version | None,
        ready: Callable[[], None],
        attributes: Attributes = PLAIN,
    ) -> Written | LostRace:
        """`put_if`, once `ready` has returned; the new bytes are written to disk meanwhile."""
        path = self._path(key)
        with naming(path):
            # Staging costs a sync, which a race already lost should not pay.
            if not self._is_as_expected(path, expected):
                return LostRace(key)
            with self._staged(path, data, is_lasting=self._durability == "commit") as staged:
                ready()
                written = (
                    staged.link() if expected is None else self._replace(path, staged, expected)
                )
            if not written:
                return LostRace(key)
            if self._durability == "commit":
                self._syncing.sync_names(os.path.dirname(path))
            return Written(self._version(staged.status, data))

    def copy_if(self, source: str, target: str, expected: Version) -> Written | LostRace:
        """Copy an object if its version is still `expected`.

        A second name is enough: files are replaced, never written to.
        """
        path, origin = self._path(target), self._path(source)
        with naming(path):
            if not self._is_as_expected(origin, expected):
                return LostRace(source)
            try:
                is_linked = self._link(origin, path)
            except FileExistsError:
                is_linked = False  # renaming replaces what is there
            if not is_linked:
                return self._copy(source, path, expected)
            linked = self._current(path)
            if linked is None or not is_same(linked[1], expected):
                os.unlink(path)
                return LostRace(source)
            return Written(linked[1])

    def _copy(self, source: str, path: str, expected: Version) -> Written | LostRace:
        """Copy the bytes, where a file cannot have two names."""
        found = self.fetch(source)
        if not isinstance(found, Fetched) or not is_same(found.version, expected):
            return LostRace(source)
        with self._staged(path, found.data) as staged:
            staged.rename()
        return Written(self._version(staged.status, found.data))

    def duplicate(self, source: str, target: str, *, may_link: bool = True) -> None:
        """Give a file a second name, or copy its bytes where that is not wanted or possible."""
        path, origin = self._path(target), self._path(source)
        if not may_link or not self._linked(origin, path):
            super().duplicate(source, target)

    def _linked(self, origin: str, path: str) -> bool:
        with naming(origin):
            if os.path.lexists(path):
                if os.path.samestat(os.stat(origin), os.stat(path)):
                    return True
                os.unlink(path)
            return self._link(origin, path)

    def _link(self, origin: str, path: str) -> bool:
        """Give a file a second name; False where it cannot have one."""
        try:
            self._in_folder(path, lambda: os.link(origin, path, follow_symlinks=False))
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
            return False
        return True

    def delete_many(self, keys: Sequence[str]) -> Deleted:
        """Delete objects; many at once, which are never replaced, without the lock."""
        paths = [self._path(key) for key in keys]
        if len(keys) > DELETED_TOGETHER:
            return all_deleted(fan_out(self._delete, [*_by_folder(keys)]))
        with naming(self._root):
            folders = {os.path.dirname(path) for path in paths if os.path.lexists(path)}
            if folders:
                with self._lock.hold():
                    done = all_deleted(map(self._delete, _by_folder(keys)))
                if self._durability == "commit":
                    # A deleted branch that came back after a crash would lead to deleted chunks.
                    sync_paths(sorted(folders))
                return done
        return Deleted(len(keys))

    def _delete(self, keys: Sequence[str]) -> Deleted:
        """Delete objects of one folder."""
        path = f"{self._root}/{keys[0]}".rpartition("/")[0]
        try:
            with opened_folder(path, follow_symlinks=self._follow) as folder:
                return delete_files(folder, path, keys)
        except OSError as error:
            if error.errno in ABSENT:
                return Deleted(len(keys))
            reason = str(failure(error, path, writing=True))
            return Deleted(0, failed=tuple((key, reason) for key in keys))

    def remove_staging(self, before: datetime) -> int:
        """Delete temporary files that killed writers left before that time; return how many.

        Such files appear in no listing, so garbage collection does not see them.
        """
        limit = before.timestamp()
        removed = 0
        for path in staging_files(self.path):
            if not path.endswith((f"/{LOCK_NAME}", f"/{TURN_NAME}", f"/{LINE_NAME}")):
                with naming(path), contextlib.suppress(FileNotFoundError):
                    if os.lstat(path).st_mtime < limit:
                        os.unlink(path)
                        removed += 1
        return removed

    def make_durable(self, keys: Iterable[str]) -> None:
        """Return once these objects and their names would survive a power cut."""
        self.start_durable(keys)()

    def start_durable(self, keys: Iterable[str]) -> Callable[[], None]:
        """Start syncing in threads; the returned function waits for its end."""
        if self._durability == "none":
            return lambda: None
        return self._syncing.start({self._path(key) for key in keys})

    def clock(self) -> datetime:
        """The clock of the file system, which on a network is another than this machine's."""
        with naming(self._root), tempfile.TemporaryFile(dir=self._root) as probe:
            return datetime.fromtimestamp(os.fstat(probe.fileno()).st_mtime, UTC)

    def commit_turn(self, prepare: Callable[[], None]) -> AbstractContextManager[None]:
        """A turn among all writers of this directory, by locks in the root."""
        return self._turns.take(prepare)

    # --- about this place ---

    @property
    def can_write(self) -> bool:
        """Whether the directory, or the nearest one that exists, lets us write."""
        folder = self._root or "/"
        while not os.path.lexists(folder):
            folder = os.path.dirname(folder)
        effective = os.access in os.supports_effective_ids
        return os.access(folder, os.W_OK | os.X_OK, effective_ids=effective)

    def default_settings(self) -> StorageSettings:
        """The settings the official package uses on a local disk.

        It cannot replace conditionally there, and fails when a stored configuration asks for
        it; hence the False, which does not stop us from doing so.
        """
        return StorageSettings(
            concurrency=StorageConcurrencySettings(5, 4096),
            retries=StorageRetriesSettings(1, 0, 0),
            unsafe_use_conditional_update=False,
            unsafe_use_metadata=False,
        )

    def with_settings(self, settings: StorageSettings) -> LocalStorage:
        return self._anew(settings)()

    def _anew(self, settings: StorageSettings | None) -> Callable[[], LocalStorage]:
        return partial(
            LocalStorage,
            self.path,
            durability=self._durability,
            follow_symlinks=self._follow,
            settings=settings,
        )

    @property
    def path(self) -> str:
        """The root directory, absolute."""
        return self._root or "/"

    @property
    def url(self) -> str:
        return f"file://{quote(self._root) or '/'}"

    def _shown_fields(self) -> Iterable[Field]:
        yield Field("type", Verbatim("local filesystem"))
        yield Field("path", Verbatim(self.path))

    def __reduce__(self) -> tuple[object, ...]:
        return self._anew(self._settings), ()

    # --- paths ---

    def _path(self, key: str) -> str:
        check_key(key)
        folder, _, name = key.rpartition("/")
        if "#" in name and is_staging(name):
            raise InvalidInputError("key has the form of a staging file", key=repr(key))
        if not key.isascii():
            try:
                os.fsencode(key)
            except UnicodeEncodeError as error:
                raise InvalidInputError("key cannot be a file name", key=repr(key)) from error
        if folder and folder not in self._real_folders and not self._follow:
            self._refuse_links(folder)
        return f"{self._root}/{key}"

    def _refuse_links(self, folder: str) -> None:
        """Check each folder of the path once for symbolic links; later ones are made by us."""
        path = self._root
        for segment in folder.split("/"):
            path = f"{path}/{segment}"
            try:
                mode = os.lstat(path).st_mode
            except OSError as error:
                if error.errno in ABSENT:
                    return
                raise failure(error, path) from error
            if stat.S_ISLNK(mode):
                raise failure(OSError(errno.ELOOP, ""), path)
        if len(self._real_folders) >= 4096:  # a deep tree must not fill our memory
            self._real_folders.clear()
        self._real_folders.add(folder)

    def _check_absent(self, error: OSError, path: str) -> None:
        """Return if the object does not exist; raise for any other failure."""
        if error.errno == errno.ENOENT:
            return
        if error.errno == errno.ENOTDIR:
            if os.path.isdir(self.path):
                return
            path = self.path
        raise failure(error, path) from error

    # --- the steps of a write ---

    def _in_folder(self, path: str, work: Callable[[], T]) -> T:
        """Do something in a folder, which is made if it is missing."""
        try:
            return work()
        except FileNotFoundError:
            self._make_folder(os.path.dirname(path))
            return work()

    def _make_folder(self, folder: str) -> None:
        if os.path.isdir(folder):
            return
        parent = os.path.dirname(folder)
        self._make_folder(parent)
        with contextlib.suppress(FileExistsError):
            os.mkdir(folder)
            if self._durability == "commit":
                sync(parent)
        if not os.path.isdir(folder):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), folder)

    @contextlib.contextmanager
    def _staged(self, path: str, data: Bytes, *, is_lasting: bool = False) -> Iterator[StagedFile]:
        """Write the bytes to a temporary file, which is always removed afterwards."""
        staged = self._in_folder(path, lambda: StagedFile(path))
        try:
            write_all(staged.descriptor, data)
            if is_lasting:
                sync_descriptor(staged.descriptor)
            yield staged
        finally:
            staged.close()

    def _is_as_expected(self, path: str, expected: Version | None) -> bool:
        """A quick check without the lock: "no" is certain, "yes" must be checked again."""
        try:
            status = os.lstat(path)
        except FileNotFoundError:
            return expected is None
        if expected is None or etag(status) == expected.etag:
            return expected is not None
        found = self._current(path)
        return found is not None and is_same(found[1], expected)

    def _current(self, path: str) -> tuple[os.stat_result, Version] | None:
        try:
            descriptor = os.open(path, self._read_flags)
        except FileNotFoundError:
            return None
        try:
            status = os.fstat(descriptor)
            data = read_span(descriptor, None, None)
            return None if data is None else (status, self._version(status, data))
        finally:
            os.close(descriptor)

    def _version(self, status: os.stat_result, data: Bytes) -> Version:
        """The version of a content; that of the last one is known without hashing it again."""
        last = self._last
        if last is not None and last.data == data:
            return Version(etag(status), last.version.generation)
        version = version_of(status, data)
        if isinstance(data, bytes) and len(data) <= REMEMBERED_BYTES:
            self._last = Fetched(data, version)
        return version

    def _replace(self, path: str, staged: StagedFile, expected: Version) -> bool:
        with self._lock.hold():
            found = self._current(path)
            if found is None or not is_same(found[1], expected):
                return False
            staged.date_after(found[0])
            staged.rename()
        return True


def _by_folder(keys: Sequence[str]) -> Iterator[Sequence[str]]:
    """Groups of keys, one folder each, for a few threads: the kernel locks each folder."""
    size = max(DELETED_TOGETHER, -(-len(keys) // DELETERS))
    folders: dict[str, list[str]] = {}
    for key in keys:
        folders.setdefault(key[: key.rfind("/") + 1], []).append(key)
    for found in folders.values():
        for first in range(0, len(found), size):
            yield found[first : first + size]
