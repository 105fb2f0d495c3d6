"""What refs in files have in common: history by parent links, and snapshots that must be kept."""

from __future__ import annotations

import pytest

from frazil.commit.base import Publication, now_micros
from frazil.commit.file_refs import (
    BranchFileRefs,
    ExpiryLimit,
    no_config,
    refuse_newer,
)
from frazil.errors import (
    ConflictError,
    ErrorKind,
    FormatError,
    SnapshotNotFoundError,
)
from frazil.formats.generation import G1
from frazil.ids import SnapshotId
from frazil.model.history import Snapshot, SnapshotEntry
from frazil.repository import Repository
from frazil.storage.assets import snapshot_key
from frazil.storage.memory import MemoryStorage
from frazil.testing.faulty import Fault, FaultyStorage, Trouble
from frazil.transaction.opened import context_of
from tests.support.generations import Spec
from tests.support.nodes import group_document, write_keys

SPECS: list[Spec] = ["g2", "g3", 1]


class Scene:
    """A repository with three commits, whose refs are looked at directly."""

    def __init__(self, spec: Spec = 1) -> None:
        self.place = MemoryStorage()
        self.line = FaultyStorage(self.place)
        repository = Repository.create(self.place, spec_version=spec)
        self.ids = [SnapshotId.parse(repository.lookup_branch("main"))]
        for number in range(3):
            session = repository.writable_session("main")
            write_keys(session, {f"g{number}/zarr.json": group_document()})
            self.ids.append(SnapshotId.parse(session.commit(f"commit {number}")))
        self.context = context_of(Repository.open(self.line))
        refs = self.context.refs
        assert isinstance(refs, BranchFileRefs)
        self.refs = refs

    def snapshot(self, parent: SnapshotId) -> SnapshotEntry:
        """A snapshot file upon another, that no branch leads to."""
        made = Snapshot(SnapshotId.random(), parent, (), now_micros(), "made", {}, ())
        self.context.assets.save_snapshot(made)
        return made.entry(parent)

    def lose(self, snapshot_id: SnapshotId) -> None:
        """Delete the file of a snapshot, as a collection by others does."""
        self.place.delete_many([self.context.key_in_place(snapshot_key(snapshot_id))])


# --- which snapshots expire ---


@pytest.mark.parametrize(
    ("keep", "histories", "cutoff"),
    [
        (1, [[90, 50, 10]], 80),
        (2, [[90, 50, 10]], 50),
        (3, [[90, 50, 10]], 10),
        (4, [[90, 50, 10]], 10),
        (1000, [[90, 50, 10]], 10),
        (2, [[90, 50], [85, 20], [99]], 20),
        (2, [[90, 50], [30]], 30),
        (2, [[90, 50], []], 50),
        (2, [[99, 95]], 80),
        (2, [], 80),
    ],
)
def test_the_last_snapshots_of_every_branch_stay(
    keep: int, histories: list[list[int]], cutoff: int
) -> None:
    """All snapshots of a branch that has fewer stay."""
    assert ExpiryLimit(80, keep).cutoff(histories) == cutoff


# --- history ---


@pytest.mark.parametrize("spec", SPECS)
def test_history_follows_the_parents_that_files_name(spec: Spec) -> None:
    scene = Scene(spec)
    tip = scene.refs.branch_tip("main")
    assert [entry.id for entry in scene.refs.ancestry(tip)] == scene.ids[::-1]
    assert scene.refs.is_there(tip)
    scene.lose(scene.ids[1])
    assert not scene.refs.is_there(scene.ids[1])
    others = context_of(Repository.open(scene.place)).refs
    with pytest.raises(SnapshotNotFoundError, match=str(scene.ids[1])):
        [*others.ancestry(tip)]


def test_parents_in_a_circle_end_in_an_error() -> None:
    scene = Scene()
    first, last = scene.ids[1], scene.ids[3]
    found = scene.context.assets.snapshot(first)
    circle = Snapshot(first, last, found.nodes, found.flushed_at, found.message, {}, ())
    scene.context.assets.save_snapshot(circle)
    with pytest.raises(FormatError, match=f"in a circle.*{first}"):
        [*scene.refs.ancestry(last)]


