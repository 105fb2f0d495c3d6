"""The ref files of G2 and G3."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest

from frazil.errors import FormatError
from frazil.formats.legacy.dialects import Dialect, LegacyGeneration
from frazil.formats.legacy.records import RefRecord
from frazil.formats.legacy.refs import decode_ref, encode_ref
from frazil.formats.legacy.structs import parse_nanos
from frazil.ids import SnapshotId, crockford
from tests.unit.formats.legacy.samples import LOG_DIALECTS, MESSAGE_DIALECTS

SCHEMAS = Path(__file__).parent / "schemas"
G2, G3 = LegacyGeneration.G2, LegacyGeneration.G3
SEED_REF = (
    b'{"properties":{},"snapshot":[0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15],'
    b'"timestamp":"2024-09-26T12:00:00.000000Z"}'
)


def test_a_ref_of_g2() -> None:
    found = decode_ref(SEED_REF, key="r/main/ZZZZZZZZ.json", generation=G2)
    assert found.snapshot == SnapshotId(bytes(range(12)))
    assert found.name == crockford(bytes(range(16)))
    assert found.timestamp == parse_nanos("2024-09-26T12:00:00Z")
    assert encode_ref(found, Dialect.G2_JSON) == SEED_REF
    schema = json.loads((SCHEMAS / "refdata.json").read_text())
    jsonschema.Draft7Validator(schema).validate(json.loads(SEED_REF))


def test_refs_of_the_libraries() -> None:
    raw = b'{"snapshot":"000G40R40M30E209185GR38E1W"}'
    found = decode_ref(raw, key="k", generation=G2)
    assert found.snapshot == SnapshotId(bytes(range(12)))
    assert encode_ref(found, Dialect.G2_MSGPACK) == raw
    raw = b'{"snapshot":"VY76P925PRY57WFEK410"}'
    found = decode_ref(raw, key="k", generation=G3)
    for dialect in LOG_DIALECTS:
        assert encode_ref(found, dialect) == raw
    by_hex = json.dumps({"snapshot": bytes(range(16)).hex(), "else": 1}).encode()
    assert decode_ref(by_hex, key="k", generation=G2).snapshot == SnapshotId(bytes(range(12)))


@pytest.mark.parametrize("dialect", MESSAGE_DIALECTS)
def test_refs_of_our_own_need_no_name(dialect: Dialect) -> None:
    id = SnapshotId.random()
    blob = encode_ref(RefRecord(id), dialect)
    found = decode_ref(blob, key="k", generation=dialect.generation)
    assert (found.snapshot, found.name) == (id, None)


def test_a_branch_that_moved_to_a_newer_spec() -> None:
    record = RefRecord(SnapshotId(bytes(12)), moved_to="spec-v2")
    blob = encode_ref(record, Dialect.G3I)
    assert blob == b'{"moved_to":"spec-v2","snapshot":"00000000000000000000"}'
    assert decode_ref(blob, key="k", generation=G3) == record


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"[]",
        b"{}",
        b'{"snapshot":"short"}',
        b'{"snapshot":[1,2]}',
        b'{"snapshot":[256,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15]}',
        b'{"snapshot":"VY76P925PRY57WFEK410","timestamp":"now"}',
        b'{"snapshot":"VY76P925PRY57WFEK410","properties":[]}',
        b" " * 100_000,
        b"[" * 50_000,
    ],
)
def test_damaged_refs_are_told(raw: bytes) -> None:
    with pytest.raises(FormatError) as caught:
        decode_ref(raw, key="refs/branch.main/ZZZZZZZZ.json", generation=G3)
    assert caught.value.facts["key"] == "refs/branch.main/ZZZZZZZZ.json"
