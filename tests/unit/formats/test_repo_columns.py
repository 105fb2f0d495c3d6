"""The long lists of the repo object: how they are written, grow, and are refused."""

from __future__ import annotations

from dataclasses import replace

import pytest

from frazil.errors import ErrorKind, FormatError
from frazil.flatbuf.reader import I32, U16, U64, Buffer, Table
from frazil.flatbuf.tuning import FEW_FRESH
from frazil.formats.envelope import FileKind, seal, unseal
from frazil.formats.repo_columns import read_snapshots, read_updates, write_snapshots, write_updates
from frazil.formats.repo_info import (
    decode_repo_info,
    encode_repo_info,
    snapshot_table,
    write_repo_info,
)
from frazil.ids import SnapshotId
from frazil.maintenance.lineage import mask_of
from frazil.model.history import (
    RepoAvailability,
    SnapshotEntry,
    UnknownUpdate,
    UpdateEntry,
    UpdateLog,
    with_update,
)
from tests.unit.formats.repo_samples import (
    EVERY_KIND,
    FIRST,
    KEY,
    NOW,
    SAMPLE,
    SECOND,
    ZEROS,
    again,
    patched,
    root_of,
)


def test_parents_are_row_numbers_and_none_is_minus_one() -> None:
    first, zeros, second = root_of(encode_repo_info(SAMPLE)).tables(4)
    assert first.number(1, I32) == -1
    assert second.number(1, I32) == 0
    assert zeros.number(1, I32) == 2


def test_a_list_of_pruned_ancestors_is_there_only_when_it_has_something() -> None:
    tables = list(root_of(encode_repo_info(SAMPLE)).tables(4))
    assert [table.at(5) is not None for table in tables] == [False, True, False]
    assert tables[1].structs(5, 12) == [FIRST, SECOND]


def test_everything_in_the_file_is_aligned() -> None:
    assert_aligned(root_of(encode_repo_info(SAMPLE)))


def assert_aligned(root: Table) -> None:
    for slot, wide in ((4, 2), (7, 2)):
        for table in root.tables(slot):
            at = table.at(wide)
            assert at is not None
            assert at % 8 == 0
            assert table.position % 4 == 0


@pytest.mark.parametrize("stored", [2, 3, 255])
def test_unknown_availability_counts_as_online(stored: int) -> None:
    body = bytearray(unseal(encode_repo_info(SAMPLE), FileKind.REPO_INFO, key=KEY).body)
    status = Buffer(bytes(body), KEY).root().table(5)
    assert status is not None
    at = status.at(0)
    assert at is not None
    body[at] = stored
    info = decode_repo_info(seal(bytes(body), FileKind.REPO_INFO, spec=2), key=KEY)
    assert info.status == replace(SAMPLE.status, availability=RepoAvailability.online)


def with_unknown_update() -> bytes:
    """The sample, whose newest update has a tag nobody has defined."""
    body = bytearray(unseal(encode_repo_info(SAMPLE), FileKind.REPO_INFO, key=KEY).body)
    newest = next(Buffer(bytes(body), KEY).root().tables(7))
    at = newest.at(0)
    assert at is not None
    body[at] = 99
    return seal(bytes(body), FileKind.REPO_INFO, spec=2)


def test_an_update_of_a_newer_library_can_be_read_but_not_written() -> None:
    info = decode_repo_info(with_unknown_update(), key=KEY)
    assert info.latest_updates[0] == UpdateEntry(UnknownUpdate(99), NOW)
    assert info.branches == SAMPLE.branches
    with pytest.raises(FormatError, match="newer library"):
        encode_repo_info(info)


@pytest.mark.parametrize(
    ("blob", "problem"),
    [
        (patched(4, 0, 0, b"c" * 12), "order"),
        (patched(4, 0, 0, bytes(SECOND)), "order"),
        (patched(4, 0, 1, I32.pack(-2)), "parent"),
        (patched(4, 0, 1, I32.pack(3)), "parent"),
        (patched(4, 0, 2, U64.pack(2**64 - 1)), "time"),
    ],
)
def test_impossible_histories_are_refused(blob: bytes, problem: str) -> None:
    with pytest.raises(FormatError, match=problem):
        decode_repo_info(blob, key=KEY)


def test_an_impossible_time_in_the_log_is_refused_when_the_log_is_read() -> None:
    info = decode_repo_info(patched(7, 3, 2, U64.pack(2**64 - 1)), key=KEY)
    with pytest.raises(FormatError, match="impossible time"):
        list(info.latest_updates)


def test_the_log_is_written_with_one_vtable_for_each_kind() -> None:
    newest, *_ = root_of(encode_repo_info(SAMPLE)).tables(7)
    kind = newest.table(1)
    assert newest.at(3) is None
    assert kind is not None
    assert kind.buffer.read(U16, kind.position - kind.buffer.read(I32, kind.position)) == 4


