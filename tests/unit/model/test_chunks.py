"""Tables of chunk references: finding, cutting out."""

from __future__ import annotations

import pickle
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from frazil.model.chunks import (
    ABSENT,
    ChunkTable,
    InlineRef,
    StringPool,
    VirtualRef,
)
from frazil.model.nodes import Coordinates
from tests.unit.model.tables import BIG, References, axis, dropping, table_of, tables


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
