"""Files of the older generations as plain data."""

from __future__ import annotations

import json

import pytest

from frazil.errors import FormatError
from frazil.formats.legacy.dialects import Dialect
from frazil.formats.legacy.display import kind_of_key, legible
from frazil.formats.legacy.g1_inventory import encode_inventory
from frazil.formats.legacy.g1_schemas import COORD_KEY, arrow, inventory_schema, write_table
from frazil.formats.legacy.g1_structure import encode_structure
from frazil.formats.legacy.logs import encode_log
from frazil.formats.legacy.manifest_writing import encode_manifest
from frazil.formats.legacy.records import LogRecord, ManifestRecord, RefRecord
from frazil.formats.legacy.refs import encode_ref
from frazil.formats.legacy.snapshots import encode_snapshot
from frazil.ids import ManifestId, SnapshotId
from frazil.model.chunks import ChunkTable, InlineRef
from tests.unit.formats.legacy.samples import (
    LOG_DIALECTS,
    MESSAGE_DIALECTS,
    coords_of,
    node_id,
    small_snapshot,
)


@pytest.mark.parametrize("dialect", MESSAGE_DIALECTS)
def test_snapshots_are_shown(dialect: Dialect) -> None:
    shown = legible(encode_snapshot(small_snapshot(dialect)), key="snapshots/x")
    content = json.loads(json.dumps(shown))["content"]
    assert set(content["nodes"]) == {"/", "/t"}
    if dialect in (Dialect.G3H, Dialect.G3I):
        assert content["id"] == str(small_snapshot(dialect).snapshot.id)
    if dialect is Dialect.G3_SEED:
        assert shown["header"]["size_bytes"] == 27
        assert shown["header"]["file_type"] == "snapshot"


@pytest.mark.parametrize("dialect", MESSAGE_DIALECTS)
def test_manifests_are_shown(dialect: Dialect) -> None:
    table = ChunkTable.from_refs(2, [((0, 1), InlineRef(b"T"))])
    has_id = dialect in (Dialect.G3G, Dialect.G3H, Dialect.G3I)
    id = ManifestId(bytes(range(12))) if has_id else None
    record = ManifestRecord({node_id(dialect, 2): table}, dialect, id)
    shown = legible(encode_manifest(record), key="manifests/x")
    text = json.dumps(shown)
    assert '"chunks"' in text
    assert '{"Inline": "54"}' in text or '{"Inline": [84]}' in text


@pytest.mark.parametrize("dialect", LOG_DIALECTS)
def test_logs_are_shown(dialect: Dialect) -> None:
    node = node_id(dialect, 1)
    record = LogRecord(dialect, new_arrays=(node,), updated_chunks={node: coords_of((0, 1))})
    shown = legible(encode_log(record), key="transactions/x")
    assert shown["content"]["new_arrays"] == [str(node)]
    assert shown["content"]["updated_chunks"] == {str(node): [[0, 1]]}


def test_tables_are_shown() -> None:
    shown = legible(encode_structure(small_snapshot(Dialect.G1)), key="s/x.parquet")
    assert shown["schema_profile"] == "seed"
    assert shown["rows"][1]["path"] == "/t"
    assert shown["rows"][1]["inline_attrs"] == {"u": 1}
    table = ChunkTable.from_refs(2, [((5, 300), InlineRef(b"T"))])
    record = ManifestRecord({node_id(Dialect.G1, 2): table}, Dialect.G1)
    shown = legible(encode_inventory(record), key="i/x.parquet")
    assert shown["rows"][0]["coord"] == [5, 300]
    assert shown["rows"][0]["inline_data"] == "54"
    json.dumps(shown)


def test_refs_and_chunks_are_shown() -> None:
    ref = encode_ref(RefRecord(SnapshotId(bytes(12))), Dialect.G3A)
    shown = legible(ref, key="refs/branch.main/ZZZZZZZZ.json")
    assert shown["content"] == {"snapshot": "0" * 20}
    assert legible(b"\1\2\3", key="c/x") == {"file_type": "chunk", "size_bytes": 3}


def test_kinds_by_folder() -> None:
    keys = ["s/x", "i/x", "m/x", "a/x", "transactions/x", "root/snapshots/x", "state.json"]
    assert [kind_of_key(key) for key in keys] == [
        "snapshot",
        "manifest",
        "manifest",
        "attributes",
        "transaction-log",
        "snapshot",
        None,
    ]


@pytest.mark.parametrize("blob", [b"", b"\x01", b"\x93\x01", b"{", b"PAR1"])
def test_other_files_are_refused(blob: bytes) -> None:
    with pytest.raises(FormatError):
        legible(blob, key="s/x")


@pytest.mark.parametrize(
    ("encoding", "raw"), [("be16", b"\0\1\0\2"), ("le16", b"\1\0\2\0"), ("leb128", b"\1\2")]
)
def test_coordinates_are_shown_in_the_encoding_that_the_file_names(
    encoding: str, raw: bytes
) -> None:
    schema = inventory_schema("seed").with_metadata({COORD_KEY: encoding})
    row = {"id": 0, "array_id": 1, "coord": raw, "inline_data": b"T", "length": 1}
    blob = write_table(arrow().Table.from_pylist([row], schema=schema))
    assert legible(blob, key="i/x.parquet")["rows"][0]["coord"] == [1, 2]
