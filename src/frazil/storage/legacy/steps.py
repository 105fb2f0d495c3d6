"""The numbered files of a branch of G2 or G3, found by listing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from frazil.errors import StorageError
from frazil.formats.legacy.names import sequence_name
from frazil.formats.legacy.records import LegacyGeneration
from frazil.formats.legacy.ref_names import (
    LAYOUTS,
    MAIN,
    RefLayout,
    RefPrefix,
    parse_ref_key,
)
from frazil.storage.base import Storage


@dataclass(frozen=True, slots=True)
class Step:
    """One file of a branch."""

    number: int
    key: str


def steps_of(
    storage: Storage, layout: RefLayout, branch: str, since: int | None = None
) -> Iterator[Step]:
    """The files of a branch, newest first; other files beside them are passed over.

    `since` is a number that the branch is known to have had: if it still has it, no older ones
    are listed. Numbers have no gaps, so a store that cannot list is searched for the last one.
    """
    try:
        found = [*_listed(storage, layout, branch, since)]
    except StorageError:
        if storage.head(layout.branch_key(branch, 0)) is None:
            raise
        last = _last(storage, layout, branch)
        return (Step(at, layout.branch_key(branch, at)) for at in range(last, -1, -1))
    if not found and since is not None:
        return steps_of(storage, layout, branch)
    # Folders that have seen two lengths of names do not sort by number.
    return iter(sorted(found, key=lambda step: (-step.number, len(step.key))))


def _listed(storage: Storage, layout: RefLayout, branch: str, since: int | None) -> Iterator[Step]:
    folder = layout.branch_folder(branch)
    items = (
        storage.list(folder)
        if since is None or layout.prefix is RefPrefix.COLON
        else storage.list_between(folder, "", sequence_name(since) + "~")
    )
    for item in items:
        key = parse_ref_key(layout.generation, item.key, encoded=layout.encoded)
        if key is not None and key.kind == "branch" and key.number is not None:
            yield Step(key.number, item.key)


def _last(storage: Storage, layout: RefLayout, branch: str) -> int:
    """The highest number of a branch that has number zero, by asking for single files."""

    def is_there(number: int) -> bool:
        return storage.head(layout.branch_key(branch, number)) is not None

    low, high = 0, 1
    while is_there(high):
        low, high = high, 2 * high + 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if is_there(middle) else (low, middle)
    return low


def find_layouts(storage: Storage) -> list[RefLayout]:
    """The layouts in which a place has a main branch.

    That begins with number zero, so one request each tells. Where there is none, folders are
    listed: somebody may have deleted files that are no longer needed.
    """
    layouts = [replace(each, encoded=storage.percent_encodes_names) for each in LAYOUTS]
    heads = storage.each(storage.head, [layout.branch_key(MAIN, 0) for layout in layouts])
    found = [layout for layout, head in zip(layouts, heads, strict=True) if head is not None]
    return found or [layout for layout in layouts if _is_begun(storage, layout)]


def _is_begun(storage: Storage, layout: RefLayout) -> bool:
    """Whether there is a file of the main branch that is no fence: those stay after upgrades."""
    try:
        steps = [*_listed(storage, layout, MAIN, None)]
    except StorageError:
        return False  # whatever cannot list has been asked for the first file
    length = len(layout.branch_key(MAIN, 0))
    blobs = (storage.get(step.key) for step in steps if len(step.key) == length)
    return any(blob is not None and b'"moved_to"' not in blob for blob in blobs)


def layout_at(storage: Storage, age: LegacyGeneration) -> RefLayout:
    """The layout that a repository of this age has; that of new ones where there is none yet."""
    found = [layout for layout in find_layouts(storage) if layout.generation is age]
    first = next(layout for layout in LAYOUTS if layout.generation is age)
    return found[0] if found else replace(first, encoded=storage.percent_encodes_names)
