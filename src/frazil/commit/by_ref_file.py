"""Commit protocol of v1: one file per ref, replaced by compare-and-swap."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from frazil.commit.base import MINIMUM_AGE, attempts, certain, create_object, refuse_main
from frazil.commit.closing import being_undone, taken_over
from frazil.commit.config_file import edit_config_file, read_config
from frazil.commit.file_refs import BranchFileRefs, refuse_newer
from frazil.commit.refusals import branch_exists, moved, no_ref, tag_exists
from frazil.errors import ConflictError, ErrorKind, FrazilError, InvalidInputError
from frazil.formats.generation import V1
from frazil.formats.ref_files import (
    REFS,
    Fence,
    branch_key,
    decode_fence,
    decode_ref,
    encode_fence,
    encode_moved_ref,
    encode_ref,
    parse_ref_key,
    tag_key,
    tombstone_key,
)
from frazil.ids import MAIN, SnapshotId
from frazil.model.config import RepositoryConfig
from frazil.model.history import JSON, SnapshotEntry
from frazil.storage.assets import Assets
from frazil.storage.base import (
    JSON_FILE,
    PLAIN,
    Fetched,
    LostRace,
    Storage,
    Version,
    Written,
    require_deleted,
)


class RefFileRefs(BranchFileRefs):
    """Refs as files, each replaced when it moves."""

    generation = V1

    def __init__(self, storage: Storage, assets: Assets, config: RepositoryConfig) -> None:
        super().__init__(storage, assets)
        self._retries = config.update_retries()
        self._encoded = storage.percent_encodes_names

    # --- reading ---

    def branches(self) -> Mapping[str, SnapshotId]:
        names = [name for kind, name in self._names() if kind == "branch"]
        tips = self._storage.each(self._find_branch, names)
        return {name: tip for name, tip in zip(names, tips, strict=True) if tip is not None}

    def tags(self) -> Mapping[str, SnapshotId]:
        names = [name for kind, name in self._names() if kind == "tag"]
        targets = self._storage.each(self._find_tag, names)
        return {name: id_ for name, id_ in zip(names, targets, strict=True) if id_ is not None}

    def branch_tip(self, name: str) -> SnapshotId:
        found = self._find_branch(name)
        if found is None:
            self.require_current()
            raise no_ref("branch", name)
        return found

    def tag_target(self, name: str) -> SnapshotId:
        found = self._find_tag(name)
        if found is None:
            self.require_current()
            raise no_ref("tag", name)
        return found

    def stored_config(self) -> JSON | None:
        return read_config(self._storage)

    def deleted_tags(self) -> list[tuple[str, SnapshotId | None]]:
        """Tombstoned tags and what they pointed to."""
        names = sorted({name for kind, name in self._names() if kind == "tag"})
        gone = [name for name in names if self._is_tombstoned(name)]
        return [(name, self._read(tag_key(name, encoded=self._encoded))) for name in gone]

    def _names(self) -> list[tuple[str, str]]:
        """(kind, name) of every ref folder, once each."""
        keys = (item.key for item in self._storage.list(REFS))
        return sorted({parse_ref_key(key, encoded=self._encoded) for key in keys})

    def _read(self, key: str) -> SnapshotId | None:
        """What a ref file says; None when there is none, or only the remains of a deleted one."""
        blob = self._storage.get(key)
        if blob is None:
            return None
        self._refuse_taken(key, blob)
        return None if decode_fence(blob) else decode_ref(blob, key=key)

    def _refuse_taken(self, key: str, blob: bytes) -> None:
        match decode_fence(blob):
            case (Fence.UPGRADED, _):
                raise taken_over(self._storage, key)
            case (Fence.UNDONE, _):
                raise being_undone(self._storage)

    def _find_branch(self, name: str) -> SnapshotId | None:
        return self._read(self._branch_key(name))

    def _find_tag(self, name: str) -> SnapshotId | None:
        key = self._tag_key(name)
        return None if self._is_tombstoned(name) else self._read(key)

    def _is_tombstoned(self, name: str) -> bool:
        key = tombstone_key(name, encoded=self._encoded)
        blob = self._storage.get(key)
        if blob is not None:
            self._refuse_taken(key, blob)
        return blob is not None

    def _branch_key(self, name: str) -> str:
        _check_name(name)
        return branch_key(name, encoded=self._encoded)

    def _tag_key(self, name: str) -> str:
        _check_name(name)
        return tag_key(name, encoded=self._encoded)

    # --- changing ---

    def _keys_of(self, branch: str) -> list[str]:
        return [self._branch_key(branch)]

    def _move(
        self,
        branch: str,
        base: SnapshotId,
        new: SnapshotId,
        ready: Callable[[], None] = lambda: None,
        *,
        lost_is: Callable[[LostRace], object] = lambda _: None,
    ) -> None:
        """Move a branch from `base` to `new`, once `ready` has returned.

        `lost_is` is called with a lost race before that becomes a conflict.
        """
        key = self._branch_key(branch)
        lost: LostRace | None = None
        for _ in attempts(self._retries):
            found = self._fetch(branch)
            tip = decode_ref(found.data, key=key)
            if tip == new:
                return  # an earlier attempt landed; only its reply was lost
            if tip != base:
                if lost is not None:
                    lost_is(lost)
                raise moved(base, tip, branch)
            if lost is not None:
                certain(lost)  # it may have been done, and taken back by others: once is enough
            self.require_current()
            data = encode_moved_ref(new)
            outcome = self._storage.put_when(key, data, found.version, ready, JSON_FILE)
            if not isinstance(outcome, LostRace):
                return
            lost = outcome

    def _fetch(self, branch: str) -> Fetched:
        """The file of a branch."""
        key = self._branch_key(branch)
        found = self._storage.fetch(key)
        if isinstance(found, Fetched):
            self._refuse_taken(key, found.data)
        if not isinstance(found, Fetched) or decode_fence(found.data):
            self.require_current()
            raise no_ref("branch", branch)
        return found

    def require_current(self) -> None:
        refuse_newer(self._storage, than_spec_1=False)

    def _require_standing(self) -> None:
        # Undoing an upgrade fences the main branch before it looks at all others.
        self.require_current()
        if self._find_branch(MAIN) is None:
            raise being_undone(self._storage)

    def entry_key(self) -> str:
        return self._branch_key(MAIN)

    def create_main(self, first: SnapshotEntry) -> bool:
        return self._create(self._branch_key(MAIN), encode_ref(first.id))

    def create_branch(self, name: str, target: SnapshotId) -> None:
        key = self._branch_key(name)
        self._create_ref(key, target, lambda: branch_exists(name, self.branch_tip(name)))

    def create_tag(self, name: str, target: SnapshotId) -> None:
        self._create_ref(self._tag_key(name), target, lambda: tag_exists(name))

    def _create_ref(self, key: str, target: SnapshotId, taken: Callable[[], FrazilError]) -> None:
        self.require_current()
        self._require_snapshot(target)
        made = self._make(key, target)
        if isinstance(made, LostRace):
            raise taken()
        version = made.version
        self._confirm_made(target, lambda: self._withdraw(key, target, version))

    def _reset(self, name: str, tip: SnapshotId, target: SnapshotId) -> None:
        self._move(name, tip, target, lost_is=certain)

    def delete_branch(self, name: str, expected: SnapshotId | None = None) -> None:
        refuse_main(name)
        key = self._branch_key(name)
        for _ in attempts(self._retries):
            found = self._fetch(name)
            tip = decode_ref(found.data, key=key)
            if expected is not None and tip != expected:
                raise moved(expected, tip, name)
            self.require_current()
            if self._withdraw(key, tip, found.version):
                return

    def _withdraw(self, key: str, target: SnapshotId, version: Version) -> bool:
        """Delete a ref that still has this version; False when it has another.

        A delete cannot be conditional. So the file is first replaced, under a condition, by a ref
        that no client can commit to.

        Raises:
            StorageError: the store refuses to delete; the ref is as it was. If the outcome is
                unknown, the ref is gone all the same, and only its file may be left.
        """
        deleted = encode_fence(Fence.DELETED, target)
        fence = certain(self._storage.put_if(key, deleted, version, JSON_FILE))
        if isinstance(fence, LostRace):
            return False
        done = self._storage.delete_once(key, fence.version)
        if done.failed and not done.in_doubt:
            # A request that may still arrive would delete what others do to it until then.
            self._storage.put_if(key, encode_moved_ref(target), fence.version, JSON_FILE)
        require_deleted(done)
        return True

    def _make(self, key: str, target: SnapshotId) -> Written | LostRace:
        """Create a ref where there is none, or what a killed deletion left of one.

        Raises:
            ConflictError: a deletion of the file is under way and may still take effect.
        """
        data = encode_moved_ref(target)
        made = create_object(self._storage, key, data, JSON_FILE)
        if isinstance(made, Written):
            return made
        found = self._storage.fetch(key)
        fence = decode_fence(found.data) if isinstance(found, Fetched) else None
        if fence is None or fence[0] is not Fence.DELETED or not isinstance(found, Fetched):
            return certain(made)
        seen = self._storage.head(key)
        if seen is None or self._storage.clock() - seen.created_at < MINIMUM_AGE:
            raise ConflictError(
                message="a branch or tag of this name is being deleted; its name is free when that "
                "is done or, if it was interrupted, a day later",
                kind=ErrorKind.BRANCH_UPDATE_CONFLICT,
                key=key,
            )
        return certain(self._storage.put_if(key, data, found.version, JSON_FILE))

    def move_tag(self, name: str, target: SnapshotId, expected: SnapshotId) -> None:
        """Point a tag, also a deleted one, to what replaces its snapshot, if it still is there."""
        self.require_current()
        key = tag_key(name, encoded=self._encoded)
        found = self._storage.fetch(key)
        at = decode_ref(found.data, key=key) if isinstance(found, Fetched) else None
        if at == target:
            return
        if not isinstance(found, Fetched) or at != expected:
            raise moved(expected, at, name)
        data = encode_moved_ref(target)
        outcome = certain(self._storage.put_if(key, data, found.version, JSON_FILE))
        if isinstance(outcome, LostRace):
            raise moved(expected, None, name)

    def delete_tag(self, name: str) -> None:
        self.require_current()
        self.tag_target(name)
        key = tombstone_key(name, encoded=self._encoded)
        if isinstance(create_object(self._storage, key, b"", PLAIN), LostRace):
            self.require_current()
            raise no_ref("tag", name)
        try:
            self._require_standing()
        except ConflictError:
            self._storage.delete_many([key])  # not read any more, after an upgrade
            raise

    def _create(self, key: str, data: bytes) -> bool:
        return not isinstance(create_object(self._storage, key, data, JSON_FILE), LostRace)

    def edit_config(self, change: Callable[[JSON | None], JSON]) -> None:
        edit_config_file(
            self._storage, change, self._retries, require=self.require_current, keeps_backup=True
        )


def _check_name(name: str) -> None:
    if "/" in name or not name:
        raise InvalidInputError(
            f"invalid ref name {name!r}: it must not be empty or contain '/'",
            kind=ErrorKind.INVALID_REF_NAME,
        )
