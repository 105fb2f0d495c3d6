"""Commit protocol of G2 and G3: a branch is a row of numbered files, each created once.

The newest file says where the branch is. A commit creates the next number, which only one of
several writers can; nothing is ever replaced. A deletion takes the next number too, for a file
that says so. Otherwise the numbers would be free again, and a writer that listed the branch before
the deletion could create a number above those of a new branch of that name and hide its commits.
An upgrade fences a branch with a last file that names no snapshot of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from frazil.commit.base import attempts, create_object, now_micros, refuse_main
from frazil.commit.closing import fenced_error
from frazil.commit.config_file import edit_config_file, read_config
from frazil.commit.file_refs import BranchFileRefs, no_config, refuse_newer
from frazil.commit.refusals import branch_exists, moved, no_ref, no_snapshot, tag_exists
from frazil.errors import ConflictError
from frazil.formats.generation import Generation
from frazil.formats.legacy.dialects import LegacyGeneration
from frazil.formats.legacy.names import bytes_of_name, narrow_id, stored_name
from frazil.formats.legacy.records import RefRecord
from frazil.formats.legacy.refs import RefKey, RefLayout, decode_ref, encode_ref, parse_ref_key
from frazil.ids import MAIN, SnapshotId, crockford
from frazil.model.config import RepositoryConfig
from frazil.model.history import JSON, SnapshotEntry
from frazil.storage.assets import Assets
from frazil.storage.base import JSON_FILE, PLAIN, LostRace, Storage, Version, require_deleted
from frazil.storage.legacy.branch_files import BranchFile, layout_at, steps_of
from frazil.storage.legacy.name_book import NameBook

FAR_BACK: Final = 8
"""Steps that may vanish between listing and reading before a branch counts as deleted."""


@dataclass(frozen=True, slots=True)
class NumberedTip:
    """Where a branch is: the number of its newest file, and the snapshot it stands at."""

    number: int
    target: SnapshotId
    moved_to: str | None = None
    """the branch is fenced off: it lives on in that spec"""
    is_deleted: bool = False
    """there is no branch; one of this name would go on with the next number"""


class NumberedRefs(BranchFileRefs):
    """Branches as rows of numbered files, tags as single ones."""

    def __init__(
        self,
        storage: Storage,
        assets: Assets,
        config: RepositoryConfig,
        generation: Generation,
        names: NameBook,
        layout: RefLayout | None = None,
    ) -> None:
        super().__init__(storage, assets)
        assert generation.dialect is not None
        self.generation = generation
        self._dialect = generation.dialect
        self._retries = config.update_retries()
        self._names = names
        self._layout = layout
        self._known: dict[str, int] = {}
        """numbers that branches are known to have reached"""

    @property
    def layout(self) -> RefLayout:
        """How this repository names the files of its refs."""
        if self._layout is None:
            self._layout = layout_at(self._storage, self._dialect.generation)
        return self._layout

    # --- reading ---

    def branches(self) -> Mapping[str, SnapshotId]:
        names = sorted({key.name for _, key in self._keys() if key.kind == "branch"})
        tips = self._storage.each(self.tip, names)
        return {name: tip.target for name, tip in zip(names, tips, strict=True) if tip is not None}

    def tags(self) -> Mapping[str, SnapshotId]:
        found = [(text, key) for text, key in self._keys() if key.kind == "tag"]
        gone = {key.name for _, key in found if key.is_tombstone}
        live = {key.name: text for text, key in found if key.name not in gone}
        targets = self._storage.each(self._read, list(live.values()))
        return {
            name: record.snapshot
            for name, record in zip(live, targets, strict=True)
            if record is not None
        }

    def deleted_tags(self) -> list[tuple[str, SnapshotId | None]]:
        gone = sorted({key.name for _, key in self._keys() if key.is_tombstone})
        records = [self._read(self.layout.tag_key(name)) for name in gone]
        return [
            (name, None if record is None else record.snapshot)
            for name, record in zip(gone, records, strict=True)
        ]

    def snapshot_id(self, text: str) -> SnapshotId:
        raw = bytes_of_name(text if "-" in text else text.upper())
        if raw is None or self.layout.generation is not LegacyGeneration.G2:
            return SnapshotId.parse(text)
        found = SnapshotId(narrow_id(raw))
        # Reading the file reveals its whole name, of which the model has only the beginning.
        self._require_snapshot(found)
        if stored_name(LegacyGeneration.G2, "snapshots", found, self._names.names().snapshots) != (
            crockford(raw)
        ):
            raise no_snapshot(text)
        return found

    def branch_tip(self, name: str) -> SnapshotId:
        return self._existing(name).target

    def tag_target(self, name: str) -> SnapshotId:
        key = self.layout.tag_key(name)
        record = None if self._is_tombstoned(name) else self._read(key)
        if record is None:
            raise no_ref("tag", name)
        return record.snapshot

    def tip(self, name: str) -> NumberedTip | None:
        """Where a branch is; None when there is no such branch."""
        found = self._last_of(name)
        return None if found is None or found.is_deleted else found

    def _last_of(self, name: str) -> NumberedTip | None:
        """The end of a branch, be it there or deleted; None when there never was one."""
        for _ in range(FAR_BACK):
            newest: int | None = None
            fence: str | None = None
            for step in steps_of(self._storage, self.layout, name, self._known.get(name)):
                record = self._read(step.key)
                if record is None:
                    break  # deleted since it was listed: look again
                newest = step.number if newest is None else newest
                if record.moved_to is None:
                    self._known[name] = step.number
                    return NumberedTip(newest, record.snapshot, fence, record.is_deleted)
                fence = record.moved_to
            else:
                return None
        return None

    def stored_config(self) -> JSON | None:
        return read_config(self._storage) if self.generation.keeps_config else None

    def _existing(self, name: str) -> NumberedTip:
        found = self.tip(name)
        if found is None:
            raise no_ref("branch", name)
        return found

    def steps(self, name: str) -> Iterator[BranchFile]:
        """The files of a branch, newest first."""
        return steps_of(self._storage, self.layout, name)

    def _keys(self) -> Iterator[tuple[str, RefKey]]:
        """All files of refs, as far as they follow the layout of this repository."""
        layout = self.layout
        for item in self._storage.list(layout.root):
            found = parse_ref_key(layout.generation, item.key, encoded=layout.encoded)
            if found is not None and found.prefix == layout.prefix:
                yield item.key, found

    def _read(self, key: str) -> RefRecord | None:
        blob = self._storage.get(key)
        if blob is None:
            return None
        record = decode_ref(blob, key=key, generation=self._dialect.generation)
        if record.name is not None:
            self._names.note("snapshots", record.snapshot, record.name)
        return record

    def _is_tombstoned(self, name: str) -> bool:
        if self.layout.generation is not LegacyGeneration.G3:
            return False
        return self._storage.head(self.layout.tombstone_key(name)) is not None

    # --- changing ---

    def require_current(self) -> None:
        self._refuse_fenced(self.tip(MAIN))
        refuse_newer(self._storage)

    def _keys_of(self, branch: str) -> list[str]:
        return [step.key for step in self.steps(branch)]

    def _move(
        self,
        branch: str,
        base: SnapshotId,
        new: SnapshotId,
        ready: Callable[[], None] = lambda: None,
    ) -> None:
        """Move a branch from `base` to `new`, once `ready` has returned."""
        for _ in attempts(self._retries):
            # Listed anew each time: a branch deleted and made again counts from zero.
            tip = self._existing(branch)
            self._refuse_fenced(tip)
            if tip.target == new:
                return  # an earlier attempt landed; only its reply was lost
            if tip.target != base:
                raise moved(base, tip.target, branch)
            key = self.layout.branch_key(branch, tip.number + 1)
            outcome = self._storage.put_when(key, self._content(new), None, ready, JSON_FILE)
            if not isinstance(outcome, LostRace):
                return

    def _content(self, target: SnapshotId, *, is_deleted: bool = False) -> bytes:
        record = RefRecord(
            snapshot=target,
            name=self._names.name("snapshots", target),
            timestamp=now_micros() * 1000,
            is_deleted=is_deleted,
        )
        return encode_ref(record, self._dialect)

    def _refuse_fenced(self, tip: NumberedTip | None) -> None:
        """Refuse to write once an upgrade has begun: readers ignore the old files from then on."""
        if tip is not None and tip.moved_to is not None:
            raise fenced_error(tip.moved_to)

    def create_branch(self, name: str, target: SnapshotId) -> None:
        self.require_online()
        self._require_snapshot(target)
        last = self._last_of(name)
        number = 0 if last is None else last.number + 1
        key = self.layout.branch_key(name, number)
        if (last is not None and not last.is_deleted) or not self._create(key, target):
            raise branch_exists(name, self.branch_tip(name))
        self._confirm_made(target, lambda: self._end(name, number, target))

    def delete_branch(self, name: str, expected: SnapshotId | None = None) -> None:
        self.require_online()
        refuse_main(name)
        for _ in attempts(self._retries):
            tip = self._existing(name)
            self._refuse_fenced(tip)
            if expected is not None and tip.target != expected:
                raise moved(expected, tip.target, name)
            if self._end(name, tip.number, tip.target):
                return

    def _end(self, name: str, number: int, target: SnapshotId) -> bool:
        """Delete a branch whose last file still has this number; False when there is another."""
        key = self.layout.branch_key(name, number + 1)
        content = self._content(target, is_deleted=True)
        return not isinstance(create_object(self._storage, key, content, JSON_FILE), LostRace)

    def deleted_branch_keys(self) -> list[str]:
        """The files of branches that were deleted."""
        found = [(text, key.name) for text, key in self._keys() if key.kind == "branch"]
        live = {name for name in {name for _, name in found} if self.tip(name) is not None}
        return [text for text, name in found if name not in live]

    def create_tag(self, name: str, target: SnapshotId) -> None:
        self.require_online()
        key = self.layout.tag_key(name)
        self._require_snapshot(target)
        if self._is_tombstoned(name):
            raise tag_exists(name)
        made = create_object(self._storage, key, self._content(target), JSON_FILE)
        if isinstance(made, LostRace):
            raise tag_exists(name)
        version = made.version
        self._confirm_made(target, lambda: self._drop_tag(key, version))

    def _drop_tag(self, key: str, version: Version) -> bool:
        try:
            self.require_current()
        except ConflictError:
            return True  # spec 1 has tags in the same place, so that it may be one of its own
        require_deleted(self._storage.delete_once(key, version))
        return True

    def delete_tag(self, name: str) -> None:
        self.require_tag_deletion()
        self.require_online()
        self.tag_target(name)
        key = self.layout.tombstone_key(name)
        if isinstance(create_object(self._storage, key, b"", PLAIN), LostRace):
            raise no_ref("tag", name)
        try:
            self.require_current()
        except ConflictError as error:
            error.add_note(f"the upgrade may have been in time to see that {name!r} was deleted")
            raise

    def _create(self, key: str, target: SnapshotId) -> bool:
        made = create_object(self._storage, key, self._content(target), JSON_FILE)
        return not isinstance(made, LostRace)

    def entry_key(self) -> str:
        newest = next(self.steps(MAIN), None)
        return self.layout.branch_key(MAIN, 0) if newest is None else newest.key

    def create_main(self, first: SnapshotEntry) -> bool:
        return self._create(self.layout.branch_key(MAIN, 0), first.id)

    def edit_config(self, change: Callable[[JSON | None], JSON]) -> None:
        if not self.generation.keeps_config:
            raise no_config(self.generation)
        edit_config_file(
            self._storage,
            change,
            self._retries,
            require=self.require_online,
            keeps_backup=False,
            as_json=self.generation.designed_headers,
        )
