"""Damage is seen: a flipped bit in a file of ours is an error, or changes nothing that is read."""

from __future__ import annotations

import random
from typing import Any, Final

import numpy as np
import pytest
import zarr
from zarr.codecs import BytesCodec, Crc32cCodec, ShardingCodec, ZstdCodec

from frazil.errors import FrazilError
from frazil.formats.envelope import has_checksum
from frazil.formats.legacy.header import header_size
from frazil.fsck import fsck
from frazil.fsck.findings import Code
from frazil.repository import Repository
from frazil.storage.memory import MemoryStorage
from tests.support.runners import Elsewhere

SAMPLED: Final = 60
"""Bits of each file."""
METADATA: Final = ("repo", "snapshots/", "manifests/", "transactions/")
CODECS: Final[dict[str, dict[str, Any]]] = {
    "raw": {"compressors": [Crc32cCodec()]},
    "zstd": {"compressors": [ZstdCodec(), Crc32cCodec()]},
    "shards": {"shards": (3000,), "compressors": [Crc32cCodec()]},
}


def build(spec: int | str, **codecs: object) -> dict[str, bytes]:
    """The objects of a repository with two arrays of noise."""
    storage = MemoryStorage()
    session = Repository.create(storage, spec_version=spec).writable_session("main")
    group = zarr.group(session.store, attributes={"title": "noise"})
    noise = np.random.default_rng(1)
    for name in ("a", "b"):
        given: dict[str, Any] = {"attributes": {"scale_factor": 0.01}, **codecs}
        made = group.create_array(name, shape=(6000,), chunks=(1500,), dtype="f4", **given)
        made[:] = noise.standard_normal(6000).astype("f4")
    session.commit("noise", {"by": "me"})
    return {item.key: storage.get(item.key) or b"" for item in storage.list("")}


def stored(objects: dict[str, bytes], key: str, data: bytes) -> MemoryStorage:
    """The same with other bytes in one place."""
    storage = MemoryStorage()
    for name, old in objects.items():
        storage.put(name, data if name == key else old)
    return storage


def told(storage: MemoryStorage) -> object:
    """All that a reader is told: history, what changed, attributes and values."""
    repository = Repository.open(storage)
    past = [(e.id, e.message, e.written_at, e.metadata) for e in repository.ancestry(branch="main")]
    group = zarr.open_group(repository.readonly_session("main").store, mode="r")
    first = past[-1][0]
    changes = repr(repository.diff(from_snapshot_id=first, to_branch="main"))
    arrays = {
        name: (array[...].tobytes(), array.shape, dict(array.attrs))  # type: ignore[union-attr]
        for name, array in group.arrays()
    }
    return past, changes, dict(group.attrs), arrays


