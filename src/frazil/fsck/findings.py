"""What a check may find: the table of rules, a finding, and the report of a whole check."""

from __future__ import annotations

from collections.abc import Iterable, Set
from dataclasses import dataclass, field
from enum import StrEnum, auto
from typing import Any, Final, Self

from frazil.drawing.reports import ReportView
from frazil.masking import safe
from frazil.model.nodes import Coordinates

MAX_FINDINGS: Final = 1000
"""Findings that are reported in full; the rest is counted."""
REPORTED_NODES: Final = 100
"""Nodes of a snapshot for which one rule is reported; the rest is counted."""
SHOWN_CHUNKS: Final = 4
"""Chunks that a finding names; the rest is counted."""


class Level(StrEnum):
    """How bad a finding is."""

    ERROR = "error"
    """some reader fails, or reads something else than was written"""
    WARNING = "warning"
    """a rule is broken, but readers are not affected"""
    NOTE = "note"
    """worth knowing, nothing is wrong"""


_E, _W, _N = Level.ERROR, Level.WARNING, Level.NOTE


class Code(StrEnum):
    """The rules: how bad it is to break them, and what that means.

    Names (`CHUNK_EMPTY` is `chunk-empty`) stay the same from one version of this package to the
    next.
    """

    level: Level
    meaning: str

    @staticmethod
    def _generate_next_value_(name: str, *_: object) -> str:
        return name.lower().replace("_", "-")

    def __new__(cls, name: str, level: Level, meaning: str) -> Self:
        """A rule, which is its name."""
        made = str.__new__(cls, name)
        made._value_ = name
        made.level = level
        made.meaning = meaning
        return made

    # any file
    FILE_SHORT = auto(), _E, "a file is shorter than its header"
    FILE_MAGIC = auto(), _E, "a file does not begin as files of the format do"
    FILE_SPEC = auto(), _E, "the header names a spec version that does not exist"
    FILE_KIND = auto(), _E, "a file is of another kind than its name says"
    FILE_COMPRESSION = auto(), _E, "the header names an unknown compression"
    FILE_BODY = auto(), _E, "the compressed body cannot be unpacked"
    FILE_DAMAGED = auto(), _E, "the content of a file breaks off, or points outside it"
    METADATA_ORDER = auto(), _W, "names of metadata do not ascend"
    STRAY_NAME = auto(), _N, "an object whose name is none of the format's"
    UNREFERENCED = auto(), _N, "objects that nothing refers to; garbage collection deletes them"
    # where a repository begins
    ENTRY_MISSING = auto(), _E, "there are snapshots, but nothing that a repository begins with"
    REPO_SPEC = auto(), _E, "header and content of the repo object differ in the spec version"
    MAIN_MISSING = auto(), _E, "there is no branch main"
    REF_ORDER = auto(), _E, "names of branches or tags do not ascend, so that some are not found"
    REF_TARGET = auto(), _E, "a branch or tag points to a snapshot that is not listed"
    REF_DAMAGED = auto(), _E, "the file of a branch or tag names no snapshot"
    REF_UNKNOWN = auto(), _E, "something below refs/ is neither branch nor tag"
    TOMBSTONE = auto(), _W, "the mark of a deleted tag is not empty, or belongs to no tag"
    TAG_DELETED = auto(), _W, "a tag is there and is listed as deleted"
    SNAPSHOT_ORDER = auto(), _E, "the listed snapshots do not ascend by id"
    SNAPSHOT_PARENT = auto(), _E, "a parent is not among the listed snapshots"
    SNAPSHOT_TIME = auto(), _W, "a snapshot is not younger than its parent"
    SNAPSHOT_ENTRY = auto(), _W, "repo says something else of a snapshot than its file"
    HISTORY_CIRCLE = auto(), _E, "parents run in a circle"
    HISTORY_ROOTS = auto(), _W, "branches and tags go back to different first snapshots"
    STATUS_UNKNOWN = auto(), _W, "the availability is neither online nor read-only"
    FLAG_ORDER = auto(), _W, "feature flags do not ascend, or one is set both on and off"
    FLAG_UNKNOWN = auto(), _W, "a feature flag that is not known"
    CONFIG_DAMAGED = auto(), _E, "the stored configuration cannot be read"
    UPDATES_EMPTY = auto(), _E, "the operations log has no line; official writers stop at that"
    UPDATE_BACKUP = auto(), _E, "the newest line of the operations log names a backup"
    UPDATE_TIME = auto(), _W, "times in the operations log do not descend"
    UPDATE_UNKNOWN = auto(), _W, "a line of the operations log is of an unknown kind"
    BACKUP_MISSING = auto(), _W, "the backup with older lines of the operations log is gone"
    BACKUP_CHAIN = auto(), _E, "a backup of the repo object is damaged or out of order"
    LEFTOVER_REFS = auto(), _N, "files of an older version that an upgrade left behind"
    # snapshots
    SNAPSHOT_MISSING = auto(), _E, "the file of a snapshot that branches or tags need is gone"
    SNAPSHOT_GONE = auto(), _W, "the file of a listed snapshot that no branch or tag needs is gone"
    SNAPSHOT_ID = auto(), _E, "a snapshot file names another snapshot"
    SNAPSHOT_LAYOUT = auto(), _W, "a snapshot file has fields of the other spec version"
    ROOT_NODES = auto(), _W, "the first snapshot is not empty"
    NODE_ORDER = auto(), _E, "nodes do not ascend by path, so that some are not found"
    NODE_PATH = auto(), _E, "the path of a node is not allowed"
    NODE_ID = auto(), _E, "two nodes have the same id"
    NODE_METADATA = auto(), _E, "the zarr.json of a node cannot be read"
    NODE_KIND = auto(), _E, "a node is a group and its zarr.json an array's, or the reverse"
    NODE_SHAPE = auto(), _E, "the grid of an array differs from that of its zarr.json"
    NODE_DIMENSION_NAMES = auto(), _W, "dimension names differ from those of the zarr.json"
    NODE_ORPHAN = auto(), _W, "a node lies in a group that is not there"
    NODE_INSIDE_ARRAY = auto(), _E, "a node lies inside an array"
    MANIFEST_FILE_ORDER = auto(), _E, "the listed manifests do not ascend by id"
    MANIFEST_UNLISTED = auto(), _E, "an array needs a manifest that its snapshot does not list"
    MANIFEST_UNUSED = auto(), _W, "a snapshot lists a manifest that none of its arrays needs"
    EXTENTS_OVERLAP = auto(), _E, "two manifests of an array cover the same chunks"
    EXTENTS_OUTSIDE = auto(), _W, "a manifest covers chunks beyond the grid"
    # manifests
    MANIFEST_MISSING = auto(), _E, "a manifest is gone"
    MANIFEST_ID = auto(), _E, "a manifest file names another manifest"
    MANIFEST_SIZE = auto(), _E, "a manifest is longer than its snapshot says, and read in part"
    MANIFEST_SIZE_LONG = auto(), _W, "a manifest is shorter than its snapshot says"
    MANIFEST_COUNT = auto(), _W, "a manifest has another number of references than is recorded"
    MANIFEST_ARRAY = auto(), _E, "a manifest has nothing of an array that needs it"
    ARRAY_ORDER = auto(), _E, "the arrays of a manifest do not ascend by id"
    CHUNK_ORDER = auto(), _E, "references do not ascend, so that some are not found"
    CHUNK_NOWHERE = auto(), _E, "a reference has neither id nor location nor bytes"
    CHUNK_RANK = auto(), _E, "a chunk has another number of coordinates than its array has axes"
    CHUNK_OUTSIDE_GRID = auto(), _W, "a chunk lies beyond the grid of its array"
    CHUNK_EMPTY = auto(), _W, "a chunk has no bytes"
    EXTENTS_COVER = auto(), _E, "a manifest holds chunks outside what its array says it covers"
    EXTENTS_LOOSE = auto(), _W, "a manifest covers more than the chunks that it holds"
    LOCATION_DAMAGED = auto(), _E, "a packed location or its dictionary cannot be unpacked"
    LOCATION_INVALID = auto(), _E, "the location of a virtual chunk is no URL"
    CONTAINER_UNDECLARED = auto(), _W, "no declared container covers a virtual chunk"
    # transaction logs
    LOG_MISSING = auto(), _E, "the transaction log of a snapshot is gone"
    LOG_PRUNED_MISSING = auto(), _W, "the log of a snapshot that was cut out of history is gone"
    LOG_ID = auto(), _E, "a transaction log names another snapshot"
    LOG_ORDER = auto(), _E, "ids in a transaction log do not ascend"
    LOG_MOVE_ORDER = auto(), _W, "moves in a transaction log do not ascend"
    LOG_ROOT = auto(), _W, "the transaction log of the first snapshot is not empty"
    LOG_NEW = auto(), _E, "new nodes and those that the log calls new differ"
    LOG_DELETED = auto(), _E, "deleted nodes and those that the log calls deleted differ"
    LOG_UPDATED = auto(), _E, "a node has changed without being in the log"
    LOG_MOVED = auto(), _E, "moved nodes and those that the log calls moved differ"
    LOG_CHUNKS = auto(), _E, "chunks have changed without being in the log"
    LOG_UNKNOWN_NODE = auto(), _W, "the log tells of a node that neither snapshot has"
    # chunks
    CHUNK_MISSING = auto(), _E, "a chunk object is gone"
    CHUNK_SHORT = auto(), _E, "a chunk object is shorter than its references need"
    CHUNK_DAMAGED = auto(), _E, "the bytes of a chunk cannot be decoded to its shape"
    CHUNK_CHANGED = auto(), _E, "a chunk has other bytes than its statistics were made of"
    CHUNK_UNDECODED = auto(), _N, "chunks of an array whose codecs are not known here"
    STATISTICS_DAMAGED = auto(), _W, "a file of statistics cannot be read, and is not used"
    SOURCE_SHORT = auto(), _E, "the source of virtual chunks is too short"
    SOURCE_CHANGED = auto(), _E, "the source of virtual chunks has changed since"
    SOURCE_UNREADABLE = auto(), _E, "the source of virtual chunks is gone or cannot be read"
    SOURCE_UNAUTHORIZED = auto(), _W, "the source of virtual chunks was not authorized"


