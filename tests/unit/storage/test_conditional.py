"""Conditional writes to S3 whose replies are lost, and deletions that are made once."""

from __future__ import annotations

from uuid import uuid4

import pytest

from frazil.errors import ErrorKind, StorageError
from frazil.model.config import (
    StorageRetriesSettings,
    StorageSettings,
)
from frazil.storage.base import Deleted, Fetched, LostRace, Version, Written
from frazil.storage.clients import Clients
from frazil.storage.conditional import condition
from frazil.storage.object import ObjectStorage
from tests.support.s3_places import place_on
from tests.support.servers import CuttingProxy, S3Server
from tests.support.web import WebServer
from tests.unit.storage.test_object import on_web

WITHOUT_IDS = StorageSettings(retries=StorageRetriesSettings(4, 1, 5), unsafe_use_metadata=False)


def written(answer: Written | LostRace) -> Version:
    """The version of a write that went well."""
    assert isinstance(answer, Written)
    return answer.version


@pytest.mark.parametrize("keeps_ids", [True, False], ids=["with write ids", "without write ids"])
class TestLostReply:
    """A conditional write whose reply is lost is known as our own."""

    @pytest.fixture
    def storage(self, behind: ObjectStorage, *, keeps_ids: bool) -> ObjectStorage:
        return behind if keeps_ids else behind.with_settings(WITHOUT_IDS)

    def test_a_create_is_ours(self, storage: ObjectStorage, proxy: CuttingProxy) -> None:
        proxy.lose_reply_to("PUT")
        answer = storage.put_if("refs/x", b"ours", None)
        assert proxy.cuts == 1
        found = storage.fetch("refs/x")
        assert isinstance(found, Fetched)
        assert answer == Written(found.version)
        assert storage.put_if("refs/x", b"ours", None) == LostRace("refs/x")

    def test_a_replacement_is_ours(self, storage: ObjectStorage, proxy: CuttingProxy) -> None:
        storage.put("repo", b"one")
        found = storage.fetch("repo")
        assert isinstance(found, Fetched)
        proxy.lose_reply_to("PUT")
        assert isinstance(storage.put_if("repo", b"two", found.version), Written)
        assert (proxy.cuts, storage.get("repo")) == (1, b"two")

    def test_also_when_the_reading_back_fails_at_first(
        self, storage: ObjectStorage, proxy: CuttingProxy
    ) -> None:
        proxy.lose_reply_to("PUT")
        proxy.lose_reply_to("HEAD", times=2)
        assert isinstance(storage.put_if("refs/x", b"ours", None), Written)
        assert proxy.cuts == 3

    def test_somebody_else_is_not_us(self, storage: ObjectStorage, proxy: CuttingProxy) -> None:
        storage.put("refs/x", b"theirs")
        proxy.lose_reply_to("PUT")
        assert storage.put_if("refs/x", b"ours", None) == LostRace("refs/x")
        assert storage.get("refs/x") == b"theirs"

    @pytest.mark.parametrize("is_new", [True, False])
    def test_what_others_replaced_meanwhile_is_in_doubt(
        self, storage: ObjectStorage, proxy: CuttingProxy, s3_server: S3Server, *, is_new: bool
    ) -> None:
        direct = ObjectStorage(place_on(s3_server, storage.place.prefix))
        expected = None if is_new else written(storage.put_if("refs/x", b"old", None))
        proxy.lose_reply_to("PUT", then=lambda: direct.put("refs/x", b"theirs"))
        answer = storage.put_if("refs/x", b"ours", expected)
        assert isinstance(answer, LostRace)
        assert answer.in_doubt
        assert direct.get("refs/x") == b"theirs"

    def test_a_plain_refusal_is_not_in_doubt(
        self, storage: ObjectStorage, proxy: CuttingProxy
    ) -> None:
        storage.put("refs/x", b"theirs")
        answer = storage.put_if("refs/x", b"ours", None)
        assert isinstance(answer, LostRace)
        assert not answer.in_doubt

    def test_plain_writes_are_repeated(self, storage: ObjectStorage, proxy: CuttingProxy) -> None:
        proxy.lose_reply_to("PUT", times=2)
        storage.put("chunks/A", b"bytes")
        assert (proxy.cuts, storage.get("chunks/A")) == (2, b"bytes")


def test_equal_bytes_of_somebody_else_are_not_ours(s3_server: S3Server) -> None:
    storage = ObjectStorage(place_on(s3_server, uuid4().hex))
    assert isinstance(storage.put_if("refs/tag.t/ref.json", b"same", None), Written)
    assert storage.put_if("refs/tag.t/ref.json", b"same", None) == LostRace("refs/tag.t/ref.json")


