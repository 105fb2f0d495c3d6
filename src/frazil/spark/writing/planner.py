"""Plans a write on the driver: from a schema, options and the existing arrays."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import pyarrow as pa
from pyspark.sql import types as t
from zarr.core.dtype import get_data_type_from_json

from frazil.arrays import Mask
from frazil.bulk.grid import layout_of
from frazil.cf.decoding import Values
from frazil.errors import (
    AlreadyExistsError,
    ErrorKind,
    InvalidInputError,
    invalid_option,
    unsuitable,
)
from frazil.ids import child_path, node_path
from frazil.session import Session
from frazil.spark.location import NamedTarget, Pinned, open_pinned
from frazil.spark.options.table import ReadRequest, WriteRequest
from frazil.spark.reading.axis_masks import full_runs
from frazil.spark.reading.columns import arrow_type
from frazil.spark.reading.runs import Runs
from frazil.spark.reading.scan import decoding_rules, make_scan
from frazil.spark.reading.stored import read_stored
from frazil.spark.reading.variables import (
    Group,
    TableVariable,
    common_dims,
    load_group,
    variable_of,
)
from frazil.spark.tasks import open_or_create
from frazil.spark.writing.encode import Encoder, encoder_of
from frazil.spark.writing.new_arrays import NewArray, models, new_array
from frazil.spark.writing.plan import ArrayPlan, TableAxis, WritePlan, node_of
from frazil.spelling import listed, meant, nearest, unknown


@dataclass(frozen=True, slots=True)
class _Draft:
    """What planning looks at."""

    session: Session
    target: NamedTarget
    pinned: Pinned
    group: Group
    request: WriteRequest
    schema: t.StructType
    is_replaced: bool
    """whether the whole table is overwritten"""
    models: Mapping[str, Mapping[str, Any]]
    """documents that new arrays shall be like"""

    def document(self, path: str) -> bytes:
        return self.session.state.array(path).user_data

    def encoder(self, path: str, document: bytes) -> Encoder:
        variable = variable_of(node_of(path, document))
        layout = layout_of(document)
        fill = None if layout is None else layout.chain.fill_value
        made = encoder_of(variable, decoding_rules(self.request), fill)
        made.require_fits(arrow_type(self.schema[variable.name].dataType))
        return made


def plan_write(
    target: NamedTarget,
    request: WriteRequest,
    schema: t.StructType,
    *,
    overwrite: bool,
    base: str | None = None,
) -> WritePlan | None:
    """Work out what a write means, on top of the branch or of a snapshot of it.

    None when `ifExists=ignore` says that there is nothing to do.

    Raises:
        InvalidInputError: the schema or an option does not fit what is there.
        AlreadyExistsError: `ifExists=error`, and a variable is there.
    """
    if target.table is not None:
        raise invalid_option(f"metadata tables such as {target.table!r} cannot be written")
    like = models(request)  # first, since no repository is made where this fails
    repository = open_or_create(target.location)
    branch = target.branch
    pinned = Pinned(target.location, base or repository.tip(branch).snapshot_id)
    session = open_pinned(pinned, repository)
    has_region = _has_region(request, overwrite=overwrite)
    group = _group(session, target.node)
    is_replaced = overwrite and not has_region
    draft = _Draft(session, target, pinned, group, request, schema, is_replaced, like)
    _require_columns(draft)
    if _is_settled(draft):
        return None
    dims = _dims(draft)
    draft = replace(draft, request=_named_request(draft, dims))
    data = [f for f in schema.fields if f.name not in dims]
    kept = {f.name for f in data if not draft.is_replaced and f.name in draft.group.variables}
    _require_known(draft, data, kept)
    shared = _shared(draft, kept, dims)
    axes = tuple(_axis(draft, dim, shared.get(dim)) for dim in dims)
    return WritePlan(
        pinned=pinned,
        branch=branch,
        group=draft.group.path,
        axes=axes,
        arrays=tuple(_array(draft, f, dims, is_kept=f.name in kept) for f in data),
        deleted=_deleted(draft, dims),
        region=_region(draft, sorted(kept), dims) if has_region else None,
        request=draft.request,
        is_resolved=len(kept) == len(data) and not any(axis.grows for axis in axes),
    )


def _has_region(request: WriteRequest, *, overwrite: bool) -> bool:
    """Whether only a part of what is there is to be replaced."""
    regions = {"region": request.region, "replaceWhere": request.replace_where}
    chosen = [name for name, value in regions.items() if value is not None]
    if len(chosen) > 1:
        raise invalid_option("give 'region' or 'replaceWhere', not both")
    if chosen and not overwrite:
        raise invalid_option(f"option {chosen[0]!r} needs mode overwrite")
    if chosen and request.append_dim is not None:
        raise invalid_option(
            f"option {chosen[0]!r} replaces what is there, so that 'append-dim' has no meaning"
        )
    return bool(chosen)


def _group(session: Session, path: str | None) -> Group:
    where = node_path(path or "/")
    if session.state.tree.get(where) is None:
        return Group(where, {}, ())
    group, single = load_group(session, path)
    if single is not None:
        raise invalid_option(
            f"{where!r} is an array; name the group it is in, and a column {single!r}"
        )
    return group


def _require_columns(draft: _Draft) -> None:
    names = draft.schema.fieldNames()
    repeated = {name for name in names if names.count(name) > 1}
    if repeated:
        raise unsuitable(f"two columns are named {listed(repeated)}")
    for name in names:
        if not name or "/" in name:
            raise unsuitable(f"no array can be named {name!r}, as a column is")


def _is_settled(draft: _Draft) -> bool:
    """Whether there is nothing to do; raises if variables exist that must not."""
    there = [n for n in draft.schema.fieldNames() if n in draft.group.data_names]
    if there and draft.request.if_exists == "error":
        raise AlreadyExistsError(
            f"{listed(there)} is there already in group {draft.group.path!r}",
            kind=ErrorKind.NODE_ALREADY_EXISTS,
        )
    return bool(there) and draft.request.if_exists == "ignore"


def _dims(draft: _Draft) -> tuple[str, ...]:
    """The dimensions of the table: those of the option, or of the existing arrays."""
    names = draft.schema.fieldNames()
    there = [draft.group.variables[n] for n in names if n in draft.group.data_names]
    given = draft.request.dims
    if given is not None:
        dims = tuple(meant(dim, names) or dim for dim in given)
    elif there:
        dims = tuple(dim for dim, _ in common_dims(draft.group, there))
    else:
        raise invalid_option(
            f"none of the columns {listed(names)} is a variable of group {draft.group.path!r} "
            "yet; name those that are dimensions with option 'dims'"
        )
    for dim in dims:
        if dim not in names:
            raise unsuitable(
                f"there is no column for the dimension {dim!r}{nearest(dim, names)} "
                f"(there are {listed(names)})"
            )
    if len(names) == len(dims):
        raise unsuitable("there are columns for dimensions only, and none with values")
    append = draft.request.append_dim
    if append is not None and meant(append, dims) is None:
        raise invalid_option(
            f"option 'append-dim' is {append!r}, which is no dimension"
            f"{nearest(append, dims)} (there are {listed(dims)})"
        )
    return dims


_BY_DIMENSION: Final = ("chunks", "shards", "coords")
_BY_COLUMN: Final = ("dtype", "fill_value", "attributes")


def _named_request(draft: _Draft, dims: Sequence[str]) -> WriteRequest:
    """The request with the names that dimensions and columns really have.

    Raises:
        InvalidInputError: an option names something else.
    """
    append = draft.request.append_dim
    changed: dict[str, Any] = {"append_dim": None if append is None else meant(append, dims)}
    for fields, what, there in (
        (_BY_DIMENSION, "dimension", dims),
        (_BY_COLUMN, "column", draft.schema.fieldNames()),
    ):
        for field in fields:
            given: Mapping[str, Any] = getattr(draft.request, field) or {}
            renamed: dict[str, Any] = {}
            for name, value in given.items():
                found = meant(name, there) if name else name  # one without a name is for all
                if found is None:
                    option = field.replace("_", "-")
                    raise invalid_option(f"option {option!r}: {unknown(what, name, there)}")
                renamed[found] = value
            changed[field] = renamed or None
    return replace(draft.request, **changed)


def _require_known(draft: _Draft, data: Sequence[t.StructField], kept: set[str]) -> None:
    """Refuse columns without an array, unless the write makes new arrays."""
    group = draft.group
    if draft.is_replaced or not kept:
        if draft.request.region is not None or draft.request.replace_where is not None:
            raise unsuitable("a region of arrays is to be replaced, and the arrays do not exist")
        return
    if draft.request.merge_schema:
        return
    for column in data:
        if column.name not in kept:
            raise unsuitable(
                f"group {group.path!r} has no variable {column.name!r}"
                f"{nearest(column.name, group.variables)} (there are {listed(group.variables)}); "
                "make it with merge-schema=true"
            )


def _shared(draft: _Draft, kept: set[str], dims: Sequence[str]) -> dict[str, int]:
    """The lengths of dimensions, as the arrays that stay have them."""
    sizes: dict[str, int] = {}
    for name in sorted(kept):
        variable = draft.group.variables[name]
        if set(variable.dims) != set(dims) or len(variable.dims) != len(dims):
            raise unsuitable(
                f"variable {variable} does not have the dimensions ({', '.join(dims)}) of the rows"
            )
        for dim, size in zip(variable.dims, variable.shape, strict=True):
            if sizes.setdefault(dim, size) != size:
                raise unsuitable(f"dimension {dim!r} has two lengths among the variables")
    return sizes


def _axis(draft: _Draft, dim: str, size: int | None) -> TableAxis:
    """An axis with the labels that are there, or with none yet."""
    path = child_path(draft.group.path, dim)
    labels = draft.group.variables.get(dim)
    grows = draft.request.append_dim == dim
    if draft.is_replaced or (size is None and (labels is None or labels.dims != (dim,))):
        return _new_axis(draft, dim, path, labels)
    if labels is None or labels.dims != (dim,) or size not in (None, labels.shape[0]):
        return _numbered_axis(draft, dim, path, size or 0, grows=grows)
    document = draft.document(path)
    values = read_stored(draft.pinned, path, (slice(None),))
    encoder = draft.encoder(path, document)
    axis = TableAxis(dim, path, encoder, values, len(values), grows, None, len(values), document)
    if axis.comparable.null_count or len(axis.comparable.unique()) < len(values):
        raise unsuitable(f"labels of {dim!r} are not unique, so that rows cannot be placed by them")
    return axis


def _numbered_axis(draft: _Draft, dim: str, path: str, size: int, *, grows: bool) -> TableAxis:
    """An axis without labels: rows tell positions."""
    if grows:
        raise invalid_option(
            f"dimension {dim!r} has no labels, so that nothing can be appended along it"
        )
    kind = draft.schema[dim].dataType
    if not isinstance(kind, t.ByteType | t.ShortType | t.IntegerType | t.LongType):
        raise unsuitable(
            f"dimension {dim!r} has no labels, so that column {dim!r} must have whole numbers, "
            f"and it is {kind.simpleString()}"
        )
    return TableAxis(dim, path, None, None, size, False, None, size)


def _new_axis(draft: _Draft, dim: str, path: str, old: TableVariable | None) -> TableAxis:
    """An axis whose labels come with the rows or by option; a former encoding is kept."""
    new: NewArray | None = None
    if old is not None and old.dims == (dim,) and _fits(draft, path):
        template = draft.document(path)
    else:
        new = new_array(draft.schema[dim], (dim,), draft.request, draft.models.get(dim))
        template = new.document((1,))
    encoder = draft.encoder(path, template)
    given = (draft.request.coords or {}).get(dim)
    values: Values = np.zeros(0, encoder.stored)
    if given is not None:
        values = encoder.encode(_labels(given, draft.schema[dim]))
    return TableAxis(
        dim, path, encoder, values, len(values), given is None, new, 0, template, is_fresh=True
    )


def _fits(draft: _Draft, path: str) -> bool:
    """Whether an array that is overwritten can hold the new values as it held the old."""
    try:
        draft.encoder(path, draft.document(path))
    except InvalidInputError:
        return False
    return layout_of(draft.document(path)) is not None


def _labels(given: object, column: t.StructField) -> pa.Array:
    """Labels of an option as a column."""
    kind = arrow_type(column.dataType)
    if not isinstance(given, list):
        raise invalid_option(f"option 'coords' must have a list for {column.name!r}")
    try:
        if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
            return pa.array(given).cast(pa.timestamp("us", tz=getattr(kind, "tz", None)))
        return pa.array(given, kind)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError) as error:
        raise invalid_option(
            f"option 'coords' has labels for {column.name!r} that are no {kind}: {error}"
        ) from error


def _array(
    draft: _Draft, column: t.StructField, dims: tuple[str, ...], *, is_kept: bool
) -> ArrayPlan:
    path = child_path(draft.group.path, column.name)
    old = draft.group.variables.get(column.name)
    if old is not None and (is_kept or (set(old.dims) == set(dims) and _fits(draft, path))):
        document, new, order, shape = draft.document(path), None, old.dims, old.shape
    else:
        new = new_array(column, dims, draft.request, draft.models.get(column.name))
        document, order, shape = new.document((1,) * len(dims)), dims, ()
    encoder = draft.encoder(path, document)
    if not is_kept and new is None:
        document = _refilled(document, encoder)
    plan = ArrayPlan(column.name, path, order, encoder, document, not is_kept, new, shape)
    _ = plan.layout  # refuses what tasks cannot write
    return plan


def _refilled(document: bytes, encoder: Encoder) -> bytes:
    """The document of an array that begins anew: what is never written is missing."""
    found = json.loads(document)
    if encoder.fill is not None:
        kind = get_data_type_from_json(found["data_type"], zarr_format=3)
        found["fill_value"] = kind.to_json_scalar(encoder.fill, zarr_format=3)
    return json.dumps(found).encode()


def _deleted(draft: _Draft, dims: Sequence[str]) -> tuple[str, ...]:
    """Arrays that are deleted when a table is overwritten: all with one of its dimensions."""
    if not draft.is_replaced:
        return ()
    written = {*dims, *draft.schema.fieldNames()}
    return tuple(
        variable.path
        for variable in draft.group.variables.values()
        if variable.name in written or set(variable.dims) & set(dims)
    )


def _region(draft: _Draft, names: Sequence[str], dims: Sequence[str]) -> tuple[Mask, ...]:
    """Along each axis the places that are replaced."""
    asked = ReadRequest(
        variables=tuple(names),
        where=draft.request.replace_where,
        isel=draft.request.region,
        decode_cf=draft.request.decode_cf,
    )
    scan = make_scan(draft.session, draft.target, draft.pinned, asked)
    if not scan.is_separable:
        raise invalid_option(
            "'replaceWhere' must be conditions on one dimension each, joined by AND"
        )
    order = [[axis.name for axis in scan.axes].index(dim) for dim in dims]
    sizes = [axis.size for axis in scan.axes]
    chosen = [full_runs(scan, scan.condition, axis) for axis in range(len(sizes))]
    return tuple(
        (Runs.one(0, sizes[axis]) if (runs := chosen[axis]) is None else runs).mask(sizes[axis])
        for axis in order
    )


def documents_of(plan: WritePlan) -> dict[str, bytes]:
    """Documents that must be set before chunks are, by path."""
    found = {axis.path: document for axis in plan.axes if (document := axis.document()) is not None}
    for array in plan.arrays:
        shape = tuple(json.loads(array.document)["shape"])
        if array.is_new or shape != array.old_shape:
            found[array.path] = array.document
    return found
