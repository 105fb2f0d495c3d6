"""Readers compare chunks with the checksums that were recorded for them, if they are told to."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pytest
import zarr

import frazil
from frazil import FormatError, Repository, Session
from frazil.statistics import files
from frazil.storage.memory import MemoryStorage

Read: TypeAlias = Callable[[Session], npt.NDArray[np.float32]]
ALL = np.arange(8.0, dtype="f4")


def by_zarr(session: Session) -> npt.NDArray[np.float32]:
    return np.asarray(zarr.open_array(session.store, path="a", mode="r")[...], "f4")


def by_zarr_alone(session: Session) -> npt.NDArray[np.float32]:
    with frazil.config.set(fast_zarr=False):
        return by_zarr(session)


def by_another_process(session: Session) -> npt.NDArray[np.float32]:
    return by_bulk(pickle.loads(pickle.dumps(session)))


def by_bulk(session: Session) -> npt.NDArray[np.float32]:
    return np.asarray(session.array("a")[...], "f4")


def by_one(session: Session) -> npt.NDArray[np.float32]:
    return np.concatenate([session.array("a")[start : start + 2] for start in range(0, 8, 2)])


def written(storage: MemoryStorage, *, packed: bool) -> None:
    """A repository with chunks of eight bytes, raw and native, that were analyzed."""
    config = frazil.RepositoryConfig(inline_chunk_threshold_bytes=0)
    repo = Repository.create(storage, config)
    session = repo.writable_session("main")
    zarr.create_array(
        session.store, name="a", shape=(8,), chunks=(2,), dtype="f4", compressors=None, filters=None
    )
    with frazil.config.set(pack_bulk_writes=packed):
        session.array("a")[...] = ALL
    session.commit("write")
    assert repo.audit.analyze().chunks == 4


def damaged(storage: MemoryStorage) -> None:
    """One bit of the first chunk object the other way round."""
    key = next(item.key for item in storage.list("chunks/"))
    data = bytearray(storage.get(key) or b"")
    data[3] ^= 1
    storage.put(key, bytes(data))


def opened(storage: MemoryStorage, *, verify: bool) -> Session:
    with frazil.config.set(verify_chunks=verify):
        return Repository.open(storage).readonly_session("main")


@pytest.mark.parametrize("packed", [True, False])
@pytest.mark.parametrize("read", [by_bulk, by_one, by_zarr, by_zarr_alone, by_another_process])
def test_a_flipped_bit_is_an_error_that_names_the_chunk(read: Read, packed: bool) -> None:
    storage = MemoryStorage()
    written(storage, packed=packed)
    np.testing.assert_array_equal(read(opened(storage, verify=True)), ALL)
    damaged(storage)
    with pytest.raises(FormatError, match=r"changed since they were analyzed.*key=chunks/"):
        read(opened(storage, verify=True))
    assert (read(opened(storage, verify=False)) != ALL).sum() == 1, "raw chunks have no checksum"


def test_the_error_names_the_array_and_the_chunk() -> None:
    storage = MemoryStorage()
    written(storage, packed=True)
    damaged(storage)
    with pytest.raises(FormatError) as caught:
        by_bulk(opened(storage, verify=True))
    assert (caught.value.facts["array"], caught.value.facts["chunk"]) == ("/a", (0,))


def test_a_handle_with_other_settings_verifies_too() -> None:
    storage = MemoryStorage()
    written(storage, packed=True)
    damaged(storage)
    with frazil.config.set(verify_chunks=True):
        repo = Repository.open(storage)
    with pytest.raises(FormatError):
        by_bulk(repo.reopen(frazil.RepositoryConfig()).readonly_session("main"))


def test_damage_is_not_copied_into_a_chunk_that_is_written_in_part() -> None:
    storage = MemoryStorage()
    written(storage, packed=True)
    damaged(storage)
    with frazil.config.set(verify_chunks=True):
        session = Repository.open(storage).writable_session("main")
    with pytest.raises(FormatError):
        session.array("a")[1] = 7.0


def test_chunks_that_were_not_analyzed_are_read() -> None:
    storage = MemoryStorage()
    written(storage, packed=True)
    session = Repository.open(storage).writable_session("main")
    session.array("a")[...] = ALL + 1
    session.commit("others")
    np.testing.assert_array_equal(by_bulk(opened(storage, verify=True)), ALL + 1)


def test_damaged_statistics_are_told(caplog: pytest.LogCaptureFixture) -> None:
    storage = MemoryStorage()
    written(storage, packed=True)
    [item] = storage.list("frazil/statistics/")
    storage.put(item.key, (storage.get(item.key) or b"")[:-3])
    session = opened(storage, verify=True)
    np.testing.assert_array_equal(by_bulk(session), ALL)
    [told] = [each.getMessage() for each in caplog.records if "not compared" in each.getMessage()]
    assert item.key in told
    by_one(session)
    assert len(caplog.records) == 1, "it is told once"


def test_statistics_that_are_too_many_to_be_read_are_told(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage = MemoryStorage()
    written(storage, packed=True)
    [item] = storage.list("frazil/statistics/")
    storage.put(f"{item.key}2", storage.get(item.key) or b"")
    for name in ("INDEX_ROWS", "FILE_ROWS"):
        monkeypatch.setattr(files, name, 4)
    np.testing.assert_array_equal(by_bulk(opened(storage, verify=True)), ALL)
    assert "more statistics than are used" in caplog.text
