"""The operations that processes choose from; a new one joins by a line in OPERATIONS.

The model of each is in `model.py`, under the same name.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final, TypeAlias

import zarr

from tests.histories.actor import Actor
from tests.histories.field import (
    LOG_LIMIT,
    OWN,
    PLACES,
    SCRATCH,
    SHARED,
    message,
    new_array,
    places_of_slot,
    token_of,
)
from tests.histories.records import Facts, oldest_running

Act: TypeAlias = Callable[[Actor], None]
SOLVERS: Final = (None, "detect", "detect", "detect", "ours", "theirs")
CONTAINERS: Final = "file:///nowhere/"
PAGE: Final = 12
"""Entries of a history that are looked at in passing."""


# --- reads ---


def look(actor: Actor) -> None:
    """Where a branch is, and its newest history."""
    look_at(actor, branch=actor.pick_branch())


def look_at(actor: Actor, **selector: str) -> None:
    """The newest history of a version."""
    found = actor.do(
        "look",
        {**selector, "limit": PAGE},
        lambda _: {"entries": actor.history(PAGE, **selector)},
    )
    if found is None:
        if "branch" in selector and selector["branch"] != "main":
            actor.memory.branches.pop(selector["branch"], None)
        return
    # Nobody goes back behind where the processes began: there is nothing to read.
    ids = [entry[0] for entry in found["entries"] if token_of(entry[2])]
    for each in reversed(ids):
        actor.memory.learn(each)
    if "branch" in selector:
        actor.memory.branches[selector["branch"]] = found["entries"][0][0]
        actor.memory.ancestors[selector["branch"]] = ids


def whole_history(actor: Actor, selector: Mapping[str, str]) -> list[list[Any]]:
    """Everything that a version descends from."""
    found = actor.do("look", selector, lambda _: {"entries": actor.history(None, **selector)})
    return [] if found is None else [*found["entries"]]


def refs(actor: Actor) -> None:
    """Names of all branches and tags."""

    def run(_: int) -> Facts:
        repo = actor.repo()
        return {"branches": sorted(repo.list_branches()), "tags": sorted(repo.list_tags())}

    found = actor.do("refs", {}, run)
    if found is not None:
        known = actor.memory.branches
        actor.memory.branches = {name: known.get(name, "") for name in found["branches"]}
        actor.memory.tags = found["tags"]


def read(actor: Actor) -> None:
    """Everything at a branch, a tag or an older snapshot."""
    chance = actor.rng.random()
    if chance < 0.2 and actor.memory.tags:
        selector = {"tag": actor.rng.choice(actor.memory.tags)}
    elif chance < 0.5 and (snapshot := actor.pick_snapshot()):
        selector = {"snapshot_id": snapshot}
    else:
        selector = {"branch": actor.pick_branch()}
    read_at(actor, selector)


def read_at(actor: Actor, selector: Mapping[str, str]) -> None:
    """Everything at a version."""

    def run(_: int) -> Facts:
        if "snapshot_id" in selector:
            return actor.read(actor.repo(), selector)
        return actor.at_ref(selector, lambda repo: actor.read(repo, selector))

    actor.do("read", selector, run)


# --- commits ---


def commit(
    actor: Actor, kind: str, args: Facts, change: Callable[[Any, int], None], how: str = "commit"
) -> None:
    """Open a session, change something, commit it, and look at it."""

    def run(token: int) -> Facts:
        session = actor.repo().writable_session(args["branch"])
        actor.journal.note(token, base=session.snapshot_id)
        try:
            change(zarr.open_group(session.store, mode="r+"), token)
        except Exception as error:
            if actor.is_missing(error):
                selector = {"branch": args["branch"]}
                actor.require_gone(selector, lambda repo: actor.read(repo, selector), error)
            raise
        if actor.rng.random() < 0.1:
            time.sleep(actor.rng.random() * 0.3)
        actor.is_acting = True
        text = message(token, kind)
        if how == "amend":
            return {"id": session.amend(text)}
        given = solver(actor, args["solver"])
        return {"id": session.commit(text, **({"rebase_with": given} if given else {}))}

    if found := actor.do(kind, args, run):
        look_at(actor, snapshot_id=found["id"])


def solver(actor: Actor, name: str | None) -> Any:
    """A conflict solver of the package by our name for it."""
    if name is None:
        return None
    if name == "detect":
        return actor.icechunk.ConflictDetector()
    choice = actor.icechunk.VersionSelection
    picked = choice.UseOurs if name == "ours" else choice.UseTheirs
    return actor.icechunk.BasicConflictSolver(on_chunk_conflict=picked)


def pick_cells(actor: Actor) -> list[str]:
    """A few cells of arrays that everybody writes, and of one's own."""
    rng = actor.rng
    cells = [f"own{actor.number}/{rng.randrange(OWN)}"] if rng.random() < 0.7 else []
    if rng.random() < 0.6 or not cells:
        cells += [f"shared/{index}" for index in rng.sample(range(SHARED), rng.randint(1, 2))]
    if rng.random() < 0.15:
        cells.append(f"scratch/{rng.randrange(SCRATCH)}")
    if rng.random() < 0.1:
        cells.append("slot")
    return cells


