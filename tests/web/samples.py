"""Repositories to look at: one that looks like somebody's data, one that is hostile."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import zarr

import frazil
from frazil.model.config import RepositoryConfig, VirtualChunkContainer
from frazil.model.plain import JSON
from frazil.storage.constructors import local_filesystem_store

DAYS: Final = 24
LAT: Final = np.linspace(-88.75, 88.75, 72)
LON: Final = np.linspace(1.25, 358.75, 144)
HOSTILE: Final = "<script>window.hacked = 1</script><img src=x onerror='window.hacked=2'>"
ODD: Final = "odd näme & <b>"


def temperature(day: int) -> npt.NDArray[np.float32]:
    """A field that looks like the temperature of the sea, with land that has none."""
    lat, lon = np.radians(LAT)[:, None], np.radians(LON)[None, :]
    field = 28 * np.cos(lat) ** 2 - 1.5 + 2.2 * np.sin(3 * lon + day / 4) * np.cos(lat)
    field = field + 1.5 * np.cos(5 * lon - 2 * lat * 3 - day / 6) * np.sin(2 * lat) ** 2
    land = np.sin(2 * lon + 0.6) * np.cos(3 * lat - 0.3) + 0.45 * np.cos(4 * lon + 3 * lat)
    made: npt.NDArray[np.float32] = np.where(land > 0.75, np.nan, field).astype("f4")
    return made


def write_days(repo: frazil.Repository, branch: str, first: int, last: int, message: str) -> str:
    """Write the temperature of some days, in one commit."""
    session = repo.writable_session(branch)
    array = zarr.open_array(session.store, path="sst", mode="r+")
    for day in range(first, last):
        array[day] = temperature(day)
    return session.commit(message)


def make_ocean(place: Path) -> str:
    """A repository with branches, merges, tags, packed and virtual arrays; its address."""
    place.mkdir(parents=True, exist_ok=True)
    archive = place / "archive"
    archive.mkdir()
    (archive / "depth.bin").write_bytes(np.arange(72 * 144, dtype="<f4").tobytes())
    config = RepositoryConfig(inline_chunk_threshold_bytes=64)
    config.set_virtual_chunk_container(
        VirtualChunkContainer(f"file://{archive}/", local_filesystem_store(str(archive)))
    )
    repo = frazil.Repository.create(str(place / "ocean"), config)
    repo.save_config()
    session = repo.writable_session("main")
    root = zarr.group(session.store, attributes={"title": "Sea surface", "institution": "Example"})
    _coordinates(root)
    root.create_array(
        "sst",
        shape=(DAYS, 72, 144),
        chunks=(2, 36, 48),
        dtype="f4",
        dimension_names=("time", "lat", "lon"),
        fill_value=np.nan,
        attributes={"long_name": "sea surface temperature", "units": "degC"},
    )
    session.commit("Lay out the grid\n\nCoordinates, and an empty temperature.")
    write_days(repo, "main", 0, 8, "Temperature of days 1 to 8")
    repo.create_tag("v1", write_days(repo, "main", 8, 14, "Temperature of days 9 to 14"))
    repo.create_branch("calibration", repo.lookup_branch("main"))
    session = repo.writable_session("calibration")
    array = zarr.open_array(session.store, path="sst", mode="r+")
    array[4:8, 20:52, 40:100] = np.asarray(array[4:8, 20:52, 40:100]) + 1.75
    session.commit("Correct the drift of buoy 7")
    write_days(repo, "main", 14, 18, "Temperature of days 15 to 18")
    _ice(repo, archive)
    repo.versions.merge("calibration", "main", message="Merge the calibration")
    repo.create_branch("forecast", repo.lookup_branch("main"))
    write_days(repo, "forecast", 18, 22, "Forecast of days 19 to 22")
    write_days(repo, "main", 18, 20, "Temperature of days 19 and 20")
    repo.create_tag("v2", repo.lookup_branch("main"))
    session = repo.writable_session("main")
    zarr.open_group(session.store, mode="r+")["sst"].attrs["comment"] = "calibrated in May"
    session.commit("Say what was calibrated")
    return str(place / "ocean")


def _coordinates(root: zarr.Group) -> None:
    axes: tuple[tuple[str, npt.NDArray[Any], dict[str, JSON]], ...] = (
        ("time", np.arange(DAYS, dtype="i4"), {"units": "days since 2026-05-01"}),
        ("lat", LAT.astype("f4"), {"units": "degrees_north", "standard_name": "latitude"}),
        ("lon", LON.astype("f4"), {"units": "degrees_east", "standard_name": "longitude"}),
    )
    for name, values, attributes in axes:
        made = root.create_array(
            name,
            shape=values.shape,
            chunks=values.shape,
            dtype=values.dtype,
            dimension_names=(name,),
            attributes=attributes,
        )
        made[:] = values


def _ice(repo: frazil.Repository, archive: Path) -> None:
    """Ice as packed numbers, the depth by reference to a file."""
    session = repo.writable_session("main")
    root = zarr.open_group(session.store, mode="r+")
    packed = root.create_array(
        "ice/cover",
        shape=(DAYS, 72, 144),
        chunks=(8, 72, 144),
        dtype="i2",
        dimension_names=("time", "lat", "lon"),
        fill_value=-32768,
        attributes={"scale_factor": 0.01, "add_offset": 50.0, "_FillValue": -32768, "units": "%"},
    )
    share = np.clip(np.abs(LAT)[:, None] * 4 - 280 + 20 * np.sin(np.radians(LON * 3)), 0, 100)
    packed[:8] = np.broadcast_to(np.round((share - 50) * 100).astype("i2"), (8, 72, 144))
    root.create_array(
        "depth",
        shape=(72, 144),
        chunks=(72, 144),
        dtype="f4",
        dimension_names=("lat", "lon"),
        compressors=None,
        attributes={"units": "m"},
    )
    session.store.set_virtual_ref(
        "depth/c/0/0", f"file://{archive}/depth.bin", offset=0, length=72 * 144 * 4
    )
    session.commit("Ice cover, and the depth by reference")


def make_odd(place: Path) -> str:
    """A repository whose every text is hostile, and arrays that are hard to draw."""
    repo = frazil.Repository.create(str(place / "odd place"))
    session = repo.writable_session("main")
    root = zarr.group(
        session.store, attributes={HOSTILE: HOSTILE, "deep": {"a": [1, {"b": HOSTILE}]}}
    )
    for name in (ODD, "t?ok#en=1&v=x"):
        made = root.create_array(
            name,
            shape=(4, 6),
            chunks=(2, 3),
            dtype="f8",
            dimension_names=(HOSTILE, "dim/with/slash"),
            attributes={"units": HOSTILE, "long_name": HOSTILE},
        )
        made[:] = np.arange(24.0).reshape(4, 6)
    known = root.create_array("known", shape=(3, 5), chunks=(2, 2), dtype="f8")
    values = np.arange(15.0).reshape(3, 5)
    values[1, 2] = np.nan
    known[:] = values
    packed = root.create_array(
        "packed",
        shape=(2, 3),
        chunks=(2, 3),
        dtype="i2",
        fill_value=-1,
        attributes={"scale_factor": 0.5, "add_offset": 10.0, "_FillValue": -1},
    )
    packed[:] = np.array([[0, 2, 4], [-1, 8, 10]], "i2")
    root.create_array("one", shape=(1, 1), chunks=(1, 1), dtype="i4")[:] = 7
    root.create_array("empty", shape=(0, 4), chunks=(1, 4), dtype="f4")
    root.create_array("scalar", shape=(), chunks=(), dtype="f8")[...] = 2.5
    root.create_array("line", shape=(50,), chunks=(10,), dtype="f8")[:] = np.sin(np.arange(50) / 5)
    root.create_array("words", shape=(3,), chunks=(3,), dtype="U12")[:] = ["a", "<b>bold</b>", "ü"]
    root.create_array("large", shape=(3000, 4000), chunks=(1000, 1000), dtype="u1", fill_value=9)
    root.create_array("flags", shape=(2, 2), chunks=(2, 2), dtype="bool")[:] = [[1, 0], [0, 1]]
    root.create_array("big", shape=(1, 2), chunks=(1, 2), dtype="i8")[:] = [[2**60 + 1, -5]]
    session.commit(HOSTILE, {HOSTILE: HOSTILE})
    repo.create_tag("tag <i>", repo.lookup_branch("main"))
    session = repo.writable_session("main")
    zarr.open_array(session.store, path="known", mode="r+")[0, 0] = 100.0
    session.commit("Change one cell")
    return str(place / "odd place")
