"""How much memory the bytes of a file can justify, asked before any of it is taken.

A record of a file costs at least a byte or two when it is packed, because it differs from all
others: by its coordinates, its path or its id. What it unpacks to is rarely more than a kilobyte.
So honest files grow by a factor of some hundreds: manifests of the official packages by 10, by 100
with locations of a kilobyte, and snapshots whose groups share long attributes by 1,300, while zstd
can grow by 30,000 and a list in a FlatBuffer can point to one table a million times. Small files
may grow by more.
"""

from __future__ import annotations

from typing import Final

from frazil import config
from frazil.errors import ErrorKind, FormatError

ALLOWANCE: Final = 64 << 20
"""Bytes that every file may unpack to, however well it is packed."""
SMALL_REFERENCES: Final = 1 << 17
"""References that every file may hold."""
SMALL_VALUES: Final = 1 << 20
"""Values that every file may hold."""
VALUES_PER_BYTE: Final = 8
"""Values that each byte of a packed file may stand for beyond those: a node of a hierarchy has
some forty of them, and takes twenty bytes at least for its id and path."""


def justified(packed: int, limit: int, least: int = ALLOWANCE) -> int:
    """How many bytes so many packed ones may become, and never more than `limit`.

    `least` may always be reached, however well they are packed.
    """
    return min(limit, max(least, packed * config.current().max_expansion))


def values_justified(packed: int) -> int:
    """How many values, each an object of its own, a file or text of a size may hold."""
    return SMALL_VALUES + VALUES_PER_BYTE * packed


def references_justified(packed: int) -> int:
    """How many chunk references, which all have other coordinates, a file of a size may hold."""
    return SMALL_REFERENCES + packed


def too_large(key: str, *, packed: int, limit: int) -> FormatError:
    """The error for a file that unpacks to more than it can justify."""
    return FormatError(
        "the file unpacks to more than is allowed for its size; if you trust it, allow more with "
        "frazil.config.set(max_expansion=...)",
        kind=ErrorKind.DESERIALIZATION,
        key=key,
        packed=packed,
        limit=limit,
    )
