"""The table of snapshots."""

from __future__ import annotations

import pytest

from frazil.errors import ErrorKind, FormatError, SnapshotNotFoundError
from frazil.formats.repo_info import snapshot_table
from frazil.ids import SnapshotId
from frazil.maintenance.lineage import mask_of
from frazil.model.history import (
    SnapshotEntry,
    SnapshotTable,
)


def snapshot_id(letter: str) -> SnapshotId:
    return SnapshotId(letter.encode() * 12)


A, B, C, D, E = map(snapshot_id, "abcde")


def entry(here: SnapshotId, parent: SnapshotId | None, n: int = 1) -> SnapshotEntry:
    return SnapshotEntry(here, parent, n, f"message {n}", {"n": n} if n % 2 else {})


@pytest.fixture
def table() -> SnapshotTable:
    """C is the root; its children are A and E; B is a child of E."""
    return snapshot_table([entry(C, None), entry(A, C, 2), entry(E, C, 3), entry(B, E, 4)])


def test_entries_are_found_by_id(table: SnapshotTable) -> None:
    assert table[B] == entry(B, E, 4)
    assert table[A] == entry(A, C, 2)
    assert list(table) == [A, B, C, E]
    assert D not in table
    assert table.get(D) is None
    with pytest.raises(SnapshotNotFoundError):
        table[D]


def test_ancestry_goes_from_the_newest_to_the_root(table: SnapshotTable) -> None:
    assert list(table.ancestry(B)) == [B, E, C]
    assert [found.id for found in table.history(B)] == [B, E, C]
    assert table.parent_of(B) == E
    assert table.parent_of(C) is None
    assert table.flushed_at(B) == 4
    with pytest.raises(SnapshotNotFoundError):
        table.ancestry(D)


def test_all_entries_come_in_order(table: SnapshotTable) -> None:
    assert list(table.entries()) == list(table.values())


def test_adding_keeps_all_parents(table: SnapshotTable) -> None:
    more = table.with_entry(entry(D, A, 5))
    assert list(more.ancestry(D)) == [D, A, C]
    assert list(more.ancestry(B)) == [B, E, C]
    assert len(table) == 4


def test_several_can_be_added_in_any_order(table: SnapshotTable) -> None:
    first, last = SnapshotId(bytes(12)), SnapshotId(b"\xff" * 12)
    more = table.with_entries([entry(last, first), entry(first, D), entry(D, B)])
    assert list(more.ancestry(last)) == [last, first, D, B, E, C]


def test_an_id_cannot_be_added_twice(table: SnapshotTable) -> None:
    for entries in ([entry(A, C)], [entry(D, C), entry(D, A)]):
        with pytest.raises(FormatError) as caught:
            table.with_entries(entries)
        assert caught.value.kind == ErrorKind.DUPLICATE_SNAPSHOT_ID


def test_a_parent_must_be_known(table: SnapshotTable) -> None:
    with pytest.raises(SnapshotNotFoundError):
        table.with_entry(entry(D, SnapshotId(bytes(12))))


def test_removing_keeps_the_other_parents(table: SnapshotTable) -> None:
    less = table.without(mask_of(table, [A]))
    assert list(less) == [B, C, E]
    assert list(less.ancestry(B)) == [B, E, C]
    assert less[B] == table[B]


def test_a_parent_cannot_be_removed_alone(table: SnapshotTable) -> None:
    with pytest.raises(SnapshotNotFoundError) as caught:
        table.without(mask_of(table, [E]))
    assert caught.value.facts["snapshot"] == E
    assert list(table.without(mask_of(table, [E, B]))) == [A, C]


def test_expiry_links_a_snapshot_to_its_root(table: SnapshotTable) -> None:
    short = table.reparent({B: (C, (E,))}).without(mask_of(table, [E]))
    assert list(short.ancestry(B)) == [B, C]
    assert short[B].pruned_ancestor_tx_logs == (E,)
    assert short.reparent({B: (None, ())})[B].parent_id is None
