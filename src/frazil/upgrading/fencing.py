"""Old branches get a last entry that leads nowhere, so that old clients cannot commit to them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from frazil.commit.base import attempts, create_object, now_micros
from frazil.commit.by_numbered_files import NumberedRefs
from frazil.commit.by_state_file import StateFileRefs
from frazil.formats.generation import Generation
from frazil.formats.legacy.dialects import Dialect, LegacyGeneration
from frazil.formats.legacy.g1_state import move_away
from frazil.formats.legacy.names import WIDE
from frazil.formats.legacy.records import RefRecord
from frazil.formats.legacy.refs import encode_ref
from frazil.formats.ref_files import NOWHERE
from frazil.ids import MAIN, SnapshotId, crockford
from frazil.maintenance.upgrade import RefSet
from frazil.model.config import StorageRetriesSettings
from frazil.storage.base import JSON_FILE, Fetched, LostRace, require_deleted
from frazil.storage.legacy.g1 import StateFile
from frazil.upgrading.source import UpgradeSource, cannot, marker


def require_no_other(source: UpgradeSource, target: Generation) -> None:
    """Refuse an upgrade to one spec while an upgrade to another is unfinished."""
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


def fence(source: UpgradeSource, refs: RefSet, target: Generation) -> bool:
    """Fence all branches that are still where `refs` says; False when one has moved.

    The main branch is last: as long as it is not fenced, the upgrade has not taken effect.
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


def _fence_state(file: StateFile, refs: RefSet, target: Generation) -> bool:
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


def open_again(source: UpgradeSource, hold: Callable[[], None]) -> None:
    """Take all fences down; `hold` says right before each that this may be done."""
    if isinstance(source.refs, StateFileRefs):
        _open_state(source.refs.file, source.context.config.update_retries(), hold)
    place = source.place
    for key in fences(source):
        found = place.fetch(key)
        hold()
        if isinstance(found, Fetched):
            # The next commit may take the name.
            require_deleted(place.delete_once(key, found.version))


def _open_state(file: StateFile, retries: StorageRetriesSettings, hold: Callable[[], None]) -> None:
    for _ in attempts(retries):
        held = file.read()
        if held.state.moved_to is None:
            return
        hold()
        state = replace(held.state, generation=held.state.generation + 1, moved_to=None)
        if file.swap(held, state):
            return
