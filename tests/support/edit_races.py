"""Races of edits: ours rebased onto theirs with some solver, and what must be there then."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache

import zarr

from frazil.errors import ConflictError, RebaseFailedError
from frazil.fsck import fsck
from frazil.model.values import (
    BasicConflictSolver,
    ConflictDetector,
    ConflictSolver,
    VersionSelection,
)
from frazil.repository import Repository
from frazil.session import Session
from frazil.storage.base import Storage
from frazil.storage.memory import MemoryStorage
from tests.support.edits import (
    EDITS,
    IMPOSSIBLE,
    State,
    begin,
    committed,
    make_base,
    redone,
    visible,
)
from tests.support.nodes import contents

CHUNK = re.compile(r"(.*/)?c(/\d+)+")
DETECT = "detect"
SOLVERS: Mapping[str, ConflictSolver] = {
    DETECT: ConflictDetector(),
    "fail": BasicConflictSolver(on_chunk_conflict=VersionSelection.Fail),
    "ours": BasicConflictSolver(on_chunk_conflict=VersionSelection.UseOurs),
    "theirs": BasicConflictSolver(on_chunk_conflict=VersionSelection.UseTheirs),
    "keep arrays": BasicConflictSolver(fail_on_delete_of_updated_array=True),
    "keep groups": BasicConflictSolver(fail_on_delete_of_updated_group=True),
}


@cache
def base_of(spec: int) -> tuple[Storage, State]:
    """A repository in which nobody has edited anything, and what it has."""
    repository = Repository.create(MemoryStorage(), spec_version=spec)
    session = repository.writable_session("main")
    make_base(zarr.create_group(session.store))
    session.commit("base")
    return repository.storage, contents(session)


def copy_of(storage: Storage) -> Repository:
    """A repository in memory with the same objects."""
    made = MemoryStorage()
    for item in storage.list(""):
        data = storage.get(item.key)
        assert data is not None
        made.put(item.key, data)
    return Repository.open(made)


@dataclass
class Race:
    """Somebody's commits below a session with our edits."""

    repository: Repository
    session: Session
    base: State
    ours: Sequence[str]
    theirs: Sequence[str]

    @classmethod
    def start(cls, spec: int, ours: Sequence[str], theirs: Sequence[str]) -> Race | None:
        """Make all edits and commit theirs one by one; None if one of them cannot be made."""
        storage, base = base_of(spec)
        try:
            redone(base, *ours)
            committed(base, *theirs)
        except IMPOSSIBLE:
            return None
        repository = copy_of(storage)
        session = begin(repository, *ours)
        for name in theirs:
            begin(repository, name).commit(name, allow_empty=True)
        return cls(repository, session, base, ours, theirs)

    def commit(self, solver: str) -> bool:
        """Whether our edits are committed; conflicts change nothing."""
        tip = self.repository.lookup_branch("main")
        try:
            self.session.commit("ours", rebase_with=SOLVERS[solver], allow_empty=True)
        except (RebaseFailedError, ConflictError):
            assert self.repository.lookup_branch("main") == tip
            return False
        return True

    def complaints(self, solver: str) -> list[str]:
        """What is wrong with the result of a commit that was accepted."""
        found = visible(contents(Repository.open(self.repository.storage).readonly_session("main")))
        told = [str(each) for each in fsck(self.repository).findings if each.path != "/c/m"]
        theirs, ours = committed(self.base, *self.theirs), redone(self.base, *self.ours)
        try:
            wanted = visible(self._solved(theirs, redone(theirs, *self.ours), solver))
        except IMPOSSIBLE as error:
            if ours != self.base:
                return [*told, f"accepted, and yet ours cannot be done after theirs: {error!r}"]
            wanted = visible(theirs)
        told += [f"{key} is lost" for key in wanted.keys() - found.keys()]
        told += [f"{key} is there again" for key in found.keys() - wanted.keys()]
        told += [f"{key} differs" for key in found.keys() & wanted if found[key] != wanted[key]]
        if solver == DETECT:
            told += self._lost(theirs, found)
        return told

    def _solved(self, theirs: State, redo: State, solver: str) -> State:
        """What was redone, with whole chunks of the side the solver prefers."""
        if any(EDITS[name].replaces or EDITS[name].moves for name in self.ours):
            return redo
        ours = redone(self.base, *self.ours)
        for key in filter(CHUNK.fullmatch, {*self.base, *ours, *theirs}):
            was = self.base.get(key)
            is_there = f"{key.rpartition('c/')[0]}zarr.json" in redo
            if not is_there or theirs.get(key) == was:
                continue
            # Deleting a chunk that was not there shows in no value, but is a conflict.
            if solver == "theirs" or ours.get(key) != was:
                chosen = (theirs if solver == "theirs" else ours).get(key)
                redo.pop(key, None)
                if chosen is not None:
                    redo[key] = chosen
        return redo

    def _lost(self, theirs: State, found: Mapping[str, object]) -> list[str]:
        """Without a solver no value that either side gave may be missing."""
        if any(EDITS[name].moves for name in self.ours):
            return []
        told = []
        for who, state in (("theirs", theirs), ("ours", redone(self.base, *self.ours))):
            old, new = visible(self.base), visible(state)
            given = {key: value for key, value in new.items() if old.get(key) != value}
            told += [f"{key} of {who} is lost" for key in given if found.get(key) != given[key]]
        return told
