"""The repositories that a server shows: opened to be read, by short names, with their sessions."""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import Final

from frazil.cli.places import as_prefix, open_place
from frazil.errors import FrazilError, NotFoundError
from frazil.ids import MAIN, SnapshotId
from frazil.masking import MaskedRecord, safe, shown_url
from frazil.model.values import SnapshotInfo
from frazil.repository import Repository
from frazil.session import Session
from frazil.storage.trust import split_word
from frazil.transaction.opened import context_of
from frazil.urls import parse_url
from frazil.web.outline import Outline, outline_of

SESSIONS: Final = 24
"""Sessions that are kept for each repository; one holds the nodes of a snapshot."""
OUTLINES: Final = 4
"""Trees of versions that are kept for each repository."""
_ODD: Final = re.compile(r"[^A-Za-z0-9._-]+")


@dataclass(eq=False, repr=False)
class ServedRepository(MaskedRecord):
    """One repository under its name; it is opened on first use, and again if that failed."""

    name: str
    url: str
    authorize: Sequence[str] = ()
    _repository: Repository | None = field(default=None, repr=False)
    _sessions: OrderedDict[str, Session] = field(default_factory=OrderedDict, repr=False)
    _outlines: OrderedDict[str, Outline] = field(default_factory=OrderedDict, repr=False)
    _listed: tuple[Hashable, Sequence[SnapshotInfo]] | None = field(default=None, repr=False)
    _lock: Lock = field(default_factory=Lock, repr=False)

    @property
    def shown_url(self) -> str:
        """Where it is, without secrets."""
        return safe(shown_url(self.url))

    @property
    def repository(self) -> Repository:
        """The open repository.

        Raises:
            FrazilError: it cannot be opened.
        """
        with self._lock:
            if self._repository is None:
                place = open_place(self.url, read_only=True)
                if known := self._known_words(place.repository):
                    place = open_place(self.url, known, read_only=True)
                self._repository = place.repository
            return self._repository

    def _known_words(self, repository: Repository) -> list[str]:
        """The authorised prefixes that this repository has a container for."""
        containers = {
            split_word(as_prefix(prefix))[0]
            for prefix in repository.config.virtual_chunk_containers or {}
        }
        return [word for word in self.authorize if split_word(as_prefix(word))[0] in containers]

    def knows(self, word: str) -> bool:
        """Whether an authorised prefix is one of this repository's."""
        return word in self._known_words(self.repository)

    def session(self, snapshot_id: str) -> Session:
        """A session to read a snapshot, by its whole id."""
        with self._lock:
            found = self._sessions.get(snapshot_id)
            if found is not None:
                self._sessions.move_to_end(snapshot_id)
                return found
        made = self.repository.readonly_session(snapshot_id=snapshot_id)
        with self._lock:
            self._sessions[snapshot_id] = made
            while len(self._sessions) > SESSIONS:
                self._sessions.popitem(last=False)
        return made

    def outline(self, snapshot_id: str) -> Outline:
        """The nodes of a snapshot in order."""
        with self._lock:
            found = self._outlines.get(snapshot_id)
        if found is None:
            found = outline_of(self.session(snapshot_id).state)
        with self._lock:
            self._outlines[snapshot_id] = found
            self._outlines.move_to_end(snapshot_id)
            while len(self._outlines) > OUTLINES:
                self._outlines.popitem(last=False)
        return found

    def default_version(self) -> str:
        """The version that is shown first: main, else some branch, else the newest snapshot."""
        branches = self.repository.list_branches()
        if MAIN in branches or branches:
            return MAIN if MAIN in branches else min(branches)
        snapshots = self.repository.list_snapshots()
        if not snapshots:
            raise NotFoundError("the repository has no snapshot")
        return snapshots[0].id

    def refs(self) -> dict[str, list[tuple[str, str]]]:
        """Branches and tags, as pairs of kind and name, by the snapshot they point to."""
        refs = context_of(self.repository).refs
        found: dict[str, list[tuple[str, str]]] = {}
        for kind, names in (("branch", refs.branches()), ("tag", refs.tags())):
            for name, target in sorted(names.items()):
                found.setdefault(str(target), []).append((kind, name))
        return found

    def state_key(self) -> Hashable:
        """What changes whenever branches or tags do."""
        refs = context_of(self.repository).refs
        return (
            self.name,
            tuple(sorted((name, str(at)) for name, at in refs.branches().items())),
            tuple(sorted((name, str(at)) for name, at in refs.tags().items())),
        )

    def snapshots(self) -> Sequence[SnapshotInfo]:
        """All snapshots that branches and tags lead to, newest first."""
        # Of some repositories from before spec 1 not all snapshots have a ref that leads there.
        state = (self.state_key(), frozenset(context_of(self.repository).refs.heads()))
        with self._lock:
            if self._listed is not None and self._listed[0] == state:
                return self._listed[1]
        found = self.repository.list_snapshots()
        with self._lock:
            self._listed = (state, found)
        return found

    def info(self, snapshot_id: str) -> SnapshotInfo:
        """What is known of a snapshot."""
        return self.repository.lookup_snapshot(snapshot_id)

    def parse(self, snapshot_id: str) -> SnapshotId:
        """An id as the engine has it."""
        return context_of(self.repository).refs.snapshot_id(snapshot_id)


class Library:
    """All repositories of a server."""

    def __init__(self, urls: Iterable[str], authorize: Sequence[str] = ()) -> None:
        self._shown: dict[str, ServedRepository] = {}
        for url in urls:
            name = self._free_name(url)
            self._shown[name] = ServedRepository(name, url, tuple(authorize))

    def _free_name(self, url: str) -> str:
        path = parse_url(url).url.partition("?")[0].rstrip("/")
        base = _ODD.sub("-", path.rpartition("/")[2]).strip("-.") or "repository"
        name, number = base, 2
        while name in self._shown:
            name, number = f"{base}-{number}", number + 1
        return name

    def __iter__(self) -> Iterator[ServedRepository]:
        return iter(self._shown.values())

    def __len__(self) -> int:
        return len(self._shown)

    def find(self, name: str) -> ServedRepository:
        """A repository by its name.

        Raises:
            NotFoundError: this server has none of that name.
        """
        found = self._shown.get(name)
        if found is None:
            raise NotFoundError(f"this server shows no repository {name!r}")
        return found

    def check(self) -> None:
        """Open every repository, so that a wrong URL or prefix is reported at once.

        Raises:
            FrazilError: one cannot be opened, and it is the only one.
            NotFoundError: no repository has a container that is authorised.
        """
        unknown = dict.fromkeys(word for shown in self for word in shown.authorize)
        for shown in self:
            try:
                for word in [each for each in unknown if shown.knows(each)]:
                    del unknown[word]
                _ = shown.repository
            except FrazilError:
                if len(self._shown) == 1:
                    raise
                unknown.clear()  # it may be that one's
        if unknown:
            raise NotFoundError(
                f"no repository has a virtual chunk container {next(iter(unknown))!r}"
            )
