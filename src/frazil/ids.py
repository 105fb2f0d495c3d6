"""Object and node ids, their Crockford text, node paths, and the name of the main branch."""

from __future__ import annotations

import secrets
from collections.abc import Collection, Iterator
from functools import lru_cache
from typing import ClassVar, Final, Self

import numpy as np
import numpy.typing as npt

from frazil.errors import ErrorKind, InvalidInputError

MAIN: Final = "main"
"""The branch that every repository has."""
ALPHABET: Final = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_DIGIT: Final = {c: i for i, c in enumerate(ALPHABET)} | {
    c.lower(): i for i, c in enumerate(ALPHABET)
}
_DIGIT.update({"I": 1, "i": 1, "L": 1, "l": 1, "O": 0, "o": 0})
_PAIRS: Final = [a + b for a in ALPHABET for b in ALPHABET]
_ALPHABET_BYTES: Final = np.frombuffer(ALPHABET.encode(), np.uint8)


@lru_cache(maxsize=256)  # a commit spells the ids of its few files for key after key
def crockford(raw: bytes) -> str:
    """Spell bytes in Crockford base32, most significant bit first, zero bits appended."""
    bits = len(raw) * 8
    digits = -(-bits // 5)
    pairs = -(-digits // 2)
    value = int.from_bytes(raw, "big") << (pairs * 10 - bits)
    text = "".join([_PAIRS[value >> shift & 1023] for shift in range(pairs * 10 - 10, -10, -10)])
    return text[:digits]


def crockford_many(raw: npt.NDArray[np.uint8]) -> list[str]:
    """Spell many 12-byte ids at once; `raw` has shape (n, 12)."""
    n = len(raw)
    if n == 0:
        return []
    padded = np.zeros((n, 15), np.uint8)
    padded[:, :12] = raw
    group = padded.reshape(n, 3, 5).astype(np.uint64)
    word = np.zeros((n, 3), np.uint64)
    for byte in range(5):
        word = (word << np.uint64(8)) | group[:, :, byte]
    shifts = np.arange(35, -1, -5).astype(np.uint64)
    digits = ((word[:, :, None] >> shifts) & np.uint64(31)).astype(np.uint8)
    text = np.ascontiguousarray(_ALPHABET_BYTES[digits.reshape(n, 24)[:, :20]])
    return [name.decode() for name in text.view("S20").ravel().tolist()]


def texts_of(ids: Collection[bytes]) -> list[str]:
    """The same for 12-byte ids that are not in one array."""
    return crockford_many(np.frombuffer(b"".join(ids), np.uint8).reshape(-1, 12))


class ObjectId(bytes):
    """Random bytes of a fixed width; `str()` gives the Crockford text used in keys."""

    # Without a dictionary they are no concern of the garbage collector: histories have many.
    __slots__ = ()
    width: ClassVar[int] = 12
    bad_text: ClassVar[ErrorKind] = ErrorKind.INVALID_SNAPSHOT_ID

    @classmethod
    def random(cls) -> Self:
        """Make a fresh id."""
        return cls(secrets.token_bytes(cls.width))

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read the text form, leniently as the format allows: any case, I and L for 1, O for 0."""
        bits = cls.width * 8
        digits = -(-bits // 5)
        if len(text) != digits or any(c not in _DIGIT for c in text):
            raise InvalidInputError(
                f"{text!r} is not the text of a {cls.width}-byte id", kind=cls.bad_text
            )
        value = 0
        for c in text:
            value = value << 5 | _DIGIT[c]
        return cls((value >> (digits * 5 - bits)).to_bytes(cls.width, "big"))

    def __str__(self) -> str:
        return crockford(self)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self})"


class SnapshotId(ObjectId):
    """Names a snapshot and its transaction log."""

    __slots__ = ()


class ManifestId(ObjectId):
    """Names a manifest."""

    __slots__ = ()


class ChunkId(ObjectId):
    """Names a chunk object, which may hold one chunk or many."""

    __slots__ = ()


class NodeId(ObjectId):
    """Names a group or array for its whole life, through updates and moves."""

    __slots__ = ()
    width = 8


INITIAL_SNAPSHOT_ID: Final = SnapshotId.parse("1CECHNKREP0F1RSTCMT0")
_NO_NAMES: Final = frozenset(("", ".", ".."))


def node_path(text: str) -> str:
    """Check an absolute node path and return it without a trailing slash."""
    if text == "/":
        return text
    path = text.removesuffix("/")
    if path[:1] != "/" or not _NO_NAMES.isdisjoint(path[1:].split("/")):
        raise InvalidInputError(f"invalid node path {text!r}", kind=ErrorKind.INVALID_PATH)
    return path


def utf8(text: str) -> bytes:
    """A text as files hold it.

    Raises:
        InvalidInputError: it holds half of a character, a lone surrogate, as JSON may spell it.
    """
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise InvalidInputError(
            f"a text holds half of a character, a lone surrogate: {text!r:.80}"
        ) from error


def require_usable_name(path: str) -> None:
    """Refuse to make a node at a path that some reader or storage could not reach.

    Raises:
        InvalidInputError: a name is `zarr.json` (the last part of metadata keys), or holds a NUL
            (no file system takes it), a backslash (zarr-python takes it for a slash) or a lone
            surrogate (not valid UTF-8).
    """
    problem = None
    if "zarr.json" in path.split("/"):
        problem = "a node cannot be called 'zarr.json'"
    elif "\0" in path:
        problem = "a name cannot hold the character NUL"
    elif "\\" in path:
        problem = "a name cannot hold a backslash, which zarr takes for a slash"
    elif not path.isascii():
        try:
            path.encode()
        except UnicodeEncodeError:
            problem = "a name holds half of a character, a lone surrogate"
    if problem is not None:
        raise InvalidInputError(f"invalid node path {path!r}: {problem}", ErrorKind.INVALID_PATH)


def parent_path(path: str) -> str:
    """Return the path of the group that would hold this node."""
    return path.rpartition("/")[0] or "/"


def paths_above(path: str) -> Iterator[str]:
    """The paths of all groups around a node, the nearest first and the root last."""
    while path != "/":
        path = parent_path(path)
        yield path


def child_path(parent: str, name: str) -> str:
    """Join a node path and a name."""
    return f"/{name}" if parent == "/" else f"{parent}/{name}"


def is_below(path: str, ancestor: str) -> bool:
    """Tell whether `path` lies strictly below `ancestor`."""
    return path != ancestor and (ancestor == "/" or path.startswith(ancestor + "/"))
