"""Snapshots whose files are gone or damaged, taken out of the history."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from frazil.fsck.plans import Action, Step
from frazil.fsck.rebuilding_refs import choose_tip
from frazil.fsck.state import State
from frazil.ids import SnapshotId
from frazil.maintenance.lineage import cut, rows_of
from frazil.model.history import SnapshotTable


def plan_history(
    state: State, tips: Mapping[str, SnapshotId]
) -> tuple[list[Step], list[str], State]:
    """Plan where branches go back to, and what is cut out; return the state after that.

    `tips` tells where a branch should go, if somebody knows better.
    """
    bad = _unreadable(state)
    if not bad:
        return [], [], state
    steps: list[Step] = []
    losses: list[str] = []
    branches = dict(state.branches)
    for name, tip in sorted(state.branches.items()):
        if tip not in bad:
            continue
        found = tips.get(name) or _fall_back(state, name, tip, losses)
        if found is None:
            losses.append(f"branch {name!r}: no snapshot of its history can be read")
            continue
        branches[name] = found
        losses.append(f"the commit {tip} of branch {name!r} is lost with its snapshot file")
        steps.append(_reset_step(name, tip, found))
    losses += [
        f"tag {name!r}: its snapshot {target} cannot be read"
        for name, target in sorted(state.tags.items())
        if target in bad
    ]
    after = replace(state, branches=branches)
    if state.info is None:
        return steps, losses, after
    gone = bad - {*branches.values(), *state.tags.values()}
    if not gone:
        return steps, losses, after
    steps.append(_cut_step(gone))
    table = without(state.info.snapshots, gone)
    entries = {entry.id: entry for entry in table.entries()}
    info = replace(state.info, snapshots=table)
    return steps, losses, replace(after, entries=entries, info=info)


def _reset_step(branch: str, tip: SnapshotId, found: SnapshotId) -> Step:
    return Step(
        Action.RESET_BRANCH,
        branch,
        f"from {tip} back to {found}",
        {"branch": branch, "from": str(tip), "to": str(found)},
    )


def _cut_step(gone: Iterable[SnapshotId]) -> Step:
    names = sorted(map(str, gone))
    told = f"{', '.join(names)} out of the history"
    return Step(Action.CUT_SNAPSHOTS, "repo", told, {"snapshots": names})


def without(table: SnapshotTable, gone: Iterable[SnapshotId]) -> SnapshotTable:
    """The history without some snapshots; those that followed them take over their logs."""
    return cut(table, rows_of(table, gone), to_root=False)


def _unreadable(state: State) -> set[SnapshotId]:
    """Snapshots that are listed or that a ref leads to, and that cannot be read."""
    wanted = {*state.branches.values(), *state.tags.values()}
    if state.info is not None:
        wanted |= state.entries.keys()
    return {one for one in wanted if state.snapshot(one) is None}


def _fall_back(state: State, name: str, tip: SnapshotId, losses: list[str]) -> SnapshotId | None:
    """The newest ancestor that can be read, or where nobody knows ancestors, what must be it."""
    for one in state.ancestry(tip):
        if state.snapshot(one) is not None:
            return one
    if state.info is not None:
        return None
    others = [at for other, at in state.branches.items() if other != name]
    choice = choose_tip(state.entries, others)
    if choice is None:
        return None
    if choice.others:
        told = ", ".join(map(str, choice.others))
        losses.append(
            f"the parent of {tip} is assumed to be {choice.tip}, the newest snapshot that no "
            f"other branch leads to; it may be {told}"
        )
    return choice.tip
