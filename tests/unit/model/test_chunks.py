"""Tables of chunk references: finding, cutting out, uniting."""

from __future__ import annotations

import pickle
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from frazil.errors import ErrorKind, InternalError
from frazil.ids import ChunkId
from frazil.model.chunks import (
    ABSENT,
    ChunkRef,
    ChunkTable,
    InlineRef,
    NativeRef,
    StringPool,
    VirtualRef,
    concat,
    overlay,
)
from frazil.model.nodes import Coordinates

NOTHING = np.zeros((0, 2), np.uint32)
BIG = 2**32 - 1

References = dict[Coordinates, ChunkRef]


def table_of(refs: References, ndim: int = 2) -> ChunkTable:
    return ChunkTable.from_refs(ndim, refs.items())


def dropping(*coords: Coordinates) -> np.ndarray[tuple[int, int], np.dtype[np.uint32]]:
    return np.array(coords, np.uint32).reshape(len(coords), 2)


def kinds(seed: int) -> ChunkRef:
    """A reference whose every field depends on the seed."""
    match seed % 4:
        case 0:
            return NativeRef(ChunkId(seed.to_bytes(12, "big")), seed, seed + 1)
        case 1:
            return VirtualRef(f"s3://bucket/{seed % 7}", seed, 5, f"tag-{seed % 3}")
        case 2:
            return VirtualRef(f"s3://bücket/{seed % 5}", seed, 5, seed)
        case _:
            return InlineRef(b"x" * (seed % 11))


chunk_refs = st.integers(0, 10**6).map(kinds)
axis = st.one_of(st.integers(0, 4), st.integers(0, BIG))
tables = st.dictionaries(st.tuples(axis, axis), chunk_refs, max_size=20)
small_tables = st.dictionaries(
    st.tuples(st.integers(0, 3), st.integers(0, 3)), chunk_refs, max_size=16
)

CELLS = list(product(range(8), range(8)))
full_tables = st.dictionaries(st.sampled_from(CELLS), chunk_refs, min_size=34, max_size=64)


class TestFind:
    def test_full_box_that_does_not_begin_at_zero(self) -> None:
        coords = np.array(list(product(range(5, 8), range(2, 6))), np.uint32)
        table = ChunkTable.native(coords, np.zeros((12, 12), np.uint8), 0, 1)
        assert [table.find(c) for c in product(range(5, 8), range(2, 6))] == list(range(12))
        assert table.find((4, 2)) == table.find((5, 6)) == table.find((8, 2)) == ABSENT

    @pytest.mark.parametrize("step", [1, 2, 3, 100, 10**8])
    def test_each_way_of_looking_up_agrees(self, step: int) -> None:
        cells = [(i * step, j * step) for i in range(8) for j in range(5) if (i + j) % 7]
        table = table_of({c: InlineRef(b"") for c in cells})
        probes = cells + [(i, j) for i in range(9) for j in range(6)] + [(BIG, BIG), (0, BIG)]
        expected = [cells.index(c) if c in cells else ABSENT for c in probes]
        assert [table.find(c) for c in probes] == expected
        assert table.find_many(np.array(probes, np.int64)).tolist() == expected

    def test_box_with_more_cells_than_a_number_can_count(self) -> None:
        cells = sorted(product((0, 7, BIG), repeat=4))[::2]
        table = table_of({c: InlineRef(b"") for c in cells}, ndim=4)
        probes = list(product((0, 6, 7, BIG), repeat=4))
        expected = [cells.index(c) if c in cells else ABSENT for c in probes]
        assert [table.find(c) for c in probes] == expected
        assert table.find_many(np.array(probes, np.int64)).tolist() == expected

    def test_negative_and_wrong_rank_are_not_found(self) -> None:
        table = table_of({(0, 0): InlineRef(b""), (1, 3): InlineRef(b"")})
        assert table.find((-1, 0)) == table.find((0,)) == table.find((0, 0, 0)) == ABSENT
        assert table.find_many(np.array([[-1, 0], [2**40, 0]])).tolist() == [ABSENT, ABSENT]

    def test_scalar_array_has_one_chunk(self) -> None:
        table = table_of({(): InlineRef(b"v")}, ndim=0)
        assert table.find(()) == 0
        assert table.find_many(np.zeros((3, 0), np.uint32)).tolist() == [0, 0, 0]

    def test_empty_table_has_no_chunk(self) -> None:
        table = ChunkTable.empty(2)
        assert table.find((0, 0)) == ABSENT
        assert table.find_many(dropping((0, 0))).tolist() == [ABSENT]
        assert table.extents == ()

    @given(tables, st.lists(st.tuples(axis, axis), max_size=20))
    def test_find_is_the_place_among_sorted_coordinates(
        self, refs: References, probes: list[Coordinates]
    ) -> None:
        table, cells = table_of(refs), sorted(refs)
        probes = probes + cells
        expected = [cells.index(c) if c in refs else ABSENT for c in probes]
        assert [table.find(c) for c in probes] == expected
        assert table.find_many(np.array(probes, np.int64).reshape(-1, 2)).tolist() == expected


