"""A plan that relied on what somebody else changed is refused, and on nothing else."""

from __future__ import annotations

import pickle
from collections.abc import Callable

import numpy as np
import pytest
import zarr

from frazil.errors import RebaseFailedError
from frazil.model.values import BasicConflictSolver, ConflictDetector, ConflictType
from frazil.repository import Repository
from frazil.session import Session
from frazil.storage.memory import MemoryStorage

Act = Callable[[zarr.Group], object]


@pytest.fixture(params=[1, 2])
def repository(request: pytest.FixtureRequest) -> Repository:
    """A group `g` with labels `t`, `x` and data `v`, and an array above it."""
    made = Repository.create(MemoryStorage(), spec_version=request.param)
    with made.transaction("main", message="one") as store:
        root = zarr.create_group(store)
        add(root, "t", 4, ["t"])
        group = root.create_group("g")
        add(group, "t", 4, ["t"])
        add(group, "x", 4, ["x"])
        add(group, "v", 4, ["t"])
    return made


def add(group: zarr.Group, name: str, length: int, dims: list[str]) -> None:
    """An array of one dimension."""
    array = group.create_array(name, shape=(length,), chunks=(2,), dtype="i4", dimension_names=dims)
    array[:] = np.arange(length)


def set_values(group: zarr.Group, name: str) -> None:
    """Somebody writes other values."""
    found = group[name]
    assert isinstance(found, zarr.Array)
    found[:] = 7


def grow(group: zarr.Group, name: str) -> None:
    """Somebody makes an array longer."""
    found = group[name]
    assert isinstance(found, zarr.Array)
    found.resize((6,))


def drop(group: zarr.Group, name: str) -> None:
    """Somebody deletes an array."""
    del group[name]


def renew(group: zarr.Group, name: str) -> None:
    """Somebody deletes an array and makes the same once more."""
    del group[name]
    add(group, name, 4, [name])


CASES: list[tuple[str, Callable[[Session], None], Act, str | None]] = [
    ("values", lambda s: s.rely_on("g/t"), lambda g: set_values(g, "t"), "/g/t"),
    ("metadata", lambda s: s.rely_on("g/t"), lambda g: grow(g, "t"), "/g/t"),
    ("identity", lambda s: s.rely_on("g/t", values=False), lambda g: renew(g, "t"), "/g/t"),
    ("absence", lambda s: s.rely_on("g/y"), lambda g: add(g, "y", 4, ["y"]), "/g/y"),
    ("presence", lambda s: s.rely_on("g/t"), lambda g: drop(g, "t"), "/g/t"),
    ("other values", lambda s: s.rely_on("g/t"), lambda g: set_values(g, "x"), None),
    ("metadata only", lambda s: s.rely_on("g/t", values=False), lambda g: set_values(g, "t"), None),
    ("length", lambda s: s.rely_on_dimensions("g", "t"), lambda g: grow(g, "t"), "/g/t"),
    (
        "same length",
        lambda s: s.rely_on_dimensions("g", "t"),
        lambda g: add(g, "n", 4, ["t"]),
        None,
    ),
    (
        "odd length",
        lambda s: s.rely_on_dimensions("g", "t"),
        lambda g: add(g, "n", 5, ["t"]),
        "/g/n",
    ),
    ("other dimension", lambda s: s.rely_on_dimensions("g", "t"), lambda g: grow(g, "x"), None),
    (
        "new member",
        lambda s: s.rely_on_dimensions("g", "t", members=True),
        lambda g: add(g, "n", 4, ["t"]),
        "/g/n",
    ),
    (
        "lost member",
        lambda s: s.rely_on_dimensions("g", "t", members=True),
        lambda g: drop(g, "t"),
        "/g/t",
    ),
    (
        "no member",
        lambda s: s.rely_on_dimensions("g", "t", members=True),
        lambda g: add(g, "n", 5, ["n"]),
        None,
    ),
    (
        "a member of another group",
        lambda s: s.rely_on_dimensions("", "t", members=True),
        lambda g: add(g, "n", 4, ["t"]),
        None,
    ),
]


@pytest.mark.parametrize(
    ("rely", "act", "found"), [c[1:] for c in CASES], ids=[c[0] for c in CASES]
)
def test_a_change_of_what_a_plan_relied_on_is_a_conflict(
    repository: Repository, rely: Callable[[Session], None], act: Act, found: str | None
) -> None:
    session = repository.tip("main").writable_session()
    rely(session)
    set_values(zarr.open_group(session.store, path="g"), "v")
    with repository.transaction("main", message="theirs") as store:
        act(zarr.open_group(store, path="g"))
    before = repository.lookup_branch("main")
    if found is None:
        session.commit("ours", rebase_with=ConflictDetector())
        return
    for solver in (ConflictDetector(), BasicConflictSolver()):
        with pytest.raises(RebaseFailedError) as failure:
            session.commit("ours", rebase_with=solver)
        told = [(each.conflict_type, each.path) for each in failure.value.conflicts]
        assert told == [(ConflictType.ReliedUponChanged, found)]
    assert repository.lookup_branch("main") == before


def test_what_is_discarded_relies_on_nothing(repository: Repository) -> None:
    session = repository.tip("main").writable_session()
    session.rely_on("g/t")
    session.discard_changes()
    set_values(zarr.open_group(session.store, path="g"), "v")
    with repository.transaction("main", message="theirs") as store:
        set_values(zarr.open_group(store, path="g"), "t")
    made = session.commit("ours", rebase_with=ConflictDetector())
    assert repository.lookup_branch("main") == made


def test_what_a_fork_relied_on_holds_for_the_session_it_is_merged_into(
    repository: Repository,
) -> None:
    session = repository.tip("main").writable_session()
    fork = session.fork()
    fork.rely_on("g/t")
    set_values(zarr.open_group(fork.store, path="g"), "v")
    session.merge(pickle.loads(pickle.dumps(fork)))
    with repository.transaction("main", message="theirs") as store:
        set_values(zarr.open_group(store, path="g"), "t")
    with pytest.raises(RebaseFailedError):
        session.commit("ours", rebase_with=ConflictDetector())
