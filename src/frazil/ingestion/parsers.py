"""Which module reads which format, and what its files are in Zarr's terms."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from pkgutil import resolve_name
from typing import Any, Final

from frazil.ingestion.encoding import dtype_of
from frazil.ingestion.fetching import read_variable
from frazil.ingestion.formats import Format
from frazil.ingestion.names import VariableChoice
from frazil.ingestion.records import Array, Identity, Origin, Parsed, Source, Variable
from frazil.ingestion.sources import bad_file, look

_KEPT: Final = 16
"""files that a process keeps parsed, for tasks that read from them again"""
_SCANNERS: Final = {
    Format.NETCDF3: "netcdf3:scan_netcdf3",
    Format.ZARR: "zarrs:scan_zarr",
    Format.KERCHUNK_JSON: "kerchunk:scan_kerchunk_json",
    Format.KERCHUNK_PARQUET: "kerchunk:scan_kerchunk_parquet",
    Format.TIFF: "tiff:scan_tiff",
    Format.GRIB: "grib:scan_grib",
}
"""functions from a `Source` to what is in it; HDF5 has its own way, which reads what it loads"""
_FOLDERS: Final = (Format.ZARR, Format.KERCHUNK_PARQUET)
_VALUE_READERS: Final = {Format.GRIB: "grib:read_grib", Format.TIFF: "tiff:read_tiff"}
"""functions to values of a variable, where those may have no references"""


def _function(name: str) -> Callable[..., Any]:
    """A function of a module that is imported when a file needs it."""
    found: Callable[..., Any] = resolve_name(f"frazil.ingestion.{name}")
    return found


def scan_parsed(source: Source, found: Format, choice: VariableChoice) -> Parsed:
    """The variables of a file, of which the small ones are read."""
    parsed = parse(source, found)
    names = [each.name for each in parsed.variables]
    kept = [each for each in parsed.variables if not choice.drops(each.name, names)]
    described = {
        each.name: (each.dims, each.attrs, each.size * dtype_of(each.encoding).itemsize)
        for each in kept
    }
    chosen = choice.chosen(described)
    variables = [
        replace(each, values=read_variable(each, (), source.options))
        if each.name in chosen and each.values is None and each.references is not None
        else each
        for each in kept
    ]
    return replace(parsed, variables=variables)


def read_parsed(origin: Origin, region: tuple[slice, ...], options: Mapping[str, Any]) -> Array:
    """Values of a region of a variable, as stored."""
    form, given = Format(origin.format), tuple(sorted(options.items()))
    source = Source(origin.url, given, origin.group, origin.allowed, look(origin.url, options))
    if form in _VALUE_READERS:
        values: Array = _function(_VALUE_READERS[form])(source, origin.name, region)
        return values
    variables = parse(source, form).variables
    variable = next((each for each in variables if each.name == origin.name), None)
    if variable is None:
        raise bad_file(f"the variable {origin.name!r} is gone", origin.url)
    return read_variable(variable, region, options)


def parse(source: Source, found: Format) -> Parsed:
    """A file in Zarr's terms; what did not change since is not read again."""
    if source.identity is not None:
        return _kept(source, found)
    if found not in _FOLDERS:
        raise bad_file("there is no such file", source.url)
    return _parsed(source, found)


def _parsed(source: Source, found: Format) -> Parsed:
    parsed: Parsed = _function(_SCANNERS[found])(source)
    return parsed


_kept = lru_cache(maxsize=_KEPT)(_parsed)


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
