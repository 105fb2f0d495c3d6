"""Chains from the metadata of an array: those of its document are those of zarr."""

from __future__ import annotations

import json

import numpy as np

from frazil.bulk.compiling import compile_chain
from tests.support.arrays import documents, zarr_array
from tests.unit.bulk.samples import SHAPE, chain_of


def test_documents_and_zarr_metadata_mean_the_same() -> None:
    array = zarr_array(shape=SHAPE, chunks=SHAPE, dtype="M8[s]")
    by_document = compile_chain(json.loads(documents(array)["zarr.json"]))
    by_metadata = chain_of(array)
    assert by_document is not None
    assert by_document.dtype == by_metadata.dtype == np.dtype("M8[s]")
    assert np.isnat(by_document.fill_value) == np.isnat(by_metadata.fill_value)


def test_codecs_we_do_not_know_make_no_chain() -> None:
    array = zarr_array(shape=SHAPE, chunks=SHAPE, dtype="f4")
    document = json.loads(documents(array)["zarr.json"])
    for unknown in ({"name": "numcodecs.zfpy"}, {"name": "example.packer"}, "other"):
        assert compile_chain(document | {"codecs": [*document["codecs"], unknown]}) is None
        assert compile_chain(document | {"codecs": [unknown, *document["codecs"]]}) is None
    assert compile_chain(document | {"codecs": []}) is None


def test_a_codec_may_be_its_bare_name() -> None:
    document = json.loads(documents(zarr_array(shape=(4,), chunks=(4,), dtype="u1"))["zarr.json"])
    chain = compile_chain(document | {"codecs": ["bytes", "crc32c"]})
    assert chain is not None
    assert chain.is_checked
    assert chain.encoded_size((4,)) == 4 + 4


def test_bytes_without_a_byte_order_have_that_of_the_machine() -> None:
    document = json.loads(documents(zarr_array(shape=(4,), chunks=(4,), dtype="i4"))["zarr.json"])
    chain = compile_chain(document | {"codecs": [{"name": "bytes"}]})
    assert chain is not None
    assert chain.is_raw
    assert (
        bytes(chain.encode(np.arange(4, dtype="i4")) or b"") == np.arange(4, dtype="=i4").tobytes()
    )


def test_elements_of_any_length_have_no_plain_bytes() -> None:
    document = json.loads(documents(zarr_array(shape=(4,), chunks=(4,), dtype=str))["zarr.json"])
    assert compile_chain(document) is not None
    assert compile_chain(document | {"codecs": [{"name": "bytes"}]}) is None


def test_a_filter_changes_the_type_that_the_codecs_after_it_get() -> None:
    """A shuffle without a size of its own takes that of the elements it gets."""
    document = json.loads(documents(zarr_array(shape=(8,), chunks=(8,), dtype="f8"))["zarr.json"])
    scaled = {"offset": 0, "scale": 1, "dtype": "<f8", "astype": "<i2"}
    codecs = [
        {"name": "numcodecs.fixedscaleoffset", "configuration": scaled},
        {"name": "bytes", "configuration": {"endian": "little"}},
        {"name": "numcodecs.shuffle"},
    ]
    chain = compile_chain(document | {"codecs": codecs})
    assert chain is not None
    assert chain.encoded_size((8,)) == 16
    encoded = bytes(chain.encode(np.arange(8.0)) or b"")
    assert encoded == bytes([*range(8), *[0] * 8])  # first all low bytes, then all high ones


def test_a_shard_needs_codecs_that_are_known_and_an_index_of_known_size() -> None:
    array = zarr_array(shape=SHAPE, chunks=(3, 4), shards=SHAPE, dtype="f4")
    document = json.loads(documents(array)["zarr.json"])
    (shard,) = document["codecs"]
    given = shard["configuration"]
    assert compile_chain(document) is not None
    for part, codecs in (
        ("codecs", [*given["codecs"], "unknown"]),
        ("index_codecs", [*given["index_codecs"], "unknown"]),
        ("index_codecs", [*given["index_codecs"], "zstd"]),
    ):
        changed = {"name": shard["name"], "configuration": given | {part: codecs}}
        assert compile_chain(document | {"codecs": [changed]}) is None
