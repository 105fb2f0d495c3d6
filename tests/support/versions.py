"""Versions of small arrays, to be compared."""

from __future__ import annotations

from typing import Any

import numpy as np
import zarr

import frazil


def make(repo: frazil.Repository, **arrays: Any) -> str:  # noqa: ANN401
    """Commit arrays, in chunks of two along each axis."""
    session = repo.writable_session("main")
    root = zarr.open_group(session.store, mode="a")
    for name, values in arrays.items():
        data = np.asarray(values)
        chunks = tuple(min(2, n) for n in data.shape)
        root.create_array(name, shape=data.shape, chunks=chunks, dtype=data.dtype)[...] = data
    return session.commit("make")


def change(
    repo: frazil.Repository, name: str, place: object, values: object, branch: str = "main"
) -> str:
    """Commit other values of an array."""
    session = repo.writable_session(branch)
    zarr.open_array(session.store, path=name, mode="r+")[place] = values  # type: ignore[index,assignment]
    return session.commit(f"change {name}")


def blank(repo: frazil.Repository, message: str, **options: Any) -> str:  # noqa: ANN401
    """Commit an array in the place of the one before; of what it holds only some chunks."""
    written = options.pop("written", {})
    session = repo.writable_session("main")
    root = zarr.open_group(session.store, mode="a")
    made = root.create_array("t", overwrite=True, **options)
    for place, value in written.items():
        made[place] = value
    return session.commit(message)
