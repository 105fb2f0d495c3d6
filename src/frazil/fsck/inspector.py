"""Checks files in portions, which a runner may hand to threads or to Spark's tasks.

A portion returns little: its findings, which arrays use which manifests, and the objects that
references need, each once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import TypeAlias

import numpy as np

from frazil.arrays import U8, U64
from frazil.fsck.files import RepositoryFiles
from frazil.fsck.findings import SHOWN_CHUNKS, Finding
from frazil.fsck.history import CheckedCommit, SnapshotNode, check_commit
from frazil.fsck.manifest_rules import DecodeResult, check_manifest_file, decode_chunks
from frazil.fsck.objects import Needs, ObjectUser, SourceVersion, ask_source, virtual_needs
from frazil.fsck.snapshot_rules import ManifestUse, uses_of
from frazil.ids import ManifestId, NodeId
from frazil.maintenance.id_sets import RowSet, native_needs, needed_objects
from frazil.model.chunks import ChunkType
from frazil.model.history import ManifestFile
from frazil.statistics.files import Checksums, read_checksums
from frazil.storage.pool import fan_out
from frazil.transaction.context import Context

Uses: TypeAlias = dict[ManifestId, set[ManifestUse]]


@dataclass(slots=True)
class CommitFindings:
    """What was found in some commits."""

    findings: list[Finding] = field(default_factory=list)
    logs: int = 0
    is_readable: bool = True
    sizes: dict[ManifestId, ManifestFile] = field(default_factory=dict)
    """the manifests that snapshots list"""
    uses: Uses = field(default_factory=dict)
    unchecked: dict[str, int] = field(default_factory=dict)
    """files whose content no checksum covers, and their sizes"""


@dataclass(slots=True, eq=False)
class ManifestFindings:
    """What was found in a manifest, and what its references need."""

    id: ManifestId
    findings: list[Finding]
    is_readable: bool
    objects: U8
    ends: U64
    """how long each object must be"""
    native: int
    virtual: int
    """references of that kind"""
    sources: Mapping[SourceVersion, tuple[int, int]]
    """how long sources must be, and how many references need them; empty unless they are asked"""
    decoded: DecodeResult
    unchecked: dict[str, int]


class Inspector:
    """Checks portions of a repository; in another process with files of its own."""

    def __init__(self, context: Context, whole: bool, deep: bool, virtual: bool) -> None:
        self.context = context
        self.whole = whole
        """whether there is more to check than references"""
        self.deep = deep
        self.virtual = virtual
        self.files = RepositoryFiles(context.assets)

    def __reduce__(self) -> tuple[object, ...]:
        return Inspector, (self.context, self.whole, self.deep, self.virtual)

    @cached_property
    def checksums(self) -> Checksums:
        """What is known of the stored bytes of chunks."""
        return read_checksums(self.context.place)

    def commits(self, links: Sequence[SnapshotNode]) -> CommitFindings:
        """Check snapshots and logs that follow each other."""
        done = CommitFindings()
        for checked in fan_out(partial(check_commit, self.files, whole=self.whole), links):
            self._add(done, checked)
        done.unchecked = self.files.unchecked()
        return done

    def _add(self, done: CommitFindings, checked: CheckedCommit) -> None:
        done.findings += checked.findings
        done.logs += checked.has_log
        if checked.snapshot is None:
            done.is_readable = False
            return
        done.sizes.update((file.id, file) for file in checked.snapshot.manifest_files)
        for manifest_id, use in uses_of(checked.snapshot, documents=self.deep):
            done.uses.setdefault(manifest_id, set()).add(use)

    def manifests(
        self, given: Sequence[tuple[ManifestId, set[ManifestUse]]]
    ) -> list[ManifestFindings]:
        """Check manifests, and decode their chunks if that is wanted."""
        return fan_out(self._manifest, given)

    def _manifest(self, given: tuple[ManifestId, set[ManifestUse]]) -> ManifestFindings:
        manifest_id, uses = given
        read = self.files.manifest(manifest_id)
        found = [*check_manifest_file(manifest_id, read, uses, self.context.containers)]
        manifest = None if read is None else read.content
        tables = [] if manifest is None else [table for _, table in manifest.tables()]
        objects, ends, counts = needed_objects(tables)
        needs = Needs(self.files.objects)
        for table in tables if self.virtual else ():
            needs.add_sources(virtual_needs(table))
        decoded = DecodeResult()
        if self.deep:
            decoded = decode_chunks(
                self.context, self.files, manifest_id, uses, self.checksums, virtual=self.virtual
            )
        return ManifestFindings(
            manifest_id,
            found,
            manifest is not None,
            objects,
            ends,
            int(counts.sum()),
            sum(int((table.kind == ChunkType.virtual).sum()) for table in tables),
            needs.sources,
            decoded,
            self.files.unchecked(),
        )

    def users(self, given: tuple[ManifestId, U8, Mapping[NodeId, str]]) -> dict[bytes, ObjectUser]:
        """The arrays of a manifest that need some objects, by the ids of these objects."""
        manifest_id, objects, paths = given
        read, wanted, found = self.files.manifest(manifest_id), RowSet(), dict[bytes, ObjectUser]()
        wanted.add(objects)
        for node_id, table in read.content.tables() if read and read.content else ():
            ids, ends = native_needs(table)
            coords = table.coords[table.kind == ChunkType.native]
            for row in np.flatnonzero(wanted.contains(ids)).tolist():
                one = found.setdefault(ids[row].tobytes(), ObjectUser(node_id, paths.get(node_id)))
                one.end = max(one.end, int(ends[row]))
                one.references += 1
                if one.node_id == node_id and len(one.chunks) < SHOWN_CHUNKS:
                    one.chunks.append(tuple(coords[row].tolist()))
        return found

    def sources(self, given: Sequence[tuple[SourceVersion, tuple[int, int]]]) -> list[Finding]:
        """Ask sources of virtual chunks whether they are as references need them."""
        found = fan_out(lambda item: ask_source(self.context, item[0], *item[1]), given)
        return [*filter(None, found)]
