"""Values of decoded documents: each is checked, and damage names the file."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given

from frazil.errors import ErrorKind, FormatError
from frazil.formats.legacy.dialects import Dialect, LegacyGeneration
from frazil.formats.legacy.names import numbered_node, widen_id
from frazil.formats.legacy.structs import (
    MAX_RANK,
    MAX_U32,
    MAX_U64,
    LegacyDocument,
    early_dialect,
    format_time,
    parse_nanos,
)
from frazil.ids import ChunkId, NodeId, SnapshotId, crockford
from frazil.model.nodes import Dimension
from tests.unit.formats.legacy.samples import TIMES


@given(TIMES)
def test_times_come_back(when: int) -> None:
    assert parse_nanos(format_time(when)) == when


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1970-01-01T00:00:01Z", 10**9),
        ("1970-01-01T00:00:00.5Z", 5 * 10**8),
        ("1970-01-01T01:00:00+01:00", 0),
        ("1969-12-31T23:59:59Z", None),
        ("2024-13-01T00:00:00Z", None),
        ("2024-01-01", None),
        ("9999-12-31T23:59:59-23:59", None),
    ],
)
def test_spellings_of_times(text: str, expected: int | None) -> None:
    assert parse_nanos(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "1970-01-01 00:00:01.000000000999Z",  # more digits than are kept
        "1970-01-01t00:00:01z",
        "1970-01-01T01:00:01.0+01:00",
    ],
)
def test_other_spellings_of_one_time(text: str) -> None:
    assert parse_nanos(text) == 10**9


def test_times_have_as_many_digits_as_they_need() -> None:
    assert format_time(0) == "1970-01-01T00:00:00.000000Z"
    assert format_time(1000) == "1970-01-01T00:00:00.000001Z"
    assert format_time(1001) == "1970-01-01T00:00:00.000001001Z"


# --- values ---

KEY = "snapshots/x"


def document(generation: LegacyGeneration = LegacyGeneration.G3) -> LegacyDocument:
    return LegacyDocument(KEY, generation)


def test_a_struct_is_a_list_of_its_fields_or_a_map_of_their_names() -> None:
    names = ("a", "b")
    assert document().fields([1, 2], names, "x") == [1, 2]
    assert document().fields({"b": 2, "a": 1}, names, "x") == [1, 2]
    assert document().fields({"b": 2, "c": 3}, names, "x") == [None, 2]
    for wrong in ([1], [1, 2, 3], "ab", None, 5):
        with pytest.raises(FormatError, match="x must have 2 fields"):
            document().fields(wrong, names, "x")


@pytest.mark.parametrize(
    ("structs", "expected"),
    [
        ([[1]], Dialect.G2_MSGPACK),
        ([{"a": 1}], Dialect.G2_MAPS_TEXT),
        ([{"a": 1}, [1]], Dialect.G2_MIXED),
        ([{"a": 1, "unknown": 2}], Dialect.G2_MIXED),
        ([], Dialect.G2_MIXED),
    ],
)
def test_the_form_of_structs_tells_the_dialect(structs: list[Any], expected: Dialect) -> None:
    found = document(LegacyGeneration.G2)
    for struct in structs:
        found.fields(struct, ("a",), "x")
    assert early_dialect(found) is expected


def test_maps_with_ids_as_numbers_are_a_dialect_of_their_own() -> None:
    found = document(LegacyGeneration.G2)
    found.fields({"a": 1}, ("a",), "x")
    found.snapshot_id([*range(16)])
    assert early_dialect(found) is Dialect.G2_MAPS


def test_a_pair_that_is_a_map_is_never_written_so() -> None:
    found = document()
    found.fields({"a": 1}, ("a",), "x")
    assert found.pair({"start": 1, "end": 2}, ("start", "end"), "x") == [1, 2]
    assert early_dialect(found) is Dialect.G2_MIXED


@pytest.mark.parametrize(
    ("method", "good", "bad"),
    [
        ("items", [[], (1,)], [None, {}, "x", 5]),
        ("mapping", [{}, {1: 2}], [None, [], "x"]),
        ("text", ["", "é"], [None, 5, b"x", "\ud800"]),
        ("number", [0, MAX_U64], [-1, MAX_U64 + 1, True, 1.0, "1", None]),
        ("numbers", [[], [0] * MAX_RANK], [[-1], [0] * (MAX_RANK + 1), 5]),
        ("time", ["1970-01-01T00:00:00Z"], ["yesterday", 0, None]),
        ("metadata", [{}, {"a": [{"b": None}]}], [[], {1: 2}, {"a": [{2: 3}]}, {"a": [b"x"]}]),
        ("path", ["/", "/a/b"], ["", "a", "/a/", "/a//b", "/../a", 5]),
        ("variant", ["Group", {"Array": []}], [None, {}, {"a": 1, "b": 2}, {1: 2}, []]),
    ],
)
def test_values_of_other_kinds_are_damage(method: str, good: list[Any], bad: list[Any]) -> None:
    read = getattr(document(), method)
    for value in good:
        read(value, "what it is")
    for value in bad:
        with pytest.raises(FormatError, match="damaged file") as caught:
            read(value, "what it is")
        assert caught.value.facts["key"] == KEY
        assert caught.value.kind is ErrorKind.DESERIALIZATION


@pytest.mark.parametrize(
    "raw", [b"{", b"", b"\xff", "[" * 100_000], ids=["open", "none", "ff", "["]
)
def test_what_is_not_json_is_damage(raw: bytes | str) -> None:
    with pytest.raises(FormatError, match="no state"):
        document().json(raw, "no state")


def test_grids_have_a_chunk_length_for_each_axis_and_not_too_many_chunks() -> None:
    document().check_grid((2**32, 0), (2, 0))
    document().check_grid((MAX_U32,), (1,))
    for shape, chunks in (((1, 2), (1,)), ((MAX_U32 + 1,), (1,))):
        with pytest.raises(FormatError):
            document().check_grid(shape, chunks)


def test_extents_count_only_where_their_writer_is_known() -> None:
    """A box that is too small would hide chunks."""
    axes = (Dimension(10, 5), Dimension(4, 2))
    found = document()
    assert found.edges([(1, 2), (0, 1)], axes) == ((0, 5), (0, 2))
    found.has_true_extents = True
    assert found.edges([(1, 2), (0, 1)], axes) == ((1, 2), (0, 1))
    assert found.edges([], axes) == ((0, 5), (0, 2))
    for wrong in ([(1, 2)], [(2, 1), (0, 1)]):
        with pytest.raises(FormatError, match="a manifest covers"):
            found.edges(wrong, axes)


# --- ids ---

RAW = bytes(range(16))


@pytest.mark.parametrize(
    ("value", "raw"),
    [
        (crockford(RAW[:12]), RAW[:12]),
        (crockford(RAW), RAW),
        (RAW.hex(), RAW),
        ([*RAW], RAW),
        ([RAW[:12], []], RAW[:12]),
    ],
)
def test_object_ids_in_each_of_their_forms(value: Any, raw: bytes) -> None:  # noqa: ANN401
    found = document()
    assert found.raw_id(value, "id") == raw
    assert found.id_width == len(raw)
    assert found.has_packed_ids == isinstance(value[0], bytes)


@pytest.mark.parametrize(
    "value", ["", "nonsense", crockford(RAW)[:-1] + "Z", [*RAW[:15]], [256] * 16, [b"short", []], 5]
)
def test_what_is_no_object_id_is_damage(value: Any) -> None:  # noqa: ANN401
    with pytest.raises(FormatError, match="chunk id must be an object id"):
        document().chunk_id(value)


def test_names_are_remembered_that_ids_do_not_tell() -> None:
    found = document(LegacyGeneration.G2)
    ours = widen_id(RAW[:12][::-1])
    assert found.snapshot_id(crockford(ours)) == SnapshotId(ours[:12])
    assert found.chunk_id([*RAW]) == ChunkId(RAW[:12])
    assert found.names().snapshots == {}
    assert found.names().chunks == {ChunkId(RAW[:12]): crockford(RAW)}
    found.chunk_id(crockford(RAW))  # the same once more
    with pytest.raises(FormatError, match="one id"):
        found.chunk_id([*RAW[:12], 0, 0, 0, 0])
    assert found.file_name([*RAW], "file") == crockford(RAW)


def test_nodes_have_numbers_or_eight_bytes() -> None:
    found, node = document(), NodeId(bytes(range(8)))
    for value, expected in ((7, numbered_node(7)), (str(node), node), ([bytes(node), []], node)):
        assert found.node_id(value) == expected
        assert found.has_numbered_nodes == isinstance(value, int)
    for wrong in (-1, 2**32, True, "x", [b"short", []], [1, 2], None):
        with pytest.raises(FormatError, match="node id"):
            found.node_id(wrong)
