"""`FrazilTable`: the history, metadata and upkeep of a repository as DataFrames."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Self

from frazil.spark.jobs.value_diffs import DiffBy, diff_values
from frazil.spark.location import location_of
from frazil.spark.options.written import storage_texts
from frazil.spark.reading.read import read
from frazil.spark.runner import SparkRunner
from frazil.spark.sessions import session
from frazil.spark.tasks import local_frame
from frazil.spark.tuning import MANY_REFS
from frazil.spark.upkeep.calls import call
from frazil.spark.upkeep.fsck import fsck, verify
from frazil.spark.upkeep.garbage import collect_garbage
from frazil.spark.upkeep.procedure import procedure_named
from frazil.spark.upkeep.procedure_methods import ProcedureMethods
from frazil.spark.upkeep.space import storage
from frazil.spark.upkeep.verbs import ORPHAN_AGE, as_age, as_time

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class FrazilTable(ProcedureMethods):
    """A repository, seen from Spark: its metadata tables, and a method for each procedure.

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
        cls, spark: SparkSession | None, url: str, storage_options: Mapping[str, Any] | None = None
    ) -> Self:
        """The repository at a URL, which may name a branch to work on: `URL@dev`."""
        return cls(spark or session(), url, storage_texts(storage_options))

    @classmethod
    def forPath(
        cls, spark: SparkSession | None, url: str, storage_options: Mapping[str, Any] | None = None
    ) -> Self:
        """The same as `for_path`, as Delta spells it."""
        return cls.for_path(spark, url, storage_options)

    def to_df(self, **options: Any) -> DataFrame:  # noqa: ANN401  (those of the data source)
        """The cells as a DataFrame; options as for `frazil.spark.read`."""
        return self._read(self._url, **options)

    def metadata_table(
        self,
        name: str,
        **options: Any,  # noqa: ANN401  (those of the data source)
    ) -> DataFrame:
        """A metadata table: snapshots, refs, history, nodes, arrays, manifests, chunks, …"""
        return self._read(f"{self._url}#{name}", **options)

    def _read(self, url: str, **options: Any) -> DataFrame:  # noqa: ANN401  (likewise)
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

    def call(
        self,
        procedure: str,
        **arguments: Any,  # noqa: ANN401  (those of the procedure)
    ) -> DataFrame:
        """Run a procedure by its name."""
        given = {name: value for name, value in arguments.items() if value is not None}
        known = procedure_named(procedure)
        runner = SparkRunner(self._spark) if known.can_spread and self._is_large() else None
        rows = call(procedure, self._url, self._options, runner=runner, **given)
        return local_frame(self._spark, rows, known.returns)

    def remove_orphan_files(
        self,
        older_than: datetime | str | None = None,
        *,
        dry_run: bool = False,
        max_concurrent_deletes: int = 10,
        inventory: DataFrame | None = None,
        unsafe_minimum_age: timedelta | str | None = None,
    ) -> DataFrame:
        """Delete files that nothing needs and that are older than a time, three days by default.

        What is younger than a day by the clock of the store, or than `unsafe_minimum_age`, stays.

        Executors look for them when an `inventory` is given (see `garbage.inventory_listing`),
        or when there are very many.
        """
        if inventory is None and not self._is_large():
            return self.call(
                "remove_orphan_files",
                older_than=older_than,
                dry_run=dry_run,
                max_concurrent_deletes=max_concurrent_deletes,
                unsafe_minimum_age=unsafe_minimum_age,
            )
        keys: list[str] = []
        collect_garbage(
            self._url,
            as_time(older_than, datetime.now(UTC) - ORPHAN_AGE),
            dry_run=dry_run,
            spark=self._spark,
            inventory=inventory,
            options=self._options,
            max_concurrent_deletes=max_concurrent_deletes,
            unsafe_minimum_age=as_age(unsafe_minimum_age),
            on_deleted=keys.extend,
        )
        place = location_of(self._url, self._options).location.storage().url.rstrip("/")
        rows = [(f"{place}/{key}",) for key in sorted(keys)]
        return local_frame(self._spark, rows, procedure_named("remove_orphan_files").returns)

    vacuum = remove_orphan_files

    def verify(self, *, all_history: bool = False, virtual: bool = False) -> DataFrame:
        """Objects that are not as references need them; see `frazil.spark.verify`."""
        return verify(
            self._url,
            spark=self._spark,
            all_history=all_history,
            virtual=virtual,
            options=self._options,
        )

    def fsck(self, *, deep: bool = False, virtual: bool = False) -> DataFrame:
        """Rules of the format that are broken; see `frazil.spark.fsck`."""
        return fsck(self._url, spark=self._spark, deep=deep, virtual=virtual, options=self._options)

    def storage(self, by: str = "array") -> DataFrame:
        """How much is stored by `array`, `snapshot` or `branch`."""
        return storage(self._url, by, spark=self._spark, options=self._options)

    def diff_values(
        self, before: str, after: str, by: DiffBy = "array", *, paths: Sequence[str] | None = None
    ) -> DataFrame:
        """How the values of two versions differ; see `frazil.spark.diff_values`."""
        return diff_values(
            self._url, before, after, by, paths=paths, spark=self._spark, options=self._options
        )

    def _is_large(self) -> bool:
        """Whether there are so many references that work on them is better spread."""
        target = location_of(self._url, self._options)
        repository = target.location.open()
        files = repository.list_manifest_files(target.snapshot(repository))
        return sum(file.num_chunk_refs for file in files) > MANY_REFS

    def changes(
        self, start_snapshot_id: str | None = None, end_snapshot_id: str | None = None
    ) -> DataFrame:
        """What commits after a snapshot, up to another, changed."""
        return self.metadata_table(
            "changes", start_snapshot_id=start_snapshot_id, end_snapshot_id=end_snapshot_id
        )
