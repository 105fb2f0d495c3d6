"""Damaged snapshots, repo objects and values end in `FormatError`, quickly; never otherwise."""

from __future__ import annotations

import struct
import time
from collections.abc import Callable

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from frazil.errors import FormatError, InvalidInputError
from frazil.formats import flex
from frazil.formats.envelope import HEADER, MAGIC, FileKind, seal, unseal
from frazil.formats.ref_files import decode_ref
from frazil.formats.repo_info import decode_repo_info, encode_repo_info, snapshot_table
from frazil.formats.snapshot import decode_snapshot, encode_snapshot
from frazil.formats.zarr_meta import parse_node
from frazil.ids import ManifestId, NodeId, SnapshotId
from frazil.model.history import (
    ManifestFile,
    RepoAvailability,
    RepoInfo,
    Snapshot,
    SnapshotEntry,
    StoredStatus,
    UpdateEntry,
    UpdateLog,
    UpdateType,
    to_datetime,
)
from frazil.model.nodes import ArrayNode, Dimension, GroupNode, ManifestRef, Node
from tests.support.official_history import (
    INITIAL_REPO,
    INITIAL_SNAPSHOT_V1,
    REPO,
    SNAPSHOT_V1,
    SNAPSHOT_V2,
)

KEY = "damaged"
SECONDS = 5.0  # of work, not of waiting: a busy machine must not fail this
IDS = [SnapshotId(bytes([n]) * 12) for n in range(1, 5)]


def use_snapshot(blob: bytes) -> None:
    """Read all that a snapshot has to tell."""
    to_datetime(decode_snapshot(blob, key=KEY).flushed_at)


def use_repo(blob: bytes) -> None:
    """Read all that a repo object has to tell, and write it again."""
    info = decode_repo_info(blob, key=KEY)
    for entry in info.snapshots.entries():
        to_datetime(entry.flushed_at)
    for tip in info.branches.values():
        list(info.snapshots.ancestry(tip))
    for line in info.latest_updates:
        to_datetime(line.updated_at)
    encode_repo_info(info)


def sample_snapshot(spec: int) -> bytes:
    nodes: list[Node] = [
        GroupNode(NodeId(bytes(8)), "/", b"{}"),
        *(
            ArrayNode(
                NodeId(bytes([n]) * 8),
                f"/a{n}",
                b'{"node_type":"array"}',
                (Dimension(10, 5), Dimension(0, 0)),
                ("x", None) if n % 2 else None,
                (ManifestRef(ManifestId(bytes([n]) * 12), ((0, 5), (0, 0))),),
            )
            for n in range(3)
        ),
    ]
    files = tuple(ManifestFile(ManifestId(bytes([n]) * 12), 100, 5) for n in range(3))
    metadata = {"a": {"b": [1, 2.5, "x", None]}, "c": "text"}
    return encode_snapshot(
        Snapshot(IDS[0], IDS[1], tuple(nodes), 1, "message", metadata, files), spec=spec
    )


def sample_repo() -> bytes:
    entries = [
        SnapshotEntry(here, parent, 1, "message", {"k": [1, {"x": "y"}]}, tuple(IDS[:n]))
        for n, (here, parent) in enumerate(zip(IDS, [None, *IDS], strict=False))
    ]
    lines = [
        UpdateEntry(UpdateType.NewCommit("main", IDS[0]), 9),
        UpdateEntry(UpdateType.CommitAmended("main", IDS[0], IDS[1]), 8, "repo.1"),
        UpdateEntry(UpdateType.FeatureFlagChanged(3, None), 7, "repo.2"),
        UpdateEntry(
            UpdateType.RepoStatusChanged(StoredStatus(RepoAvailability.read_only, 1, "why")),
            6,
            "repo.3",
        ),
    ]
    info = RepoInfo(
        spec_version=2,
        tags={"t": IDS[2]},
        branches={"main": IDS[3]},
        deleted_tags=frozenset({"gone"}),
        snapshots=snapshot_table(entries),
        status=StoredStatus(RepoAvailability.online, 1, "reason"),
        metadata={"a": 1},
        latest_updates=UpdateLog.of(lines),
        repo_before_updates="repo.4",
        config={"a": {"b": None}},
        enabled_feature_flags=frozenset({1, 2}),
        disabled_feature_flags=frozenset(),
    )
    return encode_repo_info(info)


