"""Stores of Zarr 2 read the same once they are in a repository."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numcodecs
import numpy as np
import pytest
import xarray as xr
import zarr

import frazil
from frazil.errors import InvalidInputError, RebaseFailedError
from frazil.storage.memory import MemoryStorage
from frazil.transaction.opened import context_of
from tests.support.stepping import InterruptedStorage, Moment

pytestmark = pytest.mark.filterwarnings("ignore::zarr.errors.ZarrUserWarning")
NUMBERS = np.arange(35).reshape(7, 5)
TEXTS = np.array([f"tëxt {n}" * (n % 3) for n in range(35)], object).reshape(7, 5)

CASES: dict[str, tuple[Any, dict[str, Any]]] = {
    "plain": (NUMBERS.astype("<i4"), {}),
    "bytes": (NUMBERS.astype("u1"), {"compressors": None}),
    "other-end": (NUMBERS.astype(">f8"), {"compressors": numcodecs.Blosc("lz4", shuffle=2)}),
    "complex": (NUMBERS.astype("<c8"), {"compressors": numcodecs.LZ4()}),
    "letters": (NUMBERS.astype("S5"), {}),
    "times": (NUMBERS.astype("M8[s]"), {}),
    "texts": (TEXTS, {"dtype": str}),
    "columns-first": (NUMBERS.astype("<i4"), {"order": "F"}),
    "delta": (NUMBERS.astype("<i4"), {"filters": [numcodecs.Delta(dtype="<i4")]}),
    "records": (np.zeros((7, 5), [("u", "<f4"), ("v", "<i2")]), {}),
}


@pytest.mark.parametrize("name", CASES)
def test_values_of_version_2_are_the_same_in_a_repository(tmp_path: Path, name: str) -> None:
    values, options = CASES[name]
    old = zarr.open_group(tmp_path / "old", mode="w", zarr_format=2)
    given = {"dtype": values.dtype, **options}
    old.create_array("v", shape=(7, 5), chunks=(3, 2), **given)[...] = values
    frazil.import_zarr(tmp_path / "old", tmp_path / "new")
    store = frazil.Repository.open(tmp_path / "new").readonly_session("main").store
    found = zarr.open_array(store, path="v", mode="r")
    assert found.metadata.zarr_format == 3
    np.testing.assert_array_equal(np.asarray(found[...]), np.asarray(old["v"][...]))  # type: ignore[index]


def test_dimensions_and_missing_values_are_found_where_version_3_has_them(tmp_path: Path) -> None:
    data = xr.Dataset({"t": ("x", [1.5, np.nan, 3.0])}, attrs={"title": "odd"})
    encoding: dict[str, Any] = {"t": {"_FillValue": -7.0}}
    data.to_zarr(tmp_path / "old", zarr_format=2, encoding=encoding, consolidated=False)
    frazil.import_zarr(tmp_path / "old", tmp_path / "new")
    store = frazil.Repository.open(tmp_path / "new").readonly_session("main").store
    xr.testing.assert_identical(xr.open_zarr(store, consolidated=False).load(), data)


@pytest.mark.parametrize(
    "wrong",
    [
        {"dtype": "|O"},
        {"dtype": "|O", "filters": [{"id": "pickle"}]},
        {"compressor": {"id": "nope"}},
        {"shape": "no"},
    ],
)
def test_what_version_3_cannot_say_is_refused(tmp_path: Path, wrong: dict[str, Any]) -> None:
    zarr.open_group(tmp_path / "old", mode="w", zarr_format=2).create_array(
        "v", shape=(4,), dtype="<i4"
    )
    document = tmp_path / "old" / "v" / ".zarray"
    document.write_text(json.dumps({**json.loads(document.read_text()), **wrong}))
    with pytest.raises(InvalidInputError, match="version 3 cannot express"):
        frazil.import_zarr(tmp_path / "old", tmp_path / "new")


def test_arrays_are_not_imported_beside_others_that_have_grown(tmp_path: Path) -> None:
    """Two lengths of one dimension cannot be read together."""
    place = MemoryStorage()
    repository = frazil.Repository.create(place)
    one = {"shape": (4,), "dtype": "i4", "dimension_names": ["x"]}
    session = repository.writable_session("main")
    zarr.create_array(session.store, name="g/v", **one)  # type: ignore[arg-type]
    session.commit("four cells")
    zarr.create_array(tmp_path, name="w", **one)  # type: ignore[arg-type]

    def grow() -> None:
        other = repository.writable_session("main")
        zarr.open_array(other.store, path="g/v").resize((6,))
        other.commit("six cells")

    slow = InterruptedStorage(place, [])
    opened = frazil.Repository.open(slow)
    moment = Moment("put", "snapshots/", grow)
    watched = context_of(opened).place
    assert isinstance(watched, InterruptedStorage)
    watched.moments.append(moment)
    with pytest.raises(RebaseFailedError):
        frazil.import_zarr(tmp_path, opened, group="g")
    assert watched.is_over
