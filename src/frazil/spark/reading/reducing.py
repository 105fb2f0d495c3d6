"""Values reduced over some axes: counts, sums, extremes and squares, and how parts of them join.

Missing values do not count, and NaN is greater than every number, as in Spark.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from frazil.arrays import Mask
from frazil.cf.decoding import DecodedValues, Values
from frazil.errors import InvalidInputError
from frazil.spark.reading.partitions import Region

COUNT, SUM, MIN, MAX, SQUARES = AGGREGATES = ("count", "sum", "min", "max", "squares")
"""`squares` is the sum of squared distances from the mean of the row's own cells."""
LOW: Final = 0xFFFF_FFFF
MOST_CELLS: Final = 2**63 - 1
"""Rows that Spark can count."""

Counts: TypeAlias = npt.NDArray[np.int64]


def countable(lengths: Iterable[int]) -> int:
    """How many cells a box has.

    Raises:
        InvalidInputError: 64 bits cannot count them, nor can Spark.
    """
    found = math.prod(lengths)
    if found > MOST_CELLS:
        raise InvalidInputError(
            f"there are {found:,} rows, and at most {MOST_CELLS:,} can be counted; "
            "choose fewer with where, sel or isel"
        )
    return found


@dataclass(slots=True, eq=False)
class Reduced:
    """Aggregates of one variable, for each label."""

    count: Counts
    total: Values | None = None
    low: Counts | None = None
    """the lower halves of whole numbers, whose upper halves are `total`"""
    least: Values | None = None
    most: Values | None = None
    squares: Values | None = None

    def repeated(self, times: int, shape: tuple[int, ...]) -> Reduced:
        """The same where all cells are there so many times, for labels of some shape."""

        def spread(values: Values | None, by: int = 1) -> Values | None:
            if values is None:
                return None
            return np.broadcast_to(values if by == 1 else values * by, shape)

        count = spread(self.count, times)
        assert count is not None
        return Reduced(
            count,
            spread(self.total, times),
            spread(self.low, times),
            spread(self.least),
            spread(self.most),
            spread(self.squares, times),
        )

    def add(self, other: Reduced) -> None:
        """Take other cells of the same labels in."""
        if self.squares is not None and other.squares is not None:
            assert self.total is not None
            assert other.total is not None
            self.squares = _joint_squares(self, other)
        if self.total is not None and other.total is not None:
            self.total = self.total + other.total
        if self.low is not None and other.low is not None:
            self.low = self.low + other.low
        if self.least is not None and other.least is not None:
            self.least = _joint(np.fmin, self.least, other.least, self.count, other.count)
        if self.most is not None and other.most is not None:
            self.most = _joint(np.maximum, self.most, other.most, self.count, other.count)
        self.count = self.count + other.count

    def merged(self, axis: int, runs: ClassRuns) -> Reduced:
        """The same with labels along an axis that come to the same taken together."""

        def add(values: Values) -> Values:
            made: Values = np.add.reduceat(values, runs.starts, axis=axis)
            return made

        def taken(values: Values | None) -> Values | None:
            return None if values is None else values.take(runs.order, axis=axis)

        count, total, low = taken(self.count), taken(self.total), taken(self.low)
        least, most, squares = taken(self.least), taken(self.most), taken(self.squares)
        assert count is not None
        one = Reduced(count, total, low, squares=squares)
        found = Reduced(add(count))
        with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
            found.total = None if total is None else add(total)
            found.low = None if low is None else add(low)
            if squares is not None:
                means = np.repeat(_sums(found) / found.count, runs.lengths, axis=axis)
                apart = _sums(one) / count - means
                found.squares = add(np.where(count == 0, 0.0, squares + count * apart * apart))
            # Labels without values have extremes that do not matter to others.
            if least is not None:
                pick, chosen = _picked(least, None, least=True)
                found.least = pick.reduceat(chosen, runs.starts, axis=axis).view(least.dtype)
            if most is not None:
                pick, chosen = _picked(most, None, least=False)
                found.most = pick.reduceat(chosen, runs.starts, axis=axis).view(most.dtype)
        return found


@dataclass(frozen=True, slots=True, eq=False)
class LabelClasses:
    """Labels along an axis that come to the same."""

    numbers: Counts
    """the class of each label"""
    firsts: Counts
    """the first label of each class"""

    @property
    def count(self) -> int:
        """How many there are."""
        return len(self.firsts)

    @classmethod
    def of(cls, answers: Sequence[Counts]) -> LabelClasses:
        """The labels for which some numbers are equal."""
        _, firsts, numbers = np.unique(
            np.stack(answers), axis=1, return_index=True, return_inverse=True
        )
        order = np.argsort(firsts)
        place = np.empty_like(order)
        place[order] = np.arange(len(order))
        return cls(place[numbers.reshape(-1)], firsts[order])


@dataclass(frozen=True, slots=True, eq=False)
class ClassRuns:
    """How labels are put in the order of their classes."""

    order: Counts
    starts: Counts
    """where classes begin then"""

    @property
    def lengths(self) -> Counts:
        """How many labels classes have."""
        return np.diff(self.starts, append=len(self.order))


# `pick` is a function of numpy.
def _joint(pick: Any, one: Values, two: Values, n: Counts, m: Counts) -> Values:  # noqa: ANN401
    with np.errstate(invalid="ignore"):
        found: Values = np.where(n == 0, two, np.where(m == 0, one, pick(one, two)))
    return found


