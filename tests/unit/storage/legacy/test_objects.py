"""Legacy files as records: what sessions read and write without bytes of spec 1."""

from __future__ import annotations

import pytest

from frazil.errors import InvalidInputError
from frazil.ids import SnapshotId
from frazil.repository import Repository
from frazil.storage.legacy.objects import LegacyAssets
from frazil.storage.memory import MemoryStorage
from frazil.transaction.opened import context_of
from tests.support.generations import OLD, Spec
from tests.support.nodes import group_document, write_keys


@pytest.mark.parametrize("spec", OLD)
def test_snapshots_are_records(spec: Spec) -> None:
    repository = Repository.create(MemoryStorage(), spec_version=spec)
    session = repository.writable_session("main")
    write_keys(session, {"b/zarr.json": group_document(), "zarr.json": group_document()})
    made = SnapshotId.parse(session.commit("one", {"z": (1, 2), "a": {"y": 1, "b": 2}}))
    assets = context_of(repository).assets
    assert isinstance(assets, LegacyAssets)
    snapshot = assets.snapshot(made)
    assert isinstance(snapshot.nodes, tuple)
    assert [node.path for node in snapshot.nodes] == ["/", "/b"]
    assert snapshot.metadata == {"a": {"y": 1, "b": 2}, "z": [1, 2]}


@pytest.mark.parametrize("spec", OLD)
def test_metadata_that_newer_generations_cannot_hold_is_refused(spec: Spec) -> None:
    repository = Repository.create(MemoryStorage(), spec_version=spec)
    session = repository.writable_session("main")
    write_keys(session, {"zarr.json": group_document()})
    with pytest.raises(InvalidInputError, match="metadata cannot hold"):
        session.commit("one", {"n": 2**70})
