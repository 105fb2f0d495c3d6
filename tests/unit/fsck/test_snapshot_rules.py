"""The rules of a snapshot file, and what it says of manifests."""

from __future__ import annotations

from frazil.formats.snapshot import encode_snapshot
from frazil.fsck.files import CheckedFile, read_snapshot_file
from frazil.fsck.findings import REPORTED_NODES, Code, Finding
from frazil.fsck.snapshot_rules import (
    MANY_MANIFESTS,
    box_text,
    check_snapshot_file,
    check_snapshot_name,
    uses_of,
)
from frazil.ids import ManifestId, NodeId, SnapshotId
from frazil.model.history import ManifestFile, Snapshot
from frazil.model.nodes import ArrayNode, Dimension, Extents, GroupNode, ManifestRef, Node
from frazil.storage.assets import manifest_key, snapshot_key
from tests.support.nodes import array_document, group_document
from tests.unit.fsck.samples import Sick

NAME = SnapshotId(bytes(range(12)))
FIRST, SECOND = ManifestId(b"1" * 12), ManifestId(b"2" * 12)


def group(path: str) -> GroupNode:
    return GroupNode(NodeId.random(), path, group_document())


def array(path: str, *manifests: tuple[ManifestId, Extents], length: int = 8) -> ArrayNode:
    """An array of chunks of one element."""
    refs = tuple(ManifestRef(one, extents) for one, extents in manifests)
    shape = (Dimension(length, length),)
    return ArrayNode(NodeId.random(), path, array_document(length), shape, None, refs)


def snapshot(*nodes: Node, listed: tuple[ManifestId, ...] = ()) -> Snapshot:
    files = tuple(ManifestFile(one, 100, 4) for one in listed)
    return Snapshot(NAME, None, nodes, 1, "", {}, files)


def found(made: Snapshot, spec: int = 2) -> list[Finding]:
    """What is wrong with a snapshot that was written and read."""
    key = snapshot_key(NAME)
    read = read_snapshot_file(encode_snapshot(made, spec=spec), key)
    assert read.content is not None
    findings = [*check_snapshot_file(NAME, read)]
    assert all(each.target == key for each in findings)
    return findings


def codes(made: Snapshot) -> list[tuple[Code, str | None]]:
    return [(each.code, each.path) for each in found(made)]


ROOT = group("/")


def test_a_snapshot_in_order_has_no_findings(spec: int) -> None:
    made = array("/a", (FIRST, ((0, 4),)), (SECOND, ((4, 8),)))
    assert found(snapshot(ROOT, made, group("/g"), listed=(FIRST, SECOND)), spec) == []
    assert found(snapshot(), spec) == []


def test_every_node_lies_in_a_group(spec: int) -> None:
    made = snapshot(ROOT, array("/a"), group("/a/x"), group("/g/x"))
    assert [(each.code, each.path, each.detail) for each in found(made, spec)] == [
        (Code.NODE_INSIDE_ARRAY, "/a/x", "/a is an array"),
        (Code.NODE_ORPHAN, "/g/x", "/g is not there"),
    ]


def test_the_grid_of_an_empty_axis_has_room_for_one_chunk() -> None:
    made = array("/a", (FIRST, ((0, 1),)), length=0)
    assert codes(snapshot(ROOT, made, listed=(FIRST,))) == []
    made = array("/a", (FIRST, ((0, 2),)), length=0)
    assert codes(snapshot(ROOT, made, listed=(FIRST,))) == [(Code.EXTENTS_OUTSIDE, "/a")]


def test_manifests_may_touch_and_not_overlap() -> None:
    boxes = (FIRST, ((0, 5),)), (SECOND, ((4, 8),))
    [overlap] = found(snapshot(ROOT, array("/a", *boxes), listed=(FIRST, SECOND)))
    assert (overlap.code, overlap.path) == (Code.EXTENTS_OVERLAP, "/a")
    assert overlap.detail == f"{manifest_key(FIRST)} and {manifest_key(SECOND)}"


def test_overlaps_are_not_looked_for_among_very_many_manifests() -> None:
    refs = [(FIRST, ((0, 1),))] * (MANY_MANIFESTS + 1)
    assert codes(snapshot(ROOT, array("/a", *refs), listed=(FIRST,))) == []


def test_a_grid_other_than_that_of_the_document_is_told() -> None:
    node = array("/a")
    shape = (Dimension(8, 7),)
    wrong = ArrayNode(node.id, "/a", node.user_data, shape, ("x",), ())
    shaped, named = found(snapshot(ROOT, wrong))
    assert (shaped.code, shaped.detail) == (
        Code.NODE_SHAPE,
        "lengths and chunks are [(8, 7)], by zarr.json [(8, 8)]",
    )
    assert (named.code, named.detail) == (
        Code.NODE_DIMENSION_NAMES,
        "they are ('x',), by zarr.json None",
    )


def test_manifests_that_are_used_and_listed_differ() -> None:
    made = snapshot(ROOT, array("/a", (SECOND, ((0, 1),))), listed=(FIRST,))
    assert [(each.code, each.detail) for each in found(made)] == [
        (Code.MANIFEST_UNLISTED, manifest_key(SECOND)),
        (Code.MANIFEST_UNUSED, manifest_key(FIRST)),
    ]


def test_a_rule_is_told_of_so_many_nodes_and_others_still_are() -> None:
    orphans = [group(f"/g/{number:04}") for number in range(REPORTED_NODES + 1)]
    last = GroupNode(NodeId.random(), "/z", b"{}")
    made = [each for each, _ in codes(snapshot(ROOT, *orphans, last))]
    assert made.count(Code.NODE_ORPHAN) == REPORTED_NODES
    assert made.count(Code.NODE_METADATA) == 1


def test_a_snapshot_of_another_name_is_told(sick: Sick) -> None:
    key, other = snapshot_key(sick.tip), sick.history[1]
    read = read_snapshot_file(sick.get(key), key)
    assert [*check_snapshot_name(sick.tip, read)] == []
    [finding] = check_snapshot_name(other, read)
    assert (finding.code, finding.target) == (Code.SNAPSHOT_ID, snapshot_key(other))
    assert str(sick.tip) in finding.detail


def test_nothing_more_is_told_of_a_snapshot_that_cannot_be_read() -> None:
    short = Finding(Code.FILE_SHORT, "snapshots/x")
    assert [*check_snapshot_file(NAME, CheckedFile(findings=(short,)))] == [short]


def test_what_a_snapshot_says_of_its_manifests() -> None:
    node = array("/a", (FIRST, ((0, 4),)), (SECOND, ((4, 8),)))
    made = snapshot(ROOT, node, listed=(FIRST,))
    uses = dict(uses_of(made, documents=False))
    assert (uses[FIRST].size_bytes, uses[FIRST].num_chunk_refs) == (100, 4)
    assert (uses[SECOND].size_bytes, uses[SECOND].num_chunk_refs) == (-1, -1)  # not listed
    assert (uses[FIRST].path, uses[FIRST].grid, uses[FIRST].document) == ("/a", (8,), b"")
    assert dict(uses_of(made, documents=True))[FIRST].document == node.user_data


def test_boxes_are_shown_as_slices() -> None:
    assert box_text(((0, 4), (2, 3))) == "[0:4, 2:3]"
    assert box_text(()) == "[]"
