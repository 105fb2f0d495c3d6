"""Which cells a condition chooses: exact masks, and what each axis can hold at all.

Comparisons follow Spark: a missing value is neither equal nor unequal to anything, and NaN is
greater than every number.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import reduce
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from frazil.arrays import Mask
from frazil.cf.decoding import TIME, DecodedValues
from frazil.spark.options.labels import Labels
from frazil.spark.reading.where import (
    All,
    Any_,
    Compare,
    Condition,
    IsNull,
    Leaf,
    Literal,
    OneOf,
    Positions,
    both,
    leaves,
    pointing,
)
from frazil.spark.tuning import SORTED_FROM
from frazil.spelling import meant, unknown

LabelsOf: TypeAlias = Callable[[str], DecodedValues]
"""The values of a coordinate, in a shape that goes with the others'."""
PositionsOf: TypeAlias = Callable[[str], npt.NDArray[np.int64]]
"""The positions along a dimension, likewise."""


@dataclass(frozen=True, slots=True)
class KnownColumns:
    """What may be compared: coordinates with the type of their values and the axes they span."""

    types: Mapping[str, np.dtype[Any]]
    axes: Mapping[str, tuple[int, ...]]
    data_names: tuple[str, ...] = ()
    values: frozenset[str] = frozenset()
    """variables, not coordinates: they can be compared only where data are read"""

    def is_along_one(self, condition: Condition) -> bool:
        """Whether all that is compared lies along one axis, so that a mask of it says it all."""
        names = {leaf.name for leaf in leaves(condition)}
        spans = {self.axes[name] for name in names}
        return len(spans) == 1 and len(*spans) == 1 and not names & self.values


def checked(condition: Condition, text: str, known: KnownColumns) -> Condition:
    """The condition with the names that coordinates really have.

    Raises:
        InvalidInputError: a name is no coordinate, or a value does not fit its coordinate; the
            message marks the wrong part of the text.
    """
    match condition:
        case All(parts) | Any_(parts):
            return replace(condition, parts=tuple(checked(part, text, known) for part in parts))
        case Positions():
            return condition
        case leaf:
            found = replace(leaf, name=_coordinate(leaf.name, text, leaf.at, known, "where"))
            for value in _values_of(found):
                try:
                    literal(value, known.types[found.name])
                except ValueError as error:
                    problem = f"{found.name!r} cannot be compared with {value!r}: {error}"
                    raise pointing(text, leaf.at, problem) from None
            return found


def _coordinate(name: str, text: str, at: int, known: KnownColumns, option: str) -> str:
    """The coordinate that a name means."""
    found = meant(name, known.types)
    if found is not None:
        return found
    if meant(name, known.data_names) is not None:
        problem = (
            f"{name!r} is a data variable, and only coordinates can be chosen by; "
            "filter the DataFrame instead"
        )
    else:
        problem = unknown("coordinate", name, known.types)
    raise pointing(text, at, problem, option)


def _values_of(leaf: Leaf) -> tuple[Literal, ...]:
    match leaf:
        case Compare(value=value):
            return (value,)
        case OneOf(values=values):
            return values
        case _:
            return ()


def literal(value: Literal, dtype: np.dtype[Any]) -> Any:  # noqa: ANN401  (what numpy compares)
    """A value of a condition as numpy compares it with a coordinate.

    Raises:
        ValueError: it does not fit.
    """
    match dtype.kind, value:
        case "M", str():
            return parse_time(value)
        case "M", _:
            raise ValueError("a date as text is expected, such as '2024-05-01'")
        case "T", str():
            return value
        case "T", _:
            raise ValueError("it is text")
        case "b", bool():
            return value
        case "b", _:
            raise ValueError("true or false is expected")
        case (("i" | "u" | "f"), bool()):
            raise ValueError("a number is expected")
        case (("i" | "u" | "f"), str()):
            return float(value) if not re.fullmatch(r"[+-]?\d+", value) else int(value)
        case (("i" | "u" | "f"), _):
            return value
        case _:
            raise ValueError(f"values of type {dtype} have no order")


def parse_time(text: str) -> np.datetime64:
    """A time as text: any part of `2024-05-01T12:30:00.5`, in UTC unless a zone is named.

    Raises:
        ValueError: it is none.
    """
    written = text.strip()
    if re.fullmatch(r"\d{4}(-\d{1,2}(-\d{1,2})?)?", written):
        year, month, day = [*map(int, written.split("-")), 1, 1][:3]
        return np.datetime64(datetime(year, month, day), "us")
    found = datetime.fromisoformat(written)
    if found.tzinfo is not None:
        found = found.astimezone(UTC).replace(tzinfo=None)
    return np.datetime64(found, "us")


# --- masks ---


def matches(condition: Condition, look: LabelsOf, numbers: PositionsOf) -> Mask:
    """Tell for each cell whether a condition holds; arrays are broadcast against each other."""
    match condition:
        case All(parts):
            return reduce(operator.and_, (matches(part, look, numbers) for part in parts))
        case Any_(parts):
            return reduce(operator.or_, (matches(part, look, numbers) for part in parts))
        case Positions():
            return _at(condition, numbers(condition.name))
        case _:
            return satisfied(condition, look(condition.name))


