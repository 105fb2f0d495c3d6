"""Values of a decoded JSON or MessagePack document, checked one by one.

A struct is a list of its fields or a map with their names: the libraries wrote the one, the
schemas ask for the other, and their readers took both.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import Enum
from typing import Any, Final, TypeAlias, TypeVar

from frazil.errors import ErrorKind, FormatError, InvalidInputError
from frazil.formats.legacy.dialects import Dialect, LegacyGeneration
from frazil.formats.legacy.names import (
    MAX_NODE_NUMBER,
    WIDE,
    Kind,
    bytes_of_name,
    from_crockford,
    is_widened_id,
    narrow_id,
    numbered_node,
    remember,
)
from frazil.formats.legacy.records import Names, Nanos
from frazil.ids import ChunkId, ManifestId, NodeId, ObjectId, SnapshotId, crockford, node_path
from frazil.model.history import MAX_MICROS, to_datetime
from frazil.model.nodes import Dimension, Extents

Value: TypeAlias = Any
Id = TypeVar("Id", bound=ObjectId)

MAX_U16: Final = 2**16 - 1
MAX_U32: Final = 2**32 - 1
MAX_U64: Final = 2**64 - 1
MAX_RANK: Final = 1024
"""Arrays have fewer axes; more are taken for damage."""
_PAIR: Final = 2


class StructForm(Enum):
    """How a struct is written."""

    LIST = "its fields in order"
    MAP = "its fields by name"
    OTHER = "in a way that is read, but never written"


@dataclass(slots=True)
class LegacyDocument:
    """Reads the values of one file; gathers the names of the ids it meets."""

    key: str
    generation: LegacyGeneration
    snapshots: dict[SnapshotId, str] = field(default_factory=dict)
    manifests: dict[ManifestId, str] = field(default_factory=dict)
    chunks: dict[ChunkId, str] = field(default_factory=dict)
    id_width: int = 0
    """bytes of the last object id"""
    has_packed_ids: bool = False
    """whether ids are byte strings, not texts"""
    has_numbered_nodes: bool | None = None
    """whether nodes have numbers; None before the first node"""
    has_number_ids: bool = False
    """whether ids are lists of numbers"""
    has_true_extents: bool = False
    """whether the writer is known to tell exactly which chunks a manifest has"""
    forms: set[StructForm] = field(default_factory=set)
    """how structs are written"""

    def fail(self, problem: str) -> FormatError:
        """The error for damage in this file."""
        return FormatError(f"damaged file: {problem}", kind=ErrorKind.DESERIALIZATION, key=self.key)

    def names(self) -> Names:
        """The names of all ids met so far that are not the plain ones."""
        return Names(self.snapshots, self.manifests, self.chunks)

    # --- plain values ---

    def fields(self, value: Value, names: Sequence[str], what: str) -> Sequence[Value]:
        """The fields of a struct in the order of their names; absent ones in a map are None."""
        if isinstance(value, Mapping):
            self.forms.add(StructForm.MAP if value.keys() <= {*names} else StructForm.OTHER)
            return [value.get(name) for name in names]
        self.forms.add(StructForm.LIST)
        return self._all_of(value, names, what)

    def pair(self, value: Value, names: Sequence[str], what: str) -> Sequence[Value]:
        """The fields of what is a list also where structs are maps."""
        if isinstance(value, Mapping):
            self.forms.add(StructForm.OTHER)
            return [value.get(name) for name in names]
        return self._all_of(value, names, what)

    def _all_of(self, value: Value, names: Sequence[str], what: str) -> Sequence[Value]:
        if not isinstance(value, list | tuple) or len(value) != len(names):
            raise self.fail(f"{what} must have {len(names)} fields")
        return value

    def items(self, value: Value, what: str) -> Sequence[Value]:
        """A list."""
        if not isinstance(value, list | tuple):
            raise self.fail(f"{what} must be a list")
        return value

    def mapping(self, value: Value, what: str) -> Mapping[Value, Value]:
        """A map."""
        if not isinstance(value, Mapping):
            raise self.fail(f"{what} must be a map")
        return value

    def text(self, value: Value, what: str) -> str:
        """A text."""
        if not isinstance(value, str):
            raise self.fail(f"{what} must be a text")
        if not value.isascii():
            try:
                value.encode()
            except UnicodeEncodeError as error:  # JSON can spell halves of characters
                raise self.fail(f"{what} is not Unicode") from error
        return value

    def number(self, value: Value, what: str, limit: int = MAX_U64) -> int:
        """A whole number from 0 to a limit."""
        if type(value) is not int or not 0 <= value <= limit:
            raise self.fail(f"{what} must be a whole number up to {limit}")
        return value

    def numbers(self, value: Value, what: str, limit: int = MAX_U64) -> tuple[int, ...]:
        """A list of whole numbers, one for each axis at most."""
        items = self.items(value, what)
        if len(items) > MAX_RANK:
            raise self.fail(f"{what} has too many items")
        return tuple(self.number(each, what, limit) for each in items)

    def time(self, value: Value, what: str) -> Nanos:
        """A point in time."""
        found = parse_nanos(value) if isinstance(value, str) else None
        if found is None:
            raise self.fail(f"{what} must be a time")
        return found

    def metadata(self, value: Value, what: str) -> dict[str, Value]:
        """A map that JSON can hold."""
        if not isinstance(value, Mapping):
            raise self.fail(f"{what} must be a map")
        self._check_json(value, what)
        return dict(value)

    def _check_json(self, value: Value, what: str) -> None:
        if isinstance(value, Mapping):
            for name, item in value.items():
                if not isinstance(name, str):
                    raise self.fail(f"{what} has a key that is no text")
                self._check_json(item, what)
        elif isinstance(value, list | tuple):
            for item in value:
                self._check_json(item, what)
        elif isinstance(value, bytes):
            raise self.fail(f"{what} has bytes, which JSON cannot hold")

    def json(self, raw: bytes | str, problem: str = "not JSON") -> Value:
        """What a JSON text holds."""
        try:
            return json.loads(raw)
        except (ValueError, TypeError, RecursionError) as error:
            raise self.fail(f"{problem}: {error}") from error

    def path(self, value: Value, what: str) -> str:
        """The path of a node."""
        try:
            path = node_path(self.text(value, what))
        except InvalidInputError as error:
            raise self.fail(str(error)) from error
        if path != value:
            raise self.fail(f"invalid node path {value!r}")
        return path

    def check_grid(self, shape: Sequence[int], chunks: Sequence[int]) -> None:
        """Refuse lengths of chunks that do not go with a shape."""
        if len(chunks) != len(shape):
            raise self.fail("chunk_shape does not go with shape")
        if any(chunk and -(-n // chunk) > MAX_U32 for n, chunk in zip(shape, chunks, strict=True)):
            raise self.fail(f"an axis has more than {MAX_U32} chunks")

    def variant(self, value: Value, what: str) -> tuple[str, Value]:
        """The name and the content of an enum variant; content is None where it is a name only."""
        if isinstance(value, str):
            return value, None
        if not isinstance(value, Mapping) or len(value) != 1:
            raise self.fail(f"{what} must be one of its variants")
        name, content = next(iter(value.items()))
        return self.text(name, what), content

    def edges(self, pairs: Sequence[tuple[int, int]], dimensions: Sequence[Dimension]) -> Extents:
        """Which chunks a manifest has, if that is known; else all of the grid.

        The specifications do not say what extents mean: whether an end is the last chunk or the
        one after it, nor whether chunks or elements are counted. A box that is too small would
        hide chunks, so only those count whose writer is known.
        """
        if not pairs or not self.has_true_extents:
            return tuple((0, dim.num_chunks) for dim in dimensions)
        if len(pairs) != len(dimensions):
            raise self.fail("a manifest covers another number of axes than its array has")
        if any(low > high for low, high in pairs):
            raise self.fail("a manifest covers a range that ends before it begins")
        return tuple(pairs)

    # --- ids ---

    def raw_id(self, value: Value, what: str) -> bytes:
        """The 12 or 16 bytes of an object id in any of its forms."""
        raw: bytes | None = None
        if isinstance(value, str):
            raw = from_crockford(value, ObjectId.width) or bytes_of_name(value)
            self.has_packed_ids = self.has_number_ids = False
        elif isinstance(value, list | tuple):
            raw = self._listed_id(value)
        if raw is None or len(raw) not in (ObjectId.width, WIDE):
            raise self.fail(f"{what} must be an object id")
        self.id_width = len(raw)
        return raw

    def _listed_id(self, value: Sequence[Value]) -> bytes | None:
        if len(value) == _PAIR and isinstance(value[0], bytes):
            self.has_packed_ids = True
            return value[0]
        self.has_packed_ids, self.has_number_ids = False, True
        if all(type(each) is int and 0 <= each < 256 for each in value):
            return bytes(value)
        return None

    def snapshot_id(self, value: Value, what: str = "snapshot id") -> SnapshotId:
        """The id of a snapshot; its name is remembered."""
        return self._known(SnapshotId, self.raw_id(value, what), self.snapshots, "snapshots")

    def manifest_id(self, value: Value, what: str = "manifest id") -> ManifestId:
        """The id of a manifest; its name is remembered."""
        return self._known(ManifestId, self.raw_id(value, what), self.manifests, "manifests")

    def chunk_id(self, value: Value, what: str = "chunk id") -> ChunkId:
        """The id of a chunk object; its name is remembered."""
        return self._known(ChunkId, self.raw_id(value, what), self.chunks, "chunks")

    def file_name(self, value: Value, what: str) -> str:
        """The text of an object id, by which files of attributes are known."""
        return crockford(self.raw_id(value, what))

    def _known(self, cls: type[Id], raw: bytes, names: dict[Id, str], kind: Kind) -> Id:
        id = cls(narrow_id(raw))
        if len(raw) == WIDE and (not is_widened_id(raw) or id in names):
            remember(names, LegacyGeneration.G2, kind, id, crockford(raw), self.key)
        return id

    def node_id(self, value: Value) -> NodeId:
        """The id of a node: a number, or eight bytes in one of their forms."""
        if type(value) is int and 0 <= value <= MAX_NODE_NUMBER:
            self.has_numbered_nodes = True
            return numbered_node(value)
        raw: bytes | None = None
        self.has_packed_ids = not isinstance(value, str)
        if isinstance(value, str):
            raw = from_crockford(value, NodeId.width)
        elif isinstance(value, list | tuple) and len(value) == _PAIR:
            raw = value[0] if isinstance(value[0], bytes) else None
        if raw is None or len(raw) != NodeId.width:
            raise self.fail("a node id must be a number or eight bytes")
        self.has_numbered_nodes = False
        return NodeId(raw)


def early_dialect(document: LegacyDocument) -> Dialect:
    """The dialect of a file of G2 in MessagePack."""
    if document.forms == {StructForm.LIST}:
        return Dialect.G2_MSGPACK
    if document.forms != {StructForm.MAP}:
        return Dialect.G2_MIXED
    return Dialect.G2_MAPS if document.has_number_ids else Dialect.G2_MAPS_TEXT


# --- times ---

_PATTERN: Final = re.compile(
    r"(\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d)(?:\.(\d{1,9})\d*)?([Zz]|[+-]\d\d:\d\d)", re.ASCII
)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def parse_nanos(text: str) -> Nanos | None:
    """The time that a text tells, or None where it tells none after 1970."""
    found = _PATTERN.fullmatch(text)
    if found is None:
        return None
    day, digits, zone = found.groups()
    try:
        when = datetime.fromisoformat(day.upper() + ("+00:00" if zone in "Zz" else zone))
        seconds = (when - _EPOCH) // timedelta(seconds=1)
    except (ValueError, OverflowError):
        return None
    nanos = seconds * 10**9 + int((digits or "").ljust(9, "0"))
    return nanos if 0 <= nanos <= MAX_MICROS * 1000 else None


def format_time(when: Nanos) -> str:
    """A time in UTC with six digits, or nine where there is more to tell."""
    micros, rest = divmod(when, 1000)
    text = to_datetime(micros).strftime("%Y-%m-%dT%H:%M:%S.%f")
    # strftime does not pad years on every platform.
    return f"{text.zfill(26)}{rest:03}Z" if rest else f"{text.zfill(26)}Z"
