"""Scans of files that do not exist, and plans of them: what the rules of an ingest look at."""
# Options of other libraries have any type:
# ruff: noqa: ANN401

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from frazil.ingestion.encoding import Meaning, encoding_of
from frazil.ingestion.planning import plan_ingest
from frazil.ingestion.plans import Findings, IngestPlan, PlannedArray, PlanOptions, TransferKind
from frazil.ingestion.records import FileReferences, FileScan, FileVariable, Identity

RAW = encoding_of(Meaning(np.dtype("<f4"), 0.0))
ZLIB = encoding_of(
    Meaning(np.dtype("<f4"), 0.0, '[{"name":"numcodecs.zlib","configuration":{"level":4}}]')
)
SHORT = encoding_of(Meaning(np.dtype("<i2"), 0))
LONG = encoding_of(Meaning(np.dtype("<i4"), 0))


def coordinate(name: str, values: Any, **attrs: Any) -> FileVariable:
    """A variable whose values are loaded."""
    array = np.asarray(values)
    encoding = encoding_of(Meaning(np.dtype("<f8"), 0.0))
    dims = (name,) if array.ndim else ()
    return FileVariable(
        name, dims, array.shape, array.shape, encoding, json.dumps(attrs), None, array
    )


def data(
    url: str,
    dims: Mapping[str, int],
    chunks: Sequence[int] | None = None,
    encoding: str = ZLIB,
    **attrs: Any,
) -> FileVariable:
    """A variable of references, a hundred bytes each."""
    shape = tuple(dims.values())
    sizes = tuple(chunks or shape)
    grid = [-(-n // c) for n, c in zip(shape, sizes, strict=True)]
    count = int(np.prod(grid))
    places = np.arange(count)
    refs = FileReferences.of_file(url, places, places * 100, np.full(count, 100))
    return FileVariable("v", (*dims,), shape, sizes, encoding, json.dumps(attrs), refs)


def large(
    dims: Mapping[str, int], size: int = 1000, chunks: Sequence[int] | None = None
) -> FileScan:
    """A file with nothing but one variable."""
    url = "file:///data/large.h5"
    made = data(url, dims, chunks)
    return FileScan(url, "hdf5", Identity(size, None, 1), (made,), "{}")


def scan(number: int, *, time: Sequence[float], chunk: int = 2, **changes: Any) -> FileScan:
    """A file of some times, with changes."""
    url = f"file:///data/{number}.nc"
    made = {
        "time": coordinate("time", time, units=changes.get("time_units", "days since 2000-01-01")),
        "lat": coordinate("lat", changes.get("lat", [1.0, 2.0])),
        "v": data(
            url,
            {"time": len(time), "lat": len(changes.get("lat", [1.0, 2.0]))},
            changes.get("chunks", (chunk, 2)),
            changes.get("encoding", ZLIB),
            **changes.get("attrs", {}),
        ),
    }
    made |= changes.get("more", {})
    for name in changes.get("without", ()):
        del made[name]
    return FileScan(url, "hdf5", Identity(1, "tag", 0), tuple(made.values()))


def base(**changes: Any) -> FileScan:
    """What a repository has, as if a file had it."""
    made = scan(9, **{"time": [0, 1], **changes})
    bare = tuple(replace(each, references=None) for each in made.variables)
    return replace(made, url="the repository", variables=bare)


def planned(
    *scans: FileScan, base: FileScan | None = None, **wanted: Any
) -> tuple[IngestPlan, Findings]:
    """The plan of some files, and what it tells."""
    findings = Findings()
    return plan_ingest(scans, PlanOptions(**wanted), findings, base), findings


def codes(findings: Findings) -> list[str]:
    """What forbids to go on."""
    return [each.code for each in findings.errors]


def array_of(plan: IngestPlan, name: str = "v") -> PlannedArray:
    """An array of a plan."""
    return next(each for each in plan.arrays if each.name == name)


def assert_refused(changes: Mapping[str, Any], code: str, *, can_materialize: bool = False) -> None:
    """A second file with these changes is refused by name; a copy is taken where it helps."""
    first = scan(0, time=[0, 1], attrs={"units": "K"} if code == "units" else {})
    _, findings = planned(first, scan(1, **changes))
    assert code in codes(findings)
    found = next(each for each in findings.errors if each.code == code)
    assert "file:///data/1.nc" in found.files
    assert "/data/1.nc" in str(found)
    assert found.can_materialize == can_materialize
    plan, copied = planned(first, scan(1, **changes), materialize=True)
    if can_materialize:
        assert not copied.errors
        assert array_of(plan).kind is TransferKind.NATIVE
        assert any("copied instead" in each.message for each in copied.found)
    else:
        assert codes(copied)
