"""Snapshot files: official ones, both specs, order, and what is refused."""

from __future__ import annotations

from dataclasses import replace

import pytest

from frazil.errors import ErrorKind, FormatError, InvalidInputError
from frazil.flatbuf.reader import Buffer
from frazil.formats.envelope import FileKind, seal, unseal
from frazil.formats.manifest import encode_manifest
from frazil.formats.snapshot import decode_snapshot, encode_snapshot, manifest_files, snapshot_links
from frazil.ids import INITIAL_SNAPSHOT_ID, ManifestId, NodeId, SnapshotId
from frazil.model.history import MAX_MICROS, ManifestFile, Snapshot
from frazil.model.nodes import ArrayNode, Dimension, GroupNode, ManifestRef, Node
from tests.support.official_history import (
    INITIAL_SNAPSHOT_V1,
    INITIAL_SNAPSHOT_V2,
    SNAPSHOT_V1,
    SNAPSHOT_V2,
)

KEY = "snapshots/TEST"
PARENT = SnapshotId(b"p" * 12)


def array(path: str, *shape: tuple[int, int], number: int = 1) -> ArrayNode:
    """An array with one manifest that covers all of it."""
    return ArrayNode(
        NodeId(bytes([number]) * 8),
        path,
        f'{{"node_type":"array","n":{number}}}'.encode(),
        tuple(Dimension(*pair) for pair in shape),
        tuple(f"d{axis}" if axis % 2 else None for axis in range(len(shape))),
        (ManifestRef(ManifestId(bytes([number]) * 12), tuple((0, n) for _, n in shape)),),
    )


def snapshot(*nodes: Node) -> Snapshot:
    files = sorted(
        {ref.id for node in nodes if isinstance(node, ArrayNode) for ref in node.manifests}
    )
    return Snapshot(
        id=SnapshotId(b"s" * 12),
        parent_id=PARENT,
        nodes=nodes,
        flushed_at=1_794_767_965_852_080,
        message="a mëssage",
        metadata={"b": [1, {"c": None}], "a": 1.5},
        manifest_files=tuple(ManifestFile(file, 2**33, 7) for file in files),
    )


SAMPLE = snapshot(
    GroupNode(NodeId(bytes(8)), "/", b'{"node_type":"group"}'),
    array("/a", (6, 3)),
    array("/a b", (0, 0), (10, 4), number=2),
    array("/a-x", number=3),
    array("/a/b", (2**40, 2**31), number=4),
    GroupNode(NodeId(b"g" * 8), "/é", b"{}"),
)


def test_the_first_snapshot_of_the_official_package_is_read() -> None:
    found = decode_snapshot(INITIAL_SNAPSHOT_V2, key=KEY)
    assert found == Snapshot(
        id=INITIAL_SNAPSHOT_ID,
        parent_id=None,
        nodes=(),
        flushed_at=1794767063152483,
        message="Repository initialized",
        metadata={"__icechunk": {"is_root": True}},
        manifest_files=(),
    )


def test_the_first_snapshot_of_the_old_official_package_is_read() -> None:
    found = decode_snapshot(INITIAL_SNAPSHOT_V1, key=KEY)
    assert found.id == INITIAL_SNAPSHOT_ID
    assert found.flushed_at == 1794767063698215
    assert found.metadata == {"__root": True}


def test_an_official_commit_is_read() -> None:
    found = decode_snapshot(SNAPSHOT_V2, key=KEY)
    root, line = found.nodes
    manifest = ManifestId.parse("J4VJ0JNPN7ZFBWZE92EG")
    assert found.id == SnapshotId.parse("4RVH1XD2RC4ZMT33B910")
    assert found.parent_id is None
    assert (found.flushed_at, found.message, found.metadata) == (1794767965852080, "m", {"k": 1})
    assert root == GroupNode(NodeId.parse("4NKSHY1NTYD16"), "/", b'{"node_type":"group"}')
    assert isinstance(line, ArrayNode)
    assert (line.id, line.path) == (NodeId.parse("NT8VBT01SHYNT"), "/a")
    assert (line.shape, line.dimension_names) == ((Dimension(6, 3),), ("x",))
    assert line.manifests == (ManifestRef(manifest, ((0, 3),)),)
    assert found.manifest_files == (ManifestFile(manifest, 238, 3),)


