"""Damaged manifests and logs end in `FormatError`, quickly; never in another error."""

from __future__ import annotations

import struct
from contextlib import suppress

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from frazil.errors import FormatError
from frazil.flatbuf.reader import Buffer
from frazil.formats.envelope import FileKind, seal, unseal
from frazil.formats.manifest import Manifest, decode_manifest, encode_manifest
from frazil.formats.txlog import decode_log, encode_log
from frazil.ids import ChunkId, ManifestId, NodeId, SnapshotId
from frazil.model.chunks import ChunkRef, ChunkTable, InlineRef, NativeRef, VirtualRef
from frazil.model.history import Move, TransactionLog
from frazil.model.nodes import Coordinates
from tests.support.effort import at_most
from tests.support.manifests import Compression, search_bytes
from tests.support.official_files import LOG_V1, LOG_V2, MANIFEST_V1, MANIFEST_V2

KEY = "damaged"
CALLS = 100_000
"""So much is never needed to read these files."""


def sample_manifest(*, packed: bool) -> bytes:
    """Two arrays with every kind of reference, in several layouts."""
    refs: dict[Coordinates, ChunkRef] = {}
    for i in range(40):
        location = f"s3://bucket/prefix/{i // 4:04d}.nc"
        kinds: list[ChunkRef] = [
            NativeRef(ChunkId(bytes([i]) * 12), i, 1000),
            VirtualRef(location, i, 10),
            VirtualRef(location, i, 10, f"etag-{i}"),
            VirtualRef(location, i, 10, 1_700_000_000),
            InlineRef(bytes(i)),
        ]
        refs[(i // 7, i % 7)] = kinds[i % 5]
    arrays = {
        NodeId(b"array--1"): ChunkTable.from_refs(2, refs.items()),
        NodeId(b"array--2"): ChunkTable.from_refs(0, [((), InlineRef(b"v"))]),
    }
    settings = Compression() if packed else None
    return encode_manifest(ManifestId(12), arrays, spec=2, compress_locations=settings)


def sample_log() -> bytes:
    """A log with chunks of several arrays and a move."""
    node = NodeId(b"array--1")
    coords = np.array([[i // 5, i % 5] for i in range(30)], np.uint32)
    log = TransactionLog(
        SnapshotId(12),
        new_arrays=(node,),
        updated_chunks={node: coords, NodeId(b"array--2"): coords[:1, :0]},
        moved_nodes=(Move("/a", "/b", node, is_array=True),),
    )
    return encode_log(log, spec=2)


MANIFESTS = (
    sample_manifest(packed=False),
    sample_manifest(packed=True),
    MANIFEST_V2,
    MANIFEST_V1,
)
LOGS = (sample_log(), LOG_V2, LOG_V1)
FILES = [(FileKind.MANIFEST, blob) for blob in MANIFESTS]
FILES += [(FileKind.TRANSACTION_LOG, blob) for blob in LOGS]
BODIES = [(kind, unseal(blob, kind, key=KEY).body) for kind, blob in FILES]


def read_all(kind: FileKind, blob: bytes) -> None:
    """Look at everything a file holds, in every way there is."""
    if kind == FileKind.TRANSACTION_LOG:
        decode_log(blob, key=KEY)
        return
    manifest = decode_manifest(blob, key=KEY)
    for node in manifest.nodes():
        for coords in ((), (0,), (2,), (0, 0), (3, 3)):
            with suppress(FormatError):
                search_bytes(blob, node, coords, key=KEY)
    for _, table in manifest.tables():
        list(table.refs())
        list(table.locations)


def survive(kind: FileKind, blob: bytes) -> None:
    """Read a file that may be damaged: a result or a `FormatError` naming the file."""
    problem: FormatError | None = None
    try:
        with at_most(CALLS):
            read_all(kind, blob)
    except FormatError as error:
        problem = error
    assert problem is None or problem.facts["key"] == KEY


@pytest.mark.parametrize(("kind", "blob"), FILES)
def test_truncated_files(kind: FileKind, blob: bytes) -> None:
    for length in range(0, len(blob), 1 + len(blob) // 200):
        with pytest.raises(FormatError):
            read_all(kind, blob[:length])


@pytest.mark.parametrize(("kind", "body"), BODIES)
def test_truncated_bodies(kind: FileKind, body: bytes) -> None:
    for length in range(0, len(body), 1 + len(body) // 300):
        survive(kind, seal(body[:length], kind, spec=2))


@given(st.sampled_from(BODIES), st.lists(st.tuples(st.integers(0), st.integers(0, 7)), min_size=1))
def test_flipped_bits(target: tuple[FileKind, bytes], flips: list[tuple[int, int]]) -> None:
    kind, body = target
    damaged = bytearray(body)
    for place, bit in flips:
        damaged[place % len(damaged)] ^= 1 << bit
    survive(kind, seal(bytes(damaged), kind, spec=2))


WORDS = st.one_of(
    st.integers(0, 2**32 - 1),
    st.sampled_from([0, 1, 4, 0xFFFF, 2**31 - 1, 2**31, 2**32 - 4, 2**32 - 1]),
)


@given(st.sampled_from(BODIES), st.lists(st.tuples(st.integers(0), WORDS), min_size=1, max_size=3))
def test_wild_offsets_and_lengths(
    target: tuple[FileKind, bytes], words: list[tuple[int, int]]
) -> None:
    kind, body = target
    damaged = bytearray(body)
    for place, word in words:
        struct.pack_into("<I", damaged, place % (len(damaged) // 4) * 4, word)
    survive(kind, seal(bytes(damaged), kind, spec=2))


@pytest.mark.parametrize(("kind", "body"), BODIES)
def test_every_word_made_huge_and_zero(kind: FileKind, body: bytes) -> None:
    for at in range(0, len(body) - 3, 4 * (1 + len(body) // 1200)):
        for word in (0, 0xFFFFFFFF):
            damaged = bytearray(body)
            struct.pack_into("<I", damaged, at, word)
            survive(kind, seal(bytes(damaged), kind, spec=2))


@given(st.sampled_from([FileKind.MANIFEST, FileKind.TRANSACTION_LOG]), st.binary(max_size=300))
def test_arbitrary_bytes(kind: FileKind, body: bytes) -> None:
    survive(kind, seal(body, kind, spec=1))


@pytest.mark.parametrize("blob", MANIFESTS)
def test_body_at_an_odd_place_is_read_all_the_same(blob: bytes) -> None:
    body = unseal(blob, FileKind.MANIFEST, key=KEY).body
    for shift in (1, 2, 3):
        shifted = memoryview(bytes(shift) + body)[shift:]
        found = Manifest.lazily(2, Buffer(shifted, KEY))
        for node, table in decode_manifest(blob, key=KEY).tables():
            moved = found.table(node)
            assert moved is not None
            assert list(moved.refs()) == list(table.refs())


def test_one_table_listed_a_million_times() -> None:
    """A short file must not make a million references of the same few bytes."""
    kind, body = BODIES[2]
    root = Buffer(body, KEY).root()
    array = next(root.tables(1))
    at = array.at(1)
    assert at is not None
    start, _ = array.required_vector(1, 4, "refs")
    first = start + struct.unpack_from("<I", body, start)[0]
    count = 1_000_000
    table = body[first - 64 : first + 128]
    base = len(body) + 4 + 4 * count
    offsets = base + 64 - (len(body) + 4 + 4 * np.arange(count))
    bomb = bytearray(body) + struct.pack("<I", count) + offsets.astype("<u4").tobytes() + table
    struct.pack_into("<I", bomb, at, len(body) - at)
    with pytest.raises(FormatError):
        read_all(kind, seal(bytes(bomb), kind, spec=2))


def test_one_long_text_reached_from_overlapping_places() -> None:
    """Texts that overlap must not add up to more than the file."""
    n = 3000
    coords = np.arange(n).reshape(-1, 1).astype(np.uint32)
    texts = [f"s3://bucket/{i:05d}" for i in range(n)]
    table = ChunkTable.virtual(coords, np.arange(n, dtype=np.int32), texts, 0, 1)
    blob = encode_manifest(ManifestId(12), {NodeId(8): table}, spec=2)
    body = bytearray(unseal(blob, FileKind.MANIFEST, key=KEY).body)
    for i in range(n):
        # Every text now claims to reach nearly to the end of the file.
        at = body.index(texts[i].encode()) - 4
        struct.pack_into("<I", body, at, len(body) - at - 4)
    with pytest.raises(FormatError, match="overlapping"):
        read_all(FileKind.MANIFEST, seal(bytes(body), FileKind.MANIFEST, spec=2))
