"""Locations of virtual chunks, compressed one by one with a dictionary of their own."""

from __future__ import annotations

import pickle

import pytest

from frazil.errors import FormatError
from frazil.formats.locations import PackedStrings, pack, train, unpack_location, unpacker
from frazil.model.config import ManifestVirtualChunkLocationCompressionConfig as Compression
from frazil.model.strings import StringPool

TEXTS = [
    f"s3://bucket/reanalysis/surface/hourly/{n % 7}/temperature/two-metres/file-{n:05}.nc"
    for n in range(300)
]


def packed() -> tuple[PackedStrings, bytes]:
    dictionary = train(TEXTS, Compression())
    assert dictionary is not None
    frames = pack(StringPool.of(TEXTS), dictionary, 3)
    assert len(frames.data) < sum(map(len, TEXTS)) / 2
    return PackedStrings(frames.data, frames.ends, dictionary, "manifests/X"), dictionary


def test_texts_come_back_one_by_one_and_all_at_once() -> None:
    pool, _ = packed()
    assert pool[17] == TEXTS[17]
    assert len(pool) == len(TEXTS)
    assert list(pool) == pool.tolist() == TEXTS
    assert list(pickle.loads(pickle.dumps(pool))) == TEXTS


def test_short_locations_are_not_worth_a_dictionary() -> None:
    assert train(["a", "b"] * 50, Compression()) is None
    assert train(TEXTS, Compression(dictionary_max_size_bytes=1)) is None


def test_damage_is_told_with_the_file() -> None:
    _, dictionary = packed()
    with pytest.raises(FormatError) as caught:
        unpack_location(b"no frame", unpacker(dictionary, "manifests/X"), "manifests/X")
    assert "manifests/X" in str(caught.value)
