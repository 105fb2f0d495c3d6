"""Rules for what must be equal in all files for their values to be one array."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Any, Final

import numpy as np

from frazil.cf.decoding import PACKING
from frazil.ingestion.encoding import decoded_fill, encoded_dtype, values_match
from frazil.ingestion.georeference import NAMING, NO_PLACES, PLACE, PLACING, Georeference
from frazil.ingestion.plans import Findings, JoinedVariable
from frazil.ingestion.records import FileVariable, canonical

SHOWN: Final = 120
"""Definitions of coordinate systems are long; a message has so many characters of them."""
MEANING: Final = ("units", "calendar", "flag_values", "flag_masks", "standard_name", "positive")
"""Attributes that say what a value is."""
TIME: Final = frozenset(["units", "calendar"])
CODES: Final = {"units": "units", "calendar": "calendar"}
"""what a difference in attributes is called, if it is not one of meaning"""
ENCODING: Final = (("data_type", "dtype"), ("codecs", "codecs"), ("fill_value", "fill-value"))
"""Parts of the metadata of an array that must be equal, and what a difference is called."""


def same_dims(joint: JoinedVariable, findings: Findings) -> tuple[str, ...] | None:
    """The dimensions that a variable has in all files."""
    first = joint.own[0].dims
    pairs = zip(joint.own_urls, joint.own, strict=True)
    odd = {url: part.dims for url, part in pairs if part.dims != first}
    if not odd:
        return first
    other = next(iter(odd.values()))
    detail = f"({', '.join(other)}) here, and ({', '.join(first)}) in the first file"
    findings.error("dimensions", f"the dimensions are {detail}", odd, joint.name)
    return None


def same_attrs(
    joint: JoinedVariable,
    findings: Findings,
    but: frozenset[str] = frozenset(),
    places: Georeference = NO_PLACES,
) -> dict[str, Any] | None:
    """The attributes of the first file, if those that matter are the same in all."""
    first = joint.parts[0].attrs
    having: dict[str, list[str]] = {}
    for url, part in zip(joint.urls, joint.parts, strict=True):
        having.setdefault(part.attributes, []).append(url)
    distinct = {part.attributes: part for part in reversed(joint.parts)}
    is_good = True
    told: dict[_Weight, set[str]] = {_Weight.LOOSE: set(), _Weight.APART: set()}
    for text, urls in [*having.items()][1:]:
        part, attrs = distinct[text], distinct[text].attrs
        for key in sorted({*first, *attrs}):
            if key in but or canonical(first.get(key)) == canonical(attrs.get(key)):
                continue
            weight = _weight(key, joint, part, places)
            if weight in told:
                told[weight].add(key)
                continue
            ours = _shown(key, joint.parts[0])
            detail = f"{key} is {_shown(key, part)} here, and {ours} in the first file"
            if weight is _Weight.PLACE:
                way = f"; {NAMING}=tell allows it" if PLACE in findings.refused else ""
                findings.warn(PLACE, f"{detail}{way}", urls, joint.name)
                is_good &= PLACE not in findings.refused
                continue
            is_good = False
            code = "packing" if key in PACKING else CODES.get(key, "meaning")
            findings.error(code, detail, urls, joint.name, can_materialize=key in PACKING)
    _tell_differences(told, joint.name, findings)
    kept = {key: value for key, value in first.items() if key not in told[_Weight.APART]}
    return kept if is_good else None


class _Weight(StrEnum):
    """What it means that an attribute differs."""

    LOOSE = "loose"
    """nothing for the values"""
    APART = "apart"
    """each file has its own, and coordinates say the same"""
    PLACE = "place"
    """values would be somewhere else on Earth"""
    STRICT = "strict"
    """the same numbers would be other values"""


def _weight(key: str, joint: JoinedVariable, part: FileVariable, places: Georeference) -> _Weight:
    if key in PACKING or key in MEANING:
        return _Weight.STRICT
    if not places.matters(joint.name, key):
        return _Weight.LOOSE
    # What the repository has stays there, and would be that of one part only.
    is_kept = joint.has_base and key in joint.parts[0].attrs
    return (
        _Weight.APART
        if key in PLACING and places.is_placed(part) and not is_kept
        else _Weight.PLACE
    )


def _tell_differences(
    told: Mapping[_Weight, Iterable[str]], variable: str, findings: Findings
) -> None:
    loose, apart = (", ".join(sorted(told[each])) for each in (_Weight.LOOSE, _Weight.APART))
    if loose:
        detail = f"attributes differ, those of the first file are taken: {loose}"
        findings.note("attributes", detail, (), variable)
    if apart:
        detail = f"attributes differ and are left out, since coordinates say the same: {apart}"
        findings.note("attributes", detail, (), variable)


def _shown(key: str, part: FileVariable) -> str:
    """An attribute for people: numbers as numbers, whatever Zarr spells them like."""
    value = part.attrs.get(key, "missing")
    if key == "_FillValue" and isinstance(value, str) and key in part.attrs:
        found = decoded_fill(part.attrs, encoded_dtype(part.encoding))
        if found is not None:
            value = found.item() if isinstance(found, np.generic) else found
    text = repr(value)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}…"


def same_encoding(joint: JoinedVariable, findings: Findings, *, has_codecs: bool = True) -> bool:
    """Whether the bytes of chunks mean the same in all files.

    Without `has_codecs` only the type of the values counts, as for values that are copied.
    """
    first, is_same = joint.parts[0], True
    pairs = zip(joint.urls, joint.parts, strict=True)
    odd = [(url, part.meaning) for url, part in pairs if part.encoding != first.encoding]
    for key, code in ENCODING if has_codecs else ENCODING[:1]:
        ours = first.meaning.get(key)
        files = {
            url: meaning.get(key)
            for url, meaning in odd
            if canonical(meaning.get(key)) != canonical(ours)
        }
        if files:
            is_same = False
            theirs = next(iter(files.values()))
            detail = f"{key} is {_brief(theirs)} here, and {_brief(ours)} in the first file"
            findings.error(code, detail, files, joint.name, can_materialize=True)
    return is_same


def _brief(value: object) -> str:
    if isinstance(value, list) and all(isinstance(each, dict) for each in value):
        return " > ".join(_codec(each) for each in value)
    return str(value)


def _codec(each: Mapping[str, Any]) -> str:
    settings = each.get("configuration") or {}
    inner = ", ".join(f"{key}={value}" for key, value in settings.items())
    return f"{each.get('name')}({inner})" if inner else str(each.get("name"))


def same_values(parts: Sequence[FileVariable]) -> bool:
    """Whether all parts have values, and the same ones."""
    first = parts[0].values
    return first is not None and all(
        part.values is not None and values_match(first, part.values) for part in parts[1:]
    )


def equal_values(joint: JoinedVariable, findings: Findings, *, has_codecs: bool = True) -> bool:
    """Whether a variable that is not joined has the same values in all files that were loaded."""
    first = joint.parts[0].values
    if first is None:
        return same_encoding(joint, findings, has_codecs=has_codecs)
    odd = [
        url
        for url, part in zip(joint.urls, joint.parts, strict=True)
        if part.values is None or not values_match(first, part.values)
    ]
    if odd:
        detail = (
            "the values differ from those of the first file, and no dimension of it is joined;"
            " leave the variable out, or name the dimension to join"
        )
        findings.error("coordinate-values", detail, odd, joint.name)
    return not odd


def decoded_attrs(attrs: Mapping[str, Any]) -> dict[str, Any]:
    """Attributes of values whose packing is undone."""
    return {key: value for key, value in attrs.items() if key not in PACKING}
