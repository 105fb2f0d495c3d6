"""What is in a group: its arrays with their dimensions, and which of them are coordinates."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from frazil.bulk.data_types import dtype_of
from frazil.cf.decoding import DESCRIBING, ENCODING, Decoder, Rules, decoder_of, named_arrays
from frazil.cf.times import is_time
from frazil.errors import (
    ErrorKind,
    FormatError,
    NodeNotFoundError,
    NotFoundError,
    unsuitable,
)
from frazil.formats.zarr_meta import SHARDING
from frazil.ids import child_path, node_path, parent_path
from frazil.model.documents import document_of
from frazil.model.nodes import ArrayNode, GroupNode
from frazil.session import Session
from frazil.spelling import listed, meant, unknown

NOTE: Final = "frazil.attributes"


@dataclass(frozen=True, slots=True)
class TableVariable:
    """An array of a group, as far as reading it into a table needs to know."""

    name: str
    path: str
    dims: tuple[str, ...]
    shape: tuple[int, ...]
    chunks: tuple[int, ...]
    inner_chunks: tuple[int, ...]
    """the parts of a chunk that can be decoded alone; the chunk itself unless it is a shard"""
    dtype: np.dtype[Any]
    attrs: Mapping[str, Any]
    letters: int = 0
    """length of a further axis with the letters of each text, if these are stored one by one"""

    @property
    def itemsize(self) -> int:
        """Bytes of one decoded value, or a guess for texts of any length."""
        return max(self.dtype.itemsize, 1) if self.dtype.kind not in "OT" else 16

    def decoder(self, rules: Rules) -> Decoder:
        """What to do with its stored values."""
        return decoder_of(self.name, self.dtype, self.attrs, rules, self.letters)

    def __str__(self) -> str:
        sizes = ", ".join(f"{d}: {n}" for d, n in zip(self.dims, self.shape, strict=True))
        return f"{self.name}({sizes})"


@dataclass(frozen=True, slots=True)
class Group:
    """The arrays of a group by name."""

    path: str
    variables: Mapping[str, TableVariable]
    data_names: tuple[str, ...]
    """those that hold data and are not coordinates of others"""

    def coordinate(self, dim: str, size: int) -> TableVariable | None:
        """The array that gives labels to a dimension, if there is one."""
        found = self.variables.get(dim)
        return (
            found if found is not None and (found.dims, found.shape) == ((dim,), (size,)) else None
        )

    def find(self, name: str) -> TableVariable:
        """The array with a name.

        Raises:
            NodeNotFoundError: there is none.
        """
        exact = meant(name, self.variables)
        if exact is None:
            raise NodeNotFoundError(
                unknown("variable", name, self.variables, f" in group {self.path!r}")
            )
        return self.variables[exact]


def load_group(session: Session, path: str | None) -> tuple[Group, str | None]:
    """The group at a path; when an array is there, its group and the array's name.

    Raises:
        NodeNotFoundError: there is no node.
    """
    tree = session.state.tree
    wanted = node_path(path or "/")
    node = tree.get(wanted)
    if node is None and wanted != "/":
        groups = [each.path for each in tree if isinstance(each, GroupNode)]
        raise NodeNotFoundError(
            unknown("group", wanted, groups, f" in snapshot {session.snapshot_id}")
        )
    chosen = wanted.rpartition("/")[2] if isinstance(node, ArrayNode) else None
    where = parent_path(wanted) if chosen is not None else wanted
    children = (tree.get(child_path(where, name)) for name in tree.children(where))
    found = [variable_of(child) for child in children if isinstance(child, ArrayNode)]
    return _grouped(where, found), chosen


def variable_of(node: ArrayNode) -> TableVariable:
    """What an array's own document says of it."""
    document = document_of(node)
    try:
        # Only the type: zarr warns of codecs that we decode ourselves.
        dtype = dtype_of(document["data_type"])
    except (ValueError, TypeError, KeyError) as error:
        raise FormatError(
            f"the metadata of {node.path!r} cannot be read: {error}",
            kind=ErrorKind.INVALID_ARRAY_METADATA,
        ) from error
    shape = tuple(dim.array_length for dim in node.shape)
    names = node.dimension_names or (None,) * len(shape)
    chunks = _chunks(document, node)
    return TableVariable(
        name=node.path.rpartition("/")[2],
        path=node.path,
        dims=tuple(name or f"dim_{axis}" for axis, name in enumerate(names)),
        shape=shape,
        chunks=chunks,
        inner_chunks=_inner_chunks(document) or chunks,
        dtype=dtype,
        attrs=document.get("attributes") or {},
    )


def note_of(variable: TableVariable) -> dict[str, str]:
    """Attributes of an array as the metadata of a column, so that rows written again keep them.

    Spark keeps the metadata of a column that is selected or renamed, and drops it when the column
    is computed anew. Only what describes values goes along: how they are packed, masked or counted,
    and which other arrays belong to them, is decided where the new array is made.
    """
    found = {key: value for key, value in variable.attrs.items() if key not in ENCODING}
    if is_time(found.get("units")):
        del found["units"]
    return {NOTE: json.dumps(found)} if found else {}


