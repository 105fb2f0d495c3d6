"""Rules: what may be joined, in which order, and what is refused, file by file."""
# Options of other libraries have any type:
# ruff: noqa: ANN401

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from frazil.ingestion.encoding import Meaning, encoded_attributes, encoded_dtype, encoding_of
from frazil.ingestion.manifests import part_of, table_of
from frazil.ingestion.planning import plan_ingest
from frazil.ingestion.plans import (
    Findings,
    IngestMode,
    IngestPlan,
    IngestSeverity,
    PlanOptions,
    TransferKind,
)
from frazil.ingestion.records import FileReferences, FileScan, FileVariable, Identity

RAW = encoding_of(Meaning(np.dtype("<f4"), 0.0))
ZLIB = encoding_of(
    Meaning(np.dtype("<f4"), 0.0, '[{"name":"numcodecs.zlib","configuration":{"level":4}}]')
)
SHORT = encoding_of(Meaning(np.dtype("<i2"), 0))
LONG = encoding_of(Meaning(np.dtype("<i4"), 0))


def coordinate(name: str, values: Any, **attrs: Any) -> FileVariable:
    array = np.asarray(values)
    encoding = encoding_of(Meaning(np.dtype("<f8"), 0.0))
    dims = (name,) if array.ndim else ()
    return FileVariable(
        name, dims, array.shape, array.shape, encoding, json.dumps(attrs), None, array
    )


