"""What a check may find: the table of rules, a finding, and the report of a whole check."""

from __future__ import annotations

from collections.abc import Iterable, Set
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from frazil.masking import safe
from frazil.model.nodes import Coordinates

MAX_FINDINGS: Final = 1000
"""Findings that are told in full; the rest is counted."""


class Level(StrEnum):
    """How bad a finding is."""

    ERROR = "error"
    """some reader fails, or reads something else than was written"""
    WARNING = "warning"
    """a rule is broken that readers get along without"""
    NOTE = "note"
    """worth knowing, nothing is wrong"""


class Code(StrEnum):
    """Names of the rules; they stay the same from one version of this package to the next."""

    # any file
    FILE_SHORT = "file-short"
    FILE_MAGIC = "file-magic"
    FILE_SPEC = "file-spec"
    FILE_KIND = "file-kind"
    FILE_COMPRESSION = "file-compression"
    FILE_BODY = "file-body"
    FILE_DAMAGED = "file-damaged"
    METADATA_ORDER = "metadata-order"
    STRAY_NAME = "stray-name"
    UNREFERENCED = "unreferenced"
    # where a repository begins
    ENTRY_MISSING = "entry-missing"
    REPO_SPEC = "repo-spec"
    MAIN_MISSING = "main-missing"
    REF_ORDER = "ref-order"
    REF_TARGET = "ref-target"
    REF_DAMAGED = "ref-damaged"
    REF_UNKNOWN = "ref-unknown"
    TOMBSTONE = "tombstone"
    TAG_DELETED = "tag-deleted"
    SNAPSHOT_ORDER = "snapshot-order"
    SNAPSHOT_PARENT = "snapshot-parent"
    SNAPSHOT_TIME = "snapshot-time"
    SNAPSHOT_ENTRY = "snapshot-entry"
    HISTORY_CIRCLE = "history-circle"
    HISTORY_ROOTS = "history-roots"
    STATUS_UNKNOWN = "status-unknown"
    FLAG_ORDER = "flag-order"
    FLAG_UNKNOWN = "flag-unknown"
    CONFIG_DAMAGED = "config-damaged"
    UPDATES_EMPTY = "updates-empty"
    UPDATE_BACKUP = "update-backup"
    UPDATE_TIME = "update-time"
    UPDATE_UNKNOWN = "update-unknown"
    BACKUP_MISSING = "backup-missing"
    BACKUP_CHAIN = "backup-chain"
    LEFTOVER_REFS = "leftover-refs"
    # snapshots
    SNAPSHOT_MISSING = "snapshot-missing"
    SNAPSHOT_GONE = "snapshot-gone"
    SNAPSHOT_ID = "snapshot-id"
    SNAPSHOT_LAYOUT = "snapshot-layout"
    ROOT_NODES = "root-nodes"
    NODE_ORDER = "node-order"
    NODE_PATH = "node-path"
    NODE_ID = "node-id"
    NODE_METADATA = "node-metadata"
    NODE_KIND = "node-kind"
    NODE_SHAPE = "node-shape"
    NODE_DIMENSION_NAMES = "node-dimension-names"
    NODE_ORPHAN = "node-orphan"
    NODE_INSIDE_ARRAY = "node-inside-array"
    MANIFEST_FILE_ORDER = "manifest-file-order"
    MANIFEST_UNLISTED = "manifest-unlisted"
    MANIFEST_UNUSED = "manifest-unused"
    EXTENTS_OVERLAP = "extents-overlap"
    EXTENTS_OUTSIDE = "extents-outside"
    # manifests
    MANIFEST_MISSING = "manifest-missing"
    MANIFEST_ID = "manifest-id"
    MANIFEST_SIZE = "manifest-size"
    MANIFEST_SIZE_LONG = "manifest-size-long"
    MANIFEST_COUNT = "manifest-count"
    MANIFEST_ARRAY = "manifest-array"
    ARRAY_ORDER = "array-order"
    CHUNK_ORDER = "chunk-order"
    CHUNK_NOWHERE = "chunk-nowhere"
    CHUNK_RANK = "chunk-rank"
    CHUNK_OUTSIDE_GRID = "chunk-outside-grid"
    CHUNK_EMPTY = "chunk-empty"
    EXTENTS_COVER = "extents-cover"
    EXTENTS_LOOSE = "extents-loose"
    LOCATION_DAMAGED = "location-damaged"
    LOCATION_INVALID = "location-invalid"
    CONTAINER_UNDECLARED = "container-undeclared"
    # transaction logs
    LOG_MISSING = "log-missing"
    LOG_PRUNED_MISSING = "log-pruned-missing"
    LOG_ID = "log-id"
    LOG_ORDER = "log-order"
    LOG_MOVE_ORDER = "log-move-order"
    LOG_ROOT = "log-root"
    LOG_NEW = "log-new"
    LOG_DELETED = "log-deleted"
    LOG_UPDATED = "log-updated"
    LOG_MOVED = "log-moved"
    LOG_CHUNKS = "log-chunks"
    LOG_UNKNOWN_NODE = "log-unknown-node"
    # chunks
    CHUNK_MISSING = "chunk-missing"
    CHUNK_SHORT = "chunk-short"
    CHUNK_DAMAGED = "chunk-damaged"
    CHUNK_UNDECODED = "chunk-undecoded"
    SOURCE_SHORT = "source-short"
    SOURCE_CHANGED = "source-changed"
    SOURCE_UNREADABLE = "source-unreadable"
    SOURCE_UNAUTHORIZED = "source-unauthorized"