def _chunks(document: Mapping[str, Any], node: ArrayNode) -> tuple[int, ...]:
    grid = document["chunk_grid"]
    if grid["name"] == "regular":
        return tuple(max(int(n), 1) for n in grid["configuration"]["chunk_shape"])
    # Of an uneven grid the mean length will do: it only says how to cut up the work.
    return tuple(max(-(-dim.array_length // max(dim.num_chunks, 1)), 1) for dim in node.shape)


def _inner_chunks(document: Mapping[str, Any]) -> tuple[int, ...] | None:
    for codec in document.get("codecs", ()):
        if isinstance(codec, dict) and codec.get("name") == SHARDING:
            return tuple(int(n) for n in codec["configuration"]["chunk_shape"])
    return None


def _grouped(path: str, variables: list[TableVariable]) -> Group:
    by_name = {variable.name: variable for variable in variables}
    described = named_arrays((variable.attrs for variable in variables), DESCRIBING)
    data = tuple(
        variable.name
        for variable in variables
        if variable.dims != (variable.name,) and variable.name not in described
    )
    # A number beside arrays that make one table, such as `crs` or `height`, describes them.
    arrays = [by_name[name] for name in data if by_name[name].dims]
    if len({frozenset(zip(each.dims, each.shape, strict=True)) for each in arrays}) == 1:
        data = tuple(each.name for each in arrays)
    return Group(path, by_name, tuple(sorted(data)))


def with_texts(group: Group) -> Group:
    """A group in which arrays of single letters, as older files have them, are arrays of texts."""
    used: dict[str, list[TableVariable]] = {}
    for variable in group.variables.values():
        for dim in variable.dims:
            used.setdefault(dim, []).append(variable)
    inner = {
        dim
        for dim, users in used.items()
        if dim not in group.variables
        and all(each.dtype == "S1" and each.dims.index(dim) == len(each.dims) - 1 for each in users)
    }
    if not inner:
        return group
    found = {
        name: _of_texts(each) if each.dims and each.dims[-1] in inner else each
        for name, each in group.variables.items()
    }
    return replace(group, variables=found)


def _of_texts(variable: TableVariable) -> TableVariable:
    length = variable.shape[-1]
    return replace(
        variable,
        dims=variable.dims[:-1],
        shape=variable.shape[:-1],
        chunks=variable.chunks[:-1],
        inner_chunks=variable.inner_chunks[:-1],
        dtype=np.dtype(f"S{max(1, length)}"),
        letters=length,
    )


def common_dims(group: Group, chosen: Iterable[TableVariable]) -> tuple[tuple[str, int], ...]:
    """The dimensions, with their lengths, that all chosen variables have.

    Raises:
        InvalidInputError: they differ, so that no one table can hold them.
        NotFoundError: there is no variable at all.
    """
    variables = list(chosen)
    if not variables:
        raise NotFoundError(
            f"group {group.path!r} has no data variables to read "
            f"(its arrays are {listed(group.variables)}); choose with option 'variables'",
            kind=ErrorKind.NODE_NOT_FOUND,
        )
    dims = tuple(zip(variables[0].dims, variables[0].shape, strict=True))
    for variable in variables:
        if len(set(variable.dims)) != len(variable.dims):
            raise unsuitable(f"{variable} has two dimensions with one name")
    if all(set(zip(v.dims, v.shape, strict=True)) == set(dims) for v in variables):
        return dims
    by_dims: dict[tuple[tuple[str, int], ...], list[str]] = {}
    for variable in variables:
        by_dims.setdefault(tuple(zip(variable.dims, variable.shape, strict=True)), []).append(
            variable.name
        )
    choices = "; ".join(
        f"variables={','.join(names)} ({', '.join(f'{d}: {n}' for d, n in key) or 'scalar'})"
        for key, names in by_dims.items()
    )
    raise unsuitable(
        f"the variables of group {group.path!r} have different dimensions, and the rows of a "
        f"table have one set; choose one of: {choices}"
    )


def joint_dims(chosen: Iterable[TableVariable]) -> tuple[tuple[str, int], ...]:
    """The dimensions of all chosen variables together, those of the widest in its order first.

    Raises:
        InvalidInputError: two of them have one dimension in two lengths.
    """
    variables = sorted(chosen, key=lambda each: -len(each.dims))
    found: dict[str, int] = {}
    for variable in variables:
        if len(set(variable.dims)) != len(variable.dims):
            raise unsuitable(f"{variable} has two dimensions with one name")
        for name, size in zip(variable.dims, variable.shape, strict=True):
            if found.setdefault(name, size) != size:
                raise unsuitable(
                    f"{variable} does not go with {variables[0]}: dimension {name!r} has another "
                    "length, so that no one table can hold both"
                )
    return tuple(found.items())
