"""Python values and requests as options of the data source, whose names and values are texts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from frazil.errors import invalid_option
from frazil.spark.options.labels import Isel, Lists, Sel
from frazil.spark.options.table import OPTIONS, STORAGE, ReadRequest
from frazil.spark.reading.where import Predicate
from frazil.texts import backquoted


def as_text(value: object) -> str:
    """A Python value as options write it."""
    match value:
        case bool():
            return str(value).lower()
        case str() | int() | float():
            return str(value)
        case datetime():
            return value.isoformat()
        case slice():
            return _slice(value)
        case Mapping():
            return ", ".join(f"`{name}`={_labels(each)}" for name, each in value.items())
        case Iterable():
            return ", ".join(_name(each) for each in value)
        case _:
            raise invalid_option(f"an option cannot be {type(value).__name__}")


def _name(value: object) -> str:
    text = str(value)
    return f"`{text}`" if "," in text or " " in text else text


def _labels(value: object) -> str:
    if isinstance(value, slice):
        return _slice(value)
    if isinstance(value, Iterable) and not isinstance(value, str):
        return f"[{', '.join(_label(each) for each in value)}]"
    return _label(value)


def _slice(value: slice) -> str:
    start, stop = ("" if part is None else _label(part) for part in (value.start, value.stop))
    return f"{start}:{stop}" + ("" if value.step is None else f":{value.step}")


def _label(value: object) -> str:
    if isinstance(value, datetime):
        return value.isoformat()
    return f"'{value}'" if isinstance(value, str) else str(value)


def storage_texts(storage_options: Mapping[str, Any] | None) -> dict[str, str]:
    """Arguments of a storage as options of the source."""
    return {STORAGE + name: as_text(value) for name, value in (storage_options or {}).items()}


def spelled(name: str) -> str:
    """The name of an option as it is documented."""
    plain = name.replace("_", "-")
    known = {option.name for option in OPTIONS}
    return plain if plain in known or name not in known else name


def changed_options(before: ReadRequest, after: ReadRequest) -> dict[str, str]:
    """The options that turn one request into another, as the texts that Spark hands to tasks."""
    return {
        option.name: _written(value)
        for option in OPTIONS
        if (value := getattr(after, option.field, None)) != getattr(before, option.field, None)
    }


def _written(value: object) -> str:
    match value:
        case Isel() | Lists() | Predicate() | Sel():
            return value.text
        case tuple():
            return ", ".join(map(backquoted, value))
        case _:
            return as_text(value)
