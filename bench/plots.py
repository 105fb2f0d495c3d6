"""Pictures of results."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from bench.model import Party

COLOURS = {
    Party.FRAZIL: "#1b7f8c",
    Party.ICECHUNK2: "#d1603d",
    Party.ICECHUNK1: "#e5a383",
    Party.ZARR: "#8a6fb0",
    Party.TENSORSTORE: "#5b8c3e",
    Party.PARQUET: "#c9a227",
    Party.XARRAY_SQL: "#4f6d9a",
    Party.DASK: "#d1603d",
    Party.LIMIT: "#b5b5b5",
}
MARKS = ("o", "s", "^", "D")


def plot_cases(cases: list[dict[str, Any]], path: Path) -> None:
    """A row of dots for each case, one below the other, on logarithmic axes."""
    plt = _pyplot()
    shown = [case for case in cases if any("median" in each for each in case["contestants"])]
    if not shown:
        return
    heights = [1 + len(case["contestants"]) for case in shown]
    figure, axes = plt.subplots(
        len(shown),
        1,
        figsize=(9, 0.2 * sum(heights) + 0.55 * len(shown)),
        height_ratios=heights,
        squeeze=False,
        layout="constrained",
    )
    for case, axis in zip(shown, axes[:, 0], strict=True):
        _dots(axis, case)
    figure.savefig(path, dpi=100)
    plt.close(figure)


def _dots(axis: Any, case: dict[str, Any]) -> None:
    from matplotlib.ticker import EngFormatter, NullFormatter

    rows = [each for each in case["contestants"] if "median" in each][::-1]
    for number, each in enumerate(rows):
        colour = COLOURS[Party(each["party"])]
        axis.hlines(number, each["low"], each["high"], color=colour, linewidth=2)
        axis.plot(each["median"], number, "o", color=colour, markersize=6)
    axis.set_yticks(range(len(rows)), [each["name"] for each in rows], fontsize=8)
    axis.set_ylim(-0.7, len(rows) - 0.3)
    axis.set_xscale("log")
    # Whole decades, so that distances mean the same in all pictures that span as many.
    axis.set_xlim(
        10 ** math.floor(math.log10(min(each["low"] for each in rows))),
        10 ** math.ceil(math.log10(max(each["high"] for each in rows) * 1.01)),
    )
    unit = case["unit"]
    axis.xaxis.set_major_formatter(EngFormatter(unit=unit, sep=" "))
    axis.xaxis.set_minor_formatter(NullFormatter())
    axis.tick_params(axis="x", labelsize=8)
    axis.set_title(case["title"], fontsize=9, loc="left")
    axis.grid(axis="x", which="both", alpha=0.2)
    axis.spines[["top", "right"]].set_visible(False)


def plot_curves(curves: list[dict[str, Any]], path: Path) -> None:
    """Lines for each curve, side by side."""
    from matplotlib.ticker import EngFormatter, NullFormatter

    plt = _pyplot()
    figure, axes = plt.subplots(
        1, len(curves), figsize=(4.2 * len(curves), 3.4), squeeze=False, layout="constrained"
    )
    for curve, axis in zip(curves, axes[0], strict=True):
        for number, (name, points) in enumerate(curve["series"].items()):
            party = Party.FRAZIL if name.startswith("frazil") else Party(name)
            axis.errorbar(
                [point["x"] for point in points],
                [point["median"] for point in points],
                yerr=[
                    [point["median"] - point["low"] for point in points],
                    [point["high"] - point["median"] for point in points],
                ],
                label=name,
                color=COLOURS[party],
                marker=MARKS[number % len(MARKS)],
                markersize=4,
                linewidth=1.4,
                linestyle="--" if name.endswith("no fsync") else "-",
                capsize=2,
            )
        axis.set_xscale("log", base=2 if curve["x"] == "writers" else 10)
        if curve["unit"] == "s":
            axis.set_yscale("log")
            axis.yaxis.set_major_formatter(EngFormatter(unit="s", sep=" "))
            axis.yaxis.set_minor_formatter(NullFormatter())
        else:
            axis.set_ylim(bottom=0)
        axis.set_title(curve["title"], fontsize=9)
        axis.set_xlabel(curve["x"], fontsize=8)
        axis.set_ylabel(_axis(curve["unit"]), fontsize=8)
        axis.tick_params(labelsize=8)
        axis.spines[["top", "right"]].set_visible(False)
        axis.grid(alpha=0.25)
        axis.legend(fontsize=7, frameon=False)
    figure.savefig(path, dpi=100)
    plt.close(figure)


def _axis(unit: str) -> str:
    return {"s": "seconds", "B": "bytes", "1/s": "per second"}[unit]


def _pyplot() -> Any:
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    return plt
