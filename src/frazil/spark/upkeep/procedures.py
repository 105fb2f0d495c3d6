"""Procedures on repositories, with Iceberg's argument and column names.

Each is a plain function from a repository to rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Final

from pyspark.sql import types as t

from frazil.errors import ErrorKind, NotFoundError
from frazil.maintenance.ages import parse_age
from frazil.maintenance.collecting import Way, carry_out
from frazil.maintenance.deleting import DeleteLimits
from frazil.maintenance.expire import plan_expiry
from frazil.maintenance.garbage_plan import make_plan
from frazil.maintenance.released import expire_with_files
from frazil.repository import Repository
from frazil.spark.tables import repo_tables
from frazil.spark.upkeep.procedure import (
    INT,
    LONG,
    TEXT,
    TIME,
    Place,
    Row,
    bad_argument,
    columns,
    procedure,
)
from frazil.texts import moment

EXPIRE_AGE: Final = timedelta(days=5)
ORPHAN_AGE: Final = timedelta(days=3)


MOVED: Final = columns(previous_snapshot_id=TEXT, current_snapshot_id=TEXT)
REF: Final = columns(name=TEXT, type=TEXT, snapshot_id=TEXT)


def as_time(value: datetime | str | None, default: datetime) -> datetime:
    """A time as text (UTC unless it names a zone) or as a datetime (likewise)."""
    match value:
        case None:
            return default
        case datetime():
            return value if value.tzinfo is not None else value.replace(tzinfo=UTC)
        case _:
            try:
                return moment(str(value))
            except ValueError as error:
                raise bad_argument(f"{value!r} is no time: {error}") from None


def as_age(value: timedelta | str | None) -> timedelta | None:
    """An age as text, such as `12h`, or as a timedelta."""
    return parse_age(value) if isinstance(value, str) else value


# --- moving branches ---


def _move(place: Place, to: str) -> list[Row]:
    before = place.repository.lookup_branch(place.branch)
    if before != to:
        place.repository.reset_branch(place.branch, to, from_snapshot_id=before)
    return [(before, to)]


@procedure("point a branch to an ancestor", MOVED, on_branch=True)
def rollback_to_snapshot(place: Place, snapshot_id: str) -> list[Row]:
    """Point the branch to one of its ancestors."""
    to = place.repository.resolve(snapshot_id)
    if all(info.id != to for info in place.repository.ancestry(branch=place.branch)):
        raise bad_argument(
            f"snapshot {to} is no ancestor of branch {place.branch!r}; set_current_snapshot "
            "points a branch anywhere"
        )
    return _move(place, to)


@procedure("point a branch to what it was", MOVED, on_branch=True)
def rollback_to_timestamp(place: Place, timestamp: datetime | str) -> list[Row]:
    """Point the branch to what it was at a time."""
    when = as_time(timestamp, datetime.now(UTC))
    for info in place.repository.ancestry(branch=place.branch):
        if info.written_at <= when:
            return _move(place, info.id)
    raise NotFoundError(
        f"branch {place.branch!r} has no snapshot as early as {when.isoformat()}",
        kind=ErrorKind.NO_SNAPSHOT_AT_TIME,
    )


@procedure("point a branch to any snapshot", MOVED, on_branch=True)
def set_current_snapshot(
    place: Place, snapshot_id: str | None = None, ref: str | None = None
) -> list[Row]:
    """Point the branch to any snapshot, or to where another branch or a tag points."""
    if (snapshot_id is None) == (ref is None):
        raise bad_argument("set_current_snapshot needs one of snapshot_id and ref")
    return _move(place, place.repository.resolve(str(snapshot_id or ref)))


# --- branches and tags ---


@procedure("make a branch", REF)
def create_branch(place: Place, branch: str, snapshot_id: str | None = None) -> list[Row]:
    """Make a branch at a snapshot; at what the URL names by default."""
    at = place.snapshot() if snapshot_id is None else place.repository.resolve(snapshot_id)
    place.repository.create_branch(branch, at)
    return [(branch, "BRANCH", at)]


@procedure("make a tag", REF)
def create_tag(place: Place, tag: str, snapshot_id: str | None = None) -> list[Row]:
    """Make a tag at a snapshot; at what the URL names by default."""
    at = place.snapshot() if snapshot_id is None else place.repository.resolve(snapshot_id)
    place.repository.create_tag(tag, at)
    return [(tag, "TAG", at)]


@procedure("delete a branch", REF)
def drop_branch(place: Place, branch: str) -> list[Row]:
    """Delete a branch."""
    at = place.repository.lookup_branch(branch)
    place.repository.delete_branch(branch)
    return [(branch, "BRANCH", at)]


@procedure("delete a tag", REF)
def drop_tag(place: Place, tag: str) -> list[Row]:
    """Delete a tag; its name cannot be used again."""
    at = place.repository.lookup_tag(tag)
    place.repository.delete_tag(tag)
    return [(tag, "TAG", at)]


# --- upkeep ---


@procedure(
    "release old snapshots, and delete what only they need",
    columns(
        deleted_data_files_count=LONG,
        deleted_position_delete_files_count=LONG,
        deleted_equality_delete_files_count=LONG,
        deleted_manifest_files_count=LONG,
        deleted_manifest_lists_count=LONG,
        deleted_statistics_files_count=LONG,
        expired_snapshots_count=LONG,
    ),
)
def expire_snapshots(
    place: Place,
    older_than: datetime | str | None = None,
    retain_last: int = 1,
    dry_run: bool = False,
    delete_expired_branches: bool = False,
    delete_expired_tags: bool = False,
    delete_files: bool = True,
    max_concurrent_deletes: int = 10,
    unsafe_minimum_age: timedelta | str | None = None,
) -> list[Row]:
    """Release old snapshots from the history, and delete the files that only they need.

    Files younger than a day, or than `unsafe_minimum_age`, stay.

    Without `delete_files` these stay for remove_orphan_files.
    """
    repository = place.repository
    repository.context.generation.require_expiry()
    cutoff = _keeping(repository, as_time(older_than, datetime.now(UTC) - EXPIRE_AGE), retain_last)
    lost = {
        "delete_expired_branches": delete_expired_branches,
        "delete_expired_tags": delete_expired_tags,
    }
    if delete_files:
        repository.require_writable()
        done = expire_with_files(
            repository.context,
            cutoff,
            **lost,
            dry_run=dry_run,
            unsafe_minimum_age=as_age(unsafe_minimum_age),
            find_chunks=place.find_chunks,
            deleting=DeleteLimits(max_concurrent_deletes),
        )
        gone = done.files
        counts = (gone.chunks_deleted, 0, 0, gone.manifests_deleted, gone.snapshots_deleted, 0)
        return [(*counts, len(done.released))]
    if dry_run:
        released = len(plan_expiry(repository.context, cutoff, **lost).released)
    else:
        released = len(repository.expire_snapshots(cutoff, **lost))
    return [(0, 0, 0, 0, 0, 0, released)]


def _keeping(repository: Repository, cutoff: datetime, retain_last: int) -> datetime:
    """The time before which snapshots go, so that so many of each branch stay."""
    if retain_last < 1:
        raise bad_argument("retain_last must be at least 1")
    for branch in repository.list_branches() if retain_last > 1 else ():
        last = next(islice(repository.ancestry(branch=branch), retain_last - 1, None), None)
        if last is not None:
            cutoff = min(cutoff, last.written_at)
    return cutoff


@procedure("delete files that nothing needs", columns(orphan_file_location=TEXT))
def remove_orphan_files(
    place: Place,
    older_than: datetime | str | None = None,
    dry_run: bool = False,
    max_concurrent_deletes: int = 10,
    unsafe_minimum_age: timedelta | str | None = None,
) -> list[Row]:
    """Delete old files that no snapshot needs, and name those that were deleted.

    Files younger than a day, or than `unsafe_minimum_age`, stay.
    """
    repository, age = place.repository, as_age(unsafe_minimum_age)
    cutoff = as_time(older_than, datetime.now(UTC) - ORPHAN_AGE)
    plan = make_plan(repository.context, cutoff, unsafe_minimum_age=age)
    gone = [*plan.keys()]
    if not dry_run:
        gone = []
        way = Way(deleting=DeleteLimits(max_concurrent_deletes), told=gone.extend)
        carry_out(repository.context, plan, way, unsafe_minimum_age=age)
    url = repository.storage.url.rstrip("/")
    return [(f"{url}/{key}",) for key in sorted(gone)]


@procedure(
    "build manifests anew",
    columns(rewritten_manifests_count=INT, added_manifests_count=INT),
    on_branch=True,
)
def rewrite_manifests(place: Place, message: str = "rewrite manifests") -> list[Row]:
    """Build the manifests of a branch anew by the present settings."""
    repository = place.repository
    before = {m.id for m in repository.list_manifest_files(repository.lookup_branch(place.branch))}
    made = repository.rewrite_manifests(message, branch=place.branch)
    after = {m.id for m in repository.list_manifest_files(made)}
    return [(len(before - after), len(after - before))]


@procedure(
    "put small chunks into shared objects",
    columns(
        rewritten_data_files_count=INT,
        added_data_files_count=INT,
        rewritten_bytes_count=LONG,
        failed_data_files_count=INT,
        removed_delete_files_count=INT,
    ),
    on_branch=True,
)
def rewrite_data_files(
    place: Place,
    path: str = "/",
    dry_run: bool = False,
    message: str = "compact chunks",
) -> list[Row]:
    """Put small chunks into shared objects, and write packs with much dead space anew."""
    done = place.repository.compact_chunks(place.branch, path, message=message, dry_run=dry_run)
    return [(done.objects_before, done.objects_after, done.bytes_rewritten, 0, 0)]


# --- looking ---


@procedure("a snapshot and its ancestors", columns(snapshot_id=TEXT, timestamp=TIME))
def ancestors_of(place: Place, snapshot_id: str | None = None) -> Iterator[Row]:
    """A snapshot and its ancestors, newest first."""
    at = place.snapshot() if snapshot_id is None else place.repository.resolve(snapshot_id)
    return ((info.id, info.written_at) for info in place.repository.ancestry(snapshot_id=at))


@procedure("what commits changed", repo_tables.CHANGES)
def changes(
    place: Place, start_snapshot_id: str | None = None, end_snapshot_id: str | None = None
) -> Iterator[Row]:
    """What commits after a snapshot, up to another, changed."""
    resolve = place.repository.resolve
    start = None if start_snapshot_id is None else resolve(start_snapshot_id)
    end = place.snapshot() if end_snapshot_id is None else resolve(end_snapshot_id)
    return repo_tables.changes(place.repository, start, end)


@procedure(
    "what kind of repository this is",
    columns(
        format=TEXT,
        id=TEXT,
        location=TEXT,
        createdAt=TIME,
        lastModified=TIME,
        numSnapshots=LONG,
        numChunks=LONG,
        sizeInBytes=LONG,
        virtualSizeInBytes=LONG,
        properties=t.MapType(TEXT, TEXT),
        specVersion=INT,
    ),
)
def detail(place: Place) -> list[Row]:
    """What kind of repository this is, in one row."""
    repository = place.repository
    history = list(repository.ancestry(snapshot_id=place.snapshot()))
    stats = repository.chunk_storage_stats()
    files = repository.list_manifest_files(history[0].id)
    return [
        (
            "icechunk",
            history[0].id,
            repository.storage.url,
            history[-1].written_at,
            history[0].written_at,
            len(history),
            sum(file.num_chunk_refs for file in files),
            stats.native_bytes + stats.inlined_bytes,
            stats.virtual_bytes,
            list(repo_tables.texts(repository.get_metadata()).items())
            if repository.context.generation.repo_object
            else [],
            int(repository.spec_version),
        )
    ]
