"""Repair in stages: each is planned, and applied if wanted; nothing is overwritten.

First the entry point, then history, then the arrays at the tips of branches, then logs. Each
stage works on the result of those before it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from frazil.commit.base import OVERWRITTEN, YEAR_3000_MS, now_micros
from frazil.commit.by_repo_object import RepoObjectRefs
from frazil.commit.config_file import CONFIG_KEY, YAML_FILE
from frazil.commit.file_refs import FileRefs
from frazil.commit.repo_object import Edit
from frazil.errors import (
    ConflictError,
    ErrorKind,
    FormatError,
    InvalidInputError,
    SessionStateError,
)
from frazil.formats.ref_files import encode_ref
from frazil.formats.repo_info import REPO_KEY, encode_repo_info
from frazil.formats.snapshot import decode_snapshot
from frazil.fsck.files import FsckTarget, RepositoryFiles, content_of, open_anyway
from frazil.fsck.findings import Finding
from frazil.fsck.plans import Action, RepairPlan, RepairState, RepairStep
from frazil.fsck.rebuilding_arrays import MissingChunks, plan_rewrite
from frazil.fsck.rebuilding_history import (
    ConfigFix,
    fix_config,
    fix_config_file,
    is_readable,
    missing_logs,
    plan_history,
    plan_parents,
    rebuild_refs,
    without,
)
from frazil.fsck.rebuilding_repo import Rebuilt, rebuild_repo, rewrite_repo, with_main
from frazil.fsck.repo_rules import RefFiles, check_config, read_ref_files, read_repo
from frazil.fsck.rewriting import commit_rewrite
from frazil.ids import MAIN, ObjectId, SnapshotId
from frazil.maintenance.file_history import read_file_history
from frazil.model.history import RepoInfo, UpdateType
from frazil.progress import Progress, Tell, silent
from frazil.storage.assets import file_attributes, log_key, snapshot_key
from frazil.storage.base import JSON_FILE, Attributes, Fetched, LostRace, Storage, Unchanged
from frazil.tip import require_writable
from frazil.transaction.context import Context


def repair(
    place: FsckTarget,
    *,
    apply: bool = False,
    missing_chunks: MissingChunks = "drop",
    tips: Mapping[str, str] | None = None,
    expected: RepairPlan | None = None,
    progress: Tell | None = None,
) -> RepairPlan:
    """Plan how to bring back a damaged repository, and do it if `apply`.

    Before a file is overwritten, a copy is kept below `overwritten/`. Branches change by new
    commits, so that every state before the repair can still be read.

    Args:
        place: an open repository, or the storage of one, which may be too damaged to open.
        apply: do it; otherwise only tell what would be done.
        missing_chunks: what becomes of references to chunk objects that are gone: `drop` them,
            so that the fill value is read, or take the chunk of an `older` snapshot if there is
            one.
        tips: snapshots that lost branches are known to have been at, where a plan says that it
            had to assume something.
        expected: a plan made before; nothing is done unless the plan is still the same.
        progress: is called with the progress so far.

    Raises:
        ConflictError: the repository changed meanwhile, or its plan is not the expected one.
        FormatError: nothing is left that a repository could be made of.
    """
    if missing_chunks not in ("drop", "older"):
        raise InvalidInputError(
            f"missing_chunks must be 'drop' or 'older', not {missing_chunks!r}",
            kind=ErrorKind.INVALID_OPTION,
        )
    context = open_anyway(place)
    if context.generation.is_legacy:
        raise FormatError(
            f"repositories of {context.generation.title} cannot be repaired, only checked",
            kind=ErrorKind.UNSUPPORTED_OPERATION_FOR_VERSION,
        )
    tell = progress or silent
    known = {name: SnapshotId.parse(tip) for name, tip in (tips or {}).items()}
    plan = _Repair(context, missing_chunks, known, tell).run()
    if expected is not None and not plan.is_same(expected):
        raise ConflictError(
            message="the repository has changed since the plan was made; plan again",
            kind=ErrorKind.REPO_INFO_UPDATED,
        )
    if not apply:
        return plan
    if not context.storage.can_write:
        require_writable(context, "repair")
    return _Repair(context, missing_chunks, known, tell, planned=plan).run()


@dataclass(slots=True, eq=False)
class _Repair:
    """One repair while it is planned or done."""

    context: Context
    missing: MissingChunks
    tips: Mapping[str, SnapshotId]
    tell: Tell
    planned: RepairPlan | None = None
    """what is to be done; None: it is only planned"""
    steps: list[RepairStep] = field(default_factory=list)
    losses: list[str] = field(default_factory=list)
    made: list[str] = field(default_factory=list)

    @property
    def storage(self) -> Storage:
        return self.context.storage

    @property
    def apply(self) -> bool:
        return self.planned is not None

    def _add(self, *steps: RepairStep) -> None:
        """Add what comes next.

        Raises:
            ConflictError: it is not what comes next in the plan, because others have been here.
        """
        for step in steps:
            at = len(self.steps)
            if self.planned is not None and self.planned.steps[at : at + 1] != (step,):
                raise _changed_meanwhile()
            self.steps.append(step)

    def run(self) -> RepairPlan:
        self._require_current()
        state = self._history(self._beginning())
        for number, branch in enumerate(sorted(state.branches), 1):
            self._branch(state, branch)
            self.tell(Progress("branches", number, len(state.branches)))
        self._logs(state)
        self._require_current()
        return RepairPlan(tuple(self.steps), tuple(self.losses), self.apply, tuple(self.made))

    def _require_current(self) -> None:
        """Refuse to go on after an upgrade, whose fences look like damage."""
        refs = self.context.refs
        if self.apply and isinstance(refs, FileRefs):
            refs.require_current()

    # --- what a repository begins with ---

    def _beginning(self) -> RepairState:
        self.tell(Progress("repository", 0, 1))
        return self._repo() if self.context.generation.repo_object else self._refs()

    def _repo(self) -> RepairState:
        found = self.storage.fetch(REPO_KEY)
        assert not isinstance(found, Unchanged)
        info, findings = (None, []) if found is None else read_repo(found.data)
        if info is not None:
            info = self._tidy(info, findings)
        else:
            rebuilt = rebuild_repo(RepositoryFiles(self.context.assets), self.tips)
            if rebuilt is None:
                raise FormatError("no backup and no snapshot is left to begin with", key=REPO_KEY)
            self._add(rebuilt.step)
            self.losses += rebuilt.losses
            info = rebuilt.info
            if self.apply:
                self._write_repo(found, rebuilt)
        self._config(fix_config(self.storage, info))
        entries = {entry.id: entry for entry in info.snapshots.entries()}
        generation = self.context.generation
        files = RepositoryFiles(self.context.assets)
        return RepairState(files, generation, dict(info.branches), dict(info.tags), entries, info)

    def _tidy(self, info: RepoInfo, findings: Sequence[Finding]) -> RepoInfo:
        """Have a repo object that breaks rules written anew, and give it as it is then."""
        step = rewrite_repo(info, findings)
        if step is None:
            return info
        self._add(step)
        branches = with_main(info)
        if MAIN in branches.keys() - info.branches.keys():
            self.losses.append(f"where branch 'main' was: it is assumed to be at {branches[MAIN]}")
        refs = self.context.refs
        if self.apply and isinstance(refs, RepoObjectRefs):
            refs.edit(_tidied, any_status=True)
        return replace(info, branches=branches)

    def _write_repo(self, found: Fetched | None, rebuilt: Rebuilt) -> None:
        blob = rebuilt.verbatim or encode_repo_info(rebuilt.info)
        self._replace(REPO_KEY, found, blob, file_attributes("repo-info", 2))

    def _refs(self) -> RepairState:
        self._config(fix_config_file(self.storage))
        refs: RefFiles = read_ref_files(self.storage)
        past = read_file_history(self.context.assets)
        encoded = self.storage.percent_encodes_names
        steps, losses = rebuild_refs(refs, past, self.tips, encoded=encoded)
        self._add(*steps)
        self.losses += losses
        branches = dict(refs.branches)
        for step in steps:
            tip = SnapshotId.parse(step.facts["snapshot"])
            branches[step.facts["branch"]] = tip
            if self.apply:
                planned = refs.unusable.get(step.target)
                self._replace(step.target, planned, encode_ref(tip), JSON_FILE)
        entries = {one: known.entry for one, known in past.known.items()}
        files = RepositoryFiles(self.context.assets)
        return RepairState(files, self.context.generation, branches, refs.tags, entries)

    def _config(self, fix: ConfigFix | None) -> None:
        if fix is None:
            return
        self._add(fix.step)
        self.losses.append(fix.loss)
        if not self.apply:
            return
        refs = self.context.refs
        if isinstance(refs, RepoObjectRefs):
            refs.edit(lambda info: _with_config(info, fix))
            return
        found = self.storage.fetch(CONFIG_KEY)
        assert not isinstance(found, Unchanged)
        if found is not None and not is_readable(found.data):
            self._replace(CONFIG_KEY, found, fix.blob, YAML_FILE)

    def _replace(
        self, key: str, found: Fetched | None, blob: bytes, attributes: Attributes
    ) -> None:
        """Overwrite an object, after a copy of it was kept."""
        if found is not None:
            self._keep(key, found.data)
        version = None if found is None else found.version
        self._require_current()
        if isinstance(self.storage.put_if(key, blob, version, attributes), LostRace):
            raise _changed_meanwhile()
        self.storage.make_durable([key])

    def _keep(self, key: str, data: bytes) -> None:
        """Copy a damaged file to where garbage collection ignores it."""
        name = f"damaged.{key.replace('/', '.')}.{YEAR_3000_MS - now_micros() // 1000:014d}"
        kept = f"{OVERWRITTEN}{name}.{ObjectId.random()}"
        self.storage.put(kept, data)
        self.storage.make_durable([kept])

    # --- history ---

    def _history(self, state: RepairState) -> RepairState:
        self.tell(Progress("history", 0, len(state.entries)))
        for plan in (plan_parents, partial(plan_history, tips=self.tips)):
            steps, losses, after = plan(state)
            self._add(*steps)
            self.losses += losses
            if self.apply:
                for step in steps:
                    self._change_history(state, step)
            state = after
        self.tell(Progress("history", len(state.entries), len(state.entries)))
        return state

    def _change_history(self, state: RepairState, step: RepairStep) -> None:
        refs = self.context.refs
        if step.action == Action.RESET_BRANCH:
            self._reset_branch(step)
            return
        if step.action == Action.CHANGE_PARENT:
            self._change_parent(state, step)
            return
        gone = {SnapshotId.parse(name) for name in step.facts["snapshots"]}
        for one in gone - {*state.branches.values()}:
            self._keep_file(snapshot_key(one))
        if not isinstance(refs, RepoObjectRefs):
            raise SessionStateError("only a repo object lists snapshots")
        refs.edit(lambda info: self._cut(info, gone))

    def _cut(self, info: RepoInfo, gone: set[SnapshotId]) -> Edit | None:
        """The history without snapshots that still cannot be read and that still no ref leads to.

        Raises:
            ConflictError: a ref to one of them was made meanwhile.
        """
        files = RepositoryFiles(self.context.assets)
        now = RepairState(files, self.context.generation, info.branches, info.tags, {}, info)
        lost = {one for one in gone if one in info.snapshots and now.snapshot(one) is None}
        if lost & {*info.branches.values(), *info.tags.values()}:
            raise _changed_meanwhile()
        if not lost:
            return None
        return Edit(UpdateType.GCRan(), {"snapshots": without(info.snapshots, lost)})

    def _reset_branch(self, step: RepairStep) -> None:
        """Move a branch away from a snapshot that still cannot be read.

        The file may be brought back between the check and the move, so it is checked again
        afterwards.

        Raises:
            ConflictError: another process has moved the branch, or the file is back.
        """
        refs, branch = self.context.refs, step.facts["branch"]
        tip, to = SnapshotId.parse(step.facts["from"]), SnapshotId.parse(step.facts["to"])
        self._keep_file(snapshot_key(tip))
        if self._is_readable(tip):
            raise _changed_meanwhile()
        refs.reset_branch(branch, to, tip)
        if self._is_readable(tip):
            refs.reset_branch(branch, tip, to)
            raise _changed_meanwhile()

    def _is_readable(self, snapshot_id: SnapshotId) -> bool:
        """Whether a snapshot can be read now."""
        read = RepositoryFiles(self.context.assets).snapshot(snapshot_id)
        return content_of(read, snapshot_id) is not None

    def _change_parent(self, state: RepairState, step: RepairStep) -> None:
        """Write a snapshot file with another parent over the one that the plan was made from.

        Raises:
            ConflictError: the file has gone, or was written anew.
        """
        planned, found = state.snapshot(_snapshot_of(step)), self.storage.fetch(step.target)
        if planned is None or not isinstance(found, Fetched):
            raise _changed_meanwhile()
        if decode_snapshot(found.data, key=step.target) != planned:
            raise _changed_meanwhile()
        self._keep(step.target, found.data)
        self._require_current()
        to = step.facts["to"]
        made = replace(planned, parent_id=SnapshotId.parse(to) if to else None)
        if not self.context.assets.replace_snapshot(made, found.version):
            raise _changed_meanwhile()
        self.storage.make_durable([step.target])

    def _keep_file(self, key: str) -> None:
        blob = self.storage.get(key)
        if blob is not None:
            self._keep(key, blob)

    # --- arrays ---

    def _branch(self, state: RepairState, branch: str) -> None:
        rewrite = plan_rewrite(state, branch, self.missing)
        if rewrite is None or not rewrite.is_needed:
            return
        self._add(rewrite.step())
        self.losses += rewrite.losses()
        if self.apply:
            self.made.append(str(commit_rewrite(self.context, rewrite)))

    # --- logs ---

    def _logs(self, state: RepairState) -> None:
        for log in missing_logs(state):
            key = log_key(log.id)
            detail = "made of the difference to the parent"
            self._add(RepairStep(Action.WRITE_LOG, key, detail))
            if self.apply:
                self.storage.make_durable([self.context.assets.save_log(log)])


def _snapshot_of(step: RepairStep) -> SnapshotId:
    return SnapshotId.parse(step.facts["snapshot"])


def _tidied(info: RepoInfo) -> Edit:
    """The same repo object, which writing puts in order; a flag set both ways counts as on."""
    on, off = info.enabled_feature_flags, info.disabled_feature_flags
    fields = {
        "branches": with_main(info),
        "disabled_feature_flags": off - on if on is not None and off is not None else off,
    }
    return Edit(UpdateType.MetadataChanged(), fields)


def _with_config(info: RepoInfo, fix: ConfigFix) -> Edit | None:
    """Another configuration, unless a readable one was stored meanwhile."""
    if not [*check_config(info.config, REPO_KEY)]:
        return None
    return Edit(UpdateType.ConfigChanged(), {"config": fix.config})


def _changed_meanwhile() -> ConflictError:
    return ConflictError(
        message="another process has changed the repository during its repair",
        kind=ErrorKind.REPO_INFO_UPDATED,
    )