def set_cells(root: Any, cells: list[str], token: int) -> None:
    """Put a value into cells."""
    for cell in cells:
        if cell == "slot":
            root[PLACES[places_of_slot(root)[0]]]["slot"][0] = token
        else:
            name, _, index = cell.partition("/")
            root[name][int(index)] = token


def write(actor: Actor) -> None:
    """Some cells."""
    cells = pick_cells(actor)
    args = {"branch": actor.pick_branch(), "cells": cells, "solver": actor.rng.choice(SOLVERS)}
    commit(actor, "write", args, lambda root, token: set_cells(root, cells, token))


def amend(actor: Actor) -> None:
    """Some cells, in place of the newest commit."""
    cells = pick_cells(actor)
    args = {"branch": actor.pick_branch(), "cells": cells}
    commit(actor, "amend", args, lambda root, token: set_cells(root, cells, token), "amend")


def append(actor: Actor) -> None:
    """One value at the end of the log, from where it was seen to end."""

    def change(root: Any, token: int) -> None:
        log = root["log"]
        length = log.shape[0]
        if length >= LOG_LIMIT:
            log.resize((0,))
            length = 0
        log.resize((length + 1,))
        log[length] = token

    args = {"branch": actor.pick_branch(), "solver": actor.rng.choice((None, "detect"))}
    commit(actor, "append", args, change)


def replace(actor: Actor) -> None:
    """An array deleted and made anew under the same name."""

    def change(root: Any, token: int) -> None:
        del root["scratch"]
        new_array(root, "scratch", SCRATCH)[0] = token

    args = {"branch": actor.pick_branch(), "solver": actor.rng.choice((None, "detect"))}
    commit(actor, "replace", args, change)


def note(actor: Actor) -> None:
    """An attribute of a group."""

    def change(root: Any, token: int) -> None:
        root["notes"].attrs[f"a{actor.number}"] = token

    args = {"branch": actor.pick_branch(), "solver": actor.rng.choice((None, "detect"))}
    commit(actor, "note", args, change)


def move(actor: Actor) -> None:
    """An array from one group to the other."""

    def run(token: int) -> Facts:
        session = actor.repo().rearrange_session(branch)
        actor.journal.note(token, base=session.snapshot_id)
        where = places_of_slot(zarr.open_group(session.store, mode="r"))[0]
        actor.journal.note(token, to=1 - where)
        session.move(f"/{PLACES[where]}/slot", f"/{PLACES[1 - where]}/slot")
        actor.is_acting = True
        given = solver(actor, args["solver"])
        text = message(token, "move")
        return {"id": session.commit(text, **({"rebase_with": given} if given else {}))}

    branch = actor.pick_branch()
    args = {"branch": branch, "solver": actor.rng.choice((None, "detect"))}
    if found := actor.do("move", args, run):
        look_at(actor, snapshot_id=found["id"])


