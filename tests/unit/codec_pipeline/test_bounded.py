"""Codecs that are left to zarr decode within bounds, and the values are those of zarr's own."""

from __future__ import annotations

import json
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from zarr.abc.codec import BytesBytesCodec
from zarr.core.array_spec import ArraySpec
from zarr.core.buffer import Buffer, default_buffer_prototype
from zarr.registry import register_codec
from zarr.storage import MemoryStore

from frazil import config
from frazil.codec_pipeline.bounded import UNKNOWN, declared_cells
from frazil.errors import FormatError
from frazil.repository import Repository
from frazil.session import Session
from frazil.storage.memory import MemoryStorage
from tests.support.nodes import write_keys

ZSTD: Any = {"name": "zstd", "configuration": {"level": 1, "checksum": False}}


def new_session() -> Session:
    """A session to write in."""
    return Repository.create(MemoryStorage()).writable_session("main")


def read(session: Session) -> list[Any]:
    """All values, through zarr."""
    found: list[Any] = np.asarray(zarr.open_array(session.store, path="a", mode="r")[:]).tolist()
    return found


def written(session: Session, **given: Any) -> zarr.Array[Any]:  # noqa: ANN401 - what zarr takes
    """An array of numbers whose chunks are read by zarr's pipeline: their keys have dots."""
    keys: Any = {"name": "default", "separator": "."}
    return zarr.create_array(
        session.store, name="a", shape=(10,), chunks=(4,), chunk_key_encoding=keys, **given
    )


@pytest.mark.parametrize(
    "compressors",
    [None, ZSTD, {"name": "gzip", "configuration": {"level": 1}}, [ZSTD, {"name": "crc32c"}]],
)
def test_values_come_back(compressors: Any) -> None:  # noqa: ANN401 - what zarr takes
    session = new_session()
    array = written(session, dtype="i4", compressors=compressors)
    array[:] = np.arange(10)
    array[2:5] = 7
    assert read(session) == [0, 1, 7, 7, 7, 5, 6, 7, 8, 9]


def test_strings_and_shards_come_back() -> None:
    session = new_session()
    texts = written(session, dtype="string", compressors=ZSTD)
    texts[:] = np.array(["a", "", "ccc"] * 3 + ["é"], object)
    assert read(session) == ["a", "", "ccc"] * 3 + ["é"]
    session = new_session()
    keys: Any = {"name": "default", "separator": "."}
    shards = zarr.create_array(
        session.store, name="a", shape=(9,), chunks=(2,), shards=(4,), dtype="i2",
        compressors=ZSTD, chunk_key_encoding=keys,
    )  # fmt: skip
    shards[1:8] = np.arange(7)
    assert read(session) == [0, *range(7), 0]


@pytest.mark.parametrize("keys", ["default", "v2"])
def test_who_does_not_trust_chunks_can_have_smaller_ones_looked_at(keys: Any) -> None:  # noqa: ANN401
    """Both where Frazil decodes for zarr and where zarr does it by our codecs."""
    session = new_session()
    array = zarr.create_array(
        session.store, name="a", shape=(4 << 20,), chunks=(4 << 20,), dtype="u1",
        compressors=ZSTD, chunk_key_encoding={"name": keys, "separator": "."},
    )  # fmt: skip
    array[:] = 7
    with config.set(large_chunk_bytes="1MiB", max_expansion=100):
        for read in (session.array("a"), zarr.open_array(session.store, path="a", mode="r")):
            with pytest.raises(FormatError, match="large_chunk_bytes"):
                read[:5]
    assert session.array("a")[:5].tolist() == [7] * 5