@dataclass(frozen=True, slots=True)
class Rule:
    """What breaking a rule means."""

    level: Level
    meaning: str


_E, _W, _N = Level.ERROR, Level.WARNING, Level.NOTE
RULES: Final[dict[Code, Rule]] = {
    Code.FILE_SHORT: Rule(_E, "a file is shorter than its header"),
    Code.FILE_MAGIC: Rule(_E, "a file does not begin as files of the format do"),
    Code.FILE_SPEC: Rule(_E, "the header names a spec version that does not exist"),
    Code.FILE_KIND: Rule(_E, "a file is of another kind than its name says"),
    Code.FILE_COMPRESSION: Rule(_E, "the header names an unknown compression"),
    Code.FILE_BODY: Rule(_E, "the compressed body cannot be unpacked"),
    Code.FILE_DAMAGED: Rule(_E, "the content of a file breaks off, or points outside it"),
    Code.METADATA_ORDER: Rule(_W, "names of metadata do not ascend"),
    Code.STRAY_NAME: Rule(_N, "an object whose name is none of the format's"),
    Code.UNREFERENCED: Rule(_N, "objects that nothing refers to; garbage collection's business"),
    Code.ENTRY_MISSING: Rule(_E, "there are snapshots, but nothing that a repository begins with"),
    Code.REPO_SPEC: Rule(_E, "header and content of the repo object differ in the spec version"),
    Code.MAIN_MISSING: Rule(_E, "there is no branch main"),
    Code.REF_ORDER: Rule(_E, "names of branches or tags do not ascend, so that some are not found"),
    Code.REF_TARGET: Rule(_E, "a branch or tag points to a snapshot that is not listed"),
    Code.REF_DAMAGED: Rule(_E, "the file of a branch or tag names no snapshot"),
    Code.REF_UNKNOWN: Rule(_E, "something below refs/ is neither branch nor tag"),
    Code.TOMBSTONE: Rule(_W, "the mark of a deleted tag is not empty, or belongs to no tag"),
    Code.TAG_DELETED: Rule(_W, "a tag is there and is listed as deleted"),
    Code.SNAPSHOT_ORDER: Rule(_E, "the listed snapshots do not ascend by id"),
    Code.SNAPSHOT_PARENT: Rule(_E, "a parent is not among the listed snapshots"),
    Code.SNAPSHOT_TIME: Rule(_W, "a snapshot is not younger than its parent"),
    Code.SNAPSHOT_ENTRY: Rule(_W, "repo says something else of a snapshot than its file"),
    Code.HISTORY_CIRCLE: Rule(_E, "parents run in a circle"),
    Code.HISTORY_ROOTS: Rule(_W, "branches and tags go back to different first snapshots"),
    Code.STATUS_UNKNOWN: Rule(_W, "the availability is neither online nor read-only"),
    Code.FLAG_ORDER: Rule(_W, "feature flags do not ascend, or one is set both on and off"),
    Code.FLAG_UNKNOWN: Rule(_W, "a feature flag that is not known"),
    Code.CONFIG_DAMAGED: Rule(_E, "the stored configuration cannot be read"),
    Code.UPDATES_EMPTY: Rule(_E, "the operations log has no line; official writers stop at that"),
    Code.UPDATE_BACKUP: Rule(_E, "the newest line of the operations log names a backup"),
    Code.UPDATE_TIME: Rule(_W, "times in the operations log do not descend"),
    Code.UPDATE_UNKNOWN: Rule(_W, "a line of the operations log is of an unknown kind"),
    Code.BACKUP_MISSING: Rule(_W, "the backup with older lines of the operations log is gone"),
    Code.BACKUP_CHAIN: Rule(_E, "a backup of the repo object is damaged or out of order"),
    Code.LEFTOVER_REFS: Rule(_N, "files of an older version that an upgrade left behind"),
    Code.SNAPSHOT_MISSING: Rule(_E, "the file of a snapshot that branches or tags need is gone"),
    Code.SNAPSHOT_GONE: Rule(
        _W, "the file of a listed snapshot that no branch or tag needs is gone"
    ),
    Code.SNAPSHOT_ID: Rule(_E, "a snapshot file names another snapshot"),
    Code.SNAPSHOT_LAYOUT: Rule(_W, "a snapshot file has fields of the other spec version"),
    Code.ROOT_NODES: Rule(_W, "the first snapshot is not empty"),
    Code.NODE_ORDER: Rule(_E, "nodes do not ascend by path, so that some are not found"),
    Code.NODE_PATH: Rule(_E, "the path of a node is not allowed"),
    Code.NODE_ID: Rule(_E, "two nodes have the same id"),
    Code.NODE_METADATA: Rule(_E, "the zarr.json of a node cannot be read"),
    Code.NODE_KIND: Rule(_E, "a node is a group and its zarr.json an array's, or the reverse"),
    Code.NODE_SHAPE: Rule(_E, "the grid of an array differs from that of its zarr.json"),
    Code.NODE_DIMENSION_NAMES: Rule(_W, "dimension names differ from those of the zarr.json"),
    Code.NODE_ORPHAN: Rule(_W, "a node lies in a group that is not there"),
    Code.NODE_INSIDE_ARRAY: Rule(_E, "a node lies inside an array"),
    Code.MANIFEST_FILE_ORDER: Rule(_E, "the listed manifests do not ascend by id"),
    Code.MANIFEST_UNLISTED: Rule(_E, "an array needs a manifest that its snapshot does not list"),
    Code.MANIFEST_UNUSED: Rule(_W, "a snapshot lists a manifest that none of its arrays needs"),
    Code.EXTENTS_OVERLAP: Rule(_E, "two manifests of an array cover the same chunks"),
    Code.EXTENTS_OUTSIDE: Rule(_W, "a manifest covers chunks beyond the grid"),
    Code.MANIFEST_MISSING: Rule(_E, "a manifest is gone"),
    Code.MANIFEST_ID: Rule(_E, "a manifest file names another manifest"),
    Code.MANIFEST_SIZE: Rule(_E, "a manifest is longer than its snapshot says, and read in part"),
    Code.MANIFEST_SIZE_LONG: Rule(_W, "a manifest is shorter than its snapshot says"),
    Code.MANIFEST_COUNT: Rule(_W, "a manifest has another number of references than is recorded"),
    Code.MANIFEST_ARRAY: Rule(_E, "a manifest has nothing of an array that needs it"),
    Code.ARRAY_ORDER: Rule(_E, "the arrays of a manifest do not ascend by id"),
    Code.CHUNK_ORDER: Rule(_E, "references do not ascend, so that some are not found"),
    Code.CHUNK_NOWHERE: Rule(_E, "a reference has neither id nor location nor bytes"),
    Code.CHUNK_RANK: Rule(_E, "a chunk has another number of coordinates than its array has axes"),
    Code.CHUNK_OUTSIDE_GRID: Rule(_W, "a chunk lies beyond the grid of its array"),
    Code.CHUNK_EMPTY: Rule(_W, "a chunk has no bytes"),
    Code.EXTENTS_COVER: Rule(_E, "a manifest holds chunks outside what its array says it covers"),
    Code.EXTENTS_LOOSE: Rule(_W, "a manifest covers more than the chunks that it holds"),
    Code.LOCATION_DAMAGED: Rule(_E, "a packed location or its dictionary cannot be unpacked"),
    Code.LOCATION_INVALID: Rule(_E, "the location of a virtual chunk is no URL"),
    Code.CONTAINER_UNDECLARED: Rule(_W, "no declared container covers a virtual chunk"),
    Code.LOG_MISSING: Rule(_E, "the transaction log of a snapshot is gone"),
    Code.LOG_PRUNED_MISSING: Rule(_W, "the log of a snapshot that was cut out of history is gone"),
    Code.LOG_ID: Rule(_E, "a transaction log names another snapshot"),
    Code.LOG_ORDER: Rule(_E, "ids in a transaction log do not ascend"),
    Code.LOG_MOVE_ORDER: Rule(_W, "moves in a transaction log do not ascend"),
    Code.LOG_ROOT: Rule(_W, "the transaction log of the first snapshot is not empty"),
    Code.LOG_NEW: Rule(_E, "new nodes and those that the log calls new differ"),
    Code.LOG_DELETED: Rule(_E, "deleted nodes and those that the log calls deleted differ"),
    Code.LOG_UPDATED: Rule(_E, "a node has changed without being in the log"),
    Code.LOG_MOVED: Rule(_E, "moved nodes and those that the log calls moved differ"),
    Code.LOG_CHUNKS: Rule(_E, "chunks have changed without being in the log"),
    Code.LOG_UNKNOWN_NODE: Rule(_W, "the log tells of a node that neither snapshot has"),
    Code.CHUNK_MISSING: Rule(_E, "a chunk object is gone"),
    Code.CHUNK_SHORT: Rule(_E, "a chunk object is shorter than its references need"),
    Code.CHUNK_DAMAGED: Rule(_E, "the bytes of a chunk cannot be decoded to its shape"),
    Code.CHUNK_UNDECODED: Rule(_N, "chunks of an array whose codecs are not known here"),
    Code.SOURCE_SHORT: Rule(_E, "the source of virtual chunks is too short"),
    Code.SOURCE_CHANGED: Rule(_E, "the source of virtual chunks has changed since"),
    Code.SOURCE_UNREADABLE: Rule(_E, "the source of virtual chunks is gone or cannot be read"),
    Code.SOURCE_UNAUTHORIZED: Rule(_W, "nobody allowed reading the source of virtual chunks"),
}


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
        return RULES[self.code].level

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
        told = self.detail or RULES[self.code].meaning
        return safe(f"{self.level} {self.code}: {self.target}{place}: {told}")


@dataclass(slots=True)
class Report:
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
    """all findings by level, told or not"""
    limit: int = MAX_FINDINGS
    rules: Set[Code] = field(default_factory=RULES.keys, repr=False)
    """those that count; what breaks others is passed over"""
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
            "snapshots": self.snapshots,
            "manifests": self.manifests,
            "logs": self.logs,
            "native_references": self.native_references,
            "native_objects": self.native_objects,
            "virtual_references": self.virtual_references,
            "virtual_sources": self.virtual_sources,
            "decoded_chunks": self.decoded_chunks,
            "unchecked": dict(self.unchecked),
            "unreferenced": dict(self.unreferenced),
            "unreferenced_bytes": self.unreferenced_bytes,
            "findings": [finding.as_dict() for finding in self.findings],
            "more_findings": self.more_findings,
        }