RULES: Final = frozenset(Code)
OLD_RULES: Final = frozenset(
    {code for code in Code if code.startswith(("file-", "source-", "history-", "chunk-"))}
    | {Code.REF_DAMAGED, Code.MAIN_MISSING, Code.UNREFERENCED}
    | {Code.SNAPSHOT_MISSING, Code.SNAPSHOT_ID, Code.MANIFEST_MISSING, Code.MANIFEST_UNLISTED}
    | {Code.NODE_ORDER, Code.NODE_PATH, Code.NODE_ID, Code.NODE_METADATA, Code.NODE_KIND}
    | {Code.NODE_SHAPE, Code.NODE_INSIDE_ARRAY, Code.CONTAINER_UNDECLARED, Code.LOCATION_INVALID}
) - {Code.HISTORY_ROOTS}
"""What repositories from before spec 1 have in common with those since.

They need no first snapshot that all histories share: expiry in G1 leaves one for each branch.
"""
REFERENCES: Final = frozenset(
    {code for code in Code if code.startswith(("file-", "source-"))}
    | {Code.SNAPSHOT_MISSING, Code.MANIFEST_MISSING, Code.CHUNK_MISSING, Code.CHUNK_SHORT}
    | {Code.SNAPSHOT_ID, Code.MANIFEST_ID}  # files that are not those of their names are refused
    | {Code.NODE_ORDER, Code.NODE_PATH, Code.ARRAY_ORDER}
    | {Code.CHUNK_ORDER, Code.CHUNK_NOWHERE, Code.LOCATION_DAMAGED}
)
"""What `verify` checks: that everything references need is there, can be read and is unchanged."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is not as it should be."""

    code: Code
    target: str
    """key of an object of the repository, a ref, or the location of a virtual source"""
    detail: str = ""
    path: str | None = None
    """the node that it concerns"""
    chunks: tuple[Coordinates, ...] = ()
    """some of the chunks that it concerns"""
    references: int = 0
    """how many references or items it concerns, where that was counted"""

    @property
    def level(self) -> Level:
        """How bad it is."""
        return self.code.level

    def as_dict(self) -> dict[str, Any]:
        """The finding as plain data."""
        return {
            "level": str(self.level),
            "code": str(self.code),
            "target": self.target,
            "detail": self.detail,
            "path": self.path,
            "chunks": [list(index) for index in self.chunks],
            "references": self.references,
        }

    def __str__(self) -> str:
        place = f" {self.path}" if self.path else ""
        detail = self.detail or self.code.meaning
        return safe(f"{self.level} {self.code}: {self.target}{place}: {detail}")


