"""The text of a virtual chunk location.

A location is a URL. `file:` URLs are normalised as browsers do it, since dot segments there
could leave a container; everything else is opaque and kept, but for the case of the scheme.
How a location is read, and compared with containers, is in `frazil.model.location`.
"""

from __future__ import annotations

import re
from typing import Final

from frazil.errors import ErrorKind, InvalidInputError
from frazil.masking import shown_url
from frazil.model.location import percent_decoded

VCC: Final = "vcc://"

_OPAQUE: Final = re.compile(r"(?!file:)[a-z][a-z0-9+.\-]*://[^/?#]")
_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.\-]*):")
_AUTHORITY: Final = re.compile(r"[^/?#]*")
_DRIVE: Final = re.compile(r"[A-Za-z]:")
_WEB: Final = ("http", "https", "ftp", "ws", "wss")
_BLANKS: Final = "".join(map(chr, range(33)))
_TABS: Final = str.maketrans("", "", "\t\n\r")
_SINGLE_DOT: Final = (".", "%2e")
_DOUBLE_DOT: Final = ("..", ".%2e", "%2e.", "%2e%2e")
_ESCAPED: Final = {"path": ' "<>`{}', "query": " \"<>'#", "fragment": ' "<>`'}


def is_settled(text: str) -> bool:
    """Whether a location, or all that begin with this text, is already in its stored form."""
    return _OPAQUE.match(text) is not None


def normalised(text: str) -> str:
    """A location in its stored form.

    Raises:
        InvalidInputError: it is no URL that could name an object.
    """
    if is_settled(text):
        return text
    scheme, mark, rest = text.partition("://")
    if mark and scheme.lower() != "file":
        found = _AUTHORITY.match(rest)
        if not found or not found[0]:
            raise _no_authority(scheme, text)
        return text[: len(scheme)].lower() + text[len(scheme) :]
    return _parsed(text)


def _parsed(text: str) -> str:
    """Normalise what is not plainly `scheme://authority`: `file:` URLs and oddities."""
    clean = text.strip(_BLANKS).translate(_TABS)
    found = _SCHEME.match(clean)
    if found is None:
        raise _bad("it has no scheme, such as s3:// or file://", text)
    scheme, rest = found[1].lower(), clean[found.end() :]
    if scheme == "file":
        return _file_url(rest)
    if scheme in _WEB:
        bare = rest.lstrip("/\\")
        authority = _AUTHORITY.match(bare.replace("\\", "/"))
        if authority and authority[0]:
            return f"{scheme}://{bare}"
        raise _no_authority(scheme, text)
    if rest.startswith("/"):
        raise _no_authority(scheme, text)
    raise _bad("it has no path", text)


def _bad(problem: str, text: str) -> InvalidInputError:
    return InvalidInputError(
        f"error parsing virtual ref URL: {problem}",
        kind=ErrorKind.INVALID_VIRTUAL_REF,
        location=repr(shown_url(text)),
    )


def _no_authority(scheme: str, text: str) -> InvalidInputError:
    if scheme.lower() == "vcc":
        return InvalidInputError(
            "no virtual chunk container is named in the location",
            kind=ErrorKind.NO_CONTAINER_FOR_VIRTUAL_CHUNK,
            location=repr(shown_url(text)),
        )
    return _bad("it names no bucket or host", text)


def _file_url(rest: str) -> str:
    body, hash_mark, fragment = rest.partition("#")
    body, question_mark, query = body.partition("?")
    body = body.replace("\\", "/")
    host = ""
    if body.startswith("//"):
        host, slash, path = body[2:].partition("/")
        body = slash + path
    host = "" if host.lower() == "localhost" else host.lower()
    made = f"file://{host}{_escaped(resolved(body or '/'), 'path')}"
    if question_mark:
        made += "?" + _escaped(query, "query")
    if hash_mark:
        made += "#" + _escaped(fragment, "fragment")
    return made


def resolved(path: str) -> str:
    """A path without dot segments, spelled plainly or percent-encoded."""
    out: list[str] = []
    parts = path.removeprefix("/").split("/")
    for number, part in enumerate(parts):
        is_last = number == len(parts) - 1
        if part.lower() in _DOUBLE_DOT:
            if out and not (len(out) == 1 and _DRIVE.fullmatch(out[0])):
                out.pop()
        elif part.lower() not in _SINGLE_DOT:
            out.append(part)
            continue
        if is_last:
            out.append("")
    return "/" + "/".join(out)


def _escaped(text: str, part: str) -> str:
    special = _ESCAPED[part]
    if text.isascii() and text.isprintable() and not any(c in text for c in special):
        return text
    return "".join(
        c
        if " " <= c <= "~" and c not in special
        else "".join(f"%{byte:02X}" for byte in c.encode())
        for c in text
    )


def key_of(url: str) -> str:
    """The key of an object that a caller names: the decoded path, without query and first slash.

    What may be read of a repository's own locations is decided by `virtual.Containers` instead.
    """
    path = url.partition("://")[2].partition("/")[2]
    return percent_decoded(re.split(r"[?#]", path, maxsplit=1)[0])
