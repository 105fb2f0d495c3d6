"""Frames of Zstandard: their ends are found, and damaged ones are refused."""

from __future__ import annotations

import numpy as np
import pytest
import zstandard

from frazil.errors import FormatError
from frazil.formats import envelope
from frazil.formats.frames import frame_end, unpack_frame

RANDOM = np.random.default_rng(3).bytes(300_000)
CONTENTS = {
    "nothing": b"",
    "text": b"a text that is repeated, " * 40,
    "one byte, repeated": bytes(400_000),
    "noise": RANDOM,
    "several kinds of blocks": bytes(200_000) + RANDOM + b"abc" * 100_000,
}


def packed(content: bytes, *, checksum: bool = True) -> bytes:
    """A frame with its size."""
    return zstandard.ZstdCompressor(write_checksum=checksum).compress(content)


@pytest.mark.parametrize("checksum", [True, False])
@pytest.mark.parametrize("name", CONTENTS)
def test_a_frame_ends_before_what_follows(name: str, checksum: bool) -> None:
    frame = packed(CONTENTS[name], checksum=checksum)
    assert frame_end(frame) == len(frame)
    assert frame_end(memoryview(frame + frame)) == len(frame)


@pytest.mark.parametrize("name", CONTENTS)
def test_a_frame_that_is_cut_off_ends_behind_the_data(name: str) -> None:
    frame = packed(CONTENTS[name])
    header = zstandard.frame_header_size(frame) + 1
    for end in {*range(header, min(len(frame), 400)), *range(len(frame) - 5, len(frame))}:
        assert frame_end(frame[:end]) > end


@pytest.mark.parametrize("name", CONTENTS)
def test_a_frame_is_unpacked(name: str) -> None:
    content = CONTENTS[name]
    unpacked = unpack_frame(packed(content), len(content))
    assert bytes(unpacked) == content
    assert unpacked.readonly


def test_what_is_not_one_whole_frame_of_its_size_is_refused() -> None:
    content = CONTENTS["several kinds of blocks"]
    frame = packed(content)
    no_mark = bytearray(frame)
    no_mark[4] &= ~4
    flipped = bytearray(frame)
    flipped[-1] ^= 1
    for bad in (
        frame[:-1],
        frame[:-4],  # a stream would not miss the checksum
        frame[: len(frame) // 2],
        frame + b"\0",
        frame + frame,
        bytes(no_mark),
        bytes(flipped),
    ):
        with pytest.raises(zstandard.ZstdError):
            unpack_frame(bad, len(content))
    for size in (len(content) - 1, len(content) + 1):
        with pytest.raises(zstandard.ZstdError):
            unpack_frame(frame, size)


def test_each_flipped_bit_of_a_frame_is_noticed() -> None:
    content = CONTENTS["text"]
    frame = packed(content)
    for bit in range(8 * len(frame)):
        damaged = bytearray(frame)
        damaged[bit // 8] ^= 1 << bit % 8
        try:
            unpacked = bytes(unpack_frame(bytes(damaged), len(content)))
        except zstandard.ZstdError:
            continue
        assert unpacked == content  # a bit that the format does not use


def test_large_bodies_are_unpacked_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    frame = packed(CONTENTS["text"])
    small = envelope.unpack(frame, limit=10_000, key="k")
    monkeypatch.setattr(envelope, "LARGE_BODY", 1)
    large = envelope.unpack(frame, limit=10_000, key="k")
    assert isinstance(large, memoryview)
    assert large == small
    for damaged in (frame[:-3], frame + b"\0", frame[:9] + b"\xff" + frame[10:]):
        with pytest.raises(FormatError, match="damaged zstd data"):
            envelope.unpack(damaged, limit=10_000, key="k")
    with pytest.raises(FormatError, match="unpacks to more"):
        envelope.unpack(frame, limit=10, key="k")
