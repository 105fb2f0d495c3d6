"""Regions of arrays in an object store: the same values, and no more requests than needed."""

from __future__ import annotations

from uuid import uuid4

import numpy as np
import pytest
import zarr
import zarr.codecs

from frazil.bulk.read import read_region, read_regions
from frazil.errors import StorageError
from frazil.model.config import RepositoryConfig
from frazil.repository import Repository
from frazil.session import Session
from frazil.storage.object import ObjectStorage
from tests.support.arrays import numbers
from tests.support.s3_places import place_on
from tests.support.servers import S3Server

VALUES = numbers((60, 50), "f4")


@pytest.fixture
def session(s3_server: S3Server) -> Session:
    """A session on S3 with arrays of several layouts."""
    storage = ObjectStorage(place_on(s3_server, f"bulk/{uuid4().hex}"))
    settings = RepositoryConfig(inline_chunk_threshold_bytes=0)
    session = Repository.create(storage, config=settings).writable_session("main")
    group = zarr.create_group(session.store)
    group.create_array("plain", data=VALUES, chunks=(16, 16), compressors=None)
    group.create_array("zstd", data=VALUES, chunks=(16, 16), compressors=zarr.codecs.ZstdCodec())
    group.create_array("shards", data=VALUES, chunks=(4, 8), shards=(16, 16))
    session.commit("x")
    return session


@pytest.mark.slow
def test_regions_come_from_s3(session: Session) -> None:
    for path in ("plain", "zstd", "shards"):
        for part in (np.s_[...], np.s_[3:40:3, 7], np.s_[17:30, 20:49]):
            found = read_region(session, path, part, max_in_flight=4000)
            np.testing.assert_array_equal(found, VALUES[part])
    every = read_regions(session, {"plain": np.s_[0], "shards": np.s_[:, 1], "zstd": ...})
    np.testing.assert_array_equal(every["shards"], VALUES[:, 1])
    np.testing.assert_array_equal(every["zstd"], VALUES)


@pytest.mark.slow
def test_packed_chunks_come_from_s3(session: Session) -> None:
    storage = session.state.context.storage
    writer = Repository.open(storage).writable_session("main")
    writer.array("plain")[...] = VALUES * 2
    writer.commit("packed")
    reader = Repository.open(storage).readonly_session("main").array("plain")
    np.testing.assert_array_equal(reader, VALUES * 2)
    np.testing.assert_array_equal(reader[5:50:7, 3:], 2 * VALUES[5:50:7, 3:])


@pytest.mark.slow
def test_a_missing_object_on_s3_is_named(session: Session) -> None:
    storage = session.state.context.storage
    key = next(iter(storage.list("chunks/"))).key
    storage.delete_many([key])
    with pytest.raises(StorageError, match=key):
        read_regions(session, {"plain": ..., "zstd": ..., "shards": ...})
