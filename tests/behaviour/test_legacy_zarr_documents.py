"""Documents that zarr wrote still mean the same to zarr after a stay in an older generation."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import zarr
from zarr.codecs import BloscCodec, Crc32cCodec, TransposeCodec
from zarr.core.buffer import default_buffer_prototype
from zarr.storage import MemoryStore

from frazil.errors import ErrorKind, InvalidInputError
from frazil.formats.legacy.dialects import Dialect
from frazil.formats.legacy.g1_state import StateSnapshot
from frazil.formats.legacy.g1_structure import decode_structure, encode_structure
from frazil.formats.legacy.snapshots import decode_snapshot, encode_snapshot
from frazil.formats.legacy.zarr_fields import parse_fields
from tests.unit.formats.legacy.samples import small_snapshot

DIALECTS = (Dialect.G1, Dialect.G2_JSON, Dialect.G2_MSGPACK, Dialect.G3_SEED, Dialect.G3I)
NUMBERS = [
    "bool",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "float16",
    "float32",
    "float64",
    "complex64",
    "complex128",
]


def stored(document: bytes, dialect: Dialect) -> bytes:
    """The document as it is rebuilt from a snapshot of a dialect."""
    record = small_snapshot(dialect)
    node = replace(record.snapshot.nodes[1], user_data=document)
    record = replace(record, snapshot=replace(record.snapshot, nodes=(node,)))
    if dialect is Dialect.G1:
        item = StateSnapshot("x", None, 0, "x")
        found = decode_structure(encode_structure(record), key="s/x", item=item)
    else:
        blob = encode_snapshot(record)
        found = decode_snapshot(blob, key="s/x", generation=dialect.generation)
    return found.snapshot.nodes[0].user_data


async def document_of(**options: Any) -> bytes:  # noqa: ANN401 - what zarr takes
    """The document that zarr writes for an array."""
    store = MemoryStore()
    zarr.create_array(store, shape=(10, 7), chunks=(5, 3), **options)
    found = await store.get("zarr.json", default_buffer_prototype())
    assert found is not None
    return found.to_bytes()


async def reopened(document: bytes) -> zarr.Array[Any]:
    """The array that zarr makes of a document."""
    store = MemoryStore()
    await store.set("zarr.json", default_buffer_prototype().buffer.from_bytes(document))
    return zarr.open_array(store, mode="r")


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("data_type", NUMBERS)
async def test_numbers_keep_their_meaning(dialect: Dialect, data_type: str) -> None:
    fill = np.array(1).astype(data_type)[()]
    document = await document_of(
        dtype=data_type,
        fill_value=fill,
        dimension_names=["y", None],
        attributes={"units": "K", "scale": 0.5},
    )
    found = await reopened(stored(document, dialect))
    assert found.metadata == (await reopened(document)).metadata


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("fill", [np.nan, np.inf, -np.inf])
async def test_special_fill_values_keep_their_meaning(dialect: Dialect, fill: float) -> None:
    for data_type in ("float16", "float32", "float64", "complex64"):
        document = await document_of(dtype=data_type, fill_value=np.array(fill, data_type)[()])
        found = await reopened(stored(document, dialect))
        np.testing.assert_array_equal(found[:], np.full((10, 7), fill, data_type))


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_shards_and_compressors_keep_their_meaning(dialect: Dialect) -> None:
    document = await document_of(
        dtype="int32",
        shards=(10, 6),
        compressors=[BloscCodec(cname="zstd"), Crc32cCodec()],
        filters=[TransposeCodec(order=(1, 0))],
    )
    found = await reopened(stored(document, dialect))
    assert found.metadata == (await reopened(document)).metadata


@pytest.mark.parametrize("dialect", [Dialect.G1, Dialect.G3_SEED, Dialect.G3I])
async def test_texts_keep_their_meaning(dialect: Dialect) -> None:
    document = await document_of(dtype="string", fill_value="ice 🧊")
    found = await reopened(stored(document, dialect))
    assert found.metadata == (await reopened(document)).metadata


async def test_dates_fit_the_oldest_generation_only() -> None:
    document = await document_of(dtype="datetime64[ns]", fill_value=np.datetime64(5, "ns"))
    assert (
        json.loads(stored(document, Dialect.G1))["data_type"] == json.loads(document)["data_type"]
    )
    found = await reopened(stored(document, Dialect.G1))
    assert found.metadata == (await reopened(document)).metadata
    for dialect in (Dialect.G2_JSON, Dialect.G3I):
        with pytest.raises(InvalidInputError) as caught:
            parse_fields(dialect.generation, document)
        assert caught.value.kind is ErrorKind.NOT_REPRESENTABLE
        assert caught.value.facts["field"] == "data_type"
