"""The format of a file, recognised by its first bytes and never by its name, and its parser."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from enum import StrEnum
from functools import lru_cache
from pathlib import Path
from pkgutil import resolve_name
from typing import Any, Final

from frazil.errors import InvalidInputError, invalid_option
from frazil.ingestion.encoding import encoded_dtype
from frazil.ingestion.fetching import fetch_values
from frazil.ingestion.names import VariableChoice
from frazil.ingestion.records import (
    Array,
    FileVariable,
    Identity,
    InputFile,
    ParsedFile,
    VariableOrigin,
)
from frazil.ingestion.sources import bad_file, display_url, local_path, look, read_head, read_whole


class Format(StrEnum):
    """Formats that can be ingested."""

    HDF5 = "hdf5"
    NETCDF3 = "netcdf3"
    GRIB = "grib"
    TIFF = "tiff"
    ZARR = "zarr"
    KERCHUNK_JSON = "kerchunk-json"
    KERCHUNK_PARQUET = "kerchunk-parquet"


ALIASES: Final = {
    **dict.fromkeys(("netcdf4", "nc4", "h5"), Format.HDF5),
    "nc3": Format.NETCDF3,
    "grib2": Format.GRIB,
    "geotiff": Format.TIFF,
    **dict.fromkeys(("kerchunk", "json"), Format.KERCHUNK_JSON),
    "parquet": Format.KERCHUNK_PARQUET,
}
HDF5_SIGNATURE: Final = b"\x89HDF\r\n\x1a\n"
HDF5_PLACES: Final = (0, 512, 1024, 2048)
"""An HDF5 file may begin with somebody else's bytes, so many of them."""
HEAD: Final = 4096
"""Bytes by which a format is recognised."""

_MAGIC: Final = {
    **dict.fromkeys((b"CDF\x01", b"CDF\x02", b"CDF\x05"), Format.NETCDF3),
    b"GRIB": Format.GRIB,
    **dict.fromkeys((b"II*\x00", b"MM\x00*", b"II+\x00", b"MM\x00+"), Format.TIFF),
}
_FOREIGN: Final = {
    b"\x0e\x03\x13\x01": "HDF4",
    b"PK\x03\x04": "a zip archive",
    b"\x1f\x8b": "compressed with gzip",
    b"BZh": "compressed with bzip2",
    b"\xfd7zXZ": "compressed with xz",
    b"\x28\xb5\x2f\xfd": "compressed with zstd",
    b"PAR1": "one Parquet file; kerchunk references in Parquet are a folder with .zmetadata",
    b"<": "HTML or XML, perhaps an error page",
}
_METADATA: Final = ("zarr.json", ".zmetadata", ".zgroup", ".zarray")


def parse_format(text: str) -> Format:
    """The format that a user names."""
    name = text.strip().lower()
    if name in ALIASES:
        return ALIASES[name]
    try:
        return Format(name)
    except ValueError:
        known = ", ".join([*Format, *ALIASES])
        raise invalid_option(f"there is no format {text!r}; there are {known}") from None


def tell_format(head: bytes) -> Format | None:
    """The format that the first bytes of a file show; None when they show none."""
    for place in HDF5_PLACES:
        if head[place : place + len(HDF5_SIGNATURE)] == HDF5_SIGNATURE:
            return Format.HDF5
    for magic, found in _MAGIC.items():
        if head.startswith(magic):
            return found
    return Format.KERCHUNK_JSON if head.lstrip()[:1] == b"{" else None


def detect_format(
    url: str, identity: Identity | None, options: Mapping[str, Any] | None = None
) -> Format:
    """Look at a file or folder and tell its format."""
    if identity is None:
        return _detect_folder(url, options)
    if not identity.size:
        raise bad_file("the file is empty", url)
    head = read_head(url, HEAD, options)
    found = tell_format(head)
    if found is not None:
        return found
    what = next((text for magic, text in _FOREIGN.items() if head.startswith(magic)), None)
    detail = f"this is {what}" if what else f"its first bytes are {head[:8]!r}"
    raise bad_file(f"the file has none of the known formats: {detail}", url)


