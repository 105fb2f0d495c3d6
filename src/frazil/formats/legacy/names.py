"""Ids of other widths, and the names files have: rules that turn one into the other.

The model knows ids of 12 bytes. A stored id of 16 bytes is known by its first 12, and a name that
is no id at all by a digest. An id made by us is stored in 16 bytes by `widen_id`, so that its name
can be computed whenever it is needed.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
import zlib
from collections.abc import Mapping
from typing import Final, Literal, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from frazil.errors import ErrorKind, FormatError
from frazil.formats.legacy.dialects import LegacyGeneration
from frazil.ids import ALPHABET, ChunkId, NodeId, ObjectId, crockford, crockford_many

Kind: TypeAlias = Literal["snapshots", "manifests", "attributes", "chunks", "transactions"]
Id = TypeVar("Id", bound=ObjectId)

WIDE: Final = 16
"""Bytes of an id in G2."""
_WIDE_DIGITS: Final = 26
MAX_NODE_NUMBER: Final = 2**32 - 1
MAX_SEQUENCE: Final = 2**40 - 1
SEQUENCE_LENGTH: Final = 8
OLD_SEQUENCE_LENGTH: Final = 13
_SEQUENCE_WIDTHS: Final = {SEQUENCE_LENGTH: 5, OLD_SEQUENCE_LENGTH: 8}
"""Bytes of a number by the digits of its text."""
EXTENSIONS: Final = (".parquet", ".msgpack", ".json")
FOLDERS: Final[Mapping[LegacyGeneration, Mapping[Kind, str]]] = {
    LegacyGeneration.G1: {"snapshots": "s/", "manifests": "i/", "attributes": "a/", "chunks": "c/"},
    LegacyGeneration.G2: {"snapshots": "s/", "manifests": "m/", "attributes": "a/", "chunks": "c/"},
    LegacyGeneration.G3: {
        "snapshots": "snapshots/",
        "manifests": "manifests/",
        "attributes": "attributes/",
        "chunks": "chunks/",
        "transactions": "transactions/",
    },
}
METADATA_FOLDERS: Final = ("a/", "i/", "m/", "s/")
"""Folders of metadata that spec 1 has no use for; those of G3 have its names."""

_CROCKFORD: Final = re.compile(f"[{ALPHABET}]+")
_TO_BASE_32: Final = str.maketrans(ALPHABET, "0123456789ABCDEFGHIJKLMNOPQRSTUV")
"""From Crockford's digits to those Python reads fast."""
_HEX: Final = re.compile(r"[0-9a-fA-F]{32}")
_UUID: Final = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")


# --- ids ---


