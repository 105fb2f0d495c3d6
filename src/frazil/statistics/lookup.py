"""Finds the statistics of chunks of an array, as columns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from frazil.arrays import I64, Array, Mask, StructRows
from frazil.bulk.fetch import MISSING, find_chunks
from frazil.cf.decoding import Decoder
from frazil.model.nodes import ArrayNode
from frazil.statistics.files import StatisticsIndex, read_index
from frazil.statistics.measuring import measured_row
from frazil.statistics.records import (
    TYPES,
    Decoding,
    NumberType,
    RowFlags,
    blank_rows,
    cell_counts,
    decoding_of,
    identified,
)
from frazil.transaction.working import WorkingState

ROUNDING: Final = 1e-9
"""How far a sum may be off, as a part of what its values amount to."""


@dataclass(frozen=True, slots=True, eq=False)
class Summaries:
    """Statistics of chunks, a row for each; other columns are valid only where `known` is set."""

    known: Mask
    count: I64
    """cells with a value, NaN included"""
    missing: I64
    nan: I64
    min: Array
    """of values that are not NaN, as double, int64 or uint64; where `has_extremes` says so"""
    max: Array
    has_extremes: Mask
    sum: Array
    """of values that are not NaN; where `has_sum` says so"""
    has_sum: Mask

    def __len__(self) -> int:
        return len(self.known)


def lookup(
    state: WorkingState,
    node: ArrayNode,
    coords: npt.NDArray[np.integer],
    decoder: Decoder | None = None,
) -> Summaries:
    """The statistics of some chunks, (n, ndim), decoded by the CF conventions or in another way.

    Chunks that were never written are known: they are the fill value. Nothing is known of chunks
    with more cells than can be counted.
    """
    decoding = decoding_of(node, decoder)
    if decoding is None:
        return _columns(np.zeros(len(coords), np.bool_), blank_rows(len(coords)), NumberType.NONE)
    index = read_index(state.context.place, decoding.id)
    return summarized(state, node, coords, decoding, index)


def summarized(
    state: WorkingState,
    node: ArrayNode,
    coords: npt.NDArray[np.integer],
    decoding: Decoding,
    index: StatisticsIndex,
) -> Summaries:
    """The same from an index that was read before."""
    grid = decoding.layout.grid
    refs = find_chunks(state, node, np.asarray(coords, np.int64))
    rows, can_be_known = identified(refs, grid, state.context.containers.expand)
    cells, is_counted = cell_counts(grid, refs.coords)
    at = index.find(rows)
    known = can_be_known & is_counted & (at >= 0)
    rows[known] = index.rows[at[known]]
    known &= _makes_sense(rows, cells, decoding.form)
    never = (refs.kind == MISSING) & is_counted
    if never.any():
        rows[never] = _filled(decoding, cells[never])
        known |= never
    return _columns(known, rows, decoding.form)


def _makes_sense(rows: StructRows, cells: I64, form: NumberType) -> Mask:
    """Whether rows can be true of chunks with so many cells; others were not written by us."""
    low, high = _numbers(rows["min"], form), _numbers(rows["max"], form)
    total, count = cells.astype(np.uint64), rows["count"]
    has_extremes = rows["has"] & RowFlags.EXTREMES != 0
    found: Mask = (rows["form"] == form) & (count <= total) & (rows["nan"] <= count)
    found &= rows["missing"] == total - count
    if form is not NumberType.NONE:
        found &= has_extremes == (count > rows["nan"])
        found &= ~has_extremes | (low <= high)
        found &= (rows["has"] & RowFlags.SUM == 0) | _can_be_sums(rows, form)
    return found


def _can_be_sums(rows: StructRows, form: NumberType) -> Mask:
    """Whether the sums of rows lie between what the smallest and the largest values add up to."""
    total, low, high = (
        _numbers(rows[name], form).astype(np.float64) for name in ("sum", "min", "max")
    )
    cells = (rows["count"] - rows["nan"]).astype(np.float64)
    with np.errstate(over="ignore", invalid="ignore"):
        rounding = ROUNDING * cells * np.maximum(np.abs(low), np.abs(high))
        is_between = (total >= low * cells - rounding) & (total <= high * cells + rounding)
    found: Mask = np.isfinite(total) & (is_between | (cells == 0) & (total == 0))
    return found


def _filled(decoding: Decoding, cells: I64) -> StructRows:
    """Rows of chunks in which every cell is the fill value."""
    chain = decoding.layout.chain
    one = np.empty(1, chain.dtype)
    one[...] = chain.fill_value
    unit = measured_row(decoding.decoder.decode(one))
    rows = np.repeat(unit, len(cells))
    for name in ("count", "missing", "nan"):
        rows[name] = rows[name] * cells.astype(np.uint64)
    empty = cells == 0
    rows["has"][empty] &= np.uint8(~RowFlags.EXTREMES & 0xFF)
    rows["has"] &= np.uint8(~RowFlags.SUM & 0xFF)
    if unit["has"][0] & RowFlags.SUM:
        value = _numbers(unit["sum"], decoding.form)[0]
        with np.errstate(over="ignore"):
            total = value * cells.astype(value.dtype)
        fits = np.isfinite(total) & (np.abs(float(value)) * cells < 2.0**62)
        rows["sum"] = total.view(np.uint64)
        rows["has"][fits] |= np.uint8(RowFlags.SUM)
    return rows


def _numbers(bits: npt.NDArray[np.uint64], form: NumberType) -> Array:
    return np.ascontiguousarray(bits).view(TYPES.get(form, "<u8"))


def _columns(known: Mask, rows: StructRows, form: NumberType) -> Summaries:
    return Summaries(
        known=known,
        count=rows["count"].astype(np.int64),
        missing=rows["missing"].astype(np.int64),
        nan=rows["nan"].astype(np.int64),
        min=_numbers(rows["min"], form),
        max=_numbers(rows["max"], form),
        has_extremes=known & (rows["has"] & RowFlags.EXTREMES != 0),
        sum=_numbers(rows["sum"], form),
        has_sum=known & (rows["has"] & RowFlags.SUM != 0),
    )