def _detect_folder(url: str, options: Mapping[str, Any] | None) -> Format:
    base = url.rstrip("/")
    for name in _METADATA:
        data = read_whole(f"{base}/{name}", options)
        if data is None:
            continue
        if name == ".zmetadata":
            return Format.KERCHUNK_PARQUET if _has_records(data) else Format.ZARR
        return Format.ZARR
    if look(url, options) is None and read_whole(f"{base}/repo", options) is not None:
        raise bad_file("this is an Icechunk repository, not a file to ingest", url)
    path = local_path(url)
    if path is not None and Path(path).is_dir():
        raise bad_file(
            f"this is a folder without a Zarr group or kerchunk references: name the files in it,"
            f" as in {path.rstrip('/')}/*.nc",
            url,
        )
    raise bad_file(
        "there is no such file, and no Zarr group or kerchunk references in a folder", url
    )


def _has_records(data: bytes) -> bool:
    """Whether consolidated metadata are those of references in Parquet."""
    try:
        found = json.loads(data)
    except ValueError:
        return False
    return isinstance(found, dict) and "record_size" in found


_SCANNERS: Final = {
    Format.NETCDF3: "netcdf3:scan_netcdf3",
    Format.ZARR: "zarrs:scan_zarr",
    Format.KERCHUNK_JSON: "kerchunk:scan_kerchunk_json",
    Format.KERCHUNK_PARQUET: "kerchunk:scan_kerchunk_parquet",
    Format.TIFF: "tiff:scan_tiff",
    Format.GRIB: "grib:scan_grib",
}
"""functions from a `InputFile` to what is in it; HDF5 has its own way, which reads what it loads"""
_FOLDERS: Final = (Format.ZARR, Format.KERCHUNK_PARQUET)
_VALUE_READERS: Final = {Format.GRIB: "grib:read_grib", Format.TIFF: "tiff:read_tiff"}
"""functions to values of a variable, where those may have no references"""


def _function(name: str) -> Callable[..., Any]:
    """A function of a module that is imported when a file needs it."""
    found: Callable[..., Any] = resolve_name(f"frazil.ingestion.{name}")
    return found


def scan_parsed(source: InputFile, found: Format, choice: VariableChoice) -> ParsedFile:
    """The variables of a file, of which the small ones are read."""
    parsed = parse(source, found)
    names = [each.name for each in parsed.variables]
    kept = [each for each in parsed.variables if not choice.drops(each.name, names)]
    described = {
        each.name: (each.dims, each.attrs, each.size * encoded_dtype(each.encoding).itemsize)
        for each in kept
    }
    chosen = choice.chosen(described)
    variables = [
        replace(each, values=fetch_values(each, (), source.options))
        if each.name in chosen and each.values is None and each.references is not None
        else each
        for each in kept
    ]
    return replace(parsed, variables=variables)


def read_parsed(
    origin: VariableOrigin, region: tuple[slice, ...], options: Mapping[str, Any]
) -> Array:
    """Values of a region of a variable, as stored."""
    form, given = Format(origin.format), tuple(sorted(options.items()))
    source = InputFile(origin.url, given, origin.group, origin.allowed, look(origin.url, options))
    if form in _VALUE_READERS:
        values: Array = _function(_VALUE_READERS[form])(source, origin.name, region)
        return values
    variables = parse(source, form).variables
    variable = next((each for each in variables if each.name == origin.name), None)
    if variable is None:
        raise bad_file(f"the file has no variable {origin.name!r} any more", origin.url)
    try:
        return fetch_values(variable, region, options)
    except InvalidInputError as error:
        error.facts.setdefault("file", display_url(origin.url))
        raise


def parse(source: InputFile, found: Format) -> ParsedFile:
    """A file in Zarr's terms; an unchanged file is not read again."""
    if source.identity is not None:
        return _kept(source, found)
    if found not in _FOLDERS:
        raise bad_file("there is no such file", source.url)
    return _parsed(source, found)


def _parsed(source: InputFile, found: Format) -> ParsedFile:
    parsed: ParsedFile = _function(_SCANNERS[found])(source)
    return parsed


_kept = lru_cache(maxsize=16)(_parsed)
"""The files that tasks read from again: a worker has few at a time."""


def folder_identity(variables: Sequence[FileVariable]) -> Identity:
    """The state of a folder: what its chunks are, where they are, how long and how old."""
    state = hashlib.blake2b(digest_size=16)
    total = 0
    for variable in variables:
        state.update(repr((variable.name, variable.shape, variable.attributes)).encode())
        refs = variable.references
        if refs is not None:
            for column in (refs.index, refs.offset, refs.length):
                state.update(column.tobytes())
            state.update(repr(refs.marks).encode())
            total += refs.nbytes
        if variable.values is not None and variable.values.dtype.kind not in "TO":
            state.update(variable.values.tobytes())
    return Identity(total, state.hexdigest(), 0)
