"""Files are found by names and patterns, each once."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from frazil.errors import InvalidInputError
from frazil.ingestion.isolation import ParserLimits
from frazil.ingestion.parsers import Format
from frazil.ingestion.records import ScanFailure, ScanTask
from frazil.ingestion.scan import scan
from frazil.ingestion.sources import display_url, expand


def test_a_file_may_be_called_as_a_pattern(tmp_path: Path) -> None:
    for name in ("a[0].nc", "a0.nc", "b*.nc", "b1.nc"):
        (tmp_path / name).touch()
    for given, found in (
        ("a[0].nc", ["a%5B0%5D.nc"]),
        ("b*.nc", ["b%2A.nc"]),
        ("a[0-9].nc", ["a0.nc"]),
    ):
        assert expand(str(tmp_path / given)) == [f"file://{tmp_path}/{each}" for each in found]


def test_patterns_are_expanded_once_each(tmp_path: Path) -> None:
    for name in ("b.nc", "a.nc", "c.txt"):
        (tmp_path / name).touch()
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "d.nc").touch()
    found = expand([f"{tmp_path}/*.nc", tmp_path / "a.nc", f"file://{tmp_path}/**/d.nc"])
    assert [display_url(url).removeprefix(f"{tmp_path}/") for url in found] == [
        "a.nc",
        "b.nc",
        "sub/d.nc",
    ]
    with pytest.raises(InvalidInputError, match="no file matches"):
        expand(f"{tmp_path}/*.grib")
    with pytest.raises(InvalidInputError, match="no files"):
        expand([])


@pytest.mark.parametrize("chosen", [None, Format.HDF5, Format.NETCDF3, Format.GRIB])
def test_a_pipe_is_not_waited_for(tmp_path: Path, chosen: Format | None) -> None:
    os.mkfifo(tmp_path / "pipe.nc")
    task = ScanTask(f"file://{tmp_path}/pipe.nc", format=None if chosen is None else str(chosen))
    found = scan({}, ParserLimits(seconds=0.5), task)
    assert isinstance(found, ScanFailure)
    assert "a pipe or a device" in found.error
    assert "pipe.nc" in found.error
