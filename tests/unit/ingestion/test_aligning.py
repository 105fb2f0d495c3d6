"""Whether chunks of several files fit one grid, and how large copies may be."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from frazil.ingestion.aligning import copied_chunks
from frazil.ingestion.manifests import part_of, table_of
from frazil.ingestion.plans import IngestMode
from frazil.ingestion.records import FileScan, Identity, canonical
from tests.support.scans import (
    RAW,
    array_of,
    assert_refused,
    base,
    codes,
    data,
    large,
    planned,
    scan,
)


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


def test_a_file_that_ends_inside_a_chunk_must_be_the_last() -> None:
    short, whole = scan(0, time=[0, 1, 2]), scan(1, time=[3, 4])
    _, findings = planned(short, whole)
    assert codes(findings) == ["chunk-alignment"]
    assert findings.errors[0].files == ("file:///data/1.nc",)
    _, last = planned(scan(0, time=[0, 1]), scan(1, time=[2]))
    assert not last.errors


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


def test_other_chunks_are_refused_with_the_file_named() -> None:
    assert_refused({"time": [2, 3], "chunks": (1, 2)}, "chunk-shape", can_materialize=True)


def test_what_follows_a_chunk_of_the_repository_that_is_not_full_is_refused() -> None:
    _, findings = planned(scan(0, time=[3, 4]), base=base(time=[0, 1, 2]))
    assert "chunk-alignment" in codes(findings)


def test_uncompressed_files_are_cut_into_the_chunks_of_the_repository() -> None:
    there = base(time=[0, 1], chunks=(2, 2), encoding=RAW)
    plan, findings = planned(scan(0, time=[2, 3, 4, 5], chunks=(4, 2), encoding=RAW), base=there)
    assert not findings.errors
    assert (array_of(plan).split, array_of(plan).chunks) == (2, (2, 2))
    # Three rows are no whole number of these chunks.
    odd = scan(0, time=[2, 3, 4], chunks=(3, 2), encoding=RAW)
    assert codes(planned(odd, base=there)[1]) == ["chunk-shape"]


def test_values_that_cannot_be_referred_to_are_told_by_reason() -> None:
    parts = []
    for number, why in enumerate(["a filter", "a filter", ""]):
        made = scan(number, time=[2 * number, 2 * number + 1])
        bare = (replace(each, references=None, obstacle=why) for each in made.variables[2:])
        parts.append(replace(made, variables=(*made.variables[:2], *bare)))
    _, findings = planned(*parts)
    assert [(each.code, each.message, each.files) for each in findings.errors] == [
        (
            "no-references",
            "values cannot be referred to: a filter",
            ("file:///data/0.nc", "file:///data/1.nc"),
        ),
        ("no-references", "values cannot be referred to", ("file:///data/2.nc",)),
    ]


@pytest.mark.parametrize(("codec", "is_refused"), [("zstd", False), ("transpose", True)])
def test_chunks_get_a_new_axis_only_if_their_bytes_stay_the_same(
    codec: str, is_refused: bool
) -> None:
    encoding = canonical({**json.loads(RAW), "codecs": [{"name": "bytes"}, {"name": codec}]})
    pair = [
        FileScan(url, "tiff", Identity(1, None, 5), (data(url, {"y": 4}, encoding=encoding),))
        for url in ("file:///data/0.tif", "file:///data/1.tif")
    ]
    _, findings = planned(*pair, concat_dims=("day",))
    assert codes(findings) == (["codecs"] if is_refused else [])


@pytest.mark.parametrize(
    ("wanted", "chunks"),
    [
        ({}, (10, 3)),
        ({"y": 4}, (4, 3)),
        ({"y": -1}, (100, 3)),
        ({"y": 1000}, (100, 3)),
        ({"z": 7}, (10, 3)),
    ],
)
def test_copies_have_chunks_as_wanted_within_the_array(
    wanted: dict[str, int], chunks: tuple[int, ...]
) -> None:
    assert copied_chunks(("y", "x"), (100, 3), (10, 8), wanted, 8) == chunks


def test_a_copy_of_nothing_has_chunks_of_one() -> None:
    assert copied_chunks(("y",), (0,), (1,), {}, 4) == (1,)
    assert copied_chunks((), (), (), {}, 4) == ()
