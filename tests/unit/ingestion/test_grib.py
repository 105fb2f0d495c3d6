"""GRIB messages become arrays over time, step, member, level and grid."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from frazil.errors import InvalidInputError
from frazil.ingestion.grib import read_grib, scan_grib
from frazil.ingestion.records import InputFile, ParsedFile
from frazil.ingestion.sources import as_url, look
from tests.support.archive import seen, take
from tests.support.messages import fields
from tests.support.odd import grib as odd


@pytest.mark.parametrize("mode", ["virtual", "native"])
def test_grib_is_an_array_over_time_and_level(tmp_path: Path, mode: str) -> None:
    fields(tmp_path / "a.grib2", (0, 12))
    fields(tmp_path / "b.grib2", (18, 23))
    report = take(tmp_path / "repo", f"{tmp_path}/*.grib2", wanted={"mode": mode})
    assert (report.virtual_chunks, report.native_chunks) == (
        (8, 0) if mode == "virtual" else (0, 8)
    )
    found = seen(tmp_path / "repo")
    assert found.t.dims == ("time", "isobaricInhPa", "latitude", "longitude")
    assert found.time.values[2] == np.datetime64("2024-01-01T18")
    assert found.latitude.values.tolist() == [60, 50, 40, 30]
    expected = np.arange(24.0).reshape(4, 6) + 18 + 0.85
    picked = found.t.sel(time="2024-01-01T18", isobaricInhPa=850)
    assert np.allclose(picked.values, expected, atol=1e-3)


def test_grib_of_the_first_edition_is_copied_if_wanted(tmp_path: Path) -> None:
    fields(tmp_path / "a.grib", (0, 12), edition=1)
    with pytest.raises(InvalidInputError, match="cannot be referred to"):
        take(tmp_path / "repo", tmp_path / "a.grib")
    take(tmp_path / "repo", tmp_path / "a.grib", wanted={"mode": "auto"})
    found = seen(tmp_path / "repo").t.sel(time="2024-01-01T12", isobaricInhPa=1000)
    assert np.allclose(found.values, np.arange(24.0).reshape(4, 6) + 13, atol=1e-3)


# --- one file ---


def source(folder: Path, *settings: dict[str, Any]) -> InputFile:
    """A file of messages with these settings, each with values of its own."""
    common = {**odd.REGULAR, "dataDate": 20240101, "dataTime": 0}
    made = odd.write_all("regular_ll_pl_grib2", [{**common, **each} for each in settings], folder)
    url = as_url(made)
    return InputFile(url, identity=look(url))


def shapes(found: ParsedFile) -> dict[str, tuple[tuple[str, ...], tuple[int, ...]]]:
    return {each.name: (each.dims, each.shape) for each in found.variables}


GRID = ("latitude", "longitude")


def test_a_single_message_has_a_time_and_scalars(tmp_path: Path) -> None:
    found = scan_grib(source(tmp_path, {"shortName": "t", "level": 850}))
    assert shapes(found)["t"] == (("time", *GRID), (1, 4, 6))
    assert shapes(found)["isobaricInhPa"] == ((), ())
    assert shapes(found)["step"] == ((), ())
    (variable,) = (each for each in found.variables if each.name == "t")
    assert variable.attrs["coordinates"] == "step isobaricInhPa"


def test_levels_of_pressure_fall_and_fields_that_are_missing_are_no_numbers(
    tmp_path: Path,
) -> None:
    first = {"shortName": "t", "level": 850}
    file = source(tmp_path, first, {**first, "level": 1000}, {**first, "dataTime": 600})
    found = {each.name: each for each in scan_grib(file).variables}
    assert found["t"].dims == ("time", "isobaricInhPa", *GRID)
    assert found["isobaricInhPa"].values is not None
    assert found["isobaricInhPa"].values.tolist() == [1000, 850]
    refs = found["t"].references
    assert refs is not None
    assert refs.index.tolist() == [0, 1, 3]  # there is no field of 1000 hPa at six o'clock
    whole = read_grib(file, "t", ())
    assert np.isnan(whole[1, 0]).all()
    assert whole[0, :, 0, 0].tolist() == [12, 0]
    part = read_grib(file, "t", (slice(0, 1), slice(1, 2), slice(1, 3), slice(2, 4)))
    assert np.array_equal(part, whole[0:1, 1:2, 1:3, 2:4])
    assert read_grib(file, "time", (slice(1, 2),)).tolist() == [1704067200 + 6 * 3600]


def test_variables_whose_levels_differ_have_axes_of_their_own(tmp_path: Path) -> None:
    fields = [("t", 850), ("t", 1000), ("u", 500), ("u", 850)]
    file = source(tmp_path, *({"shortName": name, "level": level} for name, level in fields))
    found = shapes(scan_grib(file))
    assert found["t"] == (("time", "isobaricInhPa", *GRID), (1, 2, 4, 6))
    assert found["u"] == (("time", "isobaricInhPa_2", *GRID), (1, 2, 4, 6))


def test_one_parameter_on_two_kinds_of_levels_is_two_variables(tmp_path: Path) -> None:
    kinds = ({"typeOfLevel": "isobaricInhPa", "level": 850}, {"typeOfLevel": "surface"})
    found = shapes(scan_grib(source(tmp_path, *({"shortName": "t", **each} for each in kinds))))
    assert {"t_isobaricInhPa", "t_surface"} <= set(found)
    assert "t" not in found


@pytest.mark.parametrize(
    ("second", "told"),
    [
        ({}, "two messages hold the same field of 't'"),
        ({"dataTime": 600, "longitudeOfLastGridPointInDegrees": 100}, "is on another grid"),
    ],
)
def test_fields_that_do_not_go_together_are_refused(
    tmp_path: Path, second: dict[str, Any], told: str
) -> None:
    first = {"shortName": "t", "level": 850}
    with pytest.raises(InvalidInputError, match=told) as refusal:
        scan_grib(source(tmp_path, first, {**first, **second}))
    assert "odd.grib" in str(refusal.value)


def test_a_file_without_messages_is_told(tmp_path: Path) -> None:
    (tmp_path / "a.grib").write_bytes(b"no message at all")
    url = as_url(tmp_path / "a.grib")
    with pytest.raises(InvalidInputError, match=r"no messages in it.*a\.grib"):
        scan_grib(InputFile(url, identity=look(url)))
