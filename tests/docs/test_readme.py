"""The code that the documents print runs as printed."""

from __future__ import annotations

import re
import runpy
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest
import xarray as xr
from pyspark.sql import SparkSession

from frazil import Repository
from tests.support.documents import program

ROOT: Final = Path(__file__).resolve().parents[2]


def test_tour_of_the_readme_runs_as_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    tour = program(ROOT / "README.md")
    exec(compile(tour, str(ROOT / "README.md"), "exec"), {"__name__": "readme"})
    printed = capsys.readouterr().out
    assert "The third day" in printed
    assert "['experiment', 'main'] ['v1']" in printed


def test_job_on_spark_of_the_readme_runs_as_printed(
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("archive").mkdir()
    for month in (1, 2):
        days = np.datetime64(f"2024-0{month}-01", "ns") + np.arange(28).astype("m8[D]")
        lat, lon = np.arange(-85.0, 90, 10), np.arange(0.0, 360, 20)
        values = np.full((28, 18, 18), month, "f4")
        values[:, lat < 60] = -1
        xr.Dataset(
            {"t2m": (("time", "lat", "lon"), values)},
            coords={"time": days, "lat": lat, "lon": lon},
        ).to_netcdf(f"archive/{month}.nc")
    [job] = re.findall(r"^```py\n(.*?)^```", (ROOT / "README.md").read_text(), re.M | re.S)
    found: dict[str, Any] = {"__name__": "readme"}
    exec(compile(job, "README.md", "exec"), found)
    assert found["fields"].count() == 56 * 3 * 18
    printed = capsys.readouterr().out
    assert re.search(r"2024-01-01 00:00:00\|\s*1\.0\|", printed)
    assert re.search(r"2024-02-01 00:00:00\|\s*2\.0\|", printed)
    session = Repository.open("fields").readonly_session("main")
    assert session.array("t2m").chunks == (56, 9, 9)


def test_tour_without_spark_tells_what_it_did(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tour = runpy.run_path(str(ROOT / "examples" / "tour.py"))
    tour["run"](tmp_path / "weather")
    lines = dict(
        line.split("  ", 1) for line in capsys.readouterr().out.splitlines() if "  " in line
    )
    told = {step.strip(): what.strip() for step, what in lines.items()}
    assert told["main now"].startswith("48 hours up to 2024-05-02T23:00")
    assert told["main of yesterday"].startswith("24 hours up to 2024-05-01T23:00")
    assert "'/t2m'" in told["changed on branch"]


def test_every_link_in_the_documents_leads_somewhere() -> None:
    documents = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    broken = [
        f"{document.name}: {target}"
        for document in documents
        for target in re.findall(r"\]\(([^)#:]+)\)", document.read_text())
        if not (document.parent / target).exists()
    ]
    assert documents
    assert not broken