def rewrite(actor: Actor) -> None:
    """All manifests anew; no value changes."""
    branch = actor.pick_branch()

    def run(token: int) -> Facts:
        repo = actor.repo()
        actor.is_acting = True
        return {"id": repo.rewrite_manifests(message(token, "rewrite"), branch=branch)}

    actor.do("rewrite", {"branch": branch}, run)


def compact(actor: Actor) -> None:
    """Chunks of dead neighbours anew; no value changes."""
    branch = actor.pick_branch()

    def run(token: int) -> Facts:
        repo = actor.repo()
        actor.is_acting = True
        done = repo.space.compact(branch, message=message(token, "compact"))
        return {"id": done.snapshot_id} if done.snapshot_id else {}

    actor.do("compact", {"branch": branch}, run)


# --- branches and commits as a whole ---


def combine(actor: Actor, kind: str, args: Facts, call: Callable[[Any, str], Any]) -> None:
    """Merge, cherry-pick, revert or squash: what its report tells."""

    def run(token: int) -> Facts:
        repo = actor.repo()
        actor.is_acting = True
        report = call(repo, message(token, kind))
        return {
            "status": str(report.status),
            "previous": report.previous_snapshot_id,
            "id": report.snapshot_id,
            "bases": list(report.bases),
        }

    if (found := actor.do(kind, args, run)) and found["status"] == "committed":
        look_at(actor, snapshot_id=found["id"])


def merge(actor: Actor) -> None:
    """A branch, at the snapshot where it was last seen, into another."""
    names = [name for name, tip in actor.memory.branches.items() if tip]
    if not names:
        return
    source, into = actor.memory.branches[actor.rng.choice(names)], actor.pick_branch()
    ff = actor.rng.random() < 0.3
    args = {"source": source, "branch": into, "ff": ff}
    combine(
        actor,
        "merge",
        args,
        lambda repo, text: repo.versions.merge(source, into, message=text, ff=ff),
    )


def pick(actor: Actor) -> None:
    """The change of some commit once more, on a branch."""
    if snapshot := actor.pick_snapshot():
        onto = actor.pick_branch()
        args = {"source": snapshot, "branch": onto}
        combine(
            actor,
            "pick",
            args,
            lambda repo, text: repo.versions.cherry_pick(snapshot, onto, message=text),
        )


def revert(actor: Actor) -> None:
    """The change of some commit taken back."""
    if snapshot := actor.pick_snapshot():
        on = actor.pick_branch()
        args = {"source": snapshot, "branch": on}
        combine(
            actor,
            "revert",
            args,
            lambda repo, text: repo.versions.revert(snapshot, on, message=text),
        )


def squash(actor: Actor) -> None:
    """The newest commits of a branch as one."""
    branch = actor.pick_branch(any_of=True)
    ids = actor.memory.ancestors.get(branch, [])
    if len(ids) > 3:
        after = actor.rng.choice(ids[1:4])
        args = {"branch": branch, "after": after}
        combine(
            actor,
            "squash",
            args,
            lambda repo, text: repo.versions.squash(branch, after, message=text),
        )


# --- refs ---


def simple(actor: Actor, kind: str, args: Facts, call: Callable[[Any], None]) -> bool:
    """One call that gives nothing back; whether it went well."""

    def run(_: int) -> Facts:
        repo = actor.repo()
        actor.is_acting = True
        call(repo)
        return {}

    return actor.do(kind, args, run) is not None


