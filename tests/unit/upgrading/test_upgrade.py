"""Repositories from before spec 1 become ones of today and keep all that they hold."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest
import zarr

import frazil
from frazil.errors import (
    ConflictError,
    ErrorKind,
    FormatError,
    InvalidInputError,
    ReadOnlyError,
    SessionStateError,
)
from frazil.formats.legacy.dialects import Dialect
from frazil.formats.legacy.messages import pack_message, unpack_message
from frazil.fsck import fsck
from frazil.ids import INITIAL_SNAPSHOT_ID
from frazil.model.values import ConflictDetector
from frazil.repository import Repository
from frazil.storage.local import LocalStorage
from frazil.storage.memory import MemoryStorage
from frazil.testing.faulty import FaultyStorage
from frazil.transaction.opened import context_of
from frazil.upgrade import plan_upgrade, upgrade_older, upgrade_repository
from frazil.upgrading.chunks import MoveChunks, Transfer, mover
from frazil.upgrading.source import ChunkMode, UpgradeSource
from frazil.upgrading.upgrade import upgrade
from tests.support.ages import AT_ONCE
from tests.support.old_repositories import (
    assert_sound,
    files_at,
    make_old,
    make_small,
    move_array,
    put,
    told,
    values_of,
)

DIALECTS = ("g1", "g2", "g2-msgpack", *(d.value for d in Dialect if d.value.startswith("3")))
SPECS = (1, 2)
OLDER = [(dialect, SPECS[number % 2]) for number, dialect in enumerate(DIALECTS)]
OLDER += [
    pytest.param(dialect, SPECS[1 - number % 2], marks=pytest.mark.soak)  # type: ignore[misc]
    for number, dialect in enumerate(DIALECTS)
]


def assert_continues(repo: Repository) -> None:
    """Commits, rebases and comparisons go on from what was upgraded."""
    first = repo.writable_session("main")
    second = repo.writable_session("main")
    put(first.store, "scalar", ..., 8)
    put(second.store, "grid/x", (0, 0), -1)
    first.commit("after")
    second.commit("rebased", rebase_with=ConflictDetector())
    group = zarr.open_group(repo.readonly_session("main").store, mode="r")
    assert np.asarray(group["scalar"]) == 8
    assert np.asarray(group["grid/x"])[0, 0] == -1
    root = [*repo.ancestry(branch="main")][-1].id
    changes = repo.diff(from_snapshot_id=root, to_branch="main")
    assert changes.new_arrays == {"/grid/x", "/line", "/scalar"}


@pytest.mark.parametrize(("spec", "to"), OLDER)
def test_everything_is_kept(spec: str, to: int, tmp_path: Path) -> None:
    place = LocalStorage(str(tmp_path))
    repo = make_old(place, spec)
    before = told(Repository.open(place))
    report = upgrade_older(repo, to=to)
    assert report.applied
    assert (report.branches, report.tags, report.snapshots) == (2, 2, 4)
    new = Repository.open(place)
    assert new.spec_version == to
    assert told(new) == before
    if context_of(repo).generation.deletes_tags:
        with pytest.raises(frazil.FrazilError):
            new.create_tag("gone", new.lookup_branch("main"))
    assert new.lookup_tag("start") == str(INITIAL_SNAPSHOT_ID)
    assert_sound(place)
    assert_continues(new)


@pytest.mark.parametrize("spec", ["g1", "g2", "g3"])
def test_dry_run_and_reading_write_nothing(spec: str) -> None:
    place = MemoryStorage()
    make_old(place, spec)
    before = files_at(place)
    told(Repository.open(place))
    report = plan_upgrade(place)
    assert files_at(place) == before
    assert not report.applied
    assert report.from_generation == spec
    assert (report.snapshots, report.branches) == (4, 2)
    assert report.references > 0
    assert (report.chunks > 0) == (spec != "g3")
    assert (report.chunk_bytes > 0) == (spec != "g3")


@pytest.mark.parametrize("spec", ["g1", "g2", "g3"])
@pytest.mark.parametrize("to", SPECS)
def test_writers_from_before_are_kept_out(spec: str, to: int) -> None:
    place = MemoryStorage()
    repo = make_old(place, spec)
    session = repo.writable_session("main")
    put(session.store, "scalar", ..., 1)
    upgrade_older(place, to=to)
    before = files_at(place)
    with pytest.raises(ConflictError) as raised:
        session.commit("too late")
    assert raised.value.kind == ErrorKind.REPO_INFO_UPDATED
    for change in (repo.create_branch, repo.create_tag):
        with pytest.raises(ConflictError):
            change("late", repo.lookup_branch("main"))
    refs = ("refs/", "r/", "state.json", "repo")
    assert {key: data for key, data in files_at(place).items() if key.startswith(refs)} == {
        key: data for key, data in before.items() if key.startswith(refs)
    }
    # Whoever has the old repository open can go on reading.
    assert np.asarray(zarr.open_array(repo.readonly_session("dev").store, path="new")).max() == 3


@pytest.mark.parametrize("spec", ["g1", "g2", "g3"])
def test_a_commit_that_slips_in_is_converted(spec: str) -> None:
    place = MemoryStorage()
    repo = make_old(place, spec)

    done: list[str] = []

    def meanwhile(source: UpgradeSource, mode: ChunkMode) -> MoveChunks:
        def move(transfers: Sequence[Transfer]) -> None:
            real(transfers)
            if not done:
                session = repo.writable_session("dev")
                put(session.store, "grid/x", (1, 1), 55)
                done.append(session.commit("slipped in"))

        real = mover(source, mode)
        return move

    upgrade(context_of(Repository.open(place)), make_move=meanwhile)
    new = Repository.open(place)
    assert new.lookup_branch("dev") == done[0]
    session = new.readonly_session("dev")
    assert np.asarray(zarr.open_array(session.store, path="grid/x", mode="r"))[1, 1] == 55


def test_what_is_refused(tmp_path: Path) -> None:
    new = MemoryStorage()
    Repository.create(new)
    with pytest.raises(SessionStateError):
        upgrade_older(new)
    with pytest.raises(SessionStateError, match="already"):
        upgrade_repository(Repository.open(new), to=1)
    old = make_old(MemoryStorage(), "g3")
    with pytest.raises(InvalidInputError):
        upgrade_older(old, to=3)
    with pytest.raises(InvalidInputError, match="link, copy, virtual"):
        upgrade_older(old, mode="teleport")


def test_indices_beyond_32_bits_are_told_before_anything_is_written() -> None:
    place = MemoryStorage()
    make_old(place, "g2")
    beyond = (b'/1/1":', b'/1/5000000000":')
    found = {key: data for key, data in files_at(place).items() if data and beyond[0] in data}
    key, blob = next(iter(found.items()))
    assert key.startswith("m/")
    place.put(key, blob.replace(*beyond))
    before = files_at(place)
    with pytest.raises(FormatError, match="4294967295") as raised:
        upgrade_older(place)
    assert key in str(raised.value)
    assert files_at(place) == before


def test_read_only_storage(tmp_path: Path) -> None:
    place = LocalStorage(str(tmp_path))
    make_old(place, "g3")
    frozen = ReadOnly(place)
    assert plan_upgrade(frozen).snapshots == 4
    with pytest.raises(ReadOnlyError):
        upgrade_older(frozen)


class ReadOnly(FaultyStorage):
    """A disk that takes no changes."""

    @property
    def can_write(self) -> bool:
        return False


@pytest.mark.parametrize("store_root", ["data", "file"])
def test_files_elsewhere_come_to_the_state_file(store_root: str, tmp_path: Path) -> None:
    """The state file of G1 may name another place for all other files."""
    place = LocalStorage(str(tmp_path / "here"))
    make_old(place, "g1")
    before = told(Repository.open(place))
    other = tmp_path / "here" / "data" if store_root == "data" else tmp_path / "there"
    for folder in "saic":
        source = tmp_path / "here" / folder
        if source.exists():
            other.mkdir(exist_ok=True)
            source.rename(other / folder)
    state = tmp_path / "here" / "state.json"
    named = "data" if store_root == "data" else other.as_uri()
    state.write_text(json.dumps(json.loads(state.read_text()) | {"store_root": named}))
    root = None if store_root == "data" else LocalStorage(str(other))
    old = Repository.open(place, store_root=root)
    assert told(old) == before
    upgrade_older(old)
    assert told(Repository.open(place)) == before
    frazil.undo_upgrade(place, store_root=root)
    upgrade_older(Repository.open(place, store_root=root))
    if root is None:
        frazil.clean_upgrade(place, unsafe_minimum_age=AT_ONCE)
        assert not [path for folder in "saic" for path in (other / folder).glob("*")]
    else:
        there = [*other.rglob("*")]
        with pytest.raises(ReadOnlyError, match="delete them yourself"):
            frazil.clean_upgrade(place, store_root=root, unsafe_minimum_age=AT_ONCE)
        assert [*other.rglob("*")] == there
    assert told(Repository.open(place)) == before
    assert state.exists()


def test_from_one_generation_to_the_next_and_the_next() -> None:
    place = MemoryStorage()
    make_old(place, "3i")
    before = told(Repository.open(place))
    upgrade_older(place, to=1)
    upgrade_repository(Repository.open(place))
    assert Repository.open(place).spec_version == 2
    assert frazil.clean_upgrade(place, unsafe_minimum_age=AT_ONCE).deleted > 0
    assert not [*place.list("legacy-g3/")]
    assert told(Repository.open(place)) == before
    assert_sound(place)


@pytest.mark.parametrize("to", SPECS)
def test_garbage_collection_leaves_the_way_back_open(to: int) -> None:
    place = MemoryStorage()
    move_array(make_old(place, "3e"), "/grid/x", "/grid/z")
    before, files = told(Repository.open(place)), files_at(place)
    upgrade_older(place, to=to)
    Repository.open(place).garbage_collect(
        datetime.now(UTC) + timedelta(days=1), unsafe_minimum_age=AT_ONCE
    )
    assert told(Repository.open(place)) == before
    frazil.undo_upgrade(place)
    assert files_at(place) == files
    upgrade_older(place, to=to)
    Repository.open(place).expire_snapshots(datetime.now(UTC) + timedelta(days=1))
    with pytest.raises(SessionStateError, match="changed since"):
        frazil.undo_upgrade(place)


@pytest.mark.parametrize("to", SPECS)
def test_what_expiry_left(to: int) -> None:
    """Expiry of G1 leaves tips that descend from nothing."""
    place = MemoryStorage()
    repo = make_old(place, "g1")
    for name in ("start", "v1"):
        repo.delete_tag(name)
    assert len(repo.expire_snapshots(datetime.now(UTC) + timedelta(days=1))) == 2
    before = told(Repository.open(place))
    upgrade_older(place, to=to)
    assert told(Repository.open(place)) == before
    assert fsck(place, deep=True).is_sound


@pytest.mark.parametrize("to", SPECS)
def test_snapshots_without_history(to: int) -> None:
    """For two days a library wrote nothing but nodes; such repositories can only be read."""
    place = MemoryStorage()
    repo = make_old(place, "g2-msgpack")
    for item in [*place.list("s/")]:
        *_, nodes = unpack_message(place.get(item.key) or b"", key=item.key)
        place.put(item.key, pack_message([nodes]))
    old = Repository.open(place)
    assert context_of(old).generation.dialect is Dialect.G2_NODES
    tips = {name: told_values(old, name) for name in ("main", "dev")}
    upgrade_older(old, to=to)
    new = Repository.open(place)
    assert {name: told_values(new, name) for name in ("main", "dev")} == tips
    assert new.lookup_branch("dev") == repo.lookup_branch("dev")
    with new.transaction("main", message="goes on") as store:
        put(store, "scalar", ..., 9)
    assert fsck(place, deep=True).is_sound


def told_values(repo: Repository, branch: str) -> dict[str, object]:
    """All values at the tip of a branch."""
    return values_of(repo, repo.lookup_branch(branch))


@pytest.mark.parametrize("to", SPECS)
def test_history_that_has_expired_is_sound_after_an_upgrade(to: int) -> None:
    place = MemoryStorage()
    make_small(place, "g1")
    assert Repository.open(place).expire_snapshots(datetime.now(UTC) + timedelta(days=1))
    before = told(Repository.open(place))
    upgrade_older(place, to=to)
    assert_sound(place)
    assert told(Repository.open(place)) == before
