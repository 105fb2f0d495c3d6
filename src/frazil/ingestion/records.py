"""What a scan of one file gives: arrays as metadata and columns, small enough to send around."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import prod
from typing import Any, Final, Self, TypeAlias

import numpy as np
import numpy.typing as npt

from frazil.arrays import Array as Array
from frazil.arrays import Shape as Shape
from frazil.errors import ErrorKind, InvalidInputError, unsuitable
from frazil.ids import utf8
from frazil.masking import MaskedRecord
from frazil.model.marks import GONE, INGEST, NAME_BYTES, STATE_BYTES, marks_of, packed

NO_BYTES: Final = b""
PHONY: Final = "phony_dim_"
"""how names begin that stand for dimensions without one, as in the library of NetCDF"""


@dataclass(frozen=True, slots=True)
class Identity:
    """A file as it was when it was looked at: what tells whether it is still the same."""

    size: int
    etag: str | None
    modified: int
    """seconds since 1970, rounded up; 0 when the store does not tell"""
    stamp: str = ""
    """what tells states apart more finely, if it is no tag that others would compare"""

    @property
    def checksum(self) -> str | int | None:
        """What references to the file keep: an ETag where there is one, else the time."""
        return self.etag or self.modified or None


@dataclass(frozen=True, repr=False)
class InputFile(MaskedRecord):
    """A file to read, how to reach it, and what of it is wanted."""

    url: str
    given: tuple[tuple[str, Any], ...] = field(default=(), repr=False)
    """the options of the store that it is in, secrets included"""
    group: str = ""
    allowed: tuple[str, ...] = ()
    """prefixes of further files that may be read for it"""
    identity: Identity | None = None
    """None for folders"""

    @cached_property
    def options(self) -> Mapping[str, Any]:
        """The options of the store."""
        return dict(self.given)


class ObstacleError(Exception):
    """Why the bytes of a variable cannot be referred to."""


@dataclass(frozen=True, slots=True, eq=False)
class FileReferences:
    """Chunks of an array in somebody's files, as columns; chunks that are not there have no row."""

    index: npt.NDArray[np.integer[Any]]
    """number of each chunk in the grid of its array, in C order, ascending"""
    offset: npt.NDArray[np.uint64]
    length: npt.NDArray[np.uint64]
    location: npt.NDArray[np.int32]
    """number into `locations`; -1 for bytes that are in `inline`"""
    locations: tuple[str, ...]
    inline: bytes = NO_BYTES
    marks: tuple[str | int | None, ...] = ()
    """what tells the states of these files, ETags or times; none for the file that was scanned"""

    def __len__(self) -> int:
        return len(self.index)

    @property
    def nbytes(self) -> int:
        """Bytes of all chunks together, as they are stored."""
        return int(self.length.sum())

    def compact(self) -> FileReferences:
        """The same in less memory: columns with one value everywhere take none."""
        small = len(self) and int(self.index[-1]) < 1 << 31
        return replace(
            self,
            index=self.index.astype(np.int32) if small else self.index,
            length=_constant(self.length),
            location=_constant(self.location),
        )

    @classmethod
    def of_file(
        cls,
        location: str,
        index: npt.ArrayLike,
        offset: npt.ArrayLike,
        length: npt.ArrayLike,
    ) -> FileReferences:
        """References into one file, in any order."""
        numbers = np.asarray(index, np.int64).reshape(-1)
        order = np.argsort(numbers, kind="stable")
        return cls(
            numbers[order],
            np.asarray(offset, np.uint64).reshape(-1)[order],
            np.asarray(length, np.uint64).reshape(-1)[order],
            np.zeros(len(numbers), np.int32),
            (location,),
        )

    @classmethod
    def of_rows(
        cls,
        rows: Iterable[tuple[int, int, int, str]],
        inline: bytes = NO_BYTES,
        marks: Mapping[str, str | int | None] | None = None,
    ) -> Self:
        """References into any files, in any order: index, offset, length and location of each.

        Those without location are in `inline`; `marks` are by location.
        """
        ordered = sorted(rows)
        texts = tuple(dict.fromkeys(row[3] for row in ordered if row[3]))
        number = {"": -1, **{text: place for place, text in enumerate(texts)}}
        columns = np.array([row[:3] for row in ordered], np.int64).reshape(len(ordered), 3)
        return cls(
            columns[:, 0].copy(),
            columns[:, 1].astype(np.uint64),
            columns[:, 2].astype(np.uint64),
            np.array([number[row[3]] for row in ordered], np.int32),
            texts,
            inline,
            () if marks is None else tuple(marks.get(text) for text in texts),
        )

    @classmethod
    def of_bytes(cls, data: bytes) -> FileReferences:
        """A single chunk whose bytes come along; one without bytes is not there."""
        count = 1 if data else 0
        return cls(
            np.zeros(count, np.int64),
            np.zeros(count, np.uint64),
            np.full(count, len(data), np.uint64),
            np.full(count, -1, np.int32),
            (),
            data,
        )