def from_crockford(text: str, width: int) -> bytes | None:
    """The bytes that `text` is the one canonical spelling of, or None."""
    digits = -(-width * 8 // 5)
    if len(text) != digits or _CROCKFORD.fullmatch(text) is None:
        return None
    value = int(text.translate(_TO_BASE_32), 32)
    unused = digits * 5 - width * 8
    if value & ((1 << unused) - 1):
        return None
    return (value >> unused).to_bytes(width, "big")


def narrow_id(raw: bytes) -> bytes:
    """The 12 bytes by which the model knows a stored id of 12 or 16 bytes."""
    return raw[: ObjectId.width]


def widen_id(raw: bytes) -> bytes:
    """The 16 bytes in which an id of ours is stored."""
    return raw + zlib.crc32(raw).to_bytes(4, "big")


def is_widened_id(raw: bytes) -> bool:
    """Whether 16 bytes are an id that `widen_id` made."""
    return raw[ObjectId.width :] == zlib.crc32(raw[: ObjectId.width]).to_bytes(4, "big")


def bytes_of_name(name: str) -> bytes | None:
    """The 16 bytes that a name spells in Crockford, hexadecimal or UUID form, or None."""
    if len(name) == _WIDE_DIGITS:
        return from_crockford(name, WIDE)
    if _HEX.fullmatch(name) or _UUID.fullmatch(name):
        return bytes.fromhex(name.replace("-", ""))
    return None


def id_of_name(cls: type[Id], name: str) -> Id:
    """The id by which the model knows a file; its extension does not count."""
    stem = without_extension(name)
    raw = bytes_of_name(stem) or from_base64_name(stem)
    if raw is None:
        raw = hashlib.sha256(stem.encode(errors="surrogatepass")).digest()
    return cls(raw[: cls.width])


def without_extension(name: str) -> str:
    """A file name without the extension that tells its encoding."""
    for extension in EXTENSIONS:
        if name.endswith(extension):
            return name.removesuffix(extension)
    return name


def plain_name(generation: LegacyGeneration, kind: Kind, id: ObjectId) -> str:
    """The name under which we store an id, without folder; G2 adds the extension it uses."""
    if generation is LegacyGeneration.G3:
        return str(id)
    text = crockford(widen_id(id))
    is_parquet = generation is LegacyGeneration.G1 and kind in ("manifests", "attributes")
    return f"{text}.parquet" if is_parquet else text


def plain_chunk_names(generation: LegacyGeneration, raw: npt.NDArray[np.uint8]) -> list[str]:
    """The plain names of many chunks at once; `raw` has shape (n, 12)."""
    if generation is LegacyGeneration.G3:
        return crockford_many(raw)
    data, width = raw.tobytes(), ObjectId.width
    sums = [zlib.crc32(data[at : at + width]) for at in range(0, len(data), width)]
    # 16 bytes are 26 digits: those of the first 10 bytes, and those of the last 6 with 2 bits more.
    wide = np.empty((len(raw), WIDE), np.uint8)
    wide[:, :width] = raw
    wide[:, width:] = np.array(sums, ">u4").view(np.uint8).reshape(-1, 4)
    head = np.zeros((len(raw), width), np.uint8)
    head[:, :10] = wide[:, :10]
    tail = np.zeros((len(raw), width), np.uint8)
    tail[:, :6] = wide[:, 10:]
    pairs = zip(crockford_many(head), crockford_many(tail), strict=True)
    return [first[:16] + last[:10] for first, last in pairs]


def stored_names(
    generation: LegacyGeneration, raw: npt.NDArray[np.uint8], names: Mapping[ChunkId, str]
) -> list[str]:
    """The names of many chunks, remembered or computed; `raw` has shape (n, 12)."""
    if not names:
        return plain_chunk_names(generation, raw)
    data, width = raw.tobytes(), ObjectId.width
    ids = [ChunkId(data[at : at + width]) for at in range(0, len(data), width)]
    return [stored_name(generation, "chunks", id, names) for id in ids]


def stored_name(
    generation: LegacyGeneration, kind: Kind, id: Id, names: Mapping[Id, str] | None = None
) -> str:
    """The name of an id, remembered or computed."""
    found = names.get(id) if names else None
    return plain_name(generation, kind, id) if found is None else found


def remember(
    names: dict[Id, str], generation: LegacyGeneration, kind: Kind, id: Id, name: str, key: str
) -> None:
    """Note the name of an id unless it is the plain one.

    Raises:
        FormatError: the id has another name already, so that two files cannot be told apart.
    """
    if name == plain_name(generation, kind, id):
        if id not in names:
            return
    elif names.setdefault(id, name) == name:
        return
    raise FormatError("two files whose names lead to one id", key=key, names=(names[id], name))


def base64_name(raw: bytes) -> str:
    """The file name of an id as the library wrote it until 17 September 2024."""
    return base64.urlsafe_b64encode(raw).decode("ascii")


def from_base64_name(name: str) -> bytes | None:
    """The 16 bytes of a name as `base64_name` makes it, or None."""
    stem = without_extension(name)
    if len(stem) != 24 or not stem.isascii():
        return None
    try:
        raw = base64.b64decode(stem, altchars=b"-_", validate=True)
    except binascii.Error:
        return None
    return raw if len(raw) == WIDE else None


# --- nodes with numbers ---


def numbered_node(number: int) -> NodeId:
    """The node id that stands for a number."""
    return NodeId(number.to_bytes(NodeId.width, "big"))


def node_number(node_id: NodeId) -> int:
    """The number that a node id stands for.

    Raises:
        FormatError: it stands for none, because it is random bytes.
    """
    number = int.from_bytes(node_id, "big")
    if number > MAX_NODE_NUMBER:
        raise FormatError(
            "a node has no number, and this generation knows nodes by numbers",
            kind=ErrorKind.SERIALIZATION,
            node=node_id,
        )
    return number


# --- sequence numbers ---


def sequence_name(number: int, *, length: int = SEQUENCE_LENGTH) -> str:
    """The file name, without extension, of one step of a branch; the newest sorts first."""
    if not 0 <= number <= MAX_SEQUENCE:
        raise FormatError(
            "a branch has no more room for commits", kind=ErrorKind.SERIALIZATION, number=number
        )
    width = _SEQUENCE_WIDTHS[length]
    return crockford((256**width - 1 - number).to_bytes(width, "big"))


def parse_sequence(stem: str) -> int | None:
    """The number of a step of a branch, or None where a file is not one."""
    width = _SEQUENCE_WIDTHS.get(len(stem), 0)
    raw = from_crockford(stem, width) if width else None
    return None if raw is None else 256**width - 1 - int.from_bytes(raw, "big")
