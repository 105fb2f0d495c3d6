"""Formats other than HDF5: each to variables by reference, of which the small ones are read."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from math import prod
from typing import Any, Final

from frazil.errors import unsuitable
from frazil.ingestion.allowed import Allowed
from frazil.ingestion.encoding import dtype_of
from frazil.ingestion.fetching import read_variable
from frazil.ingestion.formats import Format
from frazil.ingestion.loading import VariableChoice
from frazil.ingestion.parsed import Parsed
from frazil.ingestion.records import Array, Identity, Origin, Task, Variable
from frazil.ingestion.sources import look, shown

_KEPT: Final = 16
"""files that a process keeps parsed, for tasks that read from them again"""


def scan_parsed(
    task: Task, found: Format, choice: VariableChoice, options: Mapping[str, Any]
) -> tuple[list[Variable], str, tuple[str, ...]]:
    """The variables of a file, its attributes, and notes on what is left out."""
    given = tuple(sorted(options.items()))
    parsed = parse(task.url, found, task.group, given, task.allowed)
    names = [each.name for each in parsed.variables]
    kept = [each for each in parsed.variables if not choice.drops(each.name, names)]
    chosen = choice.chosen({each.name: (each.dims, each.attrs, _size(each)) for each in kept})
    variables = [
        replace(each, values=read_variable(each, (), options))
        if each.name in chosen and each.values is None and each.references is not None
        else each
        for each in kept
    ]
    return variables, parsed.attributes, parsed.notes


def _size(variable: Variable) -> int:
    return prod(variable.shape) * dtype_of(variable.encoding).itemsize


def read_parsed(origin: Origin, region: tuple[slice, ...], options: Mapping[str, Any]) -> Array:
    """Values of a region of a variable, as stored."""
    if origin.format == Format.GRIB:
        from frazil.ingestion.grib import read_grib

        identity = look(origin.url, options)
        return read_grib(origin.url, options, identity, origin.name, region)
    if origin.format == Format.TIFF:
        from frazil.ingestion.tiff import read_tiff

        return read_tiff(origin.url, options, origin.name, region)
    given = tuple(sorted(options.items()))
    parsed = parse(origin.url, Format(origin.format), origin.group, given, origin.allowed)
    variable = next((each for each in parsed.variables if each.name == origin.name), None)
    if variable is None:
        raise unsuitable(
            f"the variable {origin.name!r} is gone",
            file=shown(origin.url),
        )
    return read_variable(variable, region, options)


@lru_cache(maxsize=_KEPT)
def _kept(
    url: str,
    found: Format,
    group: str,
    options: tuple[tuple[str, Any], ...],
    allowed: tuple[str, ...],
    identity: Identity | None,
) -> Parsed:
    return _parse(url, found, group, dict(options), Allowed(allowed), identity)


def parse(
    url: str,
    found: Format,
    group: str,
    options: tuple[tuple[str, Any], ...],
    allowed: tuple[str, ...],
) -> Parsed:
    """A file in Zarr's terms; what did not change since is not read again."""
    identity = look(url, dict(options))
    if identity is None and found in (Format.ZARR, Format.KERCHUNK_PARQUET):
        return _parse(url, found, group, dict(options), Allowed(allowed), None)
    if identity is None:
        raise unsuitable("there is no such file", file=shown(url))
    return _kept(url, found, group, options, allowed, identity)


def _parse(
    url: str,
    found: Format,
    group: str,
    options: Mapping[str, Any],
    allowed: Allowed,
    identity: Identity | None,
) -> Parsed:
    match found:
        case Format.NETCDF3:
            from frazil.ingestion.netcdf3 import scan_netcdf3

            return scan_netcdf3(url, options, identity)
        case Format.ZARR:
            from frazil.ingestion.zarrs import scan_zarr

            return scan_zarr(url, options, group, allowed)
        case Format.KERCHUNK_JSON:
            from frazil.ingestion.kerchunk import scan_kerchunk_json

            return scan_kerchunk_json(url, options, group, allowed)
        case Format.KERCHUNK_PARQUET:
            from frazil.ingestion.kerchunk import scan_kerchunk_parquet

            return scan_kerchunk_parquet(url, options, group, allowed)
        case Format.TIFF:
            from frazil.ingestion.tiff import scan_tiff

            return scan_tiff(url, options)
        case Format.GRIB:
            from frazil.ingestion.grib import scan_grib

            return scan_grib(url, options, identity)
        case Format.HDF5:
            raise AssertionError(found)


def folder_identity(variables: Sequence[Variable]) -> Identity:
    """The state of a folder: what its chunks are, where they are and how long."""
    state = hashlib.blake2b(digest_size=16)
    total = 0
    for variable in variables:
        state.update(repr((variable.name, variable.shape, variable.attributes)).encode())
        refs = variable.references
        if refs is not None:
            for column in (refs.index, refs.offset, refs.length):
                state.update(column.tobytes())
            total += refs.nbytes
        if variable.values is not None and variable.values.dtype.kind not in "TO":
            state.update(variable.values.tobytes())
    return Identity(total, state.hexdigest(), 0)