def test_an_official_commit_of_the_old_package_is_read() -> None:
    found = decode_snapshot(SNAPSHOT_V1, key=KEY)
    line = found.nodes[1]
    assert found.id == SnapshotId.parse("WZZ9WA54H7X826JPH5X0")
    assert found.parent_id == INITIAL_SNAPSHOT_ID
    assert found.metadata == {"k": 1}
    assert isinstance(line, ArrayNode)
    assert line.shape == (Dimension(6, 3),)
    assert found.manifest_files == (ManifestFile(ManifestId.parse("WPP1J9QRT23MGRHSEE5G"), 230, 3),)


@pytest.mark.parametrize(
    ("official", "spec"),
    [(INITIAL_SNAPSHOT_V1, 1), (INITIAL_SNAPSHOT_V2, 2), (SNAPSHOT_V1, 1), (SNAPSHOT_V2, 2)],
)
def test_official_snapshots_survive_being_written_again(official: bytes, spec: int) -> None:
    found = decode_snapshot(official, key=KEY)
    assert decode_snapshot(encode_snapshot(found, spec=spec), key=KEY) == found


def test_spec_2_keeps_all_but_the_parent() -> None:
    again = decode_snapshot(encode_snapshot(SAMPLE, spec=2), key=KEY)
    assert again == replace(SAMPLE, parent_id=None)


def test_spec_1_keeps_all() -> None:
    assert decode_snapshot(encode_snapshot(SAMPLE, spec=1), key=KEY) == SAMPLE


def test_nodes_given_in_any_order_are_stored_in_order() -> None:
    shuffled = replace(SAMPLE, nodes=SAMPLE.nodes[::-1])
    assert decode_snapshot(encode_snapshot(shuffled, spec=1), key=KEY) == SAMPLE


def test_spec_2_files_have_the_empty_vectors_that_old_readers_require() -> None:
    root = Buffer(
        unseal(encode_snapshot(SAMPLE, spec=2), FileKind.SNAPSHOT, key=KEY).body, KEY
    ).root()
    node = list(root.tables(2))[1].table(4)
    assert root.structs(6, 32, "manifest_files") == []
    assert node is not None
    assert node.structs(0, 16, "shape") == []


def test_chunks_of_unequal_length_do_not_fit_into_spec_1() -> None:
    uneven = snapshot(array("/a", (5, 4)))
    with pytest.raises(FormatError) as caught:
        encode_snapshot(uneven, spec=1)
    assert caught.value.kind == ErrorKind.SERIALIZATION
    assert caught.value.facts["path"] == "/a"


def test_metadata_that_is_not_json_is_refused_in_both_specs() -> None:
    for spec in (1, 2):
        with pytest.raises(InvalidInputError):
            encode_snapshot(replace(SAMPLE, metadata={"x": object()}), spec=spec)


def test_an_empty_dimension_name_is_none() -> None:
    node = replace(array("/a", (1, 1)), dimension_names=("",))
    found = decode_snapshot(encode_snapshot(snapshot(node), spec=2), key=KEY).nodes[0]
    assert isinstance(found, ArrayNode)
    assert found.dimension_names == (None,)


def damaged(spec: int, old: bytes, new: bytes) -> bytes:
    """The sample with some bytes replaced, sealed again."""
    body = unseal(encode_snapshot(SAMPLE, spec=spec), FileKind.SNAPSHOT, key=KEY).body
    assert body.count(old) == 1
    return seal(body.replace(old, new), FileKind.SNAPSHOT, spec=spec)


def test_nodes_out_of_order_are_refused() -> None:
    with pytest.raises(FormatError, match="order"):
        decode_snapshot(damaged(2, b"/a-x\0", b"/zzz\0"), key=KEY)


