"""Cells of an array as text, CSV and JSON; read within a limit."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Sequence
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt
import zarr

from frazil.cli.answers import Answer, Screen
from frazil.cli.arguments import parse_region
from frazil.cli.documents import document, type_name
from frazil.cli.places import find_node, open_place
from frazil.cli.text import counted
from frazil.errors import ErrorKind, FormatError, FrazilError
from frazil.ids import SnapshotId
from frazil.masking import clean
from frazil.model.nodes import ArrayNode
from frazil.session import Session
from frazil.texts import json_float

Region = tuple[slice, ...]
Values = npt.NDArray[Any]


def read_values(
    url: str,
    path: str,
    region: str,
    limit: int,
    authorize: Sequence[str] | None,
    *,
    as_csv: bool,
) -> Answer:
    """Read a region of an array, cut to a number of cells."""
    place = open_place(url, authorize)
    session = Session(place.repository.context, SnapshotId.parse(place.snapshot_id()))
    find_node(session.state, path)
    node = session.state.array(path)
    asked = parse_region(region, tuple(d.array_length for d in node.shape))
    chosen = cut(asked, limit)
    values = _read(session, path, chosen)
    if chosen != asked:
        total = counted(math.prod(map(_length, asked)), "cell")
        said = f"showing {written(chosen)} of {total}; choose with --region or --limit"
        print(said, file=sys.stderr)
    data = {
        "snapshot_id": session.snapshot_id,
        "path": path,
        "dtype": type_name(document(node).get("data_type")),
        "region": [[part.start, part.stop, part.step] for part in chosen],
        "truncated": chosen != asked,
        "values": plain(values),
    }
    if as_csv:
        return Answer(data, lambda screen: _write_csv(screen, node, chosen, values))
    return Answer(data, lambda screen: _write_text(screen, values))


def _read(session: Session, path: str, region: Region) -> Values:
    """The cells of a region."""
    try:
        array = zarr.open_array(session.store, path=path, mode="r")
    except (ValueError, TypeError, KeyError) as error:
        if isinstance(error, FrazilError):
            raise
        raise FormatError(f"zarr cannot open {path!r}: {error}", ErrorKind.BAD_METADATA) from error
    return np.asarray(array[region])


def _length(part: slice) -> int:
    return len(range(part.start, part.stop, part.step))


def cut(region: Region, limit: int) -> Region:
    """The beginning of a region with at most so many cells; the last axes stay longest."""
    kept: list[slice] = []
    room = limit
    for part in reversed(region):
        length = min(_length(part), max(room, 1))
        is_whole = length == _length(part)
        end = part.stop if is_whole else part.start + (length - 1) * part.step + 1
        kept.append(slice(part.start, end, part.step))
        room //= max(length, 1)
    return tuple(reversed(kept))


def written(region: Iterable[slice]) -> str:
    """A region as one would write it."""
    parts = (
        f"{part.start}:{part.stop}" + (f":{part.step}" if part.step != 1 else "") for part in region
    )
    return f"[{', '.join(parts)}]"


def plain(values: Values) -> Any:  # noqa: ANN401  (nested lists of JSON scalars)
    """Values as JSON can hold them; what it cannot becomes text, complex numbers become pairs."""
    if values.dtype.kind == "M":
        return np.datetime_as_string(values).tolist()
    if values.dtype.kind == "m":
        return values.astype(str).tolist()
    if values.dtype.kind == "c":
        return plain(np.stack([values.real, values.imag], axis=-1))
    if values.dtype.kind == "f" and not np.isfinite(values).all():
        return _nested(values.tolist(), json_float)
    if values.dtype.kind in "biufU":
        return values.tolist()
    return _nested(values.tolist(), _scalar)


def _nested(value: Any, change: Any) -> Any:  # noqa: ANN401 - what JSON holds
    return [_nested(each, change) for each in value] if isinstance(value, list) else change(value)


def _scalar(value: object) -> object:
    match value:
        case str() | int() | bool() | None:
            return value
        case float():
            return json_float(value)
        case bytes():
            return value.decode("latin-1")
        case _:
            return str(value)


def _write_text(screen: Screen, values: Values) -> None:
    width = screen.console.width
    text = np.array2string(values, max_line_width=min(width, 100), threshold=values.size + 1)
    screen.console.file.write(clean(text) + "\n")


def _write_csv(screen: Screen, node: ArrayNode, region: Region, values: Values) -> None:
    names = node.dimension_names or (None,) * len(region)
    header = [name or f"dim_{axis}" for axis, name in enumerate(names)]
    flat = plain(values.reshape(-1))
    places = product(*(range(part.start, part.stop, part.step) for part in region))
    rows = ([*place, value] for place, value in zip(places, flat, strict=True))
    screen.csv([*header, "value"], rows)
