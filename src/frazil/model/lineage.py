"""What a commit says of its origin in its metadata, and reading it back; pure.

Snapshots have one parent in the format. A merge commit names the other parent in its metadata,
so that later merges know it; a squashed commit names the commits that it replaces.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from frazil.errors import InvalidInputError
from frazil.ids import SnapshotId
from frazil.model.plain import JSON, Metadata

MERGE_PARENTS: Final = "frazil.merge_parents"
"""both parents of a merge commit: the tip of the branch, and the snapshot merged into it"""
MERGED_COMMITS: Final = "frazil.merged_commits"
"""the newest snapshots that a commit stands for, for when they are collected as garbage"""
CHERRY_PICKED_FROM: Final = "frazil.cherry_picked_from"
REVERTS: Final = "frazil.reverts"
SQUASHED: Final = "frazil.squashed"
"""newest and number of the snapshots that were made one, and what they had merged"""
REWRITTEN_FROM: Final = "frazil.rewritten_from"
"""the snapshot that this one repeats upon another parent"""
NAMED_COMMITS: Final = 1000
"""Merged snapshots that a merge commit names at most. Others are unknown once they have expired."""


def merge_metadata(
    ours: SnapshotId, theirs: SnapshotId, merged: Sequence[SnapshotId]
) -> dict[str, JSON]:
    """The metadata of a merge commit; `merged` is newest first."""
    named = [str(one) for one in merged[:NAMED_COMMITS]]
    return {MERGE_PARENTS: [str(ours), str(theirs)], MERGED_COMMITS: named}


def squash_metadata(
    squashed: Sequence[SnapshotId], others: Iterable[SnapshotId], merged: Iterable[SnapshotId]
) -> dict[str, JSON]:
    """The metadata of a commit that stands for some, newest first, which had merged others.

    `merged` are all that came with those.
    """
    named = list(dict.fromkeys((*squashed, *merged)))
    return {
        SQUASHED: {
            "newest": str(squashed[0]),
            "commits": len(squashed),
            "merged": [str(one) for one in others],
        },
        MERGED_COMMITS: [str(one) for one in named[:NAMED_COMMITS]],
    }


def other_parents(metadata: Metadata) -> tuple[SnapshotId, ...]:
    """Snapshots whose changes a commit contains, besides those of its parent."""
    found = [*_texts(metadata.get(MERGE_PARENTS))[1:], *_texts([metadata.get(REWRITTEN_FROM)])]
    squashed = metadata.get(SQUASHED)
    if isinstance(squashed, Mapping):
        found += [*_texts([squashed.get("newest")]), *_texts(squashed.get("merged"))]
    return _ids(found)


def merged_commits(metadata: Metadata) -> tuple[SnapshotId, ...]:
    """Snapshots that a merge brought or that were squashed, newest first."""
    return _ids(_texts(metadata.get(MERGED_COMMITS)))


def _texts(value: JSON) -> list[str]:
    return [each for each in value if isinstance(each, str)] if isinstance(value, list) else []


def _ids(texts: Iterable[str]) -> tuple[SnapshotId, ...]:
    """The texts that are ids; metadata may hold anything."""
    found: list[SnapshotId] = []
    for text in texts:
        try:
            found.append(SnapshotId.parse(text))
        except InvalidInputError:
            continue
    return tuple(dict.fromkeys(found))
