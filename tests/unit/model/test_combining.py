"""Tables of chunk references united and changed."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from frazil.errors import ErrorKind, InternalError
from frazil.ids import ChunkId
from frazil.model.chunks import (
    ChunkTable,
    InlineRef,
    NativeRef,
    VirtualRef,
)
from frazil.model.combining import concat, overlay
from frazil.model.nodes import Coordinates
from tests.unit.model.tables import (
    CELLS,
    NOTHING,
    References,
    dropping,
    full_tables,
    small_tables,
    table_of,
    tables,
)


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