def test_a_collection_finds_roots_or_stops() -> None:
    scene = Scene()
    scene.refs.create_tag("v1", scene.ids[1])
    assert scene.refs.present_roots() == {scene.ids[3], scene.ids[1]}
    scene.place.delete_many([item.key for item in scene.place.list("refs/")])
    with pytest.raises(FormatError, match="neither branches nor tags"):
        scene.refs.present_roots()


# --- snapshots that a change relies on ---


def test_a_commit_upon_chunks_of_a_collected_snapshot_is_refused() -> None:
    scene = Scene()
    tip, lost = scene.ids[3], scene.ids[1]
    made = scene.snapshot(tip)
    scene.lose(lost)
    with pytest.raises(SnapshotNotFoundError, match=f"nothing was published.*{lost}"):
        scene.refs.publish(Publication("main", tip, made, requires=frozenset({lost})))
    assert scene.refs.branch_tip("main") == tip


def test_a_snapshot_collected_while_the_branch_moves_takes_the_commit_back() -> None:
    scene = Scene()
    tip, lost = scene.ids[3], scene.ids[1]
    made = scene.snapshot(tip)
    publication = Publication("main", tip, made, requires=frozenset({lost}))
    with pytest.raises(SnapshotNotFoundError, match=str(lost)):
        scene.refs.publish(publication, ready=lambda: scene.lose(lost))
    assert scene.refs.branch_tip("main") == tip


def test_a_commit_whose_reply_was_lost_is_known_as_made() -> None:
    scene = Scene()
    made = scene.snapshot(scene.ids[3])
    scene.line.forget_calls()
    scene.line.plan = (Fault(Trouble.LOSE_REPLY, "put_if"),)
    scene.refs.publish(Publication("main", scene.ids[3], made))
    assert scene.refs.branch_tip("main") == made.id


def test_a_branch_is_reset_only_from_where_it_is_thought_to_be() -> None:
    scene = Scene()
    refs, (_, first, second, tip) = scene.refs, scene.ids
    with pytest.raises(ConflictError, match=str(tip)):
        refs.reset_branch("main", first, expected=second)
    unknown = SnapshotId.random()
    with pytest.raises(SnapshotNotFoundError, match=str(unknown)):
        refs.reset_branch("main", unknown, expected=tip)
    refs.reset_branch("main", first, expected=tip)
    assert refs.branch_tip("main") == first


def test_a_snapshot_without_branch_needs_its_parent() -> None:
    scene = Scene()
    made = scene.snapshot(scene.ids[2])
    scene.refs.register_detached(made)
    scene.lose(scene.ids[2])
    with pytest.raises(SnapshotNotFoundError, match=str(scene.ids[2])):
        scene.refs.register_detached(made)


# --- what these generations lack ---


def test_what_a_generation_cannot_do_is_told() -> None:
    scene = Scene("g2")
    tip = scene.ids[3]
    with pytest.raises(FormatError, match="amend"):
        scene.refs.publish(Publication("main", tip, scene.snapshot(tip), amends=True))
    with pytest.raises(FormatError, match="cannot delete tags") as caught:
        scene.refs.require_tag_deletion()
    assert caught.value.kind is ErrorKind.UNSUPPORTED_OPERATION_FOR_VERSION
    assert "cannot keep a configuration" in str(no_config(G1))
    Scene(1).refs.require_tag_deletion()


@pytest.mark.parametrize("newer", [1, 2])
def test_no_older_files_are_written_beside_a_newer_repository(newer: int) -> None:
    storage = MemoryStorage()
    refuse_newer(storage)
    Repository.create(storage, spec_version=newer)
    with pytest.raises(ConflictError, match="upgraded"):
        refuse_newer(storage)
    if newer == 1:
        refuse_newer(storage, than_spec_1=False)
