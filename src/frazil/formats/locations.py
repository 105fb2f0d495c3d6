"""Virtual locations compressed with a zstd dictionary."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Final, TypeAlias

import numpy as np
import zstandard

from frazil.arrays import I64, U8
from frazil.errors import FormatError
from frazil.model.manifest_config import ManifestVirtualChunkLocationCompressionConfig
from frazil.model.strings import StringPool, opaque_items

MAX_LOCATION: Final = 1024
"""Longest location that readers unpack; longer ones are written as they are."""
MAX_DICTIONARY: Final = 1 << 20
"""Larger dictionaries are taken for damage."""
MAX_UNPACKED: Final = 2**31 - 1
SHORT_LOCATION: Final = 8
"""Where half of the locations are shorter, a dictionary gains nothing."""
SMALLEST_DICTIONARY: Final = 256
"""zstd trains no smaller dictionary."""
FRAME_MAGIC: Final = b"\x28\xb5\x2f\xfd"
ONE_BYTE_SIZE: Final = 0x23
TWO_BYTE_SIZE: Final = 0x63
SHORTEST_FRAME: Final = 12
"""Header of 10 bytes or more, and at least one block header."""

LocationCompression: TypeAlias = ManifestVirtualChunkLocationCompressionConfig
"""When and how locations are compressed; None leaves a setting at its default."""


class PackedStrings(StringPool):
    """A pool of texts that are unpacked when they are asked for.

    One text costs a microsecond. The first use of the whole pool unpacks all of it.
    """

    def __init__(self, packed: bytes, packed_ends: I64, dictionary: bytes, key: str) -> None:
        self._packed = packed
        self._packed_ends = packed_ends
        self._dictionary = dictionary
        self._key = key
        self._lock = threading.Lock()  # a zstd context serves one thread at a time

    def __len__(self) -> int:
        return len(self._packed_ends)

    def _text(self, index: int) -> str:
        start = int(self._packed_ends[index - 1]) if index else 0
        frame = self._packed[start : int(self._packed_ends[index])]
        with self._lock:
            raw = unpack_location(frame, self._unpacker, self._key)
        return decode_location(raw, self._key)

    @property
    def data(self) -> bytes:
        """All texts, one after the other."""
        return self._plain.data

    @property
    def ends(self) -> I64:
        """Where each text ends in `data`."""
        return self._plain.ends

    def __iter__(self) -> Iterator[str]:
        return iter(self._plain)

    @cached_property
    def _unpacker(self) -> zstandard.ZstdDecompressor:
        return unpacker(self._dictionary, self._key)

    @cached_property
    def _plain(self) -> StringPool:
        context = unpacker(self._dictionary, self._key)
        plain = _unpack_all(self._packed, self._packed_ends, context, self._key)
        if not plain.is_utf8():
            raise FormatError("location is not UTF-8", key=self._key)
        return plain

    def __reduce__(self) -> tuple[object, ...]:
        # Contexts of zstd do not pickle.
        return PackedStrings, (self._packed, self._packed_ends, self._dictionary, self._key)


def unpacker(dictionary: bytes, key: str) -> zstandard.ZstdDecompressor:
    """Make a decompressor for the locations of one manifest."""
    if len(dictionary) > MAX_DICTIONARY:
        raise FormatError("location dictionary is too large", key=key, size=len(dictionary))
    if not dictionary:
        return zstandard.ZstdDecompressor()
    try:
        trained = zstandard.ZstdCompressionDict(dictionary)
        context = zstandard.ZstdDecompressor(dict_data=trained)
    except zstandard.ZstdError as error:
        raise FormatError(f"damaged location dictionary: {error}", key=key) from error
    return context


def unpack_location(frame: bytes, context: zstandard.ZstdDecompressor, key: str) -> bytes:
    """Unpack one location, of at most 1024 bytes."""
    try:
        declared = zstandard.frame_content_size(frame)
        if declared > MAX_LOCATION:
            raise FormatError("location is longer than is allowed", key=key, size=declared)
        if declared >= 0:
            return context.decompress(frame)
        with context.stream_reader(frame) as stream:
            text = stream.read(MAX_LOCATION + 1)
    except zstandard.ZstdError as error:
        raise FormatError(f"damaged location: {error}", key=key) from error
    if len(text) > MAX_LOCATION:
        raise FormatError("location is longer than is allowed", key=key)
    return text


def decode_location(raw: bytes, key: str) -> str:
    """Read a location as text."""
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        raise FormatError("location is not UTF-8", key=key) from error


def _unpack_all(
    packed: bytes, ends: I64, context: zstandard.ZstdDecompressor, key: str
) -> StringPool:
    """Unpack many locations, within the limit of each and of all together."""
    starts = ends - np.diff(ends, prepend=0)
    sizes = _declared_sizes(np.frombuffer(packed, np.uint8), starts, ends)
    if sizes is None or "multi_decompress_to_buffer" not in zstandard.backend_features:
        return _unpack_each(packed, starts, ends, context, key)
    if int(sizes.max()) > MAX_LOCATION or int(sizes.sum()) > MAX_UNPACKED:
        raise FormatError("locations unpack to more than is allowed", key=key)
    segments = np.stack([starts, ends - starts], axis=1).astype("<u8")
    try:
        frames = zstandard.BufferWithSegments(packed, segments.tobytes())
        texts = context.multi_decompress_to_buffer(frames)
    except zstandard.ZstdError as error:
        raise FormatError(f"damaged location: {error}", key=key) from error
    data = b"".join([texts[i].tobytes() for i in range(len(texts))])
    return StringPool(data, np.cumsum(sizes, dtype=np.int64))


def _unpack_each(
    packed: bytes, starts: I64, ends: I64, context: zstandard.ZstdDecompressor, key: str
) -> StringPool:
    total, texts = 0, []
    for start, end in zip(starts.tolist(), ends.tolist(), strict=True):
        texts.append(unpack_location(packed[start:end], context, key))
        total += len(texts[-1])
        if total > MAX_UNPACKED:
            raise FormatError("locations unpack to more than is allowed", key=key)
    lengths = np.fromiter(map(len, texts), np.int64, len(texts))
    return StringPool(b"".join(texts), np.cumsum(lengths, dtype=np.int64))


def _declared_sizes(packed: U8, starts: I64, ends: I64) -> I64 | None:
    """Content sizes from the frame headers, if all frames may be unpacked in one batch.

    They must be of the form that writers of this format make: magic, descriptor, dictionary id
    of 4 bytes, and the size in one byte, or in two from 256 on.
    """
    if not len(starts) or int((ends - starts).min()) < SHORTEST_FRAME:
        return None
    head = opaque_items(packed, SHORTEST_FRAME)[starts].view(np.uint8).reshape(-1, SHORTEST_FRAME)
    if (head[:, :4] != np.frombuffer(FRAME_MAGIC, np.uint8)).any():
        return None
    form = head[:, 4]
    is_long = form == TWO_BYTE_SIZE
    if not (is_long | (form == ONE_BYTE_SIZE)).all():
        return None
    size = head[:, 9].astype(np.int64)
    size = np.where(is_long, size + head[:, 10].astype(np.int64) * 256 + 256, size)
    # An empty text makes the batch function of zstandard 0.25 free memory twice.
    return size if size.all() else None


def train(samples: Sequence[str], settings: LocationCompression) -> bytes | None:
    """Train a dictionary on locations; None when they are not worth it."""
    size = settings.dictionary_max_size_bytes or 2048
    wanted = settings.dictionary_max_training_samples or 100
    step = max(1, len(samples) // wanted)
    texts = [samples[i].encode() for i in range(0, len(samples), step)][:wanted]
    if size < SMALLEST_DICTIONARY or sum(len(t) < SHORT_LOCATION for t in texts) * 2 >= len(texts):
        return None
    # The trainer wants at least 8 samples, and clearly more text than the dictionary it makes.
    repeats = max(1, -(-8 // len(texts)), -(-size * 2 // sum(map(len, texts))))
    try:
        return zstandard.train_dictionary(size, [*(texts * repeats)]).as_bytes()
    except zstandard.ZstdError:
        return None


def pack(texts: StringPool, dictionary: bytes, level: int) -> StringPool:
    """Compress each text into a frame of its own; the result is a pool of frames, not of texts."""
    context = zstandard.ZstdCompressor(
        level=level,
        dict_data=zstandard.ZstdCompressionDict(dictionary),
        write_content_size=True,
        write_checksum=False,
        write_dict_id=True,
    )
    frames = [context.compress(text.encode()) for text in texts]
    ends = np.cumsum([len(frame) for frame in frames], dtype=np.int64)
    return StringPool(b"".join(frames), ends)
