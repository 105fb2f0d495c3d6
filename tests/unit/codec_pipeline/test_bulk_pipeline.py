"""Reading and writing through zarr in bulk: what a user of zarr notices, and what not."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import zarr
import zarr.errors
from zarr.codecs import ZstdCodec
from zarr.core.buffer import BufferPrototype, cpu
from zarr.core.codec_pipeline import BatchedCodecPipeline
from zarr.registry import register_pipeline

from frazil import config
from frazil.codec_pipeline.bulk_pipeline import BulkPipeline
from frazil.errors import FormatError, NodeNotFoundError, ReadOnlyError, StorageError
from frazil.model.chunks import ChunkType
from frazil.repository import Repository
from frazil.session import Session
from frazil.storage.local import LocalStorage
from frazil.storage.memory import MemoryStorage
from frazil.storage.wrapped import LatencyStorage

VALUES = np.arange(40 * 30, dtype="f4").reshape(40, 30)


class Forbidden(BatchedCodecPipeline):
    """A pipeline below ours that must not be asked for chunks."""

    async def read(self, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - never
        raise AssertionError("read by zarr")

    async def write(self, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - never
        raise AssertionError("written by zarr")


register_pipeline(Forbidden)


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    path = "zarr.core.codec_pipeline.BatchedCodecPipeline"
    with config.set(fast_zarr=True), zarr.config.set({"codec_pipeline.path": path}):
        yield


@pytest.fixture
def forbidden() -> Iterator[None]:
    """Fail when anything goes zarr's own way."""
    name = f"{Forbidden.__module__}.{Forbidden.__qualname__}"
    with zarr.config.set({"codec_pipeline.path": name}):
        yield


@pytest.fixture(params=["memory", "disk", "distant"])
def session(request: pytest.FixtureRequest, tmp_path: Path) -> Session:
    match request.param:
        case "memory":
            return Repository.create(MemoryStorage()).writable_session("main")
        case "disk":
            return Repository.create(LocalStorage(str(tmp_path))).writable_session("main")
        case _:
            return Repository.create(LatencyStorage(MemoryStorage())).writable_session("main")


def make(session: Session, **more: Any) -> Any:  # noqa: ANN401 - zarr's own types are wide
    given = {"shape": VALUES.shape, "chunks": (7, 4), "dtype": "f4", "compressors": None}
    return zarr.create_array(session.store, **({"name": "a"} | given | more))


@pytest.mark.usefixtures("forbidden")
@pytest.mark.parametrize(
    "selection",
    [
        ...,
        (5, 6),
        (slice(3, 30), 7),
        (7, slice(None)),
        (slice(None, None, 3), slice(1, None, 2)),
        (slice(0, 7), slice(0, 4)),
        slice(38, 40),
        slice(4, 4),
    ],
)
def test_nothing_is_left_to_zarr(session: Session, selection: Any) -> None:  # noqa: ANN401
    array = make(session)
    array[...] = VALUES
    np.testing.assert_array_equal(array[selection], VALUES[selection])
    expected = VALUES.copy()
    expected[selection] = -1
    array[selection] = -1
    np.testing.assert_array_equal(array[...], expected)
    session.commit("data")
    again = zarr.open_array(session.store, path="a", mode="r")
    np.testing.assert_array_equal(again[...], expected)


@pytest.mark.usefixtures("forbidden")
def test_odd_selections_are_ours_too(session: Session) -> None:
    array = make(session)
    array[...] = VALUES
    rows, columns = np.array([3, 39, 3]), np.array([29, 0, 1])
    np.testing.assert_array_equal(array.oindex[rows, 5], VALUES[rows, 5])
    np.testing.assert_array_equal(array.oindex[rows, columns], VALUES[np.ix_(rows, columns)])
    np.testing.assert_array_equal(array.vindex[rows, columns], VALUES[rows, columns])
    mask = VALUES % 7 == 0
    np.testing.assert_array_equal(array.get_mask_selection(mask), VALUES[mask])
    np.testing.assert_array_equal(array.blocks[2, 1:3], VALUES[14:21, 4:12])


