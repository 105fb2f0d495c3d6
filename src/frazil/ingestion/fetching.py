"""Reading values through references, without a repository.

Chunks are decoded as those of a repository are, by decoders that believe no length in a chunk;
codecs that are not known here are left to zarr.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import product
from math import prod
from typing import Any

import numpy as np
import obstore
import zarr
from zarr.core.buffer import cpu
from zarr.storage import MemoryStore

from frazil.bulk.chain import Chain
from frazil.bulk.compiling import compile_chain
from frazil.errors import ErrorKind, FrazilError, StorageError, unsuitable
from frazil.ingestion.encoding import array_json, encoded_dtype, without_zarr_warnings
from frazil.ingestion.records import Array, FileReferences, FileVariable, ObstacleError
from frazil.ingestion.sources import client_for, display_url, reading
from frazil.storage.locations import key_of


def fetch_values(
    variable: FileVariable, region: tuple[slice, ...], options: Mapping[str, Any]
) -> Array:
    """Values of a region, as stored; only the chunks that it touches are fetched.

    Raises:
        StorageError: a file that the references name cannot be read.
        InvalidInputError: a chunk cannot be decoded.
    """
    if variable.references is None:
        assert variable.values is not None
        return variable.values[region]
    if not region and _is_run(variable, variable.references):
        return _joined(variable, variable.references, options)
    parts = region or (slice(None),) * len(variable.shape)
    ends = [part.indices(n)[:2] for part, n in zip(parts, variable.shape, strict=True)]
    spans = [
        range(start // size, -(-stop // size))
        for (start, stop), size in zip(ends, variable.chunks, strict=True)
    ]
    # A scalar has one chunk, and no numbers to find it by.
    wanted = np.array([*product(*spans)], np.int64).reshape(prod(map(len, spans)), len(spans))
    chunks = _fetch(variable, wanted, options)
    made = array_json(variable.encoding, variable.shape, variable.chunks, variable.dims, {})
    try:
        chain = compile_chain(json.loads(made))
        if chain is not None and chain.dtype.kind not in "OT":
            return _decoded(variable, chain, chunks, wanted, ends)
        held = {"zarr.json": made, **chunks}
        store = MemoryStore({key: cpu.Buffer.from_bytes(data) for key, data in held.items()})
        with without_zarr_warnings():
            array = zarr.open_array(store, mode="r", zarr_format=3)
            return np.asarray(array[region if variable.dims else ()])
    except Exception as error:  # a codec may raise anything
        # What is inline is in a file that the caller knows.
        named = variable.references.locations[:1]
        place = {"file": display_url(named[0])} if named else {}
        raise unsuitable(
            f"a chunk of {variable.name!r} cannot be decoded: {type(error).__name__}: {error}",
            **place,
        ) from None


def _decoded(
    variable: FileVariable,
    chain: Chain,
    chunks: Mapping[str, bytes],
    wanted: Array,
    ends: Sequence[tuple[int, int]],
) -> Array:
    """Values of a region from the chunks that it touches."""
    dtype = chain.dtype.newbyteorder("=")
    values: Array = np.full([stop - start for start, stop in ends], chain.fill_value, dtype)
    for place in wanted.tolist():
        data = chunks.get(_key(place))
        if data is None:
            continue
        target, source = [], []
        for at, size, (start, stop) in zip(place, variable.chunks, ends, strict=True):
            low, high = max(at * size, start), min((at + 1) * size, stop)
            target.append(slice(low - start, high - start))
            source.append(slice(low - at * size, high - at * size))
        values[tuple(target)] = chain.decode(data, variable.chunks)[tuple(source)]
    return values


def _key(place: Sequence[int]) -> str:
    return "/".join(["c", *map(str, place)])


def require_same(
    variable: FileVariable,
    chunks: Iterable[int],
    read: Callable[[tuple[slice, ...], np.dtype[Any]], Array],
    library: str,
    options: Mapping[str, Any],
) -> None:
    """Decode some chunks both ways, by their codecs and by a library that knows the format."""
    for number in chunks:
        region = variable.region(number)
        try:
            seen = fetch_values(variable, region, options)
        except FrazilError as error:
            raise ObstacleError(f"its codecs do not decode it ({error.args[0]})") from error
        expected = read(region, seen.dtype)
        if seen.dtype != expected.dtype or seen.tobytes() != expected.tobytes():
            raise ObstacleError(f"its codecs decode it to other values than {library} does")


def _is_run(variable: FileVariable, refs: FileReferences) -> bool:
    """Whether the bytes of all chunks, put together, are the values: records of NetCDF 3."""
    return (
        variable.is_raw
        and bool(variable.dims)
        and variable.chunks[1:] == variable.shape[1:]
        and variable.shape[0] % variable.chunks[0] == 0
        and len(refs) == prod(variable.grid)
        and len(refs.locations) == 1
    )


def _joined(variable: FileVariable, refs: FileReferences, options: Mapping[str, Any]) -> Array:
    """All values at once, without a chunk after the other going through zarr."""
    settings = variable.meaning["codecs"][0].get("configuration") or {}
    dtype = encoded_dtype(variable.encoding)
    stored = dtype.newbyteorder(">" if settings.get("endian") == "big" else "<")
    data = b"".join(_read(refs, 0, [*range(len(refs))], options))
    return np.frombuffer(data, stored).reshape(variable.shape).astype(dtype.newbyteorder("="))


def _fetch(
    variable: FileVariable, wanted: np.ndarray[Any, np.dtype[np.int64]], options: Mapping[str, Any]
) -> dict[str, bytes]:
    """The bytes of chunks by the keys that zarr asks for."""
    refs = variable.references
    assert refs is not None
    if not len(refs):
        return {}
    numbers = np.zeros(len(wanted), np.int64)
    for axis, count in enumerate(variable.grid):
        numbers = numbers * count + wanted[:, axis]
    rows = np.minimum(np.searchsorted(refs.index, numbers), len(refs) - 1)
    by_place: dict[int, list[int]] = {}
    for n in np.flatnonzero(refs.index[rows] == numbers).tolist():
        by_place.setdefault(int(refs.location[rows[n]]), []).append(n)
    held: dict[str, bytes] = {}
    for place, members in by_place.items():
        data = _read(refs, place, [int(rows[n]) for n in members], options)
        held |= {_key(wanted[n].tolist()): each for n, each in zip(members, data, strict=True)}
    return held


def _read(
    refs: FileReferences, place: int, rows: list[int], options: Mapping[str, Any]
) -> list[bytes]:
    starts = [int(refs.offset[row]) for row in rows]
    lengths = [int(refs.length[row]) for row in rows]
    if place < 0:
        return [refs.inline[a : a + n] for a, n in zip(starts, lengths, strict=True)]
    url = refs.locations[place]
    client = client_for(url, options)
    with reading(url, "a file that references name cannot be read"):
        found = obstore.get_ranges(client, key_of(url), starts=starts, lengths=lengths)
    for data, length in zip(found, lengths, strict=True):
        if len(data) != length:
            raise StorageError(
                "a file is shorter than the references into it",
                kind=ErrorKind.INVALID_OBJECT_SIZE,
                file=display_url(url),
            )
    return [bytes(data) for data in found]
