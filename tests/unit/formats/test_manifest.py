"""Manifests: official files, every kind of reference, dictionaries, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

from frazil.errors import ErrorKind, FormatError
from frazil.flatbuf import writer as flat_writer
from frazil.flatbuf.reader import Buffer
from frazil.flatbuf.strided import encode_tables
from frazil.flatbuf.writer import FlatWriter
from frazil.formats import manifest as manifests
from frazil.formats.envelope import FileKind, seal, seal_table, unseal
from frazil.formats.manifest import (
    MANIFEST,
    Manifest,
    decode_manifest,
    encode_manifest,
    native_chunk_ids,
)
from frazil.ids import ChunkId, ManifestId, NodeId
from frazil.model.chunks import (
    ChunkRef,
    ChunkTable,
    InlineRef,
    NativeRef,
    StringPool,
    VirtualRef,
)
from frazil.model.combining import overlay
from frazil.model.nodes import Coordinates
from tests.support.manifests import Compression
from tests.support.official_files import MANIFEST_V1, MANIFEST_V2
from tests.unit.formats.samples import ID, KEY, NODE, OTHER, VARIETY, manifest_of, refs_of, table_of


class TestOfficialFiles:
    @pytest.mark.parametrize(
        ("blob", "spec", "id", "node", "chunk"),
        [
            (MANIFEST_V2, 2, "J4VJ0JNPN7ZFBWZE92EG", "NT8VBT01SHYNT", "FD6E7AMM62HNA9W8C9F0"),
            (MANIFEST_V1, 1, "WPP1J9QRT23MGRHSEE5G", "N8MQ36MAXNGJT", "9ET24SWVRMNAKZKQD5YG"),
        ],
    )
    def test_all_kinds_of_references_are_read(
        self, blob: bytes, spec: int, id: str, node: str, chunk: str
    ) -> None:
        manifest = decode_manifest(blob, key=KEY)
        assert (str(manifest.id), manifest.spec, manifest.num_refs) == (id, spec, 3)
        assert [str(n) for n in manifest.nodes()] == [node]
        expected = {
            (0,): InlineRef(b"AB"),
            (1,): VirtualRef("s3://bkt/k.nc", 16, 2, "etag1"),
            (2,): NativeRef(ChunkId.parse(chunk), 0, 600),
        }
        assert {c: manifest.find(NodeId.parse(node), c) for c in expected} == expected
        assert refs_of(manifest, NodeId.parse(node)) == expected


def body_of(blob: bytes) -> Buffer:
    return Buffer(unseal(blob, FileKind.MANIFEST, key=KEY).body, KEY)


class TestRoundTrip:
    @pytest.mark.parametrize("spec", [1, 2])
    @pytest.mark.parametrize("compression", [None, Compression()])
    def test_every_kind_in_one_table(self, spec: int, compression: Compression | None) -> None:
        blob = encode_manifest(
            ID, {NODE: table_of(VARIETY)}, spec=spec, compress_locations=compression
        )
        manifest = decode_manifest(blob, key=KEY)
        assert (manifest.id, manifest.spec, manifest.num_refs) == (ID, spec, len(VARIETY))
        assert refs_of(manifest) == VARIETY

    def test_several_arrays_of_different_rank_ascend_by_node(self) -> None:
        scalar: dict[Coordinates, ChunkRef] = {(): InlineRef(b"v")}
        blob = encode_manifest(ID, {OTHER: table_of(scalar, 0), NODE: table_of(VARIETY)}, spec=2)
        manifest = decode_manifest(blob, key=KEY)
        assert manifest.nodes() == (NODE, OTHER)
        assert refs_of(manifest, OTHER) == scalar
        assert refs_of(manifest, NODE) == VARIETY
        assert manifest.table(NodeId(b"stranger")) is None
        assert manifest.find(NodeId(b"stranger"), (0,)) is None

    def test_no_array_and_no_reference(self) -> None:
        assert decode_manifest(encode_manifest(ID, {}, spec=2), key=KEY).nodes() == ()
        blob = encode_manifest(ID, {NODE: ChunkTable.empty(2)}, spec=2)
        manifest = decode_manifest(blob, key=KEY)
        assert manifest.num_refs == 0
        assert manifest.find(NODE, (0, 0)) is None

    def test_manifest_made_of_tables_needs_no_file(self) -> None:
        manifest = Manifest(ID, 2, {NODE: table_of(VARIETY)})
        assert manifest.nodes() == (NODE,)
        assert manifest.num_refs == len(VARIETY)
        assert manifest.find(NODE, (0, 0)) == InlineRef(b"tiny")

    def test_plain_locations_are_marked_in_spec_2_and_unmarked_in_spec_1(self) -> None:
        table = ChunkTable.from_refs(1, [((0,), VirtualRef("s3://b/k", 0, 1))])
        second = body_of(encode_manifest(ID, {NODE: table}, spec=2)).root()
        first = body_of(encode_manifest(ID, {NODE: table}, spec=1)).root()
        assert second.byte(3, default=1) == 0
        assert first.at(3) is None


class TestRefusals:
    def refuse(self, blob: bytes, problem: str) -> None:
        with pytest.raises(FormatError, match=problem) as caught:
            list(decode_manifest(blob, key=KEY).tables())
        assert caught.value.facts["key"] == KEY
        assert caught.value.kind == ErrorKind.INVALID_FILE_FORMAT

    def test_arrays_out_of_order(self) -> None:
        part = encode_tables(np.zeros((0, 1), np.uint32))
        self.refuse(manifest_of((OTHER, part), (NODE, part)), "ascending")
        self.refuse(manifest_of((NODE, part), (NODE, part)), "ascending")

    def test_another_kind_of_file(self) -> None:
        with pytest.raises(FormatError, match="another kind"):
            decode_manifest(seal(b"", FileKind.SNAPSHOT, spec=2), key=KEY)

    def test_missing_required_fields(self) -> None:
        self.refuse(manifest_of(id=None), "required field id")
        writer = FlatWriter()
        blob = seal_table(writer, writer.table(MANIFEST, bytes(ID)), FileKind.MANIFEST, spec=2)
        self.refuse(blob, "field arrays")

    def test_too_many_references_ask_for_a_split(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(flat_writer, "MAX_SIZE", 100_000)
        rows = np.arange(3000)
        coords = rows.reshape(-1, 1).astype(np.uint32)
        ids = np.zeros((3000, 12), np.uint8)
        with pytest.raises(FormatError, match="split the manifests") as caught:
            encode_manifest(ID, {NODE: ChunkTable.native(coords, ids, 0, 1)}, spec=2)
        assert caught.value.kind == ErrorKind.SERIALIZATION

    def test_one_long_location_counts_for_every_row(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(flat_writer, "MAX_SIZE", 100_000)
        coords = np.arange(200).reshape(-1, 1).astype(np.uint32)
        numbers = np.zeros(200, np.int32)
        table = ChunkTable.virtual(coords, numbers, ["s3://b/" + "x" * 600], 0, 1)
        with pytest.raises(FormatError, match="split the manifests"):
            encode_manifest(ID, {NODE: table}, spec=2)


# --- changed in their bytes, they hold what manifests made anew would hold ---

NEW_KEY = "manifests/NEW"
NEW = ManifestId(range(1, 13))
SIDE = 200
CHANGES: dict[Coordinates, ChunkRef] = {
    (0, 0): VirtualRef("s3://other/é.nc", 7, 70, "tag"),
    (3, 4): InlineRef(b"bytes"),
    (100, 199): NativeRef(ChunkId(range(12)), 5, 6),
    (199, 199): VirtualRef("s3://bucket/file-3.nc", 2**40, 8, 1_700_000_000),
}


def many_references() -> ChunkTable:
    """40,000 virtual references to 50 files."""
    coords = np.indices((SIDE, SIDE)).reshape(2, -1).T.astype(np.uint32)
    files = StringPool.of([f"s3://bucket/file-{n}.nc" for n in range(50)])
    number = (coords[:, 0] // 4).astype(np.int32)
    return ChunkTable.virtual(coords, number, files, np.arange(len(coords)), 100)


def opened(compression: Compression | None = None) -> Manifest:
    blob = encode_manifest(ID, {NODE: many_references()}, spec=2, compress_locations=compression)
    return decode_manifest(blob, key=KEY)


def no_coords() -> np.ndarray[tuple[int, int], np.dtype[np.uint32]]:
    return np.zeros((0, 2), np.uint32)


def test_some_references_are_exchanged_and_all_others_stay() -> None:
    changes = ChunkTable.from_refs(2, CHANGES.items())
    manifest = opened().patched(NEW, NODE, changes, key=NEW_KEY)
    assert manifest is not None
    again = decode_manifest(manifest.seal(spec=2), key=KEY)
    assert (again.id, again.nodes(), again.num_refs) == (NEW, (NODE,), SIDE * SIDE)
    for coords, ref in CHANGES.items():
        assert again.find(NODE, coords) == ref
    found = again.table(NODE)
    assert found is not None
    assert list(found.refs()) == list(overlay(many_references(), changes, no_coords()).refs())


def test_a_patched_manifest_can_be_patched_again() -> None:
    manifest = opened()
    for number, (coords, ref) in enumerate(CHANGES.items(), 1):
        id_ = ManifestId(bytes([number]) * 12)
        made = manifest.patched(id_, NODE, ChunkTable.from_refs(2, [(coords, ref)]), key=NEW_KEY)
        assert made is not None
        manifest = decode_manifest(made.seal(spec=1), key=KEY)
    found = manifest.table(NODE)
    assert found is not None
    expected = overlay(many_references(), ChunkTable.from_refs(2, CHANGES.items()), no_coords())
    assert list(found.refs()) == list(expected.refs())


def test_a_chunk_without_reference_needs_columns() -> None:
    refs: dict[Coordinates, ChunkRef] = {**CHANGES, (SIDE, 0): InlineRef(b"new")}
    assert opened().patched(NEW, NODE, ChunkTable.from_refs(2, refs.items()), key=NEW_KEY) is None


def test_columns_that_are_there_are_used() -> None:
    manifest = opened()
    assert manifest.table(NODE) is not None
    assert (
        manifest.patched(NEW, NODE, ChunkTable.from_refs(2, CHANGES.items()), key=NEW_KEY) is None
    )


def test_other_forms_of_manifests_need_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    changes = ChunkTable.from_refs(2, CHANGES.items())
    packed = opened(Compression())
    assert packed.patched(NEW, NODE, changes, key=NEW_KEY) is None
    both = encode_manifest(ID, {NODE: many_references(), OTHER: many_references()}, spec=2)
    assert decode_manifest(both, key=KEY).patched(NEW, NODE, changes, key=NEW_KEY) is None
    monkeypatch.setattr(manifests, "MAX_SIZE", 100_000)
    assert opened().patched(NEW, NODE, changes, key=NEW_KEY) is None


def test_a_manifest_that_has_grown_by_an_eighth_needs_columns() -> None:
    manifest: Manifest | None = opened()
    changes = ChunkTable.from_refs(2, [((3, 4), InlineRef(bytes(20_000)))])
    sizes = []
    while manifest is not None:
        sizes.append(len(unseal(manifest.seal(spec=2), FileKind.MANIFEST, key=KEY).body))
        manifest = manifest.patched(NEW, NODE, changes, key=NEW_KEY)
    assert 9 / 8 * sizes[0] < sizes[-1] < 9 / 8 * sizes[0] + 25_000
    assert len(sizes) > 5


def test_errors_of_a_patched_manifest_name_its_own_file() -> None:
    blob = encode_manifest(ID, {NODE: many_references()}, spec=2)
    body = bytearray(unseal(blob, FileKind.MANIFEST, key=KEY).body)
    start, _ = decode_manifest(blob, key=KEY)._arrays[NODE]
    place = start + 4 * (7 * SIDE + 7)
    body[place : place + 4] = b"\xff\xff\xff\x7f"
    damaged = decode_manifest(seal(memoryview(body), FileKind.MANIFEST, spec=2), key=KEY)
    changes = ChunkTable.from_refs(2, CHANGES.items())
    manifest = damaged.patched(NEW, NODE, changes, key=NEW_KEY)
    assert manifest is not None
    with pytest.raises(FormatError) as caught:
        manifest.find(NODE, (7, 7))
    assert NEW_KEY in str(caught.value)
    assert KEY not in str(caught.value)


# --- native chunks alone ---

PACK, LONE = ChunkId.random(), ChunkId.random()


def manifest_file(spec: int) -> bytes:
    packed = ChunkTable.from_refs(
        1, (((n,), NativeRef(PACK if n % 2 else LONE, 10 * n, 10)) for n in range(6))
    )
    mixed = ChunkTable.from_refs(
        1,
        [
            ((0,), InlineRef(b"abc")),
            ((1,), VirtualRef("s3://bucket/a", 0, 1, "etag")),
            ((2,), NativeRef(PACK, 0, 10)),
        ],
    )
    foreign = ChunkTable.from_refs(0, [((), VirtualRef("s3://bucket/a", 0, 1))])
    tables = (packed, mixed, foreign)
    arrays = {NodeId(bytes([n] * 8)): table for n, table in enumerate(tables)}
    return encode_manifest(ManifestId.random(), arrays, spec=spec)


@pytest.mark.parametrize("spec", [1, 2])
def test_ids_of_native_chunks_are_read_without_the_rest(spec: int) -> None:
    found = [row.tobytes() for row in native_chunk_ids(manifest_file(spec), key="m")]
    assert sorted(found) == sorted([PACK, LONE] * 3 + [PACK])


def test_a_manifest_without_native_chunks() -> None:
    blob = encode_manifest(ManifestId.random(), {}, spec=2)
    assert np.array_equal(native_chunk_ids(blob, key="m"), np.zeros((0, 12), np.uint8))


@pytest.mark.parametrize("size", range(0, 150, 7))
def test_a_truncated_file_has_no_native_chunks(size: int) -> None:
    with pytest.raises(FormatError, match="key=m"):
        native_chunk_ids(manifest_file(2)[:size], key="m")


def test_other_files_have_no_native_chunks() -> None:
    with pytest.raises(FormatError, match="another kind"):
        native_chunk_ids(seal(b"", FileKind.SNAPSHOT, spec=2), key="m")