def test_missing_chunks_are_the_fill_value_and_stay_missing(session: Session) -> None:
    array = make(session, fill_value=np.nan)
    array[0:7, 0:4] = 1
    array[7:14, 0:4] = np.nan
    assert array.nchunks_initialized == 1
    assert np.isnan(array[...]).sum() == VALUES.size - 28
    array[0:7, 0:4] = np.nan
    assert array.nchunks_initialized == 0


def test_empty_chunks_are_kept_on_request(session: Session) -> None:
    array = make(session, config={"write_empty_chunks": True})
    array[...] = 0
    assert array.nchunks_initialized == array.nchunks


def test_zarr_is_told_of_missing_chunks(session: Session) -> None:
    if "read_missing_chunks" not in zarr.config.get("array"):
        pytest.skip("this zarr does not ask")
    missing: Any = vars(zarr.errors)["ChunkNotFoundError"]
    array = make(session, config={"read_missing_chunks": False})
    array[0:7] = 1
    assert array[0:7].shape == (7, 30)
    with pytest.raises(missing, match="40 chunk"):
        _ = array[...]


def test_shards_are_written_and_read_whole_or_in_parts(session: Session) -> None:
    array = make(session, chunks=(5, 3), shards=(20, 15))
    array[...] = VALUES
    np.testing.assert_array_equal(array[...], VALUES)
    np.testing.assert_array_equal(array[3:9, 17], VALUES[3:9, 17])
    array[18:22, 2] = 0
    expected = VALUES.copy()
    expected[18:22, 2] = 0
    np.testing.assert_array_equal(array[...], expected)
    with config.set(fast_zarr=False):
        np.testing.assert_array_equal(array[...], expected)


def test_batches_are_packed_when_asked(session: Session) -> None:
    array = make(session, chunks=(20, 15))  # larger than what is kept in manifests
    array[...] = VALUES
    one_each = chunk_objects(session)
    with config.set(pack_zarr_writes=True):
        array[...] = VALUES + 1
        assert len(chunk_objects(session) - one_each) == 1
        array[0:20, 0:15] = 7  # a single chunk is an object of its own
    assert len(chunk_objects(session)) == len(one_each) + 2
    expected = VALUES + 1
    expected[0:20, 0:15] = 7
    np.testing.assert_array_equal(array[...], expected)
    assert session.chunk_type("/a", (1, 1)) == ChunkType.native


def chunk_objects(session: Session) -> set[str]:
    return {key for key, _ in session.state.context.storage.list_objects(prefix="chunks")}


def test_values_in_the_other_byte_order(session: Session) -> None:
    array = make(session)
    array[...] = VALUES.astype(">f4")
    np.testing.assert_array_equal(array[...], VALUES)


def test_a_scalar_array(session: Session) -> None:
    array = make(session, shape=(), chunks=())
    assert array[()] == 0
    array[...] = 3
    assert array[()] == 3


def test_an_array_at_the_root(session: Session) -> None:
    array = make(session, name=None, shape=(30,), chunks=(2,), dtype="i4")
    array[:] = np.arange(30)
    assert array[3:20].tolist() == [*range(3, 20)]


def test_paths_that_look_like_chunk_keys(session: Session) -> None:
    array = make(session, name="c/c/0", shape=(30,), chunks=(2,), dtype="i4")
    array[:] = np.arange(30)
    assert array[3:20].tolist() == [*range(3, 20)]


def test_arrays_that_grow_and_shrink(session: Session) -> None:
    array = make(session)
    array[...] = VALUES
    array.resize((45, 20))
    expected = np.zeros((45, 20), "f4")
    expected[:40] = VALUES[:, :20]
    np.testing.assert_array_equal(array[...], expected)
    array[...] = expected + 1
    np.testing.assert_array_equal(array[...], expected + 1)
    array.append(np.full((3, 20), 9, "f4"))
    assert (array[45:] == 9).all()


