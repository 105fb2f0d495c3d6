"""Refs in files of their own on S3, where requests are made again, or arrive late."""

from __future__ import annotations

from collections.abc import Iterator
from uuid import uuid4

import pytest

from frazil import Repository, RepositoryConfig, StorageError
from frazil.formats.ref_files import branch_key
from frazil.model.config import StorageRetriesSettings, StorageSettings
from frazil.storage.base import Fetched, LostRace, Storage
from frazil.storage.object import ObjectStorage
from frazil.upgrade import undo_upgrade, upgrade_older
from tests.support.nodes import group_document, write_keys
from tests.support.s3_places import place_on
from tests.support.servers import CuttingProxy, S3Server

CONFIG = RepositoryConfig(inline_chunk_threshold_bytes=0)
DELETION = "POST"
"""How S3 is asked to delete objects, also a single one."""
QUICK = StorageSettings(retries=StorageRetriesSettings(4, 1, 5))


@pytest.fixture
def proxy(s3_server: S3Server) -> Iterator[CuttingProxy]:
    proxy = CuttingProxy(s3_server.port)
    yield proxy
    proxy.close()


@pytest.fixture
def direct(s3_server: S3Server) -> ObjectStorage:
    """The place of a repository of version 1."""
    storage = ObjectStorage(place_on(s3_server, f"refs/{uuid4().hex}"))
    Repository.create(storage, CONFIG, spec_version=1)
    return storage


@pytest.fixture
def behind(direct: ObjectStorage, proxy: CuttingProxy, s3_server: S3Server) -> ObjectStorage:
    """The same place through a bad line."""
    place = place_on(s3_server, direct.place.prefix, proxy.endpoint)
    return ObjectStorage(place, settings=QUICK)


def commit(storage: Storage, branch: str, name: str) -> str:
    session = Repository.open(storage).writable_session(branch)
    write_keys(session, {f"{name}/zarr.json": group_document()})
    return session.commit(name)


def messages(storage: Storage, branch: str) -> list[str]:
    """Of the commits of a branch, newest first."""
    return [info.message for info in Repository.open(storage).ancestry(branch=branch)][:-1]


def test_a_branch_made_again_outlives_the_deletion_of_its_predecessor(
    direct: ObjectStorage, behind: ObjectStorage, proxy: CuttingProxy
) -> None:
    """The reply to the deletion is lost; others take the free name before it is made again."""
    first = commit(direct, "main", "first")
    Repository.open(direct).create_branch("dev", first)
    done: list[str] = []

    def others() -> None:
        Repository.open(direct).create_branch("dev", first)
        done.append(commit(direct, "dev", "theirs"))

    proxy.lose_reply_to(DELETION, then=others)
    Repository.open(behind).delete_branch("dev")
    assert done
    assert messages(direct, "dev") == ["theirs", "first"]


def test_a_deletion_that_the_store_refuses_for_the_moment_is_made_again(
    direct: ObjectStorage, behind: ObjectStorage, proxy: CuttingProxy
) -> None:
    Repository.open(direct).create_branch("dev", commit(direct, "main", "first"))
    proxy.refuse(DELETION, times=2)
    Repository.open(behind).delete_branch("dev")
    assert proxy.cuts == 2
    assert Repository.open(direct).list_branches() == {"main"}
    Repository.open(direct).create_branch("dev", commit(direct, "main", "second"))


def test_a_deletion_that_may_still_arrive_keeps_the_name(
    direct: ObjectStorage, behind: ObjectStorage, proxy: CuttingProxy
) -> None:
    """A request that was swallowed may be on its way: nobody gets what it would delete."""
    first = commit(direct, "main", "first")
    Repository.open(direct).create_branch("dev", first)
    proxy.swallow(DELETION)
    with pytest.raises(StorageError, match="could not be deleted"):
        Repository.open(behind).delete_branch("dev")
    repo = Repository.open(direct)
    assert repo.list_branches() == {"main"}
    with pytest.raises(Exception, match="being deleted"):
        repo.create_branch("dev", first)
    proxy.deliver()
    assert direct.head(branch_key("dev", encoded=False)) is None
    repo.create_branch("dev", first)


def test_a_request_from_before_a_reset_does_not_fit_what_was_reset(direct: ObjectStorage) -> None:
    """A late or repeated one, which expects a version that the store takes from the bytes."""
    first = commit(direct, "main", "first")
    key = branch_key("main", encoded=False)
    old = direct.fetch(key)
    assert isinstance(old, Fetched)
    commit(direct, "main", "second")
    Repository.open(direct).reset_branch("main", first)
    late = direct.put_if(key, b'{"snapshot":"1CECHNKREP0F1RSTCMT0"}', old.version)
    assert isinstance(late, LostRace)
    assert messages(direct, "main") == ["first"]


def test_a_reset_whose_reply_is_lost_is_not_made_twice(
    direct: ObjectStorage, behind: ObjectStorage, proxy: CuttingProxy
) -> None:
    """Somebody else has gone back to what was there before."""
    first = commit(direct, "main", "first")
    second = commit(direct, "main", "second")
    others = Repository.open(direct)
    proxy.lose_reply_to("PUT", then=lambda: others.reset_branch("main", second))
    with pytest.raises(StorageError, match="outcome is unknown"):
        Repository.open(behind).reset_branch("main", first)
    assert messages(direct, "main") == ["second", "first"]


@pytest.mark.parametrize("spec", ["g2", "g3"])
def test_a_commit_after_an_undone_upgrade_outlives_the_deletion_of_the_fence(
    spec: str, s3_server: S3Server, proxy: CuttingProxy
) -> None:
    """It takes the name of the fence before the deletion, whose reply is lost, is made again."""
    direct = ObjectStorage(place_on(s3_server, f"undone/{uuid4().hex}"))
    Repository.create(direct, spec_version=spec)
    commit(direct, "main", "first")
    upgrade_older(direct)
    [fence] = [
        item.key for item in direct.list("") if b'"moved_to"' in (direct.get(item.key) or b"")
    ]
    behind = ObjectStorage(place_on(s3_server, direct.place.prefix, proxy.endpoint), settings=QUICK)
    proxy.lose_reply_to(DELETION, then=lambda: commit(direct, "main", "theirs"), naming=fence)
    undo_upgrade(behind)
    assert proxy.cuts == 1
    assert messages(direct, "main") == ["theirs", "first"]
