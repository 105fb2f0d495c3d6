"""`repo.versions`: branches merged, commits repeated, undone and joined, values compared."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from frazil.async_twins import async_twin
from frazil.operations import Effect, VersionName, verb
from frazil.repository.reports import Namespace

if TYPE_CHECKING:
    from frazil.comparing.records import ValueDiff
    from frazil.merging.applying import FastForward
    from frazil.merging.policies import Policy
    from frazil.merging.records import MergeReport
    from frazil.progress import Tell


class Versions(Namespace):
    """What is done with whole branches and commits.

    Versions are given as `resolve` reads them: a branch, a tag, a snapshot id or the beginning
    of one. A `policy` decides conflicts: `fail`, `ours` (the branch that is changed), `theirs`,
    a mapping from path patterns to those, or a function from a `MergeConflict` to one of them.
    """

    @verb(Effect.CHANGES)
    def merge(
        self,
        source: VersionName,
        into: str = "main",
        *,
        message: str | None = None,
        policy: Policy = "fail",
        ff: FastForward = True,
        base: VersionName | None = None,
        dry_run: bool = False,
        metadata: dict[str, Any] | None = None,
    ) -> MergeReport:
        """Merge a version into a branch: by nodes, attributes and chunks, no bytes copied.

        Args:
            source: the version whose changes are wanted.
            into: the branch that gets them.
            message: of the merge commit.
            policy: how conflicts are resolved.
            ff: move the branch where it only lags behind (True), never (False), or `only` so.
            base: what to compare both with, when history cannot tell any more.
            dry_run: only report what would be done, conflicts included.
            metadata: of the merge commit, besides its two parents.

        Raises:
            MergeConflictError: both changed the same, and the policy does not decide; its
                `report` has the conflicts as data. Nothing was changed.
            SessionStateError: the histories have nothing in common that still exists.
        """
        from frazil.merging.applying import MergeOptions
        from frazil.merging.merge import merge

        compared = None if base is None else self._snapshot(base)
        options = MergeOptions(message, metadata, dry_run, policy, ff, compared, source)
        return merge(self._context, self._snapshot(source), into, options)

    @verb(Effect.CHANGES)
    def cherry_pick(
        self,
        snapshot: VersionName,
        onto: str = "main",
        *,
        message: str | None = None,
        policy: Policy = "fail",
        dry_run: bool = False,
        metadata: dict[str, Any] | None = None,
    ) -> MergeReport:
        """Make the change of one commit on a branch too; the message is its own by default.

        Args:
            snapshot: the commit: an id, its beginning, or a ref.
            onto: the branch that gets the change.
            message: of the new commit.
            policy: how conflicts are resolved.
            dry_run: only report what would be done, conflicts included.
            metadata: of the new commit.

        Raises:
            MergeConflictError: the branch changed the same, and the policy does not decide.
        """
        from frazil.merging.applying import MergeOptions
        from frazil.merging.replay import cherry_pick

        options = MergeOptions(message, metadata, dry_run, policy)
        return cherry_pick(self._context, self._snapshot(snapshot), onto, options)

    @verb(Effect.CHANGES)
    def revert(
        self,
        snapshot: VersionName,
        on: str = "main",
        *,
        message: str | None = None,
        policy: Policy = "fail",
        dry_run: bool = False,
        metadata: dict[str, Any] | None = None,
    ) -> MergeReport:
        """Take the change of one commit back, in a new commit.

        Args:
            snapshot: the commit: an id, its beginning, or a ref.
            on: the branch that gets the new commit.
            message: of the new commit.
            policy: how conflicts are resolved.
            dry_run: only report what would be done, conflicts included.
            metadata: of the new commit.

        Raises:
            MergeConflictError: the branch changed the same since, and the policy does not decide.
        """
        from frazil.merging.applying import MergeOptions
        from frazil.merging.replay import revert

        options = MergeOptions(message, metadata, dry_run, policy)
        return revert(self._context, self._snapshot(snapshot), on, options)

    @verb(Effect.CHANGES)
    def squash(
        self,
        branch: str,
        after: VersionName,
        to: VersionName | None = None,
        *,
        message: str | None = None,
        dry_run: bool = False,
        metadata: dict[str, Any] | None = None,
    ) -> MergeReport:
        """Make one commit of those that follow `after`, up to `to` or the tip of the branch.

        Commits after `to` are repeated upon it. Other branches and tags stay where they are.

        Args:
            branch: the branch that gets another history.
            after: the snapshot before the first of them.
            to: the last of them; the tip by default.
            message: of the new commit; those of all of them by default.
            dry_run: only report what would be done.
            metadata: of the new commit.

        Raises:
            InvalidInputError: `after` and `to` are not in the history of the branch.
            ConflictError: the branch moved meanwhile.
        """
        from frazil.merging.applying import MergeOptions
        from frazil.merging.squash import squash

        first = self._snapshot(after)
        newest = None if to is None else self._snapshot(to)
        options = MergeOptions(message, metadata, dry_run)
        return squash(self._context, branch, first, newest, options=options)

    @verb(Effect.CHANGES)
    def fast_forward(self, branch: str, to: VersionName, *, dry_run: bool = False) -> MergeReport:
        """Point a branch to a version that descends from its tip.

        Args:
            branch: the branch that moves.
            to: a version that descends from it.
            dry_run: only report what would be done.

        Raises:
            ConflictError: the branch has commits of its own.
        """
        from frazil.merging.merge import fast_forward

        return fast_forward(self._context, branch, self._snapshot(to), dry_run=dry_run)

    @verb(Effect.READS)
    def diff_values(
        self,
        before: VersionName,
        after: VersionName,
        *,
        paths: Sequence[str] | None = None,
        max_samples: int = 10,
        progress: Tell | None = None,
    ) -> ValueDiff:
        """How the values of two versions differ, cell by cell.

        Only chunks that may differ are read. `paths` are arrays, or groups above them. The
        versions need not be ancestors of each other.

        Raises:
            RefNotFoundError: there is no such version.
            NodeNotFoundError: neither version has a node at one of the paths.
        """
        from frazil.comparing.values import diff_values

        return diff_values(
            self._context,
            self._snapshot(before),
            self._snapshot(after),
            paths=paths,
            max_samples=max_samples,
            progress=progress,
        )

    merge_async = async_twin(merge)
    cherry_pick_async = async_twin(cherry_pick)
    revert_async = async_twin(revert)
    squash_async = async_twin(squash)
    fast_forward_async = async_twin(fast_forward)
    diff_values_async = async_twin(diff_values)
