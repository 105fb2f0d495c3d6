"""Old branches get a last entry that leads nowhere, so that old clients cannot commit to them.

Before that, the process that converts a repository claims it, and says to which version.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Final

from frazil.commit.base import MAIN, attempts, create_object, now_micros
from frazil.commit.by_numbered_files import NumberedRefs
from frazil.commit.by_ref_file import JSON_FILE
from frazil.commit.by_state_file import StateFileRefs
from frazil.errors import ConflictError, ErrorKind
from frazil.formats.generation import Generation
from frazil.formats.legacy.g1_state import move_away
from frazil.formats.legacy.names import WIDE
from frazil.formats.legacy.records import Dialect, LegacyGeneration, RefRecord
from frazil.formats.legacy.refs import encode_ref
from frazil.ids import SnapshotId, crockford
from frazil.maintenance.upgrade import OldRefs
from frazil.model.config import StorageRetriesSettings
from frazil.opening import detect_generation
from frazil.storage.base import LostRace, Storage, Unchanged, require_deleted
from frazil.storage.legacy.g1 import StateFile
from frazil.upgrading.source import ChunkMode, UpgradeSource, cannot, marker

NOWHERE: Final = SnapshotId(bytes(SnapshotId.width))


def require_no_other(source: UpgradeSource, target: Generation) -> None:
    """Refuse to upgrade to one spec what is on its way to another."""
    found = _markers(source)
    if found - {marker(target)}:
        raise cannot(
            f"an upgrade to {min(found - {marker(target)})} has been begun; finish or undo it first"
        )


def _markers(source: UpgradeSource) -> set[str]:
    refs = source.refs
    if isinstance(refs, NumberedRefs):
        tips = [refs.tip(name) for name in refs.branches()]
        return {tip.moved_to for tip in tips if tip is not None and tip.moved_to is not None}
    if isinstance(refs, StateFileRefs) and refs.state.moved_to is not None:
        return {refs.state.moved_to}
    return set()


def fence(source: UpgradeSource, refs: OldRefs, target: Generation) -> bool:
    """Fence all branches that are still where `refs` says; False when one has moved.

    The main branch is last: while it is open, the repository is not on its way anywhere.
    """
    if isinstance(source.refs, StateFileRefs):
        return _fence_state(source.refs.file, refs, target)
    names = sorted(refs.branches, key=lambda name: (name == MAIN, name))
    return all(_fence_branch(source, name, refs.branches[name], target) for name in names)


def _fence_branch(
    source: UpgradeSource, name: str, expected: SnapshotId, target: Generation
) -> bool:
    refs = source.refs
    assert isinstance(refs, NumberedRefs)
    tip = refs.tip(name)
    if tip is None or tip.target != expected:
        return False
    if tip.moved_to is not None:
        return True
    dialect = source.files.dialect
    if not dialect.is_writable:
        is_g2 = source.age is LegacyGeneration.G2
        dialect = Dialect.G2_MSGPACK if is_g2 else Dialect.G3A  # whose refs are the same
    record = RefRecord(
        snapshot=NOWHERE,
        name=crockford(bytes(WIDE)) if source.age is LegacyGeneration.G2 else None,
        timestamp=now_micros() * 1000,
        moved_to=marker(target),
    )
    key = refs.layout.branch_key(name, tip.number + 1)
    made = create_object(source.place, key, encode_ref(record, dialect), JSON_FILE)
    return not isinstance(made, LostRace)


def _fence_state(file: StateFile, refs: OldRefs, target: Generation) -> bool:
    held = file.read()
    if held.state.moved_to is not None:
        return True
    here = {name: ref.id for name, ref in held.state.refs.items()}
    if here != {**refs.branches, **refs.tags}:
        return False
    return file.swap(held, move_away(held.state, marker(target)))


# --- taking them down ---


def fences(source: UpgradeSource) -> list[str]:
    """The keys of all fences of numbered branches, that of the main branch last."""
    refs = source.refs
    if not isinstance(refs, NumberedRefs):
        return []
    found: list[str] = []
    for name in sorted(refs.branches(), key=lambda name: (name == MAIN, name)):
        tip = refs.tip(name)
        if tip is not None and tip.moved_to is not None:
            found.append(refs.layout.branch_key(name, tip.number))
    return found


def open_again(source: UpgradeSource) -> None:
    """Take all fences down."""
    if isinstance(source.refs, StateFileRefs):
        _open_state(source.refs.file, source.context.config.update_retries())
    for key in fences(source):
        require_deleted(source.place.delete_many([key]))


def _open_state(file: StateFile, retries: StorageRetriesSettings) -> None:
    for _ in attempts(retries):
        held = file.read()
        if held.state.moved_to is None:
            return
        state = replace(held.state, generation=held.state.generation + 1, moved_to=None)
        if file.swap(held, state):
            return


# --- one upgrade at a time ---

# Converted files get the same names whatever the target, and each target has other bytes for them.
# Two upgrades that mean the same write the same bytes and may help each other, so a claim only
# keeps away those that mean something else.

CLAIM_KEY: Final = "upgrade.json"
UNDOING: Final = json.dumps({"undo": True}).encode()
CLEANING: Final = json.dumps({"clean": True}).encode()
TIDYING: Final = {
    UNDOING: "an upgrade is being undone: finish that first, with `frazil upgrade URL --undo`",
    CLEANING: "what an upgrade left is being deleted: finish that first, with "
    "`frazil upgrade URL --clean`",
}
"""What a claim says while an upgrade is undone or cleaned up, and what others are told then."""


def claim(place: Storage, target: Generation, mode: ChunkMode) -> None:
    """Say that the repository is being upgraded, before anything of it is written.

    Raises:
        SessionStateError: an upgrade that would write other files has been begun.
        ConflictError: one has just ended.
    """
    wanted = _claimed(target, mode)
    made = create_object(place, CLAIM_KEY, wanted, JSON_FILE)
    if not isinstance(made, LostRace):
        found = detect_generation(place)
        if found is None or found.generation.dialect is not None:
            return
        release(place)
        raise late()
    there = place.get(CLAIM_KEY)
    if there is None:  # it was released between these two calls
        raise late()
    if there in TIDYING:
        raise cannot(TIDYING[there])
    if there != wanted:
        raise cannot(f"another upgrade {_described(there)} has been begun; finish or undo it first")


def _claimed(target: Generation, mode: ChunkMode) -> bytes:
    return json.dumps({"to": marker(target), "chunks": str(mode)}).encode()


def require_claim(place: Storage, target: Generation, mode: ChunkMode) -> None:
    """Refuse to publish what somebody is about to delete.

    Raises:
        SessionStateError: somebody else has begun to undo the upgrade, or has done so.
    """
    if place.get(CLAIM_KEY) == _claimed(target, mode):
        return
    found = detect_generation(place)
    if found is None or found.generation.dialect is not None:
        raise cannot("somebody else has undone this upgrade meanwhile")


def claim_tidying(place: Storage, wanted: bytes) -> None:
    """Keep upgrades away while one is undone or cleaned up, and who does the other of the two.

    A new upgrade makes files of the same names as those that undoing deletes, and cleaning up
    deletes what undoing needs.

    Raises:
        SessionStateError: the other one has begun.
    """
    for _ in attempts(StorageRetriesSettings()):
        found = place.fetch(CLAIM_KEY)
        assert not isinstance(found, Unchanged)
        if found is not None and found.data == wanted:
            return
        if found is not None and found.data in TIDYING:
            raise cannot(TIDYING[found.data])
        version = None if found is None else found.version
        if not isinstance(place.put_if(CLAIM_KEY, wanted, version, JSON_FILE), LostRace):
            return


def late() -> ConflictError:
    """The error for a repository that was upgraded meanwhile."""
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
