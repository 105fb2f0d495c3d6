"""Values of two versions compared: which chunks are read, and what is told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr

import frazil
from frazil.bulk.grid import layout_of
from frazil.comparing import pairing
from frazil.comparing.records import ArrayChange, FoundBy, Sample
from frazil.errors import NodeNotFoundError, RefNotFoundError
from frazil.ids import SnapshotId
from frazil.transaction.keyspace import KeySpace
from frazil.transaction.opened import context_of
from frazil.transaction.working import WorkingState
from tests.support.ages import AT_ONCE
from tests.support.rectilinear import RECTILINEAR
from tests.support.versions import blank, change, make
from tests.unit.codec_pipeline.test_dispatch import Mirror


def test_only_changed_chunks_are_read(repo: frazil.Repository) -> None:
    old = np.arange(64, dtype="f8").reshape(8, 8)
    first = make(repo, t=old, u=np.arange(6))
    last = change(repo, "t", (slice(3, 5), 6), [100.0, 200.0])
    diff = repo.versions.diff_values(first, last)
    [found] = diff.arrays
    assert (found.path, found.change) == ("/t", ArrayChange.CHANGED)
    assert found.found_by in (FoundBy.LOGS, FoundBy.MANIFESTS)
    assert found.chunks_read == 2
    assert (found.cells_compared, found.cells_changed) == (8, 2)
    assert (found.min_difference, found.max_difference) == (70.0, 162.0)
    assert found.mean_difference == 116.0
    assert found.bounding_box == ((3, 5), (6, 7))
    assert found.samples == (Sample((3, 6), 30.0, 100.0), Sample((4, 6), 38.0, 200.0))
    assert diff.array("t") == found
    assert repo.versions.diff_values(last, last).is_empty


def test_a_chunk_written_with_the_same_values_is_no_difference(repo: frazil.Repository) -> None:
    first = make(repo, t=np.arange(6.0))
    last = change(repo, "t", slice(0, 2), [0.0, 1.0])
    assert repo.versions.diff_values(first, last).is_empty


def test_nan_is_equal_to_nan_and_left_out_of_statistics(repo: frazil.Repository) -> None:
    first = make(repo, t=np.array([np.nan, 1.0, np.inf, 2.0, -0.0, np.nan]))
    last = change(repo, "t", slice(None), [np.nan, np.nan, 5.0, 4.0, 0.0, np.nan])
    [found] = repo.versions.diff_values(first, last).arrays
    assert (found.cells_changed, found.differences) == (3, 1)
    assert (found.min_difference, found.max_difference, found.mean_difference) == (2.0, 2.0, 2.0)


def test_large_integers_are_compared_exactly(repo: frazil.Repository) -> None:
    big = 2**63 - 1
    first = make(repo, t=np.array([big, 0], "i8"), u=np.array([2**64 - 1, 3], "u8"))
    change(repo, "t", 0, big - 1)
    last = change(repo, "u", slice(None), [2**64 - 2, 1])
    t, u = repo.versions.diff_values(first, last).arrays
    assert (t.cells_changed, t.mean_difference) == (1, -1.0)
    assert (u.min_difference, u.max_difference) == (-2.0, -1.0)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (np.array([True, False]), [True, True]),
        (np.array(["a", "b"]), ["a", "c"]),
        (np.array([1 + 2j, 3]), [1 + 2j, 4]),
        (np.array(["2020-01-01", "NaT"], "M8[s]"), ["2020-01-02", "NaT"]),
    ],
)
def test_other_types_are_counted_only(repo: frazil.Repository, old: Any, new: Any) -> None:  # noqa: ANN401
    first = make(repo, t=old)
    last = change(repo, "t", slice(None), np.asarray(new, old.dtype))
    [found] = repo.versions.diff_values(first, last).arrays
    assert (found.cells_changed, found.differences, found.min_difference) == (1, 0, None)
    assert len(found.samples) == 1


def test_a_grown_array_has_added_cells(repo: frazil.Repository) -> None:
    first = make(repo, t=np.ones((3, 4)))
    session = repo.writable_session("main")
    array = zarr.open_array(session.store, path="t", mode="r+")
    array.resize((5, 3))
    array[2:] = 9.0
    last = session.commit("resize")
    [found] = repo.versions.diff_values(first, last).arrays
    assert (found.old_shape, found.new_shape) == ((3, 4), (5, 3))
    assert (found.cells_added, found.cells_removed) == (6, 3)
    assert (found.cells_changed, found.bounding_box) == (3, ((2, 3), (0, 3)))


def test_cells_lost_by_shrinking_and_growing_again_are_found(repo: frazil.Repository) -> None:
    first = make(repo, t=np.ones(6))
    for length in (2, 6):
        session = repo.writable_session("main")
        zarr.open_array(session.store, path="t", mode="r+").resize((length,))
        last = session.commit(f"resize to {length}")
    [found] = repo.versions.diff_values(first, last).arrays
    assert (found.cells_changed, found.bounding_box) == (4, ((2, 6),))


def rewritten(repo: frazil.Repository, values: Any, **options: Any) -> str:  # noqa: ANN401
    session = repo.writable_session("main")
    root = zarr.open_group(session.store, mode="a")
    data = np.asarray(values)
    root.create_array("t", shape=data.shape, dtype=data.dtype, overwrite=True, **options)[...] = (
        data
    )
    return session.commit("rewrite")


def test_an_array_made_anew_is_compared_cell_by_cell(repo: frazil.Repository) -> None:
    values = np.arange(20, dtype="i4").reshape(4, 5)
    first = make(repo, t=values)
    same = rewritten(repo, values.astype("f8"), chunks=(3, 3), compressors=None)
    assert repo.versions.diff_values(first, same).is_empty
    values[3, 4] = 100
    last = rewritten(repo, values.astype("f4"), chunks=(4, 1), shards=(4, 5))
    [found] = repo.versions.diff_values(first, last).arrays
    assert (found.found_by, found.old_dtype, found.new_dtype) == (FoundBy.CELLS, "int32", "float32")
    assert found.samples == (Sample((3, 4), 19, 100.0),)
    assert found.cells_compared == 20


def test_another_number_of_axes_has_nothing_in_common(repo: frazil.Repository) -> None:
    first = make(repo, t=np.ones((2, 3)))
    last = rewritten(repo, np.ones(4), chunks=(2,))
    [found] = repo.versions.diff_values(first, last).arrays
    assert (found.cells_added, found.cells_removed, found.cells_changed) == (4, 6, 0)


def test_another_fill_value_changes_cells_without_chunks(repo: frazil.Repository) -> None:
    session = repo.writable_session("main")
    root = zarr.open_group(session.store, mode="a")
    root.create_array("t", shape=(5,), chunks=(2,), dtype="i4", fill_value=0)[0] = 3
    first = session.commit("zero")
    session = repo.writable_session("main")
    root = zarr.open_group(session.store, mode="a")
    root.create_array("t", shape=(5,), chunks=(2,), dtype="i4", fill_value=7, overwrite=True)[0] = 3
    last = session.commit("seven")
    [found] = repo.versions.diff_values(first, last).arrays
    assert (found.cells_changed, found.min_difference, found.bounding_box) == (4, 7.0, ((1, 5),))


def test_added_and_deleted_arrays_are_told_without_reading(repo: frazil.Repository) -> None:
    first = make(repo, t=np.ones(4))
    session = repo.writable_session("main")
    root = zarr.open_group(session.store, mode="a")
    del root["t"]
    root.create_array("u", shape=(3, 2), chunks=(3, 2), dtype="f4")[...] = 1
    last = session.commit("exchange")
    t, u = repo.versions.diff_values(first, last).arrays
    assert (t.change, t.cells_removed, t.chunks_read) == (ArrayChange.DELETED, 4, 0)
    assert (u.change, u.cells_added, u.found_by) == (ArrayChange.ADDED, 6, FoundBy.METADATA)


def test_a_moved_array_is_compared_with_itself() -> None:
    repo = frazil.Repository.create(frazil.in_memory_storage())
    first = make(repo, t=np.zeros(4))
    session = repo.rearrange_session("main")
    session.move("/t", "/moved")
    moved = session.commit("move")
    assert repo.versions.diff_values(first, moved).is_empty
    last = change(repo, "moved", 1, 2.0)
    [found] = repo.versions.diff_values(first, last).arrays
    assert (found.path, found.old_path, found.cells_changed) == ("/moved", "/t", 1)


def test_paths_choose_arrays_and_groups(repo: frazil.Repository) -> None:
    session = repo.writable_session("main")
    root = zarr.open_group(session.store, mode="a")
    for path in ("a/x", "a/y", "b"):
        root.create_array(path, shape=(2,), chunks=(2,), dtype="i4")
    first = session.commit("make")
    session = repo.writable_session("main")
    for path in ("a/x", "a/y", "b"):
        zarr.open_array(session.store, path=path, mode="r+")[0] = 1
    last = session.commit("change")
    told = [each.path for each in repo.versions.diff_values(first, last, paths=["/a"]).arrays]
    assert told == ["/a/x", "/a/y"]
    assert [e.path for e in repo.versions.diff_values(first, last, paths=["b", "a/y"]).arrays] == [
        "/a/y",
        "/b",
    ]
    with pytest.raises(NodeNotFoundError, match="nope"):
        repo.versions.diff_values(first, last, paths=["nope"])
    with pytest.raises(RefNotFoundError):
        repo.versions.diff_values("nowhere", last)


def test_scalars_and_empty_arrays(repo: frazil.Repository) -> None:
    first = make(repo, s=np.array(3.0), e=np.zeros((0, 3)))
    last = change(repo, "s", ..., 4.5)
    [found] = repo.versions.diff_values(first, last).arrays
    assert (found.path, found.mean_difference, found.bounding_box) == ("/s", 1.5, ())
    assert found.samples == (Sample((), 3.0, 4.5),)


def test_samples_are_those_with_the_smallest_coordinates(repo: frazil.Repository) -> None:
    first = make(repo, t=np.zeros((4, 4)))
    last = change(repo, "t", ..., 1.0)
    [found] = repo.versions.diff_values(first, last, max_samples=3).arrays
    assert [each.coords for each in found.samples] == [(0, 0), (0, 1), (0, 2)]
    assert repo.versions.diff_values(first, last, max_samples=0).arrays[0].samples == ()


def test_virtual_chunks_are_read_from_their_sources(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.write_bytes(np.array([1, 2, 3, 4], "<i4").tobytes())
    prefix = f"file://{tmp_path}/"
    config = frazil.RepositoryConfig.default()
    config.set_virtual_chunk_container(
        frazil.VirtualChunkContainer(prefix, frazil.local_filesystem_store(str(tmp_path)))
    )
    repo = frazil.Repository.create(
        frazil.in_memory_storage(),
        config,
        authorize_virtual_chunk_access={prefix: frazil.LocalFileSystemAccess},
    )
    session = repo.writable_session("main")
    root = zarr.open_group(session.store, mode="a")
    root.create_array("t", shape=(4,), chunks=(2,), dtype="<i4", compressors=None)
    for chunk in (0, 1):
        session.store.set_virtual_ref(f"t/c/{chunk}", f"{prefix}source", offset=8 * chunk, length=8)
    first = session.commit("virtual")
    last = change(repo, "t", 3, 9)
    [found] = repo.versions.diff_values(first, last).arrays
    assert (found.chunks_read, found.samples) == (1, (Sample((3,), 4, 9),))


def test_chunks_of_different_lengths_are_compared() -> None:
    repo = frazil.Repository.create(frazil.in_memory_storage())
    session = repo.writable_session("main")
    keys = KeySpace(session.state)
    keys.set("a/zarr.json", RECTILINEAR)
    keys.set("a/c/3/2", np.full((8, 4), 5, "<i4").tobytes())
    first = session.commit("one chunk")
    session = repo.writable_session("main")
    changed = np.full((8, 4), 5, "<i4")
    changed[4, 1] = 8
    changed[7, 3] = 9  # beyond the end of the array
    KeySpace(session.state).set("a/c/3/2", changed.tobytes())
    last = session.commit("another")
    [found] = repo.versions.diff_values(first, last).arrays
    assert (found.chunks_read, found.cells_compared) == (1, 10)
    assert found.samples == (Sample((11, 9), 5, 8),)


def test_codecs_that_only_zarr_knows_are_read_by_zarr(repo: frazil.Repository) -> None:
    session = repo.writable_session("main")
    array = zarr.create_array(
        session.store, name="m", shape=(5,), chunks=(2,), dtype="i4", compressors=[Mirror()]
    )
    array[:] = [1, 2, 3, 4, 5]
    assert layout_of(session.state.array("/m").user_data) is None
    first = session.commit("first")
    last = change(repo, "m", slice(3, 5), [8, 9])
    [found] = repo.versions.diff_values(first, last).arrays
    assert found.samples == (Sample((3,), 4, 8), Sample((4,), 5, 9))
    with pytest.raises(frazil.InvalidInputError, match="purge the whole array"):
        repo.space.purge("m", [slice(0, 1)], confirm="m", unsafe_minimum_age=AT_ONCE)
    assert repo.space.purge("m", confirm="m", unsafe_minimum_age=AT_ONCE).is_proved


def resized(repo: frazil.Repository, name: str, shape: tuple[int, ...]) -> str:
    session = repo.writable_session("main")
    zarr.open_array(session.store, path=name, mode="r+").resize(shape)
    return session.commit("resize")


@pytest.mark.parametrize(
    ("shape", "added", "removed"), [((9,), 3, 0), ((4,), 0, 2), ((5,), 0, 1), ((6,), 0, 0)]
)
def test_an_array_that_was_only_resized_is_told(
    repo: frazil.Repository, shape: tuple[int, ...], added: int, removed: int
) -> None:
    """No chunk was written, and all cells that both have are equal."""
    first = make(repo, t=np.arange(6.0), u=np.ones(3))
    session = repo.writable_session("main")
    zarr.open_array(session.store, path="t", mode="r+").resize(shape)
    zarr.open_array(session.store, path="u", mode="r+").attrs["a"] = 1
    last = session.commit("resize")
    found = repo.versions.diff_values(first, last).arrays
    if not added and not removed:
        assert not found
        return
    [only] = found
    assert (only.path, only.cells_added, only.cells_removed) == ("/t", added, removed)
    assert (only.cells_changed, only.old_shape, only.new_shape) == (0, (6,), shape)


def test_an_array_of_another_rank_has_no_common_cells(repo: frazil.Repository) -> None:
    first = make(repo, t=np.arange(6.0))
    session = repo.writable_session("main")
    root = zarr.open_group(session.store, mode="a")
    root.create_array("t", shape=(2, 3), chunks=(2, 3), dtype="f8", overwrite=True)[...] = 1.0
    last = session.commit("another rank")
    [found] = repo.versions.diff_values(first, last).arrays
    assert (found.old_shape, found.new_shape) == ((6,), (2, 3))
    assert (found.cells_compared, found.cells_changed) == (0, 0)
    assert (found.cells_added, found.cells_removed) == (6, 6)


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5])
def test_the_last_chunk_of_a_portion_is_compared(
    repo: frazil.Repository, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Chunks are compared two at a time here, and each has changed."""
    monkeypatch.setattr(pairing, "PORTION_BYTES", 2 * 2 * 8)
    first = make(repo, t=np.zeros(2 * count))
    last = change(repo, "t", slice(None), np.arange(1.0, 2 * count + 1))
    [found] = repo.versions.diff_values(first, last).arrays
    assert (found.cells_compared, found.cells_changed) == (2 * count, 2 * count)
    assert found.max_difference == 2 * count


