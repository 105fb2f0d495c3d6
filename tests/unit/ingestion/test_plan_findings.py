"""What a plan tells and stores beside values: notes, gaps, units, bounds, checksums."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np

from frazil.ingestion.encoding import encoded_attributes
from frazil.ingestion.plans import IngestMode, IngestPlan, PlannedArray
from frazil.ingestion.records import FileVariable
from tests.unit.ingestion.test_planning import (
    RAW,
    ZLIB,
    base,
    codes,
    coordinate,
    data,
    planned,
    scan,
)

DAYS = ("days since 2000-01-01", "days since 2000-01-03")


def array_of(plan: IngestPlan, name: str = "v") -> PlannedArray:
    return next(each for each in plan.arrays if each.name == name)


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


def test_a_variable_that_is_referred_to_once_must_have_the_same_codecs_in_all_files() -> None:
    def findings(*native: str) -> list[str]:
        scans = []
        for number, encoding in enumerate((ZLIB, RAW)):
            url = f"file:///data/{number}.nc"
            static = replace(data(url, {"lat": 2}, encoding=encoding), name="mask")
            scans.append(scan(number, time=[2 * number, 2 * number + 1], more={"mask": static}))
        return codes(planned(*scans, native_arrays=frozenset(native))[1])

    assert findings() == ["codecs"]
    assert findings("mask", "v") == []


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
