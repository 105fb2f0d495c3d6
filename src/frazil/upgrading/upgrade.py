"""The order of an upgrade. Each step may be interrupted, and does no harm when it is done again.

A claim comes first, which keeps other upgrades away, then chunk objects, then manifests, logs and
snapshots. Readers see none of that. Then branches are fenced, so that the old repository cannot be
changed any more, and last the entry point of the new one is written.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias

from frazil.commit.base import attempts
from frazil.formats.generation import Generation
from frazil.formats.legacy.refs import check_ref_name
from frazil.ids import SnapshotId
from frazil.maintenance.upgrade import RefSet
from frazil.transaction.context import Context
from frazil.upgrading.chunks import (
    MoveChunks,
    Transfers,
    mover,
    relocation,
    require_moved,
    transfers_of,
)
from frazil.upgrading.claims import Claim, claimed, take, too_late, upgrading
from frazil.upgrading.converting import Converter
from frazil.upgrading.fencing import fence, require_no_other
from frazil.upgrading.leftovers import (
    hide_old_refs,
    is_upgraded,
    new_config,
    publish,
    renamed,
    require_writable_place,
)
from frazil.upgrading.sinks import CountingSink, WritingSink
from frazil.upgrading.source import (
    ChunkMode,
    SnapshotLink,
    UpgradeReport,
    UpgradeSource,
    changed_files,
    preserve,
    source_of,
    target_generation,
)

MakeMove: TypeAlias = Callable[[UpgradeSource, ChunkMode], MoveChunks]
"""Makes the function that links or copies chunk objects of a repository."""


@dataclass(slots=True)
class Survey:
    """Survey of a repository before its upgrade; nothing is written."""

    source: UpgradeSource
    target: Generation
    mode: ChunkMode
    refs: RefSet
    history: dict[SnapshotId, SnapshotLink]
    root: SnapshotId | None
    counted: CountingSink
    converter: Converter
    transfers: Transfers = field(default_factory=Transfers)

    def report(self, *, applied: bool) -> UpgradeReport:
        """The same in numbers."""
        return UpgradeReport(
            url=self.source.place.url,
            from_generation=self.source.context.generation.name,
            dialect=str(self.source.files.dialect),
            to_spec=self.target.spec,
            mode=str(self.mode),
            branches=len(self.refs.branches),
            tags=len(self.refs.tags),
            deleted_tags=len(self.refs.deleted_tags),
            snapshots=len(self.history),
            renamed_snapshots=self.converter.renamed,
            manifests=self.counted.manifests,
            references=self.counted.references,
            dropped_references=self.converter.dropped,
            logs_made=self.converter.logs_made,
            chunks=len(self.transfers.wanted),
            chunk_bytes=sum(each.size_bytes for each in self.transfers.wanted),
            missing_chunks=self.transfers.missing,
            applied=applied,
        )


def survey(context: Context, to: int, mode: str) -> Survey:
    """Read all that an upgrade would convert.

    Raises:
        SessionStateError: the repository is not from before spec 1, or on its way to another.
        FormatError: something cannot be represented, such as an index beyond 32 bits.
    """
    source, target, how = source_of(context), target_generation(to), ChunkMode.of(mode)
    require_no_other(source, target)
    refs = source.read_refs()
    if not target.repo_object:  # there each tag is a folder
        for name in (*refs.tags, *refs.deleted_tags):
            check_ref_name("tag", name)
    history = source.history(source.tips(refs), {})
    root = source.root_of(refs, history)
    new_config(source, how)  # tells when chunks cannot be virtual here
    counted = CountingSink()
    converter = Converter(source, target, root, counted, relocation(source, target, how))
    for id in history:
        converter.convert(id)
    found = Survey(source, target, how, refs, history, root, counted, converter)
    found.transfers = transfers_of(source, counted.needs, how)
    return found


def upgrade(
    context: Context,
    *,
    to: int = 2,
    mode: str = ChunkMode.LINK,
    dry_run: bool = False,
    make_move: MakeMove = mover,
) -> UpgradeReport:
    """Make a repository from before spec 1 one of spec 1 or 2; open it anew afterwards.

    `make_move` tells how chunk objects are linked or copied; by default this process does it.

    Raises:
        ReadOnlyError: the storage cannot be written to.
        SessionStateError: the repository is not from before spec 1, or on its way to another.
        FormatError: something cannot be represented; nothing was written.
        ConflictError: the repository kept changing, or another process has just upgraded it.
    """
    if not dry_run:
        require_writable_place(context.place, "upgrade")
    found = survey(context, to, mode)
    if dry_run:
        return found.report(applied=False)
    _apply(found, make_move(found.source, found.mode))
    return found.report(applied=True)


def _apply(found: Survey, move: MoveChunks) -> None:
    place = found.source.place
    claim = take(place, upgrading(found.target, found.mode))
    with claimed(claim):
        if is_upgraded(place):
            raise too_late(claim)
        _make(found, claim, move)


def _make(found: Survey, claim: Claim, move: MoveChunks) -> None:
    source, target = found.source, found.target
    level = source.context.config.compression_level()
    sink = WritingSink(source.place, target, level)
    relocate = relocation(source, target, found.mode)
    converter = Converter(source, target, found.root, sink, relocate)
    # What was there at the survey may have been undone before the claim was taken.
    found.transfers = transfers_of(source, found.counted.needs, found.mode)
    move(found.transfers.wanted)
    require_moved(source, found.transfers)
    for number in attempts(source.context.config.update_retries()):
        refs = found.refs if number == 0 else source.read_refs()
        history = source.history(source.tips(refs), found.history)
        claim.hold()
        _convert(found, converter, history, claim, move)
        sink.make_durable()
        claim.hold()
        if fence(source, refs, target) and _is_settled(source, refs, converter):
            break
        found.history = history
    config = new_config(source, found.mode)
    # What lost its refs since it was converted may have lost its chunks as well.
    new = (converter.done[id].id for id in history)
    entries = {id: converter.entries[id] for id in new}
    publish(source, target, renamed(refs, found.root), entries, config, claim)
    claim.hold()
    hide_old_refs(source, target)


def _convert(
    found: Survey,
    converter: Converter,
    history: dict[SnapshotId, SnapshotLink],
    claim: Claim,
    move: MoveChunks,
) -> None:
    """Convert what was not converted yet: all at first, later what others have committed."""
    todo = [id for id in history if id not in converter.done]
    late = [id for id in todo if id not in found.converter.done]
    if late:
        # Commits since the survey: their chunks have not been dealt with.
        for id in late:
            found.converter.convert(id)
        transfers = transfers_of(found.source, found.counted.needs, found.mode)
        move(transfers.wanted)
        require_moved(found.source, transfers)
        claim.hold()
    preserve(found.source.place, changed_files(found.source, todo))
    for id in todo:
        claim.keep()
        converter.convert(id)


def _is_settled(source: UpgradeSource, refs: RefSet, converter: Converter) -> bool:
    """Whether all that the fenced repository holds was converted."""
    now = source.read_refs()
    return now == refs and source.tips(now) <= converter.done.keys()
