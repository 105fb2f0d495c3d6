"""Files that only expired snapshots need: found without a listing, deleted with the expiry.

What released snapshots refer to is a short list of candidates; what any other snapshot refers to
is taken off it. What is younger than the floor of all deletions stays for a garbage collection.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from frazil.ids import SnapshotId
from frazil.maintenance.ages import deletable_before
from frazil.maintenance.candidates import FindChunks, of_snapshots
from frazil.maintenance.collecting import Way, carry_out
from frazil.maintenance.deleting import DeleteLimits
from frazil.maintenance.expire import expire_snapshots, plan_expiry
from frazil.maintenance.garbage import counted, plan_collection
from frazil.maintenance.garbage_plan import GarbagePlan
from frazil.maintenance.listing import END_OF_TIME
from frazil.maintenance.walk import WalkLimits, native_chunks
from frazil.model.values import GCSummary
from frazil.transaction.context import Context


@dataclass(frozen=True, slots=True)
class Expired:
    """What an expiry did, or would do."""

    released: frozenset[str]
    """ids of snapshots"""
    files: GCSummary
    """what was deleted with them"""


def expire_with_files(
    context: Context,
    older_than: datetime,
    *,
    delete_expired_branches: bool = False,
    delete_expired_tags: bool = False,
    dry_run: bool = False,
    unsafe_minimum_age: timedelta | None = None,
    find_chunks: FindChunks = native_chunks,
    deleting: DeleteLimits | None = None,
) -> Expired:
    """Release the snapshots written before a time, and delete the files that only they need.

    Files younger than a day by the clock of the store, or than `unsafe_minimum_age`, stay until a
    garbage collection finds them. `find_chunks` tells what manifests refer to.

    Raises:
        FormatError: snapshots of this generation cannot expire.
    """
    context.generation.require_expiry()  # before the clock of the store is asked for
    limits = WalkLimits()
    cutoff = deletable_before(context.place, unsafe_minimum_age, dry_run=dry_run) or END_OF_TIME
    lost = {
        "delete_expired_branches": delete_expired_branches,
        "delete_expired_tags": delete_expired_tags,
    }
    after = plan_expiry(context, older_than, **lost) if dry_run else None
    released = (
        frozenset(expire_snapshots(context, older_than, **lost))
        if after is None
        else frozenset(map(str, after.released))
    )
    found = of_snapshots(context, map(SnapshotId.parse, released), cutoff, limits, find_chunks)
    plan = plan_collection(context, found, limits, find_chunks, after)
    if dry_run:
        return Expired(released, counted(plan))
    way = Way(limits, deleting or DeleteLimits(), find_chunks=find_chunks)
    made = GarbagePlan.of(context, plan, cutoff, "incremental")
    return Expired(
        released, carry_out(context, made, way, unsafe_minimum_age=unsafe_minimum_age)[0]
    )