Use = Callable[[bytes], object]
SAMPLES: dict[str, tuple[bytes, FileKind, Use]] = {
    "snapshot 1": (sample_snapshot(1), FileKind.SNAPSHOT, use_snapshot),
    "snapshot 2": (sample_snapshot(2), FileKind.SNAPSHOT, use_snapshot),
    "official snapshot 1": (SNAPSHOT_V1, FileKind.SNAPSHOT, use_snapshot),
    "official snapshot 2": (SNAPSHOT_V2, FileKind.SNAPSHOT, use_snapshot),
    "official first snapshot": (INITIAL_SNAPSHOT_V1, FileKind.SNAPSHOT, use_snapshot),
    "repo": (sample_repo(), FileKind.REPO_INFO, use_repo),
    "official repo": (REPO, FileKind.REPO_INFO, use_repo),
    "official first repo": (INITIAL_REPO, FileKind.REPO_INFO, use_repo),
}


def failure(use: Use, blob: bytes) -> FormatError | None:
    """Use a file that may be damaged; the only way to fail is this error."""
    try:
        use(blob)
    except FormatError as error:
        return error
    return None


def survives(use: Use, blob: bytes) -> None:
    """Use a file; the only acceptable failure is a quick error that tells where or why."""
    begin = time.process_time()
    error = failure(use, blob)
    assert time.process_time() - begin < SECONDS
    assert error is None or KEY in str(error) or "newer library" in str(error)


@pytest.mark.parametrize("name", SAMPLES)
def test_every_truncation_of_the_file_is_refused(name: str) -> None:
    blob, _, use = SAMPLES[name]
    for size in range(0, len(blob) - 1, 3):
        with pytest.raises(FormatError):
            use(blob[:size])


@pytest.mark.parametrize("name", SAMPLES)
def test_every_truncation_of_the_body_is_survived(name: str) -> None:
    blob, kind, use = SAMPLES[name]
    body = unseal(blob, kind, key=KEY).body
    for size in range(0, len(body), 7):
        survives(use, seal(body[:size], kind, spec=blob[36]))


