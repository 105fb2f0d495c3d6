"""What a power cut may leave of a folder: everything that POSIX allows and nothing else.

Calls that change files are recorded in order. What was written to a file lasts once the file was
synced, and a name once its folder was, both by a sync that began afterwards. Of everything else
any part may be lost: the system writes when and in which order it likes.
"""
# It is the calls themselves that are of interest:
# ruff: noqa: PTH120

from __future__ import annotations

import contextlib
import hashlib
import os
import random
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from frazil.storage import durable

Tree: TypeAlias = dict[str, bytes]
"""Files by path below the root."""
SINGLES = 10
"""Operations of which each is lost, or kept, alone."""
RANDOM = 4
"""Further sets of lost operations at each moment."""


class File:
    """An inode: its content is what was written to it."""

    def __init__(self, content: bytes = b"") -> None:
        self.content = content
        """what was there before the recording began"""


@dataclass(frozen=True, slots=True)
class Written:
    """Bytes appended to a file."""

    file: File
    data: bytes


@dataclass(frozen=True, slots=True)
class Named:
    """A name that a folder has got; `file` is None for a folder."""

    path: str
    file: File | None


@dataclass(frozen=True, slots=True)
class Unnamed:
    """A name that a folder has no more."""

    path: str


@dataclass(frozen=True, slots=True)
class Renamed:
    """Both at once."""

    source: str
    target: str
    file: File


@dataclass(frozen=True, slots=True)
class Synced:
    """A file or folder, or everything (None), is on the disk as it was when this began."""

    what: File | str | None
    begun: int
    """number of the events before"""


Event: TypeAlias = Written | Named | Unnamed | Renamed | Synced


def _home(event: Event) -> File | str:
    """What must be synced for a change to last."""
    match event:
        case Written(file):
            return file
        case Named(path) | Unnamed(path) | Renamed(_, path):
            return os.path.dirname(path)
        case Synced():
            raise AssertionError(event)


