"""Statistics of random arrays against numpy, before and after they change."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from frazil.storage.memory import MemoryStorage
from tests.unit.statistics.samples import NAN, all_coords, known, make, require_true

pytestmark = pytest.mark.slow

Array = npt.NDArray[Any]
Masked = np.ma.MaskedArray[Any, Any]
TYPES = ("i1", "u1", "i2", "i4", "i8", "u8", "f2", "f4", "f8", ">f4", ">i8", "bool")


@st.composite
def cases(draw: st.DrawFn) -> tuple[Array, dict[str, Any], Masked]:
    """Stored values, attributes, and what the values mean: missing ones are masked."""
    dtype = np.dtype(draw(st.sampled_from(TYPES)))
    shape = draw(hnp.array_shapes(min_dims=0, max_dims=3, min_side=1, max_side=7))
    stored = draw(hnp.arrays(dtype, shape))
    if dtype.kind == "b":
        return stored, {}, np.ma.array(stored)
    attributes: dict[str, Any] = {}
    masked = np.zeros(shape, bool)
    if dtype.kind == "f" and draw(st.booleans()):
        attributes["_FillValue"] = NAN
        masked |= np.isnan(stored)
    elif dtype.kind in "iu" and draw(st.booleans()):
        fill = int(draw(st.sampled_from([0, 1, int(np.iinfo(dtype.str).max)])))
        attributes["_FillValue"] = fill
        masked |= stored == fill
    values = stored.astype(np.float32) if dtype == np.dtype("f2") else stored
    if dtype.kind in "iuf" and draw(st.booleans()):
        scale, offset = draw(st.sampled_from([(0.5, None), (2.0, -3.0), (None, 1.5)]))
        values = values.astype("f8")
        with np.errstate(over="ignore"):
            if scale is not None:
                attributes["scale_factor"] = scale
                values = values * scale
            if offset is not None:
                attributes["add_offset"] = offset
                values = values + offset
    return stored, attributes, np.ma.array(values, mask=masked)


@settings(max_examples=60, deadline=None)
@given(cases(), st.data(), st.sampled_from([1, 2]), st.sampled_from([0, 64]), st.booleans())
def test_they_are_what_numpy_says(
    case: tuple[Array, dict[str, Any], Masked],
    data: st.DataObject,
    spec: int,
    inline: int,
    shards: bool,
) -> None:
    stored, attributes, values = case
    sizes = [data.draw(st.integers(1, max(1, n))) for n in stored.shape]
    inner = tuple(sizes)
    chunks = tuple(2 * n for n in inner) if shards and inner else inner
    repo = make(MemoryStorage(), spec, inline)
    session = repo.writable_session("main")
    zarr.create_array(
        session.store,
        name="a",
        shape=stored.shape,
        chunks=inner,
        shards=chunks if chunks != inner else None,
        dtype=stored.dtype,
        attributes=attributes,
    )
    session.array("a")[...] = stored
    session.commit("write")
    coords = all_coords(stored.shape, chunks)
    before = known(repo, "a", coords)
    require_true(before, values, coords, chunks)
    done = repo.audit.analyze()
    assert not done.failed
    assert not done.without
    found = known(repo, "a", coords)
    assert found.known.all()
    require_true(found, values, coords, chunks)
    assert repo.audit.analyze().chunks == 0
    # A part is overwritten: what is known is true of the new values, and the rest is unknown.
    session = repo.writable_session("main")
    box = tuple(slice(0, data.draw(st.integers(0, n))) for n in stored.shape)
    session.array("a")[box] = np.zeros(stored[box].shape, stored.dtype)
    if session.has_uncommitted_changes:
        session.commit("overwrite")
    stored = stored.copy()
    stored[box] = 0
    fresh = _decoded(stored, attributes, values.dtype)
    require_true(known(repo, "a", coords), fresh, coords, chunks)
    repo.audit.analyze()
    found = known(repo, "a", coords)
    assert found.known.all()
    require_true(found, fresh, coords, chunks)


def _decoded(stored: Array, attributes: dict[str, Any], dtype: np.dtype[Any]) -> Masked:
    fill = attributes.get("_FillValue")
    masked = np.zeros(stored.shape, bool)
    if fill == NAN:
        masked = np.isnan(stored)
    elif fill is not None:
        masked = stored == fill
    values = stored.astype(dtype)
    with np.errstate(over="ignore"):
        if "scale_factor" in attributes:
            values = values * attributes["scale_factor"]
        if "add_offset" in attributes:
            values = values + attributes["add_offset"]
    return np.ma.array(values, mask=masked)
