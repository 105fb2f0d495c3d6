"""Computes the statistics of a chunk from its values: counts, extremes and sums, as one row."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from frazil.arrays import StructRows
from frazil.cf.decoding import DecodedValues
from frazil.statistics.records import NumberType, RowFlags, blank_rows, form_of

_LOW: Final = np.uint64(0xFFFF_FFFF)
LIMITS: Final = {NumberType.INTEGER: (-(2**63), 2**63), NumberType.UNSIGNED: (0, 2**64)}


def measure(decoded: DecodedValues, rows: StructRows, row: int) -> None:
    """Enter what there is to know of some values into a row."""
    values, form = decoded.values, form_of(decoded.values.dtype)
    present = values.ravel() if decoded.missing is None else values[~decoded.missing]
    rows["count"][row], rows["missing"][row] = present.size, values.size - present.size
    rows["form"][row] = form
    if form is NumberType.NONE:
        return
    if values.dtype.kind in "Mm":
        present = present.view(np.int64)
    if form is NumberType.FLOAT:
        is_nan = np.isnan(present)
        count = int(is_nan.sum())
        rows["nan"][row] = count
        present = present[~is_nan] if count else present
    if present.size:
        wide = {NumberType.FLOAT: "f8", NumberType.INTEGER: "i8", NumberType.UNSIGNED: "u8"}[form]
        for name, value in (("min", present.min()), ("max", present.max())):
            rows[name][row] = np.array(value, wide).view(np.uint64)
        rows["has"][row] |= RowFlags.EXTREMES
    total = None if values.dtype.kind == "M" else _sum(present, form)
    if total is not None:
        rows["sum"][row] = total
        rows["has"][row] |= RowFlags.SUM


def _sum(values: npt.NDArray[Any], form: NumberType) -> np.uint64 | None:
    """The bits of a sum; None where it does not fit, or where its order would matter."""
    if form is NumberType.FLOAT:
        with np.errstate(over="ignore", invalid="ignore"):
            added = np.float64(values.sum(dtype=np.float64))
        return added.view(np.uint64) if np.isfinite(added) else None
    if values.dtype.itemsize < 8:
        exact = int(values.sum(dtype=np.int64))
    else:
        low = int((values.view(np.uint64) & _LOW).sum(dtype=np.uint64))
        shift = values.dtype.type(32)
        exact = (int((values >> shift).sum(dtype=values.dtype)) << 32) + low
    low_limit, limit = LIMITS[form]
    if not low_limit <= exact < limit:
        return None
    return np.uint64(exact & (2**64 - 1))


def measured_row(decoded: DecodedValues) -> StructRows:
    """A row of some values, without a key."""
    rows = blank_rows(1)
    measure(decoded, rows, 0)
    return rows
