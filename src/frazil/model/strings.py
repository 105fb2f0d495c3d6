"""Pools of texts in one buffer, and the copying of many byte runs at once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice, pairwise
from operator import itemgetter, ne
from typing import Final, overload

import numpy as np
import numpy.typing as npt

from frazil.arrays import I32, I64, U8
from frazil.model.tuning import DEDUPE_TEXTS, LONG_RUN, SAMPLED_TEXTS, TEXTS_AT_ONCE


class StringPool(Sequence[str]):
    """An immutable pool of texts in one UTF-8 buffer: `data[ends[i-1]:ends[i]]` is text i."""

    def __init__(self, data: bytes, ends: I64) -> None:
        self._data = data
        self._ends = ends

    @property
    def data(self) -> bytes:
        """All texts, one after the other."""
        return self._data

    @property
    def ends(self) -> I64:
        """Where each text ends in `data`."""
        return self._ends

    @property
    def sizes(self) -> I64:
        """Bytes of each text."""
        return np.diff(self.ends, prepend=0)

    @classmethod
    def of(cls, texts: Iterable[str]) -> StringPool:
        """Pack texts; a pool is returned as it is."""
        if isinstance(texts, StringPool):
            return texts
        texts = texts if isinstance(texts, list) else list(texts)
        if not texts:
            return NO_STRINGS
        joined = "".join(texts)
        if joined.isascii():
            data, lengths = joined.encode(), map(len, texts)
        else:
            encoded = [text.encode() for text in texts]
            data, lengths = b"".join(encoded), map(len, encoded)
        return StringPool(
            data, np.cumsum(np.fromiter(lengths, np.int64, len(texts)), dtype=np.int64)
        )

    @classmethod
    def distinct(cls, texts: Iterable[str]) -> tuple[I32, StringPool]:
        """Number texts by their first appearance; return each one's number and the pool."""
        texts = texts if isinstance(texts, Sequence) else list(texts)
        numbers = dict.fromkeys(texts, 0)
        pool = StringPool.of(list(numbers))
        if len(pool) == len(texts):
            return np.arange(len(texts), dtype=np.int32), pool
        for number, text in enumerate(numbers):
            numbers[text] = number
        return np.fromiter(map(numbers.__getitem__, texts), np.int32, len(texts)), pool

    def __len__(self) -> int:
        return len(self._ends)

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[str]: ...
    def __getitem__(self, index: int | slice) -> str | Sequence[str]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        if not 0 <= index < len(self):
            raise IndexError(index)
        return self._text(index)

    def _text(self, index: int) -> str:
        start = int(self.ends[index - 1]) if index else 0
        return str(self.data[start : int(self.ends[index])], "utf-8")

    def __iter__(self) -> Iterator[str]:
        data, ends = self.data, self.ends
        for first in range(0, len(ends), TEXTS_AT_ONCE):
            base = int(ends[first - 1]) if first else 0
            stops = (ends[first : first + TEXTS_AT_ONCE] - base).tolist()
            raw = data[base : base + stops[-1]]
            if raw.isascii():
                text = raw.decode("ascii")
                yield from [text[start:stop] for start, stop in pairwise([0, *stops])]
            else:
                yield from [raw[start:stop].decode() for start, stop in pairwise([0, *stops])]

    def tolist(self) -> list[str]:
        """All texts; quicker than a walk through them."""
        data, ends = self.data, self.ends
        if len(ends) <= TEXTS_AT_ONCE or b"\n" in data:
            return list(self)
        # One split of the whole makes the texts twice as fast as cutting out each.
        lines = np.full(len(data) + len(ends), ord("\n"), np.uint8)
        starts, sizes = self.bounds(range(len(ends)))
        source = np.frombuffer(data, np.uint8)
        if (sizes == sizes[0]).all():
            lines.reshape(len(ends), -1)[:, :-1] = source.reshape(len(ends), -1)
        else:
            copy_runs(source, starts, sizes, lines, starts + np.arange(len(ends)))
        return str(lines[:-1].data, "utf-8").split("\n")

    def is_utf8(self) -> bool:
        """Tell whether every text is valid by itself."""
        data, ends = self.data, self.ends
        if data.isascii():
            return True
        try:
            data.decode()
        except UnicodeDecodeError:
            return False
        inner = ends[ends < len(data)]
        return not ((np.frombuffer(data, np.uint8)[inner] & 0xC0) == 0x80).any()

    def common_prefix(self) -> str:
        """The beginning that all texts share; there must be one at least."""
        data = np.frombuffer(self.data, np.uint8)
        starts, sizes = self.bounds(range(len(self)))
        prefix = _shared(self[int(sizes.argmin())], self[0])
        while raw := prefix.encode():
            others = np.flatnonzero(opaque_items(data, len(raw))[starts] != np.void(raw))
            if not len(others):
                break
            prefix = _shared(prefix, self[int(others[-1])])
        return prefix

    def bounds(self, numbers: npt.NDArray[np.integer] | range) -> tuple[I64, I64]:
        """Start and length in `data` of the texts with these numbers, or in a range with step 1."""
        ends = self.ends
        if isinstance(numbers, range):
            before = int(ends[numbers.start - 1]) if numbers.start else 0
            stops = ends[numbers.start : numbers.stop]
            lengths = np.diff(stops, prepend=before)
            return stops - lengths, lengths
        stops = ends[numbers]
        starts = np.where(numbers > 0, ends[np.maximum(numbers, 1) - 1], 0)
        return starts, stops - starts

    def part(self, start: int, stop: int) -> StringPool:
        """A pool of the texts from one number up to another."""
        ends = self.ends[start:stop]
        first = int(self.ends[start - 1]) if start else 0
        last = int(ends[-1]) if len(ends) else first
        return StringPool(self.data[first:last], ends - first)

    def edited(
        self, gone: Sequence[int], places: Sequence[int], fresh: Sequence[bytes]
    ) -> StringPool:
        """A pool without some texts and with new ones before those with ascending numbers."""
        starts = np.append(0, self.ends)
        cuts = [(int(starts[one]), int(starts[one + 1]), b"") for one in gone]
        firsts = starts[list(places)].tolist()
        cuts += [(first, first, raw) for first, raw in zip(firsts, fresh, strict=True)]
        pieces, at = [], 0
        for start, stop, raw in sorted(cuts, key=itemgetter(0, 1)):  # the rest keeps its order
            pieces += [self.data[at:start], raw]
            at = stop
        sizes = np.insert(self.sizes, places, [len(raw) for raw in fresh])
        if len(gone):
            dropped = np.sort(gone)
            sizes = np.delete(sizes, dropped + np.searchsorted(places, dropped, side="right"))
        data = b"".join([*pieces, self.data[at:]])
        return StringPool(data, np.cumsum(sizes, dtype=np.int64))

    def take(self, numbers: npt.NDArray[np.integer]) -> StringPool:
        """A pool of the texts with these numbers, in this order."""
        return StringPool(*gather_runs(self.data, *self.bounds(numbers)))


