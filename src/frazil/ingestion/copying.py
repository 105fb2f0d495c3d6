"""Copying values into a repository: regions of whole chunks, one task each, nothing shared."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import pairwise, product
from math import prod
from typing import Any

import numpy as np

from frazil.cf.decoding import FILL
from frazil.errors import FrazilError
from frazil.ingestion.encoding import decoded_fill, encoded_dtype
from frazil.ingestion.isolation import ParserEndedError, ParserLimits, isolated
from frazil.ingestion.parsers import Format
from frazil.ingestion.plans import IngestPlan, PlannedArray, missing_value
from frazil.ingestion.records import Array, InputFile, Shape, VariableOrigin
from frazil.ingestion.sources import bad_file, look
from frazil.ingestion.tuning import TASK_BYTES
from frazil.ingestion.writing import write_values
from frazil.session import ForkSession
from frazil.statistics.recording import Held, Recorder
from frazil.transaction.changeset import ChangeSet


def read_part(
    origin: VariableOrigin,
    region: tuple[slice, ...],
    options: Mapping[str, Any],
    *,
    decode: bool = False,
) -> Array:
    """Read a region of a variable, as stored or with its CF packing undone.

    `options` are those of the store, secrets included: they come with the work, not with items,
    since Spark writes long lists of items to the disks of its machines.
    """
    now = look(origin.url, options)
    if now is not None and now != origin.identity:
        raise bad_file("the file has changed while it was ingested", origin.url)
    if origin.format == Format.HDF5:
        from frazil.ingestion.hdf import read_hdf

        given = tuple(sorted(options.items()))
        source = InputFile(origin.url, given, origin.group, origin.allowed)
        values = read_hdf(source, origin.name, region)
    else:
        from frazil.ingestion.parsers import read_parsed

        values = read_parsed(origin, region, options)
    return apply_cf(values, json.loads(origin.attributes)) if decode else values


def read_safely(
    limits: ParserLimits,
    origin: VariableOrigin,
    region: tuple[slice, ...],
    options: Mapping[str, Any],
    *,
    decode: bool = False,
) -> Array:
    """The same in the helper of this process, with errors that name the file."""
    with _named(origin):
        return isolated(
            replace(limits, memory=0), read_part, origin, region, options, decode=decode
        )


def digest_safely(
    options: Mapping[str, Any], limits: ParserLimits, origin: VariableOrigin
) -> bytes:
    """A hash of all values of a variable, made in the helper of this process."""
    with _named(origin):
        return isolated(replace(limits, memory=0), digest, options, origin)


@contextmanager
def _named(origin: VariableOrigin) -> Iterator[None]:
    """Let whatever goes wrong tell the file and the variable."""
    try:
        yield
    except Exception as error:
        is_ended = isinstance(error, ParserEndedError)
        if isinstance(error, FrazilError) and not is_ended:
            raise
        detail = error.args[0] if is_ended else f"{type(error).__name__}: {error}"
        raise bad_file(
            f"the values of {origin.name!r} cannot be read: {detail}", origin.url
        ) from None


def apply_cf(values: Array, attrs: Mapping[str, Any]) -> Array:
    """Values with scale, offset and missing values of CF applied, as xarray does it."""
    import xarray as xr

    plain = {key: value for key, value in attrs.items() if key != FILL}
    fill = decoded_fill(attrs, values.dtype)
    if fill is not None:
        plain[FILL] = fill
    variable = xr.Variable(tuple(f"d{n}" for n in range(values.ndim)), values, plain)
    made = xr.conventions.decode_cf_variable("values", variable, decode_times=False)
    return np.asarray(made.values)


def digest(options: Mapping[str, Any], origin: VariableOrigin) -> bytes:
    """A hash of all values of a variable."""
    values = read_part(origin, (), options)
    state = hashlib.blake2b(repr((values.shape, values.dtype.str)).encode(), digest_size=16)
    is_text = values.dtype.kind == "T"
    state.update(repr(values.tolist()).encode() if is_text else np.ascontiguousarray(values).data)
    return state.digest()


@dataclass(frozen=True, slots=True)
class SourceRegion:
    """A region of a file, and where it goes in the region of a task."""

    origin: VariableOrigin
    source: tuple[slice, ...]
    target: tuple[slice, ...]


@dataclass(frozen=True, slots=True)
class CopyTask:
    """A region of an array to write, and the pieces it is made of."""

    path: str
    region: tuple[slice, ...]
    dtype: np.dtype[Any]
    fill: Any
    pieces: tuple[SourceRegion, ...]
    decode: bool

    @property
    def shape(self) -> Shape:
        """Lengths of the region."""
        return tuple(part.stop - part.start for part in self.region)


@dataclass(frozen=True, slots=True, eq=False)
class CopyResult:
    """What a task wrote: references, not values."""

    changes: ChangeSet
    chunks: int
    nbytes: int
    known: Held
    """statistics, where they were asked for"""


def copies(
    plan: IngestPlan, array: PlannedArray, path: str, limit: int = TASK_BYTES
) -> Iterator[CopyTask]:
    """The tasks that copy an array."""
    dtype = encoded_dtype(array.encoding)
    spans = [(plan.start(array, file), plan.part_shape(array, file)) for file in array.files]
    origins = [plan.scans[file].origin(array.name) for file in array.files]
    fill = missing_value(array)
    dims = plan.scans[array.files[0]][array.name].dims if array.files else ()
    lacking = len(array.dims) - len(dims)  # axes that files have not come first
    for region in chunk_boxes(
        array.first, array.shape, array.chunks, limit // max(1, dtype.itemsize)
    ):
        pieces = tuple(
            SourceRegion(origin, source[lacking:], target)
            for (start, shape), origin in zip(spans, origins, strict=True)
            if (met := _meeting(region, start, shape)) is not None
            for source, target in [met]
        )
        if pieces:
            yield CopyTask(path, region, dtype, fill, pieces, array.is_decoded)


def chunk_boxes(
    first: Shape, shape: Shape, chunks: Shape, limit: int
) -> Iterator[tuple[slice, ...]]:
    """Regions of whole chunks that hold at most so many values, or one chunk each.

    The first region along an axis may begin inside a chunk, where an array is extended.
    """
    sizes = [*chunks]
    for axis in range(len(shape) - 1, -1, -1):
        room = limit // max(1, prod(sizes))
        sizes[axis] *= max(1, min(room, -(-shape[axis] // chunks[axis])))
    edges = []
    for begin, end, size in zip(first, shape, sizes, strict=True):
        cuts = [begin, *range((begin // size + 1) * size, end, size), end]
        edges.append([slice(a, b) for a, b in pairwise(cuts) if a < b])
    yield from product(*edges)


def _meeting(
    region: Sequence[slice], start: Shape, shape: Shape
) -> tuple[tuple[slice, ...], tuple[slice, ...]] | None:
    """The common part of a region and of a file, seen from the file and from the region."""
    source, target = [], []
    for part, begin, length in zip(region, start, shape, strict=True):
        low, high = max(part.start, begin), min(part.stop, begin + length)
        if low >= high:
            return None
        source.append(slice(low - begin, high - begin))
        target.append(slice(low - part.start, high - part.start))
    return tuple(source), tuple(target)


def copy(
    fork: ForkSession,
    options: Mapping[str, Any],
    limits: ParserLimits,
    item: CopyTask,
    *,
    statistics: bool = False,
) -> CopyResult:
    """Read the pieces of a region, write it, and tell where its chunks are."""
    values = gather_values(item, options, limits)
    session = ForkSession.__new__(ForkSession)
    session.__setstate__(fork.__getstate__())
    session.state.changes = fork.state.changes.of_nodes()
    recorder = Recorder(session.state.context.containers.expand)
    session.state.watcher = recorder if statistics else None
    write_values(session, item.path, item.region, values)
    changes = session.state.changes.of_chunks()
    count = sum(len(each.columns()[0]) for each in changes.chunks.values())
    return CopyResult(changes, count, values.nbytes, recorder.held)


def gather_values(item: CopyTask, options: Mapping[str, Any], limits: ParserLimits) -> Array:
    """The values of a region."""
    values = np.full(item.shape, item.fill, item.dtype)
    for piece in item.pieces:
        part = read_safely(limits, piece.origin, piece.source, options, decode=item.decode)
        place = values[piece.target]
        place[...] = part.reshape(place.shape)
    return values
