"""The rules of one commit: its snapshot, its transaction log, and what the log says of both."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from frazil.fsck.files import Files
from frazil.fsck.findings import Code, Finding
from frazil.fsck.history import Link
from frazil.fsck.log_rules import Change, check_change, check_log_file, claims_of
from frazil.fsck.snapshot_rules import check_snapshot_file
from frazil.ids import INITIAL_SNAPSHOT_ID
from frazil.model.history import Metadata, Snapshot, TransactionLog
from frazil.model.marks import CARRIED
from frazil.storage.assets import log_key, snapshot_key


@dataclass(slots=True)
class Checked:
    """What was found in a commit, and its snapshot if that can be read."""

    findings: list[Finding] = field(default_factory=list)
    snapshot: Snapshot | None = None
    has_log: bool = False


def check_commit(files: Files, link: Link, *, whole: bool) -> Checked:
    """Check a snapshot, its log, and that the log tells all that changed.

    Unless `whole`, only whether the snapshot can be read.
    """
    checked = Checked()
    read = files.snapshot(link.id)
    if read is None:
        code = Code.SNAPSHOT_MISSING if link.is_needed else Code.SNAPSHOT_GONE
        checked.findings.append(Finding(code, snapshot_key(link.id)))
    else:
        checked.findings += check_snapshot_file(link.id, read) if whole else read.findings
        checked.snapshot = read.content
    if whole:
        if checked.snapshot is not None:
            checked.findings += _against_entry(link, checked.snapshot)
        spec = 0 if read is None else read.spec
        checked.has_log = _check_log(files, link, checked.snapshot, spec, checked.findings)
    return checked


def _against_entry(link: Link, snapshot: Snapshot) -> Iterator[Finding]:
    key, entry = snapshot_key(link.id), link.entry
    # History that expired in G1 begins with another one, also after an upgrade.
    if link.is_root and link.id == INITIAL_SNAPSHOT_ID and len(snapshot.nodes):
        yield Finding(Code.ROOT_NODES, key)
    if entry is None:
        return
    for name in ("flushed_at", "message"):
        if getattr(entry, name) != getattr(snapshot, name):
            yield Finding(Code.SNAPSHOT_ENTRY, key, name)
    if _unmarked(entry.metadata) != _unmarked(snapshot.metadata):
        yield Finding(Code.SNAPSHOT_ENTRY, key, "metadata")


def _unmarked(metadata: Metadata) -> Metadata:
    """Metadata without what expiry adds to the entry of a snapshot that it gives another parent."""
    return {name: value for name, value in metadata.items() if name != CARRIED}


def _check_log(
    files: Files, link: Link, snapshot: Snapshot | None, spec: int, findings: list[Finding]
) -> bool:
    key = log_key(link.id)
    read = files.log(link.id)
    if read is None:
        if link.has_log and snapshot is not None:
            findings.append(Finding(Code.LOG_MISSING, key))
        return False
    findings += check_log_file(link.id, read)
    log = read.content
    if log is None:
        return True
    if link.is_root:
        if not claims_of([log]).is_empty:
            findings.append(Finding(Code.LOG_ROOT, key))
        return True
    parent = None if link.parent is None else files.snapshot(link.parent)
    if snapshot is None or parent is None or parent.content is None:
        return True
    older, is_whole, was_version_1 = _pruned_logs(files, link, findings)
    # Expiry in version 1 makes a snapshot the child of the first one, and tells nobody. What is
    # expired after an upgrade hands its logs on, which then begin where those of version 1 did.
    may_be_cut = link.parent_is_root and (spec == 1 or was_version_1)
    change = Change(
        key,
        parent.content,
        snapshot,
        claims_of([*older, log]),
        is_complete=is_whole and not may_be_cut,
        is_single=not link.pruned,
    )
    findings += check_change(change, files)
    return True


def _pruned_logs(
    files: Files, link: Link, findings: list[Finding]
) -> tuple[list[TransactionLog], bool, bool]:
    """The logs of ancestors that were cut out: all of them? and are there some of version 1?"""
    logs: list[TransactionLog] = []
    was_version_1 = False
    for one in link.pruned:
        read = files.log(one)
        if read is None:
            told = f"{snapshot_key(link.id)} has taken it over"
            findings.append(Finding(Code.LOG_PRUNED_MISSING, log_key(one), told))
        elif read.content is None:
            findings += read.findings
        else:
            logs.append(read.content)
            was_version_1 |= read.spec == 1
    return logs, len(logs) == len(link.pruned), was_version_1
