"""Files that an ingest reached by others are noticed too when they are replaced."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import h5py
import numpy as np
import pytest
import zarr

from frazil.ingestion.reports import IngestRefusedError, IngestStatus
from tests.support.archive import as_kerchunk, opened, take

VALUES = np.arange(8, dtype="<i4")


def with_references(folder: Path) -> tuple[Path, Path]:
    """kerchunk references into a file: what to ingest, and what has the bytes."""
    held = folder / "held.h5"
    with h5py.File(held, "w") as file:
        file.create_dataset("v", data=VALUES, chunks=(4,))
    made = folder / "refs.json"
    made.write_text(json.dumps(as_kerchunk(held, inline=0)))
    return made, held


def with_external_values(folder: Path) -> tuple[Path, Path]:
    held = folder / "held.bin"
    held.write_bytes(VALUES.tobytes())
    made = folder / "a.h5"
    with h5py.File(made, "w") as file:
        file.create_dataset("v", shape=(8,), dtype="<i4", external=[(str(held), 0, 32)])
    return made, held


def with_a_link(folder: Path) -> tuple[Path, Path]:
    held, made = folder / "held.h5", folder / "a.h5"
    with h5py.File(held, "w") as file:
        file.create_dataset("v", data=VALUES, chunks=(4,))
    with h5py.File(made, "w") as file:
        file["v"] = h5py.ExternalLink(str(held), "/v")
    return made, held


def zarr_store(folder: Path) -> tuple[Path, Path]:
    made = folder / "a.zarr"
    array = zarr.create_group(made).create_array(
        "v", shape=(8,), chunks=(4,), dtype="<i4", compressors=None, dimension_names=("x",)
    )
    array[:] = VALUES
    return made, made / "v" / "c" / "0"


@pytest.mark.parametrize(
    "make",
    [with_references, with_external_values, with_a_link, zarr_store],
    ids=lambda f: f.__name__,
)
def test_a_file_that_was_replaced_is_not_read_as_the_old_one(
    tmp_path: Path, make: Callable[[Path], tuple[Path, Path]]
) -> None:
    (tmp_path / "files").mkdir()
    file, held = make(tmp_path / "files")
    take(tmp_path / "repo", file, allow=(f"file://{tmp_path}/files/",))
    array = opened(tmp_path / "repo").readonly_session("main").array("/v")
    assert array[:].tolist() == VALUES.tolist()
    held.write_bytes(held.read_bytes()[::-1])
    os.utime(held, (5e9, 5e9))
    array = opened(tmp_path / "repo").readonly_session("main").array("/v")
    with pytest.raises(Exception, match="has changed"):
        array[:]


def test_a_zarr_store_with_a_new_chunk_is_told_as_changed(tmp_path: Path) -> None:
    """Its chunks may be as many and as long as before."""
    file, held = zarr_store(tmp_path)
    take(tmp_path / "repo", file)
    assert take(tmp_path / "repo", file).status is IngestStatus.UNCHANGED
    held.write_bytes(bytes(16))
    os.utime(held, (5e9, 5e9))
    with pytest.raises(IngestRefusedError, match="has changed since"):
        take(tmp_path / "repo", file)
