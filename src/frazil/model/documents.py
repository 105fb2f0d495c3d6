"""JSON from files of others: read within bounds, and a damaged one is an error that says so."""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Any, Final, TypeAlias

from frazil.errors import ErrorKind, FormatError
from frazil.model.nodes import Node

Document: TypeAlias = dict[str, Any]
"""A `zarr.json`."""
MANY_VALUES: Final = 1 << 20
"""Values that a text may have, however short they are."""
BYTES_PER_VALUE: Final = 16
"""Beyond those, texts must have so many bytes for each of their values."""


def read_json(data: bytes | str) -> Any:  # noqa: ANN401 - whatever JSON holds
    """A JSON text.

    Raises:
        ValueError: it is none, is nested too deep, or has more values than a text of its size
            would have that was written for people or programs to read.
    """
    commas, brackets = (b",", b"[") if isinstance(data, bytes) else (",", "[")
    if len(data) > MANY_VALUES:
        values = data.count(commas) + data.count(brackets)  # type: ignore[arg-type]  # the same type
        if values > MANY_VALUES + len(data) // BYTES_PER_VALUE:
            raise ValueError(f"it has {values} values")
    try:
        return json.loads(data)
    except RecursionError:
        raise ValueError("it is nested too deep") from None


def read_document(data: bytes, *, path: str | None = None) -> Document:
    """The `zarr.json` of a node."""
    try:
        found = read_json(data)
    except ValueError as error:
        raise damaged_document(f"it is not JSON: {error}", path) from error
    if not isinstance(found, dict):
        raise damaged_document("it is not a JSON object", path)
    return found


@lru_cache(maxsize=1024)
def require_json(data: bytes, path: str) -> None:
    """Refuse a `zarr.json` that readers would stumble over."""
    read_document(data, path=path)


def document_of(node: Node) -> Document:
    """The `zarr.json` of a node."""
    return read_document(node.user_data, path=node.path)


def damaged_document(problem: str, path: str | None) -> FormatError:
    """The error for a `zarr.json` that cannot be understood."""
    facts = {} if path is None else {"path": path}
    return FormatError(f"damaged zarr.json: {problem}", kind=ErrorKind.BAD_METADATA, **facts)
