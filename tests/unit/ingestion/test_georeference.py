"""Files that say that their values are elsewhere on Earth are not joined silently."""
# Options of other libraries have any type:
# ruff: noqa: ANN401

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tifffile

from frazil.ingestion.georeference import PLACE, Georeference, mapping_names
from frazil.ingestion.planning import plan_ingest
from frazil.ingestion.plans import Findings, IngestPlan, IngestSeverity, PlanOptions
from frazil.ingestion.records import FileReferences, FileScan, FileVariable, Identity
from frazil.ingestion.reports import IngestRefusedError
from tests.support.archive import opened, take

F8 = '{"codecs":[{"name":"bytes"}],"data_type":"float64","fill_value":0.0}'
LAMBERT = {"grid_mapping_name": "lambert_conformal_conic", "standard_parallel": [30.0, 60.0]}


def loaded(name: str, values: Any, **attrs: Any) -> FileVariable:
    array = np.asarray(values, float)
    dims = (name,) * array.ndim
    return FileVariable(name, dims, array.shape, array.shape, F8, json.dumps(attrs), None, array)


def raster(url: str, **attrs: Any) -> FileVariable:
    refs = FileReferences.of_file(url, [0], [0], [32])
    dims, shape = ("time", "y", "x"), (1, 2, 2)
    return FileVariable("v", dims, shape, shape, F8, json.dumps(attrs), refs)


def scan(
    number: int,
    mapping: Mapping[str, Any],
    *,
    names: str = "crs",
    x: tuple[float, float] | None = (0.0, 1.0),
) -> FileScan:
    """A file of one time, with a grid mapping."""
    url = f"file:///data/{number}.nc"
    variables = [
        loaded("time", [float(number if x == (0.0, 1.0) or x is None else 0)]),
        loaded("crs", 0.0, **mapping),
        raster(url, grid_mapping=names),
    ]
    if x is not None:
        variables += [loaded("y", [0.0, 1.0]), loaded("x", x)]
    return FileScan(url, "hdf5", Identity(99, None, 1), tuple(variables))


def planned(
    *scans: FileScan, refused: bool = True, base: FileScan | None = None
) -> tuple[IngestPlan, Findings]:
    findings = Findings(refused=frozenset([PLACE] if refused else ()))
    return plan_ingest(scans, PlanOptions(), findings, base), findings


def attributes(plan: IngestPlan, name: str) -> Mapping[str, Any]:
    return next(array.attrs for array in plan.arrays if array.name == name)


@pytest.mark.parametrize(
    ("other", "key"),
    [
        ({**LAMBERT, "standard_parallel": [25.0, 25.0]}, "standard_parallel"),
        ({"grid_mapping_name": "latitude_longitude", "standard_parallel": [30.0, 60.0]}, "_name"),
        ({**LAMBERT, "crs_wkt": "PROJCRS[…]"}, "crs_wkt"),
        ({**LAMBERT, "earth_radius": 6371229.0}, "earth_radius"),
    ],
)
def test_other_grid_mappings_are_refused_with_the_file_named(
    other: dict[str, Any], key: str
) -> None:
    _, findings = planned(scan(0, LAMBERT), scan(1, other))
    (error,) = findings.errors
    assert (error.code, error.variable, error.files) == (PLACE, "crs", ("file:///data/1.nc",))
    assert key in error.message
    assert "grid_mapping=tell" in error.message


def test_they_are_told_if_that_is_enough() -> None:
    other = {**LAMBERT, "standard_parallel": [25.0, 25.0]}
    plan, findings = planned(scan(0, LAMBERT), scan(1, other), refused=False)
    (told,) = findings.found
    assert (told.level, told.code) == (IngestSeverity.WARNING, PLACE)
    assert attributes(plan, "crs")["standard_parallel"] == [30.0, 60.0]


def test_words_about_a_grid_mapping_may_differ() -> None:
    _, findings = planned(scan(0, LAMBERT), scan(1, {**LAMBERT, "comment": "a"}))
    assert [each.level for each in findings.found] == [IngestSeverity.NOTE]


def test_data_on_another_grid_mapping_is_refused() -> None:
    _, findings = planned(scan(0, LAMBERT), scan(1, LAMBERT, names="other"))
    assert [(each.code, each.variable) for each in findings.errors] == [(PLACE, "v")]


def test_a_definition_of_many_characters_is_cut() -> None:
    pair = [scan(n, {**LAMBERT, "crs_wkt": "x" * 5000 + str(n)}) for n in range(2)]
    _, findings = planned(*pair)
    assert len(findings.errors[0].message) < 400


