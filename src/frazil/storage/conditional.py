"""Conditional writes to an object store whose outcome is known, or reported as unknown.

After a lost reply, a second attempt looks like a lost race. So every write carries a random id, is
attempted once, and is read back when its outcome is unknown. If another writer has written
since, reading back does not help, and the returned `LostRace` says so.

Deletions have no conditions. One that is made again after a lost reply may delete what others have
made in the meantime, so those of names that are used again are made once.
"""

from __future__ import annotations

import secrets
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import obstore

from frazil.errors import ErrorKind, StorageError
from frazil.storage.base import Deleted, LostRace, Version, Written
from frazil.storage.client_settings import Role, backoff_s, max_tries
from frazil.storage.clients import Clients
from frazil.storage.faults import (
    FOREIGN,
    LOST_RACE,
    cleaned,
    fault,
    is_missing_bucket,
    is_uncertain,
    is_unsent,
    is_unsupported,
    status_of,
    translate_errors,
)
from frazil.storage.requests import ask_head, begin_get, is_same_state, tag_for, version_of_object

if TYPE_CHECKING:
    from obstore import PutMode, UpdateVersion

WRITE_ID: Final = "icechunkwriteid"
"""User metadata that tells our own write from that of another."""


def condition(clients: Clients, key: str, expected: Version | None) -> PutMode | None:
    """The mode of a conditional write; None where settings turn conditions off."""
    settings = clients.settings
    if expected is None:
        return "create" if settings.effective("unsafe_use_conditional_create") else None
    if not settings.effective("unsafe_use_conditional_update"):
        return None
    mode: UpdateVersion = {}
    # obstore refuses None as a value.
    if tag := tag_for(clients, expected):
        mode["e_tag"] = tag
    if expected.generation is not None:
        mode["version"] = expected.generation
    if not mode:
        raise no_conditions(clients, key, "it gives no versions")
    return mode


def no_conditions(clients: Clients, key: str, why: str) -> StorageError:
    """The error for a store that cannot keep concurrent commits apart."""
    return StorageError(
        "this store does not support conditional writes, which keep concurrent commits safe; use"
        " another store, or switch them off in StorageSettings (unsafe_use_conditional_create,"
        " unsafe_use_conditional_update) if there is never more than one writer",
        kind=ErrorKind.STORAGE_CONFIG,
        storage=clients.place.url,
        key=key,
        cause=why,
    )


@dataclass
class ConditionalPut:
    """One conditional write, with as many attempts as the settings allow."""

    clients: Clients
    key: str
    data: bytes
    expected: Version | None
    mode: PutMode
    write_id: str = field(default_factory=lambda: secrets.token_hex(12))
    is_in_doubt: bool = False
    """whether an attempt so far may have taken effect"""
    failure: Exception | None = None

    def run(self, attributes: dict[str, str]) -> Written | LostRace:
        """Write, and tell for certain whether it was us."""
        settings = self.clients.settings
        tries = max_tries(settings)
        for number in range(tries):
            if outcome := self._attempt(attributes):
                return outcome
            if number + 1 < tries:
                time.sleep(backoff_s(settings, number))
        raise self.failure or StorageError("the store gave no answer", key=self.key)

    def _attempt(self, attributes: dict[str, str]) -> Written | LostRace | None:
        """One request; None when it should be tried again."""
        clients, key = self.clients, self.key
        try:
            with clients.gate:
                done = obstore.put(
                    clients.get(Role.CONDITION),
                    clients.full(key),
                    self.data,
                    attributes=attributes,
                    mode=self.mode,
                    use_multipart=False,
                )
            return Written(Version(done["e_tag"], done["version"]))
        except LOST_RACE as error:
            self.failure = fault(error, "write", key, clients.place.url)
            return self._resolve()
        except FOREIGN as error:
            if is_unsupported(error):
                raise no_conditions(clients, key, cleaned(error)) from None
            self.failure = fault(error, "write", key, clients.place.url)
            if not is_uncertain(error):
                raise self.failure from None
        self.is_in_doubt = True
        try:
            return self._written_by_us()
        except StorageError:
            return None  # still unreachable: the next attempt finds out

    def _resolve(self) -> Written | LostRace | None:
        """Tell a lost race from the echo of our own write, and from a passing conflict."""
        if ours := self._written_by_us():
            return ours
        found = ask_head(self.clients, self.key)
        if self.expected is None:
            return None if found is None else self._lost()
        if found is not None and is_same_state(version_of_object(found.meta), self.expected):
            return None  # a passing refusal: the object is unchanged
        return self._lost()

    def _lost(self) -> LostRace:
        return LostRace(self.key, in_doubt=self.is_in_doubt)

    def _written_by_us(self) -> Written | None:
        found = ask_head(self.clients, self.key)
        if found is None:
            return None
        stored = found.attributes.get(WRITE_ID)
        if stored == self.write_id:
            return Written(version_of_object(found.meta))
        if stored is None and self.is_in_doubt:
            # The store keeps no ids. Only an attempt whose reply was lost can have left our
            # bytes there; after a plain refusal equal bytes are another writer's.
            with self.clients.gate, translate_errors("read", self.key, self.clients.place.url):
                there = begin_get(self.clients, self.key, {})
                if there is not None and bytes(there.bytes()) == self.data:
                    return Written(version_of_object(there.meta))
        return None


def delete_once(clients: Clients, key: str, expected: Version) -> Deleted:
    """Delete an object that no other writer replaces, by as few requests as possible.

    Another one is made only if the object is still there and the last one has been answered, or
    was never sent.
    """
    settings = clients.settings
    tries = max_tries(settings)
    reason, is_pending = "the store gave no answer", False
    for number in range(tries):
        try:
            with clients.gate:
                obstore.delete(clients.get(Role.CONDITION), clients.full(key))
            return Deleted(1)
        except FOREIGN as error:
            if isinstance(error, FileNotFoundError) and not is_missing_bucket(error):
                return Deleted(1)
            reason = cleaned(error)
            if not is_uncertain(error):
                break
            is_pending = status_of(error) is None and not is_unsent(error)
        try:
            found = ask_head(clients, key)
        except StorageError:
            is_pending = True  # it is unknown whether the object is gone
            break
        if found is None or not is_same_state(version_of_object(found.meta), expected):
            return Deleted(1)
        if is_pending:
            break
        if number + 1 < tries:
            time.sleep(backoff_s(settings, number))
    return Deleted(0, failed=((key, reason),), in_doubt=is_pending)
