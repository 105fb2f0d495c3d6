"""What an ingest tells when it is done or refused."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from frazil.drawing.reports import ReportView
from frazil.errors import ErrorKind, InvalidInputError
from frazil.ingestion.plans import IngestFinding, IngestSeverity, PlannedArray
from frazil.ingestion.records import ScanFailure
from frazil.ingestion.sources import display_url
from frazil.ingestion.target import how_to_read
from frazil.masking import safe

_JOINED: Final = ("dimension", "length", "parts")
_COUNTS: Final = ("virtual_chunks", "native_chunks", "referenced_bytes", "copied_bytes")


class IngestStatus(StrEnum):
    """How an ingest ended."""

    PLANNED = "planned"
    """only looked at: a dry run"""
    COMMITTED = "committed"
    UNCHANGED = "unchanged"
    """all files were in already"""
    REFUSED = "refused"


@dataclass(frozen=True, slots=True, repr=False)
class IngestReport(ReportView):
    """What was found, what was written, and what was not."""

    status: IngestStatus
    files: tuple[str, ...] = ()
    skipped: tuple[str, ...] = ()
    failures: tuple[ScanFailure, ...] = ()
    findings: tuple[IngestFinding, ...] = ()
    axes: tuple[tuple[str, int, int], ...] = ()
    """dimensions that files are joined along: name, length, parts"""
    arrays: tuple[PlannedArray, ...] = ()
    snapshot_id: str | None = None
    virtual_chunks: int = 0
    native_chunks: int = 0
    referenced_bytes: int = 0
    copied_bytes: int = 0
    containers: tuple[str, ...] = ()
    added_containers: tuple[str, ...] = ()
    seconds: float = 0.0

    @property
    def errors(self) -> tuple[IngestFinding, ...]:
        """What forbids to write."""
        return tuple(each for each in self.findings if each.level is IngestSeverity.ERROR)

    @property
    def how_to_read(self) -> str | None:
        """What readers of virtual chunks must do; None when there are none."""
        return how_to_read(self.containers) if self.containers else None

    def as_dict(self) -> dict[str, Any]:
        """As plain data."""
        return {
            "status": str(self.status),
            "snapshot": self.snapshot_id,
            "files": len(self.files),
            "skipped": [display_url(url) for url in self.skipped],
            "failures": [
                {"file": display_url(each.url), "error": each.error, "kind": each.kind}
                for each in self.failures
            ],
            "findings": [each.as_row() for each in self.findings],
            "joined": [dict(zip(_JOINED, axis, strict=True)) for axis in self.axes],
            "arrays": [*map(_array, self.arrays)],
            **{name: getattr(self, name) for name in _COUNTS},
            "containers": [*self.containers],
            "added_containers": [*self.added_containers],
            "seconds": round(self.seconds, 3),
        }

    def lines(self) -> Iterator[str]:
        """The report for people."""
        for failure in self.failures:
            yield safe(f"failed: {_failure_text(failure)}")
        for finding in self.findings:
            yield f"{finding.level}: {finding}"

    def __str__(self) -> str:
        return "\n".join([f"ingest {self.status}: {len(self.files)} file(s)", *self.lines()])


def _failure_text(failure: ScanFailure) -> str:
    """What was wrong with a file, which is named once."""
    name = display_url(failure.url)
    return failure.error if name in failure.error else f"{name}: {failure.error}"


def _array(array: PlannedArray) -> dict[str, Any]:
    return {
        "name": array.name,
        "kind": str(array.kind),
        "dims": [*array.dims],
        "shape": [*array.shape],
        "chunks": [*array.chunks],
        "files": len(array.files),
    }


class IngestRefusedError(InvalidInputError):
    """Nothing was written, for reasons that the report tells."""

    report: IngestReport


def refused(report: IngestReport) -> IngestRefusedError:
    """The error for an ingest that cannot be done, with its report."""
    errors = [
        *map(_failure_text, report.failures),
        *map(str, report.errors),
    ]
    count = len(errors)
    shortened = "; ".join(errors[:3]) + (f"; and {count - 3} more" if count > 3 else "")
    helps = any(each.can_materialize for each in report.errors)
    hint = ". Copying the values (materialize) makes some of this possible" if helps else ""
    if report.failures and (report.files or len(report.failures) > 1):
        hint += ". Files that cannot be read can be passed over (on_error: skip)"
    error = IngestRefusedError(
        f"nothing was ingested: {shortened}{hint}", kind=ErrorKind.UNSUITABLE_DATA
    )
    error.report = report
    return error