def test_unconditional_writes_on_request(s3_server: S3Server) -> None:
    storage = ObjectStorage(place_on(s3_server, uuid4().hex)).with_settings(
        StorageSettings(unsafe_use_conditional_create=False, unsafe_use_conditional_update=False)
    )
    storage.put("k", b"old")
    assert isinstance(storage.put_if("k", b"new", None), Written)
    assert isinstance(storage.put_if("k", b"newer", Version('"stale"')), Written)
    assert storage.get("k") == b"newer"


def test_a_store_without_conditional_writes_is_told_so(web_server: WebServer) -> None:
    web_server.answers["*"] = (501, "<Error><Code>NotImplemented</Code></Error>")
    with pytest.raises(StorageError, match="does not support conditional writes") as caught:
        on_web(web_server).put_if("repo", b"x", None)
    assert "unsafe_use_conditional_create" in str(caught.value)


def test_versions_are_compared_without_quotes(web_server: WebServer) -> None:
    on_web(web_server).put_if("repo", b"x", Version('"abc"'))
    assert web_server.headers_of("PUT")[0]["if-match"] == "abc"


# --- the condition of a write ---


def test_a_store_that_gives_no_versions_cannot_replace_safely(s3_server: S3Server) -> None:
    clients = Clients(place_on(s3_server, "none"), StorageSettings())
    assert condition(clients, "repo", None) == "create"
    assert condition(clients, "repo", Version('"abc"')) == {"e_tag": "abc"}
    assert condition(clients, "repo", Version(None, "7")) == {"version": "7"}
    with pytest.raises(StorageError, match="does not support conditional writes") as caught:
        condition(clients, "repo", Version(None))
    assert caught.value.kind is ErrorKind.STORAGE_CONFIG
    assert "it gives no versions" in str(caught.value)


def test_each_condition_can_be_switched_off_alone(s3_server: S3Server) -> None:
    place, version = place_on(s3_server, "none"), Version('"abc"')
    creates = Clients(place, StorageSettings(unsafe_use_conditional_update=False))
    assert (condition(creates, "k", None), condition(creates, "k", version)) == ("create", None)
    replaces = Clients(place, StorageSettings(unsafe_use_conditional_create=False))
    assert condition(replaces, "k", None) is None
    assert condition(replaces, "k", version) == {"e_tag": "abc"}


# --- deletions that are made once ---


@pytest.fixture
def known(behind: ObjectStorage) -> Version:
    """The version of an object at the end of the bad line."""
    return written(behind.put_if("refs/x", b"old", None))


def test_a_deletion_that_is_answered_is_done(
    behind: ObjectStorage, proxy: CuttingProxy, known: Version
) -> None:
    assert behind.delete_once("refs/x", known) == Deleted(1)
    assert behind.get("refs/x") is None
    assert behind.delete_once("refs/x", known) == Deleted(1)  # nothing is there any more
    assert not proxy.cuts


def test_a_deletion_whose_reply_is_lost_is_seen_to_have_happened(
    behind: ObjectStorage, proxy: CuttingProxy, known: Version
) -> None:
    proxy.lose_reply_to("POST")
    assert behind.delete_once("refs/x", known) == Deleted(1)
    assert (proxy.cuts, behind.get("refs/x")) == (1, None)


def test_a_deletion_that_a_busy_server_refused_is_made_again(
    behind: ObjectStorage, proxy: CuttingProxy, known: Version
) -> None:
    proxy.refuse("POST", times=2)
    assert behind.delete_once("refs/x", known) == Deleted(1)
    assert (proxy.cuts, behind.get("refs/x")) == (2, None)


def test_a_deletion_that_may_still_arrive_is_not_made_again(
    behind: ObjectStorage, proxy: CuttingProxy, known: Version
) -> None:
    """It could delete what others have made since under the same name."""
    proxy.swallow("POST")
    done = behind.delete_once("refs/x", known)
    assert (done.keys, done.in_doubt) == (0, True)
    assert [key for key, _ in done.failed] == ["refs/x"]
    assert behind.get("refs/x") == b"old"
    assert proxy.cuts == 1


def test_what_others_have_made_since_counts_as_deleted(
    behind: ObjectStorage, proxy: CuttingProxy, known: Version, s3_server: S3Server
) -> None:
    direct = ObjectStorage(place_on(s3_server, behind.place.prefix))
    proxy.lose_reply_to("POST", then=lambda: direct.put("refs/x", b"theirs"))
    assert behind.delete_once("refs/x", known) == Deleted(1)
    assert direct.get("refs/x") == b"theirs"
