"""The records of a plan: what an ingest will write, and where each file's part goes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from frazil.cf.times import TimeUnits
from frazil.ingestion.encoding import decoded_fill, encoded_dtype
from frazil.ingestion.records import Array, FileScan, FileVariable, Shape
from frazil.ingestion.sources import display_url
from frazil.masking import MaskedRecord, safe

NAMED_FILES: Final = 5
"""so many files a message names; the report has all"""


class IngestSeverity(StrEnum):
    """How much a finding matters."""

    ERROR = "error"
    """nothing can be written as things are"""
    WARNING = "warning"
    NOTE = "note"


ABSENT: Final = -1


@dataclass(frozen=True, slots=True, eq=False)
class JoinAxis:
    """A dimension along which files are joined."""

    name: str
    length: int
    block: npt.NDArray[np.int64]
    """for each file the number of its part; -1 when it lacks the dimension"""
    starts: npt.NDArray[np.int64]
    """where each part begins, and where the last one ends"""
    values: Array | None
    """all coordinate values in order; None where there are none"""
    units: TimeUnits | None
    """what the values count, where files did not agree on it"""
    is_new: bool
    """whether files have it only as a scalar, or not at all"""

    @property
    def blocks(self) -> int:
        """How many parts there are."""
        return len(self.starts) - 1

    def start(self, file: int) -> int:
        """Where the part of a file begins; 0 for files without the dimension."""
        block = int(self.block[file])
        return 0 if block == ABSENT else int(self.starts[block])

    def span(self, file: int) -> slice:
        """The part of a file."""
        block = int(self.block[file])
        return slice(int(self.starts[block]), int(self.starts[block + 1]))


@dataclass(frozen=True, slots=True)
class IngestFinding:
    """Something about some files that a user should know."""

    level: IngestSeverity
    code: str
    message: str
    files: tuple[str, ...] = ()
    variable: str | None = None
    can_materialize: bool = False
    """whether copying the values, decoded, would make it right"""

    def __str__(self) -> str:
        about = f"{self.variable}: " if self.variable else ""
        named = ", ".join(display_url(url) for url in self.files[:NAMED_FILES])
        more = len(self.files) - NAMED_FILES
        where = f" [{named}{f' and {more} more' if more > 0 else ''}]" if named else ""
        return safe(f"{about}{self.message}{where}")

    def as_row(self) -> dict[str, object]:
        """As plain data."""
        return {
            "level": str(self.level),
            "code": self.code,
            "variable": self.variable,
            "message": self.message,
            "files": [display_url(url) for url in self.files],
        }


@dataclass(slots=True)
class Findings:
    """A list of findings that grows."""

    found: list[IngestFinding] = field(default_factory=list)
    refused: frozenset[str] = frozenset()
    """codes of warnings that shall forbid to go on"""

    def error(
        self,
        code: str,
        message: str,
        files: Iterable[str] = (),
        variable: str | None = None,
        *,
        can_materialize: bool = False,
    ) -> None:
        """Add what forbids to go on."""
        finding = IngestFinding(
            IngestSeverity.ERROR, code, message, tuple(files), variable, can_materialize
        )
        self.found.append(finding)

    def warn(
        self, code: str, message: str, files: Iterable[str] = (), variable: str | None = None
    ) -> None:
        """Add what a user should look at."""
        level = IngestSeverity.ERROR if code in self.refused else IngestSeverity.WARNING
        self.found.append(IngestFinding(level, code, message, tuple(files), variable))

    def note(
        self, code: str, message: str, files: Iterable[str] = (), variable: str | None = None
    ) -> None:
        """Add what is good to know."""
        self.found.append(IngestFinding(IngestSeverity.NOTE, code, message, tuple(files), variable))

    @property
    def errors(self) -> Sequence[IngestFinding]:
        """What forbids to go on."""
        return [each for each in self.found if each.level is IngestSeverity.ERROR]


REPOSITORY: Final = "the repository"
"""stands for a file where the first part of an array is what the repository has"""


class TransferKind(StrEnum):
    """How a variable gets into the repository."""

    LOADED = "loaded"
    """its values are in memory and are written with the commit"""
    VIRTUAL = "virtual"
    NATIVE = "native"
    """its values are copied by tasks"""


class IngestMode(StrEnum):
    """What a user wants of variables that are not loaded."""

    VIRTUAL = "virtual"
    NATIVE = "native"
    AUTO = "auto"


@dataclass(frozen=True, slots=True)
class PlanOptions:
    """What a user wants of an ingest, as far as planning goes."""

    mode: IngestMode = IngestMode.VIRTUAL
    concat_dims: tuple[str, ...] = ()
    chunks: Mapping[str, int] = field(default_factory=dict)
    compressor: str | None = None
    materialize: bool = False
    native_arrays: frozenset[str] = frozenset()
    """arrays of the repository whose chunks are its own"""
    checksum: bool = False
    """whether chunks that are copied end in a checksum"""

    @property
    def copies(self) -> bool:
        """Whether what cannot be referred to is copied."""
        return self.materialize or self.mode is not IngestMode.VIRTUAL


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class JoinedVariable(MaskedRecord):
    """One variable in the files that have it, and the axes along which those are joined."""

    name: str
    dims: tuple[str, ...]
    urls: Sequence[str]
    files: Sequence[int]
    parts: Sequence[FileVariable]
    axes: Mapping[str, JoinAxis]
    has_base: bool
    """whether the first part is what the repository has"""

    @property
    def own_urls(self) -> Sequence[str]:
        """The files that parts come from."""
        return self.urls[1:] if self.has_base else self.urls

    @property
    def own(self) -> Sequence[FileVariable]:
        """The parts that come from files."""
        return self.parts[1:] if self.has_base else self.parts


@dataclass(frozen=True, slots=True, eq=False)
class PlannedArray:
    """An array to make or to extend."""

    name: str
    kind: TransferKind
    dims: tuple[str, ...]
    shape: Shape
    chunks: Shape
    encoding: str
    attrs: Mapping[str, Any]
    files: tuple[int, ...]
    """numbers of the scans that give its parts; the base is not among them"""
    is_decoded: bool = False
    """whether CF packing is undone, since it differs between files"""
    split: int = 0
    """length along the first axis that uncompressed chunks of files are cut into, if they are"""
    base_shape: Shape | None = None
    """what the repository has of it"""

    @property
    def first(self) -> Shape:
        """Where new values begin."""
        if self.base_shape is None:
            return (0,) * len(self.dims)
        pairs = zip(self.base_shape, self.shape, strict=True)
        return tuple(0 if old == new else old for old, new in pairs)


def with_new_axes(shape: Shape, ndim: int) -> Shape:
    """The shape of a part, or of its chunks, with axes of length one that its file lacks.

    They come first. Names do not tell which axis is which: a matrix may have one of them twice.
    """
    return (1,) * (ndim - len(shape)) + shape


@dataclass(frozen=True, slots=True, eq=False)
class IngestPlan:
    """All arrays of an ingest."""

    scans: tuple[FileScan, ...]
    axes: tuple[JoinAxis, ...]
    arrays: tuple[PlannedArray, ...]
    attributes: str
    has_base: bool = False

    def axis(self, name: str) -> JoinAxis | None:
        """The axis that joins files along a dimension, if there is one."""
        return next((axis for axis in self.axes if axis.name == name), None)

    def start(self, array: PlannedArray, file: int) -> Shape:
        """Where the part of a file begins in an array."""
        axes = [self.axis(dim) for dim in array.dims]
        return tuple(0 if axis is None else axis.start(file) for axis in axes)

    def part_shape(self, array: PlannedArray, file: int) -> Shape:
        """The shape of the part of a file, with axes that the file itself lacks."""
        return with_new_axes(self.scans[file][array.name].shape, len(array.dims))


def missing_value(array: PlannedArray) -> Any:  # noqa: ANN401  (a scalar of any type)
    """What stands where no file has a value."""
    dtype = encoded_dtype(array.encoding)
    found = decoded_fill(array.attrs, dtype)
    return np.zeros((), dtype)[()] if found is None else found
