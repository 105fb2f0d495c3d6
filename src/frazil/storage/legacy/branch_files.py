"""The numbered files of branches before spec 1, listed or looked for one after another."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial

from frazil.errors import StorageError
from frazil.formats.legacy.dialects import LegacyGeneration
from frazil.formats.legacy.names import sequence_name
from frazil.formats.legacy.refs import LAYOUTS, RefLayout, RefPrefix, parse_ref_key
from frazil.ids import MAIN
from frazil.storage.base import Storage


@dataclass(frozen=True, slots=True)
class BranchFile:
    """One file of a branch."""

    number: int
    key: str


def steps_of(
    storage: Storage, layout: RefLayout, branch: str, since: int | None = None
) -> Iterator[BranchFile]:
    """The files of a branch, newest first; other files beside them are passed over.

    `since` is a number that the branch is known to have had: if it still has it, no older ones
    are listed. Numbers have no gaps, so a store that cannot list is searched for the last one.
    """
    try:
        found = _newest_first(_listed(storage, layout, branch, since))
    except StorageError:
        if storage.head(layout.branch_key(branch, 0)) is None:
            raise
        return _searched(storage, layout, branch)
    if not found and since is not None:
        return steps_of(storage, layout, branch)
    return iter(found)


def _newest_first(steps: Iterable[BranchFile]) -> tuple[BranchFile, ...]:
    # Folders that have seen two lengths of names do not sort by number.
    return tuple(sorted(steps, key=lambda step: (-step.number, len(step.key))))


def _listed(
    storage: Storage, layout: RefLayout, branch: str, since: int | None
) -> Iterator[BranchFile]:
    folder = layout.branch_folder(branch)
    items = (
        storage.list(folder)
        if since is None or layout.prefix is RefPrefix.COLON
        else storage.list_between(folder, "", sequence_name(since) + "~")
    )
    for item in items:
        key = parse_ref_key(layout.generation, item.key, encoded=layout.encoded)
        if key is not None and key.kind == "branch" and key.number is not None:
            yield BranchFile(key.number, item.key)


def _searched(storage: Storage, layout: RefLayout, branch: str) -> Iterator[BranchFile]:
    """The files of a branch that has number zero, newest first, by asking for single ones."""

    def is_there(number: int) -> bool:
        return storage.head(layout.branch_key(branch, number)) is not None

    low, high = 0, 1
    while is_there(high):
        low, high = high, 2 * high + 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if is_there(middle) else (low, middle)
    return (BranchFile(at, layout.branch_key(branch, at)) for at in range(low, -1, -1))


@dataclass(frozen=True, slots=True)
class MainBranch:
    """The main branch that a place has in one layout, with its files, newest first."""

    layout: RefLayout
    steps: tuple[BranchFile, ...]

    @property
    def has_first(self) -> bool:
        """Whether the file with number zero is there."""
        first = self.layout.branch_key(MAIN, 0)
        return any(step.key == first for step in self.steps)


def find_main(storage: Storage) -> list[MainBranch]:
    """The main branches of a place, by layout; each folder is listed once.

    A branch begins with number zero. Only where no layout has that, others count too:
    files that are no longer needed may have been deleted.
    """
    layouts = [replace(each, encoded=storage.percent_encodes_names) for each in LAYOUTS]
    folders = {layout.branch_folder(MAIN): layout for layout in layouts}
    answers = storage.each(partial(_try_list, storage), [*folders.values()])
    listed = dict(zip(folders, answers, strict=True))
    found = []
    for layout in layouts:
        steps = listed[layout.branch_folder(MAIN)]
        if steps is None:
            is_there = storage.head(layout.branch_key(MAIN, 0)) is not None
            steps = tuple(_searched(storage, layout, MAIN)) if is_there else ()
        found.append(MainBranch(layout, steps))
    return [each for each in found if each.has_first] or [
        each for each in found if _is_begun(storage, each)
    ]


def _try_list(storage: Storage, layout: RefLayout) -> tuple[BranchFile, ...] | None:
    """The files of the main branch; None where the store cannot list."""
    try:
        return _newest_first(_listed(storage, layout, MAIN, None))
    except StorageError:
        return None


def _is_begun(storage: Storage, branch: MainBranch) -> bool:
    """Whether there is a file of the branch that is no fence: those stay after upgrades."""
    length = len(branch.layout.branch_key(MAIN, 0))
    blobs = (storage.get(step.key) for step in branch.steps if len(step.key) == length)
    return any(blob is not None and b'"moved_to"' not in blob for blob in blobs)


def layout_at(storage: Storage, age: LegacyGeneration) -> RefLayout:
    """The ref layout of a repository of this generation; the one of new repositories if empty."""
    found = [each.layout for each in find_main(storage) if each.layout.generation is age]
    first = next(layout for layout in LAYOUTS if layout.generation is age)
    return found[0] if found else replace(first, encoded=storage.percent_encodes_names)
