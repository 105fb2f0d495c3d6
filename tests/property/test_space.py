"""Random histories: purged, collected and measured, against plain dictionaries."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st

from frazil.bulk.write import write_region
from frazil.model.config import RepositoryConfig
from frazil.repository import Repository
from frazil.storage.memory import MemoryStorage
from tests.support.ages import AT_ONCE
from tests.support.checks import check_repository, garbage_of

pytestmark = pytest.mark.slow

LENGTH, CHUNK = 9, 2
NAMES = ("a", "b", "g/c")
BRANCHES = ("main", "dev")
Values = dict[str, list[int]]


@dataclass
class Known:
    """A repository, and what each of its snapshots should hold."""

    repo: Repository
    states: dict[str, Values] = field(default_factory=dict)
    """by message, which purging keeps"""

    def read(self, snapshot_id: str) -> Values:
        """What a snapshot holds."""
        session = self.repo.readonly_session(snapshot_id=snapshot_id)
        names = [node.path.strip("/") for node in session.state.arrays()]
        return {name: np.asarray(session.array(name)[:]).tolist() for name in names}

    def check(self) -> None:
        """Compare every snapshot that a branch leads to."""
        for branch in self.repo.list_branches():
            for info in self.repo.ancestry(branch=branch):
                if info.message in self.states:
                    assert self.read(info.id) == self.states[info.message]


@st.composite
def histories(draw: st.DrawFn) -> Known:
    """Commits on two branches, each of which writes a range of an array."""
    inline = draw(st.sampled_from([0, 0, 512]))
    config = RepositoryConfig(inline_chunk_threshold_bytes=inline)
    repo = Repository.create(
        MemoryStorage(), config=config, spec_version=draw(st.sampled_from([1, 2]))
    )
    session = repo.writable_session("main")
    for name in NAMES:
        zarr.create_array(
            session.store,
            name=name,
            shape=(LENGTH,),
            chunks=(CHUNK,),
            dtype="i8",
            compressors=None,
        )
    begin = session.commit("begin")
    repo.create_branch("dev", begin)
    known = Known(repo, {"begin": {name: [0] * LENGTH for name in NAMES}})
    now = dict.fromkeys(BRANCHES, known.states["begin"])
    for number in range(draw(st.integers(1, 7))):
        branch, name = draw(st.sampled_from(BRANCHES)), draw(st.sampled_from(NAMES))
        start, stop = sorted(draw(st.tuples(*[st.integers(0, LENGTH)] * 2)))
        value = draw(st.integers(0, 5))
        session = repo.writable_session(branch)
        write_region(session, name, slice(start, stop), value, packing=draw(st.booleans()))
        if not session.has_uncommitted_changes:
            continue
        message = f"commit {number}"
        session.commit(message)
        values = list(now[branch][name])
        values[start:stop] = [value] * (stop - start)
        now[branch] = {**now[branch], name: values}
        known.states[message] = now[branch]
    if draw(st.booleans()):
        repo.create_tag("v1", repo.lookup_branch(draw(st.sampled_from(BRANCHES))))
    return known


def later() -> datetime:
    return datetime.now(UTC) + timedelta(hours=1)


def expire_some(known: Known, choice: int) -> None:
    """Expire what is older than one of the commits."""
    infos = list(known.repo.ancestry(branch="main"))
    known.repo.expire_snapshots(infos[choice % len(infos)].written_at)


@settings(max_examples=15, deadline=None)
@given(histories(), st.sampled_from(NAMES), st.integers(0, 9), st.booleans())
def test_a_purged_array_is_missing_everywhere_and_all_else_is_there(
    known: Known, name: str, choice: int, expires: bool
) -> None:
    if expires:
        expire_some(known, choice)
    report = known.repo.space.purge(name, confirm=name, unsafe_minimum_age=AT_ONCE)
    assert report.is_proved
    known.states = {
        message: {key: each for key, each in values.items() if key != name}
        for message, values in known.states.items()
    }
    known.check()
    check_repository(known.repo)


@settings(max_examples=15, deadline=None)
@given(
    histories(),
    st.sampled_from(NAMES),
    st.tuples(st.integers(0, LENGTH - 1), st.integers(1, LENGTH)),
)
def test_a_purged_region_is_blank_everywhere(
    known: Known, name: str, region: tuple[int, int]
) -> None:
    start, stop = region[0], max(region[0] + 1, region[1])
    assert known.repo.space.purge(
        name, [slice(start, stop)], confirm=name, unsafe_minimum_age=AT_ONCE
    ).is_proved
    for message, values in known.states.items():
        blank = [0 if start <= at < stop else one for at, one in enumerate(values[name])]
        known.states[message] = {**values, name: blank}
    known.check()
    check_repository(known.repo)


@settings(max_examples=20, deadline=None)
@given(histories(), st.integers(0, 9), st.booleans(), st.booleans())
def test_an_incremental_collection_finds_what_a_full_one_finds(
    known: Known, choice: int, drops_branch: bool, quarantine: bool
) -> None:
    repo = known.repo
    if drops_branch:
        repo.delete_branch("dev")
    expire_some(known, choice)
    total = repo.space.shares("snapshot").total.referenced_bytes
    plan = repo.space.plan_garbage(later(), incremental=True, unsafe_minimum_age=AT_ONCE)
    assert set(plan.keys()) == set(
        repo.space.plan_garbage(later(), unsafe_minimum_age=AT_ONCE).keys()
    )
    repo.space.collect_planned(plan, quarantine=quarantine, unsafe_minimum_age=AT_ONCE)
    assert garbage_of(repo) == set()
    assert repo.space.shares("snapshot").total.referenced_bytes == total
    known.check()
    check_repository(repo)


@settings(max_examples=15, deadline=None)
@given(histories(), st.integers(0, 9))
def test_shares_add_up_and_expiry_frees_what_was_told(known: Known, choice: int) -> None:
    repo = known.repo
    infos = list(repo.ancestry(branch="main"))
    cutoff = infos[choice % len(infos)].written_at
    found = repo.space.shares("array", older_than=cutoff)
    assert sum(share.referenced_bytes for share in found.owners) == found.total.referenced_bytes
    assert all(share.shared_bytes == 0 for share in found.owners)
    stats = repo.chunk_storage_stats()
    assert found.total.referenced_bytes == stats.native_bytes
    assert sum(each.new_native_bytes for each in repo.space.growth()) == stats.native_bytes
    before = sum(item.size_bytes for item in repo.storage.list("chunks/"))
    repo.expire_snapshots(cutoff)
    repo.garbage_collect(later(), unsafe_minimum_age=AT_ONCE)
    after = sum(item.size_bytes for item in repo.storage.list("chunks/"))
    assert before - after == found.total.reclaimable_bytes
