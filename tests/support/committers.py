"""Work for processes that commit to one branch, and the proof that nothing of it was lost."""

from __future__ import annotations

import json
import os
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from frazil.model.values import ConflictDetector
from frazil.repository import Repository
from frazil.storage.base import Storage
from frazil.transaction.keyspace import KeySpace
from tests.support.checks import Checked, check_repository
from tests.support.generations import Spec
from tests.support.nodes import array_document, contents, group_document, write_keys

CHUNK_BYTES = 700
"""more than fits into a manifest, so that every commit writes a chunk object"""


@dataclass(frozen=True, slots=True)
class Field:
    """What is committed: each writer has a row of one array and a group of its own."""

    storage: Storage
    writers: int
    commits: int
    """of each writer"""

    def create(self, spec: Spec) -> Repository:
        """Make the repository with an empty array and empty groups."""
        repository = Repository.create(self.storage, spec_version=spec)
        session = repository.writable_session("main")
        shape = self.writers, self.commits * CHUNK_BYTES
        keys = {
            "zarr.json": group_document(),
            "shared/zarr.json": array_document(*shape, chunks=(1, CHUNK_BYTES)),
        }
        groups = {f"w{writer}/zarr.json": notes([]) for writer in range(self.writers)}
        write_keys(session, {**keys, **groups})
        session.commit("field")
        return repository

    def commit(self, repository: Repository, writer: int, number: int) -> None:
        """Write one chunk of the shared array and a line in the writer's own group."""
        session = repository.writable_session("main")
        space = KeySpace(session.state)
        written = json.loads(space.get(f"w{writer}/zarr.json") or b"")["attributes"]["written"]
        space.set(f"w{writer}/zarr.json", notes([*written, number]))
        space.set(f"shared/c/{writer}/{number}", value(writer, number))
        session.commit(name(writer, number), rebase_with=ConflictDetector())


def name(writer: int, number: int) -> str:
    """The message of a commit."""
    return f"{writer}/{number}"


def value(writer: int, number: int) -> bytes:
    """What a writer puts into a chunk."""
    return f"{name(writer, number)};".encode().ljust(CHUNK_BYTES, b".")


def notes(numbers: list[int]) -> bytes:
    """The metadata of a writer's own group."""
    return group_document(written=numbers)


def write_all(field: Field, journal: Journal, writer: int) -> None:
    """Make all commits of a writer that nobody has begun yet."""
    repository = Repository.open(field.storage)
    for number in range(journal.next_number(writer), field.commits):
        journal.note("began", writer, number)
        field.commit(repository, writer, number)
        journal.note("acknowledged", writer, number)


@dataclass(frozen=True, slots=True)
class Journal:
    """What writers say of themselves, in a file of their own each, which outlives them."""

    folder: Path

    def note(self, word: str, writer: int, number: int) -> None:
        """Add a line; a killed writer leaves a whole line or none."""
        path = self.folder / f"{writer}.log"
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.write(descriptor, f"{word} {name(writer, number)}\n".encode())
        os.close(descriptor)

    def commits(self, word: str) -> list[str]:
        """Names of all commits of which this was said."""
        lines = [
            line.split()
            for path in sorted(self.folder.glob("*.log"))
            for line in path.read_text().splitlines()
        ]
        return [commit for said, commit in lines if said == word]

    def next_number(self, writer: int) -> int:
        """The first number the writer has not tried."""
        return sum(begun.split("/")[0] == str(writer) for begun in self.commits("began"))


def check_field(field: Field, journal: Journal) -> Checked:
    """Every acknowledged commit is there, none twice, and the data is that of the history."""
    repository = Repository.open(field.storage)
    checked = check_repository(repository)
    made = checked.messages()[2:]
    assert [who for who, times in Counter(made).items() if times > 1] == []
    assert set(journal.commits("acknowledged")) <= set(made)
    assert set(made) <= set(journal.commits("began"))
    found = contents(repository.readonly_session("main"))
    for writer in range(field.writers):
        numbers = [int(one.split("/")[1]) for one in made if one.split("/")[0] == str(writer)]
        assert numbers == sorted(numbers)
        assert json.loads(found[f"w{writer}/zarr.json"]) == json.loads(notes(numbers))
        for number in range(field.commits):
            wanted = value(writer, number) if number in numbers else None
            assert found.get(f"shared/c/{writer}/{number}") == wanted
    return checked
