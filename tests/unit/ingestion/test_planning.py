"""Rules: what may be joined, in which order, and what is refused, file by file."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from frazil.ingestion.encoding import encoded_attributes, encoded_dtype
from frazil.ingestion.plans import IngestMode, IngestSeverity, PlannedArray, TransferKind
from frazil.ingestion.records import FileScan, FileVariable, Identity
from tests.support.scans import (
    LONG,
    RAW,
    SHORT,
    array_of,
    assert_refused,
    base,
    codes,
    coordinate,
    data,
    planned,
    scan,
)

# --- order ---


def test_tiles_are_joined_along_two_dimensions() -> None:
    tiles = [
        scan(number, time=time, lat=lat, chunks=(2, 2))
        for number, (time, lat) in enumerate(
            [([2, 3], [3.0, 4.0]), ([0, 1], [1.0, 2.0]), ([2, 3], [1.0, 2.0]), ([0, 1], [3.0, 4.0])]
        )
    ]
    plan, findings = planned(*tiles)
    assert not findings.errors
    array = next(each for each in plan.arrays if each.name == "v")
    assert array.shape == (4, 4)
    starts = [plan.start(array, n) for n in range(4)]
    assert starts == [(2, 2), (0, 0), (2, 0), (0, 2)]
    _, lacking = planned(*tiles[:3])
    assert codes(lacking) == ["missing-variable"]  # without a fill value zeros would be read
    fill = {"_FillValue": encoded_attributes(np.nan, np.dtype("f4"))["_FillValue"]}
    told = [
        scan(number, time=time, lat=lat, chunks=(2, 2), attrs=fill)
        for number, (time, lat) in enumerate(
            [([2, 3], [3.0, 4.0]), ([0, 1], [1.0, 2.0]), ([2, 3], [1.0, 2.0])]
        )
    ]
    _, found = planned(*told)
    assert [each.level for each in found.found] == [IngestSeverity.WARNING]


def test_a_scalar_becomes_a_new_dimension_if_it_is_named() -> None:
    days = [
        FileScan(
            f"file:///data/{n}.tif",
            "tiff",
            Identity(1, None, 5),
            (
                coordinate("time", np.float64(n)),
                data(f"file:///data/{n}.tif", {"y": 4, "x": 4}, (2, 2)),
            ),
        )
        for n in (2, 0, 1)
    ]
    _, unnamed = planned(*days)
    assert "duplicate" in codes(unnamed)
    plan, findings = planned(*days, concat_dims=("time",))
    assert not findings.errors
    array = next(each for each in plan.arrays if each.name == "v")
    assert (array.dims, array.shape, array.chunks) == (("time", "y", "x"), (3, 4, 4), (1, 2, 2))
    assert [plan.start(array, n)[0] for n in range(3)] == [2, 0, 1]


def test_one_variable_a_file_is_one_dataset() -> None:
    other = replace(data("file:///data/1.nc", {"time": 2, "lat": 2}), name="w")
    plan, findings = planned(
        scan(0, time=[0, 1]), scan(1, time=[0, 1], without=["v"], more={"w": other})
    )
    assert not findings.errors
    assert {array.name for array in plan.arrays} == {"time", "lat", "v", "w"}


def test_two_files_with_the_same_part_of_a_variable_are_refused() -> None:
    """Files of one time may have different variables, but not the same one twice."""

    def other(number: int, time: Sequence[float]) -> FileScan:
        made = scan(number, time=time)
        renamed = [replace(v, name="w") if v.name == "v" else v for v in made.variables]
        return replace(made, variables=tuple(renamed))

    whole = [scan(0, time=[0, 1]), other(1, [0, 1]), scan(2, time=[2, 3]), other(3, [2, 3])]
    plan, findings = planned(*whole)
    assert not findings.errors
    assert {array.name: array.shape for array in plan.arrays if array.name in "vw"} == {
        "v": (4, 2),
        "w": (4, 2),
    }
    _, findings = planned(*whole, scan(4, time=[2, 3]))
    told = [each for each in findings.errors if each.code == "duplicate"]
    assert [each.variable for each in told] == ["v"]
    assert set(told[0].files) == {"file:///data/2.nc", "file:///data/4.nc"}


# --- what is refused ---


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"time": [0, 1]}, "duplicate"),
        ({"time": [2, 3], "without": ["v"]}, "missing-variable"),
    ],
    ids=["same times twice", "no variable"],
)
def test_parts_that_are_missing_or_there_twice_are_refused_with_the_file_named(
    changes: dict[str, Any], code: str
) -> None:
    assert_refused(changes, code)


# --- after what is there ---


def test_appended_files_follow_what_is_there() -> None:
    plan, findings = planned(scan(0, time=[4, 5]), scan(1, time=[2, 3]), base=base())
    assert not findings.errors
    array = next(each for each in plan.arrays if each.name == "v")
    assert (array.kind, array.base_shape, array.shape) == (TransferKind.VIRTUAL, (2, 2), (6, 2))
    assert array.files == (1, 2)
    assert [plan.start(array, n)[0] for n in array.files] == [4, 2]
    assert "lat" not in {each.name for each in plan.arrays}


@pytest.mark.parametrize(
    ("there", "new", "code"),
    [
        ({"time": [0, 1]}, {"time": [0, 1]}, "duplicate"),
        ({"time": [0, 1]}, {"time": [2, 3], "without": ["v"]}, "missing-variable"),
        ({"time": [0, 1]}, {"time": [2, 3], "lat": [5.0, 6.0]}, "missing-variable"),
    ],
)
def test_what_does_not_fit_behind_it_is_refused(
    there: dict[str, Any], new: dict[str, Any], code: str
) -> None:
    _, findings = planned(scan(0, **new), base=base(**there))
    assert code in codes(findings)


def test_the_type_of_what_is_there_cannot_be_changed() -> None:
    for wanted in ({"materialize": True}, {"mode": IngestMode.NATIVE}, {"chunks": {"time": 1}}):
        _, findings = planned(scan(0, time=[2, 3], encoding=SHORT), base=base(), **wanted)
        assert "dtype" in codes(findings)


def test_arrays_with_values_of_their_own_grow_along_one_dimension_at_a_time() -> None:
    corner = scan(0, time=[2, 3], lat=[3.0, 4.0])
    side = scan(1, time=[0, 1], lat=[3.0, 4.0])
    below = scan(2, time=[2, 3])
    _, findings = planned(corner, side, below, base=base(), native_arrays=frozenset(["v"]))
    assert "append" in codes(findings)
    told = next(each for each in findings.errors if each.code == "append")
    assert told.variable == "v"
    assert "time and lat" in told.message
    for one in (side, below):
        _, findings = planned(one, base=base(), native_arrays=frozenset(["v"]))
        assert not findings.errors


def test_packing_of_what_is_there_cannot_be_undone() -> None:
    changed = scan(0, time=[2, 3], attrs={"scale_factor": 2.0})
    _, findings = planned(changed, base=base(), materialize=True)
    assert codes(findings) == ["packing"]


def test_values_behind_native_arrays_are_copied_whatever_their_codecs() -> None:
    plan, findings = planned(
        scan(0, time=[3, 4], encoding=RAW),
        base=base(time=[0, 1, 2]),
        native_arrays=frozenset(["v"]),
    )
    assert not findings.errors
    array = next(each for each in plan.arrays if each.name == "v")
    assert (array.kind, array.chunks) == (TransferKind.NATIVE, (2, 2))


def test_chunks_asked_for_make_arrays_native() -> None:
    plan, _ = planned(scan(0, time=[0, 1]), scan(1, time=[2, 3]), chunks={"time": -1, "lat": 1})
    array = next(each for each in plan.arrays if each.name == "v")
    assert (array.kind, array.chunks) == (TransferKind.NATIVE, (4, 1))
    assert (
        planned(scan(0, time=[0]), mode=IngestMode.NATIVE)[0].arrays[-1].kind is TransferKind.NATIVE
    )


@pytest.mark.parametrize("mode", [IngestMode.VIRTUAL, IngestMode.NATIVE])
def test_attributes_that_are_the_same_are_kept(mode: IngestMode) -> None:
    attrs = {"units": "K", "long_name": "temperature"}
    plan, findings = planned(
        scan(0, time=[0, 1], attrs=attrs), scan(1, time=[2, 3], attrs=attrs), mode=mode
    )
    assert not findings.errors
    array = next(each for each in plan.arrays if each.name == "v")
    assert {name: array.attrs[name] for name in attrs} == attrs


def test_copies_of_two_types_have_the_wider_one_and_keep_their_attributes() -> None:
    attrs = {"units": "K"}
    plan, findings = planned(
        scan(0, time=[0, 1], encoding=SHORT, attrs=attrs),
        scan(1, time=[2, 3], encoding=LONG, attrs=attrs),
        mode=IngestMode.NATIVE,
    )
    array = next(each for each in plan.arrays if each.name == "v")
    assert not findings.errors
    assert encoded_dtype(array.encoding) == np.dtype("<i4")
    assert (array.attrs["units"], array.is_decoded) == ("K", False)


# --- bounds ---


# --- what is told and stored beside values ---

DAYS = ("days since 2000-01-01", "days since 2000-01-03")


def codecs_of(array: PlannedArray) -> list[str]:
    return [each["name"] for each in json.loads(array.encoding)["codecs"]]


def test_what_was_left_out_of_files_is_told_once_with_their_names() -> None:
    parts = [scan(number, time=[2 * number, 2 * number + 1]) for number in range(2)]
    noted = [replace(each, notes=("'x' is a compound",)) for each in parts]
    _, findings = planned(*noted)
    told = [(each.code, each.message, tuple(each.files)) for each in findings.found]
    assert told == [("left-out", "'x' is a compound", tuple(each.url for each in parts))]


def test_an_array_with_a_part_that_no_file_has_is_taken_all_the_same() -> None:
    fill = {"_FillValue": encoded_attributes(np.nan, np.dtype("f4"))["_FillValue"]}
    places = [([2, 3], [3.0, 4.0]), ([0, 1], [1.0, 2.0]), ([2, 3], [1.0, 2.0])]
    tiles = [
        scan(number, time=time, lat=lat, chunks=(2, 2), attrs=fill)
        for number, (time, lat) in enumerate(places)
    ]
    plan, findings = planned(*tiles)
    assert [each.code for each in findings.found] == ["gap"]
    assert array_of(plan).shape == (4, 4)


def test_times_are_stored_with_the_units_that_they_are_counted_in() -> None:
    later, earlier = (scan(n, time=[0, 1], time_units=units) for n, units in enumerate(DAYS[::-1]))
    plan, findings = planned(later, earlier)
    assert not findings.errors
    axis = plan.axis("time")
    assert axis is not None
    assert axis.values is not None
    start = np.datetime64(array_of(plan, "time").attrs["units"].removeprefix("days since "))
    times = start + axis.values.astype("m8[D]")
    assert times.astype(str).tolist() == [f"2000-01-0{day}" for day in (1, 2, 3, 4)]


def bounds(units: str) -> FileVariable:
    values = np.array([[0.0, 1.0], [1.0, 2.0]])
    made = coordinate("time_bnds", values, units=units)
    return replace(made, dims=("time", "nv"))


def test_bounds_may_be_counted_in_other_units_as_their_times_are() -> None:
    def refused(*, is_told: bool) -> list[str]:
        more = {"bounds": "time_bnds"} if is_told else {}
        scans = [
            scan(
                n,
                time=[0, 1],
                more={
                    "time": coordinate("time", [0, 1], units=units, **more),
                    "time_bnds": bounds(units),
                },
            )
            for n, units in enumerate(DAYS)
        ]
        return codes(planned(*scans)[1])

    assert refused(is_told=True) == []
    assert refused(is_told=False) == ["units"]


def test_copies_end_in_checksums_only_if_asked_for_and_never_behind_others() -> None:
    new = scan(0, time=[2, 3])
    plain = planned(new, mode=IngestMode.NATIVE)[0]
    assert "crc32c" not in codecs_of(array_of(plain))
    checked = planned(new, mode=IngestMode.NATIVE, checksum=True)[0]
    assert codecs_of(array_of(checked))[-1] == "crc32c"
    there = base()
    native = frozenset(["v"])
    behind, findings = planned(new, base=there, native_arrays=native, checksum=True)
    assert not findings.errors
    assert array_of(behind).encoding == there["v"].encoding