def _shared(one: str, other: str) -> str:
    """The beginning that two texts share."""
    pairs = enumerate(zip(one, other, strict=False))
    size = next((n for n, (a, b) in pairs if a != b), None)
    return one[:size] if size is not None else min(one, other, key=len)


NO_STRINGS: Final = StringPool(b"", np.zeros(0, np.int64))


def merge_pools(pools: Sequence[Sequence[str]]) -> tuple[StringPool, list[I32 | None]]:
    """Unite pools; for each, the new numbers of its texts, or None where they stay the same.

    The same pool twice is counted once. Other repetitions are found only in pools of moderate
    size: in a large one they cost more to find than to keep.
    """
    distinct = {id(pool): StringPool.of(pool) for pool in pools if len(pool)}
    if not distinct:
        return NO_STRINGS, [None] * len(pools)
    if len(distinct) == 1:
        return next(iter(distinct.values())), [None] * len(pools)
    parts = list(distinct.values())
    ends = np.concatenate([part.ends for part in parts])
    firsts = np.cumsum([0, *map(len, parts)])
    lengths_before = np.cumsum([0, *(len(part.data) for part in parts)])
    ends += np.repeat(lengths_before[:-1], np.diff(firsts))
    merged = StringPool(b"".join(part.data for part in parts), ends)
    renumbered = np.arange(len(merged), dtype=np.int32)
    if len(merged) <= DEDUPE_TEXTS:
        renumbered, merged = StringPool.distinct(list(merged))
    spans = dict(zip(distinct, pairwise(firsts.tolist()), strict=True))
    return merged, [renumbered[slice(*spans[id(pool)])] if len(pool) else None for pool in pools]


