"""Transaction logs of G3."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from frazil.errors import FormatError
from frazil.formats.legacy.dialects import Dialect
from frazil.formats.legacy.logs import decode_log, encode_log, from_log, to_log
from frazil.formats.legacy.messages import pack_message
from frazil.formats.legacy.names import numbered_node
from frazil.formats.legacy.records import LogRecord
from frazil.ids import NodeId, SnapshotId
from frazil.model.history import Move, TransactionLog
from tests.unit.formats.legacy.samples import LOG_DIALECTS, coords_of

GROUP, ARRAY, OLD = (NodeId(bytes([n] * 8)) for n in (1, 2, 3))


def assert_same(found: LogRecord, expected: LogRecord) -> None:
    """Compare logs field by field."""
    for name in LogRecord.__dataclass_fields__:
        if name not in ("dialect", "updated_chunks"):
            assert getattr(found, name) == getattr(expected, name)
    assert found.updated_chunks.keys() == expected.updated_chunks.keys()
    for node, coords in expected.updated_chunks.items():
        np.testing.assert_array_equal(found.updated_chunks[node], coords)


@pytest.mark.parametrize("dialect", LOG_DIALECTS)
def test_logs_come_back(dialect: Dialect) -> None:
    record = LogRecord(
        dialect,
        new_groups=(GROUP,),
        new_arrays=(ARRAY,),
        deleted_groups=(OLD,),
        deleted_arrays=(NodeId(bytes([4] * 8)),),
        updated_user_attributes=(GROUP, ARRAY),
        updated_zarr_metadata=(ARRAY,),
        updated_chunks={
            ARRAY: coords_of((0, 1), (300, 70000)),
            OLD: np.zeros((1, 0), np.uint32),
        },
    )
    blob = encode_log(record)
    found = decode_log(blob, key="transactions/x")
    assert_same(found, record)
    assert encode_log(LogRecord(dialect, *_fields(found))) == blob


def _fields(record: LogRecord) -> list[Any]:
    return [getattr(record, name) for name in LogRecord.__dataclass_fields__ if name != "dialect"]


def test_a_real_log() -> None:
    raw = (
        bytes.fromhex("98 00 90 90 90 90 90 90 81 ad")
        + b"D3VX5CKKBYC92"
        + bytes.fromhex("91920000")
    )
    assert len(raw) == 27
    found = decode_log(raw, key="transactions/x")
    assert found.dialect is Dialect.G3B
    (node,) = found.updated_chunks
    assert str(node) == "D3VX5CKKBYC92"
    np.testing.assert_array_equal(found.updated_chunks[node], [[0, 0]])
    assert encode_log(found) == raw


def test_logs_in_any_order_are_put_in_order() -> None:
    ids = [str(ARRAY), str(GROUP), str(GROUP)]
    value = [0, ids, [], [], [], [], [], {str(ARRAY): [[5, 0], [0, 7], [5, 0]]}]
    found = decode_log(pack_message(value), key="k")
    assert found.new_groups == (GROUP, ARRAY)
    np.testing.assert_array_equal(found.updated_chunks[ARRAY], [[0, 7], [5, 0]])


@pytest.mark.parametrize(
    "value",
    [
        [],
        [0] * 8,
        [0, [], [], [], [], [], [], []],
        [0, ["x"], [], [], [], [], [], {}],
        [0, [], [], [], [], [], [], {str(ARRAY): 5}],
        [0, [], [], [], [], [], [], {str(ARRAY): [[0], [0, 1]]}],
        [0, [], [], [], [], [], [], {str(ARRAY): [[-1]]}],
    ],
)
def test_damaged_logs_are_told(value: Any) -> None:  # noqa: ANN401
    with pytest.raises(FormatError) as caught:
        decode_log(pack_message(value), key="transactions/x")
    assert caught.value.facts["key"] == "transactions/x"


def test_logs_in_terms_of_the_model() -> None:
    record = LogRecord(
        Dialect.G3I,
        new_arrays=(ARRAY,),
        updated_user_attributes=(GROUP, ARRAY, OLD),
        updated_chunks={ARRAY: coords_of((0,))},
    )
    id = SnapshotId(bytes(12))
    log = to_log(record, id, {ARRAY, OLD})
    assert log.new_arrays == (ARRAY,)
    assert log.updated_groups == (GROUP,)
    assert log.updated_arrays == (OLD,)
    back = from_log(log, Dialect.G3I)
    assert back.updated_user_attributes == (GROUP, ARRAY, OLD)
    assert back.updated_zarr_metadata == (OLD,)


def test_moves_have_no_place_in_a_log() -> None:
    log = TransactionLog(SnapshotId(bytes(12)), moved_nodes=(Move("/a", "/b", GROUP, False),))
    with pytest.raises(FormatError, match="moves"):
        from_log(log, Dialect.G3I)


@pytest.mark.parametrize("dialect", [Dialect.G2_JSON, Dialect.G3A])
def test_dialects_without_logs(dialect: Dialect) -> None:
    with pytest.raises(FormatError, match="no transaction logs"):
        encode_log(LogRecord(dialect))


def test_numbers_of_nodes_are_no_ids_of_logs() -> None:
    with pytest.raises(FormatError):
        encode_log(LogRecord(Dialect.G3A, new_groups=(numbered_node(1),)))