@dataclass(frozen=True)
class Twice(BytesBytesCodec):
    """Stores every byte twice."""

    is_fixed_size = True

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Twice:
        """As registered."""
        return cls()

    def to_dict(self) -> dict[str, Any]:
        """By name."""
        return {"name": "test_twice"}

    async def _decode_single(self, chunk_bytes: Buffer, chunk_spec: ArraySpec) -> Buffer:
        return chunk_bytes[: len(chunk_bytes) // 2]

    async def _encode_single(self, chunk_bytes: Buffer, chunk_spec: ArraySpec) -> Buffer:
        return chunk_bytes + chunk_bytes

    def compute_encoded_size(self, input_byte_length: int, chunk_spec: ArraySpec) -> int:
        """Twice."""
        return 2 * input_byte_length


def test_codecs_that_the_program_registered_are_its_own_business() -> None:
    register_codec("test_twice", Twice)
    session = new_session()
    array = written(session, dtype="u1", compressors=Twice())
    array[:] = 5
    assert read(session) == [5] * 10


def test_installed_codecs_without_bounds_need_a_word(monkeypatch: pytest.MonkeyPatch) -> None:
    register_codec("test_twice", Twice)
    monkeypatch.setattr("frazil.codec_pipeline.bounded._installed", lambda: {"test_twice"})
    session = new_session()
    array = written(session, dtype="u1", compressors=Twice())
    array[:] = 5
    with pytest.raises(FormatError, match="foreign_codecs"):
        read(session)
    with config.set(foreign_codecs=True):
        assert read(session) == [5] * 10


@pytest.mark.parametrize("codec", ["imagecodecs_zstd", "imagecodecs_deflate", "imagecodecs_lzw"])
@pytest.mark.filterwarnings("ignore")
def test_compressors_of_pictures(codec: str) -> None:
    pytest.importorskip("virtual_tiff")
    imagecodecs = pytest.importorskip("imagecodecs")
    values = np.arange(1000, dtype="<u2")
    encode = getattr(imagecodecs, codec.removeprefix("imagecodecs_") + "_encode")
    meta = json.loads(_document(codec))
    session = new_session()
    write_keys(session, {"a/zarr.json": json.dumps(meta).encode()})
    write_keys(session, {"a/c/0": bytes(encode(values.tobytes()))})
    assert read(session) == values.tolist()


def _document(codec: str) -> bytes:
    made = zarr.create_array(MemoryStore(), shape=(1000,), chunks=(1000,), dtype="<u2")
    found: dict[str, Any] = made.metadata.to_dict()
    found["codecs"] = [{"name": "bytes", "configuration": {"endian": "little"}}, {"name": codec}]
    return json.dumps(found, default=lambda value: value.to_dict()).encode()


JPEG = b"\xff\xd8\xff\xe0\x00\x04xx\xff\xc0\x00\x11\x08" + struct.pack(">HHB", 300, 200, 3)
PNG = b"\x89PNG\r\n\x1a\n" + bytes(8) + struct.pack(">II", 70, 80)
GRIB = (
    b"GRIB\0\0\0\x02" + bytes(8) + struct.pack(">IB", 5, 1) + struct.pack(">IBBI", 10, 3, 0, 12345)
)


@pytest.mark.parametrize(
    ("codec", "data", "cells"),
    [
        ("imagecodecs_jpeg8", JPEG, 300 * 200 * 3),
        ("imagecodecs_png", PNG, 70 * 80),
        ("gribberish", GRIB, 12345),
        ("imagecodecs_jpeg8", JPEG[:6], UNKNOWN),
        ("gribberish", b"GRIB", UNKNOWN),
        ("imagecodecs_webp", b"", UNKNOWN),
        ("somebody", b"", None),
    ],
)
def test_pictures_say_how_large_they_are(codec: str, data: bytes, cells: int | None) -> None:
    buffer = default_buffer_prototype().buffer.from_bytes(data)
    assert declared_cells(codec, buffer) == cells


def test_a_grib_message_without_values_is_not_decoded_for_ever(tmp_path: Path) -> None:
    pytest.importorskip("eccodes")
    from tests.support.odd.grib import empty_fields

    data = empty_fields("grid_jpeg", tmp_path).read_bytes()
    first, second = (b"GRIB" + each for each in data.split(b"GRIB")[1:])
    buffer = default_buffer_prototype().buffer
    assert declared_cells("gribberish", buffer.from_bytes(first)) == 24
    with pytest.raises(FormatError, match="without values"):
        declared_cells("gribberish", buffer.from_bytes(second))
