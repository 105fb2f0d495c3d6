"""An ingest leaves no file in the repository that nobody refers to."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr

import frazil
from frazil.model.chunks import NativeRef
from frazil.model.nodes import ArrayNode
from frazil.repository import Repository


def unused(place: Path) -> list[str]:
    """Files of chunks, manifests, snapshots and logs that no branch leads to."""
    folders = ("snapshots", "transactions", "manifests", "chunks")
    there = {
        f"{each.parent.name}/{each.name}"
        for folder in folders
        for each in (place / folder).glob("*")
    }
    assert there
    return sorted(there - {*_used(Repository.open(str(place)))})


def _used(repository: Repository) -> Iterator[str]:
    for entry in repository.ancestry(branch="main"):
        yield f"snapshots/{entry.id}"
        yield f"transactions/{entry.id}"
        state = repository.readonly_session(snapshot_id=entry.id).state
        for node in state.tree:
            if not isinstance(node, ArrayNode):
                continue
            yield from (f"manifests/{each.id}" for each in node.manifests)
            for _, ref in state.table(node).refs():
                if isinstance(ref, NativeRef):
                    yield f"chunks/{ref.chunk_id}"


def _file(folder: Path, number: int) -> str:
    """A file with all that is written in another way: data, labels, texts, scalars, no time."""
    rng = np.random.default_rng(number)
    still = np.arange(3000, dtype="i2").reshape(50, 60)
    data = xr.Dataset(
        {
            "v": (("time", "y", "x"), rng.normal(size=(3, 50, 60)).astype("f4")),
            "still": (("y", "x"), still),
            "crs": ((), 7),
            "said": (("time",), np.array([f"day {number}"] * 3, object)),
            "name": (
                ("y",),
                np.array([f"a long name of place {n}" * 9 for n in range(50)], object),
            ),
        },
        coords={"time": np.arange(3.0) + 3 * number, "y": np.arange(50.0), "x": np.arange(60.0)},
    )
    path = folder / f"{number}.nc"
    data.to_netcdf(path, engine="h5netcdf", encoding={"v": {"chunksizes": (1, 25, 60)}})
    return str(path)


@pytest.mark.parametrize(
    "options",
    [
        {"mode": "native"},
        {"mode": "native", "statistics": True},
        {"chunks": {"time": 2, "y": 20}},
        {"chunks": {"time": 5, "x": 7}, "compressor": "none"},
        {"mode": "virtual"},
        {"mode": "auto", "load": ["still"]},
    ],
    ids=str,
)
def test_an_ingest_and_appends_leave_nothing_unused(
    options: dict[str, Any], tmp_path: Path
) -> None:
    files = [_file(tmp_path, number) for number in range(4)]
    place = tmp_path / "repo"
    frazil.ingest(files[:2], str(place), **options)
    assert unused(place) == []
    for file in files[2:]:
        frazil.ingest(file, str(place), append=True, **options)
        assert unused(place) == []