def tag(actor: Actor) -> None:
    """A tag with a name of its own, or one that somebody else wants too."""
    if target := actor.pick_snapshot():
        rng = actor.rng
        name = f"t{rng.randrange(40)}" if rng.random() < 0.5 else f"t-{rng.getrandbits(40):x}"
        if simple(
            actor,
            "tag",
            {"tag": name, "target": target},
            lambda repo: repo.create_tag(name, target),
        ):
            actor.memory.tags.append(name)


def untag(actor: Actor) -> None:
    """A tag deleted."""
    if actor.memory.tags:
        name = actor.rng.choice(actor.memory.tags)
        if simple(actor, "untag", {"tag": name}, lambda repo: repo.delete_tag(name)):
            actor.memory.tags.remove(name)


def branch(actor: Actor) -> None:
    """A branch from some snapshot, under one of a few names."""
    if target := actor.pick_snapshot():
        name = f"b{actor.rng.randrange(6)}"
        args = {"branch": name, "target": target}
        if simple(actor, "branch", args, lambda repo: repo.create_branch(name, target)):
            actor.memory.branches[name] = target


def drop(actor: Actor) -> None:
    """A branch deleted."""
    name = actor.pick_branch(any_of=True)
    if name not in ("main", "dev") and simple(
        actor, "drop", {"branch": name}, lambda repo: repo.delete_branch(name)
    ):
        actor.memory.branches.pop(name, None)


def reset(actor: Actor) -> None:
    """A branch taken back by a few commits, if it is still where it was seen."""
    name = actor.pick_branch(any_of=actor.rng.random() < 0.8)
    ids = actor.memory.ancestors.get(name, [])
    if len(ids) > 2:
        target = actor.rng.choice(ids[1:3])
        args = {"branch": name, "target": target, "from": ids[0]}
        simple(
            actor,
            "reset",
            args,
            lambda repo: repo.reset_branch(name, target, from_snapshot_id=args["from"]),
        )


# --- the repository as a whole ---


def expire(actor: Actor) -> None:
    """Snapshots older than a few seconds."""
    rng = actor.rng
    cutoff = time.time() - (rng.uniform(1, 4) if rng.random() < 0.3 else rng.uniform(6, 30))

    def run(_: int) -> Facts:
        repo = actor.repo()
        actor.is_acting = True
        done = repo.expire_snapshots(datetime.fromtimestamp(cutoff, UTC))
        return {"released": sorted(done)}

    actor.do("expire", {"cutoff": cutoff}, run)


def collect(actor: Actor) -> None:
    """Garbage that was there before anything that still runs began."""
    # Both clocks are read before the journals: this process may be halted at any moment.
    wall, now, ground = time.time(), time.monotonic(), actor.ground
    since = oldest_running(actor.journal.path.parent, now, ground.late_s)
    cutoff = wall - (now - since) - ground.resolution_s

    def run(_: int) -> Facts:
        repo = actor.repo()
        actor.is_acting = True
        done = repo.garbage_collect(
            datetime.fromtimestamp(cutoff, UTC), unsafe_minimum_age=timedelta(0)
        )
        return {"chunks": done.chunks_deleted, "snapshots": done.snapshots_deleted}

    actor.do("collect", {"cutoff": cutoff}, run)


def raze(actor: Actor) -> None:
    """A branch deleted, history forgotten, and everything that was only there."""
    drop(actor)
    expire(actor)
    collect(actor)


def upgrade(actor: Actor) -> None:
    """The whole repository to spec 2, while others use it."""

    def run(_: int) -> Facts:
        repo = actor.ground.open(actor.icechunk)
        if int(repo.spec_version) > 1:
            return {"done": False}
        actor.is_acting = True
        actor.icechunk.upgrade_icechunk_repository(repo, dry_run=False)
        return {"done": True}

    actor.do("upgrade", {}, run)


