"""Manifests that cut themselves, files changed in their bytes: official packages go on."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import zarr

from frazil.formats import manifest, snapshot_nodes
from frazil.model import splitting
from frazil.model.config import RepositoryConfig
from frazil.model.manifest_config import ManifestConfig, ManifestSplittingConfig
from frazil.repository import Repository
from frazil.storage.local import LocalStorage
from tests.peer.conftest import PEERS, PartyOf
from tests.support.peer import Party, official

pytestmark = pytest.mark.peer

LENGTH = 1500


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Arrays of a thousand chunks count as large."""
    monkeypatch.setattr(splitting, "SPLIT_ABOVE", 1000)
    monkeypatch.setattr(splitting, "UNITE_BELOW", 250)
    monkeypatch.setattr(splitting, "REFS_PER_MANIFEST", 256)
    monkeypatch.setattr(manifest, "PATCHED_FROM", 100)


@pytest.fixture(params=list(PEERS))
def peer(request: pytest.FixtureRequest, party_of: PartyOf) -> tuple[Party, int]:
    """A peer and the spec it knows."""
    number, spec = PEERS[request.param]
    return party_of(official(number)), spec


def create(place: Path, spec: int, config: RepositoryConfig | None = None) -> Repository:
    """A repository of ours with one array whose chunks lie inside its manifests."""
    repository = Repository.create(LocalStorage(place), spec_version=spec, config=config)
    session = repository.writable_session("main")
    array = zarr.create_array(session.store, name="a", shape=(LENGTH,), chunks=(1,), dtype="i4")
    array[:] = np.arange(LENGTH) + 1
    session.commit("made")
    return repository


def put(place: Path, index: int, value: int) -> None:
    """Set one chunk by a fresh handle of ours."""
    session = Repository.open(LocalStorage(place)).writable_session("main")
    zarr.open_array(session.store, path="a", mode="r+")[index] = value
    session.commit("ours")


def manifests(repository: Repository) -> int:
    return len(repository.readonly_session("main").state.array("/a").manifests)


def ours(place: Path) -> list[int]:
    store = Repository.open(LocalStorage(place)).readonly_session("main").store
    found: list[int] = np.asarray(zarr.open_array(store, path="a", mode="r")[:]).tolist()
    return found


def test_slabs_are_read_and_continued(peer: tuple[Party, int], tmp_path: Path) -> None:
    party, spec = peer
    assert manifests(create(tmp_path, spec)) == 6
    expected = list(range(1, LENGTH + 1))
    assert party.call("values", tmp_path, array="a") == expected
    party.call("put", tmp_path, array="a", index=700, value=-7, message="theirs")
    put(tmp_path, 3, -3)
    party.call("put", tmp_path, array="a", index=3, value=-4, message="theirs again")
    party.call("resize", tmp_path, array="a", length=LENGTH - 100)
    expected[700], expected[3] = -7, -4
    assert ours(tmp_path) == expected[:-100]
    assert party.call("values", tmp_path, array="a") == expected[:-100]


def test_a_manifest_changed_in_its_bytes_is_read_and_continued(
    peer: tuple[Party, int], tmp_path: Path
) -> None:
    party, spec = peer
    whole = RepositoryConfig(manifest=ManifestConfig(splitting=ManifestSplittingConfig()))
    create(tmp_path, spec, whole).save_config()
    expected = list(range(1, LENGTH + 1))
    for index in (0, 800, 800, LENGTH - 1):
        put(tmp_path, index, -index - 1)
        expected[index] = -index - 1
    assert manifests(Repository.open(LocalStorage(tmp_path))) == 1
    assert party.call("values", tmp_path, array="a") == expected
    party.call("put", tmp_path, array="a", index=5, value=55, message="theirs")
    expected[5] = 55
    assert ours(tmp_path) == party.call("values", tmp_path, array="a") == expected


def test_a_snapshot_with_many_nodes_is_read_and_continued(
    peer: tuple[Party, int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    party, spec = peer
    monkeypatch.setattr(snapshot_nodes, "FEW_NODES", 3)
    repository = Repository.create(LocalStorage(tmp_path), spec_version=spec)
    session = repository.writable_session("main")
    for name in ("a", "b/c", "b/d", "e/f/g"):
        zarr.create_array(session.store, name=name, shape=(4,), chunks=(1,), dtype="i4")
    session.commit("made")
    for index in range(3):
        put(tmp_path, index, index + 1)
    party.call("put", tmp_path, array="b/d", index=1, value=9, message="theirs")
    put(tmp_path, 3, 4)
    repository = Repository.open(LocalStorage(tmp_path))
    for name in ("b/bb", "0"):  # one that comes before all others, and one between them
        session = repository.writable_session("main")
        zarr.create_group(session.store, path=name)
        session.commit("more")
    session = repository.writable_session("main")
    del zarr.open_group(session.store)["b/c"]
    zarr.open_array(session.store, path="b/d").attrs["unit"] = "K"
    session.commit("one less")
    assert party.call("values", tmp_path, array="a") == ours(tmp_path) == [1, 2, 3, 4]
    assert party.call("values", tmp_path, array="b/d") == [0, 9, 0, 0]
    described = party.call("describe", tmp_path)
    nodes = described["snapshots"][described["branches"]["main"]]["nodes"]
    assert sorted(nodes) == ["/", "/0", "/a", "/b", "/b/bb", "/b/d", "/e", "/e/f", "/e/f/g"]
