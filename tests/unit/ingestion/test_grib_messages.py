"""Single GRIB messages: where they are in a file, and what they say of themselves."""

from __future__ import annotations

import json
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from frazil.errors import InvalidInputError
from frazil.ingestion.grib_messages import Window, messages
from frazil.ingestion.records import FileScan, ScanTask
from frazil.ingestion.scan import scan_file
from frazil.ingestion.sources import as_url
from frazil.ingestion.tuning import GRIB_BLOCK
from tests.support.archive import seen, take
from tests.support.messages import fields


def test_grib_that_is_cut_off_is_told(tmp_path: Path) -> None:
    fields(tmp_path / "a.grib2", (0,))
    whole = (tmp_path / "a.grib2").read_bytes()
    (tmp_path / "a.grib2").write_bytes(whole[:-10])
    with pytest.raises(InvalidInputError, match="cut off"):
        scan_file(ScanTask(as_url(tmp_path / "a.grib2")), {})


@pytest.mark.parametrize("edition", [1, 2])
def test_a_scan_of_grib_passes_over_values(tmp_path: Path, edition: int) -> None:
    """A file may be larger than the memory of a task, and a distant one takes long to read."""
    file, size = tmp_path / "large.grib", (400, 500)
    fields(file, (*range(0, 24, 2),), edition, size)
    whole = file.stat().st_size
    assert whole > 24 * 2 * 400 * 500
    tracemalloc.start()
    found = scan_file(ScanTask(as_url(file)), {})
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert isinstance(found, FileScan)
    assert found["t"].shape == (12, 2, *size)
    assert json.loads(found["t"].attributes)["GRIB_gridType"] == "regular_ll"
    assert found["t"].chunks == (1, 1, *size)
    assert peak < whole
    read: list[int] = []

    def part(start: int, length: int) -> bytes:
        read.append(length)
        with file.open("rb") as opened:
            opened.seek(start)
            return opened.read(length)

    spans = [*messages(Window(part, whole), "large.grib")]
    assert len(spans) == 24
    assert sum(length for _, length, _ in spans) == whole
    assert max(len(header) for _, _, header in spans) < 1000
    assert sum(read) < 0.25 * whole


def test_grib_between_other_bytes_is_found(tmp_path: Path) -> None:
    fields(tmp_path / "a.grib2", (0, 12))
    whole = (tmp_path / "a.grib2").read_bytes()
    spans = messages(Window(lambda a, n: whole[a : a + n], len(whole)), "a")
    parts = [whole[start : start + length] for start, length, _ in spans]
    noise = [b"", b"GRI", bytes(GRIB_BLOCK - 2), b"x" * (2 * GRIB_BLOCK + 5)]
    (tmp_path / "a.grib2").write_bytes(b"".join(n + p for n, p in zip(noise, parts, strict=True)))
    take(tmp_path / "repo", tmp_path / "a.grib2", wanted={"mode": "native"})
    found = seen(tmp_path / "repo").t
    assert np.allclose(found.values[:, :, 0, 0], [[1.0, 0.85], [13.0, 12.85]], atol=1e-3)


def test_a_grib_message_without_length_is_told(tmp_path: Path) -> None:
    (tmp_path / "a.grib2").write_bytes(b"7777GRIB\0\0\0\2" + bytes(8) + b"7777")
    with pytest.raises(InvalidInputError, match="damaged"):
        scan_file(ScanTask(as_url(tmp_path / "a.grib2"), format="grib"), {})
