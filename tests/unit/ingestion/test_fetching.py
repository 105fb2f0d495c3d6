"""Values read through references: only the chunks that are touched, none that is damaged."""

from __future__ import annotations

from pathlib import Path

import numcodecs
import numpy as np
import pytest
import zarr

from frazil.errors import InvalidInputError
from frazil.ingestion.fetching import fetch_values
from frazil.ingestion.records import FileScan, ScanTask
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
