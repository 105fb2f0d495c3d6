"""Secrets are shown nowhere, and foreign text moves nobody's cursor."""

from __future__ import annotations

import importlib
import json
import logging
import pickle
import pkgutil
import re
from dataclasses import fields, is_dataclass
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

import frazil
from frazil.errors import InvalidInputError, StorageError
from frazil.ingestion.request import IngestRequest
from frazil.logs import set_logs_filter
from frazil.masking import (
    bare_url,
    clean,
    clean_json,
    safe,
    shown_data,
    shown_foreign,
    shown_option,
    shown_text,
    shown_url,
)
from frazil.model.chunks import ChunkTable, VirtualRef
from frazil.model.config import (
    AnyObjectStoreConfig,
    ObjectStoreConfig,
    RepositoryConfig,
    S3Options,
    StorageSettings,
    VirtualChunkContainer,
)
from frazil.model.stores import VirtualChunkSpec
from frazil.model.values import SnapshotInfo
from frazil.storage.by_url import storage_from_url
from frazil.storage.client_settings import Client, Role
from frazil.storage.locations import normalised
from frazil.storage.ranges import WantedRange
from frazil.xarray.engine import VersionChoice

SECRET = "HUSH7"


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        (f"http://user:{SECRET}@h/x", "http://****@h/x"),
        (f"http://{SECRET}@h:80/x?a=1", "http://****@h:80/x?****"),
        (f"http://u:a@{SECRET}@h/x", "http://****@h/x"),
        (f"https://h/x?X-Amz-Signature={SECRET}&a=b?c#d", "https://h/x?****"),
        (
            f"abfs://u:{SECRET}@account.dfs.core.windows.net/x",
            "abfs://****@account.dfs.core.windows.net/x",
        ),
        ("abfs://box@account.dfs.core.windows.net/x", "abfs://box@account.dfs.core.windows.net/x"),
        ("s3://bucket/a@b/c", "s3://bucket/a@b/c"),
        ("file:///a/b", "file:///a/b"),
    ],
)
def test_urls(url: str, shown: str) -> None:
    assert shown_url(url) == shown
    assert shown_text(f"see <{url}>, or ({url}).") == f"see <{shown}>, or ({shown})."
    assert SECRET not in safe(f"url={url}")


def test_only_the_place_is_left() -> None:
    assert bare_url(f"http://u:{SECRET}@[::1?sig={SECRET}#x") == "http://[::1"
    assert bare_url("https://host/a?b#c") == "https://host/a"


@pytest.mark.parametrize(
    "name",
    [
        "secret_access_key",
        "session_token",
        "aws_secret_access_key",
        "account-key",
        "azure_storage_sas_token",
        "sas_key",
        "password",
        "api_key",
        "apikey",
        "service_account_key",
        "bearer_token",
        "Authorization",
        "encryption_key",
        "storage.client_secret",
        "connection_string",
    ],
)
def test_options_that_sound_like_secrets(name: str) -> None:
    assert shown_option(name, SECRET) == "****"


@pytest.mark.parametrize("name", ["region", "access_key_id", "key", "endpoint", "account", "keys"])
def test_other_options_are_shown(name: str) -> None:
    assert shown_option(name, "x") == "x"
    assert SECRET not in shown_option(name, f"http://u:{SECRET}@h?{SECRET}")


def test_configurations() -> None:
    config = {
        "virtual_chunk_containers": {
            "http://x/": {
                "store": {
                    "http": {
                        "headers": {"X-Anything": SECRET},
                        "api_key": SECRET,
                        "timeout": "5s",
                    }
                }
            },
            f"http://u:{SECRET}@y/": {"url_prefix": f"http://u:{SECRET}@y/"},
            "gs://x/": {"store": {"gcs": {"service_account_token": SECRET, "region": "eu"}}},
        },
        "list": [f"https://h/?sig={SECRET}", 1, None],
    }
    shown = shown_data(config)
    assert SECRET not in str(shown)
    assert "5s" in str(shown)
    assert "'region': 'eu'" in str(shown)
    assert shown["list"][1:] == [1, None]


def test_words_of_other_libraries() -> None:
    text = f"GET /x?sig={SECRET} failed, token={SECRET}, http://u:{SECRET}@h/y?{SECRET}"
    assert SECRET not in shown_foreign(text)
    assert "http://h/y" in shown_foreign(text)


def test_errors_hold_no_secrets_wherever_they_go() -> None:
    url = f"https://u:{SECRET}@h/x?sig={SECRET}"
    error = StorageError(f"cannot read {url}", location=url, many=[url], also=(url,), size=3)
    error.during(f"read {url}")
    for each in (error, pickle.loads(pickle.dumps(error))):
        assert SECRET not in f"{each} {each!r} {each.args} {each.facts} {each.__dict__}"
        assert "https://****@h/x?****" in str(each)
        assert each.facts["size"] == 3


def test_words_of_other_libraries_control_no_terminal() -> None:
    assert shown_foreign("no \x1b[2Jsuch key") == "no \\x1b[2Jsuch key"


def test_errors_control_no_terminal() -> None:
    error = InvalidInputError("no \x1b[2J\u202e", path="\x07", node="a\nb")
    assert str(error) == "no \\x1b[2J\\x202e (path=\\x07, node=a\nb)"


