"""The power goes at any moment of an action: what is left opens, at the old state or the new.

Once the action has returned, it is the new state, with all its chunks.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from frazil.bulk.write import write_region
from frazil.model.config import RepositoryConfig
from frazil.repository import Repository
from frazil.storage.assets import CHUNK
from frazil.storage.base import Storage
from frazil.storage.local import LocalStorage
from frazil.storage.memory import MemoryStorage
from frazil.storage.posix import is_staging
from frazil.storage.tuning import LARGE_OBJECT, SYNC_ALL_FROM
from frazil.transfer.cloning import clone
from frazil.transfer.zarr_export import export
from tests.support.actions import (
    CONFIG,
    Act,
    State,
    base_of,
    commit,
    commit_rebased,
    create_branch,
    create_tag,
    delete_branch,
    flush,
    reset_branch,
    rewrite,
    state_of,
)
from tests.support.ages import AT_ONCE
from tests.support.nodes import array_document, write_keys
from tests.support.power_cut import File, Recorder, Recording, Synced, Tree, Written

HOME = "repo"
SOME = 8
"""moments of an action that are tried each time; all of them in long runs"""


@dataclass
class Done:
    """An action that was recorded."""

    recording: Recording
    states: list[tuple[int, State]]
    """what users see before, when it is prepared, and after; with the numbers of events by then"""

    def wrongs(self, most: int | None = None) -> list[str]:
        """Moments at which a power cut would leave what nobody may see."""
        known: dict[int, State | str] = {}
        found = []
        for moment in self.recording.moments(most):
            promised = max(n for n, (at, _) in enumerate(self.states) if at <= moment)
            allowed = [state for _, state in self.states[promised : promised + 2]]
            for tree in self.recording.remains(moment):
                mark = hash(frozenset(tree.items()))
                if mark not in known:
                    known[mark] = look(tree)
                if known[mark] not in allowed:
                    found.append(f"at {moment} of {self.states}: {known[mark]}")
        return found


def look(tree: Tree, see: Callable[[Storage], State] | None = None) -> State | str:
    """What users see of files, or the error they get."""
    storage = MemoryStorage()
    for path, data in tree.items():
        if path.startswith(f"{HOME}/") and not is_staging(path.rpartition("/")[2]):
            storage.put(path[len(HOME) + 1 :], data)
    try:
        return (see or seen_in)(storage)
    except Exception as error:  # whatever it is, it should not have been
        return f"{type(error).__name__}: {error}"


def seen_in(storage: Storage) -> State:
    state = state_of(storage)
    if state:
        repository = Repository.open(storage)
        state["config"] = repository.config.inline_chunk_threshold_bytes
        if repository.spec_version == 2:
            state["operations"] = [type(each).__name__ for each in repository.ops_log()]
    return state


@pytest.fixture
def disk(tmp_path: Path) -> Path:
    folder = tmp_path / "disk"
    folder.mkdir()
    return folder


def record(
    disk: Path, prepare: Callable[[LocalStorage], Act], monkeypatch: pytest.MonkeyPatch
) -> Done:
    """Do something on a disk that holds what is there now."""
    home = disk / HOME
    states = [(0, seen_in(LocalStorage(home, durability="none")))]
    recorder = Recorder(disk, monkeypatch)
    with recorder.watching() as recording:
        act = prepare(LocalStorage(home))
        states.append((len(recording.events), seen_in(LocalStorage(home, durability="none"))))
        act()
    assert recorder.all_survived()
    states.append((recording.done, seen_in(LocalStorage(home, durability="none"))))
    return Done(recording, states)


def config_saved(repository: Repository) -> Act:
    """Another configuration."""
    repository = Repository.open(
        repository.storage, config=RepositoryConfig(inline_chunk_threshold_bytes=77)
    )
    return repository.save_config


def large_chunks(repository: Repository) -> Act:
    """Chunks that are sent to the disk before the commit."""
    session = repository.writable_session("main")
    write_keys(
        session,
        {
            "l/zarr.json": array_document(2, chunks=(1,)),
            "l/c/0": bytes(LARGE_OBJECT),
            "l/c/1": b"x" * (LARGE_OBJECT + 1),
        },
    )
    return lambda: session.commit("large")


def many_chunks(repository: Repository) -> Act:
    """More files than are synced one by one."""
    session = repository.writable_session("main")
    write_keys(session, {"m/zarr.json": array_document(SYNC_ALL_FROM)})
    write_keys(session, {f"m/c/{n}": b"native %d" % n for n in range(SYNC_ALL_FROM)})
    return lambda: session.commit("many")


ACTIONS = (
    commit,
    commit_rebased,
    flush,
    rewrite,
    create_branch,
    reset_branch,
    delete_branch,
    create_tag,
    config_saved,
    large_chunks,
)


CASES = [
    pytest.param(action, spec, id=f"{action.__name__}-v{spec}")
    for action in ACTIONS
    for spec in (1, 2)
]


def check(
    disk: Path,
    action: Callable[[Repository], Act],
    spec: int,
    monkeypatch: pytest.MonkeyPatch,
    most: int | None,
) -> None:
    base_of(LocalStorage(disk / HOME, durability="none"), spec)
    done = record(disk, lambda storage: action(Repository.open(storage)), monkeypatch)
    assert done.states[1] != done.states[2]
    assert done.wrongs(most) == []


@pytest.mark.parametrize(("action", "spec"), CASES)
def test_an_action_has_happened_or_not(
    disk: Path, action: Callable[[Repository], Act], spec: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    check(disk, action, spec, monkeypatch, SOME)


@pytest.mark.soak
@pytest.mark.parametrize(("action", "spec"), CASES)
def test_an_action_has_happened_or_not_at_any_moment(
    disk: Path, action: Callable[[Repository], Act], spec: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    check(disk, action, spec, monkeypatch, None)


@pytest.mark.parametrize("spec", [1, 2])
def test_a_commit_of_many_files_has_happened_or_not(
    disk: Path, spec: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    check(disk, many_chunks, spec, monkeypatch, 6)


@pytest.mark.parametrize("spec", [1, 2])
def test_a_new_repository_is_there_or_not(
    disk: Path, spec: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a folder that somebody has just made."""

    def prepare(storage: LocalStorage) -> Act:
        Path(storage.path).mkdir()
        return lambda: Repository.create(storage, config=CONFIG, spec_version=spec)

    done = record(disk, prepare, monkeypatch)
    assert done.wrongs() == []


