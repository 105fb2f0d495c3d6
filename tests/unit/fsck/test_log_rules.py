"""What a transaction log must tell of a change, and what it need not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from frazil.fsck.files import read_log_file
from frazil.fsck.findings import REPORTED_NODES, Code, Finding
from frazil.fsck.log_rules import (
    Change,
    changed_between,
    changed_chunks,
    check_change,
    check_log_file,
    claims_of,
)
from frazil.ids import ChunkId, ManifestId, NodeId, SnapshotId
from frazil.model.chunks import ChunkRef, ChunkTable, InlineRef, NativeRef, VirtualRef
from frazil.model.history import Move, Snapshot, TransactionLog
from frazil.model.nodes import ArrayNode, Dimension, GroupNode, ManifestRef, Node
from frazil.storage.assets import log_key, manifest_key
from frazil.storage.base import Storage
from frazil.storage.memory import MemoryStorage
from tests.support.nodes import array_document, group_document
from tests.unit.fsck.samples import Sick, files_of

ONE, OTHER = ChunkId(b"1" * 12), ChunkId(b"2" * 12)
KEY = "transactions/some"


# --- references that differ ---


def table(*refs: ChunkRef | None) -> ChunkTable:
    """References at the first places of an array; None leaves one out."""
    there = [((place,), ref) for place, ref in enumerate(refs) if ref is not None]
    return ChunkTable.from_refs(1, there)


def differing(old: ChunkTable, new: ChunkTable) -> list[int]:
    """Places that count as changed."""
    return sorted(changed_chunks(old, new)[:, 0].tolist())


def test_chunks_that_came_and_went_have_changed() -> None:
    a, b = NativeRef(ONE, 0, 8), NativeRef(OTHER, 0, 8)
    assert differing(table(a, b, None, a), table(None, b, a, a)) == [0, 2]
    assert differing(table(), table(a, b)) == [0, 1]
    assert differing(table(a, b), table()) == [0, 1]
    assert differing(table(), table()) == []


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (NativeRef(ONE, 0, 8), NativeRef(OTHER, 0, 8)),
        (NativeRef(ONE, 0, 8), NativeRef(ONE, 1, 8)),
        (NativeRef(ONE, 0, 8), NativeRef(ONE, 0, 9)),
        (NativeRef(ONE, 0, 8), InlineRef(b"8 bytes!")),
        (InlineRef(b"one"), InlineRef(b"two")),
        (VirtualRef("s3://b/x", 0, 8), VirtualRef("s3://b/y", 0, 8)),
        (VirtualRef("s3://b/x", 0, 8, "tag"), VirtualRef("s3://b/x", 0, 8, "gat")),
        (VirtualRef("s3://b/x", 0, 8, "tag"), VirtualRef("s3://b/x", 0, 8)),
        (VirtualRef("s3://b/x", 0, 8, 5), VirtualRef("s3://b/x", 0, 8, 6)),
    ],
)
def test_anything_else_in_a_reference_is_a_change(old: ChunkRef, new: ChunkRef) -> None:
    assert differing(table(old, old), table(old, new)) == [1]


def test_the_same_text_under_another_number_is_no_change() -> None:
    x, y = VirtualRef("s3://b/x", 0, 8, "one"), VirtualRef("s3://b/y", 0, 8, "two")
    plain = VirtualRef("s3://b/z", 0, 8)
    assert differing(table(None, x, y, plain), table(y, x, y, plain)) == [0]


def test_inline_bytes_at_another_place_are_no_change() -> None:
    assert differing(table(None, InlineRef(b"abc")), table(InlineRef(b"z"), InlineRef(b"abc"))) == [
        0
    ]


def test_all_chunks_of_an_array_with_other_axes_have_changed() -> None:
    flat = ChunkTable.from_refs(2, [((0, 0), NativeRef(ONE, 0, 8))])
    assert changed_chunks(table(NativeRef(ONE, 0, 8)), flat).tolist() == [[0, 0]]


# --- a change and its log ---


def group(number: int, path: str | None = None, **attributes: object) -> GroupNode:
    name = NodeId(bytes(7) + bytes([number]))
    return GroupNode(name, path or f"/{number:03}", group_document(**attributes))


def snapshot(*nodes: Node) -> Snapshot:
    return Snapshot(SnapshotId.random(), None, nodes, 1, "", {}, ())


def log(**fields: object) -> TransactionLog:
    return TransactionLog(SnapshotId.random(), **fields)  # type: ignore[arg-type]


def found(
    old: Sequence[Node],
    new: Sequence[Node],
    *logs: TransactionLog,
    is_complete: bool = True,
    storage: Storage | None = None,
) -> list[tuple[Code, str | None]]:
    """The rules that logs of a change break, and at which nodes."""
    claims, is_single = claims_of(logs), len(logs) == 1
    change = Change(KEY, snapshot(*old), snapshot(*new), claims, is_complete, is_single)
    findings = [*check_change(change, files_of(storage or MemoryStorage()))]
    assert all(each.target == KEY for each in findings)
    return [(each.code, each.path) for each in findings]


A, B = group(1), group(2)


def test_a_node_that_came_and_went_in_between_may_be_listed() -> None:
    assert found([A], [A], log(new_groups=(B.id,), deleted_groups=(B.id,))) == []
    assert found([A], [A], log(new_groups=(B.id,))) == [(Code.LOG_UNKNOWN_NODE, None)]


def test_a_node_that_was_deleted_and_restored_may_be_listed() -> None:
    deleted, restored = log(deleted_groups=(A.id,)), log(new_groups=(A.id,))
    assert found([A], [A], deleted, restored) == []
    assert found([A], [A], deleted) == [(Code.LOG_DELETED, A.path)]
    assert found([A], [A], restored) == [(Code.LOG_NEW, A.path)]


def test_nothing_is_asked_of_logs_of_which_some_are_gone() -> None:
    changed = [group(1, n=2), B]
    assert found([A], changed, log(), is_complete=False) == []
    both = [(Code.LOG_NEW, B.path), (Code.LOG_UPDATED, A.path)]
    assert found([A], changed, log()) == both


def test_findings_of_very_many_nodes_are_bounded() -> None:
    many = [group(number) for number in range(REPORTED_NODES + 1)]
    assert len(found([], many, log())) == REPORTED_NODES
    assert len(found(many, [], log())) == REPORTED_NODES


def test_a_move_must_lead_from_where_a_node_was_to_where_it_is() -> None:
    moved = replace(A, path="/moved")

    def by(source: str, target: str) -> list[tuple[Code, str | None]]:
        return found([A], [moved], log(moved_nodes=(Move(source, target, A.id, False),)))

    assert by(A.path, "/moved") == []
    assert by(A.path, "/elsewhere") == [(Code.LOG_MOVED, "/elsewhere")]
    assert by("/elsewhere", "/moved") == [(Code.LOG_MOVED, "/moved")]


def test_a_node_may_be_moved_by_several_commits_or_be_deleted_afterwards() -> None:
    there, further = Move(A.path, "/b", A.id, False), Move("/b", "/c", A.id, False)
    two = log(moved_nodes=(there,)), log(moved_nodes=(further,))
    assert found([A], [replace(A, path="/c")], *two) == []
    assert found([A], [], log(moved_nodes=(there,), deleted_groups=(A.id,))) == []


def test_logs_together_tell_what_each_of_them_does() -> None:
    first = log(new_groups=(A.id,), updated_chunks={A.id: np.array([[1]], np.uint32)})
    second = log(deleted_arrays=(B.id,), updated_chunks={A.id: np.array([[2]], np.uint32)})
    claims = claims_of([first, second])
    assert ({*claims.new}, {*claims.deleted}) == ({A.id}, {B.id})
    assert [part.tolist() for part in claims.chunks[A.id]] == [[[1]], [[2]]]
    assert not claims.is_empty
    assert claims_of([log()]).is_empty


def array(storage: Storage, length: int, *refs: ChunkRef) -> ArrayNode:
    """An array of chunks of one element, whose references are in a manifest."""
    name = NodeId(bytes(7) + b"a")
    saved = files_of(storage).assets.save_manifest(ManifestId.random(), {name: table(*refs)})
    manifest = ManifestRef(saved.id, ((0, len(refs)),))
    shape = (Dimension(length, length),)
    return ArrayNode(name, "/a", array_document(length), shape, None, (manifest,))


def natives(count: int) -> list[NativeRef]:
    return [NativeRef(ChunkId.random(), 0, 1) for _ in range(count)]


def test_changed_chunks_that_are_not_listed_are_named_and_counted() -> None:
    storage = MemoryStorage()
    old, new = (array(storage, 9, *natives(9)) for _ in range(2))
    some = np.array([[5_000_000], [8], [0], [3]], np.uint32)  # not in order, and one beyond
    logs = log(updated_chunks={new.id: some})
    change = Change(KEY, snapshot(old), snapshot(new), claims_of([logs]))
    [lacking] = check_change(change, files_of(storage))
    assert (lacking.code, lacking.path, lacking.references) == (Code.LOG_CHUNKS, "/a", 6)
    assert lacking.chunks == ((1,), (2,), (4,), (5,))


def test_chunks_that_went_because_an_array_shrank_need_not_be_listed() -> None:
    storage, refs = MemoryStorage(), natives(6)
    old, new = array(storage, 6, *refs), array(storage, 4, *refs[:3])
    resized = log(updated_arrays=(new.id,))
    assert found([old], [new], resized, storage=storage) == [(Code.LOG_CHUNKS, "/a")]
    told = replace(resized, updated_chunks={new.id: np.array([[3]], np.uint32)})
    assert found([old], [new], told, storage=storage) == []


def test_only_manifests_that_differ_are_read() -> None:
    storage, refs = MemoryStorage(), natives(4)
    old = array(storage, 4, *refs)
    storage.delete_many([manifest_key(old.manifests[0].id)])
    kept = changed_between(old, old, files_of(storage))
    assert kept is not None
    assert len(kept) == 0
    assert changed_between(old, array(storage, 4, *refs), files_of(storage)) is None


# --- the file ---


def test_a_log_of_another_snapshot_is_told(sick: Sick) -> None:
    name = log_key(sick.tip)
    read = read_log_file(sick.get(name), name)
    assert [*check_log_file(sick.tip, read)] == []
    other = sick.history[1]
    detail = f"it is of snapshot {sick.tip}"
    assert [*check_log_file(other, read)] == [Finding(Code.LOG_ID, log_key(other), detail)]


def test_nothing_more_is_told_of_a_log_that_cannot_be_read(sick: Sick) -> None:
    read = read_log_file(b"short", KEY)
    assert [each.code for each in check_log_file(sick.tip, read)] == [Code.FILE_SHORT]
