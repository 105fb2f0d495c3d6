"""Before a branch moves, everything the commit names is on the disk."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

import pytest

from frazil.errors import ErrorKind, StorageError
from frazil.repository import Repository
from frazil.storage.base import PLAIN, Attributes, Bytes, LostRace, Version, Written
from frazil.storage.local import LocalStorage
from frazil.transaction import committing
from tests.support.generations import ALL, IDS, Spec
from tests.support.nodes import array_document, contents, write_keys

BEFORE = {"a/zarr.json": array_document(2)}
AFTER = {"a/c/0": b"inline", "a/c/1": b"of its own" * 100}


KEPT: Final[dict[Spec, str]] = {
    1: "kept chunks manifests snapshots transactions",
    "g3": "kept chunks manifests snapshots",
    "g2": "kept c m s",
    "g1": "kept c i s",
}
"""Folders of the files that must be on the disk before the branch moves."""
LISTING: Final[tuple[Spec, ...]] = ("g1", 2)
"""Generations that list snapshots beside their files."""


class Watched(LocalStorage):
    """A disk that tells in which order things happen, and may refuse to keep anything."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.events: list[str] = []
        self.is_broken = False
        self.refused = "none"
        """what keys that cannot be written begin with"""

    def with_settings(self, settings: object) -> Watched:
        return self

    def start_durable(self, keys: Iterable[str]) -> Callable[[], None]:
        wanted = [*keys]
        named = sorted(key.split("/")[0] for key in wanted)
        inner, before = super().start_durable(wanted), self._refs()

        def wait() -> None:
            if self.is_broken:
                raise StorageError("the disk is gone", kind=ErrorKind.IO)
            inner()
            assert self._refs() == before
            self.events.append(f"kept {' '.join(named)}")

        return wait

    def put(self, key: str, data: Bytes, attributes: Attributes = PLAIN) -> None:
        if key.startswith(self.refused):
            raise StorageError("the disk is full", kind=ErrorKind.IO, key=key)
        super().put(key, data, attributes)

    def put_when(
        self,
        key: str,
        data: Bytes,
        expected: Version | None,
        ready: Callable[[], None],
        attributes: Attributes = PLAIN,
    ) -> Written | LostRace:
        outcome = super().put_when(key, data, expected, ready, attributes)
        self.events.append("moved")
        return outcome

    def _refs(self) -> list[bytes | None]:
        return [self.get(key) for key in ("repo", "refs/branch.main/ref.json")]


@pytest.fixture(params=ALL, ids=IDS)
def spec(request: pytest.FixtureRequest) -> Spec:
    found: Spec = request.param
    return found


@pytest.fixture
def storage(tmp_path: Path) -> Watched:
    return Watched(tmp_path)


@pytest.fixture(params=[False, True], ids=["few", "many"], autouse=True)
def has_many(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let commits be made as those with few references, and as those with many."""
    if request.param:
        monkeypatch.setattr(committing, "MANY_REFS", 0)


@pytest.fixture
def repository(storage: Watched, spec: Spec) -> Repository:
    made = Repository.create(storage, spec_version=spec)
    session = made.writable_session("main")
    write_keys(session, BEFORE)
    session.commit("before")
    storage.events.clear()
    return made


def test_the_branch_moves_last(repository: Repository, storage: Watched, spec: Spec) -> None:
    session = repository.writable_session("main")
    write_keys(session, AFTER)
    session.commit("after")
    assert storage.events == [KEPT.get(spec, KEPT[1]), "moved"]


def test_a_flush_is_known_only_when_it_is_on_the_disk(
    repository: Repository, storage: Watched, spec: Spec
) -> None:
    session = repository.writable_session("main")
    write_keys(session, AFTER)
    session.flush("a job")
    kept = KEPT.get(spec, KEPT[1])
    assert storage.events == ([kept, "moved"] if spec in LISTING else [kept])


def test_a_disk_that_fails_moves_no_branch(repository: Repository, storage: Watched) -> None:
    session = repository.writable_session("main")
    write_keys(session, AFTER)
    storage.is_broken = True
    with pytest.raises(StorageError, match="the disk is gone"):
        session.commit("after")
    assert set(contents(repository.readonly_session("main"))) == set(BEFORE)
    storage.is_broken = False
    session.commit("after all")
    assert set(contents(repository.readonly_session("main"))) == {*BEFORE, *AFTER}


@pytest.mark.parametrize("kind", ["manifests", "transactions", "snapshots"])
def test_a_file_that_cannot_be_written_moves_no_branch(
    repository: Repository, storage: Watched, spec: Spec, kind: str
) -> None:
    if spec not in (1, 2):
        pytest.skip("files of older generations are elsewhere")
    session = repository.writable_session("main")
    write_keys(session, AFTER)
    storage.refused = kind
    with pytest.raises(StorageError, match="the disk is full"):
        session.commit("after")
    assert set(contents(repository.readonly_session("main"))) == set(BEFORE)
    storage.refused = "none"
    session.commit("after all")
    assert set(contents(repository.readonly_session("main"))) == {*BEFORE, *AFTER}
