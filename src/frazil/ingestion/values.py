"""Values of variables in files, for what is copied: read by region, decoded where it must be."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np

from frazil.errors import FrazilError
from frazil.ingestion.encoding import decoded_fill
from frazil.ingestion.formats import Format
from frazil.ingestion.isolation import Limits, ParserEndedError, isolated
from frazil.ingestion.records import Array, Origin, Source
from frazil.ingestion.sources import bad_file, look


def read_part(
    origin: Origin, region: tuple[slice, ...], options: Mapping[str, Any], *, decode: bool = False
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
        source = Source(origin.url, given, origin.group, origin.allowed)
        values = read_hdf(source, origin.name, region)
    else:
        from frazil.ingestion.parsers import read_parsed

        values = read_parsed(origin, region, options)
    return decoded(values, json.loads(origin.attributes)) if decode else values


def read_safely(
    limits: Limits,
    origin: Origin,
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


def digest_safely(options: Mapping[str, Any], limits: Limits, origin: Origin) -> bytes:
    """A hash of all values of a variable, made in the helper of this process."""
    with _named(origin):
        return isolated(replace(limits, memory=0), digest, options, origin)


@contextmanager
def _named(origin: Origin) -> Iterator[None]:
    """Let whatever goes wrong tell the file and the variable."""
    try:
        yield
    except Exception as error:
        is_ended = isinstance(error, ParserEndedError)
        if isinstance(error, FrazilError) and not is_ended:
            raise
        told = error.args[0] if is_ended else f"{type(error).__name__}: {error}"
        raise bad_file(
            f"the values of {origin.name!r} cannot be read: {told}", origin.url
        ) from None


def decoded(values: Array, attrs: Mapping[str, Any]) -> Array:
    """Values with scale, offset and missing values of CF applied, as xarray does it."""
    import xarray as xr

    plain = dict(attrs)
    fill = decoded_fill(attrs, values.dtype)
    if fill is not None:
        plain["_FillValue"] = fill
    variable = xr.Variable(tuple(f"d{n}" for n in range(values.ndim)), values, plain)
    made = xr.conventions.decode_cf_variable("values", variable, decode_times=False)
    return np.asarray(made.values)


def digest(options: Mapping[str, Any], origin: Origin) -> bytes:
    """A hash of all values of a variable."""
    values = read_part(origin, (), options)
    state = hashlib.blake2b(repr((values.shape, values.dtype.str)).encode(), digest_size=16)
    is_text = values.dtype.kind == "T"
    state.update(repr(values.tolist()).encode() if is_text else np.ascontiguousarray(values).data)
    return state.digest()
