"""Templates, and how they write times, sizes and addresses; all foreign text is escaped."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

import frazil
from frazil.cli.text import axes, counted, one_line, second_text, short, size
from frazil.masking import clean, safe
from frazil.web.drawing import growth_chart


def make_environment() -> Environment:
    """The templates of this package, which escape whatever they are given."""
    made = Environment(
        loader=PackageLoader("frazil.web"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_cleaned,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters.update(
        size=size,
        short=short,
        moment=second_text,
        day=lambda when: when.astimezone(UTC).strftime("%Y-%m-%d"),
        ago=ago,
        axes=axes,
        counted=counted,
        headline=one_line,
        safe_text=safe,
        embedded=embedded,
    )
    made.globals.update(
        zip_dims=zip, link=link, growth_chart=growth_chart, frazil_version=frazil.__version__
    )
    return made


def _cleaned(value: object) -> object:
    """What a template writes, with control characters and halves of characters spelled out."""
    if not isinstance(value, str) or isinstance(value, Markup):
        return value
    return clean(value.replace("\r\n", "\n"))


def link(repository: str, page: str = "", /, **params: object) -> str:
    """The address of a page of a repository; parameters that are None are left out."""
    given = {name: value for name, value in params.items() if value is not None}
    query = f"?{urlencode(given)}" if given else ""
    return f"/r/{repository}/{page}{query}"


def embedded(data: Mapping[str, Any]) -> Markup:
    """Data for a script, inside an element of type `application/json`."""
    text = json.dumps(data, ensure_ascii=True)
    for mark in "<>&":
        text = text.replace(mark, f"\\u{ord(mark):04x}")
    return Markup(text)  # no character is left that HTML knows


def ago(when: datetime) -> str:
    """How long ago something was, in words."""
    seconds = max(0, int((datetime.now(UTC) - when).total_seconds()))
    for unit, length in (("year", 31_557_600), ("month", 2_629_800), ("day", 86_400)):
        if seconds >= length:
            return f"{counted(seconds // length, unit)} ago"
    for unit, length in (("hour", 3600), ("minute", 60)):
        if seconds >= length:
            return f"{counted(seconds // length, unit)} ago"
    return "just now"
