"""Virtual chunks are read from authorised containers only, and only while they are unchanged."""

from __future__ import annotations

import pickle
import warnings
from datetime import UTC, datetime
from pathlib import Path

import pytest

from frazil.errors import ErrorKind, FrazilError, InvalidInputError, StorageError
from frazil.model.chunks import VirtualRef
from frazil.model.config import (
    AnyObjectStoreConfig,
    RepositoryConfig,
    StorageConcurrencySettings,
    StorageRetriesSettings,
    StorageSettings,
    VirtualChunkContainer,
)
from frazil.storage.constructors import (
    azure_store,
    gcs_store,
    http_store,
    local_filesystem_store,
    s3_store,
)
from frazil.storage.credential_functions import (
    azure_credentials,
    gcs_credentials,
    s3_credentials,
)
from frazil.storage.credentials import AnyCredential, Credentials, HttpAccess, LocalFileSystemAccess
from frazil.storage.trust import Trust, own_containers
from frazil.storage.virtual import Containers, checksum_of
from tests.support.servers import REGION
from tests.support.web import WebServer

TEN = b"0123456789"
ONCE = StorageSettings(
    retries=StorageRetriesSettings(1, 1, 1), concurrency=StorageConcurrencySettings(4, 1 << 20)
)


def containers(
    *places: tuple[str, AnyObjectStoreConfig, str | None],
    authorized: dict[str, AnyCredential | None] | None = None,
) -> Containers:
    """Containers of a configuration that has just these."""
    config = RepositoryConfig.default()
    config.storage = ONCE
    for prefix, store, name in places:
        config.set_virtual_chunk_container(VirtualChunkContainer(prefix, store, name))
    return Containers(config, authorized or {}, Trust(own_containers(config)))


def kind_of(error: pytest.ExceptionInfo[FrazilError]) -> ErrorKind:
    return error.value.kind


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / "a b.nc").write_bytes(TEN)
    (tmp_path / "secret").write_bytes(b"private!!!")
    return folder


@pytest.fixture
def files(folder: Path) -> Containers:
    prefix = f"file://{folder}/"
    store = local_filesystem_store(str(folder))
    return containers((prefix, store, "files"), authorized={prefix: LocalFileSystemAccess})


def ref(folder: Path, name: str = "a b.nc", *range_and_checksum: int) -> VirtualRef:
    offset, length = range_and_checksum or (0, 10)
    return VirtualRef(f"file://{folder}/{name}".replace(" ", "%20"), offset, length)


