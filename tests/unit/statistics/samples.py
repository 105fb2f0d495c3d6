"""Repositories with arrays of many kinds, and what numpy says of their chunks."""

from __future__ import annotations

import base64
import struct
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt
import zarr

from frazil.bulk.write import write_region
from frazil.model.config import RepositoryConfig
from frazil.repository import Repository
from frazil.statistics.files import PREFIX, list_files, load_file
from frazil.statistics.lookup import Summaries, lookup
from frazil.storage.base import Storage

Array = npt.NDArray[Any]
NAN = base64.standard_b64encode(struct.pack("<d", float("nan"))).decode()


def make(storage: Storage, spec: int = 2, inline: int = 0) -> Repository:
    """An empty repository whose chunks are objects, unless they are as small as `inline`."""
    config = RepositoryConfig(inline_chunk_threshold_bytes=inline)
    return Repository.create(storage, config=config, spec_version=spec)


def write(repo: Repository, name: str, values: Array, branch: str = "main", **options: Any) -> str:  # noqa: ANN401
    """Commit an array with some values."""
    session = repo.writable_session(branch)
    made = {"chunks": (3,) * values.ndim, "dtype": values.dtype, **options}
    zarr.create_array(session.store, name=name, shape=values.shape, overwrite=True, **made)
    write_region(session, name, ..., values, packing=False)
    return session.commit(f"write {name}")


def files(storage: Storage) -> list[str]:
    """Keys of the files of statistics."""
    return [item.key for item in storage.list(PREFIX)]


def row_count(storage: Storage) -> int:
    """The number of all rows."""
    return sum(
        len(found)
        for item in list_files(storage)
        if (found := load_file(storage, item)) is not None
    )


def all_coords(shape: tuple[int, ...], chunks: tuple[int, ...]) -> Array:
    """The coordinates of all chunks."""
    counts = [range(-(-n // size)) for n, size in zip(shape, chunks, strict=True)]
    found = [*product(*counts)]
    return np.array(found, np.int64).reshape(len(found), len(shape))


def known(repo: Repository, name: str, coords: Array, ref: str = "main") -> Summaries:
    """What is known of chunks."""
    state = repo.readonly_session(ref).state
    return lookup(state, state.array(f"/{name}"), coords)


def require_true(found: Summaries, values: Array, coords: Array, chunks: tuple[int, ...]) -> None:
    """Compare all that is known with the decoded values, in which missing ones are masked."""
    whole = np.ma.asanyarray(values)
    for row, at in enumerate(coords.tolist()):
        if not found.known[row]:
            continue
        box = tuple(slice(n * size, (n + 1) * size) for n, size in zip(at, chunks, strict=True))
        inside = np.ma.asanyarray(whole[box])
        part = inside.compressed()
        assert found.count[row] == len(part)
        assert found.missing[row] == inside.size - len(part)
        is_nan = np.isnan(part) if part.dtype.kind == "f" else np.zeros(len(part), bool)
        assert found.nan[row] == is_nan.sum()
        rest = part[~is_nan]
        assert found.has_extremes[row] == bool(len(rest))
        if len(rest):
            assert found.min[row] == rest.min()
            assert found.max[row] == rest.max()
        if rest.dtype.kind == "f":
            with np.errstate(over="ignore", invalid="ignore"):
                total = rest.sum(dtype=np.float64)
            if found.has_sum[row]:
                np.testing.assert_allclose(found.sum[row], total, rtol=1e-9, atol=1e-300)
            else:
                assert not np.isfinite(total) or abs(total) > 1e18
        else:
            exact = sum(map(int, rest.tolist()))
            fits = -(2**63) <= exact < 2**63 if rest.dtype.kind == "i" else exact < 2**64
            assert not found.has_sum[row] or int(found.sum[row]) == exact
            assert found.has_sum[row] or not fits or abs(exact) >= 2**62
