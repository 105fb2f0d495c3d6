"""Chunks are called as the metadata of their array says: the texts know more than `c/0/0`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import zarr

from frazil.repository import Repository
from frazil.storage.memory import MemoryStorage
from tests.support.generations import Spec
from tests.support.nodes import contents
from tests.support.seed_files import G1, G2, G3, Array

CASES = [
    (G1(), "v2", "0.1"),
    (G1(), "Dot", "c.0.1"),
    (G2(), "Dot", "c.0.1"),
    (G2(), "Default", "c/0/1"),
    (G3(), "Dot", "c.0.1"),
]


@pytest.mark.parametrize(("make", "keys", "name"), CASES)
def test_chunks_are_found_and_listed_by_the_names_they_have(
    make: G1 | G2 | G3, keys: str, name: str
) -> None:
    storage = MemoryStorage()
    plane = Array("/g/plane", np.arange(48, dtype=np.int32).reshape(6, 8), (2, 3), keys=keys)
    scalar = Array("/scalar", np.array(7, np.int32), (), keys=keys)
    make.write(storage, [Array("/x", np.arange(2, dtype=np.int32), (2,)), plane, scalar])
    session = Repository.open(storage).writable_session("main")
    array = zarr.open_array(session.store, path="g/plane", mode="r+")
    assert np.asarray(array[...]).tolist() == plane.expected().tolist()
    assert np.asarray(zarr.open_array(session.store, path="scalar", mode="r")[...]) == 7
    listed = contents(session)
    assert f"g/plane/{name}" in listed
    assert np.frombuffer(listed[f"g/plane/{name}"], "<i4").tolist() == [3, 4, 5, 11, 12, 13]
    encoding = array.metadata.chunk_key_encoding  # type: ignore[union-attr]
    array[0, 3] = 1000
    session.commit("a part")
    again = zarr.open_array(Repository.open(storage).readonly_session("main").store, path="g/plane")
    assert again.metadata.chunk_key_encoding == encoding  # type: ignore[union-attr]
    expected = plane.expected()
    expected[0, 3] = 1000
    assert np.asarray(again[...]).tolist() == expected.tolist()


ENCODINGS: list[tuple[Spec, dict[str, Any]]] = [
    ("g1", {"name": "v2", "separator": "."}),
    ("g1", {"name": "v2", "separator": "/"}),
    *((spec, {"name": "default", "separator": "."}) for spec in ("g1", "g2", "g3", 1, 2)),
    (2, {"name": "v2", "separator": "/"}),
]


@pytest.mark.parametrize(("spec", "encoding"), ENCODINGS)
def test_arrays_are_written_read_shrunk_and_deleted_under_such_names(
    spec: Spec, encoding: dict[str, Any]
) -> None:
    storage = MemoryStorage()
    session = Repository.create(storage, spec_version=spec).writable_session("main")
    array = zarr.create_array(
        session.store,
        name="a",
        shape=(4, 4),
        chunks=(2, 2),
        dtype="i4",
        fill_value=-1,
        chunk_key_encoding=encoding,
    )
    array[:] = np.arange(16).reshape(4, 4)
    session.commit("first")
    session = Repository.open(storage).writable_session("main")
    array = zarr.open_array(session.store, path="a", mode="r+")
    assert np.asarray(array[...]).tolist() == np.arange(16).reshape(4, 4).tolist()
    array.resize((2, 4))
    array.resize((4, 4))
    session.commit("cut")
    session = Repository.open(storage).writable_session("main")
    array = zarr.open_array(session.store, path="a", mode="r+")
    assert np.asarray(array[...]).tolist() == [[0, 1, 2, 3], [4, 5, 6, 7], [-1] * 4, [-1] * 4]
