"""Defects by name: how each is planted, in which versions, and what must be found."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from frazil.commit.base import OVERWRITTEN, backup_name, now_micros
from frazil.flatbuf.strided import encode_tables
from frazil.flatbuf.writer import FlatWriter
from frazil.formats.envelope import FileKind, seal, seal_table, unseal
from frazil.formats.manifest import ARRAY_REFS, MANIFEST, encode_manifest
from frazil.formats.repo_info import REPO_KEY
from frazil.formats.snapshot import encode_snapshot
from frazil.fsck import Code
from frazil.ids import ChunkId, ManifestId, NodeId, SnapshotId
from frazil.model.chunks import ChunkTable, NativeRef, VirtualRef
from frazil.model.history import ManifestFile, Move, RepoAvailability, StoredStatus
from frazil.model.nodes import Dimension, GroupNode, ManifestRef
from frazil.storage.assets import chunk_key, log_key, manifest_key, snapshot_key
from tests.support.manifests import Compression
from tests.support.nodes import array_document, group_document
from tests.unit.fsck.samples import PREFIX, Sick, root_of

Plant = Callable[[Sick], None]
BOTH, V1, V2 = (1, 2), (1,), (2,)


@dataclass(frozen=True)
class Defect:
    """One way to break a rule."""

    name: str
    plant: Plant
    code: Code
    specs: tuple[int, ...] = BOTH
    deep: bool = False


DEFECTS: list[Defect] = []


def defect(
    code: Code, *, specs: tuple[int, ...] = BOTH, deep: bool = False
) -> Callable[[Plant], Plant]:
    """Put a function that damages a repository into the table."""

    def add(plant: Plant) -> Plant:
        DEFECTS.append(Defect(plant.__name__, plant, code, specs, deep))
        return plant

    return add


# --- any file ---


@defect(Code.FILE_SHORT)
def snapshot_cut_off(sick: Sick) -> None:
    sick.storage.put(snapshot_key(sick.find("second")), sick.get(snapshot_key(sick.tip))[:20])


@defect(Code.FILE_MAGIC)
def manifest_of_somebody_else(sick: Sick) -> None:
    sick.header(sick.manifest_key(), 0, b"NOPE")


@defect(Code.FILE_SPEC)
def log_of_the_future(sick: Sick) -> None:
    sick.header(log_key(sick.tip), 36, b"\x09")


@defect(Code.FILE_KIND)
def snapshot_that_is_a_log(sick: Sick) -> None:
    sick.storage.put(snapshot_key(sick.find("second")), sick.get(log_key(sick.tip)))


@defect(Code.FILE_COMPRESSION)
def manifest_that_is_not_compressed(sick: Sick) -> None:
    sick.header(sick.manifest_key(), 38, b"\x00")


@defect(Code.FILE_BODY)
def log_with_a_broken_body(sick: Sick) -> None:
    key = log_key(sick.tip)
    sick.storage.put(key, sick.get(key)[:39] + b"this is no zstd frame")


@defect(Code.FILE_DAMAGED)
def manifest_that_breaks_off(sick: Sick) -> None:
    blob = sick.get(sick.manifest_key())
    body = unseal(blob, FileKind.MANIFEST, key="").body
    sick.storage.put(
        sick.manifest_key(), seal(body[: len(body) // 2], FileKind.MANIFEST, spec=sick.spec)
    )


@defect(Code.METADATA_ORDER)
def names_of_metadata_swapped(sick: Sick) -> None:
    sick.swap(snapshot_key(sick.tip), b"\x02\0\0\0by\0", b"\x02\0\0\0to\0")


@defect(Code.STRAY_NAME)
def object_with_a_foreign_name(sick: Sick) -> None:
    sick.storage.put("manifests/notes.txt", b"hello")


@defect(Code.UNREFERENCED)
def chunk_that_nobody_needs(sick: Sick) -> None:
    sick.storage.put(chunk_key(ChunkId.random()), b"hello")


# --- snapshots ---


@defect(Code.SNAPSHOT_MISSING)
def snapshot_file_gone(sick: Sick) -> None:
    sick.delete(snapshot_key(sick.find("second")))


@defect(Code.SNAPSHOT_MISSING)
def newest_snapshot_file_gone(sick: Sick) -> None:
    sick.delete(snapshot_key(sick.tip))


@defect(Code.SNAPSHOT_GONE, specs=V2)
def replaced_snapshot_gone(sick: Sick) -> None:
    tip = sick.tip
    session = sick.repository.writable_session("main")
    session.amend("better", allow_empty=True)
    sick.delete(snapshot_key(tip))


@defect(Code.SNAPSHOT_ID)
def snapshot_under_another_name(sick: Sick) -> None:
    sick.write_snapshot(id=SnapshotId.random())


@defect(Code.SNAPSHOT_LAYOUT, specs=V2)
def snapshot_with_a_parent(sick: Sick) -> None:
    made = replace(sick.snapshot(), parent_id=sick.history[1], metadata={})
    blob = encode_snapshot(made, spec=1)
    sick.storage.put(snapshot_key(sick.tip), blob[:36] + b"\x02" + blob[37:])


@defect(Code.SNAPSHOT_LAYOUT, specs=V1)
def old_snapshot_with_new_fields(sick: Sick) -> None:
    blob = encode_snapshot(replace(sick.snapshot(), metadata={}), spec=2)
    sick.storage.put(snapshot_key(sick.tip), blob[:36] + b"\x01" + blob[37:])


@defect(Code.NODE_ORDER)
def nodes_out_of_order(sick: Sick) -> None:
    sick.swap(snapshot_key(sick.tip), b"\x02\0\0\0/a\0", b"\x02\0\0\0/z\0")


@defect(Code.NODE_PATH)
def node_with_an_impossible_path(sick: Sick) -> None:
    sick.swap(snapshot_key(sick.tip), b"\x02\0\0\0/v\0", b"\x02\0\0\0x/\0")


@defect(Code.NODE_ID)
def two_nodes_with_one_id(sick: Sick) -> None:
    sick.write_node("/g", id=sick.node("/a").id)


@defect(Code.NODE_METADATA)
def document_that_is_no_json(sick: Sick) -> None:
    sick.write_node("/a", user_data=b"{]")


@defect(Code.NODE_METADATA)
def document_of_zarr_2(sick: Sick) -> None:
    sick.write_node("/g", user_data=b'{"zarr_format":2,"node_type":"group"}')


@defect(Code.NODE_KIND)
def group_with_the_document_of_an_array(sick: Sick) -> None:
    sick.write_node("/g", user_data=array_document(4))


@defect(Code.NODE_SHAPE)
def shape_that_differs_from_the_document(sick: Sick) -> None:
    sick.write_node("/a", shape=(Dimension(128, 16),))


@defect(Code.NODE_DIMENSION_NAMES)
def dimension_names_that_differ(sick: Sick) -> None:
    sick.write_node("/a", dimension_names=("y",))


def add_node(sick: Sick, path: str) -> None:
    """Put a group into the newest snapshot and its log."""
    node = GroupNode(NodeId.random(), path, group_document())
    sick.write_snapshot(nodes=(*sick.snapshot().nodes, node))
    sick.write_log(new_groups=(node.id,))


@defect(Code.NODE_ORPHAN)
def node_without_parent(sick: Sick) -> None:
    add_node(sick, "/nowhere/inside")


@defect(Code.NODE_INSIDE_ARRAY)
def node_inside_an_array(sick: Sick) -> None:
    add_node(sick, "/a/inside")


@defect(Code.ROOT_NODES)
def first_snapshot_with_nodes(sick: Sick) -> None:
    node = GroupNode(NodeId.random(), "/", group_document())
    sick.write_snapshot(sick.history[-1], nodes=(node,))


@defect(Code.MANIFEST_FILE_ORDER)
def manifests_out_of_order(sick: Sick) -> None:
    first, second, *_ = sorted(file.id for file in sick.snapshot().manifest_files)
    sick.swap(snapshot_key(sick.tip), bytes(first), bytes(second))


@defect(Code.MANIFEST_UNLISTED)
def manifest_not_listed(sick: Sick) -> None:
    wanted = sick.manifest_id()
    files = sick.snapshot().manifest_files
    sick.write_snapshot(manifest_files=tuple(file for file in files if file.id != wanted))


@defect(Code.MANIFEST_UNUSED)
def manifest_that_no_array_needs(sick: Sick) -> None:
    blob = encode_manifest(one := ManifestId.random(), {}, spec=sick.spec)
    sick.storage.put(manifest_key(one), blob)
    files = (*sick.snapshot().manifest_files, ManifestFile(one, len(blob), 0))
    sick.write_snapshot(manifest_files=files)


def write_extents(sick: Sick, *extents: tuple[int, int]) -> None:
    """Say something else of what the first manifest of an array covers."""
    wanted = sick.manifest_id()
    refs = [
        ManifestRef(ref.id, extents) if ref.id == wanted else ref
        for ref in sick.node("/a").manifests
    ]
    sick.write_node("/a", manifests=tuple(refs))


@defect(Code.EXTENTS_OVERLAP)
def manifests_that_overlap(sick: Sick) -> None:
    write_extents(sick, (0, 6))


@defect(Code.EXTENTS_OUTSIDE)
def manifest_beyond_the_grid(sick: Sick) -> None:
    sick.write_node("/a", manifests=(ManifestRef(sick.manifest_id(), ((0, 12),)),))


@defect(Code.EXTENTS_COVER)
def manifest_that_covers_too_little(sick: Sick) -> None:
    write_extents(sick, (0, 3))


@defect(Code.EXTENTS_LOOSE)
def manifest_that_covers_too_much(sick: Sick) -> None:
    table = sick.manifest().table(sick.node("/a").id)
    assert table is not None
    sick.write_manifest({sick.node("/a").id: table.take(slice(0, 3))})


# --- history ---


@defect(Code.SNAPSHOT_TIME, specs=V1)
def snapshot_older_than_its_parent(sick: Sick) -> None:
    sick.write_snapshot(flushed_at=sick.snapshot(sick.history[1]).flushed_at)


@defect(Code.SNAPSHOT_TIME, specs=V2)
def entry_older_than_its_parent(sick: Sick) -> None:
    rows = sick.info().snapshots
    times = rows.columns.rows["flushed_at"].copy()
    times[rows.row(sick.tip)] = 1
    rows.columns.rows["flushed_at"] = times
    sick.write_info(snapshots=rows)


@defect(Code.SNAPSHOT_ENTRY, specs=V2)
def entry_with_another_message(sick: Sick) -> None:
    sick.swap(REPO_KEY, b"\x04\0\0\0last\0", b"\x04\0\0\0lost\0")


@defect(Code.HISTORY_CIRCLE, specs=V1)
def parents_in_a_circle(sick: Sick) -> None:
    sick.write_snapshot(sick.find("first"), parent_id=sick.find("second"))


@defect(Code.HISTORY_CIRCLE, specs=V2)
def listed_parents_in_a_circle(sick: Sick) -> None:
    table = sick.info().snapshots.reparent({sick.find("first"): (sick.find("second"), ())})
    sick.write_info(snapshots=table)


@defect(Code.HISTORY_ROOTS, specs=V2)
def history_that_begins_twice(sick: Sick) -> None:
    table = sick.info().snapshots.reparent({sick.tip: (None, ())})
    sick.write_info(snapshots=table)


# --- manifests ---


@defect(Code.MANIFEST_MISSING)
def manifest_gone(sick: Sick) -> None:
    sick.delete(sick.manifest_key())


@defect(Code.MANIFEST_ID)
def manifest_under_another_name(sick: Sick) -> None:
    sick.write_manifest(dict(sick.manifest().tables()), name=ManifestId.random())


@defect(Code.MANIFEST_SIZE)
def manifest_recorded_too_short(sick: Sick) -> None:
    sick.write_files(lambda file: replace(file, size_bytes=file.size_bytes - 5))


@defect(Code.MANIFEST_SIZE_LONG)
def manifest_recorded_too_long(sick: Sick) -> None:
    sick.write_files(lambda file: replace(file, size_bytes=file.size_bytes + 5))


@defect(Code.MANIFEST_COUNT)
def references_counted_wrongly(sick: Sick) -> None:
    sick.write_files(lambda file: replace(file, num_chunk_refs=3))


@defect(Code.MANIFEST_ARRAY)
def manifest_of_another_array(sick: Sick) -> None:
    tables = [table for _, table in sick.manifest().tables()]
    sick.write_manifest({NodeId.random(): tables[0]})


@defect(Code.ARRAY_ORDER)
def arrays_out_of_order(sick: Sick) -> None:
    one, other = NodeId(b"\x01" * 8), NodeId(b"\x02" * 8)
    tables = dict(sick.manifest().tables())
    table = tables[sick.node("/a").id]
    sick.write_manifest({one: table, other: table})
    sick.swap(sick.manifest_key(), bytes(one), bytes(other))


@defect(Code.CHUNK_ORDER)
def references_out_of_order(sick: Sick) -> None:
    first, second = (struct.pack("<II", 1, index) for index in (0, 1))
    sick.swap(sick.manifest_key(), first, second)


@defect(Code.CHUNK_NOWHERE)
def reference_to_nothing(sick: Sick) -> None:
    writer = FlatWriter()
    blocks = encode_tables(np.arange(4, dtype=np.uint32).reshape(4, 1))
    array = writer.table(ARRAY_REFS, bytes(sick.node("/a").id), writer.table_blocks(blocks))
    arrays = writer.offsets([array])
    root = writer.table(MANIFEST, bytes(sick.manifest_id()), arrays, None, b"\0")
    blob = seal_table(writer, root, FileKind.MANIFEST, spec=sick.spec)
    sick.storage.put(sick.manifest_key(), blob)


def some_table(*indices: tuple[int, ...], length: int = 8) -> ChunkTable:
    """Native references at some places."""
    refs = [(index, NativeRef(ChunkId.random(), 0, length)) for index in indices]
    return ChunkTable.from_refs(len(indices[0]), refs)


@defect(Code.CHUNK_RANK)
def chunk_with_two_coordinates(sick: Sick) -> None:
    sick.write_manifest({sick.node("/a").id: some_table((0, 0), (1, 0))})


@defect(Code.CHUNK_OUTSIDE_GRID)
def chunk_beyond_the_grid(sick: Sick) -> None:
    sick.write_manifest({sick.node("/a").id: some_table((0,), (11,))})


@defect(Code.CHUNK_EMPTY)
def chunk_without_bytes(sick: Sick) -> None:
    sick.write_manifest({sick.node("/a").id: some_table((0,), (1,), (2,), (3,), length=0)})


def virtual_table(location: str) -> ChunkTable:
    """Two virtual references."""
    return ChunkTable.from_refs(1, [((n,), VirtualRef(location, n, 1, None)) for n in range(2)])


@defect(Code.LOCATION_DAMAGED, specs=V2)
def dictionary_that_is_none(sick: Sick) -> None:
    refs = [((n,), VirtualRef(f"{PREFIX}{n:04}.bin", 0, 1, None)) for n in range(2000)]
    table = ChunkTable.from_refs(1, refs)
    blob = encode_manifest(
        sick.manifest_id("/v"),
        {sick.node("/v").id: table},
        spec=2,
        compress_locations=Compression(),
    )
    sick.storage.put(sick.manifest_key("/v"), blob)
    sick.swap(sick.manifest_key("/v"), b"\x28\xb5\x2f\xfd", b"\x28\xb5\x2f\xfe")


@defect(Code.LOCATION_INVALID)
def location_that_is_no_url(sick: Sick) -> None:
    sick.write_manifest({sick.node("/v").id: virtual_table("no url at all")}, "/v")


@defect(Code.CONTAINER_UNDECLARED)
def location_without_container(sick: Sick) -> None:
    sick.write_manifest({sick.node("/v").id: virtual_table("s3://elsewhere/one.bin")}, "/v")


# --- transaction logs ---


@defect(Code.LOG_MISSING)
def log_gone(sick: Sick) -> None:
    sick.delete(log_key(sick.find("third")))


@defect(Code.LOG_PRUNED_MISSING, specs=V2)
def log_of_a_cut_snapshot_gone(sick: Sick) -> None:
    second, third = sick.find("second"), sick.find("third")
    table = sick.info().snapshots.reparent({third: (sick.find("first"), (second,))})
    sick.write_info(snapshots=table)
    sick.delete(log_key(second))


@defect(Code.LOG_ID)
def log_under_another_name(sick: Sick) -> None:
    sick.write_log(id=SnapshotId.random())


@defect(Code.LOG_ORDER)
def ids_of_a_log_out_of_order(sick: Sick) -> None:
    first = sick.find("first")
    one, other, *_ = sick.log(first).new_arrays
    sick.swap(log_key(first), bytes(one), bytes(other))


@defect(Code.LOG_MOVE_ORDER, specs=V2)
def moves_out_of_order(sick: Sick) -> None:
    moved = sick.find("moved")
    moves = [Move(f"/{n}", f"/{n}{n}", NodeId.random(), False) for n in "ab"]
    sick.write_log(moved, moved_nodes=tuple(moves))
    sick.swap(log_key(moved), b"/aa", b"/bb")


@defect(Code.LOG_ROOT, specs=V2)
def log_of_the_first_snapshot_not_empty(sick: Sick) -> None:
    sick.write_log(sick.history[-1], new_groups=(NodeId.random(),))


@defect(Code.LOG_NEW)
def new_node_not_in_the_log(sick: Sick) -> None:
    sick.write_log(sick.find("third"), new_arrays=())


@defect(Code.LOG_NEW)
def new_array_called_a_group(sick: Sick) -> None:
    third = sick.find("third")
    sick.write_log(third, new_arrays=(), new_groups=sick.log(third).new_arrays)


@defect(Code.LOG_NEW)
def old_node_called_new(sick: Sick) -> None:
    sick.write_log(new_arrays=(sick.node("/a").id,))


@defect(Code.LOG_DELETED)
def deleted_node_not_in_the_log(sick: Sick) -> None:
    sick.write_log(sick.find("third"), deleted_arrays=())


@defect(Code.LOG_DELETED)
def node_called_deleted_that_is_there(sick: Sick) -> None:
    sick.write_log(deleted_arrays=(sick.node("/a").id,))


@defect(Code.LOG_UPDATED)
def changed_document_not_in_the_log(sick: Sick) -> None:
    sick.write_log(updated_groups=())


@defect(Code.LOG_MOVED, specs=V2)
def move_not_in_the_log(sick: Sick) -> None:
    sick.write_log(sick.find("moved"), moved_nodes=())


@defect(Code.LOG_MOVED, specs=V2)
def move_to_somewhere_else(sick: Sick) -> None:
    moved = sick.find("moved")
    (move,) = sick.log(moved).moved_nodes
    sick.write_log(moved, moved_nodes=(replace(move, target="/g/x"),))


@defect(Code.LOG_CHUNKS)
def changed_chunk_not_in_the_log(sick: Sick) -> None:
    sick.write_log(updated_chunks={})


@defect(Code.LOG_UNKNOWN_NODE)
def log_of_an_unknown_node(sick: Sick) -> None:
    log = sick.log()
    sick.write_log(updated_arrays=(*log.updated_arrays, NodeId.random()))


# --- chunks ---


def chunk_of(sick: Sick, index: int = 0) -> str:
    """Key of a native chunk."""
    table = sick.manifest().table(sick.node("/a").id)
    assert table is not None
    ref = table.ref(table.find((index,)))
    assert isinstance(ref, NativeRef)
    return chunk_key(ref.chunk_id)


@defect(Code.CHUNK_MISSING)
def chunk_gone(sick: Sick) -> None:
    sick.delete(chunk_of(sick))


@defect(Code.CHUNK_SHORT)
def chunk_cut_off(sick: Sick) -> None:
    sick.storage.put(chunk_of(sick), b"short")


@defect(Code.CHUNK_DAMAGED, deep=True)
def chunk_of_another_length(sick: Sick) -> None:
    ref = sick.manifest().find(sick.node("/a").id, (0,))
    assert isinstance(ref, NativeRef)
    table = ChunkTable.from_refs(1, [((0,), replace(ref, length=5))])
    sick.write_manifest({sick.node("/a").id: table})


@defect(Code.CHUNK_CHANGED, deep=True)
def chunk_with_other_bytes_than_were_analyzed(sick: Sick) -> None:
    sick.repository.audit.analyze()
    blob = sick.storage.get(chunk_of(sick))
    assert blob is not None
    sick.storage.put(chunk_of(sick), blob[:-1] + bytes([blob[-1] ^ 1]))


@defect(Code.STATISTICS_DAMAGED, deep=True)
def statistics_that_cannot_be_read(sick: Sick) -> None:
    sick.storage.put(f"frazil/statistics/{'0' * 32}/a", b"nonsense")


@defect(Code.CHUNK_UNDECODED, deep=True)
def array_with_unknown_codecs(sick: Sick) -> None:
    document = array_document(64, chunks=(8,), dimension_names=["x"], codecs=[{"name": "secret"}])
    sick.write_node("/a", user_data=document)


# --- the repo object ---


@defect(Code.ENTRY_MISSING, specs=V2)
def repo_gone(sick: Sick) -> None:
    sick.delete(REPO_KEY)


@defect(Code.FILE_MAGIC, specs=V2)
def repo_is_garbage(sick: Sick) -> None:
    sick.storage.put(REPO_KEY, b"garbage" * 100)


@defect(Code.REPO_SPEC, specs=V2)
def repo_of_two_versions(sick: Sick) -> None:
    sick.header(REPO_KEY, 36, b"\x01")


@defect(Code.REPO_SPEC, specs=V2)
def repo_of_an_unknown_version(sick: Sick) -> None:
    root, _ = root_of(sick.get(REPO_KEY))
    at = root.at(0)
    assert at is not None
    sick.patch(REPO_KEY, at, b"\x07")


@defect(Code.MAIN_MISSING, specs=V2)
def branch_main_gone(sick: Sick) -> None:
    sick.write_info(branches={"dev": sick.info().branches["dev"]})


@defect(Code.REF_ORDER, specs=V2)
def branches_out_of_order(sick: Sick) -> None:
    tip = sick.tip
    sick.write_info(branches={"main": tip, "mbin": tip})
    sick.swap(REPO_KEY, b"\x04\0\0\0main\0", b"\x04\0\0\0mbin\0")


@defect(Code.REF_TARGET, specs=V2)
def branch_to_nowhere(sick: Sick) -> None:
    root, _ = root_of(sick.get(REPO_KEY))
    places = [at for table in root.tables(2) if (at := table.at(1)) is not None]
    sick.patch(REPO_KEY, places[0], struct.pack("<I", 99))


@defect(Code.TAG_DELETED, specs=V2)
def tag_there_and_deleted(sick: Sick) -> None:
    sick.write_info(deleted_tags=frozenset({"v1"}))


@defect(Code.SNAPSHOT_ORDER, specs=V2)
def listed_snapshots_out_of_order(sick: Sick) -> None:
    one, other, *_ = sick.info().snapshots
    sick.swap(REPO_KEY, bytes(one), bytes(other))


@defect(Code.SNAPSHOT_PARENT, specs=V2)
def parent_that_is_not_listed(sick: Sick) -> None:
    root, _ = root_of(sick.get(REPO_KEY))
    places = [at for table in root.tables(4) if (at := table.at(1)) is not None]
    sick.patch(REPO_KEY, places[0], struct.pack("<i", 99))


@defect(Code.STATUS_UNKNOWN, specs=V2)
def status_offline(sick: Sick) -> None:
    sick.write_info(status=StoredStatus(RepoAvailability.read_only, now_micros(), "why"))
    root, _ = root_of(sick.get(REPO_KEY))
    status = root.table(5)
    assert status is not None
    at = status.at(0)
    assert at is not None
    sick.patch(REPO_KEY, at, b"\x02")


@defect(Code.FLAG_ORDER, specs=V2)
def flag_on_and_off(sick: Sick) -> None:
    sick.write_info(
        enabled_feature_flags=frozenset({3, 4}), disabled_feature_flags=frozenset({4, 5})
    )


@defect(Code.FLAG_UNKNOWN, specs=V2)
def flag_of_the_future(sick: Sick) -> None:
    sick.write_info(enabled_feature_flags=frozenset({77}))


@defect(Code.CONFIG_DAMAGED, specs=V2)
def configuration_of_wrong_types(sick: Sick) -> None:
    sick.write_info(config={"inline_chunk_threshold_bytes": "many"})


@defect(Code.UPDATES_EMPTY, specs=V2)
def operations_log_empty(sick: Sick) -> None:
    sick.write_info(latest_updates=(), repo_before_updates=None)


@defect(Code.UPDATE_BACKUP, specs=V2)
def newest_line_with_backup(sick: Sick) -> None:
    newest, *older = sick.info().latest_updates
    sick.write_info(latest_updates=(replace(newest, backup_path="repo.0.X"), *older))


@defect(Code.UPDATE_TIME, specs=V2)
def lines_of_the_log_swapped(sick: Sick) -> None:
    newest, second, *older = sick.info().latest_updates
    early = replace(newest, updated_at=second.updated_at - 1)
    sick.write_info(latest_updates=(early, second, *older))


@defect(Code.UPDATE_UNKNOWN, specs=V2)
def line_of_an_unknown_kind(sick: Sick) -> None:
    root, _ = root_of(sick.get(REPO_KEY))
    at = next(iter(root.tables(7))).at(0)
    assert at is not None
    sick.patch(REPO_KEY, at, b"\x63")


@defect(Code.BACKUP_MISSING, specs=V2)
def backup_gone(sick: Sick) -> None:
    sick.write_info(repo_before_updates=backup_name(REPO_KEY, now_micros()))


@defect(Code.BACKUP_CHAIN, specs=V2)
def backup_damaged(sick: Sick) -> None:
    name = backup_name(REPO_KEY, now_micros())
    sick.storage.put(OVERWRITTEN + name, b"garbage")
    sick.write_info(repo_before_updates=name)


@defect(Code.BACKUP_CHAIN, specs=V2)
def backup_of_itself(sick: Sick) -> None:
    name = backup_name(REPO_KEY, now_micros())
    sick.write_info(repo_before_updates=name)
    sick.storage.put(OVERWRITTEN + name, sick.get(REPO_KEY))


@defect(Code.LEFTOVER_REFS, specs=V2)
def refs_of_version_1(sick: Sick) -> None:
    sick.storage.put("refs/branch.main/ref.json", b'{"snapshot":"1CECHNKREP0F1RSTCMT0"}')


# --- ref files ---

MAIN_FILE = "refs/branch.main/ref.json"


@defect(Code.MAIN_MISSING, specs=V1)
def main_file_gone(sick: Sick) -> None:
    sick.delete(MAIN_FILE)


@defect(Code.REF_DAMAGED, specs=V1)
def main_file_is_garbage(sick: Sick) -> None:
    sick.storage.put(MAIN_FILE, b"\0garbage")


@defect(Code.REF_DAMAGED, specs=V1)
def tag_file_names_nothing(sick: Sick) -> None:
    sick.storage.put("refs/tag.v1/ref.json", b'{"snapshot":"short"}')


@defect(Code.SNAPSHOT_MISSING, specs=V1)
def branch_to_an_unknown_snapshot(sick: Sick) -> None:
    sick.storage.put("refs/branch.dev/ref.json", f'{{"snapshot":"{SnapshotId.random()}"}}'.encode())


@defect(Code.REF_UNKNOWN, specs=V1)
def ref_of_an_unknown_kind(sick: Sick) -> None:
    sick.storage.put("refs/note.x/ref.json", b"{}")


@defect(Code.TOMBSTONE, specs=V1)
def tombstone_of_no_tag(sick: Sick) -> None:
    sick.storage.put("refs/tag.ghost/ref.json.deleted", b"")


@defect(Code.TOMBSTONE, specs=V1)
def tombstone_with_content(sick: Sick) -> None:
    sick.storage.put("refs/tag.gone/ref.json.deleted", b"x")


@defect(Code.CONFIG_DAMAGED, specs=V1)
def configuration_file_is_garbage(sick: Sick) -> None:
    sick.storage.put("config.yaml", b"caching: [1, 2")
