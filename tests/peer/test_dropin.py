"""A program sees the same of `frazil.icechunk` as of the official package."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from tests.peer.conftest import PartyOf, meet
from tests.peer.peer_views import VIEWS
from tests.support.peer import assert_same, official, ours
from tests.support.servers import REGION, S3Server, s3_server

pytestmark = pytest.mark.peer


@pytest.mark.parametrize("view", VIEWS)
def test_both_show_the_same(view: str, party_of: PartyOf, tmp_path: Path) -> None:
    seen = []
    for number, environment in enumerate((official(2), ours())):
        folder = tmp_path / str(number)
        folder.mkdir()
        seen.append(party_of(environment).call("view", folder, name=view))
    assert_same(*seen)


@pytest.fixture(scope="module")
def server() -> Iterator[S3Server]:
    with s3_server() as running:
        yield running


def storage_on(server: S3Server, function: str, prefix: str, **options: Any) -> dict[str, Any]:
    """What to call for a storage on the server."""
    keys = {
        "access_key_id": server.access_key_id,
        "secret_access_key": server.secret_access_key,
    }
    place = {"bucket": server.bucket, "prefix": prefix, "region": REGION}
    return {"function": function, "options": {**place, **keys, **options}}


ODD = {
    "leading slash": ("s3_storage", "/p{}"),
    "two slashes": ("s3_storage", "a//b{}"),
    "slashes behind": ("s3_storage", "behind{}//"),
    "not ASCII": ("s3_storage", "é {}"),
    "generic, not ASCII": ("s3_object_store_storage", "é {}~%"),
    "generic, two slashes": ("s3_object_store_storage", "/a//b{}"),
    "generic, dot": ("s3_object_store_storage", "./d{}"),
}


@pytest.mark.parametrize("spec", [1, 2])
@pytest.mark.parametrize("odd", ODD)
def test_each_finds_the_others_repository(
    odd: str, spec: int, direction: str, party_of: PartyOf, server: S3Server
) -> None:
    function, prefix = ODD[odd]
    reach = {"endpoint_url": server.endpoint, "allow_http": True, "force_path_style": True}
    storage = storage_on(server, function, prefix.format(uuid4().hex[:8]), **reach)
    writer, reader = meet(party_of, direction, 2)
    written = writer.call("s3_write", storage=storage, spec=spec)
    assert reader.call("s3_read", storage=storage) == written


@pytest.mark.parametrize("environment", [{}, {"AWS_ENDPOINT_URL": ""}, {"AWS_ENDPOINT_URL_S3": ""}])
def test_a_plain_http_endpoint_is_consent_enough(
    environment: dict[str, str], direction: str, party_of: PartyOf, server: S3Server
) -> None:
    given = {} if environment else {"endpoint_url": server.endpoint}
    storage = storage_on(server, "s3_storage", uuid4().hex, **given)
    variables = dict.fromkeys(environment, server.endpoint)
    writer, reader = meet(party_of, direction, 2)
    written = writer.call("s3_write", storage=storage, spec=2, environment=variables)
    assert reader.call("s3_read", storage=storage, environment=variables) == written
