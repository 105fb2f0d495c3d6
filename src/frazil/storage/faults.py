"""Errors of obstore in our own words, for all object stores.

The text of a foreign error may show user names, signatures or tokens in a URL, so only a
cleaned part of it is kept and the foreign error is never chained.
"""

from __future__ import annotations

import http.client
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final
from urllib.parse import urljoin, urlsplit

from obstore import exceptions as foreign

from frazil.errors import ErrorKind, FrazilError, InvalidInputError, StorageError
from frazil.masking import bare_url, shown_foreign
from frazil.storage.fence import ALLOWED, NOWHERE

FOREIGN: Final = (foreign.BaseError, OSError, ValueError, TypeError, NotImplementedError)
"""Everything that a call into obstore may raise."""

LOST_RACE: Final = (foreign.AlreadyExistsError, foreign.PreconditionError)

_MAX_TEXT: Final = 400
"""Characters of a server's answer that an error shows."""
_CODE: Final = re.compile(r"<Code>([A-Za-z0-9]+)</Code>")
_MESSAGE: Final = re.compile(r"<Message>([^<]*)</Message>")
_STATUS: Final = re.compile(r"status code: (\d{3})")
_ASKED: Final = re.compile(r"Error performing [A-Z]+ (https?://\S+)")
_LOOK_S: Final = 5
"""Seconds for the question why a request failed."""
_XML: Final = re.compile(r"<\?xml.*|<[A-Z][A-Za-z]*>.*", re.DOTALL)

_MISSING_BUCKET: Final = "the bucket or container does not exist: create it or correct its name"
_BAD_KEY: Final = "the store does not know the access key: check the credentials"
_BAD_SIGNATURE: Final = "the store does not accept the signature: check the secret key"
_DENIED: Final = "access denied: the credentials do not allow this, or they are missing"
_EXPIRED: Final = "the credentials have expired"
_REGION: Final = "wrong region or endpoint: set the region the bucket is in"
_CLOCK: Final = "the clock of this machine is wrong; the store refuses the request"
_THROTTLED: Final = "the store asks to slow down"
_NO_CREDENTIALS: Final = (
    "no credentials found: give them, set the environment variables of the store,"
    " or ask for anonymous access"
)
_PLAIN_HTTP: Final = "the endpoint is plain HTTP: pass allow_http=True to accept that"
_UNREACHABLE: Final = "cannot reach the store: check endpoint, host name and network"
_ELSEWHERE: Final = "another address"
_REDIRECTED: Final = (
    f"the store redirects to {_ELSEWHERE}, which is not followed; if that is to be trusted,"
    f" use it as the endpoint, or allow it by frazil.config.set({ALLOWED}=…)"
    f" or the environment variable FRAZIL_{ALLOWED.upper()}"
)
_NO_SUPPORT: Final = "the store does not support this operation"

_CODES: Final = (
    (_MISSING_BUCKET, ErrorKind.STORAGE_CONFIG, "NoSuchBucket ContainerNotFound InvalidBucketName"),
    (_BAD_KEY, ErrorKind.OBJECT_STORE, "InvalidAccessKeyId"),
    (_BAD_SIGNATURE, ErrorKind.OBJECT_STORE, "SignatureDoesNotMatch AuthenticationFailed"),
    (_DENIED, ErrorKind.OBJECT_STORE, "AccessDenied AuthorizationFailure"),
    (_DENIED, ErrorKind.OBJECT_STORE, "AuthorizationPermissionMismatch PublicAccessNotPermitted"),
    (_EXPIRED, ErrorKind.OBJECT_STORE, "ExpiredToken TokenRefreshRequired"),
    (_REGION, ErrorKind.STORAGE_CONFIG, "PermanentRedirect TemporaryRedirect"),
    (_REGION, ErrorKind.STORAGE_CONFIG, "AuthorizationHeaderMalformed"),
    (_REGION, ErrorKind.STORAGE_CONFIG, "IllegalLocationConstraintException"),
    (_CLOCK, ErrorKind.OBJECT_STORE, "RequestTimeTooSkewed"),
    (_THROTTLED, ErrorKind.THROTTLED, "SlowDown ServerBusy TooManyRequests"),
    (_NO_SUPPORT, ErrorKind.STORAGE_OTHER, "NotImplemented"),
)
_BY_CODE: Final = {code: (text, kind) for text, kind, codes in _CODES for code in codes.split()}

