"""Transaction logs of G3: lists of nodes, and the chunks that changed."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Final

import numpy as np

from frazil.arrays import Coords
from frazil.errors import FormatError
from frazil.formats.envelope import FileKind
from frazil.formats.legacy.dialects import Dialect, LegacyGeneration
from frazil.formats.legacy.header import SHORT, Wrapping, refuse_flat, unwrap, wrap
from frazil.formats.legacy.layouts import dialect_layout
from frazil.formats.legacy.manifests import read_coords
from frazil.formats.legacy.messages import (
    array_header,
    map_header,
    pack_message,
    pack_scalar,
    unpack_message,
)
from frazil.formats.legacy.nodes import NodeWriter
from frazil.formats.legacy.records import LogRecord, Names
from frazil.formats.legacy.structs import LegacyDocument, Value
from frazil.ids import NodeId, SnapshotId
from frazil.model.history import TransactionLog

COME_AND_GONE: Final = ("new_groups", "new_arrays", "deleted_groups", "deleted_arrays")
ID_LISTS: Final = (*COME_AND_GONE, "updated_user_attributes", "updated_zarr_metadata")
_FIELDS: Final = (*ID_LISTS, "updated_chunks")
_OLD_FIELDS: Final = ("version", *_FIELDS)
FIELDS: Final = {len(names): names for names in (_FIELDS, _OLD_FIELDS)}
"""Names of the fields by their number."""


# --- reading ---


def decode_log(blob: bytes, *, key: str) -> LogRecord:
    """Read a transaction log in whatever dialect it is."""
    wrapping, body = unwrap(blob, FileKind.TRANSACTION_LOG, key=key)
    if wrapping.header:
        refuse_flat(body, key=key)
    document = LegacyDocument(key, LegacyGeneration.G3)
    value = unpack_message(body, key=key, packed=wrapping.size)
    is_new = isinstance(value, list) and len(value) == len(_FIELDS)
    names = _FIELDS if is_new else _OLD_FIELDS
    fields = dict(zip(names, document.fields(value, names, "a transaction log"), strict=True))
    ids = {
        name: _ascending({document.node_id(each) for each in document.items(fields[name], name)})
        for name in ID_LISTS
    }
    chunks = document.mapping(fields["updated_chunks"], "updated_chunks")
    updated = {
        document.node_id(node): _read_chunks(document, coords) for node, coords in chunks.items()
    }
    dialect = Dialect.G3I if is_new else _dialect(wrapping, is_packed=document.has_packed_ids)
    return LogRecord(dialect, **ids, updated_chunks=dict(sorted(updated.items())))


def _dialect(wrapping: Wrapping, *, is_packed: bool) -> Dialect:
    if not wrapping.header:
        return Dialect.G3B
    if wrapping.header == SHORT:
        return Dialect.G3_SEED
    return Dialect.G3G if is_packed else Dialect.G3E


def _read_chunks(document: LegacyDocument, value: Value) -> Coords:
    found = {read_coords(document, each) for each in document.items(value, "updated_chunks")}
    ranks = {len(coords) for coords in found}
    if len(ranks) > 1:
        raise document.fail("chunk coordinates of different rank")
    return np.array(sorted(found), np.uint32).reshape(len(found), ranks.pop() if ranks else 0)


# --- writing ---


def encode_log(record: LogRecord, wrapping: Wrapping | None = None) -> bytes:
    """Write a transaction log in the dialect of its record, wrapped as `wrapping` says."""
    layout = dialect_layout(record.dialect)
    if not layout.log_fields:
        raise FormatError("this dialect has no transaction logs", dialect=record.dialect.value)
    writer = NodeWriter(record.dialect, layout, Names())
    pieces = [array_header(layout.log_fields)]
    if layout.log_fields == len(_OLD_FIELDS):
        pieces.append(pack_scalar(layout.version))
    for name in ID_LISTS:
        ids: Sequence[NodeId] = getattr(record, name)
        pieces.append(pack_message([writer.node_id(id) for id in ids]))
    pieces.append(map_header(len(record.updated_chunks)))
    for node, coords in record.updated_chunks.items():
        pieces += [pack_message(writer.node_id(node)), array_header(len(coords))]
        rank = array_header(coords.shape[1])
        pieces += [rank + b"".join(map(pack_scalar, row)) for row in coords.tolist()]
    around = wrapping or layout.wrapping_of(FileKind.TRANSACTION_LOG)
    return wrap(b"".join(pieces), FileKind.TRANSACTION_LOG, around)


# --- between the old terms and those of the model ---


def to_log(record: LogRecord, id: SnapshotId, arrays: Collection[NodeId]) -> TransactionLog:
    """The log in terms of the model; `arrays` are the nodes known to be arrays."""
    new = {*record.new_groups, *record.new_arrays}
    known = {*arrays, *record.updated_zarr_metadata, *record.updated_chunks}
    touched = {*record.updated_user_attributes, *record.updated_zarr_metadata} - new
    return TransactionLog(
        id=id,
        **{name: getattr(record, name) for name in COME_AND_GONE},
        updated_arrays=_ascending(touched & known),
        updated_groups=_ascending(touched - known),
        updated_chunks=record.updated_chunks,
    )


def from_log(log: TransactionLog, dialect: Dialect) -> LogRecord:
    """The log in the terms of G3.

    The model does not say whether the attributes of an array changed or the rest of its metadata,
    so both are recorded: readers then see one conflict too many rather than one too few. New nodes
    are listed among those with changed attributes, as the libraries did.
    """
    if log.moved_nodes:
        raise FormatError("moves cannot be recorded in this generation", dialect=dialect.value)
    return LogRecord(
        dialect=dialect,
        **{name: getattr(log, name) for name in COME_AND_GONE},
        updated_user_attributes=_ascending(
            {*log.updated_arrays, *log.updated_groups, *log.new_groups, *log.new_arrays}
        ),
        updated_zarr_metadata=_ascending({*log.updated_arrays}),
        updated_chunks=log.updated_chunks,
    )


def _ascending(ids: Iterable[NodeId]) -> tuple[NodeId, ...]:
    return tuple(sorted(ids))
