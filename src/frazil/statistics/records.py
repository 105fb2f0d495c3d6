"""The statistics of a chunk as a row, and what makes two rows speak of the same chunk.

A row is found by the identity of the chunk's bytes (an object, an offset and a length) and by which
cells of it lie in the array. So it is right in every version and branch that refers to these bytes,
and nothing has to be kept up to date. Rows of one decoding, which says how bytes become values, are
kept together: another decoding finds none.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import IntEnum, IntFlag
from hashlib import blake2b
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from frazil.arrays import I64, U8, ByteStrings, Mask, StructRows
from frazil.bulk.fetch import INLINE, NATIVE, VIRTUAL, ChunkReferences
from frazil.bulk.grid import ArrayLayout, Grid, array_layout
from frazil.cf.decoding import Decoder, Rules, decoder_of
from frazil.errors import InvalidInputError
from frazil.formats.zarr_meta import array_document
from frazil.model.nodes import ArrayNode

ROW: Final = np.dtype(
    [
        ("owner", "u1", (16,)),
        ("offset", "<u8"),
        ("length", "<u8"),
        ("cells", "u1", (8,)),
        ("kind", "u1"),
        ("form", "u1"),
        ("has", "u1"),
        ("unused", "u1"),
        ("crc32c", "<u4"),
        ("count", "<u8"),
        ("missing", "<u8"),
        ("nan", "<u8"),
        ("min", "<u8"),
        ("max", "<u8"),
        ("sum", "<u8"),
    ]
)
"""`owner` is the id of a chunk object, or a digest of what the bytes of other chunks come from;
`cells` is a digest of the chunk's shape and of the part of it that lies in the array. `min`, `max`
and `sum` are the eight bytes of a number whose type `form` tells. `count` is how many values there
are, `nan` how many of them are NaN; these are neither in the extremes nor in the sum."""
RANGE_WIDTH: Final = 32
"""The first bytes of a row identify the stored bytes that it describes."""
KEY_WIDTH: Final = 40
"""These first bytes identify the stored bytes and the cells of the array."""
MOST_CELLS: Final = 1 << 62
"""The largest number of cells of a chunk that has statistics."""
_PERSON: Final = b"frazil-stats-1"


class NumberType(IntEnum):
    """The type of the numbers in a row."""

    NONE = 0
    FLOAT = 1
    INTEGER = 2
    UNSIGNED = 3


class RowFlags(IntFlag):
    """Which numbers a row has."""

    EXTREMES = 1
    SUM = 2


TYPES: Final = {NumberType.FLOAT: "<f8", NumberType.INTEGER: "<i8", NumberType.UNSIGNED: "<u8"}
_FORMS: Final = {
    **dict.fromkeys("f", NumberType.FLOAT),
    **dict.fromkeys("iMm", NumberType.INTEGER),
    **dict.fromkeys("ub", NumberType.UNSIGNED),
}


def form_of(dtype: np.dtype[Any]) -> NumberType:
    """How the extremes of decoded values are kept."""
    return _FORMS.get(dtype.kind, NumberType.NONE)


def _digest(value: object, size: int) -> bytes:
    return blake2b(
        json.dumps(value, sort_keys=True).encode(), digest_size=size, person=_PERSON
    ).digest()


# --- decodings ---


@dataclass(frozen=True, slots=True, eq=False)
class Decoding:
    """How the bytes of an array's chunks become values."""

    layout: ArrayLayout
    decoder: Decoder
    id: bytes
    """equal for arrays whose bytes mean the same"""

    @property
    def form(self) -> NumberType:
        """How extremes are kept."""
        return form_of(self.decoder.result)


def decoding_of(node: ArrayNode, decoder: Decoder | None = None) -> Decoding | None:
    """The decoding of an array, by the CF conventions unless another decoder is given.

    None: its codecs or its type are not known here. Times stay numbers, as others may decode them.
    """
    layout = array_layout(node)
    if layout is None:
        return None
    if decoder is None:
        try:
            decoder = decoder_of(
                node.path, layout.chain.dtype, layout.attributes, Rules(times=False)
            )
        except InvalidInputError:
            return None
    document = array_document(node)
    stored = [document.get(name) for name in ("data_type", "fill_value", "codecs")]
    # All that a decoder does is in its fields; their texts are exact.
    settings = repr(replace(decoder, name=""))
    return Decoding(layout, decoder, _digest([stored, settings], 16))


# --- identities ---


def blank_rows(count: int) -> StructRows:
    """Rows of which nothing is known."""
    return np.zeros(count, ROW)


