"""Damaged or missing branch files of v1, made again from the parents that snapshot files name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from frazil.commit.base import MAIN
from frazil.formats.ref_files import branch_key
from frazil.fsck.plans import Action, Step
from frazil.fsck.ref_rules import RefFiles
from frazil.ids import SnapshotId
from frazil.maintenance.file_history import FileHistory
from frazil.model.history import SnapshotEntry


@dataclass(frozen=True, slots=True)
class Choice:
    """Where a branch must have been, or may have been."""

    tip: SnapshotId
    others: tuple[SnapshotId, ...] = ()
    """tips that are just as possible, but older"""


def choose_tip(
    entries: Mapping[SnapshotId, SnapshotEntry], tips: Iterable[SnapshotId]
) -> Choice | None:
    """The newest end of a line that no other ref needs; any end where all are needed."""
    parents = {entry.parent_id for entry in entries.values()}
    ends = {one for one in entries if one not in parents}
    claimed: set[SnapshotId] = set()
    for tip in tips:
        one: SnapshotId | None = tip
        while one is not None and one in entries and one not in claimed:
            claimed.add(one)
            one = entries[one].parent_id
    free = sorted(ends - claimed or ends, key=lambda one: entries[one].flushed_at)
    if not free:
        return None
    *others, tip = free
    return Choice(tip, tuple(others))


def rebuild_refs(
    refs: RefFiles, history: FileHistory, tips: Mapping[str, SnapshotId], *, encoded: bool
) -> tuple[list[Step], list[str]]:
    """Plan the files of branches that cannot be read, and of main if there is none.

    `tips` tells where branches were, as far as somebody knows.
    """
    steps: list[Step] = []
    losses: list[str] = []
    broken = dict(refs.damaged)
    if MAIN not in refs.branches and MAIN not in broken:
        broken[MAIN] = branch_key(MAIN, encoded=encoded)
    entries = {one: known.entry for one, known in history.known.items()}
    taken = [*refs.branches.values(), *refs.tags.values()]
    # Main first: without it there is no repository.
    for name in sorted(broken, key=lambda name: (name != MAIN, name)):
        choice = Choice(tips[name]) if name in tips else choose_tip(entries, taken)
        if choice is None:
            losses.append(f"branch {name!r}: no snapshot can be read")
            continue
        if choice.others:
            others = ", ".join(map(str, choice.others))
            losses.append(
                f"branch {name!r} is assumed to have been at {choice.tip}, the newest snapshot "
                f"that no other ref leads to; it may have been at {others}"
            )
        taken.append(choice.tip)
        steps.append(
            Step(
                Action.RESTORE_REF,
                broken[name],
                f"branch {name!r} at {choice.tip}",
                {"branch": name, "snapshot": str(choice.tip)},
            )
        )
    return steps, losses
