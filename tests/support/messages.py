"""GRIB messages of one parameter on a small grid, as eccodes writes them."""
# Options of other libraries have any type:
# ruff: noqa: ANN401

from __future__ import annotations

from pathlib import Path
from typing import Any

import eccodes
import numpy as np


def message(file: Any, hour: int, level: int, edition: int, size: tuple[int, int]) -> None:
    """Write the temperature at an hour and a level."""
    handle = eccodes.codes_grib_new_from_samples(f"regular_ll_pl_grib{edition}")
    settings = {
        "shortName": "t",
        "dataDate": 20240101,
        "dataTime": hour * 100,
        "typeOfLevel": "isobaricInhPa",
        "level": level,
        "Ni": size[1],
        "Nj": size[0],
        "latitudeOfFirstGridPointInDegrees": 60,
        "latitudeOfLastGridPointInDegrees": 30,
        "longitudeOfFirstGridPointInDegrees": 0,
        "longitudeOfLastGridPointInDegrees": 50,
        "iDirectionIncrementInDegrees": 50 / (size[1] - 1),
        "jDirectionIncrementInDegrees": 30 / (size[0] - 1),
        "bitsPerValue": 16,
    }
    for key, value in settings.items():
        eccodes.codes_set(handle, key, value)
    eccodes.codes_set_values(handle, np.arange(float(size[0] * size[1])) + hour + level / 1000)
    eccodes.codes_write(handle, file)
    eccodes.codes_release(handle)


def fields(
    path: Path, hours: tuple[int, ...], edition: int = 2, size: tuple[int, int] = (4, 6)
) -> None:
    """Write a file of some hours at two levels."""
    with path.open("wb") as file:
        for hour in hours:
            for level in (1000, 850):
                message(file, hour, level, edition, size)
