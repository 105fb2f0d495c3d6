"""Values read through references: only the chunks that are touched, none that is damaged."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numcodecs
import numpy as np
import pytest
import zarr

from frazil.errors import InvalidInputError, StorageError
from frazil.ingestion.encoding import Meaning, encoding_of
from frazil.ingestion.fetching import fetch_values, require_same
from frazil.ingestion.records import (
    Array,
    FileReferences,
    FileScan,
    FileVariable,
    ObstacleError,
    ScanTask,
    canonical,
)
from frazil.ingestion.scan import scan_file
from frazil.ingestion.sources import as_url


def test_a_chunk_that_is_cut_off_is_not_filled_with_whatever_is_in_memory(tmp_path: Path) -> None:
    store = tmp_path / "odd.zarr"
    group = zarr.open_group(store, mode="w", zarr_format=2)
    made = group.create_array(
        "v", shape=(6,), chunks=(6,), dtype="<i8", compressors=numcodecs.Blosc("lz4")
    )
    made[...] = np.arange(6)
    chunk = store / "v" / "0"
    whole = chunk.read_bytes()
    for length in range(17, len(whole)):
        chunk.write_bytes(whole[:length])
        found = scan_file(ScanTask(as_url(store)), {})
        assert isinstance(found, FileScan)
        with pytest.raises(InvalidInputError, match=r"a chunk of 'v' cannot be decoded.*odd\.zarr"):
            fetch_values(found["v"], (), {})


VALUES = np.arange(12, dtype="<i4").reshape(4, 3)


def stored(
    folder: Path, rows: int = 2, *, encoding: str = "", kept: Sequence[int] = (0, 1)
) -> FileVariable:
    """The values in a file, in chunks of some rows, of which some may be missing."""
    held = folder / "held.bin"
    held.write_bytes(b"head" + VALUES.tobytes())
    size = 12 * rows
    refs = FileReferences.of_file(
        as_url(held), kept, [4 + n * size for n in kept], [size] * len(kept)
    )
    chosen = encoding or encoding_of(Meaning(VALUES.dtype, -1))
    return FileVariable("v", ("y", "x"), (4, 3), (rows, 3), chosen, "{}", refs)


@pytest.mark.parametrize(
    "region",
    [(), (slice(1, 3), slice(0, 2)), (slice(3, 4), slice(2, 3)), (slice(2, 2), slice(0, 3))],
    ids=["all", "across chunks", "one cell", "nothing"],
)
def test_a_region_is_put_together_from_the_chunks_it_touches(
    tmp_path: Path, region: tuple[slice, ...]
) -> None:
    found = fetch_values(stored(tmp_path), region, {})
    assert np.array_equal(found, VALUES[region])
    assert found.dtype == np.dtype("i4")


def test_chunks_that_are_not_there_read_as_the_fill_value(tmp_path: Path) -> None:
    found = fetch_values(stored(tmp_path, kept=[1]), (), {})
    assert found.tolist() == [[-1] * 3, [-1] * 3, *VALUES[2:].tolist()]
    assert (fetch_values(stored(tmp_path, kept=[]), (), {}) == -1).all()


def test_numbers_of_the_other_byte_order_are_turned_round(tmp_path: Path) -> None:
    big = encoding_of(Meaning(np.dtype(">i4"), 0))
    for region in ((), (slice(0, 4), slice(0, 3))):
        found = fetch_values(stored(tmp_path, encoding=big), region, {})
        assert np.array_equal(found, VALUES.byteswap())


def test_a_scalar_has_one_chunk() -> None:
    data = np.array(7, "<f8").tobytes()
    encoding = encoding_of(Meaning(np.dtype("<f8"), 0.0))
    scalar = FileVariable("s", (), (), (), encoding, "{}", FileReferences.of_bytes(data))
    assert fetch_values(scalar, (), {}) == 7
    missing = replace(scalar, references=FileReferences.of_bytes(b""))
    assert fetch_values(missing, (), {}) == 0


def test_a_file_that_is_shorter_than_its_references_is_named(tmp_path: Path) -> None:
    for region in ((), (slice(3, 4), slice(0, 3))):
        made = stored(tmp_path)
        (tmp_path / "held.bin").write_bytes(b"head" + VALUES.tobytes()[:-4])
        with pytest.raises(StorageError, match=r"held\.bin"):
            fetch_values(made, region, {})
    (tmp_path / "held.bin").unlink()
    with pytest.raises(StorageError, match=r"that references name cannot be read.*held\.bin"):
        fetch_values(made, (), {})


def test_codecs_are_tried_against_the_library_of_the_format(tmp_path: Path) -> None:
    made = stored(tmp_path)

    def read(region: tuple[slice, ...], dtype: np.dtype[Any]) -> Array:
        return VALUES[region].astype(dtype)

    require_same(made, [0, 1], read, "HDF5", {})
    with pytest.raises(ObstacleError, match="other values than HDF5 does"):
        require_same(made, [1], lambda region, _: VALUES[region] + 1, "HDF5", {})
    zstd = canonical([{"name": "zstd", "configuration": {"level": 0, "checksum": False}}])
    damaged = stored(tmp_path, encoding=encoding_of(Meaning(VALUES.dtype, -1, zstd)))
    with pytest.raises(ObstacleError, match="its codecs do not decode it"):
        require_same(damaged, [0], read, "HDF5", {})