# The parts of obstore's own wording that tell causes apart; the first that fits counts.
_BY_TEXT: Final[tuple[tuple[str, str, ErrorKind], ...]] = (
    (NOWHERE, _REDIRECTED, ErrorKind.BAD_REDIRECT),
    ("error following redirect", _REDIRECTED, ErrorKind.BAD_REDIRECT),
    ("169.254.169.254", _NO_CREDENTIALS, ErrorKind.STORAGE_CONFIG),
    ("metadata.google.internal", _NO_CREDENTIALS, ErrorKind.STORAGE_CONFIG),
    ("incorrectly configured region", _REGION, ErrorKind.STORAGE_CONFIG),
    ("builder error", _PLAIN_HTTP, ErrorKind.STORAGE_CONFIG),
    ("URL scheme is not allowed", _PLAIN_HTTP, ErrorKind.STORAGE_CONFIG),
    ("kind: Timeout", "the store did not answer in time", ErrorKind.IO),
    ("kind: Connect", _UNREACHABLE, ErrorKind.IO),
    ("error sending request", "the connection to the store broke", ErrorKind.IO),
)

_BY_STATUS: Final[dict[int, tuple[str, ErrorKind]]] = {
    # Writes are redirected nowhere, not even by obstore.
    **dict.fromkeys((301, 302, 303, 307, 308), (_REDIRECTED, ErrorKind.BAD_REDIRECT)),
    401: (_DENIED, ErrorKind.OBJECT_STORE),
    403: (_DENIED, ErrorKind.OBJECT_STORE),
    405: (_NO_SUPPORT, ErrorKind.STORAGE_OTHER),
    416: ("the range lies outside the object", ErrorKind.INVALID_OBJECT_SIZE),
    429: (_THROTTLED, ErrorKind.THROTTLED),
    501: (_NO_SUPPORT, ErrorKind.STORAGE_OTHER),
    503: (_THROTTLED, ErrorKind.THROTTLED),
}

_BY_TYPE: Final[tuple[tuple[type[BaseException], str, ErrorKind], ...]] = (
    (FileNotFoundError, "the object does not exist", ErrorKind.OBJECT_NOT_FOUND),
    (foreign.UnauthenticatedError, "cannot get credentials", ErrorKind.OBJECT_STORE),
    (foreign.PermissionDeniedError, _DENIED, ErrorKind.OBJECT_STORE),
    (foreign.AlreadyExistsError, "the object exists already", ErrorKind.OBJECT_STORE),
    (foreign.PreconditionError, "the object has changed", ErrorKind.OBJECT_STORE),
    (foreign.NotModifiedError, "the object has not changed", ErrorKind.OBJECT_STORE),
    (foreign.NotSupportedError, _NO_SUPPORT, ErrorKind.STORAGE_OTHER),
    (NotImplementedError, _NO_SUPPORT, ErrorKind.STORAGE_OTHER),
    (foreign.UnknownConfigurationKeyError, "unknown option", ErrorKind.STORAGE_CONFIG),
    (foreign.InvalidPathError, "the store cannot hold this key", ErrorKind.STORAGE_OTHER),
    (foreign.JoinError, "a request was cut short", ErrorKind.IO),
    (TimeoutError, "the store did not answer in time", ErrorKind.IO),
    (OSError, "input or output failed", ErrorKind.IO),
    (ValueError, "the store refuses the arguments", ErrorKind.STORAGE_CONFIG),
    (TypeError, "the store refuses the arguments", ErrorKind.STORAGE_CONFIG),
)


def server_code(error: BaseException) -> str | None:
    """The code in the answer of the server, such as `NoSuchBucket`."""
    found = _CODE.search(str(error))
    return found[1] if found else None


def status_of(error: BaseException) -> int | None:
    """The HTTP status that an error tells of."""
    found = _STATUS.search(str(error))
    return int(found[1]) if found else None


def is_missing_bucket(error: BaseException) -> bool:
    """Whether a "not found" means that the bucket, not the object, is missing."""
    return _BY_CODE.get(server_code(error) or "", ("",))[0] == _MISSING_BUCKET


def is_unsupported(error: BaseException) -> bool:
    """Whether the store said that it cannot do what was asked."""
    unsupported = (foreign.NotSupportedError, NotImplementedError)
    return isinstance(error, unsupported) or status_of(error) in (405, 501)


def is_uncertain(error: BaseException) -> bool:
    """Whether a write that ended so may nevertheless have taken effect."""
    if not isinstance(error, foreign.GenericError | foreign.JoinError | TimeoutError):
        return False
    status = status_of(error)
    text = str(error)
    # Gateways have numbers of their own above 504; only 501 says that nothing was tried.
    is_open = status in (None, 408, 425, 429) or (status >= 500 and status != 501)
    return is_open and not any(
        mark in text for mark in ("169.254.169.254", "builder error", "configured region", NOWHERE)
    )


