"""GRIB messages become arrays over time, step, member, level and grid."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from frazil.errors import InvalidInputError
from tests.support.archive import seen, take
from tests.support.messages import fields


@pytest.mark.parametrize("mode", ["virtual", "native"])
def test_grib_is_an_array_over_time_and_level(tmp_path: Path, mode: str) -> None:
    fields(tmp_path / "a.grib2", (0, 12))
    fields(tmp_path / "b.grib2", (18, 23))
    report = take(tmp_path / "repo", f"{tmp_path}/*.grib2", wanted={"mode": mode})
    assert (report.virtual_chunks, report.native_chunks) == (
        (8, 0) if mode == "virtual" else (0, 8)
    )
    found = seen(tmp_path / "repo")
    assert found.t.dims == ("time", "isobaricInhPa", "latitude", "longitude")
    assert found.time.values[2] == np.datetime64("2024-01-01T18")
    assert found.latitude.values.tolist() == [60, 50, 40, 30]
    expected = np.arange(24.0).reshape(4, 6) + 18 + 0.85
    picked = found.t.sel(time="2024-01-01T18", isobaricInhPa=850)
    assert np.allclose(picked.values, expected, atol=1e-3)


def test_grib_of_the_first_edition_is_copied_if_wanted(tmp_path: Path) -> None:
    fields(tmp_path / "a.grib", (0, 12), edition=1)
    with pytest.raises(InvalidInputError, match="cannot be referred to"):
        take(tmp_path / "repo", tmp_path / "a.grib")
    take(tmp_path / "repo", tmp_path / "a.grib", wanted={"mode": "auto"})
    found = seen(tmp_path / "repo").t.sel(time="2024-01-01T12", isobaricInhPa=1000)
    assert np.allclose(found.values, np.arange(24.0).reshape(4, 6) + 13, atol=1e-3)
