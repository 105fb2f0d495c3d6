"""Branches and tags."""

from __future__ import annotations

from frazil.async_twins import async_twin
from frazil.repository.handle import Handle
from frazil.tip import require_writable


class Refs(Handle):
    """Names for snapshots."""

    def create_branch(self, branch: str, snapshot_id: str) -> None:
        """Make a branch that points to a snapshot."""
        require_writable(self.context)
        self.context.refs.create_branch(branch, self._id_of(snapshot_id))

    def list_branches(self) -> set[str]:
        """Names of all branches."""
        return set(self.context.refs.branches())

    def lookup_branch(self, branch: str) -> str:
        """The snapshot a branch points to."""
        return str(self.context.refs.branch_tip(branch))

    def reset_branch(
        self, branch: str, snapshot_id: str, *, from_snapshot_id: str | None = None
    ) -> None:
        """Point a branch to another snapshot, if it still is where you think."""
        require_writable(self.context)
        expected = None if from_snapshot_id is None else self._id_of(from_snapshot_id)
        self.context.refs.reset_branch(branch, self._id_of(snapshot_id), expected)

    def delete_branch(self, branch: str) -> None:
        """Delete a branch; its snapshots stay until garbage collection."""
        require_writable(self.context)
        self.context.refs.delete_branch(branch)

    def create_tag(self, tag: str, snapshot_id: str) -> None:
        """Give a snapshot a name that never moves."""
        require_writable(self.context)
        self.context.refs.create_tag(tag, self._id_of(snapshot_id))

    def list_tags(self) -> set[str]:
        """Names of all tags."""
        return set(self.context.refs.tags())

    def lookup_tag(self, tag: str) -> str:
        """The snapshot a tag points to."""
        return str(self.context.refs.tag_target(tag))

    def delete_tag(self, tag: str) -> None:
        """Delete a tag; its name cannot be used again."""
        require_writable(self.context)
        self.context.refs.delete_tag(tag)

    create_branch_async = async_twin(create_branch)
    list_branches_async = async_twin(list_branches)
    lookup_branch_async = async_twin(lookup_branch)
    reset_branch_async = async_twin(reset_branch)
    delete_branch_async = async_twin(delete_branch)
    create_tag_async = async_twin(create_tag)
    list_tags_async = async_twin(list_tags)
    lookup_tag_async = async_twin(lookup_tag)
    delete_tag_async = async_twin(delete_tag)