@pytest.mark.parametrize("name", SAMPLES)
def test_every_byte_of_the_body_may_be_wrong(name: str) -> None:
    blob, kind, use = SAMPLES[name]
    body = unseal(blob, kind, key=KEY).body
    for at, byte in enumerate(body):
        value = (0x00, 0x7F, 0xFF, byte ^ 1)[at % 4 ^ at // 4 % 4]
        survives(use, seal(body[:at] + bytes([value]) + body[at + 1 :], kind, spec=blob[36]))


@given(
    st.sampled_from(sorted(SAMPLES)),
    st.lists(st.tuples(st.integers(0, 2**16), st.integers(0, 255)), min_size=1, max_size=8),
)
def test_several_bytes_may_be_wrong(name: str, changes: list[tuple[int, int]]) -> None:
    blob, kind, use = SAMPLES[name]
    body = bytearray(unseal(blob, kind, key=KEY).body)
    for at, value in changes:
        body[at % len(body)] = value
    survives(use, seal(bytes(body), kind, spec=blob[36]))


@given(
    st.sampled_from(sorted(SAMPLES)),
    st.integers(0, 2**16),
    st.sampled_from([0, 1, 4, 8, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFC, 0xFFFFFFFF]),
)
def test_any_length_or_offset_may_be_wrong(name: str, place: int, value: int) -> None:
    blob, kind, use = SAMPLES[name]
    body = bytearray(unseal(blob, kind, key=KEY).body)
    at = place % (len(body) // 4) * 4
    body[at : at + 4] = struct.pack("<I", value)
    survives(use, seal(bytes(body), kind, spec=blob[36]))


@given(st.sampled_from(sorted(SAMPLES)), st.binary(max_size=300))
def test_rubbish_in_a_valid_envelope_is_refused(name: str, body: bytes) -> None:
    blob, kind, use = SAMPLES[name]
    with pytest.raises(FormatError):
        use(seal(body, kind, spec=blob[36]))


@given(st.binary(max_size=200))
def test_rubbish_without_envelope_is_refused(blob: bytes) -> None:
    for _, _, use in SAMPLES.values():
        with pytest.raises(FormatError):
            use(blob)


@given(st.binary(max_size=100))
def test_any_bytes_may_pose_as_a_value(raw: bytes) -> None:
    survives(lambda blob: flex.loads(blob, key=KEY), raw)


@given(st.data())
def test_damaged_values_are_survived(data: st.DataObject) -> None:
    raw = bytearray(flex.dumps({"a": [1, "x", {"b": [1.5, -300, "é" * 9]}], "t": [True, False]}))
    for _ in range(data.draw(st.integers(1, 4))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    survives(lambda blob: flex.loads(blob, key=KEY), bytes(raw))


@given(st.binary(max_size=100) | st.text().map(str.encode))
def test_any_bytes_may_pose_as_a_ref(raw: bytes) -> None:
    survives(lambda blob: str(decode_ref(blob, key=KEY)), raw)


@given(st.binary(max_size=100) | st.text().map(str.encode))
def test_any_bytes_may_be_set_as_metadata(raw: bytes) -> None:
    with pytest.raises(InvalidInputError):
        parse_node(raw, spec=2)


def bomb(size: int) -> bytes:
    """A frame of zeros that is far smaller than what it unpacks to, and does not say so."""
    packer = zstandard.ZstdCompressor(level=3, write_content_size=False).compressobj()
    block = bytes(1 << 20)
    parts = [packer.compress(block) for _ in range(size >> 20)]
    return b"".join([*parts, packer.flush()])


@pytest.mark.parametrize("name", ["snapshot 2", "repo"])
def test_a_body_of_nothing_but_zeros_is_refused_in_time(name: str) -> None:
    blob, kind, use = SAMPLES[name]
    head = HEADER.pack(MAGIC, b"x" * 24, 2, kind, 1)
    begin = time.process_time()
    with pytest.raises(FormatError):
        use(head + bomb(64 << 20))
    assert time.process_time() - begin < SECONDS
    assert blob[:12] == MAGIC


def shared_nodes(count: int, document: int) -> bytes:
    """A snapshot whose nodes all use the same long document."""
    nodes = tuple(GroupNode(NodeId(bytes(8)), f"/{n:06d}", b"") for n in range(count))
    blob = encode_snapshot(Snapshot(IDS[0], None, nodes, 1, "", {}, ()), spec=2)
    body = unseal(blob, FileKind.SNAPSHOT, key=KEY).body
    # The texts stand behind the tables, so a long vector at the very end can be reached by all.
    long = len(body)
    patched = bytearray(body + struct.pack("<I", document) + bytes(document))
    position = struct.unpack_from("<I", body)[0]
    vtable = position - struct.unpack_from("<i", body, position)[0]
    field = position + struct.unpack_from("<H", body, vtable + 4 + 4)[0]
    vector = field + struct.unpack_from("<I", body, field)[0]
    for n in range(count):
        at = vector + 4 + 4 * n
        node = at + struct.unpack_from("<I", body, at)[0]
        own = node - struct.unpack_from("<i", body, node)[0]
        place = node + struct.unpack_from("<H", body, own + 4 + 4)[0]
        struct.pack_into("<I", patched, place, long - place)
    return seal(bytes(patched), FileKind.SNAPSHOT, spec=2)


def test_one_document_shared_by_a_few_nodes_is_fine() -> None:
    found = decode_snapshot(shared_nodes(20, 1000), key=KEY)
    assert all(node.user_data == bytes(1000) for node in found.nodes)


def test_one_long_document_shared_by_everybody_is_refused() -> None:
    with pytest.raises(FormatError, match="too often"):
        decode_snapshot(shared_nodes(2000, 10_000_000), key=KEY)
