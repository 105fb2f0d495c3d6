"""Codecs that are left to zarr, kept within the memory that a chunk of their array may take.

Codecs that Frazil implements are decoded by its own implementation, which has a limit. For images
and GRIB messages, the decoded size is read from the header first. All other codecs allocate what
the bytes ask for. Those that the program has registered itself are used. Those that are merely
installed could be named by any repository, and are refused unless `foreign_codecs` is on.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Iterable
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
from frazil.bulk.codecs import (
    FOREIGN,
    MAX_VARIABLE,
    ByteCodec,
    damaged,
    require_justified,
    wrong_size,
)
from frazil.bulk.compressors import byte_codec
from frazil.errors import ErrorKind, FormatError, FrazilError
from frazil.formats.envelope import ALLOWANCE, justified

HEAD: Final = 64 << 10
"""Bytes in which a head must be found."""
UNKNOWN: Final = 1 << 62
"""The size for heads that cannot be parsed, so that they are refused."""
_JPEG_FRAMES: Final = frozenset({*range(0xC0, 0xD0)} - {0xC4, 0xC8, 0xCC})
_GRIB_JPEG2000: Final = frozenset({40, 40000})
_JPEG_ALONE: Final = frozenset({0x01, *range(0xD0, 0xD9)})


def declared_cells(codec: str, chunk: Buffer) -> int | None:
    """Values that a chunk says it holds; None for a codec whose heads we cannot read.

    Of pictures with several values for each point only the points may be counted.
    """
    read = _READERS.get(codec.removeprefix("imagecodecs_"))
    if read is None:
        return None
    head = chunk[: len(chunk) if read is _grib else HEAD].to_bytes()
    try:
        return read(head)
    except IndexError:
        return UNKNOWN


def _number(head: bytes, at: int, size: int, order: str = "big") -> int:
    if at + size > len(head):
        raise IndexError(at)
    return int.from_bytes(head[at : at + size], "little" if order == "little" else "big")


def _jpeg(head: bytes) -> int:
    at = 2
    while True:
        if head[at] != 0xFF:
            return UNKNOWN
        marker = head[at + 1]
        if marker == 0xFF:
            at += 1
        elif marker in _JPEG_ALONE:
            at += 2
        elif marker in _JPEG_FRAMES:
            bands = max(1, head[at + 9])
            return _number(head, at + 5, 2) * _number(head, at + 7, 2) * bands
        else:
            at += 2 + max(2, _number(head, at + 2, 2))


def _png(head: bytes) -> int:
    return _number(head, 16, 4) * _number(head, 20, 4)


def _webp(head: bytes) -> int:
    match head[12:16]:
        case b"VP8 ":
            width, height = _number(head, 26, 2, "little"), _number(head, 28, 2, "little")
            return (width & 0x3FFF) * (height & 0x3FFF)
        case b"VP8L":
            bits = _number(head, 21, 4, "little")
            return ((bits & 0x3FFF) + 1) * ((bits >> 14 & 0x3FFF) + 1)
        case b"VP8X":
            return (_number(head, 24, 3, "little") + 1) * (_number(head, 27, 3, "little") + 1)
    return UNKNOWN


def _jpeg2000(head: bytes) -> int:
    at = head.find(b"\xff\x4f\xff\x51")
    if at < 0:
        return UNKNOWN
    right, bottom, left, top = (_number(head, at + 8 + 4 * n, 4) for n in range(4))
    return max(0, right - left) * max(0, bottom - top) * max(1, _number(head, at + 40, 2))


def _grib(message: bytes) -> int:
    """The points of the grid of a GRIB 2 message.

    Raises:
        FormatError: gribberish would decode it for ever.
    """
    if message[:4] != b"GRIB" or message[7] != 2:
        return UNKNOWN
    points, at, packing = UNKNOWN, 16, 0
    while at + 5 <= len(message) and message[at : at + 4] != b"7777":
        size, section = _number(message, at, 4), message[at + 4]
        if section == 3:
            points = _number(message, at + 6, 4)
        elif section == 5:
            packing = _number(message, at + 9, 2)
        elif section == 7 and packing in _GRIB_JPEG2000 and size <= 5:
            raise damaged("a GRIB message without values, packed as JPEG 2000, cannot be decoded")
        at += max(5, size)
    return points


def _lzw(head: bytes) -> int:
    """0: no header has a size; a code of nine bits or more stands for 4,096 bytes at most."""
    return 0


_READERS: Final[dict[str, Callable[[bytes], int]]] = {
    "jpeg": _jpeg,
    "jpeg8": _jpeg,
    "png": _png,
    "webp": _webp,
    "jpeg2k": _jpeg2000,
    "gribberish": _grib,
    "lzw": _lzw,
    "packbits": _lzw,
}


Spec: TypeAlias = ArraySpec

STRINGS: Final = (VLenUTF8Codec, VLenBytesCodec)
SAME_SIZE: Final = ("virtual_tiff.ChunkyCodec", "ChunkyCodec")
"""Codecs of other packages whose output is as large as the array."""
ROOM: Final = 64 << 10
"""Bytes for headers, beside the estimate of an encoded size."""


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
    """The codec inside a bounded one, or the codec itself."""
    return codec.codec if isinstance(codec, (BoundedCodec, BoundedSerializer)) else codec


class _Wrapper:
    """Delegates to the codec that is wrapped."""

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
        try:
            (found,) = await self.codec.decode([(chunk_bytes, chunk_spec)])
        except FrazilError:
            raise
        except FOREIGN as error:
            raise damaged(f"{_named(self.codec)[0]} cannot decode it: {error}") from error
        return found


@dataclass(frozen=True)
class BoundedCodec(_Wrapper, BytesBytesCodec):  # type: ignore[override]  # of the codec it is about
    """A bytes-to-bytes codec with a limit on the size of the decoded chunk."""

    codec: BytesBytesCodec
    serializer: ArrayBytesCodec
    inside: tuple[BytesBytesCodec, ...]
    """codecs between it and the serializer"""

    def _ours(self, spec: Spec) -> ByteCodec | None:
        name, given = _named(self.codec)
        return byte_codec(name, given, spec.dtype.to_native_dtype())

    def limit(self, spec: Spec, encoded: int) -> int:
        """The largest size that an encoder can have made these bytes from."""
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
    """An array-to-bytes codec that takes no more memory than its chunk."""

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
    """Refuse a codec whose memory use is unknown.

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
    document: Any = codec.to_dict()
    return str(document.get("name")), dict(document.get("configuration") or {})


def _is_installed(name: str, codec: Codec) -> bool:
    """Whether a codec comes from zarr or an installed package, not from a call of the program."""
    return type(codec).__module__.partition(".")[0] in ("zarr", "numcodecs") or name in _installed()


@cache
def _installed() -> frozenset[str]:
    groups: Iterable[str] = ("zarr.codecs", "zarr")
    return frozenset(each.name for group in groups for each in entry_points(group=group))
