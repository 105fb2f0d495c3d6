"""Metadata documents merged field by field, attributes key by key; pure."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, TypeAlias

from frazil.formats.zarr_meta import STRUCTURE
from frazil.merging.records import ConflictKind, Contested, MergeConflict, Outcome
from frazil.model.documents import read_document

Document: TypeAlias = dict[str, Any]
Settle: TypeAlias = Callable[[MergeConflict], Outcome]

ATTRIBUTES: Final = "attributes"
SHAPE: Final = "shape"
read: Final = read_document
"""A metadata document as a map."""


class Missing:
    """A key that is not there."""


MISSING: Final = Missing()


def same(one: object, other: object) -> bool:
    """Whether two JSON values are equal, 1, 1.0 and true being different ones."""
    if isinstance(one, Missing) or isinstance(other, Missing):
        return one is other
    return one is other or _canonical(one) == _canonical(other)


def _canonical(value: object) -> str:
    return json.dumps(value, sort_keys=True)


def write(document: Document) -> bytes:
    """The bytes of a metadata document."""
    return json.dumps(document, indent=2).encode()


def say_the_same(one: bytes, other: bytes) -> bool:
    """Whether two documents differ at most in spaces and in the order of names."""
    return one == other or same(read(one), read(other))


def merge_fields(
    path: str, base: Document, ours: Document, theirs: Document, settle: Settle
) -> Document:
    """All fields merged but those that say how chunks are read, which stay ours."""
    merged: Document = {}
    for name in _names(ours, theirs):
        if name in STRUCTURE or name == SHAPE:
            if name in ours:
                merged[name] = ours[name]
            continue
        values = [each.get(name, MISSING) for each in (base, ours, theirs)]
        if name == ATTRIBUTES and all(isinstance(each, Missing | dict) for each in values):
            old, own, their = map(_as_map, values)
            value: object = _attributes(path, old, own, their, settle)
        else:
            value = _one(ConflictKind.METADATA, path, name, values, settle)
        if not isinstance(value, Missing):
            merged[name] = value
    return merged


def _attributes(
    path: str, base: Document, ours: Document, theirs: Document, settle: Settle
) -> Document:
    merged: Document = {}
    for key in _names(ours, theirs):
        values = [each.get(key, MISSING) for each in (base, ours, theirs)]
        value = _one(ConflictKind.ATTRIBUTE, path, key, values, settle)
        if not isinstance(value, Missing):
            merged[key] = value
    return merged


def _as_map(value: object) -> Document:
    return value if isinstance(value, dict) else {}


def _names(ours: Mapping[str, object], theirs: Mapping[str, object]) -> Iterable[str]:
    return [*ours, *(name for name in theirs if name not in ours)]


def _one(kind: ConflictKind, path: str, name: str, values: list[object], settle: Settle) -> object:
    """One value of three: the one that was changed, or the one that is chosen."""
    base, ours, theirs = values
    if same(ours, theirs) or same(theirs, base):
        return ours
    if same(ours, base):
        return theirs
    shown = [None if isinstance(each, Missing) else each for each in (ours, theirs)]
    side = settle(MergeConflict(kind, path, shown[0], shown[1], name))
    if isinstance(side, Contested):
        return side.mark
    return theirs if side == "theirs" else ours


def structure(document: Document) -> Document:
    """The fields that say how chunks are read."""
    return {name: document[name] for name in STRUCTURE if name in document}


def has_shape(document: bytes) -> bool:
    """Whether a document tells the shape of an array; where a base is contested it does not."""
    return isinstance(read(document).get(SHAPE), list)


def rank(document: Document) -> int:
    """The number of axes."""
    shape = document.get(SHAPE)
    return len(shape) if isinstance(shape, list) else -1
