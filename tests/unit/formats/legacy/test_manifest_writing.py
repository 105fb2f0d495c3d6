"""Manifests of G2 and G3 as they are written, and references that a dialect cannot hold."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest

from frazil.errors import ErrorKind, FormatError, InvalidInputError
from frazil.formats.legacy.dialects import Dialect, LegacyGeneration
from frazil.formats.legacy.header import BARE, unwrap
from frazil.formats.legacy.manifest_writing import check_reference, encode_manifest
from frazil.formats.legacy.manifests import decode_manifest
from frazil.formats.legacy.messages import unpack_message
from frazil.formats.legacy.names import numbered_node
from frazil.formats.legacy.records import ManifestRecord
from frazil.ids import ChunkId, crockford
from frazil.model.chunks import ChunkRef, ChunkTable, InlineRef, NativeRef, VirtualRef
from tests.unit.formats.legacy.samples import MESSAGE_DIALECTS, node_id, record_of, rows_of

SCHEMAS = Path(__file__).parent / "schemas"
FAR = VirtualRef("s3://b/f.nc", 4096, 100)


def read(blob: bytes, generation: LegacyGeneration = LegacyGeneration.G3) -> ManifestRecord:
    """Decode a manifest."""
    return decode_manifest(blob, key="manifests/x", generation=generation)


def test_documents_of_g2_validate() -> None:
    schema = json.loads((SCHEMAS / "manifest.json").read_text())
    refs: list[tuple[tuple[int, ...], ChunkRef]] = [
        ((0, 0), NativeRef(ChunkId(bytes(12)), 1, 2)),
        ((0, 1), InlineRef(b"T")),
        ((1, 0), FAR),
    ]
    record = record_of(
        Dialect.G2_JSON,
        {
            numbered_node(2): ChunkTable.from_refs(2, refs),
            numbered_node(3): ChunkTable.from_refs(0, [((), InlineRef(b""))]),
        },
    )
    document = json.loads(encode_manifest(record))
    jsonschema.Draft7Validator(schema).validate(document)
    assert set(document["chunks"]) == {"2/0/0", "2/0/1", "2/1/0", "3"}
    assert document["chunks"]["2/0/1"] == {"Inline": [84]}


@pytest.mark.parametrize("dialect", MESSAGE_DIALECTS)
def test_checksums_need_a_dialect_that_has_them(dialect: Dialect) -> None:
    ref = VirtualRef("s3://b/f", 0, 1, "etag")
    record = record_of(dialect, {node_id(dialect, 1): ChunkTable.from_refs(1, [((0,), ref)])})
    if dialect.has_checksums:
        check_reference(dialect, ref)
        found = read(encode_manifest(record), dialect.generation)
        assert rows_of(found.tables[node_id(dialect, 1)]) == [((0,), ref)]
        return
    for refused in (lambda: check_reference(dialect, ref), lambda: encode_manifest(record)):
        with pytest.raises(InvalidInputError) as caught:
            refused()
        assert caught.value.kind is ErrorKind.NOT_REPRESENTABLE


def test_a_manifest_without_id_where_one_is_needed() -> None:
    with pytest.raises(FormatError, match="must have an id"):
        encode_manifest(ManifestRecord({}, Dialect.G3I))


def test_parquet_is_not_written_here() -> None:
    with pytest.raises(FormatError):
        encode_manifest(ManifestRecord({}, Dialect.G1))


def written(dialect: Dialect, table: ChunkTable) -> bytes:
    """The body of a manifest with one array, whatever is around it."""
    return unwrap(encode_manifest(record_of(dialect, {node_id(dialect, 1): table})), None, key="k")[
        1
    ]


@pytest.mark.parametrize("dialect", MESSAGE_DIALECTS)
def test_columns_are_spelled_row_by_row(dialect: Dialect) -> None:
    """Each distinct number of a column is spelled once, and each id at its row."""
    ids = [ChunkId(bytes([n % 3]) * 12) for n in range(7)]
    refs = [((n % 2, 70_000 * n), NativeRef(ids[n], 300 - 50 * n, 2**n)) for n in range(7)]
    mixed: list[tuple[tuple[int, ...], ChunkRef]] = [*refs, ((1, 1), InlineRef(b"between"))]
    table = ChunkTable.from_refs(2, mixed)
    blob = encode_manifest(record_of(dialect, {node_id(dialect, 1): table}))
    assert rows_of(read(blob, dialect.generation).tables[node_id(dialect, 1)]) == rows_of(table)


def test_virtual_chunks_are_spelled_as_each_dialect_does() -> None:
    table = ChunkTable.from_refs(1, [((0,), FAR)])
    place = {"offset": 4096, "length": 100}
    ((_, found),) = json.loads(written(Dialect.G2_JSON, table))["chunks"].items()
    assert found == {"Virtual": {"location": FAR.location, **place}}
    for dialect, expected in (
        (Dialect.G2_MSGPACK, [{"Absolute": FAR.location}, 4096, 100]),
        (Dialect.G2_MAPS, {"location": FAR.location, **place}),
        (Dialect.G3A, [{"Absolute": FAR.location}, 4096, 100]),
        (Dialect.G3C, [FAR.location, 4096, 100, None]),
    ):
        message = unpack_message(written(dialect, table), key="k")
        chunks = message["chunks"] if isinstance(message, dict) else message[-1]
        ((_, found),) = chunks.items()
        assert found == {"Virtual": expected}


@pytest.mark.parametrize(
    ("checksum", "expected"), [("e", {"ETag": "e"}), (17, {"LastModified": 17}), (None, None)]
)
def test_checksums_say_what_they_are(checksum: str | int | None, expected: object) -> None:
    table = ChunkTable.from_refs(1, [((0,), VirtualRef("s3://b/f", 0, 1, checksum))])
    ((_, found),) = unpack_message(written(Dialect.G3C, table), key="k")[-1].items()
    assert found["Virtual"][-1] == expected


def test_names_of_sixteen_bytes_are_written_again() -> None:
    id, name = ChunkId(bytes(12)), crockford(bytes(15) + b"x")
    table = ChunkTable.from_refs(1, [((0,), NativeRef(id, 0, 1))])
    record = ManifestRecord({numbered_node(1): table}, Dialect.G2_MSGPACK, names={id: name})
    found = read(encode_manifest(record), LegacyGeneration.G2)
    assert found.names == {id: name}


def test_a_caller_may_choose_what_is_around_a_manifest() -> None:
    record = record_of(Dialect.G3I, {})
    usual, bare = encode_manifest(record), encode_manifest(record, BARE)
    assert unwrap(usual, None, key="k")[1] == bare != usual
