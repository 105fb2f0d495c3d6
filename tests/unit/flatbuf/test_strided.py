"""Tables of many rows, written into memory that grows."""

from __future__ import annotations

import numpy as np
import pytest

from frazil.flatbuf import strided
from frazil.flatbuf import writer as flat_writer
from frazil.flatbuf.columns import TableColumns, table_columns
from frazil.flatbuf.reader import Buffer
from frazil.flatbuf.strided import Scalars, Texts, encode_tables
from frazil.flatbuf.writer import OFFSET, FlatWriter, TableLayout
from frazil.model.strings import StringPool

ROOT = TableLayout("id8", OFFSET, OFFSET)
NAME = b"somebody"


def file_of(sizes: list[int], rest: int = 0) -> bytes:
    """A file with a table for each text of so many letters, after `rest` other bytes."""
    writer = FlatWriter()
    coords = np.arange(len(sizes), dtype=np.uint32).reshape(-1, 1)
    texts = [chr(97 + n % 26) * size for n, size in enumerate(sizes)]
    numbers = np.arange(len(sizes), dtype=np.int32)
    lengths = Scalars(1, np.array(sizes, "<u8"))
    blocks = encode_tables(coords, [lengths], [Texts(2, numbers, StringPool.of(texts))])
    vector = writer.table_blocks(blocks)
    root = writer.table(ROOT, NAME, vector, writer.blob(bytes(rest)))
    return bytes(writer.finish(root, b"Test").joined())


def read(blob: bytes) -> TableColumns:
    root = Buffer(blob, "file").root()
    assert root.required_bytes(0, 8, "name") == NAME
    return table_columns(root, 1, "tables")


@pytest.mark.parametrize(
    "sizes",
    [
        [],
        [3],
        [5] * 500,
        [*range(500)],  # later parts need more memory than the first suggests
        [*range(500, 0, -1)],
        [0] * 300 + [2000] * 5,
    ],
)
@pytest.mark.parametrize("rest", [0, 100, 100_000])  # with room for it before the tables, or not
@pytest.mark.parametrize("many", [1, 10_000])
def test_tables_of_several_parts_are_read_back(
    monkeypatch: pytest.MonkeyPatch, sizes: list[int], rest: int, many: int
) -> None:
    monkeypatch.setattr(flat_writer, "MANY_TABLES", many)
    monkeypatch.setattr(strided, "SEGMENT_ROWS", 64)
    monkeypatch.setattr(strided, "BLOCK_ROWS", 16)
    tables = read(file_of(sizes, rest))
    assert len(tables) == len(sizes)
    if sizes:
        assert tables.longs(1).tolist() == sizes
        assert tables.texts(2).counts.tolist() == sizes
        firsts = tables.texts(2).slices(bytes(tables.buffer.data))
        assert firsts == [bytes([97 + n % 26]) * size for n, size in enumerate(sizes)]


def test_a_file_is_the_same_with_and_without_room() -> None:
    writer = FlatWriter()
    blocks = encode_tables(np.arange(10_000, dtype=np.uint32).reshape(-1, 2))
    root = writer.table(ROOT, NAME, writer.table_blocks(blocks), None)
    body = writer.finish(root, b"Test")
    assert body.end is not None
    without = body._replace(end=None).joined()
    assert bytes(body.joined()) == without
