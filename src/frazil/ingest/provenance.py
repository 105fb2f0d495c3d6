"""Which files a repository holds already, as marks in the metadata of its commits.

A commit keeps twelve bytes for each file: eight of a hash of its URL, four of its state. That
is short enough for ten thousand files, and long enough that two files hardly share a mark.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from frazil.ingest.records import Identity

KEY: Final = "frazil.ingest"
_NAME_BYTES: Final = 8
_STATE_BYTES: Final = 4
_MARK: Final = _NAME_BYTES + _STATE_BYTES


def name_mark(url: str) -> bytes:
    """The mark of a file's name."""
    return hashlib.blake2b(url.encode(), digest_size=_NAME_BYTES).digest()


def state_mark(identity: Identity) -> bytes:
    """The mark of a file's state."""
    text = f"{identity.size} {identity.etag or identity.stamp or identity.modified}"
    return hashlib.blake2b(text.encode(), digest_size=_STATE_BYTES).digest()


def as_metadata(
    files: Sequence[tuple[str, Identity]], group: str, **facts: object
) -> dict[str, Any]:
    """What a commit keeps of the files that went into it."""
    marks = b"".join(name_mark(url) + state_mark(identity) for url, identity in files)
    return {
        KEY: {
            "group": group,
            "files": len(files),
            "marks": base64.b64encode(marks).decode(),
            **facts,
        }
    }


def known_files(commits: Iterable[Mapping[str, Any]], group: str) -> dict[bytes, bytes]:
    """States of the files that commits with this metadata took in, by the marks of their names.

    The newest commit comes first. Metadata that are not ours are left alone.
    """
    found: dict[bytes, bytes] = {}
    for metadata in commits:
        kept = metadata.get(KEY)
        if not isinstance(kept, Mapping) or kept.get("group") != group:
            continue
        try:
            marks = base64.b64decode(str(kept.get("marks", "")), validate=True)
        except binascii.Error:
            continue
        for start in range(0, len(marks) - _MARK + 1, _MARK):
            name, state = marks[start : start + _NAME_BYTES], marks[start + _NAME_BYTES :]
            found.setdefault(name, state[:_STATE_BYTES])
    return found
