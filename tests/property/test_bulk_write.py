"""Whatever is selected, `write_region` and zarr leave the same array behind."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st
from zarr.codecs import BloscCodec, GzipCodec, TransposeCodec, ZstdCodec

from frazil import config
from frazil.bulk.read import read_region
from frazil.bulk.write import write_region
from frazil.repository import Repository
from frazil.storage.memory import MemoryStorage
from frazil.storage.wrapped import LatencyStorage

DTYPES = {
    "f8": (0.0, -0.0, np.nan, 3.5),
    ">f4": (0.0, np.nan),
    "i2": (0, -7),
    "u1": (0, 255),
    "bool": (False, True),
    "c8": (0j, 1 + 2j),
    "M8[s]": (np.datetime64("NaT", "s"), np.datetime64(3, "s")),
}


@st.composite
def arrays(draw: st.DrawFn) -> dict[str, Any]:
    """Options of a small array."""
    shape = tuple(draw(st.lists(st.integers(0, 12), min_size=0, max_size=3)))
    chunks = tuple(draw(st.integers(1, max(1, n) + 2)) for n in shape)
    dtype = draw(st.sampled_from(sorted(DTYPES)))
    options: dict[str, Any] = {
        "shape": shape,
        "chunks": chunks,
        "dtype": dtype,
        "fill_value": draw(st.sampled_from(DTYPES[dtype])),
    }
    if shape and draw(st.integers(0, 3)) == 0:
        options["shards"] = tuple(n * draw(st.integers(1, 3)) for n in chunks)
    elif len(shape) > 1 and draw(st.booleans()):
        order = tuple(draw(st.permutations(range(len(shape)))))
        options["filters"] = [TransposeCodec(order=order)]
    packers = (None, ZstdCodec(), GzipCodec(), BloscCodec(typesize=4, shuffle="shuffle"))
    return options | {"compressors": draw(st.sampled_from(packers))}


@st.composite
def slices(draw: st.DrawFn, length: int) -> slice:
    """A slice that zarr takes."""
    low, high = sorted(draw(st.tuples(st.integers(0, length), st.integers(0, length))))
    return slice(low, high, draw(st.sampled_from([None, 1, 2, 3])))


@st.composite
def selections(draw: st.DrawFn, shape: tuple[int, ...], chunks: tuple[int, ...]) -> tuple[str, Any]:
    """A selection and the property of an array that takes it."""
    by = draw(st.sampled_from(["brackets", "oindex", "vindex", "blocks"]))
    if not shape or not all(shape):
        return "brackets", ...
    if by == "vindex":
        count = draw(st.integers(1, 6))
        points = [
            draw(st.lists(st.integers(-n, n - 1), min_size=count, max_size=count)) for n in shape
        ]
        flat = {int(np.ravel_multi_index(p, shape, mode="wrap")) for p in zip(*points, strict=True)}
        return by, np.unravel_index(draw(st.permutations(sorted(flat))), shape)
    if by == "blocks":
        counts = [-(-n // chunk) for n, chunk in zip(shape, chunks, strict=True)]
        return by, tuple(
            draw(
                st.one_of(
                    st.integers(0, count - 1),
                    st.builds(slice, st.integers(0, count - 1), st.none()),
                )
            )
            for count in counts
        )
    items: list[Any] = []
    for n in shape:
        kinds = [slices(n), st.integers(-n, n - 1)]
        if by == "oindex":
            kinds.append(st.lists(st.integers(0, n - 1), min_size=1, unique=True).map(np.array))
            kinds.append(st.lists(st.booleans(), min_size=n, max_size=n).map(np.array))
        items.append(draw(st.one_of(kinds)))
    return by, tuple(items)


@st.composite
def values_for(
    draw: st.DrawFn, shape: tuple[int, ...], options: dict[str, Any]
) -> npt.NDArray[Any]:
    """Values, among them the fill value, or just one."""
    some = DTYPES[options["dtype"]]
    pool = np.array((*some, *some, *some, *some)[:4], options["dtype"])
    if draw(st.booleans()):
        return np.asarray(pool[draw(st.integers(0, 3))])
    seed = draw(st.integers(0, 2**16))
    return pool[np.random.default_rng(seed).integers(0, 4, shape)]


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_the_same_as_zarr(data: st.DataObject) -> None:
    options = data.draw(arrays())
    storage: Any = MemoryStorage()
    if data.draw(st.booleans()):
        storage = LatencyStorage(storage)
    session = Repository.create(storage).writable_session("main")
    zarr.create_array(session.store, name="a", **options)
    # zarr cannot write all selections to shards; without them it has the same chunk grid.
    grid = options.get("shards") or options["chunks"]
    plain = options | {"chunks": grid, "shards": None}
    model: Any = zarr.create_array({}, name="a", **plain)
    for _ in range(data.draw(st.integers(1, 4))):
        by, selection = data.draw(selections(options["shape"], grid))
        view = model if by == "brackets" else getattr(model, by)
        chosen = np.shape(view[selection])
        values = data.draw(values_for(chosen, options))
        view[selection] = values
        packing = data.draw(st.sampled_from([None, False]))
        write_region(session, "a", selection, values, by=by, packing=packing)
        if data.draw(st.integers(0, 4)) == 0:
            session.commit("so far", allow_empty=True)
            session = Repository.open(storage).writable_session("main")
    expected = np.asarray(model[...])
    np.testing.assert_array_equal(read_region(session, "a"), expected)
    with config.set(fast_zarr=False):
        ours: Any = zarr.open_array(session.store, path="a")
        np.testing.assert_array_equal(np.asarray(ours[...]), expected)
    assert len(session.state.table(session.state.array("/a"))) == model.nchunks_initialized
