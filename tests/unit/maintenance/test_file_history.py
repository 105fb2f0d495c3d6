"""Histories that are read from snapshot files: circles, gaps, damage, and what must stay."""

from __future__ import annotations

import pytest

from frazil.errors import FormatError, SnapshotNotFoundError
from frazil.ids import SnapshotId
from frazil.maintenance.file_history import FileHistory, KnownSnapshot, read_file_history
from frazil.maintenance.id_sets import id_rows
from frazil.model.history import SnapshotEntry
from frazil.repository import Repository
from frazil.storage.assets import snapshot_key
from frazil.storage.memory import MemoryStorage
from frazil.transaction.opened import context_of
from tests.unit.maintenance.samples import make, messages, put


def named(name: str) -> SnapshotId:
    """An id that is easily told from others."""
    return SnapshotId(name.encode().ljust(12))


def history(*lines: str) -> FileHistory:
    """A history from lines such as `a-b-c`, oldest first."""
    assets = context_of(Repository.create(MemoryStorage(), spec_version=1)).assets
    found = FileHistory(assets)
    for line in lines:
        before: SnapshotId | None = None
        for name in line.split("-"):
            entry = SnapshotEntry(named(name), before, len(found.known), name, {})
            found.known.setdefault(entry.id, KnownSnapshot(entry, ()))
            before = entry.id
    return found


def names(ids: object) -> str:
    """Ids as text, in their order."""
    return " ".join(bytes(one).decode().strip() for one in ids)  # type: ignore[attr-defined]


def test_ancestors_come_newest_first() -> None:
    found = history("a-b-c", "a-b-d")
    assert names(entry.id for entry in found.ancestry(named("d"))) == "d b a"


def test_descendants_are_sorted_before_their_ancestors() -> None:
    found = history("a-b-c", "b-d")
    ids = [named(name) for name in ("b", "unknown", "d", "a", "c")]
    order = found.newest_first(id_rows(ids))
    assert names(ids[row] for row in order.tolist()) == "d c b unknown a"


def test_a_circle_is_an_error() -> None:
    found = history("a-b-c")
    closed = SnapshotEntry(named("a"), named("c"), 0, "a", {})
    found.known[closed.id] = KnownSnapshot(closed, ())
    with pytest.raises(FormatError, match="circle"):
        [*found.ancestry(named("c"))]


def test_a_missing_snapshot_is_an_error_where_it_is_needed() -> None:
    found = history("a-b-c")
    del found.known[named("b")]
    with pytest.raises(SnapshotNotFoundError):
        found.reachable([named("c")])
    assert names(found.reachable([named("a")])) == "a"


def test_what_is_known_and_before_it_is_not_looked_at_again() -> None:
    found = history("a-b-c-d", "c-e")
    assert names(found.since([named("d"), named("e")], {named("b")})) == "d c e"
    del found.known[named("a")]
    assert names(found.since([named("d")], {named("b")})) == "d c"


def test_young_files_and_what_they_descend_from_stay() -> None:
    found = history("a-b-c", "a-x-y-z")
    old = id_rows([named(name) for name in "abcxy"])
    assert set(names(found.kept([named("b")], old)).split()) == set("abxyz")
    everything = id_rows([named(name) for name in "abcxyz"])
    assert set(names(found.kept([named("b")], everything)).split()) == set("ab")


def test_a_young_file_whose_ancestor_is_gone_keeps_what_there_is() -> None:
    found = history("a-x-y-z")
    del found.known[named("x")]
    old = id_rows([named("a"), named("y")])
    assert set(names(found.kept([], old)).split()) == {"y", "z"}


def test_damage_counts_only_where_history_needs_it(storage: MemoryStorage) -> None:
    repo = make(storage, 1)
    put(repo, 0, 1)
    repo.create_branch("gone", repo.lookup_branch("main"))
    lost = put(repo, 0, 2, "gone")
    repo.delete_branch("gone")
    storage.put(snapshot_key(SnapshotId.parse(lost)), b"damaged")
    storage.put("snapshots/no-id", b"")
    found = read_file_history(context_of(repo).assets, at_once=1)
    assert SnapshotId.parse(lost) not in found.known
    tip = SnapshotId.parse(repo.lookup_branch("main"))
    assert [entry.message for entry in found.ancestry(tip)] == messages(repo)
    with pytest.raises(FormatError):
        found.reachable([SnapshotId.parse(lost)])
