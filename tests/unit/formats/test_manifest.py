"""Manifests: official files, every kind of reference, dictionaries, and what is refused."""

from __future__ import annotations

import pickle
import struct
from collections.abc import Mapping

import numpy as np
import pytest
import zstandard

from frazil.errors import ErrorKind, FormatError
from frazil.flatbuf import writer as flat_writer
from frazil.flatbuf.reader import Buffer
from frazil.flatbuf.strided import Scalars, Texts, encode_tables
from frazil.flatbuf.writer import FlatWriter, TableBlocks
from frazil.formats.envelope import FileKind, seal, seal_table, unseal
from frazil.formats.manifest import ARRAY_REFS, MANIFEST, Manifest, decode_manifest, encode_manifest
from frazil.ids import ChunkId, ManifestId, NodeId
from frazil.model.chunks import (
    ChunkRef,
    ChunkTable,
    InlineRef,
    NativeRef,
    StringPool,
    VirtualRef,
)
from frazil.model.nodes import Coordinates
from tests.support.manifests import Compression, search_bytes
from tests.support.official_files import DICTIONARY, MANIFEST_V1, MANIFEST_V2

KEY = "manifests/TEST"
ID = ManifestId(range(12))
NODE = NodeId(b"node-001")
OTHER = NodeId(b"node-002")

VARIETY: Mapping[Coordinates, ChunkRef] = {
    (0, 0): InlineRef(b"tiny"),
    (0, 1): NativeRef(ChunkId(range(1, 13)), 0, 600),
    (0, 2): NativeRef(ChunkId(range(1, 13)), 600, 2**40),
    (1, 0): VirtualRef("s3://bucket/é.nc", 0, 10),
    (1, 1): VirtualRef("s3://bucket/é.nc", 10, 10, "etag-1"),
    (1, 2): VirtualRef("s3://other/k", 2**33, 10, 1_700_000_000),
    (7, 0): InlineRef(b""),
    (7, 2**32 - 1): VirtualRef("", 0, 0, ""),
}


def table_of(refs: Mapping[Coordinates, ChunkRef], ndim: int = 2) -> ChunkTable:
    return ChunkTable.from_refs(ndim, refs.items())


def refs_of(manifest: Manifest, node: NodeId = NODE) -> dict[Coordinates, ChunkRef]:
    table = manifest.table(node)
    assert table is not None
    return dict(table.refs())


