"""Chunk coordinates in G1 inventories: byte strings that sort as the coordinates do.

`ovi1` writes each index in 1 to 9 bytes. The first byte begins with one bit for each further
byte, and values go on where those of the shorter form end, so every index has one form and none
is the beginning of another.

The specification leaves the encoding open, so others may have chosen another one: indices of a
fixed width, in either order of bytes, or seven bits a byte with the lowest first (`leb128`).
"""

from __future__ import annotations

from typing import Final

import numpy as np

from frazil.arrays import I64, U8, U32, U64
from frazil.errors import ErrorKind, FormatError
from frazil.formats.legacy.structs import MAX_RANK, MAX_U32

OVI1: Final = "ovi1"
LEB128: Final = "leb128"
FIXED: Final = {"u8": 1, "be16": 2, "be32": 4, "be64": 8, "le16": 2, "le32": 4, "le64": 8}
"""Encodings of a fixed width, with the bytes of an index."""
ENCODINGS: Final = (OVI1, LEB128, *FIXED)
FEW_CELLS: Final = 1 << 24
"""Indices that are decoded however unlike the ranks of coordinates are."""
BASES: Final = tuple(sum(1 << 7 * shorter for shorter in range(1, size)) for size in range(1, 10))
"""The smallest value of each size."""
_SIZE_OF: Final = np.array(
    [next((n for n in range(8) if not byte >> (7 - n) & 1), 8) + 1 for byte in range(256)], np.int64
)
"""Bytes of an index by the first of them."""
_LEADING: Final = tuple(0xFF << 9 - size & 0xFF for size in range(1, 9))


def _damaged(problem: str, key: str) -> FormatError:
    return FormatError(f"damaged file: {problem}", kind=ErrorKind.DESERIALIZATION, key=key)


# --- columns of coordinates ---


def encode_column(coords: U32) -> tuple[U8, I64]:
    """Coordinates, (n, ndim), in `ovi1`: all bytes, and where each coordinate ends."""
    n, ndim = coords.shape
    values = coords.astype(np.uint64)
    bases = np.array(BASES[:5], np.uint64)
    sizes = np.searchsorted(bases, values.ravel(), side="right").reshape(n, ndim)
    ends = np.cumsum(sizes.sum(axis=1), dtype=np.int64)
    flat_ends = np.cumsum(sizes.ravel(), dtype=np.int64)
    starts = flat_ends - sizes.ravel()
    out = np.empty(int(flat_ends[-1]) if len(flat_ends) else 0, np.uint8)
    flat, flat_sizes = values.ravel(), sizes.ravel()
    for size in range(1, 6):
        rows = np.flatnonzero(flat_sizes == size)
        if not len(rows):
            continue
        word = flat[rows] - bases[size - 1] | np.uint64(_LEADING[size - 1] << 8 * (size - 1))
        for byte in range(size):
            shift = np.uint64(8 * (size - 1 - byte))
            out[starts[rows] + byte] = (word >> shift & np.uint64(255)).astype(np.uint8)
    return out, ends


def decode_column(data: U8, starts: I64, ends: I64, *, key: str) -> tuple[U64, I64]:
    """Coordinates in `ovi1`: (n, longest) indices, and how many each has.

    Raises:
        FormatError: a coordinate ends within an index, is too long or has an index too large.
    """
    at = starts.copy()
    rank = np.zeros(len(starts), np.int64)
    columns: list[U64] = []
    open_rows = np.flatnonzero(at < ends)
    while len(open_rows):
        _check_cells(len(starts), len(columns) + 1, len(data), key)
        sizes = _SIZE_OF[data[at[open_rows]]]
        if (at[open_rows] + sizes > ends[open_rows]).any():
            raise _damaged("a coordinate ends within an index", key)
        if (sizes > 5).any():
            raise _damaged(f"chunk coordinates above {MAX_U32}", key)
        column = np.zeros(len(starts), np.uint64)
        for size in np.unique(sizes).tolist():
            rows = open_rows[sizes == size]
            word = np.zeros(len(rows), np.uint64)
            for byte in range(size):
                word = word << np.uint64(8) | data[at[rows] + byte]
            column[rows] = (word & np.uint64((1 << 7 * size) - 1)) + np.uint64(BASES[size - 1])
        columns.append(column)
        rank[open_rows] += 1
        at[open_rows] += sizes
        open_rows = open_rows[at[open_rows] < ends[open_rows]]
    stacked = np.stack(columns, axis=1) if columns else np.zeros((len(starts), 0), np.uint64)
    return _checked(stacked, key), rank


