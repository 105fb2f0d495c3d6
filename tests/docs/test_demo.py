"""The demo, with a smaller archive, tells the truth."""

from __future__ import annotations

import os
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Final

import numpy as np
import pytest
import xarray as xr
from pyspark.sql import SparkSession

ROOT: Final = Path(__file__).resolve().parents[2]
DAYS: Final = 35


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Numcodecs codecs are not in the Zarr version 3")
def test_demo_ends_with_a_map_and_right_answers(
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.syspath_prepend(ROOT / "examples")
    demo = runpy.run_path(str(ROOT / "examples" / "demo.py"))
    demo["Demo"](tmp_path, spark, demo["Screen"](), DAYS).run()
    printed = capsys.readouterr().out
    with xr.open_mfdataset(str(tmp_path / "archive" / "*.nc"), engine="h5netcdf") as archive:
        assert archive.sizes["time"] == DAYS + 3
        area = xr.DataArray(np.cos(np.radians(archive["lat"])))
        march = archive["t2m"].sel(time="2024-03").weighted(area)
        air = float(march.mean()) - 273.15
    answers = [line.split() for line in printed.splitlines() if line.startswith("  2024-0")]
    assert [(words[0], int(words[1])) for words in answers] == [
        ("2024-03", 31),
        ("2024-04", DAYS - 31),
        ("2024-03", 31),
        ("2024-04", DAYS - 31 + 3),
        ("2024-03", 31),
        ("2024-04", DAYS - 31),
    ]
    assert abs(float(answers[0][4]) - air) < 0.002
    assert (tmp_path / "map.png").read_bytes().startswith(b"\x89PNG")
    assert str(tmp_path / "map.png") in printed
    assert f"frazil serve {tmp_path / 'repository'}" in printed


def test_demo_says_that_java_is_missing(tmp_path: Path) -> None:
    told = subprocess.run(
        [sys.executable, ROOT / "examples" / "demo.py", tmp_path],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src"), "JAVA_HOME": str(tmp_path)},
    )
    assert told.returncode == 1
    assert "Spark needs Java 17 or newer" in told.stderr
    assert "Traceback" not in told.stderr
