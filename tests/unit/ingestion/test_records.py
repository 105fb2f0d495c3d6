"""What a scan gives, how small it is kept, and the marks by which files are known again."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from frazil.errors import InvalidInputError
from frazil.ingestion.records import (
    FileReferences,
    FileScan,
    FileVariable,
    Identity,
    as_metadata,
    canonical,
    known_files,
    name_mark,
    ordered_json,
    state_mark,
)
from frazil.model.marks import GONE, INGEST, packed
from tests.support.scans import RAW


def test_marks_tell_files_and_their_states() -> None:
    one, two = Identity(5, "a", 0), Identity(6, "a", 0)
    commits = [
        as_metadata([("file:///a", two)], "/g"),
        {"other": 1},
        as_metadata([("file:///a", one), ("file:///b", one)], "/g"),
        as_metadata([("file:///c", one)], ""),
        {"frazil.ingest": {"group": "/g", "marks": "?"}},
    ]
    known = known_files(commits, "/g")
    assert known == {
        name_mark("file:///a"): state_mark(two),  # the newest counts
        name_mark("file:///b"): state_mark(one),
    }


def test_ten_thousand_files_take_little_room() -> None:
    files = [(f"s3://bucket/archive/file-{n}.nc", Identity(n, None, n)) for n in range(10_000)]
    metadata = as_metadata(files, "")
    assert len(metadata["frazil.ingest"]["marks"]) == 160_000
    assert len(known_files([metadata], "")) == 10_000


def test_a_file_that_was_taken_out_again_is_not_known() -> None:
    taken = as_metadata([("file:///a", Identity(5, None, 7))], "")
    gone = {INGEST: {"group": "", "marks": packed({name_mark("file:///a"): GONE})}}
    assert known_files([gone, taken], "") == {}
    assert known_files([taken, gone], "") == {
        name_mark("file:///a"): state_mark(Identity(5, None, 7))
    }


def test_a_state_is_told_by_the_finest_that_is_known() -> None:
    plain = Identity(5, None, 7)
    assert state_mark(plain) != state_mark(Identity(5, None, 8))
    assert state_mark(Identity(5, None, 7, "a")) != state_mark(Identity(5, None, 7, "b"))
    assert state_mark(Identity(5, "t", 7, "a")) == state_mark(Identity(5, "t", 8, "b"))
    assert state_mark(plain) != state_mark(Identity(6, None, 7))


def test_references_keep_a_tag_or_else_a_time() -> None:
    found = [
        each.checksum for each in (Identity(1, "t", 7), Identity(1, None, 7), Identity(1, "", 0))
    ]
    assert found == ["t", 7, None]


# --- references ---


def test_references_are_put_in_the_order_of_chunks() -> None:
    refs = FileReferences.of_file("file:///a", [2, 0, 1], [20, 0, 10], [5, 6, 7])
    assert refs.index.tolist() == [0, 1, 2]
    assert (refs.offset.tolist(), refs.length.tolist()) == ([0, 10, 20], [6, 7, 5])
    assert (len(refs), refs.nbytes) == (3, 18)


def test_each_location_is_kept_once_with_its_mark() -> None:
    rows = [(1, 0, 4, "file:///b"), (0, 8, 4, "file:///a"), (3, 0, 2, ""), (2, 4, 4, "file:///b")]
    refs = FileReferences.of_rows(rows, b"xy", {"file:///b": 9})
    assert refs.locations == ("file:///a", "file:///b")
    assert refs.location.tolist() == [0, 1, 1, -1]
    assert (refs.inline, refs.marks) == (b"xy", (None, 9))
    assert len(FileReferences.of_rows([])) == 0


def test_bytes_that_come_along_are_one_chunk_or_none() -> None:
    one, none = FileReferences.of_bytes(b"abc"), FileReferences.of_bytes(b"")
    assert (one.index.tolist(), one.location.tolist(), one.nbytes) == ([0], [-1], 3)
    assert (len(none), none.nbytes) == (0, 0)


def test_columns_that_say_the_same_everywhere_take_no_memory() -> None:
    refs = FileReferences.of_file("file:///a", range(1000), range(1000), [4] * 1000)
    small = refs.compact()
    assert (small.length.strides, small.location.strides) == ((0,), (0,))
    assert small.index.dtype == np.int32
    assert small.index.tolist() == refs.index.tolist()
    far = FileReferences.of_file("file:///a", [0, 1 << 31], [0, 4], [4, 4]).compact()
    assert far.index.tolist() == [0, 1 << 31]


# --- variables and files ---


def variable(name: str, **dims: int) -> FileVariable:
    shape = (*dims.values(),)
    return FileVariable(name, (*dims,), shape, (2,) * len(shape), RAW, "{}", None)


def scanned(*variables: FileVariable) -> FileScan:
    return FileScan("file:///a.nc", "hdf5", Identity(1, None, 1), variables)


def test_the_last_chunks_of_an_array_end_with_it() -> None:
    made = variable("v", y=5, x=3)
    assert made.grid == (3, 2)
    assert made.region(0) == (slice(0, 2), slice(0, 2))
    assert made.region(5) == (slice(4, 5), slice(2, 3))
    assert (variable("s").grid, variable("s").region(0)) == ((), ())
    assert variable("v", y=0).grid == (0,)


def test_loaded_variables_need_no_references() -> None:
    refs = FileReferences.of_file("file:///a.nc", [0], [0], [8])
    made = replace(variable("v", x=2), references=refs)
    assert made.compact().references is not None
    assert replace(made, values=np.zeros(2)).compact().references is None


def test_a_dimension_of_two_lengths_is_refused_by_name() -> None:
    assert scanned(variable("v", y=5, x=3), variable("w", x=3)).sizes == {"y": 5, "x": 3}
    with pytest.raises(InvalidInputError, match="'x' has the lengths 3 and 4") as refusal:
        _ = scanned(variable("v", x=3), variable("w", x=4)).sizes
    assert "a.nc" in str(refusal.value)


def test_half_of_a_character_is_refused_with_its_variable() -> None:
    good = variable("höhe", x=3)
    scanned(good).require_text()
    for bad in (replace(good, attributes='{"units":"\\ud800"}'), replace(good, name="v\udc00")):
        with pytest.raises(InvalidInputError, match="lone surrogate") as refusal:
            scanned(bad).require_text()
        assert "a.nc" in str(refusal.value)


def test_equal_things_are_equal_texts_and_attributes_keep_their_order() -> None:
    assert (
        canonical({"b": 1, "a": [1, 2]}) == canonical({"a": [1, 2], "b": 1}) == '{"a":[1,2],"b":1}'
    )
    assert ordered_json({"b": "ä", "a": 1}) == '{"b":"ä","a":1}'