class TestUniting:
    @given(small_tables, small_tables, st.sets(st.tuples(st.integers(0, 3), st.integers(0, 3))))
    def test_overlay_is_update_and_delete(
        self, base: References, changes: References, dropped: set[Coordinates]
    ) -> None:
        united = overlay(table_of(base), table_of(changes), dropping(*sorted(dropped)))
        expected = {c: ref for c, ref in base.items() if c not in dropped} | changes
        assert list(united.refs()) == sorted(expected.items(), key=lambda item: item[0])

    @given(full_tables, full_tables, st.sets(st.sampled_from(CELLS)))
    def test_many_changes_are_laid_over_like_few(
        self, base: References, changes: References, dropped: set[Coordinates]
    ) -> None:
        united = overlay(table_of(base), table_of(changes), dropping(*sorted(dropped)))
        expected = {c: ref for c, ref in base.items() if c not in dropped} | changes
        assert list(united.refs()) == sorted(expected.items(), key=lambda item: item[0])

    def test_a_few_changes_of_a_scalar(self) -> None:
        old, new = table_of({(): InlineRef(b"a")}, 0), table_of({(): InlineRef(b"b")}, 0)
        united = overlay(old, new, np.zeros((0, 0), np.uint32))
        assert list(united.refs()) == [((), InlineRef(b"b"))]
        assert not len(overlay(old, ChunkTable.empty(0), np.zeros((1, 0), np.uint32)))

    def test_columns_with_one_value_stay_so(self) -> None:
        coords = np.array(list(product(range(40), range(5))), np.uint32)
        base = ChunkTable.native(coords, np.zeros((200, 12), np.uint8), 0, 7)
        same = overlay(base, table_of({(3, 9): NativeRef(ChunkId(b"c" * 12), 0, 7)}), NOTHING)
        other = overlay(base, table_of({(3, 9): InlineRef(b"abc")}), NOTHING)
        assert len(same) == len(other) == 201
        assert same.kind.strides == same.length.strides == same.location.strides == (0,)
        assert other.ref(other.find((3, 9))) == InlineRef(b"abc")
        assert other.ref(200) == same.ref(200) == base.ref(199)

    def test_replaced_inline_bytes_do_not_pile_up(self) -> None:
        table = table_of({(0, n): InlineRef(b"first") for n in range(5)})
        for n in range(200):
            table = overlay(table, table_of({(0, n % 5): InlineRef(b"%03d" % n)}), NOTHING)
        last = [InlineRef(b"%03d" % n) for n in range(195, 200)]
        assert [table.ref(row) for row in range(5)] == last
        assert len(table.inline_data) < 50

    @given(tables, st.integers(1, 4))
    def test_concat_restores_a_table_cut_into_pieces(self, refs: References, pieces: int) -> None:
        whole = table_of(refs)
        rows = np.arange(len(whole))
        shared = [whole.take(rows % pieces == k) for k in range(pieces)]
        separate = [table_of(dict(part.refs())) for part in shared]
        for parts in (shared, separate, separate[::-1]):
            assert list(concat(parts, 2).refs()) == list(whole.refs())

    def test_merged_pools_hold_a_text_once(self) -> None:
        parts = [table_of({(i, 0): VirtualRef("s3://b/one", i, 1, "tag")}) for i in range(5)]
        united = concat(parts, 2)
        assert list(united.locations) == ["s3://b/one"]
        assert list(united.etags) == ["tag"]

    def test_two_references_for_one_chunk_are_refused(self) -> None:
        part = table_of({(0, 0): InlineRef(b"a"), (1, 1): InlineRef(b"b")})
        with pytest.raises(InternalError) as caught:
            concat([part, part], 2)
        assert caught.value.kind == ErrorKind.INCONSISTENT_MANIFESTS

    def test_overlay_leaves_the_tables_it_was_given_alone(self) -> None:
        base = table_of({(0, 0): InlineRef(b"old"), (0, 1): VirtualRef("s3://b/k", 0, 1)})
        changes = table_of({(0, 0): VirtualRef("s3://c/new", 3, 4, "e")})
        united = overlay(base, changes, NOTHING)
        assert united.ref(0) == VirtualRef("s3://c/new", 3, 4, "e")
        assert base.ref(0) == InlineRef(b"old")
        assert changes.ref(0) == VirtualRef("s3://c/new", 3, 4, "e")

    def test_nothing_united_is_an_empty_table_of_the_right_rank(self) -> None:
        assert concat([], 3).ndim == 3
        assert concat([ChunkTable.empty(0), ChunkTable.empty(3)], 3).ndim == 3


