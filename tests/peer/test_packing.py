"""Objects that hold many chunks: official packages read them, commit beside them, keep them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import zarr
from zarr.codecs import ZstdCodec

from frazil.bulk.read import read_region
from frazil.bulk.write import write_region
from frazil.repository import Repository
from frazil.storage.local import LocalStorage
from tests.peer.conftest import PEERS, PartyOf
from tests.support.ages import AT_ONCE
from tests.support.peer import Party, official

pytestmark = pytest.mark.peer

SHAPE = (90, 70)
ARRAYS: dict[str, dict[str, Any]] = {
    "raw": {"compressors": None},
    "zstd": {"compressors": ZstdCodec(level=3)},
}


@pytest.fixture(params=list(PEERS))
def place(request: pytest.FixtureRequest, party_of: PartyOf, tmp_path: Path) -> tuple[Party, Path]:
    """A peer, and a repository of ours of the spec it knows, with packed chunks."""
    number, spec = PEERS[request.param]
    repo = Repository.create(LocalStorage(tmp_path), spec_version=spec)
    session = repo.writable_session("main")
    for name, options in ARRAYS.items():
        zarr.create_array(
            session.store, name=name, shape=SHAPE, chunks=(16, 8), dtype="f8", **options
        )
        write_region(session, name, ..., numbers())
    zarr.create_array(session.store, name="line", shape=(3000,), chunks=(1000,), dtype="i4")
    write_region(session, "line", ..., np.arange(3000))
    session.commit("packed")
    assert len(objects(tmp_path)) == 3
    return party_of(official(number)), tmp_path


def numbers() -> npt.NDArray[np.float64]:
    """Noise, which does not compress to chunks so small that they would be inline."""
    return np.random.default_rng(4).normal(size=SHAPE)


def objects(place: Path) -> set[str]:
    """The chunk objects there are."""
    return {path.name for path in (place / "chunks").iterdir()}


def soon() -> str:
    """A moment after every file that exists now."""
    return (datetime.now(UTC) + timedelta(seconds=2)).isoformat()


def test_the_peer_reads_every_value(place: tuple[Party, Path]) -> None:
    peer, path = place
    for name in ARRAYS:
        assert peer.call("values", path, array=name) == numbers().tolist()
    assert peer.call("values", path, array="line") == list(range(3000))


def test_the_peer_commits_collects_and_loses_nothing(place: tuple[Party, Path]) -> None:
    peer, path = place
    packed = objects(path)
    peer.call("put", path, array="line", index=1500, value=-1, message="theirs")
    peer.call("expire", path, older_than=soon())
    gone = peer.call("collect", path, older_than=soon())
    assert gone["chunks"] == 0
    assert packed < objects(path)
    expected = [*range(1500), -1, *range(1501, 3000)]
    assert peer.call("values", path, array="line") == expected
    for name in ARRAYS:
        assert peer.call("values", path, array=name) == numbers().tolist()
    session = Repository.open(LocalStorage(path)).readonly_session("main")
    assert read_region(session, "line").tolist() == expected


def test_the_peer_deletes_packs_that_nothing_needs(place: tuple[Party, Path]) -> None:
    peer, path = place
    peer.call("delete_node", path, node="raw")
    peer.call("expire", path, older_than=soon())
    assert peer.call("collect", path, older_than=soon())["chunks"] == 1
    assert peer.call("values", path, array="zstd") == numbers().tolist()


def test_the_peer_reads_what_was_compacted(place: tuple[Party, Path]) -> None:
    peer, path = place
    for number in range(3):
        peer.call("put", path, array="line", index=number * 1000, value=-1, message="single")
    repo = Repository.open(LocalStorage(path))
    done = repo.space.compact()
    assert done.chunks == 3
    expected = np.arange(3000)
    expected[::1000] = -1
    assert peer.call("values", path, array="line") == expected.tolist()
    repo.expire_snapshots(datetime.fromisoformat(soon()))
    repo.garbage_collect(datetime.fromisoformat(soon()), unsafe_minimum_age=AT_ONCE)
    assert len(objects(path)) == 3
    assert peer.call("values", path, array="line") == expected.tolist()
    assert peer.call("values", path, array="raw") == numbers().tolist()
    peer.call("rewrite", path, message="rebuilt")
    assert peer.call("values", path, array="line") == expected.tolist()