@pytest.mark.parametrize("side", [2, 3, 4, 7])
def test_regions_of_arrays_with_other_chunks_cover_all_cells(
    repo: frazil.Repository, side: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stored in other chunks all cells are compared, however they fall into regions."""
    monkeypatch.setattr(pairing, "PORTION_BYTES", 6 * 8)
    values = np.arange(1.0, 36.0).reshape(5, 7)
    first = make(repo, t=values)
    session = repo.writable_session("main")
    root = zarr.open_group(session.store, mode="a")
    made = root.create_array("t", shape=(5, 7), chunks=(1, side), dtype="f8", overwrite=True)
    made[...] = -values
    last = session.commit("other chunks")
    [found] = repo.versions.diff_values(first, last).arrays
    assert (found.found_by, found.cells_compared) == (FoundBy.CELLS, 35)
    assert (found.cells_changed, found.bounding_box) == (35, ((0, 5), (0, 7)))
    assert found.min_difference == -70.0


def test_no_more_than_a_chunk_is_in_memory_where_chunks_are_large(
    repo: frazil.Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pairing, "PORTION_BYTES", 1)
    first = make(repo, t=np.zeros((4, 6)))
    last = change(repo, "t", slice(None), 1.0)
    session = repo.writable_session("main")
    root = zarr.open_group(session.store, mode="a")
    root.create_array("t", shape=(4, 6), chunks=(1, 3), dtype="f8", overwrite=True)[...] = 2.0
    other = session.commit("other chunks")

    def parts(one: str, two: str) -> list[pairing.ComparisonPart]:
        ends = SnapshotId.parse(one), SnapshotId.parse(two)
        old, new = (WorkingState(context_of(repo), each) for each in ends)
        [pair] = pairing.plan_pairs(context_of(repo), ends[0], ends[1])
        return [*pairing.comparison_parts(pair, old, new)]

    by_chunk = parts(first, last)
    assert [len(part.chunks) for part in by_chunk if part.chunks is not None] == [1] * 6
    boxes = [part.box for part in parts(last, other)]
    assert {tuple(end - start for start, end in box) for box in boxes} == {(2, 3)}
    assert sorted(boxes) == [((a, a + 2), (b, b + 3)) for a in (0, 2) for b in (0, 3)]


def test_cells_without_chunks_differ_where_fill_values_do(repo: frazil.Repository) -> None:
    first = make(repo, t=np.zeros(8), u=np.zeros(8))
    session = repo.writable_session("main")
    root = zarr.open_group(session.store, mode="a")
    for name, fill in (("t", 7.0), ("u", 0.0)):
        made = root.create_array(
            name, shape=(8,), chunks=(4,), dtype="f8", fill_value=fill, overwrite=True
        )
        made[0] = 0.0
    last = session.commit("another fill value")
    [found] = repo.versions.diff_values(first, last).arrays
    assert (found.path, found.cells_changed, found.bounding_box) == ("/t", 7, ((1, 8),))


def test_another_fill_value_changes_all_cells_of_an_array_without_chunks(
    repo: frazil.Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pairing, "PORTION_BYTES", 1)
    first = blank(repo, "zero", shape=(6,), chunks=(2,), dtype="i4", fill_value=0)
    last = blank(repo, "seven", shape=(6,), chunks=(2,), dtype="i4", fill_value=7)
    [found] = repo.versions.diff_values(first, last).arrays
    assert (found.cells_compared, found.cells_changed) == (6, 6)


def test_chunks_that_reach_into_two_regions_are_compared_in_both(
    repo: frazil.Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where chunks are of another size on each side, one begins in the middle of a region."""
    monkeypatch.setattr(pairing, "PORTION_BYTES", 1)
    plain = {"shape": (12,), "dtype": "i4", "fill_value": 0}
    first = blank(repo, "threes", chunks=(3,), written={5: 1}, **plain)
    last = blank(repo, "fours", chunks=(4,), **plain)
    [found] = repo.versions.diff_values(first, last).arrays
    assert found.samples == (Sample((5,), 1, 0),)


def test_chunks_beyond_what_both_have_are_not_compared(
    repo: frazil.Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pairing, "PORTION_BYTES", 1)
    first = blank(repo, "long", shape=(8,), chunks=(2,), dtype="i4", written={1: 3, 4: 1, 6: 1})
    last = blank(repo, "short", shape=(4,), chunks=(2,), dtype="i8", written={1: 3, 2: 5})
    ends = SnapshotId.parse(first), SnapshotId.parse(last)
    [pair] = pairing.plan_pairs(context_of(repo), *ends)
    old, new = (WorkingState(context_of(repo), each) for each in ends)
    assert [each.box for each in pairing.comparison_parts(pair, old, new)] == [((0, 2),), ((2, 4),)]
    [found] = repo.versions.diff_values(first, last).arrays
    assert (found.cells_compared, found.cells_removed) == (4, 4)
    assert found.samples == (Sample((2,), 0, 5),)


def test_regions_take_the_room_there_is_along_the_last_axes_first() -> None:
    shape, chunk = (100, 100, 100), (10, 10, 10)
    assert pairing._block(shape, chunk, 999) == (10, 10, 10)
    assert pairing._block(shape, chunk, 10_000) == (10, 10, 100)
    assert pairing._block(shape, chunk, 100_000) == (10, 100, 100)
    assert pairing._block(shape, chunk, 200_000) == (20, 100, 100)
