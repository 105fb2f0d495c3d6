"""Attribute files, which only generations before spec 1 have, once no snapshot needs them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from frazil.commit.file_refs import FileRefs
from frazil.maintenance.file_history import read_file_history
from frazil.model.values import GCSummary
from frazil.storage.base import Listed
from frazil.transaction.context import Context


def old_attribute_files(context: Context, cutoff: datetime) -> Sequence[Listed]:
    """The attribute files that were written before a time."""
    if context.place is context.storage:
        return ()
    from frazil.storage.legacy.objects import attribute_files

    return [item for item in attribute_files(context.storage) if item.created_at < cutoff]


def collect_attribute_files(
    context: Context, old: Sequence[Listed], summary: GCSummary, *, dry_run: bool = False
) -> GCSummary:
    """Delete those of some attribute files that no snapshot names, and count them too."""
    if not old or not isinstance(context.refs, FileRefs):
        return summary
    from frazil.storage.legacy.objects import attribute_files_of

    known = read_file_history(context.storage).reachable(context.refs.present_roots())
    used = attribute_files_of(context.storage, known)
    unused = [item for item in old if item.key not in used]
    failed: dict[str, str] = {}
    if not dry_run:
        failed = dict(context.place.delete_many([item.key for item in unused]).failed)
    gone = [item for item in unused if item.key not in failed]
    return replace(
        summary,
        attributes_deleted=len(gone),
        bytes_deleted=summary.bytes_deleted + sum(item.size_bytes for item in gone),
        objects_failed_to_delete=summary.objects_failed_to_delete + len(failed),
        delete_errors=[*summary.delete_errors, *dict.fromkeys(failed.values())],
    )