def _joint_squares(one: Reduced, two: Reduced) -> Values:
    """Squared distances from the common mean."""
    n, m = one.count.astype("f8"), two.count.astype("f8")
    assert one.squares is not None
    assert two.squares is not None
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        apart = _sums(two) / m - _sums(one) / n
        between = np.where((n == 0) | (m == 0), 0.0, apart * apart * n * m / (n + m))
    found: Values = one.squares + two.squares + between
    return found


def _sums(reduced: Reduced) -> Values:
    assert reduced.total is not None
    if reduced.low is None:
        return reduced.total.astype("f8")
    return reduced.total.astype("f8") * float(LOW + 1) + reduced.low


def reduce_values(
    decoded: DecodedValues, mask: Mask | None, axes: tuple[int, ...], wanted: Iterable[str]
) -> Reduced:
    """Reduce values over some axes; `mask` says which cells count, missing values never do."""
    values = decoded.values
    valid = mask
    if decoded.missing is not None:
        valid = ~decoded.missing if mask is None else mask & ~decoded.missing
    over = countable(values.shape[axis] for axis in axes)
    rest = tuple(n for axis, n in enumerate(values.shape) if axis not in axes)
    found = Reduced(np.full(rest, over) if valid is None else added_over(valid, axes, np.int64))
    with np.errstate(invalid="ignore", over="ignore"):
        if SUM in wanted or SQUARES in wanted:
            _add_sums(found, values, valid, axes)
        if SQUARES in wanted:
            found.squares = _squares(found, values, valid, axes)
        if MIN in wanted:
            found.least = _extreme(values, valid, axes, least=True)
        if MAX in wanted:
            found.most = _extreme(values, valid, axes, least=False)
    return found


def added_over(values: Values, axes: tuple[int, ...], dtype: type) -> Values:
    """Sums over axes; over none of them, the values themselves."""
    return np.asarray(np.sum(values, axis=axes, dtype=dtype))


def _add_sums(found: Reduced, values: Values, valid: Mask | None, axes: tuple[int, ...]) -> None:
    chosen = values if valid is None else np.where(valid, values, values.dtype.type(0))
    if values.dtype.kind == "f":
        found.total = added_over(chosen, axes, np.float64)
    elif values.dtype.itemsize < 8:
        found.total = added_over(chosen, axes, np.int64)
    else:  # 64 bits of many values may need more than 64
        found.total = added_over(chosen >> 32, axes, np.int64)
        found.low = added_over(chosen & LOW, axes, np.int64)


def _squares(found: Reduced, values: Values, valid: Mask | None, axes: tuple[int, ...]) -> Values:
    with np.errstate(divide="ignore"):
        mean = np.expand_dims(_sums(found) / found.count, axes)
    apart = np.subtract(values, mean, dtype=np.float64)
    np.multiply(apart, apart, out=apart)
    if valid is not None:
        apart[~valid] = 0.0
    made: Values = np.sum(apart, axis=axes)
    return np.where(found.count == 0, 0.0, made)


def _extreme(values: Values, valid: Mask | None, axes: tuple[int, ...], *, least: bool) -> Values:
    pick, chosen = _picked(values, valid, least=least)
    found: Values = pick.reduce(chosen, axis=axes) if axes else chosen
    return found.view(values.dtype)


def _picked(values: Values, valid: Mask | None, *, least: bool) -> tuple[np.ufunc, Values]:
    """How the extreme is found, and the values for that; times are numbers there."""
    kind = values.dtype.kind
    plain = values.view(np.int64) if kind == "M" else values
    pick: np.ufunc
    if kind == "f":
        # Of two numbers of which one is NaN, the other is the smaller.
        pick, none = (np.fmin, np.nan) if least else (np.maximum, -np.inf)
        return pick, plain if valid is None else np.where(valid, plain, plain.dtype.type(none))
    pick = np.minimum if least else np.maximum
    return pick, plain if valid is None else np.where(valid, plain, bound(plain.dtype, least))


def bound(dtype: np.dtype[Any], least: bool) -> Any:  # noqa: ANN401  (of that type)
    """What every whole number or boolean is at most, or at least."""
    if dtype.kind == "b":
        return least
    info = np.iinfo(dtype)
    return dtype.type(info.max if least else info.min)


@dataclass(slots=True, eq=False)
class GroupAggregates:
    """The aggregates of cells with the same labels, and where these are."""

    region: Region
    rows: Counts
    reduced: list[Reduced] = field(default_factory=list)

    def merged(self, kept: Sequence[int], classes: Mapping[int, LabelClasses]) -> GroupAggregates:
        """The same with labels that come to the same taken together; `kept` are the axes left."""
        region, found = [*self.region], GroupAggregates((), self.rows, self.reduced)
        for number, axis in enumerate(kept):
            own = classes.get(axis)
            if own is None:
                continue
            numbers = own.numbers[region[axis]]
            order = np.argsort(numbers, kind="stable")
            present, starts = np.unique(numbers[order], return_index=True)
            runs = ClassRuns(order, starts)
            found.rows = np.add.reduceat(found.rows.take(order, axis=number), starts, axis=number)
            found.reduced = [each.merged(number, runs) for each in found.reduced]
            region[axis] = own.firsts[present]
        found.region = tuple(region)
        return found

    def add(self, other: GroupAggregates) -> None:
        """Take other cells of the same labels in."""
        self.rows = self.rows + other.rows
        for one, two in zip(self.reduced, other.reduced, strict=True):
            one.add(two)
