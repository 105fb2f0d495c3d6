"""Nodes of old generations can be renamed: they stay the same node at another path."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import zarr

from frazil.errors import ConflictError, FormatError
from frazil.model.values import ConflictDetector
from frazil.repository import Repository
from frazil.storage.memory import MemoryStorage
from frazil.upgrade import upgrade_older
from tests.support.checks import check_repository
from tests.support.generations import Spec
from tests.support.old_repositories import make_old, put
from tests.support.seed_files import G1, G2, G3, Array

SPECS: list[Spec] = ["g1", "g2", "g2-msgpack", "g3", "3e-27", "3i"]


def values(repository: Repository, path: str) -> Any:  # noqa: ANN401 - nested lists
    session = repository.readonly_session("main")
    return np.asarray(zarr.open_array(session.store, path=path, mode="r")[...]).tolist()


@pytest.mark.parametrize("spec", SPECS)
def test_arrays_and_groups_get_other_names_and_keep_their_chunks(spec: Spec) -> None:
    storage = MemoryStorage()
    repository = make_old(storage, spec)
    line, inner = values(repository, "line"), values(repository, "grid/x")
    session = repository.rearrange_session("main")
    session.move("/line", "/renamed")
    session.move("/grid", "/group")
    tip = session.commit("other names")
    repository = Repository.open(storage)
    assert values(repository, "renamed") == line
    assert values(repository, "group/x") == inner
    group = zarr.open_group(repository.readonly_session("main").store, mode="r")
    paths = {path for path, _ in group.members(max_depth=None)}
    assert paths == {"group", "group/x", "renamed", "scalar"}
    parent = repository.lookup_snapshot(tip).parent_id
    assert parent is not None
    moves = repository.diff(from_snapshot_id=parent, to_branch="main").moved_nodes
    assert ("/line", "/renamed") in [tuple(move) for move in moves]
    session = repository.writable_session("main")
    put(session.store, "renamed", 0, 77)
    session.commit("after")
    assert values(Repository.open(storage), "renamed")[0] == 77
    check_repository(Repository.open(storage))
    upgrade_older(storage)
    assert values(Repository.open(storage), "renamed")[0] == 77
    assert values(Repository.open(storage), "group/x") == inner


@pytest.mark.parametrize("make", [G1(), G2(), G3(), G3(fields=9, header=39)])
def test_nodes_of_other_writers_too(make: G1 | G2 | G3) -> None:
    storage = MemoryStorage()
    array = Array("/line", np.arange(9, dtype=np.int32), (2,))
    make.write(storage, [array])
    session = Repository.open(storage).rearrange_session("main")
    session.move("/line", "/other")
    session.commit("renamed")
    assert values(Repository.open(storage), "other") == array.expected().tolist()


@pytest.mark.parametrize("spec", SPECS)
def test_a_write_to_the_old_name_meets_the_rename(spec: Spec) -> None:
    """A commit that was begun before is refused or lands at the new place, never beside it."""
    storage = MemoryStorage()
    repository = make_old(storage, spec)
    late = repository.writable_session("main")
    put(late.store, "line", 0, 55)
    session = repository.rearrange_session("main")
    session.move("/line", "/renamed")
    session.commit("renamed")
    try:
        late.commit("late", rebase_with=ConflictDetector())
    except ConflictError:
        assert values(Repository.open(storage), "renamed")[0] == 4
    else:
        assert values(Repository.open(storage), "renamed")[0] == 55
    check_repository(Repository.open(storage))


def test_spec_1_still_cannot(tmp_path: object) -> None:
    repository = Repository.create(MemoryStorage(), spec_version=1)
    with pytest.raises(FormatError, match="moving nodes"):
        repository.rearrange_session("main")
