"""Cases: small commits, long histories, garbage collection."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from bench.model import Action, Case, Contestant, Dataset, Party, Place, Size, Target, Timed
from bench.parties import SYNCED, Durability, create, open_repository, to_disk
from bench.seeds import link_copy, seeded

THEME = "History and upkeep"
PEER = Party.ICECHUNK2.value
OLDER = Party.ICECHUNK1.value
COMMITS = 20
"""commits per measurement"""
MANY_COMMITS = 300
"""to a new repository"""
CHUNKS = 1000
PARTIES: tuple[tuple[str, Party, Durability], ...] = (
    ("frazil, durable", Party.FRAZIL, "commit"),
    ("frazil, no fsync", Party.FRAZIL, "none"),
    (PEER, Party.ICECHUNK2, "none"),
    (OLDER, Party.ICECHUNK1, "none"),
)
WRITERS: tuple[tuple[str, Party, Durability], ...] = (
    *PARTIES[:3],
    (SYNCED, Party.ICECHUNK2, "after"),
    *PARTIES[3:],
)
NEW_FILES = ("manifests", "snapshots", "transactions")
"""the folders that get a file in each commit; the rest is the repo object or the branch"""


def put(store: Any, key: str, data: bytes) -> None:
    """Set a key of a store, without an array around it."""
    from zarr.core.buffer import default_buffer_prototype
    from zarr.core.sync import sync

    sync(store.set(key, default_buffer_prototype().buffer.from_bytes(data)))


def declare(store: Any) -> None:
    """A small array whose chunks live in the manifest."""
    import zarr

    zarr.open_group(store, mode="a").create_array(
        "a", shape=(CHUNKS,), chunks=(1,), dtype="i4", filters=None, compressors=None
    )


def commit_some(
    repository: Any,
    count: int,
    first: int = 0,
    *,
    whole: bool = False,
    synced: Path | None = None,
) -> float:
    """Make commits of one chunk; return the seconds spent in `commit` alone.

    With `whole` also those spent on the session and the chunk; with `synced`, the folder of the
    repository, also those spent on getting the commits to the disk.
    """
    spent = 0.0
    known = _files(synced) if synced else set()
    for number in range(first, first + count):
        begin = time.perf_counter()
        session = repository.writable_session("main")
        put(session.store, f"a/c/{number % CHUNKS}", (number + 1).to_bytes(4, "little"))
        if not whole:
            begin = time.perf_counter()
        session.commit(f"commit {number}")
        spent += time.perf_counter() - begin
        if synced:
            found = _files(synced)
            begin = time.perf_counter()
            # Its files and their names, then what names the commit.
            to_disk(synced / name for name in (*sorted(found - known), *NEW_FILES, "repo", "."))
            spent += time.perf_counter() - begin
            known = found
    return spent


def _files(folder: Path) -> set[str]:
    return {
        str(file.relative_to(folder)) for kind in NEW_FILES for file in folder.glob(f"{kind}/*")
    }


def write_history(count: int, place: Place, *, spec: int = 2) -> None:
    """A repository with so many commits."""
    repository = create(Party.FRAZIL, place, spec=spec)
    session = repository.writable_session("main")
    declare(session.store)
    session.commit("array")
    commit_some(repository, count - 1)


def grow_history(count: int, place: Place) -> None:
    """Add so many commits that change nothing, all at once: one by one, 100,000 take an hour."""
    from dataclasses import replace

    from frazil.commit.by_repo_object import RepoObjectRefs
    from frazil.commit.repo_object import Edit
    from frazil.ids import SnapshotId
    from frazil.model.history import TransactionLog, UpdateType

    context = open_repository(Party.FRAZIL, place)._context
    refs, assets = context.refs, context.assets
    assert isinstance(refs, RepoObjectRefs)
    parent = refs.branch_tip("main")
    base = assets.snapshot(parent)
    entries = []
    for number in range(1, count + 1):
        id = SnapshotId.random()
        one = replace(base, id=id, flushed_at=base.flushed_at + number, message=f"commit {number}")
        assets.save_file(one)
        assets.save_file(TransactionLog(id))
        entries.append(one.entry(parent, ()))
        parent = id
    refs.edit(
        lambda info: Edit(
            UpdateType.NewCommit("main", parent),
            {
                "snapshots": info.snapshots.with_entries(entries),
                "branches": {**info.branches, "main": parent},
            },
        )
    )


def history_data(party: Party, count: int, tag: str = "") -> Dataset:
    """A history that Frazil wrote, in the newest format that the party knows."""
    spec = 1 if party is Party.ICECHUNK1 else 2
    name = f"history-{count}-v{spec}"
    build = partial(write_history, count, spec=spec)
    return Dataset(f"{name}-{party.name.lower()}{tag}", Party.FRAZIL, partial(seeded, name, build))


def small_commits(party: Party, durability: Durability, place: Place, scratch: Place) -> Action:
    """Commit one chunk at a time to a long history; only `commit` counts."""
    repository = open_repository(party, place, durability)
    commit_some(repository, 1, first=500)
    synced = place.folder if durability == "after" else None
    return lambda: Timed(commit_some(repository, COMMITS, first=600, synced=synced))


def first_commits(party: Party, durability: Durability, _: Place, scratch: Place) -> Action:
    """Open a session, set one chunk and commit, again and again, in a new repository."""
    repository = create(party, scratch, durability)
    session = repository.writable_session("main")
    declare(session.store)
    session.commit("array")
    synced = scratch.folder if durability == "after" else None

    return lambda: Timed(commit_some(repository, MANY_COMMITS, whole=True, synced=synced))


def ancestry(party: Party, count: int, place: Place, _: Place) -> Action:
    """List the whole history."""
    repository = open_repository(party, place)

    def work() -> None:
        assert sum(1 for _ in repository.ancestry(branch="main")) > count

    return work


def open_newest(party: Party, place: Place, _: Place) -> Action:
    """Open a repository with a long history and look at one chunk."""

    def work() -> None:
        session = open_repository(party, place).readonly_session("main")
        session.chunk_type("/a", [7])

    return work


# --- garbage ---


def write_garbage(count: int, place: Place) -> None:
    """A repository of so many chunk objects, of which a third belongs to no snapshot."""
    import numpy as np
    import zarr

    from frazil.bulk import write_region

    repository = create(Party.FRAZIL, place)
    session = repository.writable_session("main")
    zarr.open_group(session.store, mode="a").create_array(
        "a", shape=(count * 75,), chunks=(75,), dtype="f8", filters=None, compressors=None
    )
    numbers = np.arange(1, count * 75 + 1, dtype="f8")
    write_region(session, "a", ..., numbers, packing=False)
    session.commit("all")
    session = repository.writable_session("main")
    zarr.open_array(session.store, path="a", mode="r+").resize((count * 50,))
    session.commit("two thirds")
    repository.expire_snapshots(datetime.now(UTC))


def collect(party: Party, durability: Durability, place: Place, scratch: Place) -> Action:
    """Delete what no snapshot names."""
    link_copy(place.folder, scratch.folder)
    repository = open_repository(party, scratch, durability)
    return lambda: repository.garbage_collect(datetime.now(UTC)).chunks_deleted


def _at_least(count: int, deleted: object) -> None:
    if not isinstance(deleted, int) or deleted < count:
        raise ValueError(f"only {deleted} chunks were deleted, not {count}")


def _garbage(size: Size) -> Case:
    data = Dataset(f"garbage-{size.garbage}", Party.FRAZIL, partial(write_garbage, size.garbage))
    return Case(
        key="garbage",
        title=f"garbage collection over {size.garbage:,} objects, a third dead",
        theme=THEME,
        contestants=tuple(
            Contestant(name, party, partial(collect, party, durability), data)
            for name, party, durability in PARTIES
            if party is not Party.ICECHUNK1
        ),
        targets=(
            Target("frazil, durable", PEER, 1.5, 2.5),
            Target("frazil, no fsync", PEER),
        ),
        check=partial(_at_least, size.garbage // 3),
        warm_up=False,
        memory=True,
    )


def cases(size: Size) -> tuple[Case, ...]:
    """All cases of this theme."""
    count = size.snapshots
    readers = tuple(
        (name.split(",")[0], party) for name, party, durability in PARTIES if durability == "none"
    )
    against = (
        Target("frazil, no fsync", PEER, 1, 1.2),
        Target("frazil, durable", SYNCED, 1, 1.2),
        Target("frazil, durable", PEER, 0.8, 1),
    )
    return (
        Case(
            key="first-commits",
            title=f"{MANY_COMMITS} small commits to a new repository, sessions included",
            theme=THEME,
            contestants=tuple(
                Contestant(name, party, partial(first_commits, party, durability))
                for name, party, durability in WRITERS
            ),
            targets=against,
        ),
        Case(
            key="small-commit",
            title=f"{COMMITS} small commits at {count:,} snapshots",
            theme=THEME,
            contestants=tuple(
                Contestant(
                    name,
                    party,
                    partial(small_commits, party, durability),
                    history_data(party, count, f"-{durability}"),
                )
                for name, party, durability in WRITERS
            ),
            targets=(
                Target("frazil, no fsync", PEER, 0.8, 1.2),
                Target("frazil, durable", SYNCED, 0.8, 1.2),
                Target("frazil, durable", PEER),
            ),
        ),
        *(
            Case(
                key=key,
                title=title,
                theme=THEME,
                contestants=tuple(
                    Contestant(
                        name, party, partial(work, party), history_data(party, count, "-none")
                    )
                    for name, party in readers
                ),
                targets=(Target("frazil", PEER, *bounds),),
            )
            for key, title, work, bounds in (
                (
                    "ancestry",
                    f"ancestry of {count:,} snapshots",
                    lambda party, place, scratch: ancestry(party, count, place, scratch),
                    (3, 10),
                ),
                ("open-history", f"cold open at {count:,} snapshots", open_newest, ()),
            )
        ),
        _garbage(size),
    )
