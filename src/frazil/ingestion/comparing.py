"""Rules for what must be equal in all files for their values to be one array."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from frazil.cf.attributes import PACKING
from frazil.ingestion.encoding import decoded_fill, dtype_of, same
from frazil.ingestion.findings import Findings
from frazil.ingestion.records import Variable, canonical

MEANING: Final = ("units", "calendar", "flag_values", "flag_masks", "standard_name", "positive")
"""Attributes that say what a value is."""
TIME: Final = frozenset(["units", "calendar"])
ENCODING: Final = (("data_type", "dtype"), ("codecs", "codecs"), ("fill_value", "fill-value"))
"""Parts of the metadata of an array that must be equal, and what a difference is called."""


def same_dims(
    name: str, urls: Sequence[str], parts: Sequence[Variable], findings: Findings
) -> tuple[str, ...] | None:
    """The dimensions that a variable has in all files."""
    first = parts[0].dims
    odd = [url for url, part in zip(urls, parts, strict=True) if part.dims != first]
    if not odd:
        return first
    other = next(part.dims for part in parts if part.dims != first)
    findings.error(
        "dimensions",
        f"the dimensions are ({', '.join(other)}) here, and ({', '.join(first)}) in the first file",
        odd,
        name,
    )
    return None


def same_attrs(
    name: str,
    urls: Sequence[str],
    parts: Sequence[Variable],
    findings: Findings,
    but: frozenset[str] = frozenset(),
) -> dict[str, Any] | None:
    """The attributes of the first file, if those that matter are the same in all."""
    first = parts[0].attrs
    texts = {parts[0].attributes}
    is_good, loose = True, set()
    for url, part in zip(urls, parts, strict=True):
        if part.attributes in texts:
            continue
        texts.add(part.attributes)
        attrs = part.attrs
        for key in {*first, *attrs}:
            if key in but or canonical(first.get(key)) == canonical(attrs.get(key)):
                continue
            if key not in PACKING and key not in MEANING:
                loose.add(key)
                continue
            is_good = False
            told = _Difference(name, key, _shown(key, part), _shown(key, parts[0]))
            _tell_attribute(told, _having(urls, parts, part, url), findings)
    if loose:
        findings.note(
            "attributes",
            f"attributes differ, those of the first file are taken: {', '.join(sorted(loose))}",
            (),
            name,
        )
    return first if is_good else None


def _having(
    urls: Sequence[str], parts: Sequence[Variable], like: Variable, url: str
) -> Iterable[str]:
    found = [
        other for other, part in zip(urls, parts, strict=True) if part.attributes == like.attributes
    ]
    return found or [url]


@dataclass(frozen=True, slots=True)
class _Difference:
    """An attribute that is not the same in all files."""

    name: str
    key: str
    here: str
    first: str


def _shown(key: str, part: Variable) -> str:
    """An attribute for people: numbers as numbers, whatever Zarr spells them like."""
    value = part.attrs.get(key, "missing")
    if key == "_FillValue" and isinstance(value, str) and key in part.attrs:
        found = decoded_fill(part.attrs, dtype_of(part.encoding))
        value = found.item() if isinstance(found, np.generic) else found
    return repr(value)


def _tell_attribute(told: _Difference, urls: Iterable[str], findings: Findings) -> None:
    key = told.key
    code = "packing" if key in PACKING else "calendar" if key == "calendar" else "units"
    if key in MEANING and key not in TIME:
        code = "meaning"
    findings.error(
        code,
        f"{key} is {told.here} here, and {told.first} in the first file",
        urls,
        told.name,
        can_materialize=key in PACKING,
    )


def same_encoding(
    name: str,
    urls: Sequence[str],
    parts: Sequence[Variable],
    findings: Findings,
    *,
    has_codecs: bool = True,
) -> bool:
    """Whether the bytes of chunks mean the same in all files.

    Without `has_codecs` only the type of the values counts, as for values that are copied.
    """
    first = parts[0].encoding
    odd = [(url, part) for url, part in zip(urls, parts, strict=True) if part.encoding != first]
    if not odd:
        return True
    ours, before = parts[0].meaning, len(findings.found)
    for key, code in ENCODING if has_codecs else ENCODING[:1]:
        wanted = canonical(ours.get(key))
        others = [(url, part.meaning) for url, part in odd]
        files = [url for url, meaning in others if canonical(meaning.get(key)) != wanted]
        if not files:
            continue
        theirs = next(meaning for url, meaning in others if url == files[0])
        findings.error(
            code,
            f"{key} is {_brief(theirs.get(key))} here, and {_brief(ours.get(key))} in the first"
            " file",
            files,
            name,
            can_materialize=True,
        )
    return len(findings.found) == before


def _brief(value: object) -> str:
    if isinstance(value, list) and all(isinstance(each, dict) for each in value):
        return " > ".join(_codec(each) for each in value)
    return str(value)


def _codec(each: Mapping[str, Any]) -> str:
    settings = each.get("configuration") or {}
    inner = ", ".join(f"{key}={value}" for key, value in settings.items())
    return f"{each.get('name')}({inner})" if inner else str(each.get("name"))


def same_values(parts: Sequence[Variable]) -> bool:
    """Whether all parts have values, and the same ones."""
    first = parts[0].values
    return first is not None and all(
        part.values is not None and same(first, part.values) for part in parts[1:]
    )


def equal_values(
    name: str,
    urls: Sequence[str],
    parts: Sequence[Variable],
    findings: Findings,
    *,
    has_codecs: bool = True,
) -> bool:
    """Whether a variable that is not joined has the same values in all files that were loaded."""
    first = parts[0].values
    if first is None:
        return same_encoding(name, urls, parts, findings, has_codecs=has_codecs)
    odd = [
        url
        for url, part in zip(urls, parts, strict=True)
        if part.values is None or not same(first, part.values)
    ]
    if odd:
        findings.error(
            "coordinate-values",
            "the values differ from those of the first file, and no dimension of it is joined;"
            " leave the variable out, or name the dimension to join",
            odd,
            name,
        )
    return not odd


def decoded_attrs(attrs: Mapping[str, Any]) -> dict[str, Any]:
    """Attributes of values whose packing is undone."""
    return {key: value for key, value in attrs.items() if key not in PACKING}
