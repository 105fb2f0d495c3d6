"""The operations log as columns, and the frames its texts lie in."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from frazil.errors import ErrorKind, FormatError, InvalidInputError
from frazil.ids import SnapshotId
from frazil.model.oplog import (
    BLOB_END,
    NOWHERE,
    TEXT_END,
    UpdateColumns,
    UpdateLog,
    WrittenRows,
    append_frames,
    copy_frames,
    framed_cell,
    with_row,
)
from frazil.model.plain import MAX_MICROS
from frazil.model.updates import (
    RepoAvailability,
    StoredStatus,
    UnknownUpdate,
    UpdateEntry,
    UpdateType,
)


def test_a_log_can_be_read_like_any_sequence() -> None:
    lines = [
        UpdateEntry(UpdateType.GCRan(), 3),
        UpdateEntry(UpdateType.TagCreated("é"), 2, "b"),
        UpdateEntry(UpdateType.GCRan(), 1),
    ]
    log = UpdateLog.of(lines)
    assert log == lines
    assert log[-1] == lines[-1]
    assert log[1:] == lines[1:]
    assert len(log) == 3
    assert UpdateLog.of(log) is log
    with pytest.raises(IndexError):
        log[3]


ZEROS = SnapshotId(b"b" + bytes(11))
"""zeros at the end of an id are no padding"""
LINES = [
    UpdateEntry(UpdateType.RepoStatusChanged(StoredStatus(RepoAvailability.read_only, 5, "é")), 9),
    UpdateEntry(UpdateType.CommitAmended("main", ZEROS, ZEROS), 8, "repo.8"),
    UpdateEntry(UpdateType.FeatureFlagChanged(65535, False), 7, ""),
    UpdateEntry(UpdateType.FeatureFlagChanged(3, None), 6),
    UpdateEntry(UpdateType.RepoStatusChanged(StoredStatus(RepoAvailability.online, 4)), 5),
    UpdateEntry(UpdateType.RepoInitialized(), 0),
]


def test_lines_come_back_as_they_were() -> None:
    log = UpdateLog.of(LINES)
    assert list(log) == LINES
    assert pickle.loads(pickle.dumps(log)) == LINES
    assert log.newest_at == 9
    assert repr(log) == "UpdateLog(6 updates)"


def test_an_empty_log() -> None:
    log = UpdateLog.of([])
    assert (len(log), log.newest_at, list(log)) == (0, 0, [])
    first, before = log.with_newest(LINES[-1], backup_path="repo.1", limit=1)
    assert list(first) == [LINES[-1]]
    assert before is None


def test_columns_are_loaded_on_first_use() -> None:
    loaded: list[int] = []

    def load() -> UpdateColumns:
        loaded.append(1)
        return UpdateLog.of(LINES).columns

    log = UpdateLog(load)
    assert loaded == []
    assert (len(log), log[1]) == (6, LINES[1])
    assert loaded == [1]


def test_a_limit_of_no_lines_keeps_the_newest() -> None:
    log, before = UpdateLog.of(LINES).with_newest(
        UpdateEntry(UpdateType.GCRan(), 10), backup_path="repo.10", limit=0
    )
    assert list(log) == [UpdateEntry(UpdateType.GCRan(), 10)]
    assert before == "repo.10"


@pytest.mark.parametrize("when", [-1, MAX_MICROS + 1])
def test_impossible_times_are_not_written(when: int) -> None:
    with pytest.raises(InvalidInputError, match="impossible time"):
        UpdateLog.of([UpdateEntry(UpdateType.GCRan(), when)])


def test_what_a_newer_library_did_cannot_be_written_again() -> None:
    with pytest.raises(FormatError, match="unknown kind") as caught:
        UpdateLog.of([UpdateEntry(UnknownUpdate(99), 1)])
    assert caught.value.kind is ErrorKind.SERIALIZATION
    assert caught.value.facts["tag"] == 99


def test_text_that_is_not_utf_8_is_damage_of_the_file() -> None:
    columns = UpdateLog.of([UpdateEntry(UpdateType.TagCreated("ab"), 1)]).columns
    damaged = UpdateColumns(columns.rows, (), columns.arena.replace(b"ab", b"\xff\xff"))
    with pytest.raises(FormatError, match="UTF-8") as caught:
        list(UpdateLog(damaged, key="overwritten/repo.1"))
    assert caught.value.facts["key"] == "overwritten/repo.1"


def test_encoded_lines_are_kept_but_for_the_two_newest() -> None:
    """The line that was newest gets a backup, so that its bytes change too."""
    written = WrittenRows(b"", np.arange(6), 0)
    log, _ = (
        UpdateLog.of(LINES)
        .keeping(written)
        .with_newest(UpdateEntry(UpdateType.GCRan(), 10), backup_path="x", limit=1000)
    )
    assert log.written is not None
    assert log.written.places.tolist() == [NOWHERE, NOWHERE, 1, 2, 3, 4, 5]
    assert log.written.missing.tolist() == [0, 1]


# --- frames ---


@given(
    st.lists(st.tuples(st.binary(max_size=9), st.sampled_from([TEXT_END, BLOB_END])), max_size=5),
    st.binary(max_size=9),
)
def test_cells_are_found_in_the_arena_behind_their_size(
    cells: list[tuple[bytes, int]], before: bytes
) -> None:
    arena, starts = append_frames(before, cells)
    assert arena.startswith(before)
    assert len(arena) % 4 == 0
    for (cell, end), start in zip(cells, starts, strict=True):
        assert start % 4 == 0
        assert int.from_bytes(arena[start - 4 : start], "little") == len(cell)
        assert arena[start : start + len(cell) + end] == cell + bytes(end)


@given(st.lists(st.binary(max_size=9), min_size=1, max_size=6), st.data())
def test_copied_frames_follow_each_other(cells: list[bytes], data: st.DataObject) -> None:
    arena, starts = append_frames(b"", [(cell, TEXT_END) for cell in cells])
    rows = data.draw(st.lists(st.integers(0, len(cells) - 1), max_size=6))
    sizes = [len(cells[row]) for row in rows]
    at = np.array([starts[row] for row in rows], np.int64)
    copy, places = copy_frames(arena, at, np.array(sizes, np.int64), TEXT_END)
    assert copy == b"".join(framed_cell(cells[row], TEXT_END) for row in rows)
    for row, place in zip(rows, places.tolist(), strict=True):
        assert copy[place:].startswith(framed_cell(cells[row], TEXT_END))


def test_a_last_frame_without_its_padding_gets_it() -> None:
    """As in files of others, which may end right behind a text."""
    arena = framed_cell(b"four", TEXT_END)
    copy, _ = copy_frames(arena[:9], np.array([4]), np.array([4]), TEXT_END)
    assert copy == arena


@pytest.mark.parametrize("place", [0, 1, 3])
def test_a_row_goes_between_the_others(place: int) -> None:
    expected = [10, 20, 30]
    expected.insert(place, 99)
    assert with_row(np.array([10, 20, 30]), place, 99).tolist() == expected
