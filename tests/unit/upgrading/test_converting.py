"""Old snapshots become new ones: ids that do not depend on the run, logs, times and moves."""

from __future__ import annotations

import numpy as np
import pytest
import zarr

from frazil.ids import INITIAL_SNAPSHOT_ID, ManifestId, NodeId, SnapshotId
from frazil.model.nodes import ArrayNode, GroupNode
from frazil.repository import Repository
from frazil.storage.memory import MemoryStorage
from frazil.upgrade import upgrade_older
from frazil.upgrading.converting import manifest_id, node_id, node_ids
from frazil.upgrading.source import LEGACY_ID
from tests.support.old_repositories import assert_sound, files_at, fill, make_old, move_array

SPECS = (1, 2)


@pytest.mark.parametrize("spec", ["g1", "g2", "3a"])
def test_ids_do_not_depend_on_the_run(spec: str) -> None:
    place = MemoryStorage()
    make_old(place, spec)
    copy = MemoryStorage()
    for key, data in files_at(place).items():
        copy.put(key, data or b"")
    upgrade_older(place, to=1)
    upgrade_older(copy, to=1)
    assert files_at(place).keys() == files_at(copy).keys()
    ours, theirs = Repository.open(place), Repository.open(copy)
    tip = ours.lookup_branch("main")
    assert ours.inspect_snapshot(tip) == theirs.inspect_snapshot(tip)


@pytest.mark.parametrize("to", SPECS)
@pytest.mark.parametrize("spec", ["3a", "3e", "3i"])
def test_root_of_a_library_gets_the_id_of_all_roots(
    spec: str, to: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, root = MemoryStorage(), SnapshotId(bytes(range(1, 13)))
    with monkeypatch.context() as patch:
        patch.setattr("frazil.opening.INITIAL_SNAPSHOT_ID", root)
        patch.setattr("frazil.opening.INITIAL_METADATA", {})
        Repository.create(place, spec_version=spec)
    fill(place)
    old = Repository.open(place)
    assert [*old.ancestry(branch="main")][-1].id == str(root)
    messages = [info.message for info in old.ancestry(branch="dev")]
    upgrade_older(old, to=to)
    new = Repository.open(place)
    first = [*new.ancestry(branch="dev")][-1]
    assert first.id == str(INITIAL_SNAPSHOT_ID) == new.lookup_tag("start")
    assert first.metadata[LEGACY_ID] == str(root)
    assert "__root" not in first.metadata
    assert [info.message for info in new.ancestry(branch="dev")] == messages
    assert_sound(place)


@pytest.mark.parametrize("to", SPECS)
def test_moves_become_what_the_target_knows(to: int) -> None:
    place = MemoryStorage()
    tip = move_array(make_old(place, "3i"), "/grid/x", "/grid/z")
    upgrade_older(place, to=to)
    new = Repository.open(place)
    group = zarr.open_group(new.readonly_session("main").store, mode="r")
    assert np.asarray(group["grid/z"]).tolist() == np.arange(24).reshape(6, 4)[:4].tolist()
    parent = new.lookup_snapshot(tip).parent_id
    changes = new.diff(from_snapshot_id=parent, to_snapshot_id=tip)
    if to == 2:
        assert changes.moved_nodes == [("/grid/x", "/grid/z")]
    else:
        assert changes.new_arrays == {"/grid/z"}
        assert changes.deleted_arrays == {"/grid/x"}


@pytest.mark.parametrize("spec", ["g2", "3i"])
def test_times_that_do_not_increase_are_corrected(spec: str) -> None:
    place = MemoryStorage()
    repo = make_old(place, spec)
    tip = move_array(repo, "/grid/x", "/grid/z", seconds=-3600)
    upgrade_older(place)
    times = [info.written_at for info in Repository.open(place).ancestry(snapshot_id=tip)]
    assert times == sorted(times, reverse=True)
    assert len({*times}) == len(times)


# --- ids ---

SNAPSHOT = SnapshotId(bytes(range(12)))
OTHER = SnapshotId(bytes(range(1, 13)))
FULL = NodeId(b"\xff" * NodeId.width)
NUMBER = NodeId((5).to_bytes(NodeId.width, "big"))
"""as old files number nodes"""
MANIFEST = ManifestId(bytes(range(12)))


def group(id: NodeId, path: str) -> GroupNode:
    return GroupNode(id=id, path=path, user_data=b"{}")


def test_ids_of_nodes_follow_from_where_they_first_appear() -> None:
    assert node_id(SNAPSHOT, NUMBER) == node_id(SNAPSHOT, NUMBER)
    made = {node_id(one, id) for one in (SNAPSHOT, OTHER) for id in (NUMBER, FULL)}
    assert len(made) == 4


def test_ids_of_manifests_tell_arrays_and_what_was_dropped_apart() -> None:
    boxes: tuple[tuple[tuple[int, int], ...] | None, ...] = (None, ((0, 2),), ((0, 3),))
    made = [manifest_id(MANIFEST, node, box) for node in (NUMBER, FULL) for box in boxes]
    assert len({*made}) == 6
    assert manifest_id(MANIFEST, FULL, ((0, 2),)) == made[4]


def test_a_node_that_stays_keeps_its_id() -> None:
    node = group(NUMBER, "/a")
    known = node_ids(SNAPSHOT, [node], {}, {}, moves=True)
    assert known == {NUMBER: node_id(SNAPSHOT, NUMBER)}
    assert node_ids(OTHER, [node], {NUMBER: node}, known, moves=True) is known
    assert node_ids(OTHER, [group(FULL, "/b")], {}, {}, moves=True) == {}


@pytest.mark.parametrize("moves", [False, True])
def test_a_node_at_another_path_is_the_same_only_where_nodes_can_move(moves: bool) -> None:
    known = {NUMBER: node_id(SNAPSHOT, NUMBER)}
    before = {NUMBER: group(NUMBER, "/a")}
    found = node_ids(OTHER, [group(NUMBER, "/b")], before, known, moves=moves)
    assert found[NUMBER] == node_id(SNAPSHOT if moves else OTHER, NUMBER)


def test_a_number_that_was_used_again_is_another_node() -> None:
    """An array may get the number of a group that was deleted in the same commit."""
    array = ArrayNode(NUMBER, "/a", b"{}", (), (), ())
    known = {NUMBER: node_id(SNAPSHOT, NUMBER)}
    found = node_ids(OTHER, [array], {NUMBER: group(NUMBER, "/a")}, known, moves=True)
    assert found == {NUMBER: node_id(OTHER, NUMBER)}
