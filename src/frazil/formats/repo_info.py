"""The v2 repo object."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Final

from frazil.errors import ErrorKind, FormatError
from frazil.flatbuf.columns import table_columns
from frazil.flatbuf.reader import U32, Buffer, Table
from frazil.flatbuf.tuning import FEW_REFS
from frazil.flatbuf.writer import OFFSET, FlatWriter, TableLayout
from frazil.formats import flex
from frazil.formats.envelope import NOISE, FileKind, seal_table, unseal
from frazil.formats.metadata import read_metadata, write_metadata
from frazil.formats.repo_columns import (
    put_snapshots,
    read_snapshots,
    read_status,
    read_updates,
    write_snapshots,
    write_status,
    write_updates,
)
from frazil.ids import SnapshotId
from frazil.model.history import RepoInfo, SnapshotEntry, SnapshotTable, UpdateLog

REPO: Final = TableLayout("u8", *(OFFSET,) * 11)
REF: Final = TableLayout(OFFSET, "u32")
SPECS: Final = (1, 2)
REPO_KEY: Final = "repo"


def snapshot_table(entries: Iterable[SnapshotEntry]) -> SnapshotTable:
    """Make a table of snapshots that can go into a repo object."""
    return SnapshotTable.of(entries, flex.codec(REPO_KEY))


# --- reading ---


def decode_repo_info(blob: bytes, *, key: str) -> RepoInfo:
    """Read a repo object; messages, metadata and updates are unpacked when they are used."""
    buffer = Buffer(unseal(blob, FileKind.REPO_INFO, key=key).body, key)
    with buffer.once():
        return _read_repo_info(buffer)


def _read_repo_info(buffer: Buffer) -> RepoInfo:
    root, key = buffer.root(), buffer.key
    spec = root.byte(0)
    if spec not in SPECS:
        raise FormatError(
            "repository has a spec version this library does not know",
            kind=ErrorKind.UNSUPPORTED_SPEC_VERSION,
            key=key,
            spec=spec,
        )
    codec = flex.codec(key)
    snapshots = SnapshotTable(read_snapshots(root, 4), codec, key=key)
    status = root.table(5)
    if status is None:
        raise buffer.fail("missing required field status")
    root.required_vector(7, 4, "latest_updates")
    config = root.blob(9)
    return RepoInfo(
        spec_version=spec,
        tags=_read_refs(root, 1, "tags", snapshots),
        branches=_read_refs(root, 2, "branches", snapshots),
        deleted_tags=frozenset(_read_texts(root, 3, "deleted_tags")),
        snapshots=snapshots,
        status=read_status(status),
        metadata=read_metadata(root, 6, codec),
        latest_updates=UpdateLog(partial(read_updates, root, 7), key=key),
        repo_before_updates=root.text(8),
        config=None if config is None else codec.unpack(config),
        enabled_feature_flags=_read_flags(root, 10),
        disabled_feature_flags=_read_flags(root, 11),
    )


def _read_refs(
    root: Table, slot: int, name: str, snapshots: SnapshotTable
) -> Mapping[str, SnapshotId]:
    buffer = root.buffer
    if root.required_vector(slot, 4, name)[1] <= FEW_REFS:
        return dict(_read_few_refs(root, slot, name, snapshots))
    tables = table_columns(root, slot, name)
    rows = tables.numbers(1, "<u4")
    if (rows >= len(snapshots)).any():
        raise buffer.fail(f"{name} point to a snapshot that is not listed")
    try:
        names = [raw.decode() for raw in tables.texts(0, "name").slices(bytes(buffer.data))]
    except UnicodeDecodeError as error:
        raise buffer.fail("text is not UTF-8") from error
    return dict(zip(names, map(snapshots.id_at, rows.tolist()), strict=True))


def _read_few_refs(
    root: Table, slot: int, name: str, snapshots: SnapshotTable
) -> Iterator[tuple[str, SnapshotId]]:
    """Read refs one by one, which is faster for a few; most repositories have a handful."""
    buffer = root.buffer
    for ref in root.tables(slot):
        start, size = ref.required_vector(0, 1, "name")
        row = ref.number(1, U32)
        if row >= len(snapshots):
            raise buffer.fail(f"{name} point to a snapshot that is not listed")
        if buffer.slice(start + size, 1) != b"\0":
            raise buffer.fail("text without an end")
        yield buffer.text(start - 4), snapshots.id_at(row)


def _read_texts(root: Table, slot: int, name: str) -> Iterable[str]:
    buffer = root.buffer
    start, count = root.required_vector(slot, 4, name)
    total = 0
    for at in range(start, start + 4 * count, 4):
        text = buffer.text(at + buffer.read(U32, at))
        total += len(text)
        if total > buffer.size:
            raise buffer.fail("the same text is used too often")
        yield text


def _read_flags(root: Table, slot: int) -> frozenset[int] | None:
    found = root.vector(slot, 2)
    if found is None:
        return None
    start, count = found
    return frozenset(struct.unpack(f"<{count}H", root.buffer.slice(start, 2 * count)))


# --- writing ---


def encode_repo_info(info: RepoInfo, *, level: int = 3) -> bytes:
    """Write a repo object, as `write_repo_info` does."""
    return write_repo_info(info, level=level)[0]


def write_repo_info(info: RepoInfo, *, level: int = 3) -> tuple[bytes, RepoInfo]:
    """Encode a repo object, and return it with a cache that speeds up the next encoding.

    Raises:
        SnapshotNotFoundError: a ref points to a snapshot that is not listed.
        FormatError: the operations log has lines this library cannot write.
    """
    writer = FlatWriter()
    snapshots, codec = info.snapshots, flex.codec(REPO_KEY)
    log = UpdateLog.of(info.latest_updates)
    rows, (lines, with_newest) = write_snapshots(snapshots), write_updates(log)
    deleted = [writer.text(name) for name in sorted(info.deleted_tags, key=str.encode)]
    before = info.repo_before_updates
    root = writer.table(
        REPO,
        info.spec_version,
        _write_refs(writer, info.tags, snapshots),
        _write_refs(writer, info.branches, snapshots),
        writer.offsets(deleted),
        put_snapshots(writer, rows, snapshots.columns.rows["parent"]),
        write_status(writer, info.status),
        write_metadata(writer, info.metadata, codec),
        writer.blocks(with_newest.places, with_newest.data),
        None if before is None else writer.text(before),
        None if info.config is None else writer.blob(codec.pack(info.config)),
        _write_flags(writer, info.enabled_feature_flags),
        _write_flags(writer, info.disabled_feature_flags),
    )
    # Ids are noise and texts are short: above level 1 zstd takes longer and packs no better.
    level = NOISE if level >= 1 else level
    blob = seal_table(writer, root, FileKind.REPO_INFO, spec=info.spec_version, level=level)
    kept = replace(info, snapshots=snapshots.keeping(rows), latest_updates=log.keeping(lines))
    return blob, kept


def _write_refs(
    writer: FlatWriter, refs: Mapping[str, SnapshotId], snapshots: SnapshotTable
) -> int:
    return writer.offsets(
        [
            writer.table(REF, writer.text(name), snapshots.row(refs[name]))
            for name in sorted(refs, key=str.encode)
        ]
    )


def _write_flags(writer: FlatWriter, flags: frozenset[int] | None) -> int | None:
    if flags is None:
        return None
    return writer.structs(struct.pack(f"<{len(flags)}H", *sorted(flags)), len(flags), 2)
