"""`layout=chunks`: a row per chunk, with its place and its values.

A chunk that the condition cuts is given as the box that encloses the chosen cells; other cells
inside it are null.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import pyarrow as pa
from pyspark.sql import types as t

from frazil.cf.decoding import DecodedValues
from frazil.errors import unsuitable
from frazil.session import Session
from frazil.spark.location import NamedTarget, Pinned
from frazil.spark.options.table import ReadRequest
from frazil.spark.reading.cells import NarrowedRegion, narrow_region, require_room
from frazil.spark.reading.columns import arrow_schema, spark_type, struct, to_arrow
from frazil.spark.reading.partitions import BlockGrid, plan_blocks, plan_ranges
from frazil.spark.reading.scan import Scan, make_scan
from frazil.spark.reading.stored import box_of, length_of, numbers_of, read_stored
from frazil.spark.reading.variables import load_group
from frazil.spark.tuning import CHUNK_BATCH_BYTES, CHUNK_BATCH_ROWS
from frazil.spelling import meant, unknown

PLACE: Final = struct(
    "variable string, chunk_index array<long>, offset array<long>, shape array<long>, dtype string"
)
FIELDS: Final = (*PLACE.names, "values")


@dataclass(frozen=True, slots=True, eq=False)
class ChunkScan:
    """What to read, variable by variable."""

    scans: tuple[Scan, ...]
    grids: tuple[BlockGrid, ...]
    as_bytes: bool
    schema: t.StructType

    def parts(self) -> list[tuple[int, int, int]]:
        """Ranges of chunks with the number of their variable, one for each partition."""
        return [
            (which, start, stop)
            for which, (scan, grid) in enumerate(zip(self.scans, self.grids, strict=True))
            for start, stop in plan_ranges(scan, grid)
        ]

    def read(self, part: tuple[int, int, int]) -> Iterator[pa.RecordBatch]:
        """The rows of a range of chunks."""
        return read_chunk_rows(self, *part)


def make_chunk_scan(
    session: Session,
    target: NamedTarget,
    pinned: Pinned,
    request: ReadRequest,
    asked: t.StructType | None = None,
) -> ChunkScan:
    """Work out which chunks of which variables a user asked for."""
    group, single = load_group(session, target.node)
    named = request.variables or ((single,) if single else group.data_names)
    own = replace(request, layout="cells", columns=None)
    scans = [make_scan(session, target, pinned, replace(own, variables=(name,))) for name in named]
    as_bytes = request.values == "binary"
    names = tuple(f.name for f in asked.fields) if asked is not None else request.columns
    chosen = tuple(meant(name, FIELDS) or name for name in names or FIELDS)
    schema = _schema(scans, chosen, request, as_bytes=as_bytes)
    if asked is not None and [f.dataType for f in asked] != [f.dataType for f in schema]:
        raise unsuitable(
            f"the schema does not fit layout=chunks, whose columns are {schema.simpleString()}"
        )
    grids = tuple(plan_blocks(scan, scan.data_columns() or scan.columns) for scan in scans)
    return ChunkScan(tuple(scans), grids, as_bytes, asked if asked is not None else schema)


def _schema(
    scans: list[Scan], names: tuple[str, ...], request: ReadRequest, *, as_bytes: bool
) -> t.StructType:
    kinds = {field.name: field.dataType for field in PLACE}
    if "values" in names:
        kinds["values"] = t.BinaryType() if as_bytes else _element(scans, request)
    for name in names:
        if name not in kinds:
            raise unsuitable(unknown("column", name, FIELDS, " with layout=chunks"))
    return t.StructType([t.StructField(name, kinds[name]) for name in names])


def _element(scans: list[Scan], request: ReadRequest) -> t.DataType:
    instants = request.timestamps == "utc"
    columns = [scan.columns[-1] for scan in scans]
    kinds = {each.name: spark_type(each.dtype, instants=instants) for each in columns}
    if len({kind.simpleString() for kind in kinds.values()}) > 1:
        detail = ", ".join(f"{name}: {kind.simpleString()}" for name, kind in kinds.items())
        raise unsuitable(
            f"variables of different types cannot share a column ({detail}); choose with option "
            "'variables', or read bytes with values=binary"
        )
    return t.ArrayType(next(iter(kinds.values()), t.DoubleType()))


def read_chunk_rows(
    chunk_scan: ChunkScan, which: int, start: int, stop: int
) -> Iterator[pa.RecordBatch]:
    """Chunks of a variable as batches."""
    scan, grid = chunk_scan.scans[which], chunk_scan.grids[which]
    schema = arrow_schema(chunk_scan.schema)
    rows: list[Mapping[str, Any]] = []
    held = 0
    for region in grid.regions(start, stop, limit=1):
        cut = narrow_region(scan, region)
        if cut is None or 0 in cut.shape:
            continue
        rows.append(_row(chunk_scan, scan, grid, cut))
        held += math.prod(cut.shape) * scan.cell_bytes
        if held >= CHUNK_BATCH_BYTES or len(rows) >= CHUNK_BATCH_ROWS:
            yield _batch(rows, schema)
            rows, held = [], 0
    if rows:
        yield _batch(rows, schema)


def _row(chunk_scan: ChunkScan, scan: Scan, grid: BlockGrid, cut: NarrowedRegion) -> dict[str, Any]:
    column = scan.columns[-1]  # the variable's; those before it are labels
    assert column.variable is not None
    assert column.decoder is not None
    box = tuple(box_of(places) for places in cut.region)
    first = [places.start for places in box]
    row: dict[str, Any] = {
        "variable": column.name,
        "chunk_index": [at // size for at, size in zip(first, grid.block, strict=True)],
        "offset": first,
        "shape": [length_of(places) for places in box],
        "dtype": column.variable.dtype.str,
    }
    if "values" in chunk_scan.schema.fieldNames():
        own = tuple(box[axis] for axis in column.axes)
        require_room(math.prod(map(length_of, own)) * max(column.variable.itemsize, 1))
        stored = read_stored(scan.pinned, column.variable.path, own)
        row["values"] = (
            _bytes(stored, cut, column.name)
            if chunk_scan.as_bytes
            else _array(column.decoder.decode(stored), cut)
        )
    return row


def _bytes(stored: Any, cut: NarrowedRegion, name: str) -> pa.Array:  # noqa: ANN401  (numpy)
    is_box = cut.mask is None and all(isinstance(places, slice) for places in cut.region)
    if not is_box or stored.dtype.kind in "OT":
        why = "of texts" if stored.dtype.kind in "OT" else "with gaps"
        raise unsuitable(
            f"chunks {why} of {name!r} cannot be given as bytes; read them with values=array"
        )
    little = stored.astype(stored.dtype.newbyteorder("<"), copy=False)
    return pa.array([little.tobytes()], pa.binary())


def _array(decoded: DecodedValues, cut: NarrowedRegion) -> pa.Array:
    missing = decoded.missing
    if cut.mask is not None or any(not isinstance(p, slice) for p in cut.region):
        chosen = np.zeros(decoded.values.shape, bool)
        numbers = [numbers_of(places) for places in cut.region]
        inside = np.ix_(*(each - each[0] for each in numbers))
        chosen[inside] = True if cut.mask is None else cut.mask
        missing = ~chosen if missing is None else missing | ~chosen
    return to_arrow(DecodedValues(decoded.values, missing).reshape(-1))


def _batch(rows: list[Mapping[str, Any]], schema: pa.Schema) -> pa.RecordBatch:
    arrays = []
    for wanted in schema:
        found = [row[wanted.name] for row in rows]
        if wanted.name != "values":
            arrays.append(pa.array(found, wanted.type))
        elif pa.types.is_binary(wanted.type):
            arrays.append(pa.concat_arrays(found))
        else:
            ends = np.cumsum([0, *map(len, found)])
            flat = pa.concat_arrays(found).cast(wanted.type.value_type)
            arrays.append(
                pa.ListArray.from_arrays(pa.array(ends, pa.int32()), flat, type=wanted.type)
            )
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
