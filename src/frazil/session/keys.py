"""The grammar of Zarr store keys (format reference 9.1); pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, TypeAlias

from frazil.errors import ErrorKind, InvalidInputError
from frazil.model.nodes import Coordinates

METADATA: Final = "zarr.json"
ZARR_V2_NAMES: Final = frozenset({".zgroup", ".zarray", ".zattrs", ".zmetadata"})
MAX_INDEX: Final = 2**32 - 1
_CHUNK: Final = re.compile(r"(?:(?P<path>.*)/)?c(?P<coords>(?:/[0-9]+)*)", re.ASCII | re.DOTALL)


@dataclass(frozen=True, slots=True)
class MetadataKey:
    """Names the `zarr.json` of a node."""

    path: str


@dataclass(frozen=True, slots=True)
class ChunkKey:
    """Names a chunk of an array."""

    path: str
    coords: Coordinates


@dataclass(frozen=True, slots=True)
class ZarrV2Key:
    """Names a metadata file of Zarr v2, which never exists here."""

    key: str


Key: TypeAlias = MetadataKey | ChunkKey | ZarrV2Key


def parse_key(key: str) -> Key:
    """Read a store key.

    Raises:
        InvalidInputError: the key names neither metadata nor a chunk.
    """
    head, found, tail = key.rpartition("/c/")
    if found:
        parts = tail.split("/")
        if all(part.isascii() and part.isdigit() for part in parts):
            return ChunkKey(clean_path(head, key), _coords(parts, key))
    name = key.rpartition("/")[2]
    if name == METADATA:
        return MetadataKey(clean_path(key[: -len(METADATA)], key))
    if name in ZARR_V2_NAMES:
        return ZarrV2Key(key)
    match = _CHUNK.fullmatch(key)
    if match:
        parts = match["coords"].split("/")[1:]
        return ChunkKey(clean_path(match["path"] or "", key), _coords(parts, key))
    raise invalid(key)


def _coords(parts: list[str], key: str) -> Coordinates:
    coords = tuple(map(int, parts))
    if any(index > MAX_INDEX for index in coords):
        raise invalid(key)
    return coords


def clean_path(text: str, key: str | None = None) -> str:
    """Make an absolute node path of a relative one; empty and `.` segments are dropped."""
    if text and text[0] != "/" and "//" not in text and "." not in text:
        return "/" + text.rstrip("/")
    parts = [part for part in text.split("/") if part not in ("", ".")]
    if ".." in parts:
        raise invalid(text if key is None else key)
    return "/" + "/".join(parts)


def metadata_key(path: str) -> str:
    """Key of the `zarr.json` of a node."""
    return METADATA if path == "/" else f"{path[1:]}/{METADATA}"


def chunk_prefix(path: str) -> str:
    """What the keys of all chunks of an array begin with."""
    return "c" if path == "/" else f"{path[1:]}/c"


def invalid(key: str) -> InvalidInputError:
    """The error for text that is no key."""
    return InvalidInputError(f"invalid key: {key!r}", kind=ErrorKind.INVALID_KEY)
