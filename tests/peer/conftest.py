"""The parties of the interop tests, and the repositories they share."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from frazil.fsck import fsck
from frazil.storage.constructors import local_filesystem_storage
from tests.spark.conftest import spark as spark
from tests.support.peer import Environment, Party, assert_same, official, ours

PEERS = {"p1": (1, 1), "p2v1": (2, 1), "p2v2": (2, 2)}


@dataclass(frozen=True, slots=True)
class Case:
    """Two parties at one repository: `writer` acts first, `reader` second."""

    writer: Party
    reader: Party
    spec: int
    folder: Path

    @property
    def repo(self) -> Path:
        """The repository that both use."""
        return self.folder / "repo"

    @property
    def data(self) -> Path:
        """The folder that virtual references point into."""
        return self.folder / "data"

    def create(self, **options: object) -> Path:
        """Have the writer create the repository."""
        self.data.mkdir(exist_ok=True)
        self.writer.call("create", self.repo, self.data, spec=self.spec, **options)
        return self.repo

    def seen_alike(self) -> dict[str, Any]:
        """Check that both parties see the very same repository, and give what they see."""
        wrote = self.writer.call("describe", self.repo, self.data)
        read = self.reader.call("describe", self.repo, self.data)
        assert_same(wrote, read)
        return dict(wrote)

    def copy(self, name: str) -> Path:
        """Copy the repository, times of files included."""
        target = self.folder / name
        shutil.copytree(self.repo, target)
        return target


PartyOf = Callable[[Environment], Party]


@pytest.fixture(scope="session")
def party_of() -> Iterator[PartyOf]:
    """Start each environment once and end it with the tests."""
    running: dict[Environment, Party] = {}
    yield lambda environment: running.setdefault(environment, Party(environment))
    for party in running.values():
        party.close()


@pytest.fixture(params=list(PEERS))
def peer(request: pytest.FixtureRequest) -> tuple[int, int]:
    """The number of a peer and the spec it writes."""
    return PEERS[request.param]


@pytest.fixture(params=["to_peer", "from_peer"])
def direction(request: pytest.FixtureRequest) -> str:
    """Whether we or the peer act first."""
    return str(request.param)


def meet(party_of: PartyOf, direction: str, number: int) -> tuple[Party, Party]:
    """Bring us together with a peer, in the order of the direction."""
    we, they = party_of(ours()), party_of(official(number))
    return (we, they) if direction == "to_peer" else (they, we)


@pytest.fixture
def case(
    direction: str, peer: tuple[int, int], party_of: PartyOf, tmp_path: Path
) -> Iterator[Case]:
    """Every peer and spec in both directions."""
    number, spec = peer
    yield Case(*meet(party_of, direction, number), spec, tmp_path)
    assert_healthy(tmp_path)


@pytest.fixture
def v2_case(direction: str, party_of: PartyOf, tmp_path: Path) -> Iterator[Case]:
    """The same for what only spec v2, and so only the newer peer, knows."""
    yield Case(*meet(party_of, direction, 2), 2, tmp_path)
    assert_healthy(tmp_path)


def assert_healthy(folder: Path) -> None:
    """Check that no repository that a test has left breaks a rule of the format."""
    for place in sorted(folder.iterdir()):
        if (place / "snapshots").is_dir():
            report = fsck(local_filesystem_storage(str(place)))
            assert report.is_clean, f"{place.name}: {[*map(str, report.findings)]}"
