"""Zstandard: many small chunks in one call are what they are one by one."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
import zstandard
from hypothesis import example, given, settings
from hypothesis import strategies as st
from zarr.codecs import ZstdCodec

from frazil import FormatError
from frazil.bulk.zstd import Zstd
from tests.unit.bulk.samples import SHAPE, is_harmless, written

SIZE = 600
CODEC = Zstd(0, checksum=False)


def chunk(number: int, size: int = SIZE) -> bytes:
    """Content of a chunk: some pack to a run of one byte, others not at all."""
    match number % 3:
        case 0:
            return bytes([number % 256]) * size
        case 1:
            return np.random.default_rng(number).bytes(size)
    return np.arange(number, number + size, dtype="u2").tobytes()[:size]


def packed(numbers: Sequence[int], *, checksum: bool = False, size: int = SIZE) -> list[bytes]:
    packer = zstandard.ZstdCompressor(write_checksum=checksum)
    return [packer.compress(chunk(number, size)) for number in numbers]


def as_run(frames: Sequence[bytes], size: int = SIZE) -> bytes | None:
    """What one call makes of frames; None if it does not."""
    out = bytearray(len(frames) * size)
    lengths = np.array([len(frame) for frame in frames], np.int64)
    return bytes(out) if CODEC.decode_run(b"".join(frames), lengths, memoryview(out)) else None


def one_by_one(frames: Sequence[bytes], size: int = SIZE) -> bytes | None:
    """What they are each for itself; None if one is damaged."""
    out = bytearray(len(frames) * size)
    try:
        for number, frame in enumerate(frames):
            CODEC.decode_into(frame, memoryview(out)[number * size : (number + 1) * size])
    except FormatError:
        return None
    return bytes(out)


@pytest.mark.parametrize("checksum", [False, True])
@pytest.mark.parametrize("size", [1, 255, 256, SIZE, 70_000, 128 << 10])
def test_chunks_as_writers_make_them_are_decoded_in_one_call(size: int, checksum: bool) -> None:
    frames = packed(range(7), checksum=checksum, size=size)
    assert as_run(frames, size) == b"".join(chunk(number, size) for number in range(7))


@pytest.mark.parametrize("checksum", [False, True])
def test_the_last_checksum_counts(checksum: bool) -> None:
    frames = packed(range(4), checksum=checksum)
    damaged = bytes([*frames[-1][:-1], frames[-1][-1] ^ 1])
    assert as_run([*frames[:-1], damaged]) == one_by_one([*frames[:-1], damaged])


def test_other_frames_are_left_to_be_decoded_one_by_one() -> None:
    plain = packed(range(3))
    stream = zstandard.ZstdCompressor().compressobj()  # does not know its size in advance
    unsized = stream.compress(chunk(3)) + stream.flush()
    two = packed([1], size=200)[0] + packed([2], size=400)[0]
    wide = zstandard.ZstdCompressor().compress(chunk(5, 300 << 10))
    for frame in (unsized, two, *packed([4], size=SIZE + 1), *packed([4], checksum=True)):
        assert as_run([*plain, frame]) is None
    assert as_run([wide, wide], 300 << 10) is None
    assert as_run([b"", *plain]) is None
    assert as_run([b"\x28\xb5\x2f", *plain]) is None


def test_chunks_of_other_sizes_do_not_move_those_after_them() -> None:
    frames = [*packed([1]), *packed([4], size=500), *packed([7], size=700)]
    assert as_run(frames) is None


def test_a_chunk_does_not_go_on_in_the_next() -> None:
    first, second, third = packed([1, 4, 7])
    for cut in range(1, len(first)):
        assert as_run([first[:cut], first[cut:] + second, third]) is None
        assert as_run([first[:cut], second, third]) is None


@settings(max_examples=300)
@given(
    numbers=st.lists(st.integers(0, 20), min_size=2, max_size=5),
    checksum=st.booleans(),
    which=st.integers(0, 4),
    at=st.integers(0, 700),
    how=st.sampled_from(["flip", "cut", "add", "drop"]),
    bit=st.integers(0, 7),
)
@example(numbers=[0, 0], checksum=False, which=0, at=7, how="flip", bit=0)
def test_damage_is_seen_in_both_ways(
    numbers: list[int], checksum: bool, which: int, at: int, how: str, bit: int
) -> None:
    frames = packed(numbers, checksum=checksum)
    frame = bytearray(frames[which % len(frames)])
    at %= len(frame)
    match how:
        case "flip":
            frame[at] ^= 1 << bit
        case "cut":
            del frame[at:]
        case "add":
            frame[at:at] = bytes([bit])
        case _:
            del frame[at]
    frames[which % len(frames)] = bytes(frame)
    found = as_run(frames)
    assert found is None or found == one_by_one(frames)


def test_a_chunk_that_unpacks_to_more_is_refused_early() -> None:
    chain, _, _ = written(compressors=ZstdCodec())
    huge = zstandard.ZstdCompressor(level=1).compress(bytes(256 << 20))
    assert len(huge) < 64 << 10
    assert not is_harmless(chain, huge)
    stream = zstandard.ZstdCompressor(level=1).compressobj()
    unsaid = stream.compress(bytes(64 << 20)) + stream.flush()
    assert not is_harmless(chain, unsaid)


def test_frames_without_size_and_several_frames_decode() -> None:
    chain, _, values = written(compressors=ZstdCodec())
    data = values.tobytes()
    packer = zstandard.ZstdCompressor()
    stream = packer.compressobj()
    unsaid = stream.compress(data) + stream.flush()
    halves = packer.compress(data[:96]) + packer.compress(data[96:])
    for encoded in (unsaid, halves):
        np.testing.assert_array_equal(chain.decode(encoded, SHAPE), values)
        out = np.zeros(SHAPE, "f4")
        chain.decode_into(encoded, out)
        np.testing.assert_array_equal(out, values)
