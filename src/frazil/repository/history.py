"""Refs, snapshots, what changed between them, the operations log, and repository attributes."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import suppress
from itertools import islice
from typing import Any, Final

from frazil import urls
from frazil.async_twins import AsyncItems, async_items, async_twin
from frazil.drawing.markup import Html, escaped, folded, joined_html, note, table
from frazil.errors import ErrorKind, InvalidInputError, SnapshotNotFoundError
from frazil.ids import SnapshotId
from frazil.model.config import FeatureFlag
from frazil.model.graph import AncestryGraph
from frazil.model.history import SnapshotEntry
from frazil.model.lineage import other_parents
from frazil.model.outward import (
    inner_status,
    manifest_file_info,
    repo_status,
    snapshot_info,
    update_of,
)
from frazil.model.updates import FLAGS
from frazil.model.values import Diff, ManifestFileInfo, RepoStatus, SnapshotInfo, Update
from frazil.naming import OURS, package
from frazil.repository.handle import RepositoryHandle
from frazil.tip import require_writable
from frazil.transaction.draft import diff_of
from frazil.transaction.views import views

SHOWN_COMMITS: Final = 100
"""Commits that a notebook shows of an ancestry."""
SHOWN_NEWEST: Final = 12
"""Commits that it shows of a repository."""
SHOWN_BRANCHES: Final = 8
"""Branches whose newest commits are looked at for that."""


class Ancestry(AsyncItems[SnapshotInfo]):
    """Snapshots one after the other; a notebook shows the newest, and none is used up by that."""

    def _repr_html_(self) -> str:
        return joined_html(views(self._views()))

    def _views(self) -> Iterator[Html]:
        found = list(islice(self._start(), SHOWN_COMMITS + 1))
        yield Html(AncestryGraph(found[:SHOWN_COMMITS])._repr_html_())
        if len(found) > SHOWN_COMMITS:
            yield note(f"the newest {SHOWN_COMMITS}; there are more")


class RefMethods(RepositoryHandle):
    """Names for snapshots."""

    def create_branch(self, branch: str, snapshot_id: str) -> None:
        """Make a branch that points to a snapshot."""
        require_writable(self._context)
        self._context.refs.create_branch(branch, self._id_of(snapshot_id))

    def list_branches(self) -> set[str]:
        """Names of all branches."""
        return set(self._context.refs.branches())

    def lookup_branch(self, branch: str) -> str:
        """The snapshot a branch points to."""
        return str(self._context.refs.branch_tip(branch))

    def reset_branch(
        self, branch: str, snapshot_id: str, *, from_snapshot_id: str | None = None
    ) -> None:
        """Point a branch to another snapshot, if it still is where you think."""
        require_writable(self._context)
        expected = None if from_snapshot_id is None else self._id_of(from_snapshot_id)
        self._context.refs.reset_branch(branch, self._id_of(snapshot_id), expected)

    def delete_branch(self, branch: str) -> None:
        """Delete a branch; its snapshots stay until garbage collection."""
        require_writable(self._context)
        self._context.refs.delete_branch(branch)

    def create_tag(self, tag: str, snapshot_id: str) -> None:
        """Give a snapshot a name that never moves."""
        require_writable(self._context)
        self._context.refs.create_tag(tag, self._id_of(snapshot_id))

    def list_tags(self) -> set[str]:
        """Names of all tags."""
        return set(self._context.refs.tags())

    def lookup_tag(self, tag: str) -> str:
        """The snapshot a tag points to."""
        return str(self._context.refs.tag_target(tag))

    def delete_tag(self, tag: str) -> None:
        """Delete a tag; its name cannot be used again."""
        require_writable(self._context)
        self._context.refs.delete_tag(tag)

    create_branch_async = async_twin(create_branch)
    list_branches_async = async_twin(list_branches)
    lookup_branch_async = async_twin(lookup_branch)
    reset_branch_async = async_twin(reset_branch)
    delete_branch_async = async_twin(delete_branch)
    create_tag_async = async_twin(create_tag)
    list_tags_async = async_twin(list_tags)
    lookup_tag_async = async_twin(lookup_tag)
    delete_tag_async = async_twin(delete_tag)


class HistoryMethods(RefMethods):
    """What happened so far."""

    def _shown_below(self) -> Iterable[Html]:
        """In a notebook: branches, tags, and the newest commits of the first of them."""
        if package() == OURS and self._open_context is not None:
            yield from views(self._views())

    def _views(self) -> Iterator[Html]:
        refs = self._context.refs
        branches = {name: str(tip) for name, tip in sorted(refs.branches().items())}
        tags = {name: str(target) for name, target in sorted(refs.tags().items())}
        for title, names in (("branch", branches), ("tag", tags)):
            if names:
                rows = ([escaped(name), escaped(target)] for name, target in names.items())
                many = "es" if title == "branch" else "s"
                counted = f"{len(names):,} {title}{many if len(names) != 1 else ''}"
                yield folded(counted, table((title, "snapshot"), rows), is_open=len(names) <= 5)
        first = [branches["main"]] if "main" in branches else []
        starts = dict.fromkeys([*first, *branches.values()][:SHOWN_BRANCHES])
        known = {
            info.id: info
            for start in starts
            for info in islice(self.ancestry(snapshot_id=start), SHOWN_NEWEST)
        }
        newest = sorted(known.values(), key=lambda info: info.written_at, reverse=True)
        drawn = AncestryGraph(newest[:SHOWN_NEWEST], branches, tags)
        yield folded("newest commits", Html(drawn._repr_html_()), is_open=True)

    def ancestry(
        self,
        *,
        branch: str | None = None,
        tag: str | None = None,
        snapshot_id: str | None = None,
    ) -> Iterator[SnapshotInfo]:
        """A snapshot and its ancestors, newest first."""
        start = self._selected(branch, tag, snapshot_id)
        return Ancestry(lambda: self._context.refs.history(start))

    def async_ancestry(
        self,
        *,
        branch: str | None = None,
        tag: str | None = None,
        snapshot_id: str | None = None,
    ) -> AsyncIterator[SnapshotInfo]:
        """A snapshot and its ancestors, newest first, as an async iterator."""
        return AsyncItems(lambda: self.ancestry(branch=branch, tag=tag, snapshot_id=snapshot_id))

    def ancestry_graph(
        self,
        *,
        branch: str | None = None,
        tag: str | None = None,
        snapshot_id: str | None = None,
        plain: bool = False,
    ) -> AncestryGraph:
        """The history as a picture, with merges: of one ref, or of all branches and tags.

        What a commit merged is drawn too, as far as it is still there.
        """
        refs = self._context.refs
        branches, tags = dict(refs.branches()), dict(refs.tags())
        chosen = (branch, tag, snapshot_id) != (None, None, None)
        starts = [self._selected(branch, tag, snapshot_id)] if chosen else sorted(refs.heads())
        return AncestryGraph(
            [snapshot_info(entry) for entry in self._merged_history(starts)],
            {name: str(tip) for name, tip in branches.items()},
            {name: str(target) for name, target in tags.items()},
            plain,
        )

    def _merged_history(self, starts: Iterable[SnapshotId]) -> list[SnapshotEntry]:
        """Some snapshots, their ancestors, and those of all that they merged."""
        found: dict[SnapshotId, SnapshotEntry] = {}
        merged: list[SnapshotId] = []

        def walk(start: SnapshotId) -> None:
            for entry in self._context.refs.ancestry(start):
                if entry.id in found:
                    break
                found[entry.id] = entry
                merged.extend(other_parents(entry.metadata))

        for start in starts:
            walk(start)
        while merged:
            with suppress(SnapshotNotFoundError):  # it was collected as garbage since
                walk(merged.pop())
        return list(found.values())

    def ops_log(self) -> Iterator[Update]:
        """Everything that was done to the repository, newest first."""
        self._context.generation.require_repo_object("the operations log")
        return AsyncItems(lambda: map(update_of, self._context.refs.updates()))

    def resolve(self, version: str) -> str:
        """The snapshot a text means: a branch, else a tag, else an id or the beginning of one.

        `{2024-05-01}` means what `main` was at that time, `dev@{2024-05-01}` what `dev` was.
        """
        return urls.resolve_version(urls.parse_version(version), self)

    def lookup_snapshot(self, snapshot_id: str) -> SnapshotInfo:
        """What is known of a snapshot.

        Raises:
            SnapshotNotFoundError: there is no such snapshot.
        """
        return snapshot_info(self._context.refs.entry(self._id_of(snapshot_id)))

    def list_snapshots(self) -> list[SnapshotInfo]:
        """All snapshots of the histories of branches and tags, newest first.

        A G1 repository lists those too that no branch or tag leads to, and may have neither.
        """
        refs = self._context.refs
        found: dict[SnapshotId, SnapshotEntry] = {}
        for head in refs.heads():
            if head in found:
                continue
            for entry in refs.ancestry(head):
                if entry.id in found:  # and so are its ancestors
                    break
                found[entry.id] = entry
        ordered = sorted(found.values(), key=lambda entry: -entry.flushed_at)
        return [snapshot_info(entry) for entry in ordered]

    def list_manifest_files(self, snapshot_id: str) -> list[ManifestFileInfo]:
        """The manifests a snapshot needs."""
        snapshot = self._context.assets.snapshot(self._id_of(snapshot_id))
        return [manifest_file_info(info) for info in snapshot.manifest_files]

    def diff(
        self,
        *,
        from_branch: str | None = None,
        from_tag: str | None = None,
        from_snapshot_id: str | None = None,
        to_branch: str | None = None,
        to_tag: str | None = None,
        to_snapshot_id: str | None = None,
    ) -> Diff:
        """What changed from one snapshot to a later one.

        Raises:
            InvalidInputError: the first is no ancestor of the second.
        """
        first = self._selected(from_branch, from_tag, from_snapshot_id)
        last = self._selected(to_branch, to_tag, to_snapshot_id)
        between = self._between(first, last)
        assets = self._context.assets
        ids = [id_ for entry in between for id_ in (*entry.pruned_ancestor_tx_logs, entry.id)]
        logs = [log for log in map(assets.log, ids) if log is not None]
        return diff_of(logs, assets.snapshot(first).nodes, assets.snapshot(last).nodes)

    def _between(self, first: SnapshotId, last: SnapshotId) -> list[SnapshotEntry]:
        """Entries after `first` up to `last`, oldest first."""
        found: list[SnapshotEntry] = []
        for entry in self._context.refs.ancestry(last):
            if entry.id == first and found:
                return found[::-1]
            found.append(entry)
        raise InvalidInputError(
            f"invalid snapshot chain: the ancestry of {last} doesn't include {first} "
            "as an earlier snapshot",
            kind=ErrorKind.BAD_SNAPSHOT_CHAIN_FOR_DIFF,
        )

    ancestry_graph_async = async_twin(ancestry_graph)
    lookup_snapshot_async = async_twin(lookup_snapshot)
    list_snapshots_async = async_twin(list_snapshots)
    list_manifest_files_async = async_twin(list_manifest_files)
    diff_async = async_twin(diff)
    ops_log_async = async_items(ops_log)


class AttributeMethods(RepositoryHandle):
    """What is true of the repository as a whole."""

    @property
    def metadata(self) -> dict[str, Any]:
        """Attributes of the repository."""
        return self.get_metadata()

    def get_metadata(self) -> dict[str, Any]:
        """Attributes of the repository."""
        return dict(self._context.refs.metadata())

    def set_metadata(self, metadata: dict[str, Any]) -> None:
        """Replace the attributes of the repository."""
        self._context.refs.set_metadata(metadata, merge=False)

    def update_metadata(self, metadata: dict[str, Any]) -> dict[str, Any]:
        """Overlay attributes of the repository, and return the result."""
        return dict(self._context.refs.set_metadata(metadata, merge=True))

    @property
    def status(self) -> RepoStatus:
        """Whether the repository takes changes."""
        return self.get_status()

    def get_status(self) -> RepoStatus:
        """Whether the repository takes changes."""
        return repo_status(self._context.refs.status())

    def set_status(self, status: RepoStatus) -> None:
        """Open or close the repository for changes."""
        self._context.refs.set_status(inner_status(status))

    def feature_flags(self) -> list[FeatureFlag]:
        """All feature flags."""
        enabled, disabled = self._context.refs.flags()
        return [
            FeatureFlag(
                id=flag,
                name=name,
                default_enabled=True,
                setting=True if flag in enabled else False if flag in disabled else None,
            )
            for flag, name in FLAGS.items()
        ]

    def enabled_feature_flags(self) -> list[FeatureFlag]:
        """Feature flags that are in force."""
        return [flag for flag in self.feature_flags() if flag.enabled]

    def disabled_feature_flags(self) -> list[FeatureFlag]:
        """Feature flags that are off."""
        return [flag for flag in self.feature_flags() if not flag.enabled]

    def set_feature_flag(self, name: str, setting: bool | None) -> None:
        """Set a feature flag; None returns it to its default."""
        self._context.generation.require_repo_object("feature flags")
        for flag, known in FLAGS.items():
            if known == name:
                self._context.refs.set_flag(flag, setting)
                return
        raise InvalidInputError(
            f"invalid feature flag {name!r}; known are {', '.join(FLAGS.values())}",
            kind=ErrorKind.INVALID_FEATURE_FLAG,
        )

    get_metadata_async = async_twin(get_metadata)
    set_metadata_async = async_twin(set_metadata)
    update_metadata_async = async_twin(update_metadata)
    get_status_async = async_twin(get_status)
    set_status_async = async_twin(set_status)
    feature_flags_async = async_twin(feature_flags)
    enabled_feature_flags_async = async_twin(enabled_feature_flags)
    disabled_feature_flags_async = async_twin(disabled_feature_flags)
    set_feature_flag_async = async_twin(set_feature_flag)
