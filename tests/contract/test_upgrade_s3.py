"""Repositories from before spec 1 are upgraded in an object store, which copies chunks itself."""

from __future__ import annotations

from uuid import uuid4

import pytest

from frazil.repository import Repository
from frazil.storage.credential_functions import containers_credentials, s3_static_credentials
from frazil.storage.object import ObjectStorage
from frazil.upgrade import clean_upgrade, undo_upgrade, upgrade_older
from tests.support.ages import AT_ONCE
from tests.support.old_repositories import files_at, make_small, told
from tests.support.s3_places import place_on
from tests.support.servers import S3Server


@pytest.mark.slow
@pytest.mark.parametrize(("spec", "to"), [("g1", 1), ("g2", 2), ("g3", 1), ("3a", 2)])
def test_upgrade_undo_and_cleaning(s3_server: S3Server, spec: str, to: int) -> None:
    storage = ObjectStorage(place_on(s3_server, f"older/{uuid4().hex}"))
    make_small(storage, spec)
    before, files = told(Repository.open(storage)), files_at(storage)
    upgrade_older(storage, to=to)
    assert Repository.open(storage).spec_version == to
    assert told(Repository.open(storage)) == before
    undo_upgrade(storage)
    assert {**files_at(storage), "state.json": None} == {**files, "state.json": None}
    upgrade_older(storage, to=to)
    clean_upgrade(storage, unsafe_minimum_age=AT_ONCE)
    assert told(Repository.open(storage)) == before


@pytest.mark.slow
def test_virtual_chunks(s3_server: S3Server) -> None:
    storage = ObjectStorage(place_on(s3_server, f"older/{uuid4().hex}"))
    make_small(storage, "g2")
    before = told(Repository.open(storage))
    upgrade_older(storage, mode="virtual")
    config = Repository.fetch_config(storage)
    assert config is not None
    (prefix,) = config.virtual_chunk_containers or {}
    key = s3_static_credentials(
        access_key_id=s3_server.access_key_id, secret_access_key=s3_server.secret_access_key
    )
    access = containers_credentials({prefix: key})
    assert told(Repository.open(storage, authorize_virtual_chunk_access=access)) == before
