"""Merging branches, repeating and undoing commits, and making several one."""

from __future__ import annotations

from typing import Any

from frazil import urls
from frazil.async_twins import async_twin
from frazil.ids import SnapshotId
from frazil.merging import merge as merging
from frazil.merging import replay, squash
from frazil.merging.applying import Wish
from frazil.merging.merge import FastForward, MergeOptions
from frazil.merging.policies import FAIL, Policy
from frazil.merging.records import MergeReport
from frazil.repository.history import History
from frazil.repository.refs import Refs


class Branching(History, Refs):
    """What is done with whole branches and commits.

    Versions are given as `resolve` reads them: a branch, a tag, a snapshot id or the beginning
    of one. A `policy` decides conflicts: `fail`, `ours` (the branch that is changed), `theirs`,
    a mapping from path patterns to those, or a function from a `MergeConflict` to one of them.
    """

    def merge(
        self,
        source: str,
        into: str = "main",
        *,
        message: str | None = None,
        policy: Policy = FAIL,
        ff: FastForward = True,
        base: str | None = None,
        dry_run: bool = False,
        metadata: dict[str, Any] | None = None,
    ) -> MergeReport:
        """Merge a version into a branch: by nodes, attributes and chunks, no bytes copied.

        Args:
            source: the version whose changes are wanted.
            into: the branch that gets them.
            message: of the merge commit.
            policy: who decides conflicts.
            ff: move the branch where it only lags behind (True), never (False), or `only` so.
            base: what to compare both with, when history cannot tell any more.
            dry_run: only report what would be done, conflicts included.
            metadata: of the merge commit, besides its two parents.

        Raises:
            MergeConflictError: both changed the same, and the policy does not decide; its
                `report` has the conflicts as data. Nothing was changed.
            SessionStateError: the histories have nothing in common that still exists.
        """
        options = MergeOptions(
            policy=policy,
            ff=ff,
            base=None if base is None else self._version(base),
            source_name=source,
            wish=Wish(message, metadata, dry_run),
        )
        return merging.merge(self.context, self._version(source), into, options)

    def cherry_pick(
        self,
        snapshot: str,
        onto: str = "main",
        *,
        message: str | None = None,
        policy: Policy = FAIL,
        dry_run: bool = False,
        metadata: dict[str, Any] | None = None,
    ) -> MergeReport:
        """Make the change of one commit on a branch too; the message is its own by default.

        Raises:
            MergeConflictError: the branch changed the same, and the policy does not decide.
        """
        wish = Wish(message, metadata, dry_run)
        return replay.cherry_pick(self.context, self._version(snapshot), onto, policy, wish)

    def revert(
        self,
        snapshot: str,
        on: str = "main",
        *,
        message: str | None = None,
        policy: Policy = FAIL,
        dry_run: bool = False,
        metadata: dict[str, Any] | None = None,
    ) -> MergeReport:
        """Take the change of one commit back, in a new commit.

        Raises:
            MergeConflictError: the branch changed the same since, and the policy does not decide.
        """
        wish = Wish(message, metadata, dry_run)
        return replay.revert(self.context, self._version(snapshot), on, policy, wish)

    def squash(
        self,
        branch: str,
        from_: str,
        to: str | None = None,
        *,
        message: str | None = None,
        dry_run: bool = False,
        metadata: dict[str, Any] | None = None,
    ) -> MergeReport:
        """Make one commit of those after `from_`, up to `to` or the tip of the branch.

        Commits after `to` are repeated upon it. Other branches and tags stay where they are.

        Raises:
            InvalidInputError: `from_` and `to` are not in the history of the branch.
            ConflictError: the branch moved meanwhile.
        """
        after = self._version(from_)
        newest = None if to is None else self._version(to)
        wish = Wish(message, metadata, dry_run)
        return squash.squash(self.context, branch, after, newest, wish)

    def fast_forward(self, branch: str, to: str, *, dry_run: bool = False) -> MergeReport:
        """Point a branch to a version that descends from its tip.

        Raises:
            ConflictError: the branch has commits of its own.
        """
        if not dry_run:
            self.require_writable()
        return merging.fast_forward(self.context, branch, self._version(to), dry_run=dry_run)

    def _version(self, text: str) -> SnapshotId:
        return SnapshotId.parse(urls.resolve(urls.parse_version(text), self))

    merge_async = async_twin(merge)
    cherry_pick_async = async_twin(cherry_pick)
    revert_async = async_twin(revert)
    squash_async = async_twin(squash)
    fast_forward_async = async_twin(fast_forward)