def _constant(column: npt.NDArray[Any]) -> npt.NDArray[Any]:
    if len(column) > 1 and (column == column[0]).all():
        return np.broadcast_to(column[0], column.shape)
    return column


@dataclass(frozen=True, slots=True, eq=False)
class FileVariable:
    """An array of a file."""

    name: str
    dims: tuple[str, ...]
    shape: Shape
    chunks: Shape
    encoding: str
    """the parts of Zarr metadata that say what bytes mean, as JSON with sorted keys"""
    attributes: str
    """as JSON, in the order of the file"""
    references: FileReferences | None
    """None: only `values` has the content"""
    values: Array | None = None
    """the content as stored, before CF decoding, of variables that are loaded"""
    obstacle: str = ""
    """why there are no references, if values can only be copied"""

    @property
    def grid(self) -> Shape:
        """Chunks along each axis."""
        return tuple(-(-n // c) if n else 0 for n, c in zip(self.shape, self.chunks, strict=True))

    @property
    def is_raw(self) -> bool:
        """Whether chunks are nothing but numbers one after the other."""
        return [codec["name"] for codec in self.meaning["codecs"]] == ["bytes"]

    def region(self, chunk: int) -> tuple[slice, ...]:
        """The cells of a chunk, by its number."""
        place = np.unravel_index(chunk, self.grid) if self.grid else ()
        return tuple(
            slice(int(at) * size, min((int(at) + 1) * size, length))
            for at, size, length in zip(place, self.chunks, self.shape, strict=True)
        )

    def compact(self) -> FileVariable:
        """The same in less memory: loaded variables need no references."""
        refs = self.references
        if refs is None:
            return self
        return replace(self, references=None if self.values is not None else refs.compact())

    @property
    def attrs(self) -> dict[str, Any]:
        """Attributes as a dictionary of its own."""
        found: dict[str, Any] = json.loads(self.attributes)
        return found

    @property
    def meaning(self) -> dict[str, Any]:
        """The encoding as a dictionary of its own: data_type, codecs, fill_value."""
        found: dict[str, Any] = json.loads(self.encoding)
        return found

    @property
    def size(self) -> int:
        """Number of values."""
        return prod(self.shape)


@dataclass(frozen=True, slots=True, eq=False)
class ParsedFile:
    """What the reader of a format gives: a file in Zarr's terms."""

    variables: Sequence[FileVariable]
    attributes: str = "{}"
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class FileScan(MaskedRecord):
    """One file, opened and described."""

    url: str
    format: str
    identity: Identity
    variables: tuple[FileVariable, ...]
    attributes: str = "{}"
    notes: tuple[str, ...] = ()
    """what was left out, and why"""
    group: str = ""
    allowed: tuple[str, ...] = ()
    """prefixes of further files that may be read for it"""
    named: tuple[str, ...] = ()
    """those that it has of the names to load or to leave out"""

    def __getitem__(self, name: str) -> FileVariable:
        found = self.get(name)
        if found is None:
            raise KeyError(name)
        return found

    def compact(self) -> FileScan:
        """The same in less memory."""
        return replace(self, variables=tuple(each.compact() for each in self.variables))

    def get(self, name: str) -> FileVariable | None:
        """A variable by name, or None."""
        return next((each for each in self.variables if each.name == name), None)

    def origin(self, name: str) -> VariableOrigin:
        """Where the values of a variable are."""
        attributes, group = self[name].attributes, self.group
        return VariableOrigin(
            self.url, self.format, group, name, self.identity, attributes, self.allowed
        )

    def require_text(self) -> None:
        """Refuse names and attributes that no file of a repository can hold.

        Raises:
            InvalidInputError: a text holds half of a character, a lone surrogate, as JSON may
                spell it.
        """
        for variable in self.variables:
            texts = [variable.name, *variable.dims, json.loads(variable.attributes)]
            try:
                utf8(json.dumps(texts, ensure_ascii=False))
            except InvalidInputError as error:
                problem = "a name or attribute holds half of a character, a lone surrogate"
                raise unsuitable(problem, file=self.url, variable=ascii(variable.name)) from error

    @property
    def sizes(self) -> dict[str, int]:
        """Lengths of the dimensions."""
        found: dict[str, int] = {}
        for variable in self.variables:
            for dim, length in zip(variable.dims, variable.shape, strict=True):
                if found.setdefault(dim, length) != length:
                    raise unsuitable(
                        f"the dimension {dim!r} has the lengths {found[dim]} and {length}",
                        file=self.url,
                        variable=variable.name,
                    )
        return found


@dataclass(frozen=True, slots=True, repr=False)
class VariableOrigin(MaskedRecord):
    """A variable of a file, as tasks need it to read values."""

    url: str
    format: str
    group: str
    name: str
    identity: Identity
    attributes: str = "{}"
    allowed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, repr=False)
class ScanFailure(MaskedRecord):
    """A file that could not be scanned."""

    url: str
    error: str
    kind: str = ErrorKind.UNSUITABLE_DATA


@dataclass(frozen=True, slots=True, repr=False)
class SkippedFile(MaskedRecord):
    """A file that is in the repository already."""

    url: str


Outcome: TypeAlias = FileScan | ScanFailure | SkippedFile


@dataclass(frozen=True, slots=True, repr=False)
class ScanTask(MaskedRecord):
    """A file to scan, and how."""

    url: str
    known: bytes | None = None
    """a mark of the file's state when it was ingested before"""
    format: str | None = None
    group: str = ""
    load: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()
    allowed: tuple[str, ...] = ()
    """prefixes of further files that the file may refer to"""


def canonical(value: object) -> str:
    """JSON with sorted keys, so that equal things are equal texts."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def ordered_json(value: object) -> str:
    """JSON in the order given."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


# --- which files a repository holds already ---

# A commit keeps twelve bytes for each file: eight of a hash of its URL, four of its state. That is
# short enough for ten thousand files, and long enough that two files hardly share a mark.


def name_mark(url: str) -> bytes:
    """The mark of a file's name."""
    return hashlib.blake2b(url.encode(), digest_size=NAME_BYTES).digest()


def state_mark(identity: Identity) -> bytes:
    """The mark of a file's state."""
    text = f"{identity.size} {identity.etag or identity.stamp or identity.modified}"
    return hashlib.blake2b(text.encode(), digest_size=STATE_BYTES).digest()


def as_metadata(
    files: Sequence[tuple[str, Identity]], group: str, **facts: object
) -> dict[str, Any]:
    """What a commit keeps of the files that went into it."""
    marks = {name_mark(url): state_mark(identity) for url, identity in files}
    return {INGEST: {"group": group, "files": len(files), "marks": packed(marks), **facts}}


def known_files(commits: Iterable[Mapping[str, Any]], group: str) -> dict[bytes, bytes]:
    """States of the files that commits with this metadata took in, by the marks of their names.

    The newest commit comes first. Metadata that are not ours are left alone.
    """
    found: dict[bytes, bytes] = {}
    for metadata in commits:
        for name, state in marks_of(metadata).files.get(group, {}).items():
            found.setdefault(name, state)
    return {name: state for name, state in found.items() if state != GONE}