_COUNTS: Final = (
    *("snapshots", "manifests", "logs", "native_references", "native_objects"),
    *("virtual_references", "virtual_sources", "decoded_chunks", "unreferenced_bytes"),
)


@dataclass(slots=True, repr=False)
class Report(ReportView):
    """What was checked and what was found."""

    spec: int | None = None
    snapshots: int = 0
    manifests: int = 0
    logs: int = 0
    native_references: int = 0
    native_objects: int = 0
    virtual_references: int = 0
    virtual_sources: int = 0
    """sources that were asked for; 0 unless that was wanted"""
    decoded_chunks: int = 0
    """0 unless that was wanted"""
    unchecked: dict[str, int] = field(default_factory=dict)
    """bytes that no checksum covers, by kind of file, and of chunks by array; only if chunks were
    decoded"""
    unreferenced: dict[str, int] = field(default_factory=dict)
    """objects that nothing needs, by kind; empty unless everything was checked"""
    unreferenced_bytes: int = 0
    findings: list[Finding] = field(default_factory=list)
    more_findings: int = 0
    """how many more there are"""
    counts: dict[Level, int] = field(default_factory=lambda: dict.fromkeys(Level, 0))
    """all findings by level, also those that are only counted"""
    limit: int = MAX_FINDINGS
    rules: Set[Code] = field(default=RULES, repr=False)
    """rules to report; findings of other rules are ignored"""
    _known: set[tuple[Code, str, str | None, str]] = field(default_factory=set, repr=False)

    @property
    def is_sound(self) -> bool:
        """Whether there is no error; warnings and notes may be there."""
        return not self.counts[Level.ERROR]

    @property
    def is_clean(self) -> bool:
        """Whether there is neither error nor warning."""
        return self.is_sound and not self.counts[Level.WARNING]

    def codes(self) -> set[Code]:
        """The rules that are broken."""
        return {finding.code for finding in self.findings}

    def record(self, findings: Iterable[Finding]) -> None:
        """Keep findings, or count them; the same one again is neither."""
        for finding in findings:
            name = (finding.code, finding.target, finding.path, finding.detail)
            if name in self._known or finding.code not in self.rules:
                continue
            if len(self._known) < 100 * self.limit:
                self._known.add(name)
            self.counts[finding.level] += 1
            if len(self.findings) < self.limit:
                self.findings.append(finding)
            else:
                self.more_findings += 1

    def leave_unchecked(self, what: str, size: int) -> None:
        """Count bytes that no checksum covers."""
        self.unchecked[what] = self.unchecked.get(what, 0) + size

    def as_dict(self) -> dict[str, Any]:
        """The report as plain data."""
        return {
            "sound": self.is_sound,
            "spec": self.spec,
            **{str(level) + "s": count for level, count in self.counts.items()},
            **{name: getattr(self, name) for name in _COUNTS},
            "unchecked": dict(self.unchecked),
            "unreferenced": dict(self.unreferenced),
            "findings": [finding.as_dict() for finding in self.findings],
            "more_findings": self.more_findings,
        }
