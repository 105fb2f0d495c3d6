"""What a run found, as plain data: the one form that is stored, printed and reported."""

from __future__ import annotations

import json
import os
import platform
import statistics
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench.model import Case, Curve, Figures, Size, Target, Unit
from bench.worker import versions

PACKAGES = [
    "icechunk",
    "zarr",
    "tensorstore",
    "xarray",
    "dask",
    "numpy",
    "numcodecs",
    "obstore",
    "zstandard",
    "ministack",
]


def case_result(case: Case, figures: Sequence[Figures]) -> dict[str, Any]:
    """A case with its figures and how the targets came out."""
    by_name = {each.name: each for each in figures}
    return {
        "key": case.key,
        "title": case.title,
        "theme": case.theme,
        "where": case.where.value,
        "unit": case.unit.value,
        "amounts": dict(case.amounts),
        "contestants": [_figures(each) for each in figures],
        "targets": [_target(case, each, by_name) for each in case.targets],
    }


def _figures(figures: Figures) -> dict[str, Any]:
    values = figures.values
    summary = (
        {"median": statistics.median(values), "low": min(values), "high": max(values)}
        if values
        else {}
    )
    return asdict(figures) | {"party": figures.party.value} | summary


def _target(case: Case, target: Target, figures: dict[str, Figures]) -> dict[str, Any]:
    """The ratio, above 1 where the contestant is faster; for sizes below 1 where it is smaller."""
    ours, theirs = figures[target.contestant].values, figures[target.against].values
    found: dict[str, Any] = asdict(target)
    if not ours or not theirs:
        return found | {"ratio": None}
    sizes = case.unit is Unit.BYTES
    above, below = (ours, theirs) if sizes else (theirs, ours)
    # Rounds are neighbours in time, so their ratios show the spread without the drift.
    each = [a / b for a, b in zip(above, below, strict=False)]
    ratio = statistics.median(above) / statistics.median(below)
    found |= {"ratio": ratio, "low": min(*each, ratio), "high": max(*each, ratio)}
    if target.must is not None:
        holds, reached = (
            bound is not None and (ratio <= bound if sizes else ratio >= bound)
            for bound in (target.must, target.goal)
        )
        found |= {"holds": holds, "reached": reached}
    return found


def curve_result(curve: Curve) -> dict[str, Any]:
    """A curve with the median and the spread of each point."""
    return {
        "key": curve.key,
        "title": curve.title,
        "x": curve.x,
        "unit": curve.unit.value,
        "remarks": curve.remarks,
        "series": {
            name: [
                {"x": x, "median": statistics.median(v), "low": min(v), "high": max(v)}
                for x, v in points
            ]
            for name, points in curve.series.items()
        },
    }


def circumstances(size: Size, rounds: int, older: dict[str, str]) -> dict[str, Any]:
    """When, where and with what this run was made."""
    import frazil

    here = versions(PACKAGES) | {"frazil": frazil.__version__}
    return {
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
        "size": size.name,
        "rounds": rounds,
        "versions": here,
        "versions_1.1.21": older,
        "machine": {
            "system": f"{platform.system()} {platform.release()} {platform.machine()}",
            "processor": _processor(),
            "cores": os.cpu_count(),
            "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
            "load_before": round(os.getloadavg()[0], 2),
        },
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line.split(":", 1)[1].strip() for line in lines if "model name" in line), "")


def save(path: Path, results: dict[str, Any]) -> None:
    """Write the results, or replace only what this run measured."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(results, indent=1) + "\n")


def load(path: Path) -> dict[str, Any]:
    """Read results."""
    found: dict[str, Any] = json.loads(path.read_text())
    return found


def merge(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    """Old results with those cases and curves replaced that were measured again."""
    merged = dict(new)
    for kind in ("cases", "curves"):
        again = {each["key"]: each for each in new[kind]}
        kept = [again.pop(each["key"], each) for each in old.get(kind, [])]
        merged[kind] = kept + list(again.values())
    return merged
