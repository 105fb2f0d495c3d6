"""Pools of texts: what lists of texts would do, in one buffer."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from frazil.model import strings
from frazil.model.strings import StringPool, merge_pools, number_texts
from frazil.model.tuning import SAMPLED_TEXTS

TEXTS = st.lists(st.text("aäb\n", max_size=4), max_size=12)


@given(TEXTS)
def test_a_pool_is_a_sequence_of_texts(texts: list[str]) -> None:
    pool = StringPool.of(texts)
    assert list(pool) == pool.tolist() == [pool[n] for n in range(len(pool))] == texts
    assert pool[1:3] == texts[1:3]
    assert pool.sizes.tolist() == [len(text.encode()) for text in texts]
    assert pool.is_utf8()
    assert StringPool.of(pool) is pool
    with pytest.raises(IndexError):
        pool[len(texts)]


@given(TEXTS, st.data())
def test_parts_and_choices(texts: list[str], data: st.DataObject) -> None:
    pool = StringPool.of(texts)
    start = data.draw(st.integers(0, len(texts)))
    stop = data.draw(st.integers(start, len(texts)))
    assert list(pool.part(start, stop)) == texts[start:stop]
    if texts:
        rows = data.draw(st.lists(st.integers(0, len(texts) - 1), max_size=6))
        assert list(pool.take(np.array(rows, np.int64))) == [texts[row] for row in rows]


def test_texts_are_cut_out_and_put_in() -> None:
    pool = StringPool.of(["a", "bb", "c"])
    assert list(pool.edited([1], [0, 3], [b"new", b"end"])) == ["new", "a", "c", "end"]


@given(TEXTS.filter(bool))
def test_what_all_texts_begin_with(texts: list[str]) -> None:
    prefix = StringPool.of(texts).common_prefix()
    assert all(text.startswith(prefix) for text in texts)
    longer = [text[: len(prefix) + 1] for text in texts]
    assert len(set(longer)) > 1 or len(min(longer, key=len)) == len(prefix)


def test_a_character_that_two_texts_share_is_not_valid() -> None:
    assert not StringPool("ü".encode(), np.array([1, 2])).is_utf8()
    assert not StringPool(b"\xff", np.array([1])).is_utf8()


@given(st.lists(TEXTS, max_size=4))
def test_pools_are_united_under_new_numbers(parts: list[list[str]]) -> None:
    pools = [StringPool.of(part) for part in parts]
    merged, numbers = merge_pools(pools)
    for part, new in zip(parts, numbers, strict=True):
        rows = range(len(part)) if new is None else new.tolist()
        assert [merged[row] for row in rows] == part
    if sum(map(bool, parts)) > 1:
        assert len(set(merged)) == len(merged) or len({id(p) for p in pools if len(p)}) == 1


@given(TEXTS, st.sampled_from([2, SAMPLED_TEXTS]))
def test_texts_are_found_by_their_numbers(texts: list[str], sample: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(strings, "SAMPLED_TEXTS", sample)
        numbers, kept = number_texts(texts)
    assert [kept[number] for number in numbers.tolist()] == texts
    if len(texts) <= sample:  # few texts are all looked at
        assert len(set(kept)) == len(kept)
