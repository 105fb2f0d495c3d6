"""Making and opening repositories: what is asked of the storage, and what is refused."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from frazil.errors import FormatError, StorageError
from frazil.model.config import (
    Attribution,
    CachingConfig,
    RepositoryConfig,
    StorageSettings,
)
from frazil.repository import Repository
from frazil.storage.constructors import s3_storage
from frazil.storage.local import LocalStorage
from frazil.storage.memory import MemoryStorage
from frazil.storage.object import ObjectStorage
from frazil.storage.wrapped import LatencyStorage
from frazil.transaction.opened import context_of
from tests.support.nodes import array_document, group_document, write_keys
from tests.support.servers import REGION
from tests.support.web import WebServer
from tests.support.web import web_server as serve

UNCONDITIONAL = RepositoryConfig(
    storage=StorageSettings(
        unsafe_use_conditional_create=False, unsafe_use_conditional_update=False
    )
)


def careless(web: WebServer) -> ObjectStorage:
    """An S3 storage on a server that ignores conditions on writes."""
    storage = s3_storage(
        bucket="bkt",
        prefix="pre",
        region=REGION,
        endpoint_url=web.url,
        allow_http=True,
        access_key_id="AKIA",
        secret_access_key="secret",
        force_path_style=True,
    )
    assert isinstance(storage, ObjectStorage)
    return storage


def test_a_store_that_ignores_conditions_gets_no_repository() -> None:
    with serve() as web:
        for place in (careless(web), LatencyStorage(careless(web))):
            with pytest.raises(StorageError, match="does not support conditional writes"):
                Repository.create(place, check_clean_root=False)
        assert not [path for path in web.files if "probe" not in path]


def test_whoever_writes_alone_may_do_without_conditions() -> None:
    with serve() as web:
        Repository.create(careless(web), UNCONDITIONAL, check_clean_root=False)
        assert "/bkt/pre/repo" in web.files
        assert not [path for path in web.files if "probe" in path]


@pytest.mark.parametrize(
    ("place", "is_tried"),
    [
        (s3_storage(bucket="b", prefix="p", region=REGION), False),
        (s3_storage(bucket="b", prefix="p", region=REGION, endpoint_url="https://s3.test"), True),
    ],
)
def test_services_that_are_known_are_not_tried(
    place: ObjectStorage, is_tried: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[ObjectStorage] = []
    monkeypatch.setattr(ObjectStorage, "probe_conditional_writes", lambda it: tried.append(it))
    place.require_safe_commits()
    assert tried == [place] * is_tried


def test_all_requests_of_a_repository_carry_its_labels() -> None:
    labels = Attribution(client="wrapper/1.0", workload="wl", principal="me")
    with serve() as web:
        repository = Repository.create(
            careless(web), UNCONDITIONAL, check_clean_root=False, attribution=labels
        )
        repository.reopen().list_branches()
        agents = {headers["user-agent"] for _, _, headers in web.seen}
    assert repository.attribution == labels
    assert len(agents) == 1
    assert agents.pop().endswith("(workload=wl; principal=me)")


def test_the_limit_on_requests_reaches_the_storage() -> None:
    with serve() as web:
        config = UNCONDITIONAL.merge(RepositoryConfig(max_concurrent_requests=3))
        repository = Repository.create(careless(web), config, check_clean_root=False)
    storage = context_of(repository).storage
    assert isinstance(storage, ObjectStorage)
    assert storage.request_limit == 3


def test_ref_names_are_spelled_as_each_store_wants_them() -> None:
    assert not s3_storage(bucket="b", prefix="p").percent_encodes_names
    assert not LatencyStorage(s3_storage(bucket="b", prefix="p")).percent_encodes_names
    assert MemoryStorage().percent_encodes_names


@pytest.mark.parametrize(
    ("version", "complaint"), [(255, "Unsupported version 255"), ("v1", "valid version")]
)
def test_only_known_versions_can_be_created(version: int, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        Repository.create(MemoryStorage(), spec_version=version)


def test_a_cache_that_is_too_small_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    config = RepositoryConfig(caching=CachingConfig(num_chunk_refs=0, num_snapshot_nodes=0))
    repository = Repository.create(MemoryStorage(), config)
    with caplog.at_level(logging.WARNING, "frazil"):
        for number in range(2):
            session = repository.writable_session("main")
            write_keys(
                session,
                {
                    "zarr.json": group_document(number=number),
                    "a/zarr.json": array_document(2),
                    "a/c/0": bytes([number]),
                    "a/c/1": bytes([number]),
                },
            )
            session.commit(f"commit {number}")
    refs, nodes = sorted(record.getMessage() for record in caplog.records)
    assert "2 chunk references" in refs
    assert "num_chunk_refs" in refs
    assert "2 nodes" in nodes
    assert "num_snapshot_nodes" in nodes


def test_a_damaged_manifest_is_named_with_what_was_wanted(tmp_path: Path) -> None:
    storage = LocalStorage(tmp_path)
    session = Repository.create(storage).writable_session("main")
    write_keys(session, {"a/zarr.json": array_document(1), "a/c/0": b"x"})
    session.commit("one chunk")
    (damaged,) = storage.list("manifests/")
    storage.put(damaged.key, b"no manifest")
    store = Repository.open(storage).readonly_session("main").store
    with pytest.raises(FormatError) as caught:
        store.get_sync("a/c/0")
    assert damaged.key in str(caught.value)
    assert caught.value.facts["during"] == "fetch_manifest < get a/c/0"


async def test_the_old_name_for_sizes_is_deprecated_in_both_forms() -> None:
    repository = Repository.create(MemoryStorage())
    with pytest.warns(DeprecationWarning, match="chunk_storage_stats"):
        assert repository.total_chunks_storage() == 0
    with pytest.warns(DeprecationWarning, match="chunk_storage_stats_async"):
        assert await repository.total_chunks_storage_async() == 0
