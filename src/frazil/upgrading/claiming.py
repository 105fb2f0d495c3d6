"""One upgrade of a repository at a time: whoever converts it says first to what.

Converted files get the same names whatever the target, and each target has other bytes for them.
Two upgrades that mean the same write the same bytes and may help each other, so a claim only
keeps away those that mean something else.
"""

from __future__ import annotations

import json
from typing import Final

from frazil.commit.base import create_object
from frazil.commit.by_ref_file import JSON_FILE
from frazil.errors import ConflictError, ErrorKind
from frazil.formats.generation import Generation
from frazil.opening import detect
from frazil.storage.base import LostRace, Storage, require_deleted
from frazil.upgrading.records import ChunkMode, cannot, marker

CLAIM_KEY: Final = "upgrade.json"


def claim(place: Storage, target: Generation, mode: ChunkMode) -> None:
    """Say that the repository is being upgraded, before anything of it is written.

    Raises:
        SessionStateError: an upgrade that would write other files has been begun.
        ConflictError: one has just ended.
    """
    wanted = json.dumps({"to": marker(target), "chunks": str(mode)}).encode()
    made = create_object(place, CLAIM_KEY, wanted, JSON_FILE)
    if not isinstance(made, LostRace):
        found = detect(place)
        if found is None or found.generation.dialect is not None:
            return
        release(place)
        raise _late()
    there = place.get(CLAIM_KEY)
    if there is None:  # it was released between these two calls
        raise _late()
    if there != wanted:
        raise cannot(f"another upgrade {_described(there)} has been begun; finish or undo it first")


def _late() -> ConflictError:
    return ConflictError(
        message="somebody else has upgraded this repository; open it again",
        kind=ErrorKind.REPO_INFO_UPDATED,
    )


def _described(claimed: bytes) -> str:
    try:
        said = json.loads(claimed)
        return f"(to {said['to']}, chunks: {said['chunks']})"
    except (ValueError, TypeError, KeyError):
        return f"(see {CLAIM_KEY})"


def release(place: Storage) -> None:
    """Let others upgrade again, once there is nothing left to be upgraded, or it was undone."""
    require_deleted(place.delete_many([CLAIM_KEY]))
