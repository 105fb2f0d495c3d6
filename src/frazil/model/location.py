"""A URL of a virtual chunk, or of a container of them, taken apart in the one way that counts.

Only the path is percent-decoded, and once. Host and bucket are compared as they are written, so
nothing in them can stand for a slash, a user or another host. To find out whether a location is
inside a container compares two of these records, never texts.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote_to_bytes

from frazil.errors import ErrorKind, InvalidInputError

_URL: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.\-]*)://([^/?#]*)([^?#]*)", re.DOTALL)
_FORBIDDEN: Final = frozenset("%@\\ ")
_CONTROLS: Final = re.compile(r"[\x00-\x1f\x7f]")
_DOTS: Final = frozenset({".", "..", "%2e", ".%2e", "%2e.", "%2e%2e"})
_HOSTED: Final = frozenset({"http", "https"})
_SEPARATOR: Final = re.compile(r"[/\\]")


@dataclass(frozen=True, slots=True)
class ParsedLocation:
    """Scheme and host in lower case, bucket as it is, and the decoded path without first slash."""

    scheme: str
    authority: str
    key: str

    def is_in(self, folder: ParsedLocation) -> bool:
        """Whether this is below a folder, whose key is empty or ends in a slash."""
        same = self.scheme == folder.scheme and self.authority == folder.authority
        return same and self.key.startswith(folder.key)

    @property
    def has_empty_parts(self) -> bool:
        """Whether there is a slash that no name stands before."""
        return "//" in self.key or self.key.startswith("/")


def parse_location(url: str) -> ParsedLocation:
    """Take a URL apart; query and fragment are no part of it.

    Raises:
        InvalidInputError: it could be read in more than one way, or leads out of a folder.
    """
    found = _URL.match(url)
    if found is None:
        raise _refuse("it is no URL such as s3://bucket/key")
    scheme, authority, path = found[1].lower(), found[2], found[3]
    if bad := [c for c in authority if c in _FORBIDDEN or not c.isprintable()]:
        raise _refuse(f"its bucket or host has the forbidden character {bad[0]!r}")
    if not authority and scheme != "file":
        raise _refuse("it names no bucket or host")
    if scheme in _HOSTED:
        authority = authority.lower()
    elif scheme == "file" and authority.lower() == "localhost":
        authority = ""
    key = percent_decoded(path).removeprefix("/")
    if _CONTROLS.search(key):
        raise _refuse("its path has control characters")
    if any(part.lower() in _DOTS for part in _SEPARATOR.split(key)):
        raise _refuse("its path has '.' or '..' parts")
    return ParsedLocation(scheme, authority, key)


def percent_decoded(text: str) -> str:
    """Text without percent-encoding."""
    if "%" not in text:
        return text
    try:
        return unquote_to_bytes(text).decode()
    except UnicodeDecodeError:
        raise _refuse("its path does not decode to text") from None


def _refuse(why: str) -> InvalidInputError:
    """An error whose message is only the reason; the caller says which location it is."""
    return InvalidInputError(why, kind=ErrorKind.INVALID_VIRTUAL_REF)