def data(
    url: str,
    dims: Mapping[str, int],
    chunks: Sequence[int] | None = None,
    encoding: str = ZLIB,
    **attrs: Any,
) -> FileVariable:
    shape = tuple(dims.values())
    sizes = tuple(chunks or shape)
    grid = [-(-n // c) for n, c in zip(shape, sizes, strict=True)]
    count = int(np.prod(grid))
    places = np.arange(count)
    refs = FileReferences.of_file(url, places, places * 100, np.full(count, 100))
    return FileVariable("v", (*dims,), shape, sizes, encoding, json.dumps(attrs), refs)


def large(
    dims: Mapping[str, int], size: int = 1000, chunks: Sequence[int] | None = None
) -> FileScan:
    url = "file:///data/large.h5"
    made = data(url, dims, chunks)
    return FileScan(url, "hdf5", Identity(size, None, 1), (made,), "{}")


def scan(number: int, *, time: Sequence[float], chunk: int = 2, **changes: Any) -> FileScan:
    url = f"file:///data/{number}.nc"
    made = {
        "time": coordinate("time", time, units=changes.get("time_units", "days since 2000-01-01")),
        "lat": coordinate("lat", changes.get("lat", [1.0, 2.0])),
        "v": data(
            url,
            {"time": len(time), "lat": len(changes.get("lat", [1.0, 2.0]))},
            changes.get("chunks", (chunk, 2)),
            changes.get("encoding", ZLIB),
            **changes.get("attrs", {}),
        ),
    }
    made |= changes.get("more", {})
    for name in changes.get("without", ()):
        del made[name]
    return FileScan(url, "hdf5", Identity(1, "tag", 0), tuple(made.values()))


def planned(
    *scans: FileScan, base: FileScan | None = None, **wanted: Any
) -> tuple[IngestPlan, Findings]:
    findings = Findings()
    return plan_ingest(scans, PlanOptions(**wanted), findings, base), findings


def codes(findings: Findings) -> list[str]:
    return [each.code for each in findings.errors]


# --- order ---


def test_files_are_joined_in_the_order_of_their_coordinates() -> None:
    plan, findings = planned(scan(0, time=[4, 5]), scan(1, time=[0, 1]), scan(2, time=[2, 3]))
    assert not findings.found
    axis = plan.axis("time")
    assert axis is not None
    assert axis.values is not None
    assert axis.values.tolist() == [0, 1, 2, 3, 4, 5]
    assert [axis.start(n) for n in range(3)] == [4, 0, 2]
    array = next(each for each in plan.arrays if each.name == "v")
    assert (array.kind, array.shape, array.chunks) == (TransferKind.VIRTUAL, (6, 2), (2, 2))
    table = table_of([part_of(plan, array, n) for n in array.files], 2)
    assert table.coords.tolist() == [[0, 0], [1, 0], [2, 0]]
    assert [table.locations[n] for n in table.location.tolist()] == [
        "file:///data/1.nc",
        "file:///data/2.nc",
        "file:///data/0.nc",
    ]
    assert [table.ref(n).checksum for n in range(3)] == ["tag"] * 3  # type: ignore[union-attr]


def test_falling_coordinates_stay_falling() -> None:
    plan, findings = planned(scan(0, time=[1, 0]), scan(1, time=[3, 2]))
    assert not findings.errors
    axis = plan.axis("time")
    assert axis is not None
    assert axis.values is not None
    assert axis.values.tolist() == [3, 2, 1, 0]


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


def test_files_without_coordinates_are_joined_as_given_if_the_dimension_is_named() -> None:
    pair = [scan(n, time=[0, 1], without=["time"]) for n in range(2)]
    _, unnamed = planned(*pair)
    assert codes(unnamed) == ["duplicate"]
    plan, named = planned(*pair, concat_dims=("time",))
    assert not named.errors
    assert plan.axes[0].length == 4
    assert plan.axes[0].starts.tolist() == [0, 2, 4]


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


def test_uncompressed_files_of_different_lengths_are_cut_to_fit() -> None:
    months = [
        scan(0, time=[*range(31)], chunks=(31, 2), encoding=RAW),
        scan(1, time=[*range(31, 59)], chunks=(28, 2), encoding=RAW),
        scan(2, time=[*range(59, 90)], chunks=(31, 2), encoding=RAW),
    ]
    plan, findings = planned(*months)
    assert not findings.errors
    array = next(each for each in plan.arrays if each.name == "v")
    assert array.split == 1
    table = table_of([part_of(plan, array, n) for n in array.files], 2)
    assert table.coords[:, 0].tolist() == [*range(90)]
    assert table.offset[:3].tolist() == [0, 8, 16]
    assert set(table.length.tolist()) == {8}
    assert table.offset[31:33].tolist() == [0, 8]


def test_gaps_are_told() -> None:
    _, findings = planned(scan(0, time=[0, 1, 2, 3]), scan(1, time=[6, 7, 8, 9]))
    assert [(each.level, each.code) for each in findings.found] == [(IngestSeverity.WARNING, "gap")]


# --- what is refused ---

FIRST: dict[str, Any] = {"time": [0, 1]}
REFUSED: dict[str, tuple[dict[str, Any], str, bool]] = {
    "overlap": ({"time": [1, 2]}, "overlap", False),
    "same times twice": ({"time": [0, 1]}, "duplicate", False),
    "other type": ({"time": [2, 3], "encoding": SHORT}, "dtype", True),
    "other codecs": ({"time": [2, 3], "encoding": RAW}, "codecs", True),
    "other scale": ({"time": [2, 3], "attrs": {"scale_factor": 2.0}}, "packing", True),
    "other missing value": ({"time": [2, 3], "attrs": {"missing_value": -1}}, "packing", True),
    "other units": ({"time": [2, 3], "attrs": {"units": "degC"}}, "units", False),
    "other meaning": ({"time": [2, 3], "attrs": {"standard_name": "x"}}, "meaning", False),
    "other chunks": ({"time": [2, 3], "chunks": (1, 2)}, "chunk-shape", True),
    "no variable": ({"time": [2, 3], "without": ["v"]}, "missing-variable", False),
    "no coordinate": ({"time": [2, 3], "without": ["time"]}, "missing-coordinate", False),
    "other calendar": (
        {
            "time": [2, 3],
            "more": {
                "time": coordinate(
                    "time", [2, 3], units="days since 2000-01-01", calendar="360_day"
                )
            },
        },
        "calendar",
        False,
    ),
    "neither rising nor falling": ({"time": [5, 2, 7]}, "order", False),
    "missing times": ({"time": [2, np.nan]}, "order", False),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_would_give_wrong_values_is_refused_with_the_file_named(case: str) -> None:
    changes, code, can_materialize = REFUSED[case]
    first = scan(0, **FIRST, attrs={"units": "K"} if code == "units" else {})
    _, findings = planned(first, scan(1, **changes))
    assert code in codes(findings)
    found = next(each for each in findings.errors if each.code == code)
    assert "file:///data/1.nc" in found.files
    assert "/data/1.nc" in str(found)
    assert found.can_materialize == can_materialize
    plan, copied = planned(first, scan(1, **changes), materialize=True)
    if can_materialize:
        assert not copied.errors
        array = next(each for each in plan.arrays if each.name == "v")
        assert array.kind is TransferKind.NATIVE
        assert any("copied instead" in each.message for each in copied.found)
    else:
        assert codes(copied)


def test_a_file_that_ends_inside_a_chunk_must_be_the_last() -> None:
    short, whole = scan(0, time=[0, 1, 2]), scan(1, time=[3, 4])
    _, findings = planned(short, whole)
    assert codes(findings) == ["chunk-alignment"]
    assert findings.errors[0].files == ("file:///data/1.nc",)
    _, last = planned(scan(0, time=[0, 1]), scan(1, time=[2]))
    assert not last.errors


def test_coordinates_of_other_dimensions_must_be_the_same() -> None:
    shifted = scan(1, time=[2, 3], lat=[1.5, 2.5])
    _, findings = planned(scan(0, time=[0, 1]), shifted, concat_dims=("time",))
    assert codes(findings) == ["coordinate-values"]
    longer = scan(1, time=[2, 3], lat=[1.0, 2.0, 3.0], chunks=(2, 3))
    _, found = planned(scan(0, time=[0, 1]), longer, concat_dims=("time",))
    assert "shape" in codes(found)


def test_dimensions_must_be_the_same() -> None:
    turned = {"v": data("file:///data/1.nc", {"lat": 2, "time": 2})}
    _, findings = planned(scan(0, time=[0, 1]), scan(1, time=[2, 3], more=turned))
    assert "dimensions" in codes(findings)


def test_attributes_that_do_not_matter_may_differ() -> None:
    _, findings = planned(
        scan(0, time=[0, 1], attrs={"history": "a"}), scan(1, time=[2, 3], attrs={"history": "b"})
    )
    assert [(each.level, each.code) for each in findings.found] == [
        (IngestSeverity.NOTE, "attributes")
    ]


def test_times_in_other_units_are_counted_anew() -> None:
    plan, findings = planned(
        scan(0, time=[0, 1]), scan(1, time=[0, 1], time_units="days since 2000-01-03")
    )
    assert not findings.errors
    axis = plan.axis("time")
    assert axis is not None
    assert axis.values is not None
    assert axis.values.tolist() == [0, 1, 2, 3]


def test_packed_times_in_other_units_are_refused() -> None:
    parts = []
    for number, day in enumerate(("01", "03")):
        units = f"days since 2000-01-{day}"
        time = coordinate("time", [0, 1], units=units, scale_factor=0.5)
        parts.append(scan(number, time=[0, 1], more={"time": time}))
    _, findings = planned(*parts)
    assert codes(findings) == ["time-units"]
    assert "packed" in findings.errors[0].message


# --- after what is there ---


def base(**changes: Any) -> FileScan:
    made = scan(9, **{"time": [0, 1], **changes})
    bare = tuple(replace(each, references=None) for each in made.variables)
    return replace(made, url="the repository", variables=bare)


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
        ({"time": [4, 5]}, {"time": [2, 3]}, "before-existing"),
        ({"time": [0, 1]}, {"time": [1, 2]}, "overlap"),
        ({"time": [0, 1]}, {"time": [0, 1]}, "duplicate"),
        ({"time": [0, 1, 2]}, {"time": [3, 4]}, "chunk-alignment"),
        ({"time": [0, 1]}, {"time": [2, 3], "encoding": RAW}, "codecs"),
        ({"time": [0, 1]}, {"time": [2, 3], "encoding": SHORT}, "dtype"),
        ({"time": [0, 1]}, {"time": [2, 3], "attrs": {"scale_factor": 2.0}}, "packing"),
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


def test_a_small_file_does_not_decide_how_much_memory_a_copy_takes() -> None:
    dims = {"y": 1 << 18, "x": 1 << 18}
    (array,) = planned(large(dims), mode=IngestMode.NATIVE)[0].arrays
    assert array.chunks == (1 << 10, 1 << 18)
    (array,) = planned(large(dims), mode=IngestMode.NATIVE, chunks={"y": 1 << 16})[0].arrays
    assert array.chunks == (1 << 16, 1 << 12)
    assert planned(large(dims))[0].arrays[0].chunks == (1 << 18, 1 << 18), "references take none"
    _, findings = planned(large(dims), mode=IngestMode.NATIVE, chunks={"y": 1 << 16, "x": -1})
    assert codes(findings) == ["chunks"]
    assert "ask for smaller chunks" in str(findings.errors[0])


def test_an_array_that_its_files_cannot_hold_is_not_copied() -> None:
    dims = {"y": 1 << 40, "x": 1 << 40}
    _, findings = planned(large(dims), mode=IngestMode.NATIVE)
    assert codes(findings) == ["too-large"]
    assert "large.h5" in str(findings.errors[0])
    # A file of 5 GB may well hold some terabytes of something even.
    _, findings = planned(large({"y": 1 << 10, "x": 1 << 30}, size=5 << 30), mode=IngestMode.NATIVE)
    assert not findings.errors
    assert not planned(large(dims))[1].errors
