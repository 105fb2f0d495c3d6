"""Many objects written at once are those that are written one by one."""

from __future__ import annotations

import numpy as np
import pytest

from frazil.errors import FormatError
from frazil.flatbuf import writer as module
from frazil.flatbuf.reader import I32, U32, U64, Buffer, Table
from frazil.flatbuf.writer import OFFSET, FlatWriter, TableLayout
from frazil.model.oplog import TEXT_END, append_frames

ROOT = TableLayout(OFFSET)
ROW = TableLayout("id12", "i32!", "u64", OFFSET, OFFSET, "u8")
CHILD = TableLayout(OFFSET, "u32")
NAMES = ["", "a", "héllo", "four"]
COUNTS = [2, 0, 1, 0]


def rows_of(body: bytes) -> list[tuple[object, ...]]:
    return [
        (
            row.struct_bytes(0, 12),
            row.number(1, I32),
            row.number(2, U64),
            row.text(3),
            [(child.text(0), child.number(1, U32)) for child in row.tables(4)],
            row.byte(5),
        )
        for row in Buffer(body, "file").root().tables(0)
    ]


def one_by_one() -> bytes:
    writer = FlatWriter()
    rows = []
    for n, (name, count) in enumerate(zip(NAMES, COUNTS, strict=True)):
        children = [writer.table(CHILD, writer.text(NAMES[k]), k + n) for k in range(count)]
        parent = n.to_bytes(4, "little")
        texts = writer.text(name), writer.offsets(children)
        rows.append(writer.table(ROW, bytes([n]) * 12, parent, 2**40 + n, *texts, n))
    return bytes(writer.finish(writer.table(ROOT, writer.offsets(rows)), b"Test").joined())


@pytest.mark.parametrize("stride", [4, 64])
def test_columns_are_written_like_single_tables(stride: int) -> None:
    writer = FlatWriter()
    arena, starts = append_frames(b"", [(name.encode(), TEXT_END) for name in NAMES])
    at, sizes = np.array(starts), np.array([len(name.encode()) for name in NAMES])
    counts, n = np.array(COUNTS), np.arange(len(NAMES))
    whose, which = np.repeat(n, counts), np.array([0, 1, 0])
    names = writer.frames(arena, at[which], sizes[which], TEXT_END)
    children = writer.tables(CHILD, len(which), names, (whose + which).astype("<u4"))
    vectors = writer.vectors(counts, children)
    ids = np.array([bytes([k]) * 12 for k in n], "S12")
    texts = writer.frames(arena, at, sizes, TEXT_END)
    inline = ids, n.astype("<i4"), (2**40 + n).astype("<u8")
    away = writer.tables(ROW, len(n), *inline, texts, vectors, n.astype("u1"), stride=stride)
    part = writer.part()
    whole = FlatWriter()
    root = whole.table(ROOT, whole.blocks(len(part) - away, part))
    body = bytes(whole.finish(root, b"Test").joined())
    assert rows_of(body) == rows_of(one_by_one())
    places = [row.position for row in Buffer(body, "file").root().tables(0)]
    assert all(place % 8 == 0 for place in places)
    assert not (np.diff(places) % stride).any()


def test_numbers_that_matter_are_written_though_they_are_zero() -> None:
    writer = FlatWriter()
    layout = TableLayout("i32!", "byte", "u32")
    body = writer.finish(writer.table(layout, bytes(4), b"\0", 0), b"Test").joined()
    root = Buffer(body, "file").root()
    assert [root.at(slot) is None for slot in range(3)] == [False, False, True]


def test_pieces_made_elsewhere_begin_at_multiples_of_eight() -> None:
    leaf = FlatWriter()
    away = leaf.table(CHILD, leaf.text("x"), 7)
    part = leaf.part()
    writer = FlatWriter()
    vector = writer.blocks(np.array([len(part) - away]), part, b"odd")
    body = bytes(writer.finish(writer.table(ROOT, vector), b"Test").joined())
    (found,) = Buffer(body, "file").root().tables(0)
    assert isinstance(found, Table)
    assert (found.text(0), found.number(1, U32)) == ("x", 7)
    assert body.index(part) % 8 == 0


def test_more_than_a_file_can_hold_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_SIZE", 100)
    writer = FlatWriter()
    root = writer.table(ROOT, writer.blob(bytes(100)))
    with pytest.raises(FormatError, match="hold"):
        writer.finish(root, b"Test").joined()


def test_empty_vectors_are_written_once_but_items_of_eight_bytes_stay_aligned() -> None:
    writer = FlatWriter()
    writer.raw_text(b"five!")
    first = writer.structs(b"", 0, 1)
    assert writer.offsets([]) == writer.structs(b"", 0, 4) == first
    # Readers check where the first item of a vector would be, also if there is none.
    wide = writer.structs(b"", 0, 8)
    assert (wide - 4) % 8 == 0
    empty = TableLayout(OFFSET, OFFSET)
    body = writer.finish(writer.table(empty, first, wide), b"Test").joined()
    root = Buffer(body, "file").root()
    assert [root.required_vector(slot, 8, "items")[1] for slot in (0, 1)] == [0, 0]