def test_another_handle_sees_the_old_shape_and_is_still_right(session: Session) -> None:
    array = make(session)
    array[...] = VALUES
    stale = zarr.open_array(session.store, path="a")
    array.resize((10, 10))
    expected = np.zeros_like(VALUES)
    expected[:10, :10] = VALUES[:10, :10]
    expected[10:14, :10] = VALUES[10:14, :10]  # chunks at the edge keep what is beyond it
    expected[:14, 10:12] = VALUES[:14, 10:12]
    np.testing.assert_array_equal(stale[...], expected)


def test_writes_to_read_only_sessions_are_refused_as_before(session: Session) -> None:
    array = make(session)
    array[...] = VALUES
    session.commit("data")
    for fast in (True, False):
        with config.set(fast_zarr=fast), pytest.raises(ReadOnlyError):
            array[0:3] = 1
    store = session.store.with_read_only(True)
    with pytest.raises(ReadOnlyError):
        zarr.open_array(store, path="a")[0:3] = 1


def test_an_array_that_is_gone(session: Session) -> None:
    array = make(session)
    array[...] = VALUES
    del zarr.open_group(session.store)["a"]
    assert not array[...].any()
    with pytest.raises(NodeNotFoundError):
        array[...] = VALUES


async def test_from_async_code(session: Session) -> None:
    array = make(session).async_array
    await array.setitem(..., VALUES)
    parts = await asyncio.gather(*(array.getitem((slice(n, n + 10), n)) for n in range(20)))
    for n, part in enumerate(parts):
        np.testing.assert_array_equal(part, VALUES[n : n + 10, n])


def test_many_threads_at_once(session: Session) -> None:
    dask = pytest.importorskip("dask.array")
    array = make(session, chunks=(5, 3))
    blocks = dask.from_array(VALUES, chunks=(10, 6))
    blocks.store(array, lock=False)
    np.testing.assert_array_equal(dask.from_array(array, chunks=(10, 15)).compute(), VALUES)


class OwnBuffer(cpu.NDBuffer):
    """What somebody may use for memory of another kind."""


def test_buffers_of_other_kinds_are_zarrs_matter(session: Session) -> None:
    array = make(session)
    array[...] = VALUES
    prototype = BufferPrototype(buffer=cpu.Buffer, nd_buffer=OwnBuffer)
    found = array.get_basic_selection(slice(3, 9), prototype=prototype)
    np.testing.assert_array_equal(found, VALUES[3:9])


def test_strings_and_records(session: Session) -> None:
    texts: npt.NDArray[Any] = np.array(["", "a", "δθ", "b" * 50] * 5, object)
    array = make(session, shape=(20,), chunks=(3,), dtype="str")
    array[:] = texts
    assert array[:].tolist() == texts.tolist()
    assert isinstance(array.async_array.codec_pipeline, BulkPipeline)


def test_damage_names_the_array_and_the_chunk(tmp_path: Path) -> None:
    repository = Repository.create(LocalStorage(str(tmp_path)))
    session = repository.writable_session("main")
    codec = ZstdCodec(level=1)
    make(session, chunks=(20, 15), compressors=[codec])[...] = np.random.default_rng(0).random(
        VALUES.shape, "f4"
    )
    session.commit("data")
    for file in (tmp_path / "chunks").iterdir():
        blob = bytearray(file.read_bytes())
        blob[0:4] = b"\0\0\0\0"
        file.write_bytes(blob)
    array = zarr.open_array(repository.readonly_session("main").store, path="a", mode="r")
    with pytest.raises(FormatError, match=r"array=/a, chunk=\(1, 0\)"):
        _ = array[20:40, 0:15]
    for file in (tmp_path / "chunks").iterdir():
        file.unlink()
    with pytest.raises(StorageError, match="chunks/"):
        _ = array[...]
