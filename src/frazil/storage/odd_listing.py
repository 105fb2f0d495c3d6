"""Listing below an S3 prefix with empty parts, `/p` or `a//b`, which obstore refuses to spell.

obstore presigns the request, so that all its ways to find credentials work here too. The query of
the listing is passed as a part of the bucket's name.
"""

from __future__ import annotations

import http.client
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, unquote_plus, urlencode
from xml.etree import ElementTree

import obstore

from frazil.errors import ErrorKind, StorageError
from frazil.storage.base import Listed
from frazil.storage.credentials import S3Credentials

if TYPE_CHECKING:
    from frazil.storage.clients import Clients
    from frazil.storage.s3_place import S3Place

VALID: Final = timedelta(minutes=15)
TIMEOUT_S: Final = 60
"""Seconds for one page of a listing."""
LARGEST_PAGE: Final = 16 << 20
"""bytes of an answer; a thousand of the longest keys are some megabytes"""


def list_odd(clients: Clients, place: S3Place, prefix: str, limit: int = 1000) -> Iterator[Listed]:
    """Objects below the place's prefix and `prefix`, in the order the store tells them."""
    root = f"{place.prefix}/"
    wanted = {"list-type": "2", "encoding-type": "url", "max-keys": str(limit)}
    wanted["prefix"] = root + prefix
    while True:
        try:
            page = ElementTree.fromstring(_fetch(clients, place, wanted))
        except ElementTree.ParseError:
            raise _not_listed(place, None) from None
        for item in page.iterfind("{*}Contents"):
            yield _listed(item, root, place)
        token = page.findtext("{*}NextContinuationToken")
        if not token:
            return
        if token == wanted.get("continuation-token"):  # the same page for ever
            raise _not_listed(place, None)
        wanted["continuation-token"] = token


def _listed(item: ElementTree.Element, root: str, place: S3Place) -> Listed:
    key = unquote_plus(_text(item, "Key"))
    try:
        modified = datetime.fromisoformat(_text(item, "LastModified"))
        return Listed(key.removeprefix(root), int(_text(item, "Size")), modified)
    except ValueError:
        raise _not_listed(place, None) from None


def _text(item: ElementTree.Element, name: str) -> str:
    return item.findtext(f"{{*}}{name}") or ""


def _fetch(clients: Clients, place: S3Place, wanted: dict[str, str]) -> bytes:
    """One page of the listing."""
    # Last comes a parameter without meaning, because the signed address ends in a name.
    query = urlencode(wanted, quote_via=quote, safe="") + "&x-id=ListObjectsV2"
    asked = replace(place, bucket=f"{place.bucket}?{query}", prefix="")
    store: Any = clients.client_of(asked)
    if isinstance(place.credentials, S3Credentials.Anonymous) or place.options.anonymous:
        amazon = f"https://s3.{place.options.region or 'us-east-1'}.amazonaws.com"
        asked_for = f"{place.endpoint or amazon}/{asked.bucket}"
    else:
        asked_for = obstore.sign(store, "GET", "-", VALID)
    try:
        with _OPENER.open(asked_for, timeout=TIMEOUT_S) as reply:
            data: bytes = reply.read(LARGEST_PAGE)
            return data
    except urllib.error.HTTPError as error:
        error.close()  # it holds the connection
        raise _not_listed(place, error.code) from None
    except (urllib.error.URLError, http.client.HTTPException, TimeoutError):
        raise _not_listed(place, None) from None


def _not_listed(place: S3Place, status: int | None) -> StorageError:
    return StorageError(
        "the store did not list this prefix",
        kind=ErrorKind.OBJECT_STORE,
        storage=place.url,
        status=status or "none",
    )


class _StayHere(urllib.request.HTTPRedirectHandler):
    """A signed request is for the store alone, wherever that may point to."""

    def redirect_request(self, *_: object) -> None:
        """Follow none: the answer is an error then."""


_OPENER: Final = urllib.request.build_opener(_StayHere)
