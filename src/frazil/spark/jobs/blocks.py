"""Functions over blocks of arrays: xarray or numpy in, new arrays out, one commit.

The driver runs the function on the first and the last block to learn what it makes, and puts the
new arrays into a session; tasks write their blocks through forks of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import TYPE_CHECKING, TypedDict, Unpack

import xarray as xr

from frazil.errors import AlreadyExistsError, ErrorKind, invalid_option
from frazil.masking import shown_url
from frazil.progress import Progress, Tell, silent
from frazil.run import JobReport, commit_job, copy_groups, path_of, run_with_progress
from frazil.session import ForkSession, Session
from frazil.spark import tasks
from frazil.spark.jobs.block_tasks import (
    PARTIALS,
    BlockJob,
    Function,
    Made,
    Output,
    make_arrays,
    open_group,
    plan_outputs,
)
from frazil.spark.runner import SparkRunner
from frazil.spark.tasks import GatheredChunks, Options
from frazil.spark.tuning import LEAST_TASKS, MOST_TASKS, PARTIAL_BYTES
from frazil.spelling import require_known, unknown

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class BlockJobOptions(TypedDict, total=False):
    """What both functions take beside their own arguments, all by name."""

    blocks: Mapping[str, int] | None
    """length of blocks by dimension, -1 for all of it; chunks by default"""
    spark: SparkSession | None
    """the session to use; the active or an embedded one by default"""
    group: str | None
    """the group of the inputs; the root by default"""
    target: str | None
    """another repository to write to, made when there is none"""
    output_group: str | None
    """the group of the outputs; that of the inputs by default"""
    branch: str | None
    """the branch to commit to; that of the URL written to, or `main`, by default"""
    overwrite: bool
    """replace arrays of the names of the outputs"""
    message: str | None
    """of the commit"""
    options: Options | None
    """options of the data source for `url`, such as `storage.region`"""
    target_options: Options | None
    """the same for `target`"""
    progress: Tell | None
    """is called with the current step and the progress so far"""


def map_blocks(
    fn: Function,
    url: str,
    inputs: str | Sequence[str],
    *,
    outputs: str | Sequence[str] | None = None,
    as_numpy: bool = False,
    **job: Unpack[BlockJobOptions],
) -> JobReport:
    """Apply a function to blocks of variables and write what it makes as new arrays.

    Args:
        fn: takes an `xarray.Dataset` of a block, decoded and with its coordinates, and gives a
            Dataset or a named DataArray; along a dimension of the blocks every block must give
            the same number of cells, except the last. With `as_numpy` it takes the values of the
            inputs as arrays, and gives one or several with the same axes.
        url: `URL[@version]` of the repository to read.
        inputs: names of variables of the group.
        outputs: names for what `fn` makes; needed with `as_numpy`.
        as_numpy: hand over values only.
        job: where to read and write, and in which blocks; see `BlockJobOptions`.

    A daily mean of hourly values: `map_blocks(lambda ds: ds.coarsen(time=24).mean(), url,
    "t2m", blocks={"time": 240}, output_group="daily")`.

    Raises:
        InvalidInputError: there is no such variable or dimension, or the blocks that `fn` makes
            do not fit together.
        AlreadyExistsError: there is an array of the name of an output.
    """
    run = _Run(url, job)
    work = run.blocks(fn, inputs, outputs, as_numpy=as_numpy)
    last = work.apply(work.count - 1) if work.count > 1 else None
    plan = plan_outputs(work.apply(0), last, work.counts)
    return run.write(work, plan, "map_blocks", f"Map blocks of {shown_url(url)}")


def reduce_blocks(
    fn: Function,
    url: str,
    inputs: str | Sequence[str],
    over: str | Sequence[str],
    *,
    combine: Callable[[Made, Made], Made] | None = None,
    finish: Callable[[Made], Made] | None = None,
    **job: Unpack[BlockJobOptions],
) -> JobReport:
    """Reduce variables over dimensions, block by block, and write the result as new arrays.

    Args:
        fn: takes an `xarray.Dataset` of a block and gives a Dataset without the dimensions
            `over`, such as sums and counts.
        url: `URL[@version]` of the repository to read.
        inputs: names of variables of the group.
        over: the dimensions to reduce over.
        combine: makes one of what `fn` gave for two blocks, the earlier first; their sum by
            default.
        finish: makes the result of what was combined, such as a mean of a sum and a count.
        job: where to read and write, and in which blocks; see `BlockJobOptions`.

    Raises:
        InvalidInputError: there is no such variable or dimension, or the blocks that `fn` makes
            do not fit together.
        AlreadyExistsError: there is an array of the name of an output.
    """
    run = _Run(url, job)
    gone = [over] if isinstance(over, str) else [*over]
    work = run.blocks(fn, inputs, None, as_numpy=False).reducing(gone, combine, finish)
    first = work.finished(work.apply(0))
    last = work.finished(work.apply(work.count - 1)) if work.count > 1 else None
    kept = {dim: n for dim, n in work.counts.items() if dim not in gone}
    plan = plan_outputs(first, last, kept, is_reduction=True)
    return run.write(work, plan, "reduce_blocks", f"Reduce {shown_url(url)} over {', '.join(gone)}")


class _Run:
    """One run of either function."""

    def __init__(self, url: str, job: BlockJobOptions) -> None:
        require_known(job, BlockJobOptions)
        self._job = job
        self._runner = SparkRunner(job.get("spark"))
        self._ends = tasks.ends_of(
            url,
            job.get("options"),
            job.get("target"),
            job.get("target_options"),
            job.get("branch"),
        )
        group, place = job.get("group"), job.get("output_group")
        self._group = path_of(group if group is not None else self._ends.source.node, "")
        self._place = path_of(self._group if place is None else place, "")
        self._read: tuple[str, ...] = ()

    def blocks(
        self,
        fn: Function,
        inputs: str | Sequence[str],
        outputs: str | Sequence[str] | None,
        *,
        as_numpy: bool,
    ) -> BlockJob:
        """The work of tasks."""
        names = (inputs,) if isinstance(inputs, str) else tuple(inputs)
        made = (outputs,) if isinstance(outputs, str) else tuple(outputs or ())
        if as_numpy and not made:
            raise invalid_option("numpy arrays have no names: give outputs")
        view = open_group(self._ends.pinned, self._group)
        for name in names:
            if name not in view.variables:
                raise invalid_option(unknown("variable", name, map(str, view.variables)))
        chosen = view[list(names)]
        self._read = tuple(path_of(self._group, str(name)) for name in chosen.variables)
        sizes = {str(dim): int(n) for dim, n in chosen.sizes.items()}
        lengths = _lengths(chosen, names, sizes, self._job.get("blocks") or {})
        return BlockJob(
            fn, self._ends.pinned, self._group, names, made, as_numpy, tuple(sizes.items()), lengths
        )

    def write(self, work: BlockJob, plan: Sequence[Output], name: str, message: str) -> JobReport:
        """Make the arrays, let tasks fill them, and commit."""
        runner, progress = self._runner, self._job.get("progress")
        writing = self._ends.writable_session()
        if self._ends.is_same:  # else a version was chosen, whatever becomes of the branch
            writing.rely_on(*self._read)
        copy_groups(writing.state, writing.state, self._place)
        kept = _kept(writing, self._place, plan, self._job.get("overwrite", False))
        make_arrays(writing, self._place, kept)
        writing.rely_on_dimensions(self._place, *{dim for each in plan for dim in each.dims})
        fork = ForkSession.with_nodes_of(writing)
        filling = replace(work, fork=fork, place=self._place, outputs=tuple(kept))
        workers = max(1, min(work.count, MOST_TASKS))
        if work.over:
            found = _reduce(runner.spark, filling, progress)
        else:
            found = GatheredChunks()
            for _, parts in run_with_progress(
                runner, filling, range(work.count), progress, "blocks"
            ):
                found.add(parts)
        for number, output in enumerate(kept):
            node = writing.state.array(path_of(self._place, output.name))
            if output.values is None:
                writing.state.set_table(node, found.table(number, len(node.shape)))
        counts = {"added-chunks": found.chunks, "added-bytes": found.bytes}
        text = self._job.get("message") or message
        self._ends.require_source()
        made = commit_job(writing, name, text, {**counts, **runner.facts()})
        paths = tuple(path_of(self._place, output.name) for output in kept)
        return JobReport(made, paths, found.chunks, found.bytes, workers)


def _lengths(
    view: xr.Dataset, names: Sequence[str], sizes: Mapping[str, int], blocks: Mapping[str, int]
) -> tuple[int, ...]:
    """Block lengths by dimension: as asked, else those of the chunks."""
    for dim in blocks:
        if dim not in sizes:
            raise invalid_option(unknown("dimension", dim, sizes))
    chunked = {
        str(dim): int(n)
        for name in reversed(names)
        for dim, n in zip(view[name].dims, view[name].encoding.get("chunks") or (), strict=False)
    }
    found = {dim: blocks.get(dim, chunked.get(dim, -1)) for dim in sizes}
    return tuple(max(1, n) if found[d] == -1 else max(1, found[d]) for d, n in sizes.items())


def _kept(writing: Session, place: str, plan: Sequence[Output], overwrite: bool) -> list[Output]:
    """The arrays to make; coordinates that are there already are left as they are."""
    kept = []
    for output in plan:
        path = path_of(place, output.name)
        old = writing.state.tree.get(path)
        if old is None:
            kept.append(output)
        elif output.is_coordinate:
            shape = tuple(dim.array_length for dim in getattr(old, "shape", ()))
            if shape != output.shape:
                raise invalid_option(
                    f"{path!r} has the shape {shape} and the result needs {output.shape}: choose "
                    "another output_group"
                )
        elif not overwrite:
            raise AlreadyExistsError(
                f"there is an array {path!r} already", kind=ErrorKind.NODE_ALREADY_EXISTS
            )
        else:
            writing.state.delete_node(path)
            kept.append(output)
    return kept


def _reduce(spark: SparkSession, work: BlockJob, progress: Tell | None) -> GatheredChunks:
    tell = progress or silent
    tell(Progress("blocks", 0, work.count))
    # Tasks take neighbours along the reduced dimensions and combine them at once.
    workers = max(1, min(work.count, LEAST_TASKS))
    partials = tasks.map_batches(spark.range(0, work.count, 1, workers), work.partials, PARTIALS)
    places = work.count // prod(work.counts[dim] for dim in work.over)
    ordered = partials.repartition(max(1, min(places, LEAST_TASKS)), "place")
    ordered = ordered.sortWithinPartitions("place", "number")
    found = GatheredChunks()
    with tasks.small_batches(spark, PARTIAL_BYTES):
        found.add(tasks.answers_of(ordered, work.combined))
    tell(Progress("blocks", work.count, work.count))
    return found
