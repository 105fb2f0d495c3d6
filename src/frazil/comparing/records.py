"""What a comparison of values tells: a record for the whole, one for each array, and tallies."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any, TypeAlias

from frazil.arrays import Shape
from frazil.drawing.reports import ReportView

Box: TypeAlias = tuple[tuple[int, int], ...]
"""Per axis the first cell and the one past the last."""


class ArrayChange(StrEnum):
    """What became of an array."""

    CHANGED = "changed"
    ADDED = "added"
    DELETED = "deleted"


class FoundBy(StrEnum):
    """How the chunks to read were found."""

    LOGS = "logs"
    """transaction logs name the chunks that commits wrote"""
    MANIFESTS = "manifests"
    """the references of both snapshots were compared"""
    CELLS = "cells"
    """data type, codecs or chunks differ, so everything was read"""
    METADATA = "metadata"
    """nothing was read: the array is on one side only"""


@dataclass(frozen=True, slots=True)
class Sample:
    """One cell that differs."""

    coords: Shape
    old: Any
    new: Any


@dataclass(frozen=True, slots=True)
class Tally:
    """What a comparison of some cells found; tallies of parts add up to that of the whole."""

    compared: int = 0
    changed: int = 0
    differences: int = 0
    """changed cells whose difference is a finite number; the statistics are over these"""
    least: float | None = None
    most: float | None = None
    total: float = 0.0
    box: Box | None = None
    samples: tuple[Sample, ...] = ()

    @property
    def mean(self) -> float | None:
        """Mean of the differences."""
        return self.total / self.differences if self.differences else None

    def merged(self, other: Tally, max_samples: int) -> Tally:
        """The sum of two tallies; of the samples, those with the smallest coordinates are kept."""
        samples = sorted((*self.samples, *other.samples), key=lambda each: each.coords)
        return Tally(
            self.compared + other.compared,
            self.changed + other.changed,
            self.differences + other.differences,
            _chosen(min, self.least, other.least),
            _chosen(max, self.most, other.most),
            self.total + other.total,
            _around(self.box, other.box),
            tuple(samples[:max_samples]),
        )


def _chosen(choose: Any, one: float | None, other: float | None) -> float | None:  # noqa: ANN401 - min or max
    if one is None or other is None:
        return other if one is None else one
    found: float = choose(one, other)
    return found


def _around(one: Box | None, other: Box | None) -> Box | None:
    if one is None or other is None:
        return other if one is None else one
    return tuple((min(a, c), max(b, d)) for (a, b), (c, d) in zip(one, other, strict=True))


@dataclass(frozen=True, slots=True)
class ArrayDiff:
    """How the values of one array differ; differences are new minus old."""

    path: str
    change: ArrayChange
    found_by: FoundBy
    old_path: str | None = None
    """where the array was, if it has moved"""
    old_shape: Shape | None = None
    new_shape: Shape | None = None
    old_dtype: str | None = None
    new_dtype: str | None = None
    chunks_read: int = 0
    """chunks of the new array, or regions, that were read on both sides"""
    cells_compared: int = 0
    cells_changed: int = 0
    cells_added: int = 0
    """cells that only the new shape has"""
    cells_removed: int = 0
    """cells that only the old shape has"""
    differences: int = 0
    """changed cells whose difference is a finite number; the statistics are over these"""
    min_difference: float | None = None
    max_difference: float | None = None
    mean_difference: float | None = None
    bounding_box: Box | None = None
    """of the changed cells"""
    samples: tuple[Sample, ...] = ()

    @property
    def is_equal(self) -> bool:
        """Whether all cells are the same."""
        return not (
            self.cells_changed
            or self.cells_added
            or self.cells_removed
            or self.change != ArrayChange.CHANGED
        )


@dataclass(frozen=True, slots=True, repr=False)
class ValueDiff(ReportView):
    """How the values of two snapshots differ."""

    from_snapshot_id: str
    to_snapshot_id: str
    arrays: tuple[ArrayDiff, ...]
    """only arrays that differ, by path"""

    @property
    def is_empty(self) -> bool:
        """Whether all values are the same."""
        return not self.arrays

    @property
    def cells_changed(self) -> int:
        """Changed cells of all arrays that both sides have."""
        return sum(each.cells_changed for each in self.arrays)

    def array(self, path: str) -> ArrayDiff | None:
        """The differences of one array, or None if there are none."""
        wanted = "/" + path.strip("/")
        return next((each for each in self.arrays if each.path == wanted), None)