@dataclass
class Recording:
    """What was there, what happened, and when the caller was told that all is done."""

    root: str
    files: dict[str, File] = field(default_factory=dict)
    folders: set[str] = field(default_factory=set)
    events: list[Event] = field(default_factory=list)
    done: int = -1
    """number of the events before the action returned"""

    def without(self, is_ignored: Callable[[Synced], bool]) -> Recording:
        """The same on a disk that does not do some of the syncs."""
        events = [
            Synced("nothing", event.begun)
            if isinstance(event, Synced) and is_ignored(event)
            else event
            for event in self.events
        ]
        return Recording(self.root, self.files, self.folders, events, self.done)

    def moments(self, most: int | None = None) -> list[int]:
        """Numbers of events before which the power may go; the last, and some if they are many."""
        every = [*range(len(self.events) + 1)]
        if most is None or len(every) <= most:
            return every
        chosen = random.Random(len(every)).sample(every, most // 2)
        return sorted({*chosen, *every[-most // 2 :]})

    def remains(self, moment: int) -> Iterator[Tree]:
        """What may be there when the power goes at a moment, each once."""
        past = self.events[:moment]
        pending = [n for n, event in enumerate(past) if not self._lasts(n, event, past)]
        seen: set[bytes] = set()
        for lost, torn in _losses(pending, past, random.Random(moment)):
            tree = self._tree(past, lost, torn)
            mark = hashlib.sha256(repr(sorted(tree.items())).encode()).digest()
            if mark not in seen:
                seen.add(mark)
                yield tree

    @staticmethod
    def _lasts(number: int, event: Event, past: Sequence[Event]) -> bool:
        if isinstance(event, Synced):
            return True
        home = _home(event)
        return any(
            isinstance(each, Synced) and each.begun > number and each.what in (home, None)
            for each in past[number + 1 :]
        )

    def _tree(self, past: Sequence[Event], lost: set[int], torn: set[int]) -> Tree:
        names: dict[str, File | None] = {**dict.fromkeys(self.folders), **self.files}
        content: dict[File, bytes] = {}
        sizes: dict[File, int] = {}
        for number, event in enumerate(past):
            match event:
                case Written(file, data):
                    before = content.get(file, file.content)
                    at = sizes.get(file, len(file.content))
                    sizes[file] = at + len(data)
                    kept = data[: len(data) // 2] if number in torn else data
                    if number not in lost:  # what was lost before it reads as zeros
                        content[file] = before.ljust(at, b"\0") + kept
                case Named(path, file) if number not in lost:
                    names[path] = file
                case Unnamed(path) if number not in lost:
                    names.pop(path, None)
                case Renamed(source, target, file) if number not in lost:
                    names.pop(source, None)
                    names[target] = file
                case _:
                    pass
        return {
            path[len(self.root) + 1 :]: content.get(file, file.content)
            for path, file in names.items()
            if file is not None and self._is_reached(path, names)
        }

    def _is_reached(self, path: str, names: Mapping[str, File | None]) -> bool:
        folder = os.path.dirname(path)
        while len(folder) >= len(self.root):
            if folder not in names:
                return False
            folder = os.path.dirname(folder)
        return True


def _losses(
    pending: Sequence[int], past: Sequence[Event], rng: random.Random
) -> Iterator[tuple[set[int], set[int]]]:
    """Sets of operations that are lost, and of writes of which only a part arrived."""
    everything = set(pending)
    writes = {n for n in pending if isinstance(past[n], Written)}
    yield everything, set()
    yield set(), set()
    yield writes, set()
    yield set(), writes
    for one in rng.sample(pending, min(SINGLES, len(pending))):
        yield {one}, set()
        yield everything - {one}, set()
    for _ in range(RANDOM):
        yield {n for n in pending if rng.random() < 0.5}, {n for n in writes if rng.random() < 0.5}


class Recorder:
    """Puts itself between the program and the system, for the files below one folder."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._lock = threading.RLock()
        self._opened: dict[int, File | str] = {}
        """what descriptors stand for; folders by their paths"""
        self.recording = Recording(str(root))
        for folder, _, names in os.walk(root):
            self.recording.folders.add(folder)
            for name in names:
                path = f"{folder}/{name}"
                self.recording.files[path] = File(Path(path).read_bytes())
        self._live: dict[str, File] = dict(self.recording.files)
        self._real = {name: getattr(os, name) for name in _WATCHED}
        for name in _WATCHED:
            monkeypatch.setattr(os, name, getattr(self, f"_{name}"))
        self._monkeypatch = monkeypatch
        syncfs = durable._syncfs()
        monkeypatch.setattr(durable, "_syncfs", lambda: syncfs and self._watched(syncfs))

    @contextlib.contextmanager
    def watching(self) -> Iterator[Recording]:
        """Record until the end of this; then nothing is between the program and the system."""
        try:
            yield self.recording
            self.recording.done = len(self.recording.events)
        finally:
            self._monkeypatch.undo()

    def all_survived(self) -> bool:
        """Whether what was recorded is what is there: nothing was done behind our back."""
        root = self.recording.root
        there = {
            f"{folder}/{name}"[len(root) + 1 :]: Path(folder, name).read_bytes()
            for folder, _, names in os.walk(root)
            for name in names
        }
        return self.recording._tree(self.recording.events, set(), set()) == there

    def _note(self, event: Event) -> None:
        self.recording.events.append(event)

    def _is_ours(self, path: str) -> bool:
        return f"{path}/".startswith(f"{self.recording.root}/")

    # --- the calls ---

    def _open(self, path: str, flags: int, *rest: Any, **more: Any) -> int:  # noqa: ANN401
        with self._lock:
            is_new = bool(flags & os.O_CREAT) and not os.path.lexists(path)
            descriptor: int = self._real["open"](path, flags, *rest, **more)
            if self._is_ours(path):
                if is_new:
                    self._live[path] = File()
                    self._note(Named(path, self._live[path]))
                self._opened[descriptor] = self._live.get(path, path)
            return descriptor

    def _close(self, descriptor: int) -> None:
        with self._lock:
            self._opened.pop(descriptor, None)
            self._real["close"](descriptor)

    def _write(self, descriptor: int, data: bytes | memoryview) -> int:
        with self._lock:
            size: int = self._real["write"](descriptor, data)
            self._note_written(descriptor, bytes(memoryview(data).cast("B")[:size]))
            return size

    def _writev(self, descriptor: int, parts: Sequence[bytes | memoryview]) -> int:
        with self._lock:
            size: int = self._real["writev"](descriptor, parts)
            self._note_written(descriptor, b"".join(parts)[:size])
            return size

    def _note_written(self, descriptor: int, data: bytes) -> None:
        file = self._opened.get(descriptor)
        if isinstance(file, File):
            self._note(Written(file, data))

    def _fsync(self, descriptor: int) -> None:
        with self._lock:
            begun, what = len(self.recording.events), self._opened.get(descriptor)
        self._real["fsync"](descriptor)
        if what is not None:
            with self._lock:
                self._note(Synced(what, begun))

    def _rename(self, source: str, target: str) -> None:
        with self._lock:
            self._real["rename"](source, target)
            self._live[target] = self._live.pop(source)
            self._note(Renamed(source, target, self._live[target]))

    def _link(self, source: str, target: str, **more: Any) -> None:  # noqa: ANN401
        with self._lock:
            self._real["link"](source, target, **more)
            self._live[target] = self._live[source]
            self._note(Named(target, self._live[target]))

    def _unlink(self, path: str, *, dir_fd: int | None = None) -> None:
        with self._lock:
            self._real["unlink"](path, dir_fd=dir_fd)
            if dir_fd is not None:
                path = f"{self._opened[dir_fd]}/{path}"
            if self._live.pop(path, None) is not None:
                self._note(Unnamed(path))

    def _mkdir(self, path: str | os.PathLike[str], *rest: Any) -> None:  # noqa: ANN401
        with self._lock:
            self._real["mkdir"](path, *rest)
            if self._is_ours(os.fspath(path)):
                self._note(Named(os.fspath(path), None))

    def _watched(self, syncfs: Callable[[int], int]) -> Callable[[int], int]:
        def call(descriptor: int) -> int:
            begun = len(self.recording.events)
            answer = syncfs(descriptor)
            with self._lock:
                self._note(Synced(None, begun))
            return answer

        return call


_WATCHED = ("open", "close", "write", "writev", "fsync", "rename", "link", "unlink", "mkdir")
