"""The rules of the v2 repo object and of the operations log that it begins."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

from frazil.commit.base import OVERWRITTEN
from frazil.commit.config_file import CONFIG_KEY, read_config
from frazil.errors import FormatError, FrazilError, InvalidInputError
from frazil.flatbuf.reader import I32, U32, Table
from frazil.formats.config_codec import config_from_map
from frazil.formats.envelope import FileKind
from frazil.formats.ref_files import (
    FILE,
    REFS,
    TOMBSTONE,
    branch_key,
    decode_fence,
    decode_ref,
    parse_ref_key,
)
from frazil.formats.repo_info import REPO_KEY, SPECS, decode_repo_info
from frazil.fsck.files import ascends, metadata_order, open_root
from frazil.fsck.findings import Code, Finding
from frazil.ids import MAIN, SnapshotId
from frazil.model.history import JSON, RepoAvailability, RepoInfo, UnknownUpdate
from frazil.model.updates import FLAGS
from frazil.storage.base import Fetched, Listed, Storage

RESERVED_FLAGS: Final = (1, 2)


def read_repo(blob: bytes, key: str = REPO_KEY) -> tuple[RepoInfo | None, list[Finding]]:
    """The repo object, if it can be decoded, and everything that is wrong with it."""
    root, findings = open_root(blob, key, FileKind.REPO_INFO)
    if root is None:
        return None, list(findings)
    try:
        info = decode_repo_info(blob, key=key)
        # Texts and values are unpacked when they are asked for.
        for _ in info.snapshots.entries():
            pass
        tuple(info.latest_updates)
    except FormatError as error:
        return None, [_trouble(root, error)]
    return info, [*_check(root, info, blob[36], key)]


def _trouble(root: Table, error: FormatError) -> Finding:
    """The rule that a decoding error breaks."""
    key = root.buffer.key
    try:
        if root.byte(0) not in SPECS:
            return Finding(Code.REPO_SPEC, key, f"the content names {root.byte(0)}")
        snapshots = list(root.tables(4, "snapshots"))
        if not ascends([table.required_bytes(0, SnapshotId.width, "id") for table in snapshots]):
            return Finding(Code.SNAPSHOT_ORDER, key)
        if any(not -1 <= table.number(1, I32) < len(snapshots) for table in snapshots):
            return Finding(Code.SNAPSHOT_PARENT, key)
        for slot, kind in ((1, "tag"), (2, "branch")):
            for table in root.tables(slot, kind):
                if table.number(1, U32) >= len(snapshots):
                    name = table.required_text(0, "name")
                    return Finding(Code.REF_TARGET, key, f"{kind} {name!r}")
    except FormatError:
        pass
    return Finding(Code.FILE_DAMAGED, key, str(error))


def _check(root: Table, info: RepoInfo, spec: int, key: str) -> Iterator[Finding]:
    if spec != info.spec_version:
        detail = f"the header names {spec}, the content {info.spec_version}"
        yield Finding(Code.REPO_SPEC, key, detail)
    yield from _names(root, info, key)
    yield from metadata_order(root, 6, key)
    yield from _status(root, key)
    yield from _flags(root, key)
    yield from check_config(info.config, key)
    yield from _updates(info, key)


def _names(root: Table, info: RepoInfo, key: str) -> Iterator[Finding]:
    for slot, kind in ((1, "tags"), (2, "branches")):
        if not ascends([ref.required_text(0, "name").encode() for ref in root.tables(slot)]):
            yield Finding(Code.REF_ORDER, key, kind)
    start, count = root.required_vector(3, 4, "deleted_tags")
    places = range(start, start + 4 * count, 4)
    buffer = root.buffer
    if not ascends([buffer.text(at + buffer.read(U32, at)).encode() for at in places]):
        yield Finding(Code.REF_ORDER, key, "deleted_tags")
    if MAIN not in info.branches:
        yield Finding(Code.MAIN_MISSING, key)
    for name in sorted(info.deleted_tags & info.tags.keys()):
        yield Finding(Code.TAG_DELETED, key, f"tag {name!r}")


def _status(root: Table, key: str) -> Iterator[Finding]:
    status = root.table(5)
    availability = 0 if status is None else status.byte(0)
    if availability not in (RepoAvailability.online, RepoAvailability.read_only):
        yield Finding(Code.STATUS_UNKNOWN, key, f"the availability is {availability}")


def _flags(root: Table, key: str) -> Iterator[Finding]:
    lists = [_numbers(root, slot) for slot in (10, 11)]
    for flags in lists:
        if any(after <= before for before, after in pairwise(flags)):
            yield Finding(Code.FLAG_ORDER, key)
    both = set(lists[0]) & set(lists[1])
    if both:
        yield Finding(Code.FLAG_ORDER, key, f"flags {sorted(both)} are set both on and off")
    unknown = {flag for flags in lists for flag in flags} - set(FLAGS) - set(RESERVED_FLAGS)
    for flag in sorted(unknown):
        yield Finding(Code.FLAG_UNKNOWN, key, f"flag {flag}")


def _numbers(root: Table, slot: int) -> tuple[int, ...]:
    found = root.vector(slot, 2)
    if found is None:
        return ()
    start, count = found
    return struct.unpack(f"<{count}H", root.buffer.slice(start, 2 * count))


def check_config(config: JSON | None, key: str) -> Iterator[Finding]:
    """Check that a stored configuration can be used."""
    if config is None:
        return
    try:
        config_from_map(config)
    except FrazilError as error:
        yield Finding(Code.CONFIG_DAMAGED, key, str(error))


def _updates(info: RepoInfo, key: str) -> Iterator[Finding]:
    lines = tuple(info.latest_updates)
    if not lines:
        yield Finding(Code.UPDATES_EMPTY, key)
        return
    if lines[0].backup_path is not None:
        yield Finding(Code.UPDATE_BACKUP, key, lines[0].backup_path)
    for newer, older in pairwise(lines):
        if older.updated_at >= newer.updated_at:
            yield Finding(Code.UPDATE_TIME, key, f"at {older.updated_at} microseconds")
    for kind in sorted({line.kind.tag for line in lines if isinstance(line.kind, UnknownUpdate)}):
        yield Finding(Code.UPDATE_UNKNOWN, key, f"kind {kind}")


# --- what lies around it ---


def check_backups(storage: Storage, info: RepoInfo) -> Iterator[Finding]:
    """Follow the operations log through the backups that hold its older lines."""
    seen: set[str] = set()
    while (name := info.repo_before_updates) is not None:
        key = OVERWRITTEN + name
        if name in seen:
            yield Finding(Code.BACKUP_CHAIN, key, "the operations log runs in a circle")
            return
        seen.add(name)
        blob = storage.get(key)
        if blob is None:
            yield Finding(Code.BACKUP_MISSING, key)
            return
        older, findings = read_repo(blob, key)
        if older is None or not len(older.latest_updates):
            detail = findings[0].detail if findings else "it has no operations log"
            yield Finding(Code.BACKUP_CHAIN, key, detail)
            return
        last = info.latest_updates[-1].updated_at if info.latest_updates else 0
        if older.latest_updates[0].updated_at >= last:
            yield Finding(Code.BACKUP_CHAIN, key, "it is not older than what refers to it")
            return
        info = older


def check_leftovers(storage: Storage) -> Iterator[Finding]:
    """Report refs of an older version beside a repo object."""
    left = next(iter(storage.list(REFS)), None)
    if left is not None:
        yield Finding(Code.LEFTOVER_REFS, left.key)


@dataclass(slots=True)
class RefFiles:
    """The refs of a v1 repository as far as they can be read."""

    branches: dict[str, SnapshotId] = field(default_factory=dict)
    tags: dict[str, SnapshotId] = field(default_factory=dict)
    damaged: dict[str, str] = field(default_factory=dict)
    """branches whose files name no snapshot, with their keys"""
    unusable: dict[str, Fetched] = field(default_factory=dict)
    """files of branches that name no snapshot, as they were read, by their keys"""
    findings: list[Finding] = field(default_factory=list)


def read_ref_files(storage: Storage) -> RefFiles:
    """Read all refs, and tell what is wrong with them."""
    refs = RefFiles()
    folders: dict[tuple[str, str], dict[str, Listed]] = {}
    encoded = storage.percent_encodes_names
    for item in storage.list(REFS):
        try:
            ref = parse_ref_key(item.key, encoded=encoded)
        except InvalidInputError as error:
            refs.findings.append(Finding(Code.REF_UNKNOWN, item.key, str(error)))
            continue
        folders.setdefault(ref, {})[item.key.rpartition("/")[2]] = item
    for (kind, name), files in sorted(folders.items()):
        _read_ref(storage, refs, kind, name, files)
    if MAIN not in refs.branches and MAIN not in refs.damaged:
        refs.findings.append(Finding(Code.MAIN_MISSING, branch_key(MAIN, encoded=encoded)))
    return refs


def _read_ref(
    storage: Storage, refs: RefFiles, kind: str, name: str, files: dict[str, Listed]
) -> None:
    file, tombstone = files.get(FILE), files.get(TOMBSTONE)
    for stray in sorted(files.keys() - {FILE, TOMBSTONE}):
        refs.findings.append(Finding(Code.STRAY_NAME, files[stray].key))
    if tombstone is not None and (kind == "branch" or file is None or tombstone.size_bytes):
        refs.findings.append(Finding(Code.TOMBSTONE, tombstone.key))
    if file is None or (kind == "tag" and tombstone is not None):
        return
    read = storage.fetch(file.key)
    if not isinstance(read, Fetched):
        return  # deleted since it was listed
    if kind == "branch":
        refs.unusable[file.key] = read
    if decode_fence(read.data) is not None:
        return  # what a killed deletion left of a branch
    try:
        found = decode_ref(read.data, key=file.key)
    except FormatError as error:
        refs.findings.append(Finding(Code.REF_DAMAGED, file.key, str(error)))
        if kind == "branch":
            refs.damaged[name] = file.key
        return
    refs.unusable.pop(file.key, None)
    (refs.branches if kind == "branch" else refs.tags)[name] = found


def check_config_file(storage: Storage) -> list[Finding]:
    """Check the stored configuration."""
    try:
        return [*check_config(read_config(storage), CONFIG_KEY)]
    except FrazilError as error:
        return [Finding(Code.CONFIG_DAMAGED, CONFIG_KEY, str(error))]
