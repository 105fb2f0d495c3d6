"""Checks the rules of the format with many tasks, and returns the findings as a DataFrame.

The checks themselves are in `frazil.fsck`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final

from pyspark.sql import types as t

from frazil import fsck as checks
from frazil.errors import FormatError, RepositoryNotFoundError
from frazil.fsck.files import open_anyway
from frazil.fsck.findings import Finding
from frazil.spark.location import RepositoryLocation
from frazil.spark.runner import SparkRunner
from frazil.spark.tasks import Options, local_frame, target_of
from frazil.spark.upkeep.procedure import LONG, TEXT, ProcedureTarget, ResultRow, columns, procedure
from frazil.transaction.context import Context
from frazil.transaction.opened import context_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FINDINGS: Final = columns(
    level=TEXT,
    code=TEXT,
    target=TEXT,
    path=TEXT,
    detail=TEXT,
    chunks=t.ArrayType(t.ArrayType(LONG)),
    references=LONG,
)


def fsck(
    url: str,
    *,
    spark: SparkSession | None = None,
    deep: bool = False,
    virtual: bool = False,
    options: Options | None = None,
) -> DataFrame:
    """Check that a repository keeps every rule of the format.

    Args:
        url: the repository, or `URL@version` for the history of one version.
        spark: the session to use; the active or an embedded one by default.
        deep: decode every chunk.
        virtual: also ask the sources of virtual chunks whether they are unchanged; they must be
            authorised by `options`.
        options: options of the data source, such as `storage.region`.

    Returns:
        A row for each finding: `level` (error, warning, note), `code`, `target`, `path`,
        `detail`, `chunks` (some of those concerned) and `references`. No rows mean that all is
        well.
    """
    target, runner = target_of(url, options), SparkRunner(spark)
    refs = None if target.ref is None else [target.snapshot(target.location.open())]
    report = checks.fsck(
        _open(target.location),
        refs=refs,
        deep=deep,
        virtual=virtual,
        max_findings=sys.maxsize,
        runner=runner,
    )
    return local_frame(runner.spark, _rows(report.findings), FINDINGS)


def verify(
    url: str,
    *,
    spark: SparkSession | None = None,
    all_history: bool = False,
    virtual: bool = False,
    options: Options | None = None,
) -> DataFrame:
    """Check that everything references need is there: the rules `REFERENCES` of `fsck`.

    Args:
        url: `URL[@version]`.
        spark: the session to use; the active or an embedded one by default.
        all_history: check everything that branches and tags lead to, not one version.
        virtual: also ask the sources of virtual chunks whether they are unchanged; they must be
            authorised by `options`.
        options: options of the data source, such as `storage.region`.

    Returns:
        A row for each object that is missing, short, damaged or changed, as `fsck` has them. No
        rows mean that all is well.
    """
    target, runner = target_of(url, options), SparkRunner(spark)
    repository = target.location.open()
    report = checks.verify(
        repository,
        None if all_history else [target.snapshot(repository)],
        virtual=virtual,
        max_findings=sys.maxsize,
        runner=runner,
    )
    return local_frame(runner.spark, _rows(report.findings), FINDINGS)


def _open(location: RepositoryLocation) -> Context:
    """The parts of a repository, also of one that cannot be opened."""
    try:
        return context_of(location.open())
    except (FormatError, RepositoryNotFoundError):
        return open_anyway(location.storage())


def _rows(findings: Iterable[Finding]) -> Iterator[ResultRow]:
    for each in findings:
        chunks = [list(index) for index in each.chunks]
        level = str(each.level)
        yield level, str(each.code), each.target, each.path, each.detail, chunks, each.references


# --- in SQL: no row of the table of verbs, as `all_history` is two parameters of the verb ---


@procedure("rules of the format that are broken", FINDINGS, name="fsck", can_spread=True)
def fsck_procedure(
    place: ProcedureTarget, all_history: bool = True, deep: bool = False, virtual: bool = False
) -> Iterable[ResultRow]:
    """Findings of a whole repository, or of the version that the URL names."""
    refs = None if all_history else [place.snapshot()]
    report = checks.fsck(
        place.repository,
        refs=refs,
        ancestors=all_history,
        deep=deep,
        virtual=virtual,
        max_findings=sys.maxsize,
        runner=place.runner,
    )
    return _rows(report.findings)
