"""Which chunks of an array may differ: what logs tell, else what references tell."""

from __future__ import annotations

import numpy as np
import pytest
import zarr

import frazil
from frazil.comparing.candidates import different_chunks, logged_changes, written_chunks
from frazil.comparing.records import FoundBy, Sample
from frazil.ids import NodeId, SnapshotId
from frazil.testing.faulty import FaultyStorage
from frazil.transaction.opened import context_of
from tests.support.versions import blank, change, make


def test_logs_are_used_where_all_are_there() -> None:
    repo = frazil.Repository.create(frazil.in_memory_storage())
    first = make(repo, t=np.zeros((4, 4)))
    change(repo, "t", 0, 1.0)
    last = change(repo, "t", 3, 2.0)
    assert repo.versions.diff_values(first, last).arrays[0].found_by == FoundBy.LOGS
    back = repo.versions.diff_values(last, first).arrays[0]
    assert (back.found_by, back.min_difference, back.max_difference) == (FoundBy.LOGS, -2.0, -1.0)
    for key in [item.key for item in repo.storage.list("transactions/")]:
        repo.storage.delete_many([key])
    again = frazil.Repository.open(repo.storage).versions.diff_values(first, last).arrays[0]
    assert (again.found_by, again.cells_changed) == (FoundBy.MANIFESTS, 8)


def test_branches_are_compared_through_their_common_ancestor(repo: frazil.Repository) -> None:
    first = make(repo, t=np.zeros(6, "i4"))
    repo.create_branch("dev", first)
    change(repo, "t", 0, 5)
    change(repo, "t", 5, 7, branch="dev")
    [found] = repo.versions.diff_values("main", "dev").arrays
    assert found.samples == (Sample((0,), 5, 0), Sample((5,), 0, 7))
    assert found.cells_changed == 2


def test_manifests_that_were_only_written_anew_are_no_difference(repo: frazil.Repository) -> None:
    """Logs do not tell of them."""
    first = make(repo, t=np.arange(40.0))
    config = frazil.RepositoryConfig(
        inline_chunk_threshold_bytes=8,
        manifest=frazil.ManifestConfig(
            splitting=frazil.ManifestSplittingConfig.from_dict(
                {
                    frazil.ManifestSplitCondition.AnyArray(): {
                        frazil.ManifestSplitDimCondition.Any(): 3
                    }
                }
            )
        ),
    )
    other = frazil.Repository.open(repo.storage, config=config)
    last = other.rewrite_manifests("in parts", branch="main")
    assert repo.versions.diff_values(first, last).is_empty


def test_arrays_that_nobody_touched_are_not_looked_into(repo: frazil.Repository) -> None:
    first = make(repo, t=np.arange(6.0), u=np.ones(3))
    last = change(repo, "u", 0, 5.0)
    storage = FaultyStorage(repo.storage)
    opened = frazil.Repository.open(storage)
    manifests = {
        ref.id
        for id_ in (first, last)
        for ref in opened.readonly_session(snapshot_id=id_).state.array("/t").manifests
    }
    storage.forget_calls()
    assert [each.path for each in opened.versions.diff_values(first, last).arrays] == ["/u"]
    read = {key for _, key in storage.calls}
    assert not read & {f"manifests/{each}" for each in manifests}


# --- logs ---


def ids(*texts: str) -> list[SnapshotId]:
    return [SnapshotId.parse(text) for text in texts]


def node_of(repo: frazil.Repository, name: str) -> NodeId:
    return repo.readonly_session("main").state.array(f"/{name}").id


def test_logs_of_all_commits_between_are_united() -> None:
    repo = frazil.Repository.create(frazil.in_memory_storage())
    first = make(repo, t=np.zeros(8), u=np.zeros(8))
    change(repo, "t", 0, 1.0)
    change(repo, "t", slice(0, 4), 2.0)
    last = change(repo, "u", 7, 3.0)
    for pair in ((first, last), (last, first)):
        found = logged_changes(context_of(repo), *ids(*pair))
        assert found is not None
        assert found.chunks[node_of(repo, "t")].tolist() == [[0], [1]]
        assert found.chunks[node_of(repo, "u")].tolist() == [[3]]
        assert not found.unsure


def test_arrays_whose_metadata_changed_are_not_left_to_logs() -> None:
    repo = frazil.Repository.create(frazil.in_memory_storage())
    first = make(repo, t=np.zeros(8), u=np.zeros(8))
    change(repo, "u", 0, 1.0)
    session = repo.writable_session("main")
    zarr.open_array(session.store, path="t", mode="r+").resize((4,))
    found = logged_changes(context_of(repo), *ids(first, session.commit("shrink")))
    assert found is not None
    assert found.unsure == {node_of(repo, "t")}
    assert set(found.chunks) == {node_of(repo, "u")}


def test_nothing_changed_between_a_snapshot_and_itself(repo: frazil.Repository) -> None:
    first = make(repo, t=np.zeros(8))
    found = logged_changes(context_of(repo), *ids(first, first))
    assert found is not None
    assert (dict(found.chunks), found.unsure) == ({}, frozenset())


def test_a_log_that_is_missing_is_no_log_at_all(repo: frazil.Repository) -> None:
    first = make(repo, t=np.zeros(8))
    middle = change(repo, "t", 0, 1.0)
    last = change(repo, "t", 7, 2.0)
    repo.storage.delete_many([f"transactions/{middle}"])
    again = context_of(frazil.Repository.open(repo.storage))
    assert logged_changes(again, *ids(first, last)) is None
    assert logged_changes(again, *ids(middle, last)) is not None


# --- references ---


def compared(repo: frazil.Repository, first: str, last: str) -> tuple[list[int], list[int]]:
    """Chunks of `t` that manifests of one side only name, and those whose references differ."""
    states = [repo.readonly_session(snapshot_id=one).state for one in (first, last)]
    old, new = states
    one, other = (state.array("/t") for state in states)
    coords = written_chunks(old, one, new, other)
    found = different_chunks(old, one, new, other, coords)
    return coords[:, 0].tolist(), found[:, 0].tolist()


@pytest.mark.parametrize("dtype", ["i1", "f8"], ids=["inline", "native"])
def test_references_that_differ_are_found_whatever_their_kind(
    repo: frazil.Repository, dtype: str
) -> None:
    first = make(repo, t=np.arange(8).astype(dtype))
    last = change(repo, "t", slice(2, 4), [70, 71])
    assert compared(repo, first, last) == ([0, 1, 2, 3], [1])
    assert compared(repo, last, last) == ([], [])


def test_a_chunk_that_only_one_side_has_differs(repo: frazil.Repository) -> None:
    first = blank(repo, "one", shape=(6,), chunks=(2,), dtype="f8", fill_value=0)
    last = change(repo, "t", 4, 5.0)
    assert compared(repo, first, last) == ([2], [2])
    assert compared(repo, last, first) == ([2], [2])
