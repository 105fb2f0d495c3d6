"""The ref files of v1: their names and their content.

Stores whose paths are percent-encoded keep ref names encoded: functions with names take `encoded`.
Callers only see the real names.
"""

from __future__ import annotations

import json
import re
import secrets
from contextlib import suppress
from enum import StrEnum
from typing import Any, Final, Literal, TypeAlias
from urllib.parse import unquote_to_bytes

from frazil.errors import ErrorKind, FormatError, InvalidInputError
from frazil.ids import SnapshotId, utf8
from frazil.model.documents import read_json

RefKind: TypeAlias = Literal["branch", "tag"]


class Fence(StrEnum):
    """The content of a fence: a file that replaces a ref, so that old clients cannot commit."""

    DELETED = "deleted"
    UPGRADED = "upgraded"
    UNDONE = "undone"


REFS: Final = "refs/"
FILE: Final = "ref.json"
TOMBSTONE: Final = "ref.json.deleted"
MAX_SIZE: Final = 64 * 1024
"""A ref file has 35 to 99 bytes; much more is something else."""

NOWHERE: Final = SnapshotId(bytes(SnapshotId.width))
_FENCED: Final = f'{{"snapshot":"{NOWHERE}","'.encode()
_UNSAFE: Final = re.compile(rb"[\x00-\x1f\x7f-\xff\"#%*/<>?\[\\\]^`{|}~]")


def encode_ref(snapshot_id: SnapshotId) -> bytes:
    """The content of a ref file."""
    return f'{{"snapshot":"{snapshot_id}"}}'.encode()


def encode_moved_ref(snapshot_id: SnapshotId) -> bytes:
    """The content of a ref file that differs from all others, also of the same snapshot.

    Stores take the version of an object from its bytes. If a ref could be moved away and back to
    the same bytes, a request that was made before, and is repeated or late, would still find the
    version that it expects. Spaces and tabs behind the document are no part of it.
    """
    mark = f"{secrets.randbits(64):064b}".replace("0", " ").replace("1", "\t")
    return encode_ref(snapshot_id) + mark.encode()


def read_ref(blob: bytes, *, key: str) -> dict[str, Any]:
    """The content of a ref file as JSON, which names a snapshot in one way or the other."""
    if len(blob) > MAX_SIZE:
        raise FormatError("damaged ref: file is too large", key=key, size=len(blob))
    try:
        document = read_json(blob)
    except ValueError as error:
        raise _damaged(str(error), key) from error
    if not isinstance(document, dict) or "snapshot" not in document:
        raise _damaged("no snapshot is named", key)
    return document


def decode_ref(blob: bytes, *, key: str) -> SnapshotId:
    """Read a ref file.

    Raises:
        FormatError: it does not name a snapshot.
    """
    text = read_ref(blob, key=key)["snapshot"]
    if not isinstance(text, str):
        raise _damaged("no snapshot is named", key)
    try:
        return SnapshotId.parse(text)
    except InvalidInputError as error:
        raise _damaged(str(error), key) from error


def _damaged(problem: str, key: str) -> FormatError:
    return FormatError(f"damaged ref: {problem}", kind=ErrorKind.DESERIALIZATION, key=key)


def encode_fence(why: Fence, was: SnapshotId | None) -> bytes:
    """The content of a file that is no ref any more; `was` is what it named.

    Other clients read the id of a snapshot that does not exist, so that none can commit upon it.
    """
    document = {"snapshot": str(NOWHERE), why.value: None if was is None else str(was)}
    return json.dumps(document, separators=(",", ":")).encode()


def decode_fence(blob: bytes) -> tuple[Fence, SnapshotId | None] | None:
    """The content of a fence, or None if the file is no fence."""
    if not blob.startswith(_FENCED) or len(blob) > MAX_SIZE:
        return None
    # A damaged one is no fence. It is no ref either: reading it as one raises an error.
    with suppress(ValueError, InvalidInputError):
        document = read_json(blob)
        for why in Fence:
            if why.value in document:
                was = document[why.value]
                return why, None if was is None else SnapshotId.parse(str(was))
    return None


def branch_key(name: str, *, encoded: bool) -> str:
    """The key of a branch.

    Raises:
        InvalidInputError: a ref cannot have this name.
    """
    return f"{_folder('branch', name, encoded=encoded)}/{FILE}"


def tag_key(name: str, *, encoded: bool) -> str:
    """The key of a tag, which stays when the tag is deleted."""
    return f"{_folder('tag', name, encoded=encoded)}/{FILE}"


def tombstone_key(name: str, *, encoded: bool) -> str:
    """The key whose presence says that a tag is deleted."""
    return f"{_folder('tag', name, encoded=encoded)}/{TOMBSTONE}"


def parse_ref_key(key: str, *, encoded: bool) -> tuple[RefKind, str]:
    """The ref that a key below `refs/` belongs to."""
    folder = key.removeprefix(REFS).partition("/")[0]
    name = decode_segment(folder) if encoded else folder
    if name.startswith("branch."):
        return "branch", name.removeprefix("branch.")
    if name.startswith("tag."):
        return "tag", name.removeprefix("tag.")
    raise InvalidInputError(
        f"{folder!r} is neither a branch nor a tag", kind=ErrorKind.INVALID_REF_TYPE, key=key
    )


def encode_segment(name: str) -> str:
    """Percent-encode one path segment as object stores do."""
    if name in (".", ".."):
        return name.replace(".", "%2E")
    return _UNSAFE.sub(_escape, utf8(name)).decode("ascii")


def decode_segment(segment: str) -> str:
    """Undo `encode_segment`; other text is returned unchanged."""
    try:
        return unquote_to_bytes(segment).decode()
    except UnicodeDecodeError:
        return segment


def _escape(found: re.Match[bytes]) -> bytes:
    return b"%%%02X" % found[0][0]


def _folder(kind: RefKind, name: str, *, encoded: bool) -> str:
    if "/" in name:
        raise InvalidInputError(
            f"a {kind} cannot be named {name!r}: '/' is not allowed",
            kind=ErrorKind.INVALID_REF_NAME,
        )
    folder = f"{kind}.{name}"
    return REFS + (encode_segment(folder) if encoded else folder)
