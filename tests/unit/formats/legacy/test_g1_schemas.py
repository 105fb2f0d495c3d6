"""The footer of Parquet files, read by ourselves, says what the library says."""

from __future__ import annotations

import subprocess
import sys
from contextlib import suppress

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from frazil.errors import FormatError
from frazil.formats.legacy.g1_schemas import column_sizes

TABLE = pa.table(
    {
        "number": pa.array(range(500), pa.uint32()),
        "text": [f"some text {at % 7}" for at in range(500)],
        "list": [[at, at + 1] for at in range(500)],
        "struct": [{"a": at, "b": None if at % 3 else "b"} for at in range(500)],
        "truth": [at % 2 == 0 for at in range(500)],
    }
)


def made(group_rows: int = 200) -> bytes:
    """A file of several row groups, with all that a footer may have."""
    sink = pa.BufferOutputStream()
    pq.write_table(
        TABLE.replace_schema_metadata({"who": "a test", "empty": ""}),
        sink,
        row_group_size=group_rows,
        compression="zstd",
        sorting_columns=[pq.SortingColumn(0)],
        write_page_index=True,
    )
    found: bytes = sink.getvalue().to_pybytes()
    return found


@pytest.mark.parametrize("group_rows", [7, 200, 1000])
def test_sizes_are_those_that_the_library_reads(group_rows: int) -> None:
    blob = made(group_rows)
    metadata = pq.read_metadata(pa.BufferReader(blob))
    groups = [metadata.row_group(at) for at in range(metadata.num_row_groups)]
    expected = [
        group.column(at).total_uncompressed_size
        for group in groups
        for at in range(group.num_columns)
    ]
    assert column_sizes(blob, key="i/x") == expected


@given(st.data())
def test_damage_is_refused_or_does_not_matter(data: st.DataObject) -> None:
    blob = bytearray(made())
    start = len(blob) - 8 - int.from_bytes(blob[-8:-4], "little")
    for _ in range(data.draw(st.integers(1, 4))):
        blob[data.draw(st.integers(start, len(blob) - 1))] = data.draw(st.integers(0, 255))
    with suppress(FormatError):
        column_sizes(bytes(blob), key="i/x")


@pytest.mark.parametrize(
    "damage", [b"", b"PAR1", made()[:-1], made()[-100:], made()[:-4] + b"PARE"]
)
def test_damage_is_told_by_the_name_of_the_file(damage: bytes) -> None:
    with pytest.raises(FormatError, match="i/x"):
        column_sizes(damage, key="i/x")


READ_ALL = """
import random, sys
from frazil.errors import FormatError
from frazil.formats.legacy.g1_schemas import read_table
from tests.unit.formats.legacy.test_g1_schemas import made

blob, turn, refused = made(), random.Random(5), 0
start = len(blob) - 8 - int.from_bytes(blob[-8:-4], "little")
for _ in range(3000):
    changed = bytearray(blob)
    changed[turn.randrange(start, len(blob) - 8)] = turn.randrange(256)
    try:
        read_table(bytes(changed), key="i/x")
    except FormatError:
        refused += 1
print(refused)
"""


def test_no_footer_ends_the_process() -> None:
    done = subprocess.run(
        [sys.executable, "-c", READ_ALL], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-500:]
    assert int(done.stdout) > 100