def _at(chosen: Positions, numbers: npt.NDArray[np.int64]) -> Mask:
    if chosen.numbers:
        return np.isin(numbers, chosen.numbers)
    if chosen.runs:
        starts, stops = np.array(chosen.runs, np.int64).T
        last = np.searchsorted(starts, numbers, side="right") - 1
        found: Mask = (last >= 0) & (numbers < stops[last])
        return found
    inside: Mask = (numbers >= chosen.start) & (numbers < chosen.stop)
    return inside if chosen.step == 1 else inside & ((numbers - chosen.start) % chosen.step == 0)


def satisfied(leaf: Compare | OneOf | IsNull, decoded: DecodedValues) -> Mask:
    """Tell for each value whether a comparison holds."""
    values = decoded.values
    absent = decoded.missing
    if isinstance(leaf, IsNull):
        none = np.zeros(values.shape, bool) if absent is None else absent
        return ~none if leaf.negated else none
    if values.dtype == np.float32:
        values = values.astype(np.float64)  # as Spark compares; 0.1 is no single precision number
    found: Mask
    if isinstance(leaf, OneOf):
        found = _is_one_of(values, [literal(v, values.dtype) for v in leaf.values])
        found = ~found if leaf.negated else found
    else:
        found = _compared(values, leaf.sign, literal(leaf.value, values.dtype))
    return found if absent is None else found & ~absent


def _is_one_of(values: npt.NDArray[Any], wanted: list[Any]) -> Mask:
    kind = values.dtype.kind
    if kind in "iufM" and len(wanted) > SORTED_FROM:
        listed = np.array(wanted, None if kind != "M" else TIME)
        # Beside a fraction numpy would round whole numbers.
        if kind not in "iu" or np.result_type(values, listed).kind in "iu":
            return np.isin(values, listed)
    found = np.zeros(values.shape, bool)
    for one in wanted:
        found |= values == one
    return found


SIGNS: Final[Mapping[str, Callable[[Any, Any], Any]]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def _compared(values: npt.NDArray[Any], sign: str, value: Any) -> Mask:  # noqa: ANN401  (numpy)
    found: Mask = SIGNS[sign](values, value)
    if sign in (">", ">=") and values.dtype.kind == "f":
        found = found | np.isnan(values)
    return found


# --- labels ---


def label_condition(labels: Sequence[Labels], text: str, known: KnownColumns) -> Condition | None:
    """The condition that labels stand for.

    Dates mean all of the year, month, day, … they name; both ends of a range count.
    """
    found: Condition | None = None
    for given in labels:
        chosen = replace(given, name=_coordinate(given.name, text, given.at, known, "sel"))
        dtype = known.types[chosen.name]
        try:
            found = both(found, _labelled(chosen, dtype))
        except ValueError as error:
            problem = f"{chosen.name!r} has no such label: {error}"
            raise pointing(text, chosen.at, problem, "sel") from None
    return found


def _labelled(chosen: Labels, dtype: np.dtype[Any]) -> Condition | None:
    if chosen.values:
        return Any_(tuple(_labelled_one(chosen.name, v, dtype, chosen.at) for v in chosen.values))
    low, high = chosen.low, chosen.high
    if dtype.kind in "iuf" and low is not None and high is not None:
        first, second = literal(low, dtype), literal(high, dtype)
        low, high = (low, high) if first <= second else (high, low)
    parts: list[Condition] = []
    if low is not None:
        parts.append(Compare(chosen.name, ">=", _label(low, dtype), chosen.at))
    if high is not None:
        end = _period_end(high) if dtype.kind == "M" else None
        parts.append(
            Compare(chosen.name, "<=", _label(high, dtype), chosen.at)
            if end is None
            else Compare(chosen.name, "<", end, chosen.at)
        )
    return All(tuple(parts)) if parts else None


def _labelled_one(name: str, value: str, dtype: np.dtype[Any], at: int) -> Condition:
    end = _period_end(value) if dtype.kind == "M" else None
    if end is None:
        return Compare(name, "=", _label(value, dtype), at)
    return All((Compare(name, ">=", value, at), Compare(name, "<", end, at)))


def _label(text: str, dtype: np.dtype[Any]) -> Literal:
    if dtype.kind == "b":
        return text.lower() == "true"
    value: Any = literal(text, dtype)
    return text if dtype.kind in "MT" else value


def _period_end(text: str) -> str | None:
    """Where the year, month, day, hour or minute that a text names ends; None for an instant."""
    for pattern, unit in _PERIODS.items():
        if re.fullmatch(pattern, text.strip()):
            start = parse_time(text).astype(f"M8[{unit}]")
            return str((start + 1).astype("M8[s]"))
    return None


_PERIODS: Final = {
    r"\d{4}": "Y",
    r"\d{4}-\d{1,2}": "M",
    r"\d{4}-\d{1,2}-\d{1,2}": "D",
    r"\d{4}-\d{2}-\d{2}[T ]\d{2}": "h",
    r"\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}": "m",
}