def identified(
    refs: ChunkReferences, grid: Grid, expand: Callable[[str], str]
) -> tuple[StructRows, Mask]:
    """Rows with nothing but their keys, and which chunks can have statistics at all.

    A virtual chunk without a checksum cannot: a change of its source would go unnoticed.
    `expand` makes a URL of the location of a virtual chunk.
    """
    rows, known = located(refs, expand)
    rows["cells"] = _cells(grid, refs.coords)
    return rows, known


def located(refs: ChunkReferences, expand: Callable[[str], str]) -> tuple[StructRows, Mask]:
    """The same without which cells of the array they are about."""
    rows = blank_rows(len(refs))
    rows["kind"], rows["offset"], rows["length"] = refs.kind, refs.offset, refs.length
    native = refs.kind == NATIVE
    rows["owner"][native, :12] = refs.chunk_id[native]
    known = native.copy()
    for number, table in enumerate(refs.tables):
        virtual = np.flatnonzero((refs.kind == VIRTUAL) & (refs.table == number))
        if len(virtual):
            at = refs.row[virtual]
            columns = (table.location[at], table.etag[at], table.last_modified[at])
            stacked = np.stack([each.astype(np.int64) for each in columns], axis=1)
            first, which = np.unique(stacked, axis=0, return_index=True, return_inverse=True)[1:]
            refs_of = [table.ref(int(at[row])) for row in first]
            owners = [_source(ref, expand) for ref in refs_of]
            found = np.frombuffer(b"".join(each or bytes(16) for each in owners), np.uint8)
            rows["owner"][virtual] = found.reshape(-1, 16)[which.ravel()]
            known[virtual] = np.array([each is not None for each in owners])[which.ravel()]
        for row in np.flatnonzero((refs.kind == INLINE) & (refs.table == number)).tolist():
            start = int(refs.offset[row])
            data = table.inline_data[start : start + int(refs.length[row])]
            owner = blake2b(data, digest_size=16, person=_PERSON).digest()
            rows["owner"][row] = np.frombuffer(owner, np.uint8)
            rows["offset"][row], known[row] = 0, True
    return rows, known


def _source(ref: Any, expand: Callable[[str], str]) -> bytes | None:  # noqa: ANN401  (a VirtualRef)
    if ref.checksum is None:
        return None
    try:
        return _digest(["virtual", expand(ref.location), ref.checksum], 16)
    except InvalidInputError:  # a container that is not configured
        return None


def shapes(grid: Grid, coords: npt.NDArray[np.integer]) -> tuple[I64, I64]:
    """The shapes of chunks, and of the parts of them that lie in the array; both (n, ndim)."""
    at = np.asarray(coords, np.int64)
    full, inside = np.zeros(at.shape, np.int64), np.zeros(at.shape, np.int64)
    for axis, each in enumerate(grid):
        full[:, axis] = each.size_of(at[:, axis])
        left = each.length - each.start_of(at[:, axis])
        inside[:, axis] = np.clip(left, 0, full[:, axis])
    return full, inside


def cell_counts(grid: Grid, coords: npt.NDArray[np.integer]) -> tuple[I64, Mask]:
    """How many cells of the array each chunk has, and where that number fits into 64 bits."""
    inside = shapes(grid, coords)[1]
    fits: Mask = inside.prod(axis=1, dtype=np.float64) <= MOST_CELLS
    return np.where(fits, inside.prod(axis=1), 0), fits


def _cells(grid: Grid, coords: npt.NDArray[np.integer]) -> U8:
    numbers = np.concatenate(shapes(grid, coords), axis=1)
    if not numbers.size:  # there is one chunk of no axes
        return np.broadcast_to(np.frombuffer(_digest([], 8), np.uint8), (len(numbers), 8))
    distinct, which = np.unique(numbers, axis=0, return_inverse=True)
    digests = b"".join(_digest(each, 8) for each in distinct.tolist())
    return np.frombuffer(digests, np.uint8).reshape(-1, 8)[which.ravel()]


def row_keys(rows: StructRows, width: int = KEY_WIDTH) -> ByteStrings:
    """What tells rows apart, as texts of one width that numpy can sort."""
    plain = np.ascontiguousarray(rows).view(np.uint8).reshape(len(rows), ROW.itemsize)
    return np.ascontiguousarray(plain[:, :width]).view(f"S{width}").ravel()


def found_in(known: ByteStrings, wanted: ByteStrings) -> I64:
    """The positions of wanted keys in sorted known keys; -1 for those that are not there."""
    if not len(known):
        return np.full(len(wanted), -1)
    places = np.minimum(np.searchsorted(known, wanted), len(known) - 1)
    return np.where(known[places] == wanted, places, -1)