def number_texts(texts: Sequence[str]) -> tuple[I32, Sequence[str]]:
    """Number texts, equal neighbours alike; return each one's number and the texts by number.

    Repetitions further apart are found if there are so many that a sample shows one: to look
    for them in a million different texts takes longer than to write them.
    """
    if _seem_distinct(texts):
        return np.arange(len(texts), dtype=np.int32), texts
    differs = np.fromiter(map(ne, islice(texts, 1, None), texts), np.bool_, max(0, len(texts) - 1))
    heads = np.append(0, np.flatnonzero(differs) + 1)[: len(texts)]
    if len(heads) < len(texts):
        number = np.append(0, np.cumsum(differs, dtype=np.int32)).astype(np.int32, copy=False)
        texts = [texts[row] for row in heads.tolist()]
    else:
        number = np.arange(len(texts), dtype=np.int32)
    if _seem_distinct(texts):
        return number, texts
    numbers = dict.fromkeys(texts, 0)
    if len(numbers) == len(texts):
        return number, texts
    for place, text in enumerate(numbers):
        numbers[text] = place
    again = np.fromiter(map(numbers.__getitem__, texts), np.int32, len(texts))
    return again[number], list(numbers)


def _seem_distinct(texts: Sequence[str]) -> bool:
    """Whether neither neighbours nor texts far apart are equal, as far as a sample shows.

    In a sample of a million texts that occur twice each about eight are there twice.
    """
    if len(texts) <= SAMPLED_TEXTS:
        return False
    picked = np.unique(
        np.random.default_rng(len(texts)).integers(1, len(texts), SAMPLED_TEXTS)
    ).tolist()
    found = [texts[row] for row in picked]
    if len(set(found)) < len(found):
        return False
    return all(texts[row - 1] != text for row, text in zip(picked, found, strict=True))


def gather_runs(data: bytes | memoryview, starts: I64, lengths: I64) -> tuple[bytes, I64]:
    """Copy runs of bytes together; return them with the end of each."""
    ends = np.cumsum(lengths, dtype=np.int64)
    packed = np.empty(int(ends[-1]) if len(ends) else 0, np.uint8)
    copy_runs(np.frombuffer(data, np.uint8), starts, lengths, packed, ends - lengths)
    return packed.tobytes(), ends


def copy_runs(source: U8, starts: I64, lengths: I64, target: U8, places: I64) -> None:
    """Copy `source[starts[i] : starts[i] + lengths[i]]` to `target[places[i]:]` for every i.

    Runs of one length are moved together as opaque items of that size. The caller has checked
    that all runs lie inside both arrays.
    """
    for length, rows in by_length(lengths):
        begin, put = starts[rows], places[rows]
        if length >= LONG_RUN:
            for a, b in zip(begin.tolist(), put.tolist(), strict=True):
                target[b : b + length] = source[a : a + length]
        else:
            opaque_items(target, length)[put] = opaque_items(source, length)[begin]


def opaque_items(data: U8, width: int) -> npt.NDArray[np.void]:
    """View bytes as items of `width` bytes that begin at every byte.

    Void items have no alignment, so numpy gathers and scatters them wherever they lie.
    """
    return np.ndarray((len(data) - width + 1,), f"V{width}", buffer=data.data, strides=(1,))


def by_length(lengths: I64) -> Iterator[tuple[int, npt.NDArray[np.intp] | slice]]:
    """The lengths that occur, except 0, each with the rows that have it."""
    if not len(lengths):
        return
    first = int(lengths[0])
    if (lengths == first).all():
        if first:
            yield first, slice(None)
        return
    # numpy sorts 16-bit numbers by radix, four times as fast as wider ones.
    is_short = int(lengths.max()) < 1 << 16
    order = np.argsort(lengths.astype(np.uint16) if is_short else lengths, kind="stable")
    edges = np.flatnonzero(np.diff(lengths[order])) + 1
    for rows in np.split(order, edges):
        length = int(lengths[rows[0]])
        if length:
            yield length, rows