def _checked(indices: U64, key: str) -> U64:
    if (indices > MAX_U32).any():
        raise _damaged(f"chunk coordinates above {MAX_U32}", key)
    return indices


def _check_cells(rows: int, columns: int, size: int, key: str) -> None:
    """Refuse coordinates for which far more memory would be needed than they have bytes."""
    if columns > MAX_RANK or rows * columns > max(FEW_CELLS, 64 * size):
        raise _damaged("chunk coordinates of too many dimensions", key)


def decode_as(encoding: str, data: U8, starts: I64, ends: I64, *, key: str) -> tuple[U64, I64]:
    """Coordinates in one of the `ENCODINGS`, as `decode_column` returns them.

    Raises:
        FormatError: a coordinate ends within an index, is too long or has an index too large,
            or the encoding is unknown.
    """
    if encoding == OVI1:
        return decode_column(data, starts, ends, key=key)
    if encoding == LEB128:
        return _decode_leb128(data, starts, ends, key=key)
    if encoding not in FIXED:
        raise _damaged(f"unknown encoding of coordinates {encoding!r}", key)
    is_little = encoding.startswith("le")
    return _decode_fixed(data, starts, ends, FIXED[encoding], is_little=is_little, key=key)


def _decode_leb128(data: U8, starts: I64, ends: I64, *, key: str) -> tuple[U64, I64]:
    rank = np.zeros(len(starts), np.int64)
    shift = np.zeros(len(starts), np.uint64)
    found: list[U64] = []
    at = starts.copy()
    rows = np.flatnonzero(at < ends)
    while len(rows):
        byte = data[at[rows]].astype(np.uint64)
        longest = int(rank[rows].max()) + 1
        _check_cells(len(starts), longest, len(data), key)
        found += [np.zeros(len(starts), np.uint64) for _ in range(longest - len(found))]
        if (shift[rows] > 28).any():
            raise _damaged(f"chunk coordinates above {MAX_U32}", key)
        for axis in np.unique(rank[rows]).tolist():
            here = rank[rows] == axis
            found[axis][rows[here]] |= (byte[here] & np.uint64(127)) << shift[rows[here]]
        is_last = byte < 128
        rank[rows[is_last]] += 1
        shift[rows] += np.uint64(7)
        shift[rows[is_last]] = 0
        at[rows] += 1
        rows = rows[at[rows] < ends[rows]]
    if shift.any():
        raise _damaged("a coordinate ends within an index", key)
    stacked = np.stack(found, axis=1) if found else np.zeros((len(starts), 0), np.uint64)
    return _checked(stacked, key), rank


def _decode_fixed(
    data: U8, starts: I64, ends: I64, width: int, *, is_little: bool, key: str
) -> tuple[U64, I64]:
    """Coordinates whose indices have `width` bytes each."""
    sizes = ends - starts
    if (sizes % width).any():
        raise _damaged("a coordinate ends within an index", key)
    rank = sizes // width
    longest = int(rank.max()) if len(rank) else 0
    _check_cells(len(starts), longest, len(data), key)
    stacked = np.zeros((len(starts), longest), np.uint64)
    for axis in range(longest):
        rows = np.flatnonzero(rank > axis)
        word = np.zeros(len(rows), np.uint64)
        for byte in range(width)[:: -1 if is_little else 1]:
            word = word << np.uint64(8) | data[starts[rows] + axis * width + byte]
        stacked[rows, axis] = word
    return _checked(stacked, key), rank
