"""Damaged files of the older generations: an error that names the file, never anything else."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Final

import pytest

from frazil.errors import FormatError
from frazil.formats.envelope import FileKind
from frazil.formats.legacy.attributes import (
    decode_attribute_file,
    decode_attributes,
    encode_attribute_file,
)
from frazil.formats.legacy.dialects import Dialect
from frazil.formats.legacy.g1_inventory import decode_inventory, encode_inventory
from frazil.formats.legacy.g1_state import StateSnapshot
from frazil.formats.legacy.g1_structure import decode_structure, encode_structure
from frazil.formats.legacy.header import unwrap, wrap
from frazil.formats.legacy.logs import decode_log, encode_log
from frazil.formats.legacy.manifest_writing import encode_manifest
from frazil.formats.legacy.manifests import decode_manifest
from frazil.formats.legacy.records import LogRecord, ManifestRecord
from frazil.formats.legacy.snapshots import decode_snapshot, encode_snapshot
from frazil.ids import ChunkId, ManifestId
from frazil.model.chunks import ChunkTable, InlineRef, NativeRef, VirtualRef
from tests.unit.formats.legacy.samples import (
    LOG_DIALECTS,
    MESSAGE_DIALECTS,
    coords_of,
    encode_attributes,
    node_id,
    small_snapshot,
)

MUTATIONS: Final = 120
KEY: Final = "folder/file"
Decode = Callable[[bytes], object]


def manifest_of(dialect: Dialect) -> ManifestRecord:
    """A manifest with a reference of each kind."""
    table = ChunkTable.from_refs(
        2,
        [
            ((0, 0), NativeRef(ChunkId(bytes(range(12))), 5, 100)),
            ((0, 300), InlineRef(b"inline")),
            ((1, 0), VirtualRef("s3://bucket/key", 1, 2)),
        ],
    )
    has_id = dialect in (Dialect.G3G, Dialect.G3H, Dialect.G3I)
    id = ManifestId(bytes(12)) if has_id else None
    return ManifestRecord({node_id(dialect, 2): table}, dialect, id)


def damaged(blob: bytes, seed: int) -> bytes:
    """A file with bytes exchanged, cut out, doubled or lost at the end."""
    chance = random.Random(seed)
    raw = bytearray(blob)
    for _ in range(chance.randint(1, 3)):
        at = chance.randrange(len(raw)) if raw else 0
        match chance.randrange(5):
            case 0 if raw:
                raw[at] = chance.randrange(256)
            case 1 if raw:
                raw[at] ^= 1 << chance.randrange(8)
            case 2:
                del raw[at : at + chance.randint(1, 8)]
            case 3:
                raw[at:at] = raw[at : at + chance.randint(1, 8)]
            case _:
                del raw[at:]
    return bytes(raw)


def check(blob: bytes, decode: Decode, count: int = MUTATIONS) -> None:
    """Decode many damaged forms of a file."""
    decode(blob)
    for seed in range(count):
        try:
            decode(damaged(blob, seed))
        except FormatError as error:
            assert error.facts.get("key") == KEY  # noqa: PT017 - either outcome is right


def check_body(blob: bytes, kind: FileKind, decode: Decode) -> None:
    """Damage the body of a file, behind header and compression."""
    wrapping, body = unwrap(blob, None, key=KEY)
    check(body, lambda raw: decode(wrap(raw, kind, wrapping)))
    check(blob, decode, 40)


@pytest.mark.parametrize("dialect", MESSAGE_DIALECTS)
def test_snapshots(dialect: Dialect) -> None:
    def decode(raw: bytes) -> object:
        return decode_snapshot(raw, key=KEY, generation=dialect.generation)

    check_body(encode_snapshot(small_snapshot(dialect)), FileKind.SNAPSHOT, decode)


@pytest.mark.parametrize("dialect", MESSAGE_DIALECTS)
def test_manifests(dialect: Dialect) -> None:
    def decode(raw: bytes) -> object:
        return decode_manifest(raw, key=KEY, generation=dialect.generation)

    check_body(encode_manifest(manifest_of(dialect)), FileKind.MANIFEST, decode)


@pytest.mark.parametrize("dialect", LOG_DIALECTS)
def test_logs(dialect: Dialect) -> None:
    node = node_id(dialect, 1)
    record = LogRecord(
        dialect, new_groups=(node,), updated_chunks={node: coords_of((0, 1), (2, 300))}
    )
    check_body(encode_log(record), FileKind.TRANSACTION_LOG, lambda raw: decode_log(raw, key=KEY))


@pytest.mark.parametrize("dialect", MESSAGE_DIALECTS)
def test_attribute_files(dialect: Dialect) -> None:
    blob = encode_attributes([{"a": [1, 2.5, None]}, {"b": {"c": "text"}}], dialect)

    def decode(raw: bytes) -> object:
        return decode_attributes(raw, key=KEY, dialect=dialect)

    check_body(blob, FileKind.ATTRIBUTES, decode)


@pytest.mark.slow
def test_parquet_files() -> None:
    item = StateSnapshot("x", None, 0, "x")
    check(
        encode_structure(small_snapshot(Dialect.G1)),
        lambda raw: decode_structure(raw, key=KEY, item=item),
        120,
    )
    check(
        encode_inventory(manifest_of(Dialect.G1)),
        lambda raw: decode_inventory(raw, key=KEY),
        200,
    )
    check(
        encode_attribute_file([{"a": 1}, {"b": 2}]),
        lambda raw: decode_attribute_file(raw, key=KEY),
        100,
    )