class TestCutting:
    @given(tables, st.tuples(axis, axis), st.tuples(axis, axis))
    def test_within_keeps_exactly_the_chunks_of_the_box(
        self, refs: References, low: Coordinates, high: Coordinates
    ) -> None:
        extents = tuple(zip(low, high, strict=True))
        kept = table_of(refs).within(extents)
        inside = [
            c for c in sorted(refs) if all(a <= x < b for x, (a, b) in zip(c, extents, strict=True))
        ]
        assert list(kept.refs()) == [(c, refs[c]) for c in inside]

    def test_extents_are_the_bounding_box(self) -> None:
        table = table_of({(3, 9): InlineRef(b""), (5, 1): InlineRef(b"")})
        assert table.extents == ((3, 6), (1, 10))

    @given(tables)
    def test_compact_drops_only_what_no_row_uses(self, refs: References) -> None:
        table = table_of(refs)
        part = table.take(np.arange(len(table)) % 3 == 0)
        compact = part.compact()
        assert list(compact.refs()) == list(part.refs())
        virtual = [ref for _, ref in part.refs() if isinstance(ref, VirtualRef)]
        assert set(compact.locations) == {ref.location for ref in virtual}
        inline = [ref.data for _, ref in part.refs() if isinstance(ref, InlineRef)]
        assert compact.inline_data == b"".join(inline)

    def test_shifted_table_is_found_at_its_new_place(self) -> None:
        table = table_of({(0, 0): InlineRef(b"a"), (2, 1): InlineRef(b"b")})
        assert table.find((2, 1)) == 1
        moved = table.at(table.coords + np.uint32(5))
        assert moved.find((7, 6)) == 1
        assert moved.find((2, 1)) == ABSENT

    @given(tables)
    def test_tables_pickle(self, refs: References) -> None:
        table = table_of(refs)
        table.find((0, 0))
        assert list(pickle.loads(pickle.dumps(table)).refs()) == list(table.refs())


class TestStrings:
    @given(st.lists(st.text()))
    def test_pool_is_the_list_it_was_made_of(self, texts: list[str]) -> None:
        pool = StringPool.of(texts)
        assert list(pool) == texts
        assert [pool[i] for i in range(len(pool))] == texts
        assert pool[1:3] == texts[1:3]
        assert pool.is_utf8()

    @given(st.lists(st.text(max_size=3), min_size=1), st.data())
    def test_take_repeats_and_reorders(self, texts: list[str], data: st.DataObject) -> None:
        numbers = data.draw(st.lists(st.integers(0, len(texts) - 1)))
        taken = StringPool.of(texts).take(np.array(numbers, np.int32))
        assert list(taken) == [texts[i] for i in numbers]

    @given(st.lists(st.text(max_size=2)))
    def test_distinct_numbers_lead_back_to_the_texts(self, texts: list[str]) -> None:
        numbers, pool = StringPool.distinct(texts)
        assert [pool[i] for i in numbers.tolist()] == texts
        assert len(set(pool)) == len(pool)

    def test_long_texts_are_taken_whole(self) -> None:
        texts = ["a" * 5000, "", "b" * 70000, "c"]
        assert list(StringPool.of(texts).take(np.array([2, 0, 1, 3]))) == [
            texts[2],
            texts[0],
            texts[1],
            texts[3],
        ]

    def test_character_cut_in_two_is_not_utf8(self) -> None:
        assert not StringPool("é".encode(), np.array([1, 2])).is_utf8()
        assert not StringPool(b"\xff", np.array([1])).is_utf8()

    def test_index_outside_is_an_index_error(self) -> None:
        with pytest.raises(IndexError):
            StringPool.of(["a"])[1]