def test_the_same_path_twice_is_refused() -> None:
    with pytest.raises(FormatError, match="order"):
        decode_snapshot(damaged(2, b"/a-x\0", b"/a/b\0"), key=KEY)


@pytest.mark.parametrize("path", [b"/a/.", b"/a//", b"/a/\xff", b"aa/b"])
def test_impossible_paths_are_refused(path: bytes) -> None:
    with pytest.raises(FormatError):
        decode_snapshot(damaged(2, b"/a/b\0", path.ljust(5, b"\0")), key=KEY)


def test_the_last_time_there_is_can_be_read_and_none_after_it() -> None:
    last = replace(SAMPLE, flushed_at=MAX_MICROS)
    assert decode_snapshot(encode_snapshot(last, spec=1), key=KEY) == last
    later = replace(SAMPLE, flushed_at=MAX_MICROS + 1)
    with pytest.raises(FormatError, match="impossible time"):
        decode_snapshot(encode_snapshot(later, spec=1), key=KEY)


@pytest.mark.parametrize("count", range(1, 10))
def test_sizes_of_manifests_are_where_official_readers_want_them(count: int) -> None:
    """In spec 1 they are numbers of eight bytes in a row, and begin at a multiple of that."""
    many = snapshot(*(array(f"/a{number}", (6, 3), number=number) for number in range(count)))
    body = unseal(encode_snapshot(many, spec=1), FileKind.SNAPSHOT, key=KEY).body
    start, _ = Buffer(body, KEY).root().required_vector(6, 32, "manifest_files")
    assert start % 8 == 0


def test_another_kind_of_file_is_refused() -> None:
    body = unseal(SNAPSHOT_V2, FileKind.SNAPSHOT, key=KEY).body
    with pytest.raises(FormatError, match="another kind"):
        decode_snapshot(seal(body, FileKind.MANIFEST, spec=2), key=KEY)


def test_ten_thousand_arrays_take_little_time_and_little_room() -> None:
    nodes = [
        array(f"/group/{n:05d}", (100, 10), (200, 20), (5, 1), number=n % 256)
        for n in range(10_000)
    ]
    big = snapshot(*nodes)
    blob = encode_snapshot(big, spec=2)
    assert decode_snapshot(blob, key=KEY).nodes == big.nodes
    assert len(blob) < 1_000_000


# --- links alone ---

FILES = tuple(sorted((ManifestFile(ManifestId.random(), 9, n) for n in range(5)), key=repr))


def snapshot_file(spec: int, files: tuple[ManifestFile, ...] = FILES) -> bytes:
    root = GroupNode(NodeId(bytes(8)), "/", b"{}")
    parent = SnapshotId.random() if spec == 1 else None
    made = Snapshot(SnapshotId.random(), parent, (root,), 77, "née", {"a": [1]}, files)
    return encode_snapshot(made, spec=spec)


@pytest.mark.parametrize("spec", [1, 2])
@pytest.mark.parametrize("files", [FILES, ()])
def test_reading_only_links_gives_what_reading_everything_gives(
    spec: int, files: tuple[ManifestFile, ...]
) -> None:
    blob = snapshot_file(spec, files)
    whole = decode_snapshot(blob, key="s")
    assert manifest_files(blob, key="s") == whole.manifest_files
    entry, found = snapshot_links(blob, key="s")
    assert found == whole.manifest_files
    assert (entry.id, entry.parent_id, entry.flushed_at) == (whole.id, whole.parent_id, 77)
    assert (entry.message, entry.metadata) == ("née", {"a": [1]})


@pytest.mark.parametrize("size", range(0, 150, 7))
def test_a_truncated_file_has_no_links(size: int) -> None:
    with pytest.raises(FormatError, match="key=s"):
        manifest_files(snapshot_file(2)[:size], key="s")
    with pytest.raises(FormatError, match="key=s"):
        snapshot_links(snapshot_file(1)[:size], key="s")


def test_other_files_have_no_links() -> None:
    with pytest.raises(FormatError, match="another kind"):
        manifest_files(encode_manifest(ManifestId.random(), {}, spec=2), key="s")
