"""What a commit refers to may be collected while it is made: then it is refused."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import partial

import pytest

from frazil.errors import FrazilError
from frazil.fsck import fsck
from frazil.ids import SnapshotId
from frazil.model.values import ConflictDetector
from frazil.repository import Repository
from frazil.storage.memory import MemoryStorage
from frazil.transaction.opened import context_of
from tests.support.branches import Branches
from tests.support.nodes import array_document, contents, group_document
from tests.support.stepping import InterruptedStorage

SOON = timedelta(days=1)
Act = Callable[[], object]
Prepare = Callable[[Branches], Act]
Lose = Callable[[MemoryStorage, datetime], None]


def prepared(spec: int) -> tuple[InterruptedStorage, Branches]:
    """A repository whose branch `side` has a chunk of its own, which main has overwritten."""
    storage = InterruptedStorage(MemoryStorage())
    made = Branches(spec, storage=storage)
    made.commit("main", {"zarr.json": group_document(), "a/zarr.json": array_document(8)})
    made.commit("main", {"a/c/0": b"old", "a/c/1": b"one"}, "old")
    made.branch("side")
    made.commit("side", {"a/c/2": b"side", "b/zarr.json": array_document(2)}, "side")
    made.commit("side", {"a/c/3": b"more"}, "more")
    made.commit("main", {"a/c/0": b"new"}, "new")
    return storage, made


def lose_side(storage: MemoryStorage, began: datetime) -> None:
    """Somebody deletes the branch and cleans up behind it."""
    repository = Repository.open(storage)
    if "side" in repository.list_branches():
        repository.delete_branch("side")
    repository.garbage_collect(began, unsafe_minimum_age=timedelta(0))


def lose_history(storage: MemoryStorage, began: datetime) -> None:
    """Somebody expires everything but the tips, and cleans up."""
    repository = Repository.open(storage)
    repository.expire_snapshots(datetime.now(UTC) + SOON)
    repository.garbage_collect(began, unsafe_minimum_age=timedelta(0))


def lose_history_to_others(storage: MemoryStorage, began: datetime) -> None:
    """The same by a program that keeps what refs reach and new files, not what new files need."""
    repository = Repository.open(storage)
    repository.expire_snapshots(datetime.now(UTC) + SOON)
    tips = {repository.lookup_branch(name) for name in repository.list_branches()}
    kept = {info.id for tip in tips for info in repository.ancestry(snapshot_id=tip)}
    context = context_of(repository)
    needed = {
        str(file.id)
        for one in kept
        for file in context.assets.snapshot(SnapshotId.parse(one)).manifest_files
    }
    for folder, wanted in (("snapshots/", kept), ("manifests/", needed)):
        storage.delete_many(
            [
                item.key
                for item in [*storage.list(folder)]
                if item.created_at < began and item.key.removeprefix(folder) not in wanted
            ]
        )


def merge(made: Branches) -> Act:
    return lambda: made.repository.versions.merge("side")


def cherry_pick(made: Branches) -> Act:
    return lambda: made.repository.versions.cherry_pick("side")


def revert(made: Branches) -> Act:
    newest, *_ = made.repository.ancestry(branch="main")
    return lambda: made.repository.versions.revert(newest.id)


def squash(made: Branches) -> Act:
    _, _, first, *_ = made.repository.ancestry(branch="main")
    return lambda: made.repository.versions.squash("main", first.id)


def squash_all(made: Branches) -> Act:
    """From the root on, which never expires, up to a commit that does."""
    made.commit("main", {"a/c/0": b"newer"}, "newer")
    _, newest, *_, root = made.repository.ancestry(branch="main")
    return lambda: made.repository.versions.squash("main", root.id, newest.id)


def shift(made: Branches) -> Act:
    session = made.repository.writable_session("main")
    session.shift_array("a", [1])
    made.commit("main", {"b/zarr.json": array_document(2)}, "elsewhere")
    return lambda: session.commit("shifted", rebase_with=ConflictDetector())


def calls_of(prepare: Prepare, spec: int, stride: int) -> list[int]:
    """Numbers of calls to meddle with: fewer while it is planned than from the first write on."""
    storage, made = prepared(spec)
    act = prepare(made)
    storage.forget_calls()
    act()
    kinds = [operation for operation, _ in storage.calls]
    first = kinds.index("put") + 1
    return [*range(1, first, 4 * stride), *range(first, len(kinds) + 1, stride)]


@pytest.mark.parametrize("stride", [2, pytest.param(1, marks=pytest.mark.soak)])
@pytest.mark.parametrize("spec", [1, 2])
@pytest.mark.parametrize("lose", [lose_side, lose_history])
@pytest.mark.parametrize("prepare", [merge, cherry_pick, revert, squash, squash_all, shift])
def test_what_is_acknowledged_can_be_read(
    prepare: Prepare, lose: Lose, spec: int, stride: int
) -> None:
    for call in calls_of(prepare, spec, stride):
        storage, made = prepared(spec)
        act = prepare(made)
        inner, began = storage.inner, datetime.now(UTC)
        assert isinstance(inner, MemoryStorage)
        storage.before(call, partial(lose, inner, began))
        # To be refused is fine, as long as everything that is there can be read.
        with suppress(FrazilError):
            act()
        assert storage.is_over
        repository = Repository.open(inner)
        for branch in repository.list_branches():
            assert contents(repository.readonly_session(branch))
            assert list(repository.ancestry(branch=branch))
        report = fsck(repository)
        assert report.is_sound, (call, report.findings)


@pytest.mark.parametrize("spec", [1, 2])
@pytest.mark.parametrize("prepare", [squash, squash_all])
def test_a_branch_is_not_squashed_to_what_another_program_has_collected(
    prepare: Prepare, spec: int
) -> None:
    for call in calls_of(prepare, spec, 1):
        storage, made = prepared(spec)
        act = prepare(made)
        inner, began = storage.inner, datetime.now(UTC)
        assert isinstance(inner, MemoryStorage)
        storage.before(call, partial(lose_history_to_others, inner, began))
        with suppress(FrazilError):
            act()
        assert storage.is_over
        repository = Repository.open(inner)
        for branch in repository.list_branches():
            for info in repository.ancestry(branch=branch):
                assert contents(repository.readonly_session(snapshot_id=info.id)) is not None
