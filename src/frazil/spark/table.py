"""`FrazilTable`: the history, metadata and upkeep of a repository as DataFrames."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, Self

from frazil.spark.calls import PROCEDURES, call
from frazil.spark.options import STORAGE
from frazil.spark.reading import as_text, read
from frazil.spark.sessions import session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class FrazilTable:
    """A repository, seen from Spark.

    What changes it runs at once, in this process; the DataFrames say what was done.
    """

    def __init__(
        self, spark: SparkSession, url: str, options: Mapping[str, str] | None = None
    ) -> None:
        self._spark = spark
        self._url = url
        self._options = dict(options or {})

    @classmethod
    def for_path(
        cls,
        spark: SparkSession | None,
        url: str,
        storage_options: Mapping[str, Any] | None = None,
    ) -> Self:
        """The repository at a URL, which may name a branch to work on: `URL@dev`."""
        options = {STORAGE + name: as_text(v) for name, v in (storage_options or {}).items()}
        return cls(spark or session(), url, options)

    @classmethod
    def forPath(
        cls,
        spark: SparkSession | None,
        url: str,
        storage_options: Mapping[str, Any] | None = None,
    ) -> Self:
        """The same as `for_path`, as Delta spells it."""
        return cls.for_path(spark, url, storage_options)

    def to_df(self, **options: Any) -> DataFrame:  # noqa: ANN401  (those of the data source)
        """The cells as a DataFrame; options as for `frazil.spark.read`."""
        return self._read(self._url, **options)

    def metadata_table(self, name: str, **options: Any) -> DataFrame:  # noqa: ANN401
        """A metadata table: snapshots, refs, history, nodes, arrays, manifests, chunks, …"""
        return self._read(f"{self._url}#{name}", **options)

    def _read(self, url: str, **options: Any) -> DataFrame:  # noqa: ANN401
        return read(url, spark=self._spark, **{**self._options, **options})

    def history(self) -> DataFrame:
        """What the branch was and since when, oldest first."""
        return self.metadata_table("history")

    def snapshots(self) -> DataFrame:
        """Every snapshot that a branch or tag leads to."""
        return self.metadata_table("snapshots")

    def refs(self) -> DataFrame:
        """Branches and tags."""
        return self.metadata_table("refs")

    def call(self, procedure: str, **arguments: Any) -> DataFrame:  # noqa: ANN401
        """Run a procedure by its name."""
        given = {name: value for name, value in arguments.items() if value is not None}
        rows = call(procedure, self._url, self._options, **given)
        plain = [tuple(dict(v) if _is_map(v) else v for v in row) for row in rows]
        return self._spark.createDataFrame(plain, PROCEDURES[procedure].returns)

    def detail(self) -> DataFrame:
        """What kind of repository this is, in one row."""
        return self.call("detail")

    def rollback_to_snapshot(self, snapshot_id: str) -> DataFrame:
        """Point the branch to one of its ancestors."""
        return self.call("rollback_to_snapshot", snapshot_id=snapshot_id)

    def rollback_to_timestamp(self, timestamp: datetime | str) -> DataFrame:
        """Point the branch to what it was at a time."""
        return self.call("rollback_to_timestamp", timestamp=timestamp)

    def set_current_snapshot(
        self, snapshot_id: str | None = None, *, ref: str | None = None
    ) -> DataFrame:
        """Point the branch to any snapshot, or to where another branch or a tag points."""
        return self.call("set_current_snapshot", snapshot_id=snapshot_id, ref=ref)

    def fast_forward(self, branch: str, to: str) -> DataFrame:
        """Move a branch to where another is, if it only lags behind."""
        return self.call("fast_forward", branch=branch, to=to)

    def create_branch(self, branch: str, snapshot_id: str | None = None) -> DataFrame:
        """Make a branch at a snapshot; at what the URL names by default."""
        return self.call("create_branch", branch=branch, snapshot_id=snapshot_id)

    def create_tag(self, tag: str, snapshot_id: str | None = None) -> DataFrame:
        """Make a tag at a snapshot; at what the URL names by default."""
        return self.call("create_tag", tag=tag, snapshot_id=snapshot_id)

    def drop_branch(self, branch: str) -> DataFrame:
        """Delete a branch."""
        return self.call("drop_branch", branch=branch)

    def drop_tag(self, tag: str) -> DataFrame:
        """Delete a tag; its name cannot be used again."""
        return self.call("drop_tag", tag=tag)

    def expire_snapshots(
        self,
        older_than: datetime | str | None = None,
        *,
        retain_last: int = 1,
        dry_run: bool = False,
        delete_expired_branches: bool = False,
        delete_expired_tags: bool = False,
    ) -> DataFrame:
        """Release snapshots older than a time, five days ago by default, from the history."""
        return self.call(
            "expire_snapshots",
            older_than=older_than,
            retain_last=retain_last,
            dry_run=dry_run,
            delete_expired_branches=delete_expired_branches,
            delete_expired_tags=delete_expired_tags,
        )

    def remove_orphan_files(
        self,
        older_than: datetime | str | None = None,
        *,
        dry_run: bool = False,
        max_concurrent_deletes: int = 10,
    ) -> DataFrame:
        """Delete files that nothing needs and that are older than a time, three days by default."""
        return self.call(
            "remove_orphan_files",
            older_than=older_than,
            dry_run=dry_run,
            max_concurrent_deletes=max_concurrent_deletes,
        )

    def rewrite_manifests(self, message: str = "rewrite manifests") -> DataFrame:
        """Build the manifests of the branch anew by the present settings."""
        return self.call("rewrite_manifests", message=message)

    def rewrite_data_files(
        self, path: str = "/", *, dry_run: bool = False, message: str = "compact chunks"
    ) -> DataFrame:
        """Put small chunks into shared objects."""
        return self.call("rewrite_data_files", path=path, dry_run=dry_run, message=message)

    def ancestors_of(self, snapshot_id: str | None = None) -> DataFrame:
        """A snapshot and its ancestors, newest first."""
        return self.call("ancestors_of", snapshot_id=snapshot_id)

    def changes(
        self, start_snapshot_id: str | None = None, end_snapshot_id: str | None = None
    ) -> DataFrame:
        """What commits after a snapshot, up to another, changed."""
        return self.metadata_table(
            "changes", start_snapshot_id=start_snapshot_id, end_snapshot_id=end_snapshot_id
        )


def _is_map(value: object) -> bool:
    """Tell whether a value is the pairs of a map, as Arrow takes them."""
    return isinstance(value, list) and all(isinstance(each, tuple) for each in value)