def label(actor: Actor) -> None:
    """A field of the repository's own metadata."""
    name = actor.rng.choice(("common", f"of{actor.number}"))

    def run(token: int) -> Facts:
        repo = actor.repo()
        actor.is_acting = True
        return {"labels": repo.update_metadata({name: token})}

    actor.do("label", {"name": name}, run)


def labels(actor: Actor) -> None:
    """All of the repository's own metadata."""
    actor.do("labels", {}, lambda _: {"labels": actor.repo().get_metadata()})


def config(actor: Actor) -> None:
    """One more container of virtual chunks in the stored configuration."""

    def run(token: int) -> Facts:
        icechunk = actor.icechunk
        repo = icechunk.Repository.open(actor.ground.storage(icechunk))
        store = icechunk.local_filesystem_store("/nowhere")
        container = icechunk.VirtualChunkContainer(f"{CONTAINERS}{token}/", store)
        changed = repo.config
        changed.set_virtual_chunk_container(container)
        repo = repo.reopen(changed)
        actor.is_acting = True
        repo.save_config()
        return {}

    actor.do("config", {}, run)


def containers(actor: Actor) -> None:
    """All containers of the stored configuration."""

    def run(_: int) -> Facts:
        icechunk = actor.icechunk
        found = icechunk.Repository.fetch_config(actor.ground.storage(icechunk))
        names = found.virtual_chunk_containers or {}
        return {"containers": [int(name.rstrip("/").rpartition("/")[2]) for name in names]}

    actor.do("containers", {}, run)


OLD: Final = 0
"""Any generation before spec 1."""
UPGRADED: Final = 12
"""Spec 1 that somebody upgrades to spec 2."""


@dataclass(frozen=True, slots=True)
class Choice:
    """How often an operation is chosen, and who can do it."""

    act: Act
    weight: int
    peers: bool = True
    """whether the official packages take part in it"""
    specs: tuple[int, ...] = (OLD, 1, 2)


OPERATIONS: Final = (
    Choice(look, 8),
    Choice(refs, 3),
    Choice(read, 14),
    Choice(write, 24),
    Choice(append, 10),
    Choice(replace, 2),
    Choice(note, 4),
    Choice(amend, 4, specs=(2,)),
    Choice(move, 2, specs=(2,)),
    Choice(rewrite, 1, specs=(1, 2)),
    Choice(compact, 1, peers=False, specs=(1, 2)),
    Choice(merge, 6, peers=False, specs=(1, 2)),
    Choice(pick, 3, peers=False, specs=(1, 2)),
    Choice(revert, 2, peers=False, specs=(1, 2)),
    Choice(squash, 1, peers=False, specs=(2,)),
    Choice(tag, 3),
    Choice(untag, 1),
    Choice(branch, 4),
    Choice(drop, 2),
    Choice(reset, 2),
    Choice(expire, 1, peers=False),
    Choice(collect, 1, peers=False),
    Choice(raze, 2, peers=False),
    Choice(config, 1, peers=False, specs=(1, 2)),
    Choice(containers, 1, specs=(1, 2)),
    Choice(upgrade, 1, peers=False, specs=(UPGRADED,)),
    Choice(label, 4, specs=(2,)),
    Choice(labels, 2, specs=(2,)),
)


def choices_for(actor: Actor) -> list[Choice]:
    """What a process can do on its repository."""
    spec = actor.ground.spec if isinstance(actor.ground.spec, int) else OLD
    specs = {spec, UPGRADED} if actor.ground.is_upgraded else {spec}
    return [
        each
        for each in OPERATIONS
        if (actor.is_ours or each.peers) and not specs.isdisjoint(each.specs)
    ]


def run_until(actor: Actor, deadline: float) -> None:
    """Do one thing after the other until it is time."""
    refs(actor)
    for name in ("main", "dev"):
        look_at(actor, branch=name)
    offered = choices_for(actor)
    weights = [each.weight for each in offered]
    while time.monotonic() < deadline:
        actor.rng.choices(offered, weights)[0].act(actor)