def is_unsent(error: BaseException) -> bool:
    """Whether a request ended before anything of it was sent."""
    return "kind: Connect" in str(error)


def is_broken_reply(error: StorageError) -> bool:
    """Whether a reply broke off in the middle, after obstore had called it a success."""
    return "response body" in str(error.facts.get("cause", ""))


def cleaned(error: BaseException) -> str:
    """The wording of a foreign error without its debug dump and without secrets."""
    text, _, _ = str(error).partition("\n\nDebug source:")
    message = _MESSAGE.search(text)
    text = _XML.sub(message[1] if message else "", text)
    text = shown_foreign(text).strip()
    return text if len(text) <= _MAX_TEXT else text[:_MAX_TEXT] + "..."


def fault(error: BaseException, action: str, key: str, where: str) -> FrazilError:
    """Our error for a foreign one: what was wrong, what to do, and where."""
    code, status = server_code(error), status_of(error)
    message, kind = _explain(error, code, status)
    facts: dict[str, object] = {"action": action, "key": key, "storage": where}
    if code or status:
        facts["answer"] = code or status
    if kind is ErrorKind.BAD_REDIRECT and (there := _target(error)) is not None:
        message = message.replace(_ELSEWHERE, f"{_ELSEWHERE}, {bare_url(there)}")
    return StorageError(message, kind=kind, **facts, cause=cleaned(error))


def _target(error: BaseException) -> str | None:
    """Where a store redirects to. obstore does not say, so a bare request asks again."""
    asked = _ASKED.search(str(error))
    if asked is None:
        return None
    url = bare_url(asked[1])
    try:
        _, location = ask_location(url, {}, _LOOK_S)
    except (OSError, ValueError, http.client.HTTPException):
        return None
    return None if location is None else urljoin(url, location)


def ask_location(url: str, headers: dict[str, str], timeout_s: int) -> tuple[int, str | None]:
    """Status and `Location` that a web server answers with; what it redirects to is not asked."""
    parts = urlsplit(url)
    is_safe = parts.scheme == "https"
    connect = http.client.HTTPSConnection if is_safe else http.client.HTTPConnection
    connection = connect(parts.hostname or "", parts.port, timeout=timeout_s)
    target = parts._replace(scheme="", netloc="", fragment="").geturl() or "/"
    try:
        connection.request("GET", target, headers=headers)
        reply = connection.getresponse()
        return reply.status, reply.getheader("Location")
    finally:
        connection.close()


def shown_status(status: int, action: str, key: str, where: str) -> StorageError:
    """Our error for an answer of a web server."""
    message, kind = _BY_STATUS.get(status, ("the store failed", ErrorKind.OBJECT_STORE))
    return StorageError(message, kind=kind, action=action, key=key, storage=where, answer=status)


def unreachable(error: BaseException, key: str, where: str) -> StorageError:
    """Our error for a web server that gave no whole answer."""
    is_late = isinstance(error, TimeoutError)
    return StorageError(
        "the store did not answer in time" if is_late else _UNREACHABLE,
        kind=ErrorKind.IO,
        key=key,
        storage=where,
        cause=cleaned(error),
    )


def _explain(error: BaseException, code: str | None, status: int | None) -> tuple[str, ErrorKind]:
    if code in _BY_CODE:
        return _BY_CODE[code]
    text = str(error)
    for mark, message, kind in _BY_TEXT:
        if mark in text:
            return message, kind
    if status in _BY_STATUS:
        return _BY_STATUS[status]
    for cls, message, kind in _BY_TYPE:
        if isinstance(error, cls):
            return message, kind
    return "the store failed", ErrorKind.OBJECT_STORE


@contextmanager
def translate_errors(action: str, key: str, where: str) -> Iterator[None]:
    """Turn whatever a call into obstore raises into our error."""
    try:
        yield
    except FrazilError:
        raise
    except FOREIGN as error:
        raise fault(error, action, key, where) from None


def check_headers(headers: dict[str, str] | None) -> dict[str, str]:
    """Refuse names and values that HTTP cannot carry, before any request is made."""
    for name, value in (headers or {}).items():
        if not _TOKEN.fullmatch(name):
            raise InvalidInputError(
                "invalid HTTP header name", kind=ErrorKind.STORAGE_OTHER, name=repr(name)
            )
        if not _HEADER_VALUE.fullmatch(value):
            raise InvalidInputError(
                "invalid HTTP header value", kind=ErrorKind.STORAGE_OTHER, name=name
            )
    return dict(headers or {})


_TOKEN: Final = re.compile(r"[A-Za-z0-9!#$%&'*+\-.^_`|~]+")
_HEADER_VALUE: Final = re.compile(r"[\t -~]*")
