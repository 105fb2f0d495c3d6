"""A small weather forecast that uses what real files use."""

from __future__ import annotations

import numpy as np
import pandas as pd
import xarray as xr


def forecast(days: int = 6, *, first: str = "2024-02-27") -> xr.Dataset:
    """Hourly fields on a small grid: times, packed floats, missing values, texts, flags."""
    hours = 24 * days
    random = np.random.default_rng(len(first) + days)
    temperature = 280 + 10 * random.standard_normal((hours, 5, 7)).round(2)
    rain = random.gamma(0.3, 2.0, (hours, 5, 7)).astype("f4")
    rain[random.random(rain.shape) < 0.2] = np.nan
    dims = ("time", "lat", "lon")
    dataset = xr.Dataset(
        {
            "t2m": (dims, temperature, {"units": "K", "long_name": "2 metre temperature"}),
            "rain": (dims, rain, {"units": "mm h⁻¹"}),
            "flag": (("time",), random.integers(0, 4, hours).astype("i1")),
            "station": (("lat",), np.array(["Oslo", "Bergen", "Å", "Tromsø", ""], object)),
            "lead": (("time",), pd.to_timedelta(np.arange(hours), unit="h").to_numpy()),
            "grid": ((), np.int32(4326), {"grid_mapping_name": "latitude_longitude"}),
        },
        coords={
            "time": pd.date_range(first, periods=hours, freq="h").to_numpy(),
            "lat": ("lat", np.linspace(60, 70, 5), {"standard_name": "latitude"}),
            "lon": ("lon", np.linspace(5, 20, 7).astype("f4")),
            "height": ("lat", np.arange(5.0)),
        },
        attrs={"title": "forecast", "history": "made for a test", "levels": [2, 10]},
    )
    dataset["t2m"].encoding = {"dtype": "int16", "scale_factor": 0.01, "add_offset": 280.0}
    dataset["t2m"].encoding["_FillValue"] = -32768
    dataset["rain"].encoding = {"chunks": (24, 5, 7)}
    dataset["time"].encoding = {"units": f"hours since {first}", "dtype": "int64"}
    return dataset