@pytest.mark.parametrize("spec", [1, 2])
def test_a_clone_is_there_or_not(disk: Path, spec: int, monkeypatch: pytest.MonkeyPatch) -> None:
    source = MemoryStorage()
    base_of(source, spec)
    done = record(
        disk, lambda storage: lambda: clone(Repository.open(source), storage), monkeypatch
    )
    assert done.wrongs(2 * SOME) == []


@pytest.mark.parametrize("spec", [1, 2])
def test_what_is_not_erased_of_an_object_lasts(
    disk: Path, spec: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A chunk of which a part stays is written anew, and its object has another chunk in it."""
    home = LocalStorage(disk / HOME, durability="none")
    config = RepositoryConfig(inline_chunk_threshold_bytes=0)
    session = Repository.create(home, config, spec_version=spec).writable_session("main")
    write_keys(session, {"a/zarr.json": array_document(8, chunks=(4,))})
    write_region(session, "a", ..., np.arange(1, 9, dtype=np.uint8), packing=True)
    session.commit("packed")
    states: list[State | str] = [state_of(home)]
    recorder = Recorder(disk, monkeypatch)
    with recorder.watching() as recording:
        report = Repository.open(LocalStorage(disk / HOME)).space.purge(
            "a", [slice(0, 2)], confirm="a", unsafe_minimum_age=AT_ONCE
        )
    assert (report.objects_overwritten, report.chunks_blanked) == (1, 1)
    states.append(state_of(home))
    assert states[0] != states[1]
    known: dict[int, State | str] = {}
    for moment in moments_of_names(recording):
        for tree in recording.remains(moment):
            mark = hash(frozenset(tree.items()))
            if mark not in known:
                known[mark] = look(tree, state_of)
            assert known[mark] in states[moment >= recording.done :], moment


def moments_of_names(recording: Recording) -> list[int]:
    """Just after a file has got a name or lost one, and the end."""
    named = (not isinstance(event, Written | Synced) for event in recording.events)
    return [*(n + 1 for n, is_named in enumerate(named) if is_named), recording.done]


def test_an_export_that_can_be_opened_lasts(disk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Chunks that are missing would be read as fill values."""
    source = MemoryStorage()
    session = base_of(source, 2).readonly_session("main")
    recorder = Recorder(disk, monkeypatch)
    with recorder.watching() as recording:
        export(session, LocalStorage(disk / HOME))
    storage = LocalStorage(disk / HOME, durability="none")
    whole = {item.key: storage.get(item.key) for item in storage.list("")}
    assert {"zarr.json", "a/c/0"} < whole.keys()
    for moment in recording.moments(4 * SOME):
        for tree in recording.remains(moment):
            there = _files(tree)
            if moment >= recording.done or there.get("zarr.json") == whole["zarr.json"]:
                assert there == whole, moment


def _files(tree: Tree) -> Tree:
    return {
        path[len(HOME) + 1 :]: data
        for path, data in tree.items()
        if not is_staging(path.rpartition("/")[2])
    }


@pytest.mark.parametrize("spec", [1, 2])
def test_folders_that_somebody_else_has_just_made(
    disk: Path, spec: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process made them and had no time to sync them."""
    Repository.create(LocalStorage(disk / HOME), config=CONFIG, spec_version=spec)

    def prepare(storage: LocalStorage) -> Act:
        for name in ("chunks", "manifests", "refs/branch.new"):
            Path(storage.path, name).mkdir(parents=True)
        repository = Repository.open(storage)
        session = repository.writable_session("main")
        write_keys(session, {"a/zarr.json": array_document(4), "a/c/0": b"native chunk"})

        def act() -> None:
            repository.create_branch("new", session.commit("first"))

        return act

    done = record(disk, prepare, monkeypatch)
    for tree in done.recording.remains(done.recording.done):
        assert look(tree) == done.states[-1][1]


def test_a_folder_that_went_and_was_made_again(disk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    storage = LocalStorage(disk / HOME)
    for create in ("create", "again"):
        storage.put_if("refs/branch.a/ref.json", create.encode(), None)
        shutil.rmtree(disk / HOME / "refs")
    recorder = Recorder(disk, monkeypatch)
    with recorder.watching() as recording:
        storage.put_if("refs/branch.a/ref.json", b"third", None)
    for tree in recording.remains(recording.done):
        assert tree[f"{HOME}/refs/branch.a/ref.json"] == b"third"


# --- is the model itself any good? ---


def is_of_file(event: Synced) -> bool:
    return isinstance(event.what, File)


def is_of_folder(event: Synced) -> bool:
    return isinstance(event.what, str)


def is_of_all(event: Synced) -> bool:
    return event.what is None


@pytest.mark.parametrize(
    ("action", "is_ignored"),
    [
        (commit, is_of_file),
        (commit, is_of_folder),
        (create_tag, is_of_file),
        (many_chunks, is_of_all),
    ],
)
@pytest.mark.parametrize("spec", [1, 2])
def test_a_disk_that_does_not_sync_loses_commits(
    disk: Path,
    action: Callable[[Repository], Act],
    is_ignored: Callable[[Synced], bool],
    spec: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    base_of(LocalStorage(disk / HOME, durability="none"), spec)
    done = record(disk, lambda storage: action(Repository.open(storage)), monkeypatch)
    assert Done(done.recording.without(is_ignored), done.states).wrongs(2)


def test_with_durability_none_anything_may_be_lost(
    disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is synced at all: not one file, not one folder."""
    base_of(LocalStorage(disk / HOME, durability="none"), 2)
    recorder = Recorder(disk, monkeypatch)
    with recorder.watching() as recording:
        many_chunks(Repository.open(LocalStorage(disk / HOME, durability="none")))()
        storage = LocalStorage(disk / HOME, durability="none")
        storage.put("chunks/large", bytes(LARGE_OBJECT), CHUNK)
        storage.make_durable(["chunks/large"])
        storage.delete_many(["chunks/large"])
    assert recorder.all_survived()
    assert not [event for event in recording.events if isinstance(event, Synced)]


def test_what_was_deleted_does_not_come_back(disk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Unless it was a bulk of garbage, which may be deleted again."""
    storage = LocalStorage(disk / HOME)
    storage.put_many([("refs/a", b"1"), ("refs/b", b"2"), ("snapshots/c", b"3")])
    recorder = Recorder(disk, monkeypatch)
    with recorder.watching() as recording:
        assert storage.delete_many(["refs/a", "snapshots/c", "refs/none"]).keys == 3
    for tree in recording.remains(recording.done):
        assert {path for path in tree if "#" not in path} == {f"{HOME}/refs/b"}
