"""Somebody else at the storage calls of a repair: what is told to be done stays so."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import count

import pytest

from frazil import (
    ConflictError,
    FrazilError,
    Repository,
    RepositoryConfig,
    Storage,
    VirtualChunkContainer,
    local_filesystem_store,
    upgrade_repository,
)
from frazil.fsck import repair
from frazil.ids import INITIAL_SNAPSHOT_ID, SnapshotId
from frazil.maintenance.expire import adopt
from frazil.model.marks import TXN_APP, TXN_VERSION, marks_of
from frazil.storage.memory import MemoryStorage
from frazil.transaction.opened import context_of
from tests.races.test_deleting import copy_of
from tests.support.ages import AT_ONCE
from tests.support.nodes import array_document, contents, group_document, write_keys
from tests.support.stepping import InterruptedStorage, Moment

CONFIG = RepositoryConfig(inline_chunk_threshold_bytes=0)
CONTAINER = "file:///data/"
MARK = {TXN_APP: "series", TXN_VERSION: "7"}


def write(repo: Repository, value: bytes, message: str) -> str:
    session = repo.writable_session("main")
    write_keys(session, {"a/c/0": value})
    return session.commit(message, MARK)


def damaged(spec: int) -> MemoryStorage:
    """A repository of which the newest version of a chunk is gone."""
    storage = MemoryStorage()
    repo = Repository.create(storage, CONFIG, spec_version=spec)
    session = repo.writable_session("main")
    write_keys(session, {"zarr.json": group_document(), "a/zarr.json": array_document(2)})
    session.commit("begun")
    write(repo, b"old", "one")
    before = {item.key for item in storage.list("chunks/")}
    write(repo, b"new", "two")
    storage.delete_many([i.key for i in storage.list("chunks/") if i.key not in before])
    return storage


def interrupted(
    make: Callable[[], Storage],
    slow: Callable[[Storage], object],
    other: Callable[[Storage], object],
) -> Iterator[tuple[Storage, bool, bool]]:
    """Places where somebody came before a call of a repair, and whether each was refused."""
    for call in count(1, 2):
        place = make()
        done: list[str] = []

        def come(place: Storage = place, done: list[str] = done) -> None:
            with suppress(FrazilError):
                other(place)
                done.append("other")

        storage = InterruptedStorage(place)
        storage.before(call, come)
        with suppress(FrazilError):
            slow(storage)
            done.append("slow")
        if not storage.is_over:
            assert call > 10
            return
        yield place, "slow" in done, "other" in done


@pytest.mark.parametrize("spec", [1, 2])
def test_an_older_chunk_is_not_collected_while_it_takes_the_place_of_a_lost_one(spec: int) -> None:
    def mend(place: Storage) -> None:
        repair(place, apply=True, missing_chunks="older")

    def forget(place: Storage) -> None:
        later = datetime.now(UTC) + timedelta(hours=1)
        repo = Repository.open(place)
        repo.expire_snapshots(later)
        repo.garbage_collect(later, unsafe_minimum_age=AT_ONCE)

    outcomes = set()
    for place, is_mended, _ in interrupted(lambda: damaged(spec), mend, forget):
        outcomes.add(is_mended)
        if is_mended:
            found = contents(Repository.open(place).readonly_session("main"))
            assert found.get("a/c/0", b"old") == b"old"
    assert outcomes == {True, False}


@pytest.mark.parametrize("spec", [1, 2])
def test_a_configuration_that_is_saved_during_a_repair_stays(spec: int) -> None:
    def damaged_config() -> Storage:
        storage = MemoryStorage()
        repo = Repository.create(storage, spec_version=spec)
        if spec == 1:
            storage.put("config.yaml", b"caching: [1, 2")
        else:
            context_of(repo).refs.edit_config(lambda _: {"caching": "much"})
        return storage

    def mend(place: Storage) -> None:
        repair(place, apply=True)

    def mend_and_save(place: Storage) -> None:
        with suppress(FrazilError):
            mend(place)
        repo = Repository.open(place)
        config = repo.config
        config.set_virtual_chunk_container(
            VirtualChunkContainer(CONTAINER, local_filesystem_store("/"))
        )
        repo.reopen(config).save_config()

    for place, _, is_saved in interrupted(damaged_config, mend, mend_and_save):
        config = Repository.fetch_config(place)
        assert is_saved
        assert config is not None
        assert CONTAINER in (config.virtual_chunk_containers or {})


def without_a_snapshot() -> tuple[MemoryStorage, str, bytes]:
    """A repository that has lost the file of a commit that others follow."""
    storage = MemoryStorage()
    repo = Repository.create(storage, CONFIG)
    session = repo.writable_session("main")
    write_keys(session, {"zarr.json": group_document(), "a/zarr.json": array_document(2)})
    lost = session.commit("begun")
    write(repo, b"old", "one")
    blob = storage.get(f"snapshots/{lost}")
    assert blob is not None
    storage.delete_many([f"snapshots/{lost}"])
    return storage, lost, blob


def test_a_tag_made_during_a_repair_leads_to_a_snapshot_that_is_listed() -> None:
    lost = ""

    def place() -> Storage:
        nonlocal lost
        storage, lost, _ = without_a_snapshot()
        return storage

    outcomes = set()
    for storage, is_mended, is_tagged in interrupted(
        place,
        lambda storage: repair(storage, apply=True),
        lambda storage: Repository.open(storage).create_tag("kept", lost),
    ):
        outcomes.add((is_mended, is_tagged))
        repo = Repository.open(storage)
        assert {one.message for one in repo.ancestry(branch="main")} >= {"one"}
        if is_tagged:
            assert repo.lookup_tag("kept") == lost
            assert lost in {one.id for one in repo.ancestry(tag="kept")}
    assert (False, True) in outcomes
    assert (True, False) in outcomes


def test_a_snapshot_that_is_back_when_history_is_cut_stays_in_it() -> None:
    place, lost, blob = without_a_snapshot()
    storage = InterruptedStorage(place)
    planned = 3
    """times that a repair reads the repo object before it changes it"""
    storage.moments.append(
        Moment("fetch", "repo", lambda: place.put(f"snapshots/{lost}", blob), planned + 1)
    )
    repair(storage, apply=True)
    assert storage.is_over
    assert lost in {one.id for one in Repository.open(place).ancestry(branch="main")}


@pytest.mark.parametrize("spec", [1, 2])
def test_a_repair_carries_the_marks_of_what_was_done_once(spec: int) -> None:
    place = damaged(spec)
    repair(place, apply=True)
    newest = next(iter(Repository.open(place).ancestry(branch="main")))
    assert marks_of(newest.metadata).series == {"series": 7}


def test_a_repair_does_not_bring_back_refs_that_an_upgrade_has_taken_over() -> None:
    """Old clients could commit to them, and nobody would see that."""
    for place, _, is_upgraded in interrupted(
        lambda: damaged(1),
        lambda place: repair(place, apply=True),
        lambda place: upgrade_repository(Repository.open(place)),
    ):
        assert is_upgraded
        assert Repository.open(place).spec_version == 2
        assert not [*place.list("refs/")]


def with_a_broken_branch() -> tuple[MemoryStorage, str]:
    """A repository of version 1 with a branch whose file cannot be read, and where that was."""
    storage = MemoryStorage()
    repo = Repository.create(storage, CONFIG, spec_version=1)
    session = repo.writable_session("main")
    write_keys(session, {"zarr.json": group_document(), "a/zarr.json": array_document(2)})
    tip = session.commit("begun")
    repo.create_branch("dev", tip)
    storage.put(DEV, b'{"snapsh')
    return storage, tip


DEV = "refs/branch.dev/ref.json"


def test_a_commit_to_a_branch_that_somebody_else_has_mended_stays() -> None:
    tip = ""

    def place() -> Storage:
        nonlocal tip
        storage, tip = with_a_broken_branch()
        return storage

    def mend(storage: Storage) -> None:
        repair(storage, apply=True, tips={"dev": tip})

    def mend_and_commit(storage: Storage) -> None:
        mend(storage)
        session = Repository.open(storage).writable_session("dev")
        write_keys(session, {"a/c/0": b"new"})
        session.commit("acknowledged")

    outcomes = set()
    for storage, is_mended, is_committed in interrupted(place, mend, mend_and_commit):
        outcomes.add((is_mended, is_committed))
        messages = [one.message for one in Repository.open(storage).ancestry(branch="dev")]
        assert is_committed == ("acknowledged" in messages)
    assert (True, True) in outcomes


def test_a_broken_branch_that_somebody_deletes_does_not_come_back() -> None:
    tip = ""

    def place() -> Storage:
        nonlocal tip
        storage, tip = with_a_broken_branch()
        return storage

    for storage, *_ in interrupted(
        place,
        lambda storage: repair(storage, apply=True, tips={"dev": tip}),
        lambda storage: storage.delete_many([DEV]),
    ):
        assert "dev" not in Repository.open(storage).list_branches()


@pytest.mark.parametrize("spec", [1, 2])
def test_a_branch_whose_snapshot_is_back_stays_where_it_is(spec: int) -> None:
    tip, blob = "", b""

    def place() -> Storage:
        nonlocal tip, blob
        storage = MemoryStorage()
        repo = Repository.create(storage, CONFIG, spec_version=spec)
        session = repo.writable_session("main")
        write_keys(session, {"zarr.json": group_document(), "a/zarr.json": array_document(2)})
        session.commit("begun")
        tip = write(repo, b"new", "one")
        blob = storage.get(f"snapshots/{tip}") or b""
        storage.delete_many([f"snapshots/{tip}"])
        return storage

    outcomes = set()
    for storage, is_mended, _ in interrupted(
        place,
        lambda storage: repair(storage, apply=True),
        lambda storage: storage.put(f"snapshots/{tip}", blob),
    ):
        outcomes.add((is_mended, Repository.open(storage).lookup_branch("main") == tip))
    # It came back in time, or during the repair, or when that was over with the branch.
    assert outcomes == {(True, True), (False, True), (True, False)}


def circle() -> tuple[MemoryStorage, str]:
    """A repository of version 1 in which the parent of a snapshot is its own child."""
    storage = MemoryStorage()
    repo = Repository.create(storage, CONFIG, spec_version=1)
    session = repo.writable_session("main")
    keys = {"zarr.json": group_document(), "a/zarr.json": array_document(2)}
    write_keys(session, {**keys, "secret/zarr.json": array_document(2)})
    first = session.commit("begun")
    second = write(repo, b"old", "one")
    write(repo, b"new", "two")
    context = context_of(Repository.open(storage))
    found = context.assets.snapshot(SnapshotId.parse(first))
    context.assets.save_snapshot(replace(found, parent_id=SnapshotId.parse(second)))
    return storage, first


def test_a_snapshot_that_is_deleted_while_its_parent_is_mended_does_not_come_back() -> None:
    first = ""

    def place() -> Storage:
        nonlocal first
        storage, first = circle()
        return storage

    def erase(storage: Storage) -> None:
        storage.delete_many([f"snapshots/{first}"])

    erased = 0
    for storage, is_mended, _ in interrupted(
        place, lambda storage: repair(storage, apply=True), erase
    ):
        erased += not is_mended
        assert storage.head(f"snapshots/{first}") is None
    assert erased


def test_a_parent_that_an_expiry_has_changed_stays() -> None:
    """Both rewrite snapshot files in place: the later one knows of the earlier one."""
    place, first = circle()
    storage = InterruptedStorage(place)
    marked = {"by": "somebody else"}

    def rewrite() -> None:
        context = context_of(Repository.open(place))
        found = context.assets.snapshot(SnapshotId.parse(first))
        adopt(context, found.id, INITIAL_SNAPSHOT_ID, marked)

    storage.moments.append(Moment("put", "overwritten/", rewrite))
    with pytest.raises(ConflictError):
        repair(storage, apply=True)
    assert storage.is_over
    context = context_of(Repository.open(place))
    assert context.assets.snapshot(SnapshotId.parse(first)).metadata == marked


def test_what_comes_after_the_plan_is_not_done() -> None:
    """A commit under way leaves a snapshot that no ref leads to, while a branch is restored."""
    template = MemoryStorage()
    repo = Repository.create(template, CONFIG, spec_version=1)
    session = repo.writable_session("main")
    write_keys(session, {"zarr.json": group_document(), "a/zarr.json": array_document(2)})
    first = session.commit("begun")
    repo.create_branch("dev", first)
    session = repo.writable_session("dev")
    write_keys(session, {"a/c/0": b"de"})
    tip = session.commit("dev")
    template.put("refs/branch.dev/ref.json", b"{")
    expected = repair(template)
    for call in count(1):
        place = copy_of(template)
        session = Repository.open(place, CONFIG).writable_session("main")
        write_keys(session, {"a/c/0": b"ma"})
        storage = InterruptedStorage(place)
        storage.before(call, partial(session.flush, "under way"))
        with suppress(ConflictError):
            repair(storage, apply=True, expected=expected)
        if not storage.is_over:
            break
        if place.get("refs/branch.dev/ref.json") != b"{":
            assert Repository.open(place).lookup_branch("dev") == tip, call
    assert call > 10
