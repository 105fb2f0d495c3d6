"""Marks of work that is done once: uniting them, and carrying them in metadata."""

from __future__ import annotations

from frazil.model.marks import (
    CARRIED,
    GONE,
    INGEST,
    MOST_SERIES,
    TXN_APP,
    TXN_VERSION,
    Marks,
    brought,
    inherited,
    marks_of,
    merged_marks,
    packed,
    replacing,
    taken_back,
    with_marks,
)

A, B = b"a" * 8, b"b" * 8
ONE, TWO = b"1" * 4, b"2" * 4


def batch(name: str, number: int) -> dict[str, object]:
    return {TXN_APP: name, TXN_VERSION: number}


def files(group: str, **states: bytes) -> dict[str, object]:
    marks = {name.encode() * 8: state for name, state in states.items()}
    return {INGEST: {"group": group, "files": len(marks), "marks": packed(marks)}}


def test_marks_of_a_commit_are_its_own_and_those_it_carries() -> None:
    metadata = with_marks(batch("s", 3) | files("", a=ONE), Marks({"t": 9}, {"": {B: TWO}}))
    assert marks_of(metadata) == Marks({"s": 3, "t": 9}, {"": {A: ONE, B: TWO}})
    assert metadata[TXN_VERSION] == 3


def test_the_newest_number_and_state_count() -> None:
    found = merged_marks([batch("s", 1), batch("s", 4), batch("t", 2), files("g", a=TWO)])
    assert found == Marks({"s": 4, "t": 2}, {"g": {A: TWO}})
    assert merged_marks([files("g", a=TWO), files("g", a=ONE, b=ONE)]).files == {
        "g": {A: TWO, B: ONE}
    }


def test_commits_hand_series_on_but_not_files() -> None:
    first = inherited(batch("s", 1) | files("", a=ONE), {})
    second = inherited({"author": "me"}, first)
    assert second == {"author": "me", CARRIED: {"txn": [["s", 1]]}}
    assert inherited({"author": "me"}, {"other": 1}) == {"author": "me"}


def test_of_very_many_series_the_latest_are_handed_on() -> None:
    metadata: dict[str, object] = {}
    for number in range(MOST_SERIES + 20):
        metadata = inherited(batch(f"s{number}", number), metadata)
    kept = marks_of(inherited({}, metadata)).series
    assert len(kept) == MOST_SERIES
    assert f"s{MOST_SERIES + 19}" in kept
    assert "s0" not in kept
    everything = Marks({f"s{number}": number for number in range(2 * MOST_SERIES)})
    assert marks_of(with_marks({}, everything)) == everything


def test_what_takes_the_place_of_a_commit_is_known_as_its_work() -> None:
    old = inherited(batch("s", 1) | files("", a=ONE), batch("r", 7))
    new = replacing({"author": "me"}, old)
    assert new[TXN_APP] == "s"
    assert marks_of(new) == Marks({"s": 1, "r": 7}, {"": {A: ONE}})
    both = replacing(batch("t", 2) | files("", b=TWO), old)
    assert both[TXN_APP] == "t"
    assert marks_of(both) == Marks({"t": 2, "s": 1, "r": 7}, {"": {A: ONE, B: TWO}})


def test_a_file_whose_ingest_is_undone_is_not_there() -> None:
    undone = with_marks({}, taken_back(batch("s", 1) | files("g", a=ONE)))
    assert marks_of(undone) == Marks({}, {"g": {A: GONE}})
    found = merged_marks([undone, files("g", a=ONE, b=ONE)])
    assert found.files == {"g": {A: GONE, B: ONE}}


def test_what_a_commit_took_in_counts_as_its_work() -> None:
    parent = batch("s", 1)
    merged = inherited(with_marks({}, Marks({"r": 7}, {"g": {A: ONE}})), parent)
    assert marks_of(merged).series == {"r": 7, "s": 1}
    assert brought(merged, parent) == Marks({"r": 7}, {"g": {A: ONE}})
    assert brought(inherited(batch("s", 2), parent), parent) == Marks({"s": 2})
    assert taken_back(merged) == Marks({}, {"g": {A: GONE}})


def test_metadata_of_others_are_no_marks() -> None:
    strange: list[dict[str, object]] = [
        {CARRIED: 3},
        {CARRIED: {"txn": {"s": 1}, "files": "x"}},
        {CARRIED: {"txn": [["s", "many"], ["t"], 4], "files": {"g": "not base64!"}}},
        {TXN_APP: "s"},
        {TXN_APP: 4, TXN_VERSION: 4},
        {INGEST: "x"},
        {INGEST: {"group": "", "marks": 7}},
    ]
    for metadata in strange:
        found = marks_of(metadata)
        assert not found.series
        assert not any(found.files.values())
