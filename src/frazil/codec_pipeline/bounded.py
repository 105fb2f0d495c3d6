"""Codecs that are left to zarr, kept within the memory that a chunk of their array may take.

Where we know a codec ours decodes, which is told a limit. Of pictures and GRIB messages the size
is read from their head first. Others take as much as the bytes tell them to: those that the
program itself has registered are its own business, those that merely are installed, so that any
repository may name them, are refused unless `foreign_codecs` is switched on.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cache
from importlib.metadata import entry_points
from typing import Any, Final, Self, TypeAlias

from zarr.abc.codec import ArrayBytesCodec, BytesBytesCodec, Codec, CodecPipeline
from zarr.codecs import BytesCodec, ShardingCodec, VLenBytesCodec, VLenUTF8Codec
from zarr.core.array_spec import ArraySpec
from zarr.core.buffer import Buffer, NDBuffer
from zarr.core.codec_pipeline import BatchedCodecPipeline

from frazil import config
from frazil.bulk.codecs import MAX_VARIABLE, damaged, require_justified, wrong_size
from frazil.bulk.compressors import ByteCodec, byte_codec
from frazil.codec_pipeline.pictures import declared_cells
from frazil.errors import ErrorKind, FormatError
from frazil.formats.bounds import ALLOWANCE, justified

Spec: TypeAlias = ArraySpec

STRINGS: Final = (VLenUTF8Codec, VLenBytesCodec)
SAME_SIZE: Final = ("virtual_tiff.ChunkyCodec", "ChunkyCodec")
"""Codecs of others that make as many bytes as an array has."""
ROOM: Final = 64 << 10


def within_bounds(pipeline: CodecPipeline) -> CodecPipeline:
    """The same pipeline, in which no codec takes more memory than a chunk of its array may."""
    if not isinstance(pipeline, BatchedCodecPipeline):
        return pipeline
    inside: tuple[BytesBytesCodec, ...] = ()
    for codec in pipeline.bytes_bytes_codecs:
        inside = (*inside, _bounded(codec, pipeline.array_bytes_codec, inside))
    serializer = pipeline.array_bytes_codec
    if isinstance(serializer, ShardingCodec):
        serializer = _sharding(serializer)
    elif not isinstance(serializer, (BytesCodec, BoundedSerializer)):
        serializer = BoundedSerializer(serializer)
    return replace(pipeline, array_bytes_codec=serializer, bytes_bytes_codecs=inside)


def _bounded(
    codec: BytesBytesCodec, serializer: ArrayBytesCodec, inside: tuple[BytesBytesCodec, ...]
) -> BytesBytesCodec:
    if isinstance(codec, BoundedCodec):
        return codec
    return BoundedCodec(codec, serializer, inside)


def _sharding(codec: ShardingCodec) -> ShardingCodec:
    """Shards whose inner chunks are decoded within bounds."""
    serializer = next(each for each in codec.codecs if isinstance(each, ArrayBytesCodec))
    made: list[Codec] = []
    inside: tuple[BytesBytesCodec, ...] = ()
    for each in codec.codecs:
        if isinstance(each, BytesBytesCodec):
            inside = (*inside, _bounded(each, serializer, inside))
            made.append(inside[-1])
        elif isinstance(each, (ShardingCodec, BytesCodec, BoundedSerializer)):
            made.append(_sharding(each) if isinstance(each, ShardingCodec) else each)
        else:
            made.append(BoundedSerializer(each) if isinstance(each, ArrayBytesCodec) else each)
    return ShardingCodec(
        chunk_shape=codec.chunk_shape,
        codecs=made,
        index_codecs=codec.index_codecs,
        index_location=codec.index_location,
    )


def unbounded(codec: Codec) -> Codec:
    """The codec that a bounded one is about, or the codec itself."""
    return codec.codec if isinstance(codec, (BoundedCodec, BoundedSerializer)) else codec


class _Wrapper:
    """What wrapped codecs leave to the codec that they are about."""

    codec: Any

    @property
    def is_fixed_size(self) -> bool:
        return bool(self.codec.is_fixed_size)

    def evolve_from_array_spec(self, array_spec: Spec) -> Self:
        evolved = self.codec.evolve_from_array_spec(array_spec)
        return replace(self, codec=evolved)  # type: ignore[type-var]  # all are dataclasses

    def to_dict(self) -> dict[str, Any]:
        found: dict[str, Any] = self.codec.to_dict()
        return found

    def compute_encoded_size(self, input_byte_length: int, chunk_spec: Spec) -> int:
        size: int = self.codec.compute_encoded_size(input_byte_length, chunk_spec)
        return size

    def resolve_metadata(self, chunk_spec: Spec) -> Spec:
        found: Spec = self.codec.resolve_metadata(chunk_spec)
        return found

    def validate(self, **about: Any) -> None:  # noqa: ANN401 - differs between releases
        self.codec.validate(**about)

    async def _encode_single(self, chunk: Any, chunk_spec: Spec) -> Buffer | None:  # noqa: ANN401 - a buffer
        (found,) = await self.codec.encode([(chunk, chunk_spec)])
        encoded: Buffer | None = found
        return encoded

    async def _decode_by_theirs(self, chunk_bytes: Buffer, chunk_spec: Spec) -> Any:  # noqa: ANN401 - a buffer
        (found,) = await self.codec.decode([(chunk_bytes, chunk_spec)])
        return found


@dataclass(frozen=True)
class BoundedCodec(_Wrapper, BytesBytesCodec):  # type: ignore[override]  # of the codec it is about
    """A codec from bytes to bytes that is told how much a chunk may become."""

    codec: BytesBytesCodec
    serializer: ArrayBytesCodec
    inside: tuple[BytesBytesCodec, ...]
    """codecs between it and the serializer"""

    def _ours(self, spec: Spec) -> ByteCodec | None:
        name, given = _named(self.codec)
        return byte_codec(name, given, spec.dtype.to_native_dtype())

    def limit(self, spec: Spec, encoded: int) -> int:
        """No encoder has made its bytes of more."""
        limit = _serialized_limit(self.serializer, spec, encoded)
        for codec in self.inside:
            ours = codec._ours(spec) if isinstance(codec, BoundedCodec) else None
            limit = 2 * limit + ROOM if ours is None else ours.limit(limit)
        return limit

    async def _decode_single(self, chunk_bytes: Buffer, chunk_spec: Spec) -> Buffer:
        ours = self._ours(chunk_spec)
        limit = self.limit(chunk_spec, len(chunk_bytes))
        require_justified(limit, len(chunk_bytes))
        if ours is not None:
            data = await asyncio.to_thread(ours.decode, chunk_bytes.to_bytes(), limit)
            return chunk_spec.prototype.buffer.from_bytes(bytes(data))
        _require_bounded(self.codec, chunk_bytes, limit)
        found: Buffer = await self._decode_by_theirs(chunk_bytes, chunk_spec)
        return found


@dataclass(frozen=True)
class BoundedSerializer(_Wrapper, ArrayBytesCodec):  # type: ignore[override]  # likewise
    """A codec from arrays to bytes that takes no more memory than its chunk."""

    codec: ArrayBytesCodec

    async def _decode_single(self, chunk_bytes: Buffer, chunk_spec: Spec) -> NDBuffer:
        cells = math.prod(chunk_spec.shape)
        if isinstance(self.codec, STRINGS):
            count = int.from_bytes(chunk_bytes[:4].to_bytes(), "little")
            if count != cells or len(chunk_bytes) < 4 + 4 * count:
                raise wrong_size(count, cells)
        elif _named(self.codec)[0] not in SAME_SIZE:
            _require_bounded(self.codec, chunk_bytes, cells)
        found: NDBuffer = await self._decode_by_theirs(chunk_bytes, chunk_spec)
        return found


def _serialized_limit(serializer: ArrayBytesCodec, spec: Spec, encoded: int) -> int:
    cells = math.prod(spec.shape)
    size = cells * spec.dtype.to_native_dtype().itemsize
    codec = serializer.codec if isinstance(serializer, BoundedSerializer) else serializer
    if isinstance(codec, STRINGS):
        return justified(encoded, MAX_VARIABLE, max(ALLOWANCE, 4 + 8 * cells))
    if isinstance(codec, ShardingCodec):
        inner = math.prod(codec.chunk_shape) or 1
        return 4 * size + (ROOM + 16) * (cells // inner) + ROOM
    return size


def _require_bounded(codec: Codec, chunk: Buffer, limit: int) -> None:
    """Refuse a codec of which nobody knows how much memory it takes.

    Raises:
        FormatError: it is one, or the chunk says that it is larger than its array's chunks are.
    """
    name, _ = _named(codec)
    declared = declared_cells(name, chunk)
    if declared is not None:
        if declared > limit:
            raise damaged("it says that it is larger than chunks of its array", found=declared)
        return
    if config.current().foreign_codecs or not _is_installed(name, codec):
        return
    raise FormatError(
        f"the chunks are encoded by {name!r}, a codec of another package that takes as much memory "
        "as the bytes tell it to; if you trust the repository, allow such codecs with "
        "frazil.config.set(foreign_codecs=True)",
        kind=ErrorKind.UNIMPLEMENTED,
    )


def _named(codec: Codec) -> tuple[str, dict[str, Any]]:
    told: Any = codec.to_dict()
    return str(told.get("name")), dict(told.get("configuration") or {})


def _is_installed(name: str, codec: Codec) -> bool:
    """Whether a codec came with zarr or another package, and not by a call of the program."""
    return type(codec).__module__.partition(".")[0] in ("zarr", "numcodecs") or name in _installed()


@cache
def _installed() -> frozenset[str]:
    groups: Iterable[str] = ("zarr.codecs", "zarr")
    return frozenset(each.name for group in groups for each in entry_points(group=group))
