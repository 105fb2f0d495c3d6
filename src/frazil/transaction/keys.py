"""The grammar of Zarr store keys; pure."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, TypeAlias

from frazil.errors import ErrorKind, InvalidInputError
from frazil.model.documents import damaged_document, read_document
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


@dataclass(frozen=True, slots=True)
class KeyEncoding:
    """How the `zarr.json` of an array says that its chunks are called."""

    name: str = "default"
    separator: str = "/"

    @property
    def folder(self) -> str | None:
        """What stands before the indices of a chunk."""
        return "c" if self.name == "default" else None

    def chunk_name(self, coords: Iterable[int]) -> str:
        """What follows the path of the array in the key of a chunk."""
        parts = [*([] if self.folder is None else [self.folder]), *map(str, coords)]
        return self.separator.join(parts or ["0"])

    def parse(self, name: str, rank: int) -> Coordinates | None:
        """Undo `chunk_name`; None for names of no chunk."""
        parts = name.split(self.separator)
        if self.folder is not None and parts.pop(0) != self.folder:
            return None
        if self.folder is None and not rank and parts == ["0"]:
            return ()
        if len(parts) != rank or not all(part.isascii() and part.isdigit() for part in parts):
            return None
        return _coords(parts, name)


USUAL: Final = KeyEncoding()


def key_encoding(document: bytes) -> KeyEncoding:
    """The encoding that a document names; most name the usual one."""
    if b'"v2"' not in document and b'"."' not in document:
        return USUAL
    return _named_encoding(document)


@lru_cache(maxsize=256)
def _named_encoding(document: bytes) -> KeyEncoding:
    found = read_document(document).get("chunk_key_encoding")
    if not isinstance(found, dict) or found.get("name") not in ("default", "v2"):
        return USUAL
    usual = "/" if found["name"] == "default" else "."
    given = found.get("configuration")
    separator = given.get("separator", usual) if isinstance(given, dict) else usual
    if separator not in ("/", "."):
        raise damaged_document(f"chunk keys have the separator {separator!r}", None)
    return KeyEncoding(found["name"], separator)


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


def invalid(key: str) -> InvalidInputError:
    """The error for text that is no key."""
    return InvalidInputError(f"invalid key: {key!r}", kind=ErrorKind.INVALID_KEY)
