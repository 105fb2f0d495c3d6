"""`Session.array`: an array of a session as numpy, dask and pickle see it."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr

import frazil
from frazil.bulk import BulkArray
from frazil.errors import NodeNotFoundError, ReadOnlyError
from frazil.repository import Repository
from frazil.session import Session
from frazil.storage.local import LocalStorage
from tests.support.arrays import numbers

VALUES = numbers((20, 30), "f4")


@pytest.fixture
def writable(tmp_path: Path) -> Session:
    """A session with an array that is committed already."""
    repo = Repository.create(LocalStorage(tmp_path))
    session = repo.writable_session("main")
    array = zarr.create_group(session.store).create_array(
        "group/a",
        shape=VALUES.shape,
        dtype="f4",
        chunks=(6, 10),
        shards=(12, 10),
        fill_value=3,
        dimension_names=["y", "x"],
        attributes={"units": "m", "nested": {"a": [1]}},
    )
    array[...] = VALUES
    session.commit("x")
    return repo.writable_session("main")


@pytest.fixture
def array(writable: Session) -> BulkArray:
    """The array in a session that only reads."""
    storage = writable.state.context.storage
    return Repository.open(storage).readonly_session("main").array("group/a")


def test_it_tells_what_it_is(array: BulkArray) -> None:
    assert (array.path, array.name) == ("/group/a", "a")
    assert (array.shape, array.ndim, array.size, array.nbytes) == ((20, 30), 2, 600, 2400)
    assert (array.dtype, array.chunks, array.shards) == (np.dtype("f4"), (6, 10), (12, 10))
    assert (array.fill_value, array.dims) == (3, ("y", "x"))
    assert (len(array), repr(array)) == (
        20,
        "<BulkArray /group/a shape=(20, 30) dtype=float32 chunks=(6, 10)>",
    )


def test_attributes_are_a_copy(array: BulkArray) -> None:
    array.attrs["nested"]["a"].append(2)
    assert array.attrs == {"units": "m", "nested": {"a": [1]}}


def test_numpy_takes_it(array: BulkArray) -> None:
    np.testing.assert_array_equal(array, VALUES)
    assert np.asarray(array, "f8").dtype == np.dtype("f8")
    assert float(np.mean(np.asarray(array))) == pytest.approx(float(VALUES.mean()))
    with pytest.raises(ValueError, match="copy"):
        np.array(array, copy=False)


def test_elements_and_rows(array: BulkArray) -> None:
    assert isinstance(array[3, 4], np.float32)
    assert array[-1, -1] == VALUES[-1, -1]
    np.testing.assert_array_equal(np.stack(list(array)), VALUES)
    np.testing.assert_array_equal(array[[3, 1]], VALUES[[3, 1]])
    np.testing.assert_array_equal(array[[3, 1], [2, 9]], VALUES[[3, 1], [2, 9]])


def test_other_ways_to_select(array: BulkArray) -> None:
    np.testing.assert_array_equal(array.oindex[[3, 1], [2, 9]], VALUES[np.ix_([3, 1], [2, 9])])
    np.testing.assert_array_equal(array.vindex[[3, 1], [2, 9]], VALUES[[3, 1], [2, 9]])
    np.testing.assert_array_equal(array.vindex[VALUES > 0], VALUES[VALUES > 0])
    np.testing.assert_array_equal(array.blocks[1, 2], VALUES[12:, 20:])


def test_an_array_that_is_not_there(writable: Session) -> None:
    with pytest.raises(NodeNotFoundError):
        writable.array("none")


def test_it_follows_its_session(writable: Session) -> None:
    array = writable.array("group/a")
    array[2:4, 5] = 99
    array.oindex[[7, 5], [1, 2]] = [[1, 2], [3, 4]]
    expected = VALUES.copy()
    expected[2:4, 5] = 99
    expected[np.ix_([7, 5], [1, 2])] = [[1, 2], [3, 4]]
    np.testing.assert_array_equal(array, expected)
    zarr.open_array(writable.store, path="group/a").resize((21, 30))
    assert array.shape == (21, 30)
    assert (array[20] == 3).all()
    writable.commit("y")
    np.testing.assert_array_equal(array[:20], expected)
    with pytest.raises(ReadOnlyError):
        array[0] = 0


def test_it_pickles_with_a_session_that_only_reads(array: BulkArray, writable: Session) -> None:
    again = pickle.loads(pickle.dumps(array))
    np.testing.assert_array_equal(again[3:9], VALUES[3:9])
    with pytest.raises(ValueError, match="fork"):
        pickle.dumps(writable.array("group/a"))


@pytest.mark.slow
def test_dask_takes_it(array: BulkArray, writable: Session) -> None:
    dask_array = pytest.importorskip("dask.array")
    lazy = dask_array.from_array(array, chunks=(12, 10))
    np.testing.assert_array_equal(lazy.compute(), VALUES)
    assert lazy.name == dask_array.from_array(array, chunks=(12, 10)).name
    sent: Any = pickle.loads(pickle.dumps((lazy[2:15] * 2).sum(axis=0)))
    np.testing.assert_allclose(sent.compute(), (VALUES[2:15] * 2).sum(axis=0))
    changing = writable.array("group/a")
    names = {dask_array.from_array(changing, chunks=(12, 10)).name for _ in range(2)}
    assert len(names) == 2


def test_an_array_without_axes(writable: Session) -> None:
    zarr.create_array(writable.store, name="scalar", data=np.array(5, "i2"))
    array = writable.array("scalar")
    assert (array[()], array[...], int(np.asarray(array))) == (5, 5, 5)
    with pytest.raises(TypeError, match="len"):
        len(array)


def test_the_package_offers_it() -> None:
    assert frazil.bulk.BulkArray is BulkArray
    assert "bulk" in dir(frazil)
