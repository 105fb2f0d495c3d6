"""Where an ingest goes: the repository as it was when the plan was made, and the session for it.

A plan says where the parts of files go behind what is there, so that it holds for one snapshot.
The session begins at that snapshot and says what the plan relied on; when others were quicker,
the ingest plans again.

Which files are there already is marked in the metadata of commits, in twelve bytes a file: eight
of a hash of its URL, four of its state. That is short enough for ten thousand files, and long
enough that two files hardly share a mark.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from frazil.errors import AlreadyExistsError, ConflictError, ErrorKind, InvalidInputError
from frazil.formats.config_codec import config_from_map, config_to_map
from frazil.ids import INITIAL_SNAPSHOT_ID, child_path, node_path
from frazil.ingestion import containers
from frazil.ingestion.plans import Plan
from frazil.ingestion.records import FileScan, Identity
from frazil.model.config import RepositoryConfig
from frazil.model.history import JSON
from frazil.model.marks import GONE, INGEST, NAME_BYTES, STATE_BYTES, marks_of, packed
from frazil.repository import Repository
from frazil.repository.handle import edit_stored_config
from frazil.session import Session
from frazil.storage.base import Storage
from frazil.tip import Tip
from frazil.urls import MAIN


def name_mark(url: str) -> bytes:
    """The mark of a file's name."""
    return hashlib.blake2b(url.encode(), digest_size=NAME_BYTES).digest()


def state_mark(identity: Identity) -> bytes:
    """The mark of a file's state."""
    text = f"{identity.size} {identity.etag or identity.stamp or identity.modified}"
    return hashlib.blake2b(text.encode(), digest_size=STATE_BYTES).digest()


def as_metadata(
    files: Sequence[tuple[str, Identity]], group: str, **facts: object
) -> dict[str, Any]:
    """What a commit keeps of the files that went into it."""
    marks = {name_mark(url): state_mark(identity) for url, identity in files}
    return {INGEST: {"group": group, "files": len(files), "marks": packed(marks), **facts}}


def known_files(commits: Iterable[Mapping[str, Any]], group: str) -> dict[bytes, bytes]:
    """States of the files that commits with this metadata took in, by the marks of their names.

    The newest commit comes first. Metadata that are not ours are left alone.
    """
    found: dict[bytes, bytes] = {}
    for metadata in commits:
        for name, state in marks_of(metadata).files.get(group, {}).items():
            found.setdefault(name, state)
    return {name: state for name, state in found.items() if state != GONE}


class Target:
    """A branch of a repository, either of which may have to be made."""

    def __init__(self, storage: Storage, branch: str, group: str) -> None:
        self.storage = storage
        self.branch = branch
        self.group = group
        self._repository = Repository.open(storage) if Repository.exists(storage) else None
        self._tip: Tip | None = None
        if self._repository is not None:
            there = branch if branch in self._repository.list_branches() else MAIN
            self._tip = self._repository.tip(there)

    def reading(self) -> Session | None:
        """A session to plan with; None while there is no repository."""
        return None if self._tip is None else self._tip.readonly_session()

    def known(self) -> dict[bytes, bytes]:
        """States of the files that the branch holds already, by the marks of their names."""
        if self._repository is None or self._tip is None:
            return {}
        history = self._repository.ancestry(snapshot_id=self._tip.snapshot_id)
        return known_files((entry.metadata for entry in history), self.group)

    def writing(
        self,
        plan: Plan,
        base: FileScan | None,
        prefixes: Sequence[str],
        options: Mapping[str, Any],
    ) -> tuple[Session, list[str]]:
        """A session for a plan, and the prefixes of containers that had to be added for it.

        Raises:
            ConflictError: somebody else made the repository or the branch meanwhile.
        """
        if self._repository is None:
            added = self._create(prefixes, options)
        else:
            added = self._add_containers(prefixes, options)
        self._allow([each.url for each in plan.scans], options)
        session = self._branched().writable_session()
        _rely(session, self.group, plan, base)
        return session, added

    def _create(self, prefixes: Sequence[str], options: Mapping[str, Any]) -> list[str]:
        config = RepositoryConfig.default()
        added = containers.add_missing(config, prefixes, options)
        try:
            self._repository = Repository.create(self.storage, config)
        except InvalidInputError as error:
            if Repository.exists(self.storage):
                raise _overtaken("made the repository") from error
            raise
        self._tip = self._repository.tip(MAIN, snapshot_id=str(INITIAL_SNAPSHOT_ID))
        return added

    def _add_containers(self, prefixes: Sequence[str], options: Mapping[str, Any]) -> list[str]:
        """Add containers to what is stored now, where others may have added theirs."""
        assert self._repository is not None
        if not containers.missing_containers(self._repository.config, prefixes, options):
            return []
        added: list[str] = []

        def change(stored: JSON | None) -> JSON:
            config = config_from_map(stored)
            added[:] = containers.add_missing(config, prefixes, options)
            return config_to_map(config)

        edit_stored_config(self._repository.context, change)
        self._repository = Repository.open(self.storage)
        return added

    def _allow(self, urls: Sequence[str], options: Mapping[str, Any]) -> None:
        """A copy behind references begins with the chunk that they end in."""
        assert self._repository is not None
        reached = containers.covering(self._repository.config, urls)
        if reached:
            allowed = containers.access(reached, options)
            named = [str(options[name]) for name in ("endpoint_url",) if options.get(name)]
            self._repository = self._repository.reopen(
                authorize_virtual_chunk_access=allowed, endpoints=named
            )

    def _branched(self) -> Tip:
        """The tip that the plan was made from, on a branch that exists."""
        assert self._repository is not None
        assert self._tip is not None
        at = self._tip.snapshot_id
        if self._tip.branch != self.branch:
            try:
                self._repository.create_branch(self.branch, at)
            except AlreadyExistsError as error:
                raise _overtaken(f"made the branch {self.branch!r}") from error
        return self._repository.tip(self.branch, snapshot_id=at)


def _rely(session: Session, group: str, plan: Plan, base: FileScan | None) -> None:
    """Say what the plan was made by: the lengths of dimensions, and all that the group has."""
    where = node_path(group or "/")
    dims = {dim for array in plan.arrays for dim in array.dims}
    growing = {axis.name for axis in plan.axes} if base is not None else set()
    session.rely_on_dimensions(where, *growing, members=True)
    session.rely_on_dimensions(where, *(dims - growing))
    for variable in () if base is None else base.variables:
        path = child_path(where, variable.name)
        session.rely_on(path, values=variable.values is not None)


def _overtaken(what: str) -> ConflictError:
    return ConflictError(
        message=f"somebody else has {what} meanwhile", kind=ErrorKind.COMMIT_CONFLICT
    )