class TestLocations:
    places = (
        ("s3://bucket/", s3_store(), "archive"),
        ("s3://bucket/deep/", s3_store(anonymous=True), None),
        ("gs://bucket/", gcs_store(), None),
    )

    def test_covered_locations_are_stored_in_their_form(self) -> None:
        made = containers(*self.places)
        found = made.make_ref("S3://bucket/x//y", 1, 2, "etag")
        assert found == VirtualRef("s3://bucket/x//y", 1, 2, "etag")
        assert made.make_ref("vcc://archive/x", 0, 1).location == "vcc://archive/x"

    @pytest.mark.parametrize(
        "location", ["s3://other/x", "bad://bucket/x", "vcc://nobody/x", "gs://bucket/a//b"]
    )
    def test_uncovered_locations_are_refused_unless_told_otherwise(self, location: str) -> None:
        made = containers(*self.places)
        with pytest.raises(InvalidInputError, match="invalid chunk location") as caught:
            made.make_ref(location, 0, 1)
        assert kind_of(caught) is ErrorKind.NO_CONTAINER_FOR_VIRTUAL_CHUNK
        assert made.make_ref(location, 0, 1, validate=False).location == location

    def test_text_that_is_no_url_is_never_accepted(self) -> None:
        for validate in (True, False):
            with pytest.raises(InvalidInputError, match="error parsing") as caught:
                containers(*self.places).make_ref("relative/x", 0, 1, validate=validate)
            assert kind_of(caught) is ErrorKind.INVALID_VIRTUAL_REF

    @pytest.mark.parametrize(
        ("offset", "length", "kind"),
        [
            (0, 0, ErrorKind.ZERO_LENGTH_CHUNK),
            (-1, 4, ErrorKind.INVALID_VIRTUAL_REF),
            (0, -4, ErrorKind.INVALID_VIRTUAL_REF),
            (2**63, 4, ErrorKind.INVALID_VIRTUAL_REF),
        ],
    )
    def test_impossible_ranges_are_refused_at_once(
        self, offset: int, length: int, kind: ErrorKind
    ) -> None:
        with pytest.raises(InvalidInputError) as caught:
            containers().make_ref("s3://bucket/key", offset, length, validate=False)
        assert caught.value.kind == kind

    def test_many_at_once_agree_with_one_by_one(self) -> None:
        made = containers(*self.places)
        mixed = ["s3://bucket/a", "", "S3://bucket/b", "s3://other/c", "vcc://archive/d"]
        mixed += ["vcc://none/e", "gs://bucket/f", "gs://bucket/g/../h", "file:///x/../y"]
        texts, covered = made.check_many(mixed)
        assert texts[2] == "s3://bucket/b"
        assert texts[8] == "file:///y"
        assert covered.tolist() == [True, True, True, False, True, False, True, False, False]
        assert made.check_many(mixed, validate=False)[1].all()
        assert not len(made.check_many([])[0])

    @pytest.mark.parametrize("scheme", ["s3", "gs"])
    def test_many_with_a_common_beginning(self, scheme: str) -> None:
        made = containers(*self.places)
        plain = [f"{scheme}://bucket/run/{n}.nc" for n in range(100)]
        assert list(made.check_many(plain)[0]) == plain
        assert made.check_many(plain)[1].all()
        odd = [*plain, f"{scheme}://bucket/run//x.nc", f"{scheme}://bucket/run/.."]
        assert made.check_many(odd)[1].tolist() == [*([True] * 100), scheme == "s3", False]
        other = [f"{scheme}://other/run/{n}.nc" for n in range(3)]
        assert not made.check_many(other)[1].any()

    def test_names_expand_to_urls(self) -> None:
        made = containers(*self.places)
        assert made.expand("vcc://archive/a//b") == "s3://bucket/a//b"
        assert made.expand("s3://x/y") == "s3://x/y"
        for unknown in ("vcc://nobody/x", "vcc://archive"):
            with pytest.raises(InvalidInputError) as caught:
                made.expand(unknown)
            assert kind_of(caught) is ErrorKind.NO_CONTAINER_FOR_VIRTUAL_CHUNK

    def test_checksums_keep_whole_seconds(self) -> None:
        when = datetime(2024, 5, 1, 12, 0, 0, 999_999, tzinfo=UTC)
        assert checksum_of(when) == int(when.timestamp())
        assert checksum_of("etag") == "etag"
        assert checksum_of(None) is None
        with pytest.raises(ValueError, match="time zone"):
            checksum_of(datetime(2024, 5, 1))


