"""References in manifests: found one by one and as columns, packed locations, and damage."""

from __future__ import annotations

import pickle
import struct

import numpy as np
import pytest
import zstandard

from frazil.errors import ErrorKind, FormatError
from frazil.flatbuf.reader import Buffer
from frazil.flatbuf.strided import Scalars, Texts, encode_tables
from frazil.formats.envelope import FileKind, unseal
from frazil.formats.manifest import decode_manifest, encode_manifest
from frazil.formats.refs import may_fit, plan_packing
from frazil.ids import ChunkId
from frazil.model.chunks import ChunkRef, ChunkTable, InlineRef, NativeRef, StringPool, VirtualRef
from frazil.model.nodes import Coordinates
from tests.support.manifests import Compression, search_bytes
from tests.support.official_files import DICTIONARY
from tests.unit.formats.samples import ID, KEY, NODE, VARIETY, manifest_of, refs_of, table_of


class TestReading:
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


class TestLocations:
    def body(self, blob: bytes) -> Buffer:
        return Buffer(unseal(blob, FileKind.MANIFEST, key=KEY).body, KEY)

    def urls(self, n: int) -> ChunkTable:
        locations = [f"s3://bucket/long/prefix/{i:06d}.nc" for i in range(n)]
        coords = np.arange(n).reshape(-1, 1).astype(np.uint32)
        return ChunkTable.virtual(coords, np.arange(n, dtype=np.int32), locations, range(n), 1)

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


class TestSizes:
    def virtual(self, count: int, size: int) -> ChunkTable:
        """References that all lead to one location of a size."""
        coords = np.arange(count, dtype=np.uint32).reshape(-1, 1)
        return ChunkTable.virtual(coords, np.zeros(count, np.int32), ["x" * size], 0, 1)

    def test_a_text_counts_for_each_reference_and_twice(self) -> None:
        table = self.virtual(10, 500)
        size = 10 * (96 + 4) + 2 * 10 * 500
        assert may_fit(table, size)
        assert not may_fit(table, size - 1)

    def test_texts_that_few_references_lead_to_count_for_these(self) -> None:
        long = VirtualRef("x" * 10_000, 0, 1, "e" * 100)
        refs: dict[Coordinates, ChunkRef] = {(n,): VirtualRef("x", 0, 1) for n in range(9)}
        table = table_of({**refs, (9,): long}, 1)
        size = 10 * (96 + 4) + 2 * (9 + 10_000 + 100)
        assert may_fit(table, size)
        assert not may_fit(table, size - 1)

    def test_bytes_in_the_manifest_count(self) -> None:
        refs: dict[Coordinates, ChunkRef] = {(n, 0): InlineRef(bytes(50)) for n in range(4)}
        size = 4 * (96 + 8) + 4 * 50
        assert may_fit(table_of(refs), size)
        assert not may_fit(table_of(refs), size - 1)
        assert may_fit(ChunkTable.empty(3), 0)

    def test_what_may_fit_is_not_larger_once_it_is_written(self) -> None:
        for table in (table_of(VARIETY), self.virtual(1000, 1), self.virtual(10, 1000)):
            blob = encode_manifest(ID, {NODE: table}, spec=2)
            size = len(unseal(blob, FileKind.MANIFEST, key=KEY).body)
            assert not may_fit(table, size - 200)


class TestPacking:
    def located(self, count: int) -> ChunkTable:
        texts = [f"s3://bucket/long/prefix/{n:06d}.nc" for n in range(count)]
        coords = np.arange(count, dtype=np.uint32).reshape(-1, 1)
        return ChunkTable.virtual(coords, np.arange(count, dtype=np.int32), texts, 0, 1)

    def test_locations_of_all_tables_count_together(self) -> None:
        tables = [self.located(30), self.located(20)]
        assert plan_packing(tables, Compression(50)) is not None
        assert plan_packing(tables, Compression(51)) is None
        assert plan_packing(tables, None) is None

    def test_only_virtual_references_count(self) -> None:
        refs: dict[Coordinates, ChunkRef] = {(n,): InlineRef(b"x") for n in range(100)}
        assert plan_packing([table_of(refs, 1)], Compression(0)) is None
        assert plan_packing([], Compression(0)) is None

    def test_the_level_is_that_of_the_settings(self) -> None:
        found = plan_packing([self.located(50)], Compression(0))
        assert found is not None
        assert found.level == 3
        found = plan_packing([self.located(50)], Compression(0, compression_level=9))
        assert found is not None
        assert found.level == 9
