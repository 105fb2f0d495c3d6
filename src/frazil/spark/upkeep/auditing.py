"""Checks in SQL of what was written, before it is published."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final

from frazil.repository.checks import Check, CheckFunction
from frazil.session import Session
from frazil.spark import tasks
from frazil.spark.errors import raise_task_errors
from frazil.spark.query.views import temporary_views
from frazil.spark.reading.read import read
from frazil.spark.sessions import session as spark_session
from frazil.spark.tasks import Options

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

VIEW: Final = "data"
MOST_SHOWN: Final = 5
"""Rows that a report shows of what a query found."""


def sql_check(
    query: str,
    *,
    name: str = "",
    view: str = VIEW,
    spark: SparkSession | None = None,
    options: Options | None = None,
    **reading: Any,  # noqa: ANN401  (options of the data source)
) -> Check:
    """A check that is a query on what was written, which is there as the view `data`.

    A query with one column of booleans passes if all are true. Any other must find nothing: its
    rows are what is wrong.

    Args:
        query: SQL.
        name: what reports call it; the query by default.
        view: the name of the cells in the query.
        spark: the session to use; the active or an embedded one by default.
        options: options of the data source, such as `storage.region`.
        reading: options of `frazil.spark.read`, such as `group` and `variables`.
    """

    def run(session: Session) -> str | None:
        chosen = spark or spark_session()
        url = session.state.context.storage.url
        tasks.target_of(url, options)  # refuses what tasks could not open
        given = {**(options or {}), **reading}
        data = read(f"{url}@{session.snapshot_id}", spark=chosen, **given)
        with raise_task_errors(), temporary_views(chosen, {view: data}):
            return _trouble(chosen.sql(query))

    return Check(run, name or " ".join(query.split()))


def _trouble(found: DataFrame) -> str | None:
    """What the answer to a query says is wrong."""
    kinds = [field.dataType.typeName() for field in found.schema.fields]
    if kinds == ["boolean"]:
        column = found.columns[0]
        verdicts = [row[0] for row in found.where(f"NOT coalesce(`{column}`, false)").head(1)]
        return "it is not so" if verdicts else None
    rows = found.head(MOST_SHOWN + 1)
    if not rows:
        return None
    shown = "; ".join(
        ", ".join(f"{name}={value}" for name, value in row.asDict().items())
        for row in rows[:MOST_SHOWN]
    )
    return f"found {shown}" + ("; …" if len(rows) > MOST_SHOWN else "")


@contextlib.contextmanager
def staged(
    url: str,
    branch: str = "main",
    checks: Iterable[Check | CheckFunction | str] = (),
    audit_branch: str | None = None,
    *,
    spark: SparkSession | None = None,
    options: Options | None = None,
    **more: Any,  # noqa: ANN401  (those of `Repository.audit.staged`)
) -> Iterator[Session]:
    """`Repository.audit.staged` for the repository at a URL; texts among the checks are SQL.

    To write with Spark, give `branch=session.branch`, commit there, and leave the session alone.
    """
    repository = tasks.target_of(url, options).location.open()
    chosen = [
        sql_check(each, spark=spark, options=options) if isinstance(each, str) else each
        for each in checks
    ]
    with repository.audit.staged(branch, chosen, audit_branch, **more) as session:
        yield session
