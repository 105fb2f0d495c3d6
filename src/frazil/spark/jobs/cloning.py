"""Repositories copied from place to place: objects as they are, the entry point last."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from frazil.commit.by_repo_object import REPO_KEY
from frazil.commit.config_file import CONFIG_KEY
from frazil.errors import AlreadyExistsError, ErrorKind
from frazil.ids import INITIAL_SNAPSHOT_ID, crockford_many
from frazil.maintenance.needs import needed_objects
from frazil.masking import shown_url
from frazil.model.nodes import ArrayNode
from frazil.repository import Repository
from frazil.spark import tasks
from frazil.spark.location import Location, open_pinned
from frazil.spark.options.parsing import invalid_option
from frazil.spark.runner import SparkRunner
from frazil.spark.sessions import session as spark_session
from frazil.spark.tasks import JobReport, Options, Progress
from frazil.storage.assets import CHUNK, CHUNKS
from frazil.storage.base import PLAIN, Bytes, LostRace, Storage, absent
from frazil.tip import Tip

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TASK_BYTES: Final = 64 << 20
"""Bytes that one item of work copies, unless a single object is larger."""
BATCH_BYTES: Final = 16 << 20
"""Bytes that are in memory at a time, with the same exception."""
TASK_CHUNKS: Final = 4096
REFS: Final = "refs/"


def clone(
    url: str,
    target: str,
    *,
    spark: SparkSession | None = None,
    all_history: bool = False,
    message: str | None = None,
    options: Options | None = None,
    target_options: Options | None = None,
    progress: Progress | None = None,
) -> JobReport:
    """Copy one version of a repository, or all of it, to another place.

    Chunk objects are copied as they are by executors and keep their names; virtual chunks stay
    where they are. One version becomes the only commit on `main` of a new repository; with
    `all_history` every branch, tag and snapshot is copied, as of the beginning of the copy.

    Args:
        url: `URL[@version]`; without a version for `all_history`.
        target: an empty place.
        spark: the session to use; the active or an embedded one by default.
        all_history: copy all objects.
        message: of the commit, when one version is copied.
        options: options of the data source for `url`, such as `storage.region`.
        target_options: the same for `target`.
        progress: is told what is being done and how far it is.

    Raises:
        AlreadyExistsError: there is something at the target.
    """
    chosen = spark or spark_session()
    source = tasks.target_of(url, options)
    goal = tasks.target_of(target, target_options)
    if all_history:
        if source.ref is not None:
            raise invalid_option("the whole history has no version: leave it out of the URL")
        return _clone_all(chosen, source.location, goal.location, progress)
    repository = source.location.open()
    pinned = source.pin(repository)
    session = open_pinned(pinned, repository)
    tip = _empty_repository(goal.location, repository)
    tables = {node.path: session.state.table(node) for node in session.state.arrays()}
    ids, ends, _ = needed_objects(tables.values())
    keys = [CHUNKS + name for name in crockford_many(ids)]
    work = Copied(source.location, goal.location)
    size_bytes = _copy(chosen, work, keys, ends.tolist(), progress)
    writing = tip.writable_session()
    for node in sorted(session.state.tree, key=lambda each: each.path):
        writing.state.set_metadata(node.path, node.user_data)
        if isinstance(node, ArrayNode):
            writing.state.set_table(writing.state.array(node.path), tables[node.path])
    shown = shown_url(source.location.url)
    facts = {"cloned-from": shown, "cloned-snapshot": pinned.snapshot_id, "added-bytes": size_bytes}
    text = message or f"Clone {shown} at {pinned.snapshot_id}"
    snapshot = (
        tasks.commit_job(chosen, writing, "clone", text, facts) if len(session.state.tree) else None
    )
    return JobReport(snapshot, tuple(tables), sum(map(len, tables.values())), size_bytes, len(keys))


def _empty_repository(location: Location, like: Repository) -> Tip:
    """The first snapshot of a new repository with the settings of another.

    An empty one that is there will do.
    """
    storage = location.storage()
    if not Repository.exists(storage):
        config = Repository.fetch_config(like.storage)
        Repository.create(storage, config=config, spec_version=like.spec_version)
    tip = location.open().tip("main")
    if tip.snapshot_id != str(INITIAL_SNAPSHOT_ID):
        raise AlreadyExistsError(
            "there is a repository with commits at the target",
            kind=ErrorKind.PARENT_DIRECTORY_NOT_CLEAN,
            url=shown_url(location.url),
        )
    return tip


def _clone_all(
    spark: SparkSession, source: Location, goal: Location, progress: Progress | None
) -> JobReport:
    storage, target = source.storage(), goal.storage()
    require_empty(target, goal)
    source.open()  # tells when there is none
    # What the entry points, read first, lead to was there before the listing began.
    first = {key: storage.get(key) for key in _entries(storage)}
    rest = [item for item in storage.list("") if not _is_entry(item.key)]
    work = Copied(source, goal)
    sizes = [item.size_bytes for item in rest]
    size_bytes = _copy(spark, work, [item.key for item in rest], sizes, progress)
    for key, data in sorted(first.items()):
        if data is not None and isinstance(target.put_if(key, data, None), LostRace):
            raise _occupied(goal)
    made = goal.open()
    return JobReport(
        made.lookup_branch("main"),
        (),
        sum(item.key.startswith(CHUNKS) for item in rest),
        size_bytes,
        len(rest),
    )


def _entries(storage: Storage) -> list[str]:
    """The keys of the objects that make the others a repository; the last one counts."""
    return [
        key
        for key in (REPO_KEY, CONFIG_KEY, *(item.key for item in storage.list(REFS)))
        if storage.head(key) is not None
    ]


def _is_entry(key: str) -> bool:
    return key in (REPO_KEY, CONFIG_KEY) or key.startswith(REFS)


def require_empty(storage: Storage, place: Location) -> None:
    """Refuse a place where something is.

    Raises:
        AlreadyExistsError: something is there.
    """
    if not storage.is_empty():
        raise _occupied(place)


def _occupied(place: Location) -> AlreadyExistsError:
    return AlreadyExistsError(
        "the target is not empty",
        kind=ErrorKind.PARENT_DIRECTORY_NOT_CLEAN,
        url=shown_url(place.url),
    )


@dataclass(frozen=True, slots=True)
class Copied:
    """Copies objects by their keys."""

    source: Location
    goal: Location

    def __call__(self, item: tuple[list[str], list[int]]) -> int:
        """Copy some objects; `item` has their keys and about their sizes."""
        keys, sizes = item
        source, goal = self.source.storage(), self.goal.storage()
        done = 0
        for part in tasks.by_size(sizes, BATCH_BYTES):
            wanted = [keys[number] for number in part]
            found = source.get_many([(key, None, None) for key in wanted])
            pairs: list[tuple[str, Bytes]] = []
            for key, data in zip(wanted, found, strict=True):
                if data is None:
                    raise absent(key)
                pairs.append((key, data))
                done += len(data)
            is_chunk = all(key.startswith(CHUNKS) for key in wanted)
            goal.put_many(pairs, CHUNK if is_chunk else PLAIN)
        return done


def _copy(
    spark: SparkSession,
    work: Copied,
    keys: Sequence[str],
    sizes: Sequence[int],
    progress: Progress | None,
) -> int:
    items = [
        ([keys[n] for n in part], [sizes[n] for n in part])
        for part in tasks.by_size(sizes, TASK_BYTES, TASK_CHUNKS)
    ]
    done = total = 0
    tell = progress or (lambda *_: None)
    tell("objects", 0, len(keys))
    for number, size in SparkRunner(spark).run(work, items):
        done += len(items[number][0])
        total += size
        tell("objects", done, len(keys))
    return total
