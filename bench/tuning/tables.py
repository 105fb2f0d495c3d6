"""Chunk tables, groups and commits to work on."""

from __future__ import annotations

from functools import cache

import numpy as np
import zarr

from frazil import Repository
from frazil.formats.manifest import encode_manifest
from frazil.ids import ManifestId, NodeId
from frazil.model.chunks import ChunkTable
from frazil.storage.base import Storage
from frazil.storage.memory import MemoryStorage
from frazil.transaction.keyspace import KeySpace

RANDOM = np.random.default_rng(1)
NODE = NodeId(b"node-001")


@cache
def native(count: int, step: int = 1) -> ChunkTable:
    """References of one axis, each to an object of its own; `step` leaves holes."""
    coords = np.arange(0, count * step, step, dtype=np.uint32)[:, None]
    ids = RANDOM.integers(0, 256, (count, 12), np.uint8)
    return ChunkTable.native(coords, ids, 0, 100)


@cache
def manifest(count: int) -> bytes:
    """The file of so many references."""
    return encode_manifest(ManifestId(bytes(12)), {NODE: native(count)}, spec=2)


def put_groups(repo: Repository, count: int, value: int, name: str = "g") -> Repository:
    """Commit so many groups, or change them."""
    session = repo.writable_session("main")
    document = b'{"zarr_format":3,"node_type":"group","attributes":{"n":%d}}' % value
    for number in range(count):
        KeySpace(session.state).set(f"{name}{number}/zarr.json", document)
    session.commit("groups")
    return repo


@cache
def groups(count: int) -> Storage:
    """A repository with so many groups."""
    return put_groups(Repository.create(MemoryStorage()), count, 0).storage


@cache
def references(count: int) -> Storage:
    """A repository with an array of so many virtual references."""
    session = (repo := Repository.create(MemoryStorage())).writable_session("main")
    zarr.create_array(session.store, name="a", shape=(count,), chunks=(1,), dtype="u1")
    at, places = np.arange(count), [f"s3://b/{n}" for n in range(count)]
    session.store.set_virtual_refs_arr("a", (count,), places, at, at + 1, validate_containers=False)
    session.commit("references")
    return repo.storage
