"""Which files a repository holds already, as marks in the metadata of its commits.

A commit keeps twelve bytes for each file: eight of a hash of its URL, four of its state. That
is short enough for ten thousand files, and long enough that two files hardly share a mark.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from frazil.ingestion.records import Identity
from frazil.model.marks import GONE, INGEST, NAME_BYTES, STATE_BYTES, marks_of, packed


def name_mark(url: str) -> bytes:
    """The mark of a file's name."""
    return hashlib.blake2b(url.encode(), digest_size=NAME_BYTES).digest()


def state_mark(identity: Identity) -> bytes:
    """The mark of a file's state."""
    text = f"{identity.size} {identity.etag or identity.stamp or identity.modified}"
    return hashlib.blake2b(text.encode(), digest_size=STATE_BYTES).digest()


def as_metadata(
    files: Sequence[tuple[str, Identity]], group: str, **facts: object
) -> dict[str, Any]:
    """What a commit keeps of the files that went into it."""
    marks = {name_mark(url): state_mark(identity) for url, identity in files}
    return {INGEST: {"group": group, "files": len(files), "marks": packed(marks), **facts}}


def known_files(commits: Iterable[Mapping[str, Any]], group: str) -> dict[bytes, bytes]:
    """States of the files that commits with this metadata took in, by the marks of their names.

    The newest commit comes first. Metadata that are not ours are left alone.
    """
    found: dict[bytes, bytes] = {}
    for metadata in commits:
        for name, state in marks_of(metadata).files.get(group, {}).items():
            found.setdefault(name, state)
    return {name: state for name, state in found.items() if state != GONE}
