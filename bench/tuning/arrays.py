"""Repositories with arrays to work on."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
import zarr

from frazil import Repository, bulk
from frazil.repository.repository import Repository as Opened
from frazil.session.session import Session
from frazil.storage.base import Storage


@cache
def values(count: int, dtype: str = "u1") -> npt.NDArray[Any]:
    """Numbers that compress to about half."""
    return np.random.default_rng(1).integers(0, 16, count).astype(dtype)


def empty(
    storage: Storage,
    count: int,
    chunk: int,
    *,
    arrays: int = 1,
    compressors: Any = None,
    spec: int = 2,
) -> Session:
    """A session with new arrays `a0`, `a1`, ... of bytes."""
    session = Repository.create(storage, spec_version=spec).writable_session("main")
    for number in range(arrays):
        zarr.create_array(
            session.store,
            name=f"a{number}",
            shape=(count,),
            chunks=(chunk,),
            dtype="u1",
            compressors=compressors,
        )
    return session


def filled(storage: Storage, count: int, chunk: int, **more: Any) -> Opened:
    """A repository with such arrays, committed, without packs."""
    session = empty(storage, count, chunk, **more)
    for number in range(more.get("arrays", 1)):
        bulk.write_region(session, f"a{number}", ..., values(count), packing=False)
    session.commit("filled")
    return Repository.open(storage)
