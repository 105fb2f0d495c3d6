"""What may be shown of foreign and secret text, decided once for everything that shows text.

Two rules. Secrets are hidden: users and queries of URLs, values of options with telling names, all
values of headers. Characters that control a terminal, or turn the direction of text around, are
spelled out. Errors, `repr`, logs, inspection, plans of queries and the command line come here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import fields
from typing import Any, Final

HIDDEN: Final = "****"

_URL: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]*://[^\s'\"<>]+")
_USER: Final = re.compile(r"([a-z][a-z0-9+.\-]*)://([^/?#\s]*)@", re.IGNORECASE)
_QUERY: Final = re.compile(r"\?[^\s,)]*")
_PAIR: Final = re.compile(
    r"(?i)\b(sig|signature|token|password|secret|credential|authorization|account_?key"
    r"|access_?key|private_?key)([\"']?\s*[=:]\s*[\"']?)[^\s&,;\"']+"
)
_END: Final = re.compile(r"[),.;\]]*\Z")
_SECRET: Final = re.compile(
    r"secret|token|passw|pwd|authorization|bearer|cookie|signature|credential|service_account"
    r"|connection_string|(?:^|_)sas(?:_|$)|(?:^|_)sig$|_key$"
    r"|(?:access|account|private|encryption|master|shared|customer|api)_?key"
)
_PLAIN: Final = frozenset({"access_key_id", "aws_access_key_id", "sse_kms_key_id"})
"""Names that look secret and are not: they only identify a key."""
_NAMED_ACCOUNTS: Final = frozenset({"az", "azure", "abfs", "abfss", "wasb", "wasbs"})
"""Schemes in which the part before `@` is a container, not a user with a password."""
_CONTROLS: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)


# --- secrets ---


def shown_url(url: str) -> str:
    """A URL as it may be shown: without user, password and query."""
    place, question, _ = url.partition("?")
    shown = _USER.sub(_without_user, place)
    return f"{shown}?{HIDDEN}" if question else shown


def _without_user(found: re.Match[str]) -> str:
    scheme, user = found[1], found[2]
    if scheme.lower() in _NAMED_ACCOUNTS and ":" not in user and "@" not in user:
        return found[0]
    return f"{scheme}://{HIDDEN}@"


def shown_text(text: str) -> str:
    """Text in which all URLs are as they may be shown."""
    return _URL.sub(_shown_in_text, text) if "://" in text else text


def _shown_in_text(found: re.Match[str]) -> str:
    end = _END.search(found[0])
    after = end[0] if end else ""
    return shown_url(found[0].removesuffix(after)) + after


def bare_url(url: str) -> str:
    """A URL of which only the place is left, to name and to compare it."""
    place = re.split(r"[?#]", url, maxsplit=1)[0]
    return _USER.sub(lambda found: f"{found[1]}://", place)


def shown_foreign(text: str) -> str:
    """The words of another library, which may hold queries and secrets outside of URLs too."""
    bare = _QUERY.sub("", _USER.sub(r"\1://", text))
    return clean(_PAIR.sub(rf"\1\2{HIDDEN}", bare))


def is_secret(name: str) -> bool:
    """Whether the value of an option or setting with this name is not to be shown."""
    plain = name.rpartition(".")[2].lower().replace("-", "_")
    return plain not in _PLAIN and _SECRET.search(plain) is not None


def shown_option(name: str, value: str) -> str:
    """The value of an option as it may be shown."""
    return HIDDEN if is_secret(name) else shown_text(value)


def shown_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """Headers as they may be shown: any of them may carry a secret."""
    return dict.fromkeys(headers, HIDDEN)


def shown_data(value: Any, name: str = "") -> Any:  # noqa: ANN401  (JSON)
    """Plain data, such as a configuration, as it may be shown."""
    match value:
        case Mapping() if name == "headers":
            return shown_headers(value)
        case Mapping():
            return {shown_data(key): shown_data(item, str(key)) for key, item in value.items()}
        case list() | tuple():
            return [shown_data(item, name) for item in value]
        case str():
            return shown_option(name, value)
        case _:
            return value


class MaskedRecord:
    """A dataclass, made with `repr=False`, whose `repr` has its fields as they may be shown."""

    __slots__ = ()

    def __repr__(self) -> str:
        shown = (
            f"{each.name}={shown_data(getattr(self, each.name), each.name)!r}"
            for each in fields(self)  # type: ignore[arg-type]  # every subclass is a dataclass
            if each.repr
        )
        return f"{type(self).__qualname__}({', '.join(shown)})"


# --- terminals ---


def clean(text: str) -> str:
    """Text without the characters that control a terminal; lines and tabs stay."""
    return _CONTROLS.sub(lambda found: f"\\x{ord(found[0]):02x}", text)


def clean_json(text: str) -> str:
    """A JSON document that says the same without such characters, which stand only in strings."""
    return _CONTROLS.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def safe(text: str) -> str:
    """Text for people: no secrets in URLs, nothing that controls a terminal."""
    return clean(shown_text(text))
