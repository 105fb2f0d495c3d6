"""URLs of repositories lead to the right storage, or say what was expected."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from frazil import Repository
from frazil.errors import ErrorKind, InvalidInputError, StorageError
from frazil.storage.by_url import storage_at, storage_from_url
from frazil.storage.constructors import (
    http_storage,
    redirect_storage,
)
from frazil.storage.local import LocalStorage
from frazil.storage.memory import MemoryStorage
from tests.unit.storage.test_constructors import place


class TestUrls:
    @pytest.mark.parametrize(
        ("url", "expected"),
        [
            ("s3://bucket/a/b", "s3://bucket/a/b"),
            ("s3://bucket/a/b/?region=eu-west-1&anonymous=true", "s3://bucket/a/b"),
            ("s3a://bucket/a%20b", "s3://bucket/a b"),
            ("gs://bucket/p", "gs://bucket/p"),
            ("gcs://bucket/p", "gs://bucket/p"),
            ("az://container/p?account=acc", "az://container/p"),
            ("abfs://container@acc.dfs.core.windows.net/p", "az://container/p"),
            ("https://host/path", "https://host/path"),
            ("r2://bucket/p?account_id=x", "s3://bucket/p"),
            ("tigris://bucket/p?region=iad", "s3://bucket/p"),
            ("hf://bucket/p?namespace=org", "s3://bucket/p"),
            ("file:///some/dir", "file:///some/dir"),
            ("/some/dir", "file:///some/dir"),
        ],
    )
    def test_known_forms(self, url: str, expected: str) -> None:
        assert storage_from_url(url).url == expected

    def test_options_and_query_reach_the_storage(self) -> None:
        made = place(storage_from_url("s3://b/p?region=r&anonymous", force_path_style=True))
        assert (made.options.region, made.options.anonymous) == ("r", True)
        assert made.options.force_path_style
        azure = storage_from_url("abfs://c@acc.dfs.core.windows.net/p")
        assert "account: acc" in str(azure)

    def test_memory_is_found_by_name(self) -> None:
        one = storage_from_url("memory://shared-by-name")
        one.put("k", b"x")
        assert storage_from_url("memory://shared-by-name").get("k") == b"x"
        assert storage_from_url("memory://another").get("k") is None

    def test_a_relative_path(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)
        storage_from_url("repo").put("k", b"x")
        assert (tmp_path / "repo" / "k").read_bytes() == b"x"

    @pytest.mark.parametrize(
        "url", ["", "ftp://host/x", "s3://", "s3:///x", "gs://", "az://", "file://host/x", "s3:x"]
    )
    def test_unknown_forms_say_what_was_expected(self, url: str) -> None:
        with pytest.raises(StorageError, match="s3://bucket/prefix") as caught:
            storage_from_url(url)
        assert caught.value.kind is ErrorKind.CANNOT_PARSE_URL

    def test_unknown_options_name_the_known_ones(self) -> None:
        with pytest.raises(InvalidInputError, match=r"did you mean 'endpoint_url'.*region"):
            storage_from_url("s3://b/p", endpoint="http://x")
        with pytest.raises(InvalidInputError, match="cannot be given in a URL"):
            storage_from_url("s3://b/p?secret_access_key=x")
        with pytest.raises(InvalidInputError, match="did you mean 'region'"):
            storage_from_url("s3://b/p?regoin=x")

    def test_secrets_of_web_addresses_are_not_shown(self) -> None:
        for make in (http_storage, redirect_storage):
            storage = make("https://me:hidden@host/data?sig=hidden")
            assert storage.url == "https://host/data"
            assert "hidden" not in repr(storage)

    @pytest.mark.parametrize("make", [http_storage, redirect_storage])
    def test_web_addresses_must_be_complete(self, make: object) -> None:
        assert callable(make)
        with pytest.raises(StorageError, match="error parsing URL"):
            make("no-scheme")


class TestPlaces:
    def test_a_storage_a_path_and_a_url_are_places(self, tmp_path: Path) -> None:
        storage = MemoryStorage()
        assert storage_at(storage) is storage
        for given in (tmp_path, str(tmp_path), tmp_path.as_uri()):
            found = storage_at(given)
            assert isinstance(found, LocalStorage)
            assert found.path == str(tmp_path)

    def test_a_path_may_tell_itself_in_bytes(self, tmp_path: Path) -> None:
        (tmp_path / "here").mkdir()
        with os.scandir(os.fsencode(tmp_path)) as entries:
            (entry,) = entries
        found = storage_at(entry)  # type: ignore[arg-type]
        assert isinstance(found, LocalStorage)
        assert found.path == str(tmp_path / "here")

    @pytest.mark.parametrize("given", [None, 3, b"/some/dir", ["/some/dir"]])
    def test_all_else_is_refused_and_makes_no_folder_of_that_name(
        self, given: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(tmp_path)
        with pytest.raises(InvalidInputError, match=f"not a {type(given).__name__}"):
            Repository.create(given)  # type: ignore[arg-type]
        assert not list(tmp_path.iterdir())
