"""Attribute files of G2 and G3: a list of maps, each at the place that nodes point to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from frazil.formats.envelope import FileKind
from frazil.formats.legacy.header import refuse_flat, unwrap, wrap
from frazil.formats.legacy.layouts import layout_of
from frazil.formats.legacy.messages import pack_message, unpack_message
from frazil.formats.legacy.records import Dialect
from frazil.formats.legacy.snapshots import parse_json
from frazil.formats.legacy.structs import Document
from frazil.formats.legacy.zarr_fields import dump
from frazil.model.history import Metadata


def decode_attributes(blob: bytes, *, key: str, dialect: Dialect) -> tuple[Metadata, ...]:
    """Read an attribute file of a repository; a single map counts as a list of one.

    Raises:
        FormatError: the file is damaged or of another kind.
    """
    wrapping, body = unwrap(blob, FileKind.ATTRIBUTES, key=key)
    if wrapping.header:
        refuse_flat(body, key=key)
    document = Document(key, dialect.generation)
    # No MessagePack list or map begins with a bracket.
    is_json = body[:1] in (b"[", b"{")
    if is_json:
        value = parse_json(document, body)
    else:
        value = unpack_message(body, key=key, packed=wrapping.size)
    items = [value] if isinstance(value, Mapping) else document.items(value, "attributes")
    return tuple(document.metadata(each, "attributes") for each in items)


def encode_attributes(items: Sequence[Metadata], dialect: Dialect) -> bytes:
    """Write an attribute file in a dialect.

    Raises:
        FormatError: the dialect cannot be written, or cannot hold a value.
    """
    layout = layout_of(dialect)
    if layout.is_json:
        return dump(list(items))
    wrapping = layout.wrapping_of(FileKind.ATTRIBUTES)
    return wrap(pack_message(list(items)), FileKind.ATTRIBUTES, wrapping)
