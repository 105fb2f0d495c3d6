"""After a purge, a planned collection, writes that change nothing and a staged publication.

Official packages open the repository, see it as we do, read every value, and commit on top.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest
import zarr

from frazil.bulk.write import write_region
from frazil.model.config import RepositoryConfig
from frazil.repository import Repository
from frazil.session import Session
from frazil.storage.local import LocalStorage
from tests.peer.conftest import PEERS, PartyOf, assert_healthy
from tests.support.ages import AT_ONCE
from tests.support.checks import check_repository
from tests.support.peer import Party, assert_same, official, ours

pytestmark = pytest.mark.peer

LENGTH: Final = 12
SECRET: Final = 0x5EC2E75EC2E7
Model = dict[str, dict[str, list[int]]]
"""Values of arrays by branch."""


@pytest.fixture(params=list(PEERS))
def parties(
    request: pytest.FixtureRequest, party_of: PartyOf, tmp_path: Path
) -> Iterator[tuple[Party, Party, Repository]]:
    """Our side, a peer, and a repository of a spec that both know."""
    number, spec = PEERS[request.param]
    config = RepositoryConfig(inline_chunk_threshold_bytes=0)
    repo = Repository.create(LocalStorage(tmp_path / "repo"), config=config, spec_version=spec)
    session = repo.writable_session("main")
    for name in ("line", "group/secret"):
        zarr.create_array(session.store, name=name, shape=(LENGTH,), chunks=(2,), dtype="i8")
        write_region(session, name, ..., range(1, LENGTH + 1), packing=True)
    session.commit("begin")
    write(repo, "group/secret", slice(0, 5), SECRET)
    repo.create_tag("v1", repo.lookup_branch("main"))
    repo.create_branch("dev", repo.lookup_branch("main"))
    write(repo, "line", slice(4, 6), 50, "dev")
    write(repo, "line", slice(0, 3), 60)
    yield party_of(ours()), party_of(official(number)), repo
    assert_healthy(tmp_path)


def write(repo: Repository, name: str, place: slice, value: int, branch: str = "main") -> str:
    session = repo.writable_session(branch)
    write_region(session, name, place, value, packing=True)
    return session.commit(f"{name} {value}")


def line(**changes: int) -> list[int]:
    """The values of an array: from one on, with ranges changed (`_0_3=60`)."""
    found = np.arange(1, LENGTH + 1)
    for place, value in changes.items():
        start, stop = place.strip("_").split("_")
        found[int(start) : int(stop)] = value
    return found.tolist()


def agree(parties: tuple[Party, Party, Repository], model: Model) -> None:
    """Both see the same, read what they should, and both go on."""
    mine, peer, repo = parties
    path = Path(LocalStorage(repo.storage.url.removeprefix("file://")).path)
    check_repository(repo)
    assert_same(seen(mine, path), seen(peer, path))
    for branch, arrays in model.items():
        for name, values in arrays.items():
            assert peer.call("values", path, array=name, branch=branch) == values
    peer.call("put", path, array="line", index=11, value=-5, message="theirs")
    expected = [*model["main"]["line"][:11], -5]
    assert mine.call("values", path, array="line") == expected
    mine.call("put", path, array="line", index=10, value=-6, message="ours")
    assert peer.call("values", path, array="line") == [*expected[:10], -6, -5]
    assert_same(seen(mine, path), seen(peer, path))
    check_repository(Repository.open(repo.storage))


def seen(party: Party, path: Path) -> dict[str, Any]:
    """The repository as a party sees it; official packages count a pack as one chunk."""
    found: dict[str, Any] = party.call("describe", path)
    del found["bytes"]
    return found


def soon() -> datetime:
    return datetime.now(UTC) + timedelta(seconds=2)


def test_after_a_purge(parties: tuple[Party, Party, Repository]) -> None:
    repo = parties[2]
    assert repo.space.purge(
        "group/secret", confirm="group/secret", unsafe_minimum_age=AT_ONCE
    ).is_proved
    agree(parties, {"main": {"line": line(_0_3=60)}, "dev": {"line": line(_4_6=50)}})


def test_after_a_purge_of_a_region(parties: tuple[Party, Party, Repository]) -> None:
    repo = parties[2]
    report = repo.space.purge(
        "group/secret", [slice(1, 4)], confirm="group/secret", unsafe_minimum_age=AT_ONCE
    )
    assert report.is_proved
    assert report.objects_overwritten == 2
    blank = [SECRET, 0, 0, 0, SECRET, *range(6, LENGTH + 1)]
    agree(
        parties,
        {
            "main": {"line": line(_0_3=60), "group/secret": blank},
            "dev": {"line": line(_4_6=50), "group/secret": blank},
        },
    )


@pytest.mark.parametrize("quarantine", [False, True])
def test_after_an_incremental_collection(
    parties: tuple[Party, Party, Repository], quarantine: bool
) -> None:
    repo = parties[2]
    for value in (70, 80):
        write(repo, "line", slice(0, 3), value)
    repo.delete_branch("dev")
    repo.expire_snapshots(soon(), delete_expired_tags=True)
    plan = repo.space.plan_garbage(soon(), incremental=True, unsafe_minimum_age=AT_ONCE)
    assert set(plan.keys()) == set(
        repo.space.plan_garbage(soon(), unsafe_minimum_age=AT_ONCE).keys()
    )
    assert (
        repo.space.collect_planned(
            plan, quarantine=quarantine, unsafe_minimum_age=AT_ONCE
        ).chunks_deleted
        > 0
    )
    agree(parties, {"main": {"line": line(_0_3=80), "group/secret": line(_0_5=SECRET)}})


def test_after_writes_of_what_is_there(parties: tuple[Party, Party, Repository]) -> None:
    repo = parties[2]
    session = repo.writable_session("main")
    session.skip_identical = True
    session.array("line")[:] = line(_0_3=60)
    assert not session.has_uncommitted_changes
    session.array("line")[:] = line(_0_3=60, _6_7=9)
    assert session.status().updated_chunks == {"/line": [[3]]}
    session.commit("one chunk")
    agree(parties, {"main": {"line": line(_0_3=60, _6_7=9)}, "dev": {"line": line(_4_6=50)}})


def test_after_a_staged_publication(parties: tuple[Party, Party, Repository]) -> None:
    repo = parties[2]

    def is_positive(session: Session) -> bool:
        return bool((np.asarray(session.array("line")[:]) > 0).all())

    checks: list[Callable[[Session], bool]] = [is_positive]
    with repo.audit.staged("main", checks, message="audited") as session:
        write_region(session, "line", slice(8, 10), 33)
    agree(parties, {"main": {"line": line(_0_3=60, _8_10=33)}, "dev": {"line": line(_4_6=50)}})
