"""HDF5: types, groups, fill values and filters, and what cannot be referred to."""

from __future__ import annotations

from pathlib import Path

import h5py
import numpy as np
import pytest
import xarray as xr

from frazil.errors import InvalidInputError
from frazil.ingestion.hdf import read_hdf, scan_hdf
from frazil.ingestion.names import VariableChoice
from frazil.ingestion.records import InputFile, ParsedFile
from frazil.ingestion.sources import as_url
from tests.support.archive import decoded, part, seen, take


def test_types_of_hdf5_that_zarr_has(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["big"] = np.arange(6, dtype=">f4").reshape(2, 3)
        file["flag"] = np.array([True, False])
        file["text"] = np.array([b"abc", b"de"])
        file.create_dataset("names", data=["ä", "long name"], dtype=h5py.string_dtype())
        file["scalar"] = 5
        file.create_dataset("empty", shape=(4,), dtype="i4", chunks=(2,), fillvalue=7)
        file["big"].attrs["list"] = [1.5, 2.5]
        file["big"].attrs["bytes"] = np.bytes_(b"text")
        file["big"].attrs["none"] = h5py.Empty("f4")
    take(tmp_path / "repo", tmp_path / "a.h5")
    found = seen(tmp_path / "repo")
    assert found.big.values.tolist() == [[0, 1, 2], [3, 4, 5]]
    assert found.big.attrs == {"list": [1.5, 2.5], "bytes": "text", "none": ""}
    assert found.names.values.tolist() == ["ä", "long name"]
    assert found.text.values.tolist() == [b"abc", b"de"]
    assert found["empty"].values.tolist() == [7, 7, 7, 7]
    assert int(found.scalar) == 5


def test_groups_are_chosen_by_name(tmp_path: Path) -> None:
    part(0).to_netcdf(tmp_path / "a.nc", group="inner", engine="h5netcdf")
    with pytest.raises(InvalidInputError, match="inner"):
        take(tmp_path / "repo", tmp_path / "a.nc")
    take(tmp_path / "repo", tmp_path / "a.nc", source_group="inner", group="weather/raw")
    xr.testing.assert_equal(seen(tmp_path / "repo", "weather/raw"), decoded(0))


@pytest.mark.parametrize("fill", [70000.0, np.nan, -2.5])
def test_fill_values_that_a_type_cannot_hold_mask_nothing(tmp_path: Path, fill: float) -> None:
    file = tmp_path / "odd.nc"
    values = np.array([0, -2, 4464, 1], "i2")  # what the fill values would be cast to
    with h5py.File(file, "w") as made:
        made["v"] = values
        made["v"].attrs["_FillValue"] = np.float64(fill)
    for mode in ("virtual", "native"):
        repo = tmp_path / mode
        report = take(repo, file, wanted={"mode": mode})
        assert np.array_equal(seen(repo)["v"].values, values)
        assert "cannot hold" in str(report)


# --- one file ---


def scanned(path: Path, group: str = "", *, load: str = "", drop: str = "") -> ParsedFile:
    choice = VariableChoice(frozenset([load]), frozenset([drop]))
    return scan_hdf(InputFile(as_url(path), group=group), choice)


def written(folder: Path, **datasets: object) -> Path:
    made = folder / "a.h5"
    with h5py.File(made, "w") as file:
        for name, values in datasets.items():
            file[name] = values
    return made


def test_a_group_that_is_not_there_is_named(tmp_path: Path) -> None:
    path = written(tmp_path, v=np.arange(3))
    for group in ("none", "v"):
        with pytest.raises(InvalidInputError, match=f"there is no group '{group}'"):
            scanned(path, group)


def test_what_is_not_taken_is_told(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        file["v"] = np.arange(3)
        file["g/w"] = np.arange(3)
        file["v"].attrs["part"] = np.complex64(1)
    found = scanned(path)
    assert [each.name for each in found.variables] == ["v"]
    assert found.notes == (
        "groups that are not taken: g",
        "attributes of types that Zarr has not are not taken: v:part",
    )


def test_a_type_that_zarr_has_not_is_refused_unless_it_is_left_out(tmp_path: Path) -> None:
    path = written(tmp_path, v=np.arange(3), odd=np.zeros(3, "f4"))
    with h5py.File(path, "a") as file:
        del file["odd"]
        file.create_dataset("odd", data=[file["v"].ref], dtype=h5py.ref_dtype)
    with pytest.raises(InvalidInputError, match=r"type of 'odd'.*leave it out with drop"):
        scanned(path)
    found = scanned(path, drop="odd")
    assert [each.name for each in found.variables] == ["v"]


def test_values_are_referred_to_where_they_are_unless_they_are_loaded(tmp_path: Path) -> None:
    path = written(tmp_path, v=np.arange(6, dtype="<i4"))
    (variable,) = scanned(path).variables
    refs = variable.references
    assert refs is not None
    assert (len(refs), refs.nbytes) == (1, 24)
    start = int(refs.offset[0])
    assert path.read_bytes()[start : start + 24] == np.arange(6, dtype="<i4").tobytes()
    (variable,) = scanned(path, load="v").variables
    assert variable.references is None
    assert variable.values is not None
    assert variable.values.tolist() == [*range(6)]


def test_why_values_cannot_be_referred_to_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    layout = h5py.VirtualLayout(shape=(3,), dtype="<i8")
    with h5py.File(path, "w") as file:
        file["w"] = np.arange(3)
        layout[:] = h5py.VirtualSource(file["w"])
        file.create_virtual_dataset("v", layout)
    found = {each.name: each for each in scanned(path).variables}
    assert found["v"].references is None
    assert "virtual dataset" in found["v"].obstacle
    assert found["w"].obstacle == ""


def test_a_region_is_read_as_it_is_stored(tmp_path: Path) -> None:
    path = written(tmp_path, v=np.arange(12, dtype=">i2").reshape(3, 4), t=["ä", "b"])
    source = InputFile(as_url(path))
    found = read_hdf(source, "v", (slice(1, 3), slice(0, 2)))
    assert (found.dtype, found.tolist()) == (np.dtype(">i2"), [[4, 5], [8, 9]])
    assert read_hdf(source, "t", ()).tolist() == ["ä", "b"]
    with pytest.raises(InvalidInputError, match="no variable '/none' any more"):
        read_hdf(source, "none", ())


def test_raw_values_in_several_files_are_read_across_their_ends(tmp_path: Path) -> None:
    values = np.arange(12, dtype="<i4").reshape(4, 3)
    data, path = values.tobytes(), tmp_path / "a.h5"
    places = []
    for number, (start, end) in enumerate(((0, 20), (20, 48))):
        (tmp_path / f"{number}.raw").write_bytes(b"head" + data[start:end])
        places.append((f"{number}.raw", 4, end - start))
    with h5py.File(path, "w") as file:
        file.create_dataset("v", shape=(4, 3), dtype="<i4", external=places)
    source = InputFile(as_url(path), allowed=(f"file://{tmp_path}/",))
    for region in ((), (slice(1, 3), slice(1, 3)), (slice(3, 4), slice(0, 3))):
        assert np.array_equal(read_hdf(source, "v", region), values[region])
    (tmp_path / "1.raw").write_bytes(b"head")
    with pytest.raises(InvalidInputError, match=r"missing or too short: .*1\.raw"):
        read_hdf(source, "v", ())