def flipped(data: bytes, seed: int) -> list[tuple[int, bytes]]:
    """Some bits, each alone the other way round."""
    bits = random.Random(seed).sample(range(8 * len(data)), min(SAMPLED, 8 * len(data)))
    found = []
    for bit in bits:
        changed = bytearray(data)
        changed[bit // 8] ^= 1 << bit % 8
        found.append((bit, bytes(changed)))
    return found


def is_the_same_or_refused(storage: MemoryStorage, truth: object) -> bool:
    """Whether a reader is told the truth, or an error."""
    try:
        return told(storage) == truth
    except FrazilError:
        return True


@pytest.mark.parametrize("spec", [1, 2])
def test_no_flipped_bit_of_metadata_changes_what_is_read(spec: int) -> None:
    objects = build(spec)
    truth = told(stored(objects, "", b""))
    for key, data in objects.items():
        if not key.startswith(METADATA):
            continue
        for bit, changed in flipped(data, len(key)):
            # A name of a writer in the header is nobody's value.
            assert is_the_same_or_refused(stored(objects, key, changed), truth), (key, bit)


@pytest.mark.parametrize("codecs", CODECS)
def test_no_flipped_bit_of_a_chunk_with_a_checksum_changes_what_is_read(codecs: str) -> None:
    objects = build(2, **CODECS[codecs])
    truth = told(stored(objects, "", b""))
    chunks = [key for key in objects if key.startswith("chunks/")]
    for key in chunks[:2]:
        for bit, changed in flipped(objects[key], 7):
            storage = stored(objects, key, changed)
            assert is_the_same_or_refused(storage, truth), (key, bit)


@pytest.mark.parametrize("codecs", CODECS)
def test_a_deep_check_finds_every_flipped_bit_that_a_checksum_covers(codecs: str) -> None:
    objects = build(2, **CODECS[codecs])
    key = next(key for key in objects if key.startswith("chunks/"))
    for bit, changed in flipped(objects[key], 11)[:25]:
        report = fsck(stored(objects, key, changed), deep=True)
        assert Code.CHUNK_DAMAGED in report.codes(), bit
    sound = fsck(stored(objects, "", b""), deep=True)
    assert sound.is_clean
    assert sound.unchecked == {}


@pytest.mark.parametrize("spec", [1, 2])
def test_a_deep_check_finds_every_flipped_bit_of_metadata(spec: int) -> None:
    objects = build(spec)
    truth = told(stored(objects, "", b""))
    for key, data in objects.items():
        if not key.startswith(METADATA):
            continue
        for bit, changed in flipped(data, 3 * len(key))[:15]:
            storage = stored(objects, key, changed)
            found = not fsck(storage, deep=True).is_clean
            assert found or is_the_same_or_refused(storage, truth), (key, bit)


def test_a_deep_check_tells_which_bytes_no_checksum_covers() -> None:
    objects = build(2, compressors=None)
    report = fsck(stored(objects, "", b""), deep=True)
    assert report.unchecked == {"chunks of /a": 24_000, "chunks of /b": 24_000}
    assert report.as_dict()["unchecked"] == report.unchecked
    assert fsck(stored(objects, "", b"")).unchecked == {}


def test_files_of_writers_without_checksums_are_told_too() -> None:
    objects = build(2, compressors=[Crc32cCodec()])
    without = {key: _without_checksum(data) for key, data in objects.items()}
    sizes = {
        folder: sum(len(without[key]) for key in without if key.startswith(folder))
        for folder in ("repo", "snapshots", "manifests", "transactions")
    }
    report = fsck(stored(without, "", b""), deep=True)
    assert report.is_sound
    assert report.unchecked == sizes
    there = fsck(stored(without, "", b""), deep=True, runner=Elsewhere(knows_sizes=False))
    assert there.as_dict() == report.as_dict()


def _without_checksum(data: bytes) -> bytes:
    import zstandard

    from frazil.formats.envelope import HEADER, MAGIC

    if not data.startswith(MAGIC):
        return data
    body = zstandard.ZstdDecompressor().decompress(data[HEADER.size :])
    return data[: HEADER.size] + zstandard.ZstdCompressor().compress(body)


def test_shards_have_a_checksum_in_each_inner_chunk() -> None:
    objects = build(2, serializer=ShardingCodec(chunk_shape=(500,), codecs=[BytesCodec()]),
                    compressors=None)  # fmt: skip
    report = fsck(stored(objects, "", b""), deep=True)
    assert set(report.unchecked) == {"chunks of /a", "chunks of /b"}


def test_refs_of_version_1_are_told_as_without_a_checksum() -> None:
    objects = build(1, compressors=[Crc32cCodec()])
    refs = sum(len(data) for key, data in objects.items() if key.startswith("refs/"))
    found = fsck(stored(objects, "", b""), deep=True).unchecked
    assert found.pop("refs") == refs
    assert set(found) <= {"config.yaml"}


@pytest.mark.parametrize("generation", ["g1", "g2", "g3"])
def test_deep_checks_of_older_generations_tell_bytes_without_a_checksum(generation: str) -> None:
    objects = build(generation, compressors=None)
    found = fsck(stored(objects, "", b""), deep=True)
    assert found.is_clean
    assert found.unchecked.pop("chunks of /a") == 24_000
    assert found.unchecked.pop("chunks of /b") == 24_000
    plain = {"refs", "config.yaml", "state.json", "icechunk.json"}
    # The files of the second generation are not compressed, and hold nothing but their content.
    files = {"snapshots", "manifests", "transactions"} if generation == "g2" else set()
    assert set(found.unchecked) <= plain | files
    assert sum(found.unchecked.values()) > 0


def test_files_of_older_generations_without_checksums_are_told() -> None:
    objects = build("g3", compressors=None)
    without = {key: _bare(data) for key, data in objects.items()}
    assert sum(without[key] != objects[key] for key in objects) > 0
    found = fsck(stored(without, "", b""), deep=True).unchecked
    for key in (key for key in objects if without[key] != objects[key]):
        assert found[key.partition("/")[0]] > 0


def _bare(data: bytes) -> bytes:
    import zstandard

    size = header_size(data)
    if not has_checksum(data[size:]):
        return data
    body = zstandard.ZstdDecompressor().decompressobj().decompress(data[size:])
    return data[:size] + zstandard.ZstdCompressor().compress(body)