def test_what_is_appended_must_be_on_the_same_grid_mapping() -> None:
    there = scan(0, LAMBERT)
    bare = tuple(replace(each, references=None) for each in there.variables)
    there = replace(there, url="the repository", variables=bare)
    other = {**LAMBERT, "standard_parallel": [25.0, 25.0]}
    assert [each.code for each in planned(scan(1, other), base=there)[1].errors] == [PLACE]
    assert not planned(scan(1, LAMBERT), base=there)[1].errors


def tiles(*corners: float, **changes: Any) -> list[FileScan]:
    """Parts of a map that lie side by side."""
    made = []
    for number, left in enumerate(corners):
        mapping = {**LAMBERT, "GeoTransform": f"{left} 1 0 0 0 -1"}
        one = scan(number, mapping, x=(left, left + 1))
        made.append(replace(one, **changes))
    return made


def test_where_one_part_of_a_map_begins_is_not_said_of_the_whole() -> None:
    plan, findings = planned(*tiles(10.0, 12.0))
    assert not findings.errors
    assert [axis.name for axis in plan.axes] == ["x"]
    assert "GeoTransform" not in attributes(plan, "crs")
    assert attributes(plan, "crs")["grid_mapping_name"] == "lambert_conformal_conic"
    (told,) = findings.found
    assert "GeoTransform" in told.message


def test_what_the_repository_says_of_one_part_is_not_kept_for_more() -> None:
    first, second = tiles(10.0, 12.0)
    bare = tuple(replace(each, references=None) for each in first.variables)
    there = replace(first, url="the repository", variables=bare)
    assert [each.code for each in planned(second, base=there)[1].errors] == [PLACE]


def test_places_that_no_coordinate_tells_must_be_the_same() -> None:
    pair = [
        scan(n, {**LAMBERT, "GeoTransform": f"{left} 1 0 0 0 -1"}, x=None)
        for n, left in enumerate((10, 12))
    ]
    _, findings = planned(*pair)
    assert [each.code for each in findings.errors] == [PLACE]


def test_what_is_kept_of_rasters_does_not_grow_with_files() -> None:
    """Each file with attributes of its own would be looked at for each other file."""
    scans = tiles(10.0, 12.0, 14.0)
    made = [
        replace(one, variables=(*one.variables[:2], raster(one.url, grid_mapping="crs", n=number)))
        for number, one in enumerate(scans)
    ]
    assert Georeference.of(made).users == {"crs": {"y", "x"}}


def test_names_of_grid_mappings() -> None:
    assert mapping_names("crs") == ["crs"]
    assert mapping_names("osgb: x y wgs84: lat lon") == ["osgb", "wgs84"]
    assert mapping_names(None) == mapping_names(7) == []


# --- images ---


def image(path: Path, zone: int, left: float = 0.0, **options: Any) -> Path:
    """An image in a zone of UTM; equal numbers are other places in other zones."""
    keys = (1, 1, 0, 3, 1024, 0, 1, 1, 1025, 0, 1, 1, 3072, 0, 1, 32600 + zone)
    tags = [
        (33550, "d", 3, (10.0, 10.0, 0.0), True),
        (33922, "d", 6, (0, 0, 0, left, 200.0, 0), True),
        (34735, "H", len(keys), keys, True),
    ]
    values = np.arange(32 * 32, dtype="<u2").reshape(32, 32)
    tifffile.imwrite(path, values, extratags=tags, **{"tile": (16, 16), **options})
    return path


@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::FutureWarning")
@pytest.mark.parametrize("mode", ["virtual", "native"])
def test_images_of_other_zones_are_refused(tmp_path: Path, mode: str) -> None:
    # The short last strip cannot be referred to, nor compared by virtual-tiff.
    options: dict[str, Any] = {} if mode == "virtual" else {"tile": None, "rowsperstrip": 24}
    files = [image(tmp_path / f"{zone}.tif", zone, **options) for zone in (32, 33)]
    wanted = {"concat_dims": ("day",), "mode": mode}
    with pytest.raises(IngestRefusedError, match="projected_type is 32633 here, and 32632"):
        take(tmp_path / "repo", *files, wanted=wanted)
    take(tmp_path / "told", *files, wanted=wanted, grid_mapping="tell")
    found = opened(tmp_path / "told").readonly_session("main").array("/band_data")
    assert found.attrs["projected_type"] == 32632


@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::FutureWarning")
def test_images_side_by_side_are_joined(tmp_path: Path) -> None:
    files = [image(tmp_path / f"{left}.tif", 32, left) for left in (0, 320)]
    take(tmp_path / "repo", *files)
    found = opened(tmp_path / "repo").readonly_session("main").array("/band_data")
    assert found.shape == (32, 64)
    assert "model_tiepoint" not in found.attrs
    assert found.attrs["projected_type"] == 32632