def test_reprs_of_configurations() -> None:
    config = RepositoryConfig()
    stores: dict[str, AnyObjectStoreConfig] = {
        "http://h/": ObjectStoreConfig.Http({"api_key": SECRET}, {"X-Key": SECRET}),
        "gs://b/": ObjectStoreConfig.Gcs({"service_account_key": SECRET}),
        "az://b/": ObjectStoreConfig.Azure({"account": "a", "sas_token": SECRET}),
        "s3://b/": ObjectStoreConfig.S3(S3Options(endpoint_url=f"http://u:{SECRET}@h")),
    }
    for prefix, store in stores.items():
        config.set_virtual_chunk_container(VirtualChunkContainer(prefix, store))
    for each in (config, *stores.values(), *(config.virtual_chunk_containers or {}).values()):
        assert SECRET not in repr(each) + str(each) + each._repr_html_()


def test_reprs_of_records() -> None:
    location = f"https://u:{SECRET}@h/x?X-Amz-Signature={SECRET}&e=\x1b[2J\u202e"
    options = {"secret_access_key": SECRET, "endpoint_url": f"http://u:{SECRET}@h"}
    records = (
        VirtualRef(location, 0, 1),
        VirtualChunkSpec([0], location, 0, 1),
        VersionChoice(storage_options=options),
        IngestRequest([location], source_options=options),
        WantedRange(location, "x", 0, 1),
        Client(Role.READ, StorageSettings(), "agent", {"X-Api-Key": SECRET}),
        ChunkTable.from_refs(1, [((0,), VirtualRef(location, 0, 1))]),
    )
    for each in records:
        assert SECRET not in f"{each!r} {each}"
        assert not {"\x1b", "\u202e"} & {*repr(each)}
    assert "https://****@h/x?****" in repr(records[0])


@pytest.mark.parametrize(
    "location", [f"bucket/a?sig={SECRET}", f"mailto:x?sig={SECRET}", f"s3:///a?{SECRET}"]
)
def test_locations_that_are_none_are_refused_without_their_query(location: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        normalised(location)
    assert SECRET not in f"{caught.value} {caught.value.facts}"


@pytest.mark.parametrize(
    "url",
    [
        f"abfs://u:{SECRET}@h/x",
        f"az://u:{SECRET}@acct/x",
        f"s3://AK:{SECRET}@bucket/p",
        f"gs://tok:{SECRET}@b/x",
        f"ftp://u:{SECRET}@h/x?sig={SECRET}",
        f"file://u:{SECRET}@h/x",
        f"http://[::1?sig={SECRET}",
        f"hf://u:{SECRET}@b/x",
        f"r2://u:{SECRET}@b/x",
        f"s3://bucket/p?secret_access_key={SECRET}",
    ],
)
def test_addresses_with_secrets_are_refused_without_showing_them(url: str) -> None:
    with pytest.raises((StorageError, InvalidInputError)) as caught:
        storage_from_url(url)
    assert SECRET not in f"{caught.value} {caught.value.facts} {caught.value.args}"


def test_reprs_control_no_terminal() -> None:
    evil = "\x1b]0;x\x07\x9b31m\u202e"
    info = SnapshotInfo("A" * 20, None, datetime(2024, 1, 1, tzinfo=UTC), evil, {evil: evil})
    for text in (str(info), repr(info), info._repr_html_()):
        assert not set(evil) & set(text) & set("\x1b\x07\x9b\u202e")


@given(st.text())
def test_cleaned_json_says_the_same(text: str) -> None:
    document = json.dumps({"text": text}, ensure_ascii=False)
    assert json.loads(clean_json(document)) == {"text": text}
    assert not set(clean_json(document)) & set("\x1b\x7f\x9b\u202e\u2066\u2028")


@given(st.text(st.characters(codec=None)))
def test_cleaned_text_can_be_printed(text: str) -> None:
    clean(text).encode()
    assert all(c in "\n\t" or ord(c) >= 32 for c in clean(text))


def test_the_console_shows_neither(capsys: pytest.CaptureFixture[str]) -> None:
    set_logs_filter("warn")
    try:
        logging.getLogger("frazil.test").warning("at %s \x1b[2J", f"http://u:{SECRET}@h?{SECRET}")
    finally:
        set_logs_filter("")
    said = capsys.readouterr().err
    assert "http://****@h?**** \\x1b[2J" in said
    assert SECRET not in said


ADDRESSES = {"url", "urls", "location", "endpoint", "endpoint_url", "proxy", "store_root"}
SETTINGS = {"headers", "options", "storage_options", "source_options", "virtual_options"}
_TEXTS = re.compile(
    r"(str|(Sequence|tuple|list)\[str.*|(Mapping|dict)\[str, (str|Any)\])( \| None)?"
)


def test_records_with_addresses_or_options_have_masked_reprs() -> None:
    shown = []
    for module in pkgutil.walk_packages(frazil.__path__, "frazil."):
        if module.name.endswith("__main__"):
            continue
        for name, found in vars(importlib.import_module(module.name)).items():
            is_own = isinstance(found, type) and found.__module__ == module.name
            # What dataclasses make themselves is wrapped against endless recursion.
            if not is_own or not is_dataclass(found) or not hasattr(found.__repr__, "__wrapped__"):
                continue
            shown += [
                f"{module.name}.{name}.{each.name}"
                for each in fields(found)
                if each.repr
                and each.name in ADDRESSES | SETTINGS
                and _TEXTS.fullmatch(str(each.type))
            ]
    assert not shown, "\n".join(shown)
