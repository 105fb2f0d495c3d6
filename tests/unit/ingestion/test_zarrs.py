"""Zarr stores in folders: which arrays and chunks they have, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr

from frazil.errors import InvalidInputError
from frazil.ingestion.records import FileReferences, InputFile, ParsedFile
from frazil.ingestion.sources import as_url
from frazil.ingestion.zarrs import chunk_number, scan_zarr, zarr2_variable
from tests.support.archive import opened, take

ARRAY = {"shape": [5], "chunks": [2], "dtype": "<i4", "fill_value": -1, "zarr_format": 2,
         "compressor": None, "filters": None, "order": "C"}  # fmt: skip


def store(folder: Path, *, zarr_format: int = 3, name: str = "v", **options: Any) -> Path:  # noqa: ANN401
    """A store with one array of five numbers in chunks of two."""
    made = folder / "a.zarr"
    group = zarr.open_group(made, mode="a", zarr_format=zarr_format)  # type: ignore[arg-type]
    array = group.create_array(
        name, shape=(5,), chunks=(2,), dtype="<i4", compressors=None, **options
    )
    array[:] = np.arange(1, 6)
    return made


def scanned(path: Path, group: str = "", **source: Any) -> ParsedFile:  # noqa: ANN401
    return scan_zarr(InputFile(as_url(path), group=group, **source))


def chunks(found: ParsedFile) -> tuple[list[int], list[str]]:
    (variable,) = found.variables
    refs = variable.references
    assert refs is not None
    return refs.index.tolist(), [refs.locations[n].rpartition("a.zarr/")[2] for n in refs.location]


# --- chunks ---


@pytest.mark.parametrize(
    ("options", "keys"),
    [
        ({"zarr_format": 2}, ["v/0", "v/1", "v/2"]),
        ({}, ["v/c/0", "v/c/1", "v/c/2"]),
        (
            {"chunk_key_encoding": {"name": "v2", "configuration": {"separator": "."}}},
            ["v/0", "v/1", "v/2"],
        ),
    ],
    ids=["zarr 2", "zarr 3", "zarr 3 with keys of zarr 2"],
)
def test_every_chunk_is_found_by_its_key(
    tmp_path: Path, options: dict[str, Any], keys: list[str]
) -> None:
    assert chunks(scanned(store(tmp_path, **options))) == ([0, 1, 2], keys)


def test_chunks_that_nobody_wrote_and_files_of_others_have_no_reference(tmp_path: Path) -> None:
    made = store(tmp_path)
    (made / "v" / "c" / "1").unlink()
    for stray in ("3", "x", "01", "0.tmp"):
        (made / "v" / "c" / stray).write_bytes(b"stray")
    assert chunks(scanned(made)) == ([0, 2], ["v/c/0", "v/c/2"])


def test_an_empty_chunk_is_refused_by_its_key(tmp_path: Path) -> None:
    made = store(tmp_path)
    (made / "v" / "c" / "1").write_bytes(b"")
    with pytest.raises(InvalidInputError, match="'v/c/1' is empty"):
        scanned(made)


def test_the_last_axis_runs_fastest() -> None:
    assert [chunk_number(at, (2, 3)) for at in ((0, 0), (0, 2), (1, 0), (1, 2))] == [0, 2, 3, 5]
    assert chunk_number((), ()) == 0


# --- groups and documents ---


def test_arrays_of_inner_groups_are_told_or_chosen(tmp_path: Path) -> None:
    made = store(tmp_path)
    store(tmp_path, name="inner/w")
    found = scanned(made)
    assert [each.name for each in found.variables] == ["v"]
    assert found.notes == ("arrays in groups that are not taken: inner/w",)
    assert [each.name for each in scanned(made, "/inner/").variables] == ["w"]


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_a_single_array_is_not_taken_for_a_group(tmp_path: Path, zarr_format: int) -> None:
    made = store(tmp_path, zarr_format=zarr_format)
    with pytest.raises(InvalidInputError, match="give the group that contains it"):
        scanned(made / "v")


@pytest.mark.parametrize("text", ["{", "[]", ""])
def test_metadata_that_are_damaged_are_told_with_their_file(tmp_path: Path, text: str) -> None:
    made = store(tmp_path)
    (made / "v" / "zarr.json").write_text(text)
    with pytest.raises(InvalidInputError, match=r"damaged metadata.*v/zarr\.json"):
        scanned(made)


def test_what_is_no_regular_array_is_refused_by_name(tmp_path: Path) -> None:
    made = store(tmp_path)
    about = json.loads((made / "v" / "zarr.json").read_text())
    (made / "v" / "zarr.json").write_text(json.dumps({**about, "data_type": "float7"}))
    with pytest.raises(InvalidInputError, match="the array 'v' is not supported"):
        scanned(made)


def test_arrays_of_zarr_2_that_zarr_3_cannot_express_are_refused_by_name() -> None:
    refs = FileReferences.of_file("file:///a", [], [], [])
    made = zarr2_variable("v", ARRAY, {"_ARRAY_DIMENSIONS": ["x"]}, refs, "file:///a")
    assert (made.dims, made.shape, made.chunks) == (("x",), (5,), (2,))
    for change, told in (
        ({"dtype": [["u", "<f4"]]}, "'v' has a structured type"),
        ({"dtype": "<q9"}, "'v' cannot be expressed in Zarr 3"),
        ({"compressor": {"id": "unheard-of"}}, "'v' cannot be expressed in Zarr 3"),
    ):
        with pytest.raises(InvalidInputError, match=told):
            zarr2_variable("v", {**ARRAY, **change}, {}, refs, "file:///a")


# --- links ---


def test_a_link_out_of_the_folder_must_be_allowed(tmp_path: Path) -> None:
    made = store(tmp_path)
    (tmp_path / "elsewhere").mkdir()
    moved = tmp_path / "elsewhere" / "chunk"
    (made / "v" / "c" / "1").rename(moved)
    (made / "v" / "c" / "1").symlink_to(moved)
    with pytest.raises(InvalidInputError, match="was not allowed"):
        scanned(made)
    found = scanned(made, allowed=(f"file://{tmp_path}/elsewhere/",))
    assert found.variables[0].references is not None
    assert as_url(moved) in found.variables[0].references.locations


def test_a_link_to_a_folder_above_does_not_go_on_for_ever(tmp_path: Path) -> None:
    made = store(tmp_path)
    (made / "again").symlink_to(made)
    found = scanned(made, allowed=(f"file://{tmp_path}/",))
    assert [each.name for each in found.variables] == ["v"]


# --- fill values ---


@pytest.mark.parametrize("fill", [0, -9999.5, "abc", None])
def test_a_fill_value_that_xarray_does_not_spell_so_does_not_stop_a_copy(
    tmp_path: Path, fill: object
) -> None:
    group = zarr.open_group(tmp_path / "a.zarr", mode="w")
    array = group.create_array("v", shape=(3,), dtype="<f4", dimension_names=("x",))
    array[:] = [0, 1, 2]
    array.attrs["_FillValue"] = fill  # type: ignore[assignment]
    take(tmp_path / "repo", tmp_path / "a.zarr", wanted={"mode": "native"})
    copied = opened(tmp_path / "repo").readonly_session("main").array("/v")
    assert np.asarray(copied[:]).tolist() == [0, 1, 2]
    assert copied.attrs["_FillValue"] == fill
