"""Limits of the configuration on manifests that are read at once."""

from __future__ import annotations

import threading
import time

import pytest

from frazil.model.config import (
    ManifestConfig,
    ManifestSplitCondition,
    ManifestSplitDimCondition,
    ManifestSplittingConfig,
    RepositoryConfig,
)
from frazil.repository import Repository
from frazil.storage.memory import MemoryStorage
from frazil.testing.faulty import FaultyStorage
from frazil.transaction import context
from tests.support.nodes import array_document, write_keys

PARTS = 12


def split_by(size: int) -> ManifestSplittingConfig:
    """So many chunks a manifest."""
    return ManifestSplittingConfig.from_dict(
        {ManifestSplitCondition.AnyArray(): {ManifestSplitDimCondition.Any(): size}}
    )


class WatchedStorage(FaultyStorage):
    """A slow storage that knows how many manifests were asked for at the same time."""

    most = now = 0

    def __init__(self, inner: MemoryStorage) -> None:
        super().__init__(inner)
        self.answers_inline = False
        self._counting = threading.Lock()

    def get(self, key: str, start: int | None = None, end: int | None = None) -> bytes | None:
        """Answer late."""
        if not key.startswith("manifests/"):
            return super().get(key, start, end)
        with self._counting:
            self.now += 1
            self.most = max(self.most, self.now)
        time.sleep(0.02)
        with self._counting:
            self.now -= 1
        return super().get(key, start, end)


@pytest.fixture
def place() -> MemoryStorage:
    """An array whose every chunk is in a manifest of its own."""
    storage = MemoryStorage()
    config = RepositoryConfig(manifest=ManifestConfig(splitting=split_by(1)))
    session = Repository.create(storage, config).writable_session("main")
    chunks = {f"a/c/{number}": b"x" for number in range(PARTS)}
    write_keys(session, {"a/zarr.json": array_document(PARTS), **chunks})
    session.commit("first")
    return storage


def most_while_reading(place: MemoryStorage, config: RepositoryConfig) -> int:
    watched = WatchedStorage(place)
    state = Repository.open(watched, config).readonly_session("main").state
    assert len(state.table(state.array("/a"))) == PARTS
    return watched.most


def most_while_committing(place: MemoryStorage, limit: int | None) -> int:
    watched = WatchedStorage(place)
    manifest = ManifestConfig(
        splitting=split_by(PARTS), max_concurrent_manifest_fetches_during_commit=limit
    )
    repository = Repository.open(watched, RepositoryConfig(manifest=manifest))
    repository.rewrite_manifests("in one file", branch="main")
    return watched.most


def test_manifests_are_decoded_one_by_one_if_that_is_asked_for(place: MemoryStorage) -> None:
    assert most_while_reading(place, RepositoryConfig(max_concurrent_decodes=1)) == 1
    assert most_while_reading(place, RepositoryConfig(max_concurrent_decodes=3)) <= 3
    assert most_while_reading(place, RepositoryConfig()) > 3


@pytest.mark.parametrize("is_near", [True, False])
def test_near_at_hand_manifests_with_many_references_take_turns_on_the_cores(
    monkeypatch: pytest.MonkeyPatch, place: MemoryStorage, is_near: bool
) -> None:
    """Far away they are waited for side by side."""
    monkeypatch.setattr(context, "MANY_REFS", 1)
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    watched = WatchedStorage(place)
    watched.answers_inline = is_near
    state = Repository.open(watched).readonly_session("main").state
    assert len(state.table(state.array("/a"))) == PARTS
    assert watched.most <= 2 if is_near else watched.most > 2


def test_a_commit_reads_as_many_manifests_at_once_as_it_may(place: MemoryStorage) -> None:
    assert most_while_committing(place, 1) == 1


def test_a_commit_reads_many_manifests_at_once_if_nothing_else_is_asked_for(
    place: MemoryStorage,
) -> None:
    assert most_while_committing(place, None) > 1
