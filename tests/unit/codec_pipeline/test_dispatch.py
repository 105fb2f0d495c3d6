"""Which pipeline an array gets, and that only arrays in Frazil stores notice."""

from __future__ import annotations

import pickle
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import zarr
from zarr.abc.codec import BytesBytesCodec, CodecPipeline
from zarr.codecs import BytesCodec
from zarr.core.codec_pipeline import BatchedCodecPipeline
from zarr.registry import register_codec, register_pipeline
from zarr.storage import MemoryStore

import frazil
from frazil import config
from frazil.codec_pipeline import FrazilCodecPipeline
from frazil.codec_pipeline.bounded import BoundedCodec
from frazil.codec_pipeline.bulk_pipeline import BulkPipeline
from frazil.repository import Repository
from frazil.session import Session
from frazil.storage.local import LocalStorage
from frazil.storage.memory import MemoryStorage

PATH = "codec_pipeline.path"
OURS = "frazil.codec_pipeline.FrazilCodecPipeline"
ZARRS = "zarr.core.codec_pipeline.BatchedCodecPipeline"


class OtherPipeline(BatchedCodecPipeline):
    """A pipeline that a user has chosen."""


register_pipeline(OtherPipeline)
OTHER = f"{OtherPipeline.__module__}.{OtherPipeline.__qualname__}"


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    with config.set(fast_zarr=True), zarr.config.set({PATH: ZARRS}):
        yield


def new_session() -> Session:
    return Repository.create(MemoryStorage()).writable_session("main")


def pipeline_of(array: Any) -> CodecPipeline:  # noqa: ANN401 - zarr's own types are wide
    found: CodecPipeline = array.async_array.codec_pipeline
    return found


def make_array(store: Any, **more: Any) -> Any:  # noqa: ANN401 - zarr's own types are wide
    return zarr.create_array(store, shape=(10,), chunks=(3,), dtype="i4", **more)


def is_bounded(pipeline: CodecPipeline) -> bool:
    """Whether it is zarr's own, with codecs that know how much memory is theirs."""
    if type(pipeline) is not BatchedCodecPipeline:
        return False
    return all(isinstance(each, BoundedCodec) for each in pipeline.bytes_bytes_codecs)


BEFORE = pipeline_of(make_array(MemoryStore()))
"""What arrays get in stores that are not ours."""


def test_a_store_turns_it_on_and_its_arrays_use_it() -> None:
    assert zarr.config.get(PATH) == ZARRS
    store = new_session().store
    assert zarr.config.get(PATH) == OURS
    assert isinstance(pipeline_of(make_array(store)), BulkPipeline)


def test_other_stores_get_the_very_pipeline_they_had() -> None:
    before = pipeline_of(make_array(MemoryStore()))
    _ = new_session().store
    after = pipeline_of(make_array(MemoryStore()))
    assert type(after) is type(before) is BatchedCodecPipeline
    assert after == before


def test_what_a_user_chose_stays_for_other_stores() -> None:
    with zarr.config.set({PATH: OTHER}):
        store = new_session().store
        assert zarr.config.get(PATH) == f"{OURS}[{OTHER}]"
        assert type(pipeline_of(make_array(MemoryStore()))) is OtherPipeline
        ours = pipeline_of(make_array(store))
        assert isinstance(ours, BulkPipeline)
        assert type(ours.plain) is OtherPipeline
    assert zarr.config.get(PATH) == ZARRS
    assert type(pipeline_of(make_array(MemoryStore()))) is BatchedCodecPipeline


def test_a_block_with_another_pipeline_leaves_no_trace() -> None:
    session = new_session()
    _ = session.store
    with zarr.config.set({PATH: OTHER}):
        _ = session.store
        assert type(pipeline_of(make_array(MemoryStore()))) is OtherPipeline
    assert zarr.config.get(PATH) == OURS
    assert type(pipeline_of(make_array(MemoryStore()))) is BatchedCodecPipeline


def test_a_pipeline_that_looks_at_stores_is_still_asked() -> None:
    class Choosy(OtherPipeline):
        @classmethod
        def from_array_metadata_and_store(cls, array_metadata: Any, store: Any) -> Any:  # noqa: ANN401
            return cls.from_codecs(array_metadata.codecs, batch_size=77)

    register_pipeline(Choosy)
    with zarr.config.set({PATH: f"{Choosy.__module__}.{Choosy.__qualname__}"}):
        _ = new_session().store
        found = pipeline_of(make_array(MemoryStore()))
        assert isinstance(found, Choosy)
        assert found.batch_size == 77


def test_switched_off_by_configuration() -> None:
    with config.set(fast_zarr=False):
        store = new_session().store
        assert is_bounded(pipeline_of(make_array(store)))
        assert pipeline_of(make_array(MemoryStore())) == BEFORE


def test_enable_and_disable() -> None:
    store = new_session().store
    frazil.disable_fast_zarr()
    assert is_bounded(pipeline_of(make_array(store)))
    assert pipeline_of(make_array(MemoryStore())) == BEFORE
    frazil.enable_fast_zarr()
    assert isinstance(pipeline_of(zarr.open_array(store)), BulkPipeline)


def test_disabling_gives_back_what_a_user_chose() -> None:
    with zarr.config.set({PATH: OTHER}):
        store = new_session().store
        frazil.disable_fast_zarr()
        assert type(pipeline_of(make_array(store))) is OtherPipeline
        assert type(pipeline_of(make_array(MemoryStore()))) is OtherPipeline


