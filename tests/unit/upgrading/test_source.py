"""An old repository as an upgrade reads it: options, history, root, and files that are kept."""

from __future__ import annotations

import pytest

from frazil.errors import (
    ErrorKind,
    FormatError,
    InvalidInputError,
    SessionStateError,
    SnapshotNotFoundError,
)
from frazil.ids import INITIAL_SNAPSHOT_ID, SnapshotId
from frazil.maintenance.upgrade import RefSet
from frazil.repository import Repository
from frazil.storage.base import Fetched
from frazil.storage.legacy.g2_g3 import PRESERVED
from frazil.storage.memory import MemoryStorage
from frazil.transaction.opened import context_of
from frazil.upgrading.source import (
    ChunkMode,
    SnapshotLink,
    UpgradeSource,
    changed_files,
    keep_once,
    marker,
    preserve,
    preserved_keys,
    restore_original,
    source_of,
    target_generation,
)
from tests.support.old_repositories import place_of, upgraded

A, B, C = (SnapshotId(bytes([n]) * 12) for n in range(3))


def source(spec: str) -> UpgradeSource:
    return source_of(context_of(Repository.open(place_of(spec))))


def link(id: SnapshotId, parent: SnapshotId | None, *, is_empty: bool = False) -> SnapshotLink:
    return SnapshotLink(id, parent, 1, is_empty)


# --- what is asked for ---


def test_modes_and_targets_that_there_are_not_are_refused() -> None:
    assert ChunkMode.of("copy") is ChunkMode.COPY
    with pytest.raises(InvalidInputError, match="link, copy, virtual: not by 'move'"):
        ChunkMode.of("move")
    assert [marker(target_generation(to)) for to in (1, 2)] == ["spec-v1", "spec-v2"]
    with pytest.raises(InvalidInputError, match="1 or 2, not 3") as refusal:
        target_generation(3)
    assert refusal.value.kind == ErrorKind.UNSUPPORTED_SPEC_VERSION


def test_a_new_repository_is_not_upgraded() -> None:
    with pytest.raises(SessionStateError, match="not from before spec version 1"):
        source_of(context_of(Repository.create(MemoryStorage())))


# --- history ---


def test_parents_come_before_children() -> None:
    known = {A: link(A, None), B: link(B, A), C: link(C, A)}
    made = source("g2")
    for tips in ({B, C}, {C, B, A}):
        found = [*made.history(tips, known)]
        assert found[0] == A
        assert {*found} == {A, B, C}


def test_history_is_read_from_the_files() -> None:
    made = source("g2")
    refs = made.read_refs()
    assert (set(refs.branches), set(refs.tags)) == ({"main", "dev"}, {"v1"})
    found = [*made.history(made.tips(refs), {}).values()]
    assert [each.parent_id for each in found] == [None, found[0].id, found[1].id]
    assert [each.is_empty for each in found] == [True, False, False]
    assert made.root_of(refs, {each.id: each for each in found}) == found[0].id


def test_a_snapshot_that_is_missing_is_named() -> None:
    with pytest.raises(SnapshotNotFoundError, match="is missing") as refusal:
        source("g2").history([B], {B: link(B, A)})
    assert str(A) in str(refusal.value)


def test_history_that_runs_in_a_circle_is_refused() -> None:
    with pytest.raises(FormatError, match="circle"):
        source("g2").history([A], {A: link(A, B), B: link(B, A)})


def test_only_an_empty_root_of_main_gets_the_id_of_all_roots() -> None:
    made, refs = source("g2"), RefSet({"main": B}, {}, {})
    empty = {A: link(A, None, is_empty=True), B: link(B, A)}
    assert made.root_of(refs, empty) == A
    assert made.root_of(refs, {**empty, A: link(A, None)}) is None
    # The id is taken by another snapshot.
    taken = {INITIAL_SNAPSHOT_ID: link(INITIAL_SNAPSHOT_ID, None, is_empty=True)}
    assert made.root_of(refs, {**empty, **taken}) is None


def test_a_repository_without_main_branch_is_refused() -> None:
    made = source("g2")
    layout = [item.key for item in made.place.list("r/")]
    made.place.delete_many([key for key in layout if "main" in key])
    with pytest.raises(FormatError, match="no main branch"):
        made.read_refs()


# --- files that are kept ---


def flat() -> bytes:
    """A file of today."""
    place = upgraded("g2", 2)
    item = next(iter(place.list("snapshots/")))
    return place.get(item.key) or b""


def test_files_are_kept_unless_they_are_of_today_or_missing() -> None:
    place = MemoryStorage()
    place.put("snapshots/OLD", b"old")
    place.put("snapshots/NEW", flat())
    place.put("manifests/M", b"manifest")
    preserve(
        place, ["snapshots/OLD", "snapshots/NEW", "snapshots/GONE", "manifests/M", "manifests/N"]
    )
    assert sorted(preserved_keys(place)) == ["manifests/M", "snapshots/OLD"]
    place.put("snapshots/OLD", b"expired")
    preserve(place, ["snapshots/OLD"])
    assert place.get(PRESERVED + "snapshots/OLD") == b"expired"


def test_what_an_upgrade_changes_is_kept_as_it_was_first() -> None:
    place = MemoryStorage()
    for data in (b"first", b"second"):
        place.put("config.yaml", data)
        found = place.fetch("config.yaml")
        assert isinstance(found, Fetched)
        keep_once(place, "config.yaml", found)
    assert place.get(PRESERVED + "config.yaml") == b"first"


def test_a_file_is_restored_only_while_that_may_be_done() -> None:
    place, held = MemoryStorage(), list[str]()
    place.put("a", b"new")
    restore_original(place, "a", lambda: held.append("a"))
    assert (place.get("a"), held) == (b"new", [])  # nothing was kept
    place.put(PRESERVED + "a", b"old")

    def refuse() -> None:
        raise SessionStateError("no longer ours", kind=ErrorKind.INVALID_REPOSITORY_MIGRATION)

    with pytest.raises(SessionStateError):
        restore_original(place, "a", refuse)
    assert place.get("a") == b"new"
    restore_original(place, "a", lambda: held.append("a"))
    assert (place.get("a"), held) == (b"old", ["a"])
    restore_original(place, "a", refuse)  # it is there already


def test_only_files_in_the_folders_of_today_are_changed() -> None:
    made = source("g2")
    assert [*changed_files(made, made.history(made.tips(made.read_refs()), {}))] == []
    made = source("g3")
    found = [*changed_files(made, made.history(made.tips(made.read_refs()), {}))]
    assert len(found) == len({*found})
    assert {key.partition("/")[0] for key in found} == {"snapshots", "transactions", "manifests"}
