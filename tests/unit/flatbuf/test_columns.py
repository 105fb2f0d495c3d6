"""FlatBuffers: what our writer makes is read by another implementation, and the other way."""

from __future__ import annotations

import struct

import flatbuffers
import numpy as np
import pytest

from frazil.errors import FormatError
from frazil.flatbuf.columns import TableColumns, table_columns
from frazil.flatbuf.reader import U64, Buffer, Table
from frazil.flatbuf.writer import OFFSET, FlatWriter, TableLayout

ROOT = TableLayout(OFFSET, "u64", OFFSET, "u8", OFFSET)
LEAF = TableLayout("id12", "u32", OFFSET, "u16")


def build() -> bytes:
    """A root with a text, a number, structs, nothing in slot 3, and three leaves."""
    writer = FlatWriter()
    leaves = [
        writer.table(LEAF, bytes([n]) * 12, n * 1000, writer.text(f"leaf {n}"), n) for n in range(3)
    ]
    structs = writer.structs(struct.pack("<4Q", 1, 2, 3, 4), 2, 8)
    root = writer.table(ROOT, writer.text("héllo"), 2**40, structs, 0, writer.offsets(leaves))
    return bytes(writer.finish(root, b"Test").joined())


def root_of(body: bytes) -> Table:
    return Buffer(body, "file").root()


def test_a_file_is_read_back() -> None:
    root = root_of(build())
    assert root.required_text(0, "text") == "héllo"
    assert root.number(1, U64) == 2**40
    assert root.structs(2, 16) == [struct.pack("<QQ", 1, 2), struct.pack("<QQ", 3, 4)]
    assert root.at(3) is None
    assert [leaf.required_text(2, "name") for leaf in root.tables(4)] == [
        "leaf 0",
        "leaf 1",
        "leaf 2",
    ]


def test_columns_read_the_same_as_single_tables() -> None:
    leaves = table_columns(root_of(build()), 4, "leaves")
    assert leaves.ids(0, 12, "id").tolist() == [b"", b"\1" * 12, b"\2" * 12]
    assert leaves.numbers(1, "<u4").tolist() == [0, 1000, 2000]
    assert leaves.numbers(3, "<u2", default=7).tolist() == [7, 1, 2]
    names = leaves.texts(2, "name")
    assert names.slices(build()) == [b"leaf 0", b"leaf 1", b"leaf 2"]


def test_everything_is_aligned_and_texts_end_in_nul() -> None:
    body = build()
    root = root_of(body)
    assert len(body) % 8 == 0
    assert body[4:8] == b"Test"
    number = root.at(1)
    structs = root.vector(2, 16)
    text = root.vector(0, 1)
    assert number is not None
    assert structs is not None
    assert text is not None
    assert number % 8 == 0
    assert structs[0] % 8 == 0
    assert text[0] % 4 == 0
    assert body[text[0] + text[1]] == 0


def test_tables_with_the_same_fields_share_a_vtable() -> None:
    writer = FlatWriter()
    tables = [writer.table(LEAF, bytes(12), n, writer.text("x"), n) for n in range(1, 100)]
    root = writer.table(ROOT, None, None, None, None, writer.offsets(tables))
    body = bytes(writer.finish(root, b"Test").joined())
    assert body.count(struct.pack("<2H", 12, 26)) == 1


def test_the_official_builder_is_read() -> None:
    builder = flatbuffers.Builder()
    text = builder.CreateString("hello")
    blob = builder.CreateByteVector(b"\1\2\3")
    builder.StartObject(4)
    builder.PrependUOffsetTRelativeSlot(0, text, 0)
    builder.PrependUint64Slot(1, 77, 0)
    builder.PrependUOffsetTRelativeSlot(3, blob, 0)
    builder.Finish(builder.EndObject())
    root = root_of(bytes(builder.Output()))
    assert (root.text(0), root.number(1, U64), root.text(2), root.blob(3)) == (
        "hello",
        77,
        None,
        b"\1\2\3",
    )


def test_a_number_that_does_not_fit_is_refused() -> None:
    with pytest.raises(FormatError, match="does not fit"):
        FlatWriter().table(LEAF, bytes(12), 2**32, None, None)


def test_many_different_vtables_are_told_apart() -> None:
    layout = TableLayout(*["u32"] * 5)
    writer = FlatWriter()
    rows = [[(n >> bit & 1) * (n + bit) for bit in range(5)] for n in range(32)]
    tables = [writer.table(layout, *row) for row in rows]
    root = writer.table(ROOT, None, None, None, None, writer.offsets(tables))
    body = bytes(writer.finish(root, b"Test").joined())
    columns = table_columns(root_of(body), 4, "tables")
    for slot in range(5):
        assert columns.numbers(slot, "<u4").tolist() == [row[slot] for row in rows]


@pytest.mark.parametrize("position", [-1, 10**6, 2**62])
def test_a_table_outside_the_file_is_refused(position: int) -> None:
    with pytest.raises(FormatError, match="file"):
        TableColumns(Buffer(build(), "file"), np.array([position]))


@pytest.mark.parametrize("body", [b"", b"\0\0\0", b"\xff\xff\xff\xff", b"\4\0\0\0\0\0\0\0"])
def test_rubbish_is_refused(body: bytes) -> None:
    with pytest.raises(FormatError):
        root_of(body)
