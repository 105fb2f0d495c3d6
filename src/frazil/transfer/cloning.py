"""Repositories copied from place to place: objects as they are, the entry point last."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from frazil.commit.base import RefStore
from frazil.commit.by_repo_object import RepoObjectRefs
from frazil.commit.file_refs import FileRefs
from frazil.errors import AlreadyExistsError, ConflictError, ErrorKind
from frazil.formats.generation import Generation
from frazil.ids import INITIAL_SNAPSHOT_ID, SnapshotId, crockford_many
from frazil.maintenance.at_work import AT_WORK
from frazil.maintenance.id_sets import needed_objects
from frazil.masking import shown_url
from frazil.model.nodes import ArrayNode
from frazil.opening import ENTRY_FOLDERS, ENTRY_KEYS, is_entry_point
from frazil.progress import Tell
from frazil.repository import Repository
from frazil.run import JobReport, LocalRunner, Runner, by_size, commit_job, run_with_progress
from frazil.session import Session
from frazil.statistics.copying import copy_statistics
from frazil.storage.assets import CHUNK, CHUNKS
from frazil.storage.base import PLAIN, Bytes, LostRace, Storage, absent, require_deleted
from frazil.storage.by_url import storage_at
from frazil.storage.local import LocalStorage
from frazil.tip import Tip, watched
from frazil.transaction.context import Context
from frazil.transaction.opened import context_of
from frazil.transaction.working import WorkingState

TASK_BYTES: Final = 64 << 20
"""Bytes that one item of work copies, unless a single object is larger."""
BATCH_BYTES: Final = 16 << 20
"""Bytes that are in memory at a time, with the same exception."""
TASK_CHUNKS: Final = 4096
"""Chunks that one task copies at most."""


def clone(
    source: Session | Repository,
    target: Storage | str | os.PathLike[str],
    *,
    message: str | None = None,
    runner: Runner = LocalRunner(),  # noqa: B008 - a frozen record
    progress: Tell | None = None,
) -> JobReport:
    """Copy one version of a repository, or all of it, to another place.

    Chunk objects are copied as they are and keep their names; virtual chunks stay where they are.
    One version becomes the only commit on `main` of a new repository. The whole history is every
    branch, tag and snapshot as of the beginning of the copy.

    Args:
        source: a session for the version it is based on, or a repository for all of it.
        target: an empty place: a storage, a path or a URL.
        message: of the commit, when one version is copied.
        runner: what copies; threads of this process by default.
        progress: is called with the current step and the progress so far.

    Raises:
        AlreadyExistsError: there is something at the target.
        ConflictError: something that belongs to the copy was deleted from the source meanwhile.
    """
    goal = storage_at(target)
    if isinstance(source, Repository):
        return _clone_all(source.storage, goal, runner, progress)
    context = source.state.context
    state = WorkingState(context, source.state.base_id)
    require_kept = watched(context, source.state.base_id)
    tip = _empty_repository(goal, context)
    tables = {node.path: state.table(node) for node in state.arrays()}
    ids, ends, _ = needed_objects(tables.values())
    keys = [CHUNKS + name for name in crockford_many(ids)]
    writing = tip.writable_session()
    work = CopyChunks(context, writing.state.context)
    size_bytes = _copy(runner, work, keys, ends.tolist(), progress)
    for node in sorted(state.tree, key=lambda each: each.path):
        writing.state.set_metadata(node.path, node.user_data)
        if isinstance(node, ArrayNode):
            writing.state.set_table(writing.state.array(node.path), tables[node.path])
    shown, base = place_name(context.place), source.snapshot_id
    facts = {"cloned-from": shown, "cloned-snapshot": base, "added-bytes": size_bytes}
    text = message or f"Clone {shown} at {base}"
    copy_statistics(state, tables, goal)
    snapshot = None
    require_kept()
    if len(state.tree):
        snapshot = commit_job(writing, "clone", text, {**facts, **runner.facts()})
    return JobReport(snapshot, tuple(tables), sum(map(len, tables.values())), size_bytes, len(keys))


def place_name(storage: Storage) -> str:
    """A place as people write it, without secrets."""
    return storage.path if isinstance(storage, LocalStorage) else shown_url(storage.url)


def _empty_repository(storage: Storage, like: Context) -> Tip:
    """The first snapshot of a new repository with the settings of another.

    An empty one that is there will do.
    """
    if not Repository.exists(storage):
        config = Repository.fetch_config(like.place)
        Repository.create(storage, config=config, spec_version=like.generation.number)
    tip = Repository.open(storage).tip("main")
    if tip.snapshot_id != str(INITIAL_SNAPSHOT_ID):
        raise AlreadyExistsError(
            "there is a repository with commits at the target",
            kind=ErrorKind.PARENT_DIRECTORY_NOT_CLEAN,
            url=place_name(storage),
        )
    return tip


def _clone_all(
    storage: Storage, target: Storage, runner: Runner, progress: Tell | None
) -> JobReport:
    require_empty(target)
    generation = context_of(Repository.open(storage)).generation
    # What the entry points, read first, lead to was there before the listing began.
    first = {key: storage.get(key) for key in _entries(storage)}
    # Marks of jobs at work on the source are not copied: none of them works on the copy.
    rest = [
        item
        for item in storage.list("")
        if not is_entry_point(item.key) and not item.key.startswith(AT_WORK)
    ]
    sizes = [item.size_bytes for item in rest]
    keys = [item.key for item in rest]
    size_bytes = _copy(runner, CopyObjects(storage, target), keys, sizes, progress)
    target.make_durable(keys)
    source = context_of(Repository.open(storage))
    if source.generation != generation:
        raise _changed("the repository was upgraded while it was copied")
    for key in _main_last(first, source.refs):
        data = first[key]
        if data is not None and isinstance(target.put_if(key, data, None), LostRace):
            raise _occupied(target)
    made = Repository.open(target)
    entries = [key for key, data in first.items() if data is not None]
    _require_kept(storage, made, entries, generation)
    chunks = sum(key.startswith(CHUNKS) for key in keys)
    return JobReport(made.lookup_branch("main"), (), chunks, size_bytes, len(rest))


def _require_kept(
    source: Storage, made: Repository, entries: Sequence[str], generation: Generation
) -> None:
    """Delete a copy unless all that it lists or refers to is still in use in the source.

    What is in use now was never garbage since the entry points were read, so that no collection
    has taken a part of it away before it was listed.
    """
    context = context_of(Repository.open(source))
    if context.generation != generation:
        require_deleted(made.storage.delete_many([*entries]))
        raise _changed("the repository was upgraded while it was copied")
    refs = context.refs
    there = _named(refs)
    missing = _named(context_of(made).refs) - there
    if missing and not isinstance(refs, RepoObjectRefs):
        missing -= {entry.id for head in there for entry in refs.ancestry(head)}
    if missing:
        require_deleted(made.storage.delete_many([*entries]))
        raise _changed("snapshots were deleted while they were copied")


def _changed(what: str) -> ConflictError:
    return ConflictError(
        message=f"{what}; clone again to an empty place", kind=ErrorKind.REPO_INFO_UPDATED
    )


def _named(refs: RefStore) -> set[SnapshotId]:
    """The snapshots that an entry point names: all of history, or the ends of it."""
    if isinstance(refs, RepoObjectRefs):
        return {*refs.info().snapshots}
    return refs.roots() if isinstance(refs, FileRefs) else refs.heads()


def _entries(storage: Storage) -> list[str]:
    """The keys of the objects that make the others a repository; the last one counts."""
    listed = (item.key for folder in ENTRY_FOLDERS for item in storage.list(folder))
    return [key for key in (*ENTRY_KEYS, *listed) if storage.head(key) is not None]


def _main_last(keys: Iterable[str], refs: RefStore) -> list[str]:
    """Entry points in the order in which they are written.

    Where refs have files of their own, there is a repository once there is a main branch. If the
    work is interrupted before, there is none, and not one without other refs.
    """
    folder = refs.entry_key().rpartition("/")[0] if isinstance(refs, FileRefs) else ""
    return sorted(keys, key=lambda key: (bool(folder) and key.startswith(f"{folder}/"), key))


def require_empty(storage: Storage) -> None:
    """Refuse a place where something is."""
    if not storage.is_empty():
        raise _occupied(storage)


def _occupied(storage: Storage) -> AlreadyExistsError:
    return AlreadyExistsError(
        "the target is not empty",
        kind=ErrorKind.PARENT_DIRECTORY_NOT_CLEAN,
        url=place_name(storage),
    )


@dataclass(frozen=True, slots=True)
class CopyObjects:
    """Copies objects by their keys."""

    source: Storage
    target: Storage

    def __call__(self, item: tuple[list[str], list[int]]) -> int:
        """Copy some objects; `item` has their keys and about their sizes."""
        keys, sizes = item
        done = 0
        for part in by_size(sizes, BATCH_BYTES):
            pairs = fetch_all(self.source, [keys[number] for number in part])
            done += sum(len(data) for _, data in pairs)
            is_chunk = all(key.startswith(CHUNKS) for key, _ in pairs)
            self.target.put_many(pairs, CHUNK if is_chunk else PLAIN)
        return done


@dataclass(frozen=True, slots=True)
class CopyChunks:
    """Copies chunk objects between repositories, whatever their generations call them."""

    source: Context
    target: Context

    def __call__(self, item: tuple[list[str], list[int]]) -> int:
        """Copy some objects; `item` has their keys and about their sizes."""
        return CopyObjects(self.source.storage, self.target.storage)(item)


def fetch_all(storage: Storage, keys: Sequence[str]) -> list[tuple[str, Bytes]]:
    """Objects with their keys."""
    pairs: list[tuple[str, Bytes]] = []
    found = storage.get_many([(key, None, None) for key in keys])
    for key, data in zip(keys, found, strict=True):
        if data is None:
            raise absent(key)
        pairs.append((key, data))
    return pairs


def _copy(
    runner: Runner,
    work: CopyObjects | CopyChunks,
    keys: Sequence[str],
    sizes: Sequence[int],
    progress: Tell | None,
) -> int:
    items = [
        ([keys[n] for n in part], [sizes[n] for n in part])
        for part in by_size(sizes, TASK_BYTES, TASK_CHUNKS)
    ]
    counts = [len(names) for names, _ in items]
    answers = run_with_progress(
        runner, work, items, progress, "objects", counts=counts, size_bytes=sum(sizes)
    )
    return sum(size for _, size in answers)
