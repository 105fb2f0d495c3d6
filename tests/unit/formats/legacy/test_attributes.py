"""Attributes in files of their own, beside a snapshot."""

from __future__ import annotations

import json
from dataclasses import replace

import pyarrow as pa

from frazil.formats.legacy.attributes import (
    decode_attribute_file,
    encode_attribute_file,
    with_attributes,
)
from frazil.formats.legacy.dialects import Dialect
from frazil.formats.legacy.g1_structure import encode_structure
from frazil.formats.legacy.records import AttributeRef
from tests.unit.formats.legacy.samples import (
    small_snapshot,
)
from tests.unit.formats.legacy.test_g1_structure import parquet, read


def test_attributes_in_files() -> None:
    items = ({"units": "K"}, {"a": [1, 2.5, None]})
    blob = encode_attribute_file(items, ["/", "/t"])
    assert decode_attribute_file(blob, key="a/x") == items
    record = small_snapshot(Dialect.G1)
    record = replace(record, attributes={"/t": AttributeRef("big.parquet", 1)})
    found = read(encode_structure(record))
    assert found.attribute_files == ("big.parquet",)
    resolved = with_attributes(found, {"big.parquet": items})
    assert json.loads(resolved.snapshot.nodes[1].user_data)["attributes"] == items[1]


def test_attributes_in_messages_are_read() -> None:
    table = pa.table({"attrs": pa.array([b"\x81\xa1a\x01", b'{"b":2}'], pa.binary())})
    assert decode_attribute_file(parquet(table), key="a/x") == ({"a": 1}, {"b": 2})
