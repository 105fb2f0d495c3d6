"""Nothing that a user names is ignored, and what is told is told in the user's terms."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr

from frazil.ingestion.plans import IngestMode, IngestSeverity
from frazil.ingestion.reports import IngestRefusedError, IngestReport
from tests.support.archive import archive, opened, take


def series(folder: Path, name: str, first: int, *, dim: str = "time") -> Path:
    """A file with two days of something, float64 as stored."""
    folder.mkdir(exist_ok=True)
    values = np.arange(4, dtype="f8").reshape(2, 2) + first
    when = (dim, np.arange(first, first + 2), {"units": "days since 2000-01-01"})
    made = xr.Dataset({"v": ((dim, "lat"), values)}, {dim: when, "lat": ("lat", [10.0, 20.0])})
    made[dim].encoding["_FillValue"] = None
    path = folder / name
    made.to_netcdf(path, engine="h5netcdf")
    return path


def refused(tmp_path: Path, *files: Path, **how: Any) -> IngestReport:  # noqa: ANN401
    with pytest.raises(IngestRefusedError) as refusal:
        take(tmp_path / "repo", *files, **how)
    return refusal.value.report


def told(report: IngestReport, code: str) -> str:
    (found,) = [each for each in report.findings if each.code == code]
    return str(found)


# --- names ---


def test_chunks_along_a_dimension_that_is_not_there_are_refused(tmp_path: Path) -> None:
    files = archive(tmp_path / "files")
    said = told(refused(tmp_path, *files, wanted={"chunks": {"tme": 3}}), "unknown-name")
    assert "no dimension 'tme'" in said
    assert "did you mean 'time'" in said


def test_case_does_not_matter_where_only_one_can_be_meant(tmp_path: Path) -> None:
    first = series(tmp_path / "files", "a.nc", 0, dim="TIME")
    second = series(tmp_path / "files", "b.nc", 2, dim="TIME")
    wanted = {"chunks": {"time": 3}, "concat_dims": ("time",), "mode": IngestMode.NATIVE}
    report = take(tmp_path / "repo", first, second, wanted=wanted, drop=("LAT",))
    session = opened(tmp_path / "repo").readonly_session("main")
    assert session.array("/v").shape == (4, 2)
    assert session.array("/v").chunks == (3, 2)
    assert [each.name for each in report.arrays if each.name == "lat"] == []


@pytest.mark.parametrize("option", ["load", "drop"])
def test_variables_that_no_file_has_are_refused(tmp_path: Path, option: str) -> None:
    files = archive(tmp_path / "files")
    said = told(refused(tmp_path, *files, **{option: ("rian",)}), "unknown-name")
    assert "no variable 'rian'; did you mean 'rain'?" in said


def test_a_variable_that_some_files_have_may_be_left_out(tmp_path: Path) -> None:
    folder = tmp_path / "files"
    folder.mkdir()
    first = series(folder, "a.nc", 0)
    other = xr.open_dataset(series(folder, "b.nc", 2), decode_cf=False).load()
    other.assign(extra=("lat", [1, 2])).to_netcdf(folder / "c.nc", engine="h5netcdf")
    report = take(tmp_path / "repo", first, folder / "c.nc", drop=("extra",))
    assert "extra" not in {each.name for each in report.arrays}


def test_a_new_dimension_is_not_a_misspelled_one(tmp_path: Path) -> None:
    first, second = series(tmp_path / "f", "a.nc", 0), series(tmp_path / "f", "b.nc", 2)
    for name in ("tme", "tiem", "TIEM"):
        wanted = {"concat_dims": (name,)}
        said = told(refused(tmp_path, first, second, wanted=wanted), "unknown-name")
        assert "did you mean 'time'" in said
    one, two = series(tmp_path / "f", "c.nc", 0), series(tmp_path / "f", "d.nc", 0)
    report = take(tmp_path / "repo", one, two, wanted={"concat_dims": ("run",)})
    assert {each.name: each.dims for each in report.arrays}["v"] == ("run", "time", "lat")


# --- terms ---


def test_an_append_across_a_gap_is_told(tmp_path: Path) -> None:
    first, second = series(tmp_path / "f", "a.nc", 0), series(tmp_path / "f", "b.nc", 9)
    take(tmp_path / "repo", first)
    report = take(tmp_path / "repo", second, append=True)
    said = told(report, "gap")
    assert "between 2000-01-02 and 2000-01-10 where the usual step is 1 days" in said
    assert report.findings[0].level is IngestSeverity.WARNING


def test_gaps_can_be_refused(tmp_path: Path) -> None:
    first, second = series(tmp_path / "f", "a.nc", 0), series(tmp_path / "f", "b.nc", 9)
    take(tmp_path / "repo", first, gaps="refuse")
    report = refused(tmp_path, second, append=True, gaps="refuse")
    assert "between 2000-01-02 and 2000-01-10" in told(report, "gap")
    take(tmp_path / "repo", series(tmp_path / "f", "c.nc", 2), append=True, gaps="refuse")


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    archive(tmp_path / "files")
    report = refused(tmp_path, tmp_path / "files")
    (failure,) = report.failures
    assert "this is a folder" in failure.error
    assert f"{tmp_path}/files/*.nc" in failure.error