class TestAuthority:
    def test_a_container_must_be_authorised(self, folder: Path) -> None:
        prefix = f"file://{folder}/"
        made = containers((prefix, local_filesystem_store(str(folder)), "files"))
        with pytest.raises(InvalidInputError, match=f"{prefix}.*authorize") as caught:
            made.fetch(ref(folder))
        assert kind_of(caught) is ErrorKind.UNAUTHORIZED_VIRTUAL_CHUNK_CONTAINER
        assert made.authorized_prefixes() == set()

    def test_a_location_without_container_is_told_so(self) -> None:
        with pytest.raises(InvalidInputError, match=r"file:///foo.* edit the repository") as caught:
            containers().fetch(VirtualRef("file:///foo", 0, 1))
        assert kind_of(caught) is ErrorKind.NO_CONTAINER_FOR_VIRTUAL_CHUNK

    def test_a_missing_final_slash_is_added(self, folder: Path) -> None:
        store = local_filesystem_store(str(folder))
        made = containers(
            (f"file://{folder}/", store, None),
            authorized={f"file://{folder}": LocalFileSystemAccess},
        )
        assert made.fetch(ref(folder)) == TEN
        assert made.authorized_prefixes() == {f"file://{folder}/"}

    def test_none_is_deprecated_but_works(self, folder: Path) -> None:
        prefix = f"file://{folder}/"
        store = local_filesystem_store(str(folder))
        with pytest.warns(DeprecationWarning, match="authorize_virtual_chunk_access"):
            made = containers((prefix, store, None), authorized={prefix: None})
        assert made.fetch(ref(folder)) == TEN
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            containers((prefix, store, None), authorized={prefix: LocalFileSystemAccess})
            containers((prefix, store, None), authorized={"s3://unknown/": None})

    @pytest.mark.parametrize(
        ("prefix", "store", "credential"),
        [
            ("s3://b/", s3_store(), HttpAccess),
            ("gs://b/", gcs_store(), Credentials.S3(s3_credentials(anonymous=True))),
            ("az://c/", azure_store(account="a"), None),
            ("az://c/", azure_store(account="a"), LocalFileSystemAccess),
            ("http://h/", http_store(), Credentials.Gcs(gcs_credentials(anonymous=True))),
            ("file:///x/", local_filesystem_store("/x"), HttpAccess),
        ],
    )
    def test_credentials_must_suit_the_store(
        self, prefix: str, store: AnyObjectStoreConfig, credential: AnyCredential | None
    ) -> None:
        with pytest.raises(StorageError, match="do not suit") as caught:
            containers((prefix, store, None), authorized={prefix: credential})
        assert kind_of(caught) is ErrorKind.STORAGE_OTHER

    def test_secrets_are_not_shown(self) -> None:
        secret = "c2VjcmV0LWtleQ=="
        prefix = "az://c/"
        made = containers(
            (prefix, azure_store(account="a"), None),
            authorized={prefix: Credentials.Azure(azure_credentials(access_key=secret))},
        )
        assert secret not in repr(made)

    def test_containers_that_serve_nothing_are_ignored(self, folder: Path) -> None:
        config = RepositoryConfig.default()
        store = local_filesystem_store(str(folder))
        config.virtual_chunk_containers = {
            "old": VirtualChunkContainer(f"file://{folder}", store),  # as very old files have it
            "bad": VirtualChunkContainer("s3://b/", store),
        }
        made = Containers(config, {f"file://{folder}": LocalFileSystemAccess})
        assert made.fetch(ref(folder)) == TEN
        assert "s3://b/" not in repr(made)

    def test_they_travel(self, files: Containers, folder: Path) -> None:
        assert pickle.loads(pickle.dumps(files)).fetch(ref(folder)) == TEN


@pytest.mark.parametrize(
    "location",
    [
        "s3://bucket%2Fdata%2F@private/secret",
        "s3://bucket%2Fdata%2F..%2F..%2Fprivate/x",
        "s3://bucket%2Fdata%2F/x",
    ],
)
def test_no_spelling_signs_a_request_to_another_bucket(
    web_server: WebServer, location: str
) -> None:
    web_server.answers["*"] = (200, "0123456789")
    store = s3_store(REGION, web_server.url, allow_http=True, force_path_style=True)
    key = s3_credentials(access_key_id="AK", secret_access_key="SK")
    prefix = "s3://bucket/data/"
    made = containers((prefix, store, None), authorized={prefix: Credentials.S3(key)})
    with pytest.raises(InvalidInputError):
        made.fetch(VirtualRef(location, 0, 10))
    assert not web_server.seen
