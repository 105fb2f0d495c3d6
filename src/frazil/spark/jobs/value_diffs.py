"""Values of two versions compared by tasks, as rows: by array, by chunk, or cell by cell."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

import numpy as np
from pyspark.sql import types as t

from frazil.bulk.grid import grid_of
from frazil.comparing.pairing import ComparisonPart, Pair, cell_shape, comparison_parts, plan_pairs
from frazil.comparing.records import ArrayDiff, Box, FoundBy, Sample, Tally
from frazil.comparing.values import MAX_SAMPLES, array_diff, compare_portion
from frazil.errors import invalid_option
from frazil.ids import SnapshotId
from frazil.session import Session
from frazil.spark import tasks, worker
from frazil.spark.location import Pinned
from frazil.spark.reading.columns import arrow_schema, row_batch, struct
from frazil.spark.runner import SparkRunner, items_frame, over_items
from frazil.spark.sessions import session as spark_session
from frazil.spark.tasks import Batches, Options
from frazil.spark.upkeep.procedure import ProcedureTarget, ResultRow, procedure
from frazil.transaction.opened import context_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

DiffBy: TypeAlias = Literal["array", "chunk", "cell"]
BY: Final = ("array", "chunk", "cell")
_PLACE, _TEXT = t.ArrayType(t.LongType()), t.StringType()
_SAMPLE: Final = t.StructType().add("cell", _PLACE).add("old", _TEXT).add("new", _TEXT)
ARRAYS: Final = struct(
    "node_path string, change string, found_by string, old_path string, cells_compared long, "
    "cells_changed long, cells_added long, cells_removed long, min_difference double, "
    "max_difference double, mean_difference double, box_start array<long>, box_stop array<long>"
).add("samples", t.ArrayType(_SAMPLE))
"""columns of a row for each array"""
_CHUNKS: Final = struct(
    "node_path string, cell_start array<long>, cell_stop array<long>, cells_compared long, "
    "cells_changed long, differences long, min_difference double, max_difference double, "
    "sum_difference double, box_start array<long>, box_stop array<long>"
)
_CELLS: Final = struct(
    "node_path string, cell array<long>, old string, new string, difference double"
)


@dataclass(frozen=True, slots=True, eq=False)
class DiffTask:
    """A portion of the comparison of two arrays, for a task."""

    pair: int
    old_path: str
    new_path: str
    portion: ComparisonPart

    def nodes(self, old: Session, new: Session) -> Pair:
        """The two arrays."""
        return Pair(old.state.array(self.old_path), new.state.array(self.new_path), FoundBy.CELLS)


def diff_values(
    url: str,
    before: str,
    after: str,
    by: DiffBy = "array",
    *,
    paths: Sequence[str] | None = None,
    max_samples: int = MAX_SAMPLES,
    spark: SparkSession | None = None,
    options: Options | None = None,
) -> DataFrame:
    """How the values of two versions differ, reading only chunks that may; tasks share the work.

    Args:
        url: the repository.
        before: a branch, a tag, a snapshot id or a `{time}`.
        after: likewise; they need not be ancestors of each other.
        by: `array` for a row for each array that differs, with statistics and samples; `chunk`
            for a row for each chunk, or region, with changed cells; `cell` for a row for each.
        paths: arrays, or groups above them; all by default.
        max_samples: cells that a row for an array shows.
        spark: the session to use; the active or an embedded one by default.
        options: options of the data source, such as `storage.region`.
    """
    if by not in BY:
        raise invalid_option(f"by must be one of {', '.join(BY)}, not {by!r}")
    chosen = spark or spark_session()
    target = tasks.target_of(url, options)
    if target.ref is not None:
        raise invalid_option("both versions are arguments: leave out that of the URL")
    repository = target.location.open()
    first, last = repository.resolve(before), repository.resolve(after)
    context = context_of(repository)
    pairs = list(plan_pairs(context, SnapshotId.parse(first), SnapshotId.parse(last), paths))
    old, new = Session(context, SnapshotId.parse(first)), Session(context, SnapshotId.parse(last))
    works = list(_works(pairs, old, new))
    ends = Pinned(target.location, first), Pinned(target.location, last)
    if by == "array":
        return _by_array(chosen, pairs, works, ends, max_samples)
    compare, schema = (_chunk_rows, _CHUNKS) if by == "chunk" else (_cell_rows, _CELLS)
    return tasks.map_batches(items_frame(chosen, works), lambda b: compare(ends, b), schema)


def _works(pairs: Sequence[Pair], old: Session, new: Session) -> Iterator[DiffTask]:
    """What tasks do."""
    for number, pair in enumerate(pairs):
        if pair.old is None or pair.new is None:
            continue
        for portion in comparison_parts(pair, old.state, new.state):
            yield DiffTask(number, pair.old.path, pair.new.path, portion)


# --- by array ---


def _tally(pinned: tuple[Pinned, Pinned], max_samples: int, item: DiffTask) -> Tally:
    """How the values of a portion differ, in a task."""
    old, new = map(worker.session_at, pinned)
    return compare_portion(old, new, item.nodes(old, new), item.portion, max_samples)


def _by_array(
    spark: SparkSession,
    pairs: Sequence[Pair],
    works: Sequence[DiffTask],
    pinned: tuple[Pinned, Pinned],
    max_samples: int,
) -> DataFrame:
    work = partial(_tally, pinned, max_samples)
    tallies, counts = [Tally()] * len(pairs), [0] * len(pairs)
    for number, tally in SparkRunner(spark).run(work, works):
        item = works[number]
        tallies[item.pair] = tallies[item.pair].merged(tally, max_samples)
        counts[item.pair] += 1 if item.portion.chunks is None else len(item.portion.chunks)
    detail = (
        array_diff(pair, tally, count)
        for pair, tally, count in zip(pairs, tallies, counts, strict=True)
    )
    return spark.createDataFrame([array_row(each) for each in detail if not each.is_equal], ARRAYS)


def array_row(diff: ArrayDiff) -> ResultRow:
    """The differences of an array as a row."""
    return (
        diff.path,
        str(diff.change),
        str(diff.found_by),
        diff.old_path,
        diff.cells_compared,
        diff.cells_changed,
        diff.cells_added,
        diff.cells_removed,
        diff.min_difference,
        diff.max_difference,
        diff.mean_difference,
        *_edges(diff.bounding_box),
        [(list(each.coords), str(each.old), str(each.new)) for each in diff.samples],
    )


def _edges(box: Box | None) -> tuple[list[int] | None, list[int] | None]:
    if box is None:
        return None, None
    return [start for start, _ in box], [stop for _, stop in box]


# --- by chunk and by cell ---


def _singly(item: DiffTask, pair: Pair) -> Iterator[tuple[ComparisonPart, Box]]:
    """The portions of a portion that are one chunk, or one region, with their cells."""
    chunks = item.portion.chunks
    if chunks is None:
        yield item.portion, item.portion.box
        return
    assert pair.new is not None
    assert pair.common is not None
    grid = grid_of(pair.new)
    for row in range(len(chunks)):
        one = chunks[row : row + 1]
        box = []
        for axis, length in enumerate(pair.common):
            start = int(grid[axis].start_of(one[:, axis])[0])
            box.append((start, min(length, start + int(grid[axis].size_of(one[:, axis])[0]))))
        yield ComparisonPart(one), tuple(box)


def _chunk_rows(pinned: tuple[Pinned, Pinned], batches: Batches) -> Batches:
    old, new = map(worker.session_at, pinned)
    for _, item in over_items(batches):
        pair = item.nodes(old, new)
        rows: list[ResultRow] = []
        for portion, box in _singly(item, pair):
            tally = compare_portion(old, new, pair, portion)
            if tally.changed:
                numbers = (tally.compared, tally.changed, tally.differences)
                spread = (tally.least, tally.most, tally.total)
                rows.append((item.new_path, *_edges(box), *numbers, *spread, *_edges(tally.box)))
        if rows:
            yield row_batch(rows, arrow_schema(_CHUNKS))


def _cell_rows(pinned: tuple[Pinned, Pinned], batches: Batches) -> Batches:
    old, new = map(worker.session_at, pinned)
    for _, item in over_items(batches):
        pair = item.nodes(old, new)
        assert pair.common is not None
        for portion, _ in _singly(item, pair):
            cells = int(np.prod(cell_shape(pair.new), dtype=object)) if pair.new else 0
            tally = compare_portion(old, new, pair, portion, max_samples=max(1, cells))
            rows = [(item.new_path, *_cell(each)) for each in tally.samples]
            if rows:
                yield row_batch(rows, arrow_schema(_CELLS))


def _cell(sample: Sample) -> ResultRow:
    difference: float | None = None
    if isinstance(sample.old, int | float) and isinstance(sample.new, int | float):
        difference = float(sample.new) - float(sample.old)
    return [*sample.coords], str(sample.old), str(sample.new), difference


# --- procedures ---


@procedure("how values differ between two versions, by array", ARRAYS, name="diff_values")
def diff_values_procedure(
    place: ProcedureTarget,
    start_snapshot_id: str,
    end_snapshot_id: str | None = None,
    paths: str | None = None,
    max_samples: int = MAX_SAMPLES,
) -> Iterable[ResultRow]:
    """How values differ between two versions, a row for each array; `paths` has commas."""
    end = place.snapshot() if end_snapshot_id is None else end_snapshot_id
    chosen = None if paths is None else [each.strip() for each in paths.split(",")]
    found = place.repository.versions.diff_values(
        start_snapshot_id, end, paths=chosen, max_samples=max_samples
    )
    return (array_row(each) for each in found.arrays)