@pytest.mark.parametrize("limit", [5, 100])
def test_an_object_that_grows_is_written_like_one_made_at_once(limit: int) -> None:
    grown = again(SAMPLE)
    parent = SECOND
    for n in range(60):
        entry = SnapshotEntry(
            SnapshotId.random(),
            parent,
            NOW + n,
            f"commit {n}",
            {"n": n, "é": [None]} if n % 3 == 0 else {},
            (FIRST,) if n % 7 == 0 else (),
        )
        grown = with_update(
            grown,
            EVERY_KIND[n % len(EVERY_KIND)],
            NOW + 1 + n,
            f"repo.{n}.backup",
            limit,
            snapshots=grown.snapshots.with_entry(entry),
            branches={**grown.branches, "main": entry.id},
        )
        blob, grown = write_repo_info(grown)
        fresh = replace(
            grown,
            snapshots=snapshot_table(grown.snapshots.entries()),
            latest_updates=UpdateLog.of(list(grown.latest_updates)),
        )
        assert decode_repo_info(blob, key=KEY) == grown == fresh == again(fresh)
        assert_aligned(root_of(blob))
        parent = entry.id
    assert len(grown.latest_updates) == min(limit, len(EVERY_KIND) + 60)
    # Some lines may be there that nothing points to any more, but only some.
    assert len(blob) < 1.2 * len(encode_repo_info(fresh))


def test_an_object_that_shrinks_is_written_anew() -> None:
    _, written = write_repo_info(SAMPLE)
    old = written.snapshots
    smaller = old.reparent({ZEROS: (None, [])}).without(mask_of(old, [SECOND]))
    info = replace(SAMPLE, snapshots=smaller, tags={}, branches={"main": ZEROS})
    assert again(info) == info
    assert b"second" not in unseal(encode_repo_info(info), FileKind.REPO_INFO, key=KEY).body


def test_rows_that_the_last_file_held_are_taken_over_as_bytes() -> None:
    written = write_snapshots(SAMPLE.snapshots)
    table = SAMPLE.snapshots.keeping(written)
    assert write_snapshots(table) is written
    entry = SnapshotEntry(SnapshotId(b"c" * 12), SECOND, NOW, "more", {})
    more = write_snapshots(table.with_entry(entry))
    assert more.data.startswith(written.data)
    assert len(more.missing) == 0
    assert more.full == written.full


def test_many_new_rows_are_written_together_with_the_old_ones() -> None:
    table = SAMPLE.snapshots.keeping(write_snapshots(SAMPLE.snapshots))
    for n in range(FEW_FRESH + 1):
        entry = SnapshotEntry(SnapshotId(bytes([n]) * 12), SECOND, NOW, f"commit {n}", {})
        table = table.with_entry(entry)
    written = write_snapshots(table)
    assert not written.data.startswith(table.written.data if table.written else b"")
    assert again(replace(SAMPLE, snapshots=table)).snapshots == table


def test_the_newest_line_is_not_taken_over() -> None:
    """It has no backup yet, and gets one with the next change."""
    older, all_lines = write_updates(UpdateLog.of(SAMPLE.latest_updates))
    assert older.missing.tolist() == [0]
    assert len(all_lines.missing) == 0
    assert all_lines.data.startswith(older.data)


def test_lists_may_be_empty() -> None:
    bare = replace(SAMPLE, tags={}, branches={}, snapshots=snapshot_table([]), latest_updates=())
    root = root_of(encode_repo_info(bare))
    assert len(read_snapshots(root, 4).rows) == 0
    assert len(read_updates(root, 7).rows) == 0
    assert again(bare) == bare


@pytest.mark.parametrize("place", ["update", "status"])
def test_a_status_without_its_fields_is_refused(place: str) -> None:
    status = EVERY_KIND[-2]
    info = replace(SAMPLE, latest_updates=UpdateLog.of([UpdateEntry(status, NOW)]))
    body = bytearray(unseal(encode_repo_info(info), FileKind.REPO_INFO, key=KEY).body)
    (line,) = Buffer(bytes(body), KEY).root().tables(7)
    kind = line if place == "update" else line.table(1)
    assert kind is not None
    vtable = kind.position - kind.buffer.read(I32, kind.position)
    slot = 1 if place == "update" else 0
    body[vtable + 4 + 2 * slot : vtable + 6 + 2 * slot] = bytes(2)
    damaged = seal(bytes(body), FileKind.REPO_INFO, spec=2)
    with pytest.raises(FormatError, match="required field"):
        list(decode_repo_info(damaged, key=KEY).latest_updates)


def test_the_tags_of_unknown_lines_are_told_when_they_cannot_be_written() -> None:
    info = decode_repo_info(with_unknown_update(), key=KEY)
    with pytest.raises(FormatError) as caught:
        write_updates(UpdateLog.of(info.latest_updates))
    assert caught.value.kind is ErrorKind.SERIALIZATION
    assert caught.value.facts["update_tags"] == [99]
