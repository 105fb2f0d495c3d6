"""The state file of G1: read, and swapped for the next state if nobody was quicker.

Where a storage cannot replace an object conditionally, each state is a file of its own, created
once under the number of its generation, and the state file says so and is but a copy.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from frazil.errors import ErrorKind, FormatError, RepositoryNotFoundError, StorageError
from frazil.formats.legacy.g1_state import CLAIMS, STATE_FILES, State, decode_state, encode_state
from frazil.formats.legacy.names import sequence_name
from frazil.storage.base import Attributes, Fetched, LostRace, Storage, Unchanged, Version

CLAIM_FOLDER: Final = "t/"
JSON_FILE: Final = Attributes(content_type="application/json")


@dataclass(frozen=True, slots=True)
class Held:
    """A state, where it was read from, and what the storage calls that version of it."""

    state: State
    key: str
    version: Version


class StateFile:
    """The mutable state of one repository of G1."""

    def __init__(
        self, storage: Storage, *, replaces: bool = True, known: Held | None = None
    ) -> None:
        self._storage = storage
        self.replaces: Final = replaces
        """whether the storage replaces objects conditionally"""
        self._seen = known
        self._lock = threading.Lock()

    def find(self) -> Held | None:
        """The present state; None where there is no state file.

        Raises:
            FormatError: the file is damaged, or older than what was read before.
        """
        with self._lock:
            seen = self._seen
        held = self._newest(seen)
        if held is None:
            return None
        if seen is not None and held.state.generation < seen.state.generation:
            raise FormatError(
                "the state file has become older than it was; somebody has put back an old copy",
                key=held.key,
                generation=held.state.generation,
                known=seen.state.generation,
            )
        with self._lock:
            self._seen = held
        return held

    def read(self) -> Held:
        """The present state.

        Raises:
            RepositoryNotFoundError: there is no state file.
        """
        held = self.find()
        if held is None:
            raise RepositoryNotFoundError("the repository doesn't exist", url=self._storage.url)
        return held

    def _newest(self, seen: Held | None) -> Held | None:
        if seen is not None and seen.state.commit_mode == CLAIMS:
            return self._claimed(seen)
        held = self._fetched(seen)
        return self._claimed(held) if held and held.state.commit_mode == CLAIMS else held

    def _fetched(self, seen: Held | None) -> Held | None:
        for key in STATE_FILES if seen is None else (seen.key,):
            found = self._storage.fetch(key, None if seen is None else seen.version)
            if isinstance(found, Unchanged):
                return seen
            if isinstance(found, Fetched):
                return Held(decode_state(found.data, key=key), key, found.version)
        return None

    def _claimed(self, held: Held) -> Held:
        """The newest state that was claimed since one of them."""
        while True:
            key = _claim(held.state.generation + 1)
            found = self._storage.fetch(key)
            if not isinstance(found, Fetched):
                return held
            held = Held(decode_state(found.data, key=key), held.key, found.version)

    # --- writing ---

    def create(self, state: State) -> bool:
        """Write the first state; False when somebody else was faster."""
        done = self._storage.put_if(STATE_FILES[0], encode_state(state), None, JSON_FILE)
        return not isinstance(done, LostRace)

    def swap(self, held: Held, state: State, ready: Callable[[], None] = lambda: None) -> bool:
        """Put a state in the place of the one that is held; False when that is no longer there.

        Raises:
            StorageError: the storage cannot do that safely.
        """
        if state.generation != held.state.generation + 1:
            raise FormatError("a state must follow the one before", generation=state.generation)
        data = encode_state(state)
        if held.state.commit_mode == CLAIMS:
            return self._claim(held, state, data, ready)
        if not self.replaces:
            raise StorageError(
                "the state file of this repository is replaced conditionally, which the settings"
                " of the storage forbid; allow unsafe_use_conditional_update",
                kind=ErrorKind.STORAGE_CONFIG,
            )
        done = self._storage.put_when(held.key, data, held.version, ready, JSON_FILE)
        return not isinstance(done, LostRace)

    def _claim(self, held: Held, state: State, data: bytes, ready: Callable[[], None]) -> bool:
        key = _claim(state.generation)
        if isinstance(self._storage.put_when(key, data, None, ready, JSON_FILE), LostRace):
            return False
        self._storage.put(held.key, data, JSON_FILE)
        return True


def _claim(generation: int) -> str:
    return f"{CLAIM_FOLDER}{sequence_name(generation)}.json"
