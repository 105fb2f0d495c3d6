"""Searches the bytes of snapshot files for paths and node ids, deleted nodes included.

A snapshot that differs little from its parent is written by appending to the bytes of the parent.
So a file may still contain nodes that were deleted or changed, although readers do not see them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Final

import numpy as np

from frazil.formats.envelope import FileKind, unseal
from frazil.ids import NodeId

LENGTH: Final = 4
"""Bytes before a text that tell how long it is; a zero follows it."""


def holds_path(blob: bytes, path: str, *, key: str) -> bool:
    """Whether a snapshot file has, somewhere, a text that is a path or one below it."""
    body = unseal(blob, FileKind.SNAPSHOT, key=key).body
    raw = path.encode()
    if path == "/":
        return False  # every file holds it, and what is below it has no common name
    for at in _places(body, raw):
        size = int.from_bytes(body[at - LENGTH : at], "little") if at >= LENGTH else 0
        end = at + size
        is_text = len(raw) <= size and end < len(body) and body[end] == 0
        if is_text and (size == len(raw) or body[at + len(raw)] == ord("/")):
            return True
    return False


def _places(body: bytes, raw: bytes) -> Iterator[int]:
    at = body.find(raw)
    while at >= 0:
        yield at
        at = body.find(raw, at + 1)


def holds_ids(blob: bytes, nodes: Collection[NodeId], *, key: str) -> bool:
    """Whether a snapshot file has, somewhere, the id of one of some nodes."""
    body = unseal(blob, FileKind.SNAPSHOT, key=key).body
    wanted = np.frombuffer(b"".join(nodes), "<u8")
    width = NodeId.width
    for shift in range(width):  # ids are aligned to nothing
        count = max(0, len(body) - shift) // width
        if np.isin(np.frombuffer(body, "<u8", count, shift if count else 0), wanted).any():
            return True
    return False
