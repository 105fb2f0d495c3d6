"""An array of zarr's in a session, and what was stored of it."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import zarr

from frazil.model.config import RepositoryConfig
from frazil.repository import Repository
from frazil.session import Session
from frazil.storage.base import Storage

SHAPE, CHUNKS = (23, 17), (5, 4)


def begin(storage: Storage, **options: object) -> Session:
    """A session with one array, whose chunks are never inline."""
    settings = RepositoryConfig(inline_chunk_threshold_bytes=0)
    session = Repository.create(storage, config=settings).writable_session("main")
    about: dict[str, Any] = {
        "shape": SHAPE,
        "chunks": CHUNKS,
        "dtype": "f8",
        "fill_value": 0,
    } | options
    zarr.create_array(session.store, name="a", **about)
    return session


def some(shape: tuple[int, ...] = SHAPE) -> npt.NDArray[np.float64]:
    """Numbers that are nowhere the fill value."""
    return np.random.default_rng(3).normal(10, 1, shape)


def chunk_count(session: Session) -> int:
    """How many chunks of the array exist."""
    return len(session.state.table(session.state.array("/a")))


def objects(storage: Storage) -> list[int]:
    """Sizes of the chunk objects."""
    return sorted(item.size_bytes for item in storage.list("chunks/"))
