"""How the texts of options are read; each function refuses with what it expects."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Final


def text(written: str) -> str:
    """Any text but the empty one."""
    if not written.strip():
        raise ValueError("it must not be empty")
    return written.strip()


def flag(written: str) -> bool:
    """Yes or no."""
    match written.strip().lower():
        case "true" | "yes" | "on" | "1":
            return True
        case "false" | "no" | "off" | "0":
            return False
        case _:
            raise ValueError("it must be true or false")


def always(written: str) -> bool:
    """Yes, where there is no other way."""
    if not flag(written):
        raise ValueError("it can only be true")
    return True


_UNITS: Final = {"": 1, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}


def size(written: str) -> int:
    """A positive number of bytes, perhaps with a unit: `64m`, `128 MiB`."""
    found = re.fullmatch(r"\s*(\d+)\s*([kmgt]?)(?:i?b)?\s*", written, re.IGNORECASE)
    if found is None or int(found[1]) == 0:
        raise ValueError("it must be a positive number of bytes, such as 134217728 or 128m")
    return int(found[1]) * _UNITS[found[2].lower()]


def count(written: str) -> int:
    """A positive whole number."""
    if not written.strip().isdecimal() or int(written) == 0:
        raise ValueError("it must be a positive whole number")
    return int(written)


def number(written: str) -> int:
    """A whole number."""
    try:
        return int(written)
    except ValueError:
        raise ValueError("it must be a whole number") from None


def names(written: str) -> tuple[str, ...]:
    """A list of names, with commas between them; names with commas stand in backquotes."""
    found = [a or b for a, b in re.findall(r"`([^`]+)`|([^,`\s][^,`]*)", written)]
    chosen = tuple(dict.fromkeys(name.strip() for name in found))
    if not chosen:
        raise ValueError("it must be a list of names, such as 'a, b'")
    return chosen


def moment(written: str) -> datetime:
    """A time as text, UTC when it names no zone, or as milliseconds since 1970."""
    if re.fullmatch(r"\s*-?\d{6,}\s*", written):
        return datetime.fromtimestamp(int(written) / 1000, UTC)
    try:
        found = datetime.fromisoformat(written.strip())
    except ValueError:
        raise ValueError("it must be a time such as 2024-05-01T12:00:00Z") from None
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)


def one_of(*choices: str) -> Callable[[str], str]:
    """A reader of one of a few words."""

    def read(written: str) -> str:
        if written.strip().lower() not in choices:
            raise ValueError(f"it must be one of {', '.join(choices)}")
        return written.strip().lower()

    return read


_SETTING: Final = re.compile(
    r"\s*(?:(?:`(?P<quoted>[^`]+)`|(?P<name>[^\s,=`]+))\s*=\s*)?"
    r"(?P<value>'[^']*'|[^,'=]+?)\s*(?:,|$)"
)


def settings(written: str) -> dict[str, str]:
    """Values by name, as in `time=24, lat=100`; a value alone is for all and has the name ''."""
    found: dict[str, str] = {}
    at = 0
    while at < len(written.rstrip()):
        item = _SETTING.match(written, at)
        if item is None or (name := item["quoted"] or item["name"] or "") in found:
            raise ValueError("it must be one value, or NAME=VALUE with commas between")
        found[name] = item["value"].strip("'")
        at = item.end()
    if not found:
        raise ValueError("it must not be empty")
    return found


def counts(written: str) -> dict[str, int]:
    """Positive whole numbers by name."""
    return {name: count(value) for name, value in settings(written).items()}


def document(written: str) -> Any:  # noqa: ANN401  (what JSON can hold)
    """A JSON document."""
    try:
        return json.loads(written)
    except json.JSONDecodeError as error:
        raise ValueError(f"it must be JSON: {error}") from None


def documents(written: str) -> dict[str, Any]:
    """A JSON object."""
    found = document(written)
    if not isinstance(found, dict):
        raise ValueError("it must be a JSON object")  # noqa: TRY004  (what all readers raise)
    return found
