"""A repository in memory whose branches are changed key by key, for tests of merging."""

from __future__ import annotations

import json
from typing import Any

from frazil.model.config import RepositoryConfig
from frazil.repository import Repository
from frazil.storage.base import Storage
from frazil.storage.memory import MemoryStorage
from frazil.transaction.keyspace import KeySpace
from tests.support.nodes import array_document, contents, group_document

Edits = dict[str, bytes | None]


class Branches:
    """A repository with short ways to change and read its branches."""

    def __init__(self, spec: int = 2, *, inline: int = 0, storage: Storage | None = None) -> None:
        self.storage = storage or MemoryStorage()
        config = RepositoryConfig(inline_chunk_threshold_bytes=inline)
        self.repository = Repository.create(self.storage, config=config, spec_version=spec)

    def commit(self, branch: str, edits: Edits, message: str = "change") -> str:
        """Set keys, None deleting them, and commit."""
        session = self.repository.writable_session(branch)
        space = KeySpace(session.state)
        for key, value in edits.items():
            if value is None:
                space.delete(key)
            else:
                space.set(key, value)
        return session.commit(message)

    def branch(self, name: str, at: str = "main") -> None:
        """Make a branch."""
        self.repository.create_branch(name, self.repository.resolve(at))

    def move(self, branch: str, source: str, target: str) -> str:
        """Move a node and commit."""
        session = self.repository.rearrange_session(branch)
        session.move(source, target)
        return session.commit(f"move {source} to {target}")

    def keys(self, branch: str) -> dict[str, bytes]:
        """Everything a branch has."""
        return contents(self.repository.readonly_session(branch))

    def chunks(self, branch: str, array: str) -> dict[str, bytes]:
        """The chunks of an array, by their coordinates as text."""
        start = f"{array}/c/"
        found = self.keys(branch)
        return {key[len(start) :]: found[key] for key in sorted(found) if key.startswith(start)}

    def document(self, branch: str, node: str) -> dict[str, Any]:
        """The metadata of a node."""
        found = json.loads(self.keys(branch)[f"{node}/zarr.json" if node else "zarr.json"])
        assert isinstance(found, dict)
        return found

    def nodes(self, branch: str) -> set[str]:
        """The paths of all nodes, without the first slash."""
        end = "/zarr.json"
        return {key[: -len(end)] for key in self.keys(branch) if key.endswith(end)}

    def tip(self, branch: str) -> str:
        """Where a branch points."""
        return self.repository.lookup_branch(branch)


def started(repo: Branches) -> Branches:
    """Put the first commit into a repository, and branch from it."""
    repo.commit(
        "main",
        {
            "zarr.json": group_document(title="t", old=1),
            "a/zarr.json": array_document(6, attributes={"units": "K", "old": 1}),
            "a/c/0": b"a0",
            "a/c/1": b"a1",
            "g/zarr.json": group_document(),
            "g/b/zarr.json": array_document(4, 4),
            "g/b/c/0/0": b"b00",
        },
        "start",
    )
    repo.branch("dev")
    return repo