class Counting(OtherPipeline):
    """Counts calls."""

    reads: int = 0

    async def read(self, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
        Counting.reads += 1
        return await super().read(*args, **kwargs)


register_pipeline(Counting)


def test_switching_off_reaches_arrays_that_are_open() -> None:
    with zarr.config.set({PATH: f"{Counting.__module__}.{Counting.__qualname__}"}):
        array = make_array(new_session().store)
        array[:] = np.arange(10)
        Counting.reads = 0
        assert array[:].tolist() == [*range(10)]
        assert Counting.reads == 0
        with config.set(fast_zarr=False):
            assert array[:].tolist() == [*range(10)]
        assert Counting.reads == 1


def test_a_configured_pipeline_that_does_not_exist_is_left_to_zarr() -> None:
    with zarr.config.set({PATH: "no.such.Pipeline"}):
        _ = new_session().store
        assert zarr.config.get(PATH) == "no.such.Pipeline"


def test_it_can_be_named_in_zarrs_own_configuration() -> None:
    with zarr.config.set({PATH: OURS}):
        assert type(pipeline_of(make_array(MemoryStore()))) is BatchedCodecPipeline
        assert isinstance(pipeline_of(make_array(new_session().store)), BulkPipeline)


@pytest.mark.parametrize(
    "encoding",
    [
        {"name": "default", "separator": "."},
        {"name": "v2", "separator": "."},
        {"name": "v2", "separator": "/"},
    ],
)
def test_keys_of_other_forms_are_zarrs_matter(encoding: Any) -> None:  # noqa: ANN401
    array = make_array(new_session().store, chunk_key_encoding=encoding)
    assert type(pipeline_of(array)) is BatchedCodecPipeline


@dataclass(frozen=True)
class Mirror(BytesBytesCodec):
    """A codec that only this test knows."""

    is_fixed_size = True

    @classmethod
    def from_dict(cls, data: Any) -> Mirror:  # noqa: ANN401 - zarr's own
        return cls()

    def to_dict(self) -> dict[str, Any]:
        return {"name": "test.mirror"}

    async def _decode_single(self, chunk_bytes: Any, chunk_spec: Any) -> Any:  # noqa: ANN401
        return chunk_spec.prototype.buffer.from_bytes(chunk_bytes.to_bytes()[::-1])

    async def _encode_single(self, chunk_bytes: Any, chunk_spec: Any) -> Any:  # noqa: ANN401
        return chunk_spec.prototype.buffer.from_bytes(chunk_bytes.to_bytes()[::-1])

    def compute_encoded_size(self, input_byte_length: int, _chunk_spec: Any) -> int:  # noqa: ANN401
        return input_byte_length


register_codec("test.mirror", Mirror)


def test_a_codec_of_others_is_zarrs_matter() -> None:
    array = make_array(new_session().store, compressors=[Mirror()])
    assert type(pipeline_of(array)) is BatchedCodecPipeline
    array[:] = np.arange(10)
    assert array[2:7].tolist() == [2, 3, 4, 5, 6]


def test_arrays_of_one_place_are_equal() -> None:
    store = new_session().store
    make_array(store)
    one, other = zarr.open_array(store), zarr.open_array(store)
    assert one == other
    assert pipeline_of(one) == pipeline_of(other)
    assert hash(pipeline_of(one)) == hash(pipeline_of(other))


def test_it_has_what_zarrs_own_pipeline_has() -> None:
    array = make_array(new_session().store)
    ours, plain = pipeline_of(array), pipeline_of(make_array(MemoryStore()))
    assert isinstance(ours, BulkPipeline)
    assert isinstance(plain, BatchedCodecPipeline)
    assert [*ours] == [*plain]
    assert ours.array_bytes_codec == plain.array_bytes_codec
    assert not ours.supports_partial_decode
    with pytest.raises(AttributeError):
        _ = ours.nothing_of_this_name


def test_arrays_and_stores_can_be_sent_to_other_processes(tmp_path: Any) -> None:  # noqa: ANN401
    repository = Repository.create(LocalStorage(str(tmp_path)))
    session = repository.writable_session("main")
    make_array(session.store)[:] = np.arange(10)
    session.commit("data")
    array = zarr.open_array(repository.readonly_session("main").store)
    again = pickle.loads(pickle.dumps(array))
    assert isinstance(pipeline_of(again), BulkPipeline)
    assert again[:].tolist() == [*range(10)]
    code = (
        "import sys, pickle, zarr\n"
        "store = pickle.loads(sys.stdin.buffer.read())\n"
        "array = zarr.open_array(store, mode='r')\n"
        "print(type(array.async_array.codec_pipeline).__name__, array[3:5].tolist())\n"
    )
    found = subprocess.run(
        [sys.executable, "-c", code],
        input=pickle.dumps(repository.readonly_session("main").store),
        capture_output=True,
        check=True,
    )
    assert found.stdout.decode().strip() == "BulkPipeline [3, 4]"


def test_no_pipeline_is_made_of_codecs_alone() -> None:
    assert type(FrazilCodecPipeline.from_codecs([BytesCodec()])) is BatchedCodecPipeline
    with pytest.raises(TypeError, match="array in a store"):
        BulkPipeline.from_codecs([BytesCodec()])