def manifest_of(
    *arrays: tuple[NodeId, TableBlocks], id: bytes | None = ID, dictionary: bytes | None = None
) -> bytes:
    """A manifest around hand-made references."""
    writer = FlatWriter()
    tables = [writer.table(ARRAY_REFS, bytes(n), writer.table_blocks(b)) for n, b in arrays]
    packed = None if dictionary is None else writer.blob(dictionary)
    root = writer.table(
        MANIFEST,
        None if id is None else bytes(id),
        writer.offsets(tables),
        packed,
        b"\0" if packed is None else None,
    )
    return seal_table(writer, root, FileKind.MANIFEST, spec=2)


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

    def test_locations_compressed_by_the_official_writer_are_read(self) -> None:
        frames = [
            bytes.fromhex("28b52ffd2337cc293d2055000020302e6e630100835140"),
            bytes.fromhex("28b52ffd2337cc293d20350000000100035740"),
        ]
        pool = StringPool(b"".join(frames), np.cumsum([len(frame) for frame in frames]))
        refs = encode_tables(
            np.array([[0], [1]], np.uint32),
            [Scalars(3, np.array([1, 2], "<u8"))],
            [Texts(8, np.array([0, 1], np.int32), pool, is_text=False)],
        )

        expected = {
            (0,): VirtualRef("s3://my-bucket/data/file-0000.nc", 0, 1),
            (1,): VirtualRef("s3://my-bucket/data/file-0001.nc", 0, 2),
        }
        manifest = decode_manifest(manifest_of((NODE, refs), dictionary=DICTIONARY), key=KEY)
        table = manifest.table(NODE)
        assert table is not None
        assert table.locations[1] == "s3://my-bucket/data/file-0001.nc"
        assert list(table.locations) == [ref.location for ref in expected.values()]
        assert dict(table.refs()) == expected
        assert list(pickle.loads(pickle.dumps(table)).refs()) == list(expected.items())


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

    @pytest.mark.parametrize("last_axis", [1, 7, 1000, 2500, 4099])
    def test_many_blocks(self, last_axis: int) -> None:
        n = 5000
        rows = np.arange(n)
        coords = np.stack([rows // last_axis, rows % last_axis], axis=1).astype(np.uint32)
        locations = [f"s3://bucket/{i}.nc" for i in range(40)]
        table = ChunkTable.virtual(coords, (rows % 40).astype(np.int32), locations, rows * 3, rows)
        manifest = decode_manifest(encode_manifest(ID, {NODE: table}, spec=2), key=KEY)
        found = manifest.table(NODE)
        assert found is not None
        assert list(found.refs()) == list(table.refs())
        assert sorted(found.locations) == sorted(locations)

    def test_single_chunks_are_found_without_decoding(self) -> None:
        n = 4000
        coords = np.stack([np.arange(n) // 50, np.arange(n) % 50 * 2], axis=1).astype(np.uint32)
        table = ChunkTable.native(coords, np.zeros((n, 12), np.uint8), np.arange(n), 9)
        blob = encode_manifest(ID, {NODE: table}, spec=2)
        for row in (0, 1, 1999, n - 1):
            place = tuple(coords[row].tolist())
            found = decode_manifest(blob, key=KEY).find(NODE, place)
            assert found == NativeRef(ChunkId(bytes(12)), row, 9)
        for absent in ((0, 1), (80, 0), (2**32 - 1, 0)):
            assert decode_manifest(blob, key=KEY).find(NODE, absent) is None

    def test_find_gives_the_same_in_bytes_and_in_columns(self) -> None:
        blob = encode_manifest(
            ID, {NODE: table_of(VARIETY)}, spec=2, compress_locations=Compression()
        )
        manifest = decode_manifest(blob, key=KEY)
        for place, ref in VARIETY.items():
            assert search_bytes(blob, NODE, place, key=KEY) == ref
            assert manifest.find(NODE, place) == ref

    def test_manifest_made_of_tables_needs_no_file(self) -> None:
        manifest = Manifest(ID, 2, {NODE: table_of(VARIETY)})
        assert manifest.nodes() == (NODE,)
        assert manifest.num_refs == len(VARIETY)
        assert manifest.find(NODE, (0, 0)) == InlineRef(b"tiny")


class TestLocations:
    def body(self, blob: bytes) -> Buffer:
        return Buffer(unseal(blob, FileKind.MANIFEST, key=KEY).body, KEY)

    def urls(self, n: int) -> ChunkTable:
        locations = [f"s3://bucket/long/prefix/{i:06d}.nc" for i in range(n)]
        coords = np.arange(n).reshape(-1, 1).astype(np.uint32)
        return ChunkTable.virtual(coords, np.arange(n, dtype=np.int32), locations, range(n), 1)

    def test_plain_locations_are_marked_in_spec_2_and_unmarked_in_spec_1(self) -> None:
        table = self.urls(3)
        second = self.body(encode_manifest(ID, {NODE: table}, spec=2)).root()
        first = self.body(encode_manifest(ID, {NODE: table}, spec=1)).root()
        assert second.byte(3, default=1) == 0
        assert first.at(3) is None

    def test_dictionary_is_used_from_the_threshold_on(self) -> None:
        settings = Compression(min_num_chunks=50)
        few = encode_manifest(ID, {NODE: self.urls(49)}, spec=2, compress_locations=settings)
        many = encode_manifest(ID, {NODE: self.urls(50)}, spec=2, compress_locations=settings)
        assert self.body(few).root().blob(2) is None
        dictionary = self.body(many).root().blob(2)
        assert dictionary is not None
        assert dictionary.startswith(bytes.fromhex("37a430ec"))
        assert self.body(many).root().byte(3, default=1) == 1
        assert refs_of(decode_manifest(many, key=KEY)) == dict(self.urls(50).refs())

    def test_location_too_long_to_unpack_is_written_plain(self) -> None:
        refs = dict(self.urls(30).refs()) | {(99,): VirtualRef("s3://b/" + "x" * 2000, 0, 1)}
        blob = encode_manifest(
            ID, {NODE: table_of(refs, 1)}, spec=2, compress_locations=Compression()
        )
        assert refs_of(decode_manifest(blob, key=KEY)) == refs
        assert decode_manifest(blob, key=KEY).find(NODE, (99,)) == refs[(99,)]

    def test_empty_and_odd_locations_are_packed_like_others(self) -> None:
        usual = [f"s3://bucket/long/prefix/{i:03d}.nc" for i in range(20)]
        for odd in ([""], ["é"], ["", "é" * 200], [usual[0] * 20]):
            locations = odd + usual
            refs: dict[Coordinates, ChunkRef] = {
                (i,): VirtualRef(text, 0, 1) for i, text in enumerate(locations)
            }
            blob = encode_manifest(
                ID, {NODE: table_of(refs, 1)}, spec=2, compress_locations=Compression()
            )
            assert self.body(blob).root().blob(2) is not None
            manifest = decode_manifest(blob, key=KEY)
            found = manifest.table(NODE)
            assert found is not None
            assert list(found.locations) == locations
            assert refs_of(manifest) == refs

    def test_location_that_unpacks_to_too_much_is_refused(self) -> None:
        for size in (1025, 10**6, 10**8):
            frame = zstandard.ZstdCompressor().compress(b"x" * size)
            with pytest.raises(FormatError, match="location"):
                self.read_packed(frame)

    def test_damaged_frames_and_dictionaries_are_refused(self) -> None:
        with pytest.raises(FormatError, match=KEY):
            self.read_packed(b"not zstd")
        with pytest.raises(FormatError, match=KEY):
            self.read_packed(b"")
        good = bytes.fromhex("28b52ffd2337cc293d2055000020302e6e630100835140")
        with pytest.raises(FormatError, match=KEY):
            self.read_packed(good, DICTIONARY[:100])
        with pytest.raises(FormatError, match=KEY):
            self.read_packed(good, b"")

    def read_packed(self, frame: bytes, dictionary: bytes = b"") -> None:
        pool = StringPool(frame, np.array([len(frame)]))
        number = np.zeros(1, np.int32)
        refs = encode_tables(np.zeros((1, 1), np.uint32), [], [Texts(8, number, pool, False)])
        blob = manifest_of((NODE, refs), dictionary=dictionary)
        list(refs_of(decode_manifest(blob, key=KEY)))


class TestRefusals:
    def refuse(self, blob: bytes, problem: str) -> None:
        with pytest.raises(FormatError, match=problem) as caught:
            list(decode_manifest(blob, key=KEY).tables())
        assert caught.value.facts["key"] == KEY
        assert caught.value.kind == ErrorKind.INVALID_FILE_FORMAT

    def native(self, *coords: Coordinates) -> ChunkTable:
        index = np.array(coords, np.uint32).reshape(len(coords), -1)
        return ChunkTable.native(index, np.zeros((len(index), 12), np.uint8), 0, 1)

    def test_rows_out_of_order(self) -> None:
        blob = encode_manifest(ID, {NODE: self.native((1, 0), (0, 5))}, spec=2)
        self.refuse(blob, "ascending")

    def test_two_rows_for_one_chunk(self) -> None:
        blob = encode_manifest(ID, {NODE: self.native((1, 0), (1, 0))}, spec=2)
        self.refuse(blob, "ascending")

    def test_arrays_out_of_order(self) -> None:
        part = encode_tables(np.zeros((0, 1), np.uint32))
        self.refuse(manifest_of((OTHER, part), (NODE, part)), "ascending")
        self.refuse(manifest_of((NODE, part), (NODE, part)), "ascending")

    def test_rows_of_different_rank(self) -> None:
        ids = [Scalars(4, np.zeros(2, "V12"))]
        part = encode_tables(np.array([[1, 1], [1, 2]], np.uint32), ids)
        # The second row says it has one coordinate only.
        block = part.data
        at = len(block) - bytes(block)[::-1].index(struct.pack("<III", 2, 1, 2)[::-1]) - 12
        block[at] = 1
        self.refuse(manifest_of((NODE, part)), "rank")

    def test_reference_to_nothing(self) -> None:
        part = encode_tables(np.zeros((1, 1), np.uint32), [Scalars(2, np.ones(1, "<u8"))])
        self.refuse(manifest_of((NODE, part)), "without chunk id, location or bytes")
        with pytest.raises(FormatError, match="without chunk id"):
            search_bytes(manifest_of((NODE, part)), NODE, (0,), key=KEY)

    def test_location_that_is_not_text(self) -> None:
        pool = StringPool(b"s3://\xff", np.array([6]))
        texts = [Texts(5, np.zeros(1, np.int32), pool)]
        part = encode_tables(np.zeros((1, 1), np.uint32), [], texts)
        self.refuse(manifest_of((NODE, part)), "UTF-8")

    def test_another_kind_of_file(self) -> None:
        with pytest.raises(FormatError, match="another kind"):
            decode_manifest(seal(b"", FileKind.SNAPSHOT, spec=2), key=KEY)

    def test_missing_required_fields(self) -> None:
        self.refuse(manifest_of(id=None), "required field id")
        writer = FlatWriter()
        blob = seal_table(writer, writer.table(MANIFEST, bytes(ID)), FileKind.MANIFEST, spec=2)
        self.refuse(blob, "field arrays")

    def test_chunk_id_decides_before_location_and_location_before_bytes(self) -> None:
        pool = StringPool.of(["s3://b/k"])
        number = np.zeros(1, np.int32)
        index = np.zeros((1, 1), np.uint32)
        ids = [Scalars(4, np.frombuffer(bytes(range(12)), "V12"))]
        both = [Texts(5, number, pool), Texts(1, number, pool, is_text=False)]
        first = decode_manifest(manifest_of((NODE, encode_tables(index, ids, both))), key=KEY)
        second = decode_manifest(manifest_of((NODE, encode_tables(index, [], both))), key=KEY)
        assert refs_of(first) == {(0,): NativeRef(ChunkId(range(12)), 0, 0)}
        assert refs_of(second) == {(0,): VirtualRef("s3://b/k", 0, 0)}

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
