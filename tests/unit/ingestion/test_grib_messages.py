"""Single GRIB messages: where they are in a file, and what they say of themselves."""

from __future__ import annotations

import json
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from frazil.errors import InvalidInputError
from frazil.ingestion.grib_messages import (
    Message,
    Window,
    describe_message,
    grid_coordinates,
    message_values,
    messages,
    open_message,
    refusal,
)
from frazil.ingestion.records import FileScan, ScanTask
from frazil.ingestion.scan import scan_file
from frazil.ingestion.sources import as_url
from frazil.ingestion.tuning import GRIB_BLOCK
from tests.support.archive import seen, take
from tests.support.messages import fields
from tests.support.odd import grib as odd


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


# --- where messages are ---


def test_a_window_reads_blocks_and_nothing_behind_the_end() -> None:
    data = bytes(range(256)) * (GRIB_BLOCK // 128)
    read: list[tuple[int, int]] = []

    def part(start: int, length: int) -> bytes:
        read.append((start, length))
        return data[start : start + length]

    window = Window(part, len(data))
    assert window.get(5, 10) == data[5:15]
    assert window.get(20, 100) == data[20:120]
    assert read == [(5, GRIB_BLOCK)]
    assert window.get(len(data) - 3, 10) == data[-3:]
    assert window.get(len(data), 4) == window.get(len(data) + 9, 4) == b""
    assert window.get(0, len(data)) == data
    assert window.find(b"nowhere", 0) == -1


def test_a_sign_is_found_across_the_ends_of_blocks() -> None:
    for at in (0, GRIB_BLOCK - 4, GRIB_BLOCK - 2, GRIB_BLOCK, 2 * GRIB_BLOCK - 1):
        data = bytes(at) + b"GRIB" + bytes(9)

        def part(start: int, length: int, data: bytes = data) -> bytes:
            return data[start : start + length]

        assert Window(part, len(data)).find(b"GRIB", 0) == at


def one(tmp_path: Path, sample: str = "regular_ll_pl_grib2", **settings: Any) -> bytes:  # noqa: ANN401
    """One message."""
    return odd.write_all(sample, [{**odd.REGULAR, **settings}], tmp_path).read_bytes()


def test_a_message_with_several_fields_is_refused(tmp_path: Path) -> None:
    whole = one(tmp_path)
    at, sections = 16, dict[int, int]()
    while whole[at : at + 4] != b"7777":
        sections[whole[at + 4]] = at
        at += int.from_bytes(whole[at : at + 4], "big")
    twice = whole[:-4] + whole[sections[4] :]
    twice = twice[:8] + len(twice).to_bytes(8, "big") + twice[16:]
    window = Window(lambda start, length: twice[start : start + length], len(twice))
    with pytest.raises(InvalidInputError, match=r"several fields.*a\.grib"):
        [*messages(window, "file:///a.grib")]


# --- what messages say ---


def described(data: bytes) -> tuple[Message, dict[str, Any]]:
    with open_message(data) as handle:
        return describe_message(handle, 0, len(data), "file:///a.grib")


def test_times_have_seconds_and_steps_are_in_hours(tmp_path: Path) -> None:
    when: dict[str, Any] = {"dataDate": 20240101, "dataTime": 230, "second": 8}
    step: dict[str, Any] = {"indicatorOfUnitOfTimeRange": 0, "forecastTime": 90}
    message, attrs = described(one(tmp_path, shortName="t", level=850, **when, **step))
    seconds = np.datetime64("2024-01-01T02:30:08", "s").astype(int)
    assert message.place == (0.0, float(seconds), 1.5, 850.0)
    assert (message.variable, message.level_type) == ("t", "isobaricInhPa")
    assert (attrs["units"], attrs["GRIB_edition"]) == ("K", 2)


def test_parameters_and_surfaces_without_a_name_have_numbers(tmp_path: Path) -> None:
    unknown: dict[str, Any] = {"discipline": 0, "parameterCategory": 1, "parameterNumber": 200}
    message, _ = described(one(tmp_path, **unknown, typeOfFirstFixedSurface=211))
    assert (message.variable, message.level_type) == ("param_0_1_200", "surface_211")


def test_other_packings_and_grids_are_told_apart(tmp_path: Path) -> None:
    plain, _ = described(one(tmp_path))
    assert described(one(tmp_path))[0].packing == plain.packing
    assert described(one(tmp_path, bitsPerValue=16))[0].packing != plain.packing
    assert described(one(tmp_path, bitmapPresent=1))[0].packing != plain.packing
    moved = one(tmp_path, latitudeOfFirstGridPointInDegrees=70)
    assert described(moved)[0].grid != plain.grid


# --- grids and values ---


def test_latitudes_run_as_rows_do(tmp_path: Path) -> None:
    upward: dict[str, Any] = {"jScansPositively": 1, "latitudeOfFirstGridPointInDegrees": 30,
              "latitudeOfLastGridPointInDegrees": 60}  # fmt: skip
    for settings, expected in (({}, [60, 50, 40, 30]), (upward, [30, 40, 50, 60])):
        with open_message(one(tmp_path, **settings)) as handle:
            found = grid_coordinates(handle, "file:///a.grib")
        latitude, longitude = found["latitude"].values, found["longitude"].values
        assert latitude is not None
        assert longitude is not None
        assert latitude.tolist() == expected
        assert longitude.tolist() == [0, 10, 20, 30, 40, 50]


@pytest.mark.parametrize(
    ("sample", "settings", "told"),
    [
        ("regular_ll_pl_grib2", {"iScansNegatively": 1}, "iScansNegatively"),
        ("regular_ll_pl_grib2", {"jPointsAreConsecutive": 1}, "jPointsAreConsecutive"),
        ("reduced_gg_sfc_grib2", {}, "reduced_gg"),
    ],
)
def test_grids_without_rows_and_columns_are_refused(
    tmp_path: Path, sample: str, settings: dict[str, Any], told: str
) -> None:
    common = odd.REGULAR if sample.startswith("regular") else {}
    data = odd.write_all(sample, [{**common, **settings}], tmp_path).read_bytes()
    with open_message(data) as handle, pytest.raises(InvalidInputError, match=told):
        grid_coordinates(handle, "file:///a.grib")


def test_values_that_are_left_out_are_no_numbers(tmp_path: Path) -> None:
    found = message_values(one(tmp_path, bitmapPresent=1))
    assert np.isnan(found[::5]).all()
    assert np.isfinite(found).sum() == found.size - len(found[::5])


def test_why_a_message_cannot_be_referred_to(tmp_path: Path) -> None:
    assert refusal(one(tmp_path)) is None
    assert "first edition" in str(refusal(one(tmp_path, "regular_ll_pl_grib1")))
    assert "gribberish" in str(refusal(one(tmp_path, packingType="grid_complex")))
