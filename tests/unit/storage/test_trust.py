"""A configuration that was found in a repository never decides where credentials go."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from frazil.errors import ErrorKind, FrazilError, InvalidInputError
from frazil.model.config import (
    AnyObjectStoreConfig,
    ObjectStoreConfig,
    RepositoryConfig,
    S3Options,
    StorageRetriesSettings,
    StorageSettings,
    VirtualChunkContainer,
)
from frazil.repository import Repository
from frazil.storage.base import Storage
from frazil.storage.constructors import azure_store, gcs_store, http_store, s3_storage, s3_store
from frazil.storage.credential_functions import azure_credentials, gcs_credentials, s3_credentials
from frazil.storage.credentials import AnyCredential, Credentials, HttpAccess
from frazil.storage.memory import MemoryStorage
from frazil.storage.trust import NOTHING, Trust, split_word
from frazil.transaction.keyspace import KeySpace
from frazil.transaction.opened import context_of
from frazil.upgrade import upgrade_repository
from tests.support.nodes import array_document, group_document, write_keys
from tests.support.servers import REGION, S3Server
from tests.support.web import WebServer

S3_KEY = Credentials.S3(
    s3_credentials(access_key_id="AK", secret_access_key="SK", session_token="SESSION")
)
GCS_TOKEN = Credentials.Gcs(gcs_credentials(bearer_token="BEARER"))
AZURE_TOKEN = Credentials.Azure(azure_credentials(bearer_token="BEARER"))
AZURE_SAS = Credentials.Azure(azure_credentials(sas_token="sv=2020&sig=SIGNATURE"))


def bait(
    prefix: str, store: AnyObjectStoreConfig, storage: Storage | None = None
) -> tuple[Storage, RepositoryConfig]:
    """A repository with a virtual chunk, and a stored container that says where it is."""
    config = RepositoryConfig(storage=StorageSettings(retries=StorageRetriesSettings(1, 1, 1)))
    config.set_virtual_chunk_container(VirtualChunkContainer(prefix, store))
    place = storage or MemoryStorage()
    session = Repository.create(place, config).writable_session("main")
    write_keys(
        session, {"zarr.json": group_document(), "v/zarr.json": array_document(10, chunks=(10,))}
    )
    session.store.set_virtual_ref("v/c/0", f"{prefix}x", offset=0, length=10)
    session.commit("bait")
    return place, config


def read(repository: Repository) -> bytes | None:
    """The virtual chunk."""
    return KeySpace(repository.readonly_session("main").state).get("v/c/0")


STORED = [
    ("gs://public/", lambda url: gcs_store({"base_url": url, "allow_http": "true"}), GCS_TOKEN),
    (
        "az://public/",
        lambda url: azure_store(account="acct", config={"endpoint": url, "allow_http": "true"}),
        AZURE_TOKEN,
    ),
    (
        "az://public/",
        lambda url: azure_store(account="acct", config={"endpoint": url, "allow_http": "true"}),
        AZURE_SAS,
    ),
    (
        "s3://public/",
        lambda url: s3_store("us-east-1", url, allow_http=True, force_path_style=True),
        S3_KEY,
    ),
]


@pytest.mark.parametrize(("prefix", "store", "credential"), STORED)
class TestEndpoints:
    def test_credentials_are_not_sent_to_a_stored_address(
        self, web_server: WebServer, prefix: str, store: object, credential: AnyCredential
    ) -> None:
        web_server.answers["*"] = (200, "0123456789")
        place, _ = bait(prefix, store(web_server.url))  # type: ignore[operator]
        victim = Repository.open(place, authorize_virtual_chunk_access={prefix: credential})
        for reader in (victim, victim.reopen(), pickle.loads(pickle.dumps(victim))):
            with pytest.raises(InvalidInputError, match="would send your credentials to") as caught:
                read(reader)
            assert caught.value.kind is ErrorKind.UNAUTHORIZED_VIRTUAL_CHUNK_CONTAINER
        assert not web_server.seen

    def test_they_are_sent_where_the_caller_says(
        self,
        web_server: WebServer,
        monkeypatch: pytest.MonkeyPatch,
        prefix: str,
        store: object,
        credential: AnyCredential,
    ) -> None:
        web_server.answers["*"] = (200, "0123456789")
        access = {prefix: credential}
        place, config = bait(prefix, store(web_server.url))  # type: ignore[operator]
        own = Repository.open(place, config, access)
        named = Repository.open(
            place, authorize_virtual_chunk_access=access, endpoints=[f"{web_server.url}/"]
        )
        variable = {"s3": "AWS_ENDPOINT_URL_S3", "gs": "GOOGLE_BASE_URL"}
        monkeypatch.setenv(variable.get(prefix[:2], "AZURE_STORAGE_ENDPOINT"), web_server.url)
        of_environment = Repository.open(place, authorize_virtual_chunk_access=access)
        for reader in (own, own.reopen(), named, of_environment):
            web_server.seen.clear()
            try_read(reader)
            assert web_server.seen


def try_read(repository: Repository) -> None:
    """Ask for the chunk; the server of the tests need not give what that kind of store gives."""
    try:
        read(repository)
    except FrazilError as error:
        assert error.kind is ErrorKind.VIRTUAL_CHUNK_FETCH  # noqa: PT017 - either is right


def test_without_credentials_a_stored_address_is_used(web_server: WebServer) -> None:
    web_server.files["/public/x"] = b"0123456789"
    store = s3_store("us-east-1", web_server.url, allow_http=True, force_path_style=True)
    place, _ = bait("s3://public/", store)
    unsigned = Credentials.S3(s3_credentials(anonymous=True))
    reader = Repository.open(place, authorize_virtual_chunk_access={"s3://public/": unsigned})
    assert read(reader) == b"0123456789"
    assert all("authorization" not in headers for _, _, headers in web_server.seen)


def test_a_stored_container_may_ask_for_no_signature(web_server: WebServer) -> None:
    web_server.files["/public/x"] = b"0123456789"
    store = s3_store(
        "us-east-1", web_server.url, allow_http=True, anonymous=True, force_path_style=True
    )
    place, _ = bait("s3://public/", store)
    reader = Repository.open(place, authorize_virtual_chunk_access={"s3://public/": S3_KEY})
    assert read(reader) == b"0123456789"
    for _, _, headers in web_server.seen:
        assert not {"authorization", "x-amz-security-token"} & set(headers)


def test_the_address_of_the_repository_itself_is_named(s3_server: S3Server) -> None:
    storage = s3_storage(
        bucket=s3_server.bucket,
        prefix="named",
        region=REGION,
        endpoint_url=s3_server.endpoint,
        allow_http=True,
        access_key_id="a",
        secret_access_key="b",
    )
    storage.put("archive/x", b"0123456789")
    prefix = f"s3://{s3_server.bucket}/named/archive/"
    store = s3_store(REGION, s3_server.endpoint, allow_http=True)
    config = RepositoryConfig()
    config.set_virtual_chunk_container(VirtualChunkContainer(prefix, store))
    session = Repository.create(storage, config, check_clean_root=False).writable_session("main")
    write_keys(
        session, {"zarr.json": group_document(), "v/zarr.json": array_document(10, chunks=(10,))}
    )
    session.store.set_virtual_ref("v/c/0", f"{prefix}x", offset=0, length=10)
    session.commit("data beside the repository")
    access: dict[str, AnyCredential | None] = {prefix: S3_KEY}
    assert read(Repository.open(storage, authorize_virtual_chunk_access=access)) == b"0123456789"


@pytest.mark.parametrize(
    ("prefix", "store", "credential", "why"),
    [
        ("s3://b/", s3_store("evil.example/#"), S3_KEY, "region"),
        ("s3://b/", s3_store("x.evil.example:80/?"), S3_KEY, "region"),
        ("s3://b/", ObjectStoreConfig.Tigris(S3Options()), S3_KEY, "storage.dev"),
        (
            "s3://b/",
            s3_store(endpoint_url="https://x.execute-api.eu.amazonaws.com"),
            S3_KEY,
            "x.exe",
        ),
        ("gs://b/", gcs_store({"service_account_path": "/home/me/key.json"}), GCS_TOKEN, "option"),
        ("gs://b/", gcs_store({"bucket": "private"}), GCS_TOKEN, "'bucket'"),
        ("gs://b/", gcs_store({"proxy_url": "http://evil.example"}), GCS_TOKEN, "'proxy_url'"),
        ("az://c/", azure_store(account="evil.example/"), AZURE_TOKEN, "'account'"),
        ("az://c/", azure_store(account="a", config={"sas_key": "x"}), AZURE_TOKEN, "option"),
        ("az://c/", azure_store(account="abc", config={"use_azure_cli": "1"}), AZURE_TOKEN, "cli"),
        ("az://c/", azure_store(account="abc", config={"authority_host": "e"}), AZURE_SAS, "auth"),
        ("http://h/", http_store({"proxy_url": "http://evil.example"}), HttpAccess, "'proxy_url'"),
        ("http://h/", http_store({"allow_invalid_certificates": "1"}), HttpAccess, "certificates"),
        ("http://h/", http_store({"redirect_hosts": "evil.example"}), HttpAccess, "redirect"),
        ("http://h/", http_store(headers={"Host": "internal"}), HttpAccess, "'Host'"),
    ],
)
def test_what_a_stored_container_may_not_choose(
    prefix: str, store: AnyObjectStoreConfig, credential: AnyCredential, why: str
) -> None:
    place, _ = bait(prefix, store)
    reader = Repository.open(place, authorize_virtual_chunk_access={prefix: credential})
    with pytest.raises(InvalidInputError, match="only on your own word") as caught:
        read(reader)
    assert why in str(caught.value)


@pytest.mark.parametrize(
    ("endpoint", "scheme", "named"),
    [
        ("https://s3.amazonaws.com", "s3", True),
        ("https://s3.eu-west-1.amazonaws.com/", "s3", True),
        ("https://s3.dualstack.us-west-2.amazonaws.com", "s3", True),
        ("http://s3.eu-west-1.amazonaws.com", "s3", False),
        ("https://s3.evil.example", "s3", False),
        ("https://s3.eu.amazonaws.com.evil.example", "s3", False),
        ("https://s3.eu.amazonaws.com@evil.example", "s3", False),
        ("https://s3.eu.amazonaws.com:99", "s3", False),
        ("https://storage.googleapis.com", "gs", True),
        ("https://storage.googleapis.com", "s3", False),
        ("https://acct.blob.core.windows.net", "az", True),
        ("https://t3.storage.dev", "tigris", True),
    ],
)
def test_addresses_of_the_services_themselves(endpoint: str, scheme: str, *, named: bool) -> None:
    assert NOTHING.names(endpoint, scheme) is named
    assert Trust(endpoints=frozenset()).and_endpoints(endpoint).names(endpoint, scheme)


@pytest.mark.parametrize(
    ("text", "prefix", "word"),
    [
        ("s3://b/", "s3://b/", ""),
        ("s3://b/=anonymous", "s3://b/", "anonymous"),
        ("s3://b/=https://host:9000", "s3://b/", "https://host:9000"),
        ("s3://b/year=2020/", "s3://b/year=2020/", ""),
        ("s3://b/year=2020/=anonymous", "s3://b/year=2020/", "anonymous"),
        ("s3://b/=typo", "s3://b/", "typo"),
    ],
)
def test_words_after_a_prefix(text: str, prefix: str, word: str) -> None:
    assert split_word(text) == (prefix, word)


def test_an_upgrade_makes_nothing_the_callers_word(web_server: WebServer) -> None:
    store = s3_store("us-east-1", web_server.url, allow_http=True, force_path_style=True)
    config = RepositoryConfig()
    config.set_virtual_chunk_container(VirtualChunkContainer("s3://public/", store))
    place = MemoryStorage()
    Repository.create(place, config, spec_version=1)
    access = {"s3://public/": S3_KEY}
    old = Repository.open(place, authorize_virtual_chunk_access=access)
    new = upgrade_repository(old)
    assert new.spec_version == 2
    assert not context_of(new).trust.containers
    mine = upgrade_repository(Repository.create(MemoryStorage(), config, access, spec_version=1))
    assert context_of(mine).trust.containers == {"s3://public/"}


def test_an_ingest_trusts_only_what_it_adds(tmp_path: Path, web_server: WebServer) -> None:
    """Containers that were there before are not taken for the caller's by adding another one."""
    from frazil.ingestion.target import IngestTarget

    store = s3_store("us-east-1", web_server.url, allow_http=True, force_path_style=True)
    place, _ = bait("s3://public/", store)
    target = IngestTarget(place, "main", "")
    target._add_containers([f"file://{tmp_path}/"], {})
    assert target._repository is not None
    assert not context_of(target._repository).trust.containers
