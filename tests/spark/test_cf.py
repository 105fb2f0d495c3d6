"""CF conventions: what xarray and cftime make of the same attributes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import cftime
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest
import xarray as xr
import zarr

import frazil
from frazil.cf.decoding import Rules
from frazil.errors import InvalidInputError
from frazil.spark.reading.variables import TableVariable
from frazil.spark.writing.encode import encoder_of
from frazil.xarray.engine import FrazilBackend
from tests.support.spark import read_here


def make(path: Path, values: npt.NDArray[Any], **attrs: Any) -> Path:  # noqa: ANN401
    """A repository with one array and its attributes."""
    session = frazil.Repository.create(path).writable_session("main")
    made = zarr.create_array(
        session.store,
        name="v",
        shape=values.shape,
        dtype=values.dtype,
        attributes=attrs,
        dimension_names=("x",),
    )
    made[...] = values
    session.commit("v")
    return path


UNITS = [
    ("days since 1970-01-01", "standard", np.array([0, 1, -400, 20000])),
    ("days since 0001-01-01", "standard", np.array([735000, 738000])),
    ("days since 0001-01-01", "proleptic_gregorian", np.array([735000, 1])),
    ("hours since 1900-01-01 00:00:00.0", "gregorian", np.array([0.5, 1e6, 1e6 + 1 / 3])),
    ("minutes since 2000-02-29T12:30:15Z", "standard", np.array([-1, 0, 1])),
    ("seconds since 1970-1-1 0:0:0 +01:30", "standard", np.array([0, 1_700_000_000])),
    ("milliseconds since 2024-01-01", "standard", np.array([1, 86_400_001])),
    ("microseconds since 2024-01-01 UTC", "standard", np.array([1, 2**40])),
    ("days since 1850-01-01", "standard", np.array([60000.123456, 63000.7])),
]


@pytest.mark.parametrize(("units", "calendar", "numbers"), UNITS)
def test_times_are_those_of_xarray(
    tmp_path: Path, units: str, calendar: str, numbers: npt.NDArray[Any]
) -> None:
    path = make(tmp_path / "r", numbers, units=units, calendar=calendar)
    decoder = xr.coders.CFDatetimeCoder(time_unit="us")
    expected = xr.open_dataset(path, engine=FrazilBackend, decode_times=decoder)["v"]
    found = np.array(read_here(path)["v"].to_pylist(), "M8[us]")
    apart = np.abs(found - expected.to_numpy().astype("M8[us]"))
    assert (apart <= np.timedelta64(1, "us")).all()


@pytest.mark.parametrize("calendar", ["noleap", "all_leap", "360_day", "julian", "366_day"])
def test_other_calendars_as_text(tmp_path: Path, calendar: str) -> None:
    numbers = np.array([0, 59, 60, 365, 366, 800.75, -400, 36500.5])
    units = "days since 2000-01-01"
    path = make(tmp_path / "r", numbers, units=units, calendar=calendar)
    with pytest.raises(InvalidInputError, match="other-calendars=string"):
        read_here(path)
    expected = [
        date.strftime("%Y-%m-%d %H:%M:%S") for date in cftime.num2date(numbers, units, calendar)
    ]
    assert read_here(path, other_calendars="string")["v"].to_pylist() == expected
    assert read_here(path, decode_cf="false")["v"].to_pylist() == numbers.tolist()


def test_julian_dates_of_the_standard_calendar_are_refused(tmp_path: Path) -> None:
    path = make(tmp_path / "r", np.array([0]), units="days since 1500-01-01")
    with pytest.raises(InvalidInputError, match="before 1582-10-15"):
        read_here(path)


@pytest.mark.parametrize(
    ("attrs", "problem"),
    [
        ({"units": "months since 2000-01-01"}, "no fixed length"),
        ({"units": "days since the flood"}, "cannot be read"),
        ({"units": "days since 2000-13-01"}, "does not exist"),
        ({"units": "days since 2001-02-29"}, "does not exist"),
        ({"units": "days since 1582-10-10"}, "does not exist"),
        ({"units": "days since 2000-01-31", "calendar": "360_day"}, "does not exist"),
        ({"units": "hours since 2000-01-01 12:75"}, "does not exist"),
        ({"units": "days since 2000-01-01", "calendar": "mayan"}, "unknown calendar 'mayan'"),
        ({"scale_factor": "big"}, "no number"),
        ({"_FillValue": "not base64!"}, "cannot be read"),
    ],
)
def test_attributes_that_cannot_be_followed(
    tmp_path: Path, attrs: dict[str, Any], problem: str
) -> None:
    path = make(tmp_path / "r", np.array([1.0]), **attrs)
    with pytest.raises(InvalidInputError, match=problem):
        read_here(path)
    assert read_here(path, decode_cf="false")["v"].to_pylist() == [1.0]


def test_times_beyond_all_timestamps_are_refused(tmp_path: Path) -> None:
    path = make(tmp_path / "r", np.array([2**62]), units="days since 2000-01-01")
    with pytest.raises(InvalidInputError, match="no timestamp can hold"):
        read_here(path)


def test_missing_times_are_null(tmp_path: Path) -> None:
    path = make(tmp_path / "r", np.array([0, -1, 1]), units="days since 2000-01-01", _FillValue=-1)
    found = read_here(path)["v"].to_pylist()
    assert found[1] is None
    assert str(found[2]) == "2000-01-02 00:00:00"
    floats = make(tmp_path / "f", np.array([0, np.nan]), units="days since 2000-01-01")
    assert read_here(floats)["v"].to_pylist()[1] is None


@pytest.mark.parametrize(
    ("values", "attrs"),
    [
        (np.array([1, 2, -99], "i2"), {"scale_factor": 0.5, "_FillValue": -99}),
        (np.array([1, 2, -99], "i2"), {"add_offset": 100, "missing_value": -99}),
        (np.array([1, 2, 3], "f4"), {"scale_factor": 0.1, "add_offset": 1.5}),
        (
            np.array([-1, 1, 100], "i1"),
            {"_Unsigned": "true", "_FillValue": -1, "scale_factor": 2.0},
        ),
        (np.array([250, 1], "u1"), {"_Unsigned": "false"}),
        (np.array([1.0, 9e36, np.nan]), {"_FillValue": "AAAAAAAA+H8=", "missing_value": 9e36}),
        (np.array([1, 0], "i1"), {"dtype": "bool"}),
    ],
)
def test_numbers_are_those_of_xarray(
    tmp_path: Path, values: npt.NDArray[Any], attrs: dict[str, Any]
) -> None:
    path = make(tmp_path / "r", values, **attrs)
    expected = xr.open_dataset(path, engine=FrazilBackend)["v"].to_numpy()
    found = read_here(path)["v"].to_pylist()
    as_floats = [np.nan if v is None else float(v) for v in found]
    np.testing.assert_allclose(as_floats, expected.astype("f8"), rtol=1e-6)


def test_a_fill_value_is_one_of_the_type_of_the_array(tmp_path: Path) -> None:
    path = make(tmp_path / "r", np.array([1e20, 2], "f4"), missing_value=1e20)
    assert read_here(path)["v"].to_pylist() == [None, 2.0]


def test_whole_numbers_with_gaps_stay_whole(tmp_path: Path) -> None:
    path = make(tmp_path / "r", np.array([2**60 + 1, -1]), _FillValue=-1)
    assert read_here(path)["v"].to_pylist() == [2**60 + 1, None]


def test_instants_on_demand(tmp_path: Path) -> None:
    path = make(tmp_path / "r", np.array([0]), units="days since 2000-01-01")
    assert str(read_here(path)["v"].type) == "timestamp[us]"
    assert str(read_here(path, timestamps="utc")["v"].type) == "timestamp[us, tz=UTC]"


def test_bytes_that_are_no_text(tmp_path: Path) -> None:
    path = make(tmp_path / "r", np.array([b"\xff\xfe"], "S2"))
    with pytest.raises(InvalidInputError, match="not UTF-8"):
        read_here(path)
    assert read_here(path, decode_cf="false")["v"].to_pylist() == [b"\xff\xfe"]


# --- times that timestamps cannot hold ---


def climatology(path: Path) -> Path:
    """Months of year 0 with a masked variable, as some climatologies have them."""
    session = frazil.Repository.create(path).writable_session("main")
    group = zarr.open_group(session.store, mode="w")
    time = group.create_array("time", shape=(3,), dtype="f8", dimension_names=("time",))
    time.attrs.update({"units": "hours since 0000-01-01 00:00:00"})
    time[:] = [366.0, 1096.485, 1826.97]
    sst = group.create_array("sst", shape=(3,), dtype="f4", dimension_names=("time",))
    sst.attrs.update({"missing_value": -1e34})
    sst[:] = [1.0, -1e34, 3.0]
    session.commit("climatology")
    return path


def test_times_stay_numbers_while_masks_are_applied(tmp_path: Path) -> None:
    path = climatology(tmp_path / "r")
    found = read_here(path, decode_times="false")
    assert found["time"].to_pylist() == [366.0, 1096.485, 1826.97]
    assert found["sst"].to_pylist() == [1.0, None, 3.0]


def test_times_of_year_0_can_be_had_as_text(tmp_path: Path) -> None:
    path = climatology(tmp_path / "r")
    with pytest.raises(InvalidInputError, match="other-calendars=string"):
        read_here(path)
    found = read_here(path, other_calendars="string")
    assert found["time"].to_pylist()[0] == "0000-01-16 06:00:00"
    assert found["sst"].to_pylist() == [1.0, None, 3.0]
    part = read_here(path, other_calendars="string", where="time > '0000-02'")
    assert part["sst"].to_pylist() == [None, 3.0]


def test_columns_that_nobody_asks_for_are_not_decoded(tmp_path: Path) -> None:
    path = climatology(tmp_path / "r")
    assert read_here(path, columns="sst")["sst"].to_pylist() == [1.0, None, 3.0]
    session = frazil.Repository.open(path).writable_session("main")
    zarr.open_group(session.store)["time"].attrs["calendar"] = "360_day"
    session.commit("another calendar")
    assert read_here(path, columns="sst")["sst"].to_pylist() == [1.0, None, 3.0]
    wishes: tuple[dict[str, Any], ...]
    wishes = ({}, {"columns": "time"}, {"columns": "sst", "where": "time > '0000-02'"})
    for asked in wishes:
        with pytest.raises(InvalidInputError, match="360_day"):
            read_here(path, **asked)


@pytest.mark.parametrize("calendar", ["standard", "noleap", "360_day", "julian", "all_leap"])
def test_texts_of_times_are_those_of_cftime(tmp_path: Path, calendar: str) -> None:
    units = "days since 1400-02-10 06:00:00"
    numbers = np.array([0.0, 30.25, 66_700.0, 66_715.0, 230_000.5])
    path = make(tmp_path / "r", numbers, units=units, calendar=calendar)
    found = read_here(path, other_calendars="string")["v"].to_pylist()
    expected = cftime.num2date(numbers, units, calendar)
    assert found == [each.strftime("%Y-%m-%d %H:%M:%S") for each in expected]


def test_units_that_are_even_in_their_calendar(tmp_path: Path) -> None:
    for name, calendar in (("common_years", "noleap"), ("months", "360_day")):
        units = f"{name} since 2000-01-01"
        path = make(tmp_path / name, np.array([0, 5]), units=units, calendar=calendar)
        found = read_here(path, other_calendars="string")["v"].to_pylist()
        expected = cftime.num2date([0, 5], units, calendar)
        assert found == [each.strftime("%Y-%m-%d %H:%M:%S") for each in expected]


def test_missing_values_that_are_texts(tmp_path: Path) -> None:
    path = make(tmp_path / "a", np.array([1.0, -9.0]), missing_value="-9")
    assert read_here(path)["v"].to_pylist() == [1.0, None]
    path = make(tmp_path / "b", np.array([1.0, -9.0]), missing_value="none")
    assert read_here(path)["v"].to_pylist() == [1.0, -9.0]


@pytest.mark.parametrize(
    ("values", "attrs"),
    [
        (np.array([0, 3, -9], "i2"), {"scale_factor": 0.5, "_FillValue": -9}),
        (np.array([1, 2], "i4"), {"add_offset": 24}),
        (np.array([1.5, 2.0]), {"scale_factor": 2.0, "add_offset": 1.0}),
    ],
)
def test_packed_times_are_those_of_xarray(
    tmp_path: Path, values: npt.NDArray[Any], attrs: dict[str, Any]
) -> None:
    path = make(tmp_path / "r", values, units="hours since 2000-01-01", **attrs)
    expected = xr.open_dataset(path, engine=FrazilBackend)["v"].to_numpy().astype("M8[us]")
    found = np.array(read_here(path)["v"].to_pylist(), "M8[us]")
    np.testing.assert_array_equal(found, expected)


def test_zeros_are_not_missing_where_the_missing_value_is_no_whole_number(tmp_path: Path) -> None:
    path = make(tmp_path / "r", np.array([0, -999, 5], "i2"), missing_value=1e20)
    assert read_here(path)["v"].to_pylist() == [0, -999, 5]


@pytest.mark.filterwarnings("ignore:this date/calendar")
@pytest.mark.parametrize("calendar", ["standard", "julian"])
@pytest.mark.parametrize(
    ("since", "numbers"),
    [
        ("-4713-01-01 12:00:00", [0.0, 1_721_423.0, 2_451_545.25]),
        ("0001-01-01", [-400.0, -1.0, 0.0]),
    ],
)
def test_years_before_the_first_are_those_of_cftime(
    tmp_path: Path, calendar: str, since: str, numbers: list[float]
) -> None:
    units = f"days since {since}"
    path = make(tmp_path / "r", np.array(numbers), units=units, calendar=calendar)
    found = read_here(path, other_calendars="string")["v"].to_pylist()
    dates = cftime.num2date(numbers, units, calendar)
    assert found == [f"{each.year:04d}{each.strftime('-%m-%d %H:%M:%S')}" for each in dates]


def test_packed_times_are_written_as_they_are_read(tmp_path: Path) -> None:
    attrs = {"units": "hours since 2000-01-01", "scale_factor": 0.5, "add_offset": 2}
    variable = TableVariable("v", "/v", ("x",), (4,), (4,), (4,), np.dtype("i4"), attrs)
    encoder = encoder_of(variable, Rules(), None)
    times = pa.array(np.array(["2000-01-01T02:30", "2000-01-02"], "M8[us]"))
    assert encoder.encode(times).tolist() == [1, 44]
    with pytest.raises(InvalidInputError, match="no whole number in the packing"):
        encoder.encode(pa.array(np.array(["2000-01-01T02:40"], "M8[us]")))
