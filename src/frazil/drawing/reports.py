"""How reports show themselves: short as text, in full, with long parts folded, in a notebook."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from datetime import datetime
from enum import Enum
from typing import Any, Final

from frazil.drawing.markup import (
    GREEN,
    RED,
    Html,
    coloured,
    escaped,
    fields,
    folded,
    frame,
    joined_html,
    listing,
    table,
)
from frazil.masking import safe, shown_data
from frazil.naming import OURS

SHOWN_ITEMS: Final = 3
"""Items of a list that the text of a report shows."""


class ReportView:
    """Gives a dataclass, made with `repr=False`, a short `repr` and a view for notebooks."""

    __slots__ = ()

    def __repr__(self) -> str:
        shown = (f"{name}={_short(value, name)}" for name, value in _parts(self))
        return f"{type(self).__qualname__}({', '.join(shown)})"

    def _repr_html_(self) -> str:
        plain: list[tuple[str, Html]] = []
        below: list[Html] = []
        for name, value in _parts(self):
            found = _folded(name, value)
            if found is None:
                plain.append((name.replace("_", " "), _value(value, name)))
            else:
                below.append(found)
        return frame(f"{OURS}.{type(self).__qualname__}", [fields(plain), *below])


def _parts(record: object) -> Iterator[tuple[str, Any]]:
    """The fields that are shown, with what they hold."""
    for each in dataclasses.fields(record):  # type: ignore[arg-type]  # records are dataclasses
        if each.repr and not each.name.startswith("_"):
            yield each.name, getattr(record, each.name)


def _short(value: object, name: str) -> str:
    if isinstance(value, (Mapping, Set)) or (
        isinstance(value, Sequence) and not isinstance(value, (str, bytes))
    ):
        if len(value) > SHOWN_ITEMS:
            return f"<{len(value):,} items>"
        if isinstance(value, Mapping):
            return "{" + ", ".join(f"{k!r}: {_short(v, str(k))}" for k, v in value.items()) + "}"
        return "(" + ", ".join(_short(each, name) for each in value) + ")"
    return safe(repr(shown_data(value, name)))


def _folded(name: str, value: object) -> Html | None:
    """What takes more than a line, folded under its name; None for what does not."""
    title = name.replace("_", " ")
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        inner = [(key.replace("_", " "), _value(each, key)) for key, each in _parts(value)]
        return folded(title, fields(inner))
    if isinstance(value, Mapping) and value:
        rows = ([escaped(str(key)), _value(each, str(key))] for key, each in value.items())
        return folded(f"{title}: {len(value):,}", table(("", ""), rows))
    if isinstance(value, (Set, Sequence)) and not isinstance(value, (str, bytes)) and value:
        return folded(f"{title}: {len(value):,}", _many(name, value), is_open=len(value) <= 10)
    return None


def _many(name: str, values: Iterable[object]) -> Html:
    """Records as a table, anything else as lines."""
    items = list(values)
    kinds = {type(each) for each in items}
    if len(kinds) == 1 and dataclasses.is_dataclass(items[0]):
        columns = [key for key, _ in _parts(items[0])]
        rows = ([_value(each, key) for key, each in _parts(item)] for item in items)
        return table([column.replace("_", " ") for column in columns], rows)
    return listing(_value(each, name) for each in items)


def _value(value: object, name: str) -> Html:
    match value:
        case None:
            return escaped("none")
        case bool():
            return coloured("yes", GREEN) if value else escaped("no")
        case Enum():
            bad = {"error", "conflicts", "refused", "failed"}
            shown = str(value.value)
            return coloured(shown, RED) if shown in bad else escaped(shown)
        case int():
            return escaped(f"{value:,}")
        case float():
            return escaped(f"{value:.6g}")
        case datetime():
            return escaped(value.isoformat(" ", "seconds"))
        case str() | bytes():
            return escaped(str(shown_data(value, name)))
        case Mapping():
            pairs = (f"{key}: {shown_data(each, str(key))}" for key, each in value.items())
            return escaped(", ".join(pairs) or "none")
        case Sequence() | Set():
            return joined_html([_value(each, name) for each in list(value)[:8]], ", ") or escaped(
                "none"
            )
        case _:
            return escaped(str(value))
