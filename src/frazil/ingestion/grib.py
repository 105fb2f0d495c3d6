"""GRIB: messages of one file as arrays over time, step, member, level and grid.

eccodes reads what messages say of themselves. References name the codec of gribberish, which knows
the second edition only; each variable is tried, and one that it decodes to other values than
eccodes is copied.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from math import prod
from typing import Any, Final

import numpy as np

from frazil.ingestion.encoding import Meaning, coordinate, encoded_attributes, encoding_of
from frazil.ingestion.grib_messages import (
    Message,
    Window,
    describe_message,
    grid_coordinates,
    message_values,
    messages,
    open_message,
    refusal,
)
from frazil.ingestion.records import (
    Array,
    FileReferences,
    FileVariable,
    InputFile,
    ParsedFile,
    canonical,
    ordered_json,
)
from frazil.ingestion.sources import bad_file, read_range

STEP_HOURS: Final = "hours"
_DTYPE: Final = np.dtype("<f4")


@dataclass(frozen=True, slots=True, eq=False)
class Cube:
    """Messages that make up one variable."""

    variable: FileVariable
    rows: dict[int, Message]
    """by the number of the chunk"""


@dataclass(frozen=True, slots=True, eq=False)
class GribIndex:
    """A file as cubes and coordinates."""

    cubes: dict[str, Cube]
    coordinates: dict[str, FileVariable]
    attributes: dict[str, Any]


def scan_grib(source: InputFile) -> ParsedFile:
    """The variables of a GRIB file."""
    index = index_of(source)
    cubes = [cube.variable for cube in index.cubes.values()]
    return ParsedFile([*cubes, *index.coordinates.values()], ordered_json(index.attributes))


def read_grib(source: InputFile, name: str, region: tuple[slice, ...]) -> Array:
    """Values of a region of a variable, decoded by eccodes."""
    index = index_of(source)
    if name in index.coordinates:
        values = index.coordinates[name].values
        assert values is not None
        return values[region]
    cube = index.cubes[name]
    shape = cube.variable.shape
    parts = region or (slice(None),) * len(shape)
    spans = [range(*part.indices(n)) for part, n in zip(parts, shape, strict=True)]
    outer = spans[:-2]
    made = np.full([len(span) for span in spans], np.nan, _DTYPE)
    for place in np.ndindex(*map(len, outer)):
        at = [span[n] for span, n in zip(outer, place, strict=True)]
        message = cube.rows.get(int(np.ravel_multi_index(at, shape[:-2])) if at else 0)
        if message is not None:
            data = read_range(source.url, message.offset, message.length, source.options)
            field = message_values(data).reshape(shape[-2:])
            made[place] = field[spans[-2].start : spans[-2].stop, spans[-1].start : spans[-1].stop]
    return made


@lru_cache(maxsize=4)
def index_of(source: InputFile) -> GribIndex:
    """What is in a file; the last four are kept for the tasks that follow."""
    url, size = source.url, source.identity.size if source.identity else 0
    file = Window(partial(read_range, url, options=source.options), size)
    found: dict[tuple[str, str], list[tuple[Message, dict[str, Any]]]] = {}
    coordinates: dict[str, FileVariable] = {}
    for offset, length, header in messages(file, url):
        with open_message(header) as handle:
            message, attrs = describe_message(handle, offset, length, url)
        key = (message.variable, message.level_type)
        if key not in found:  # some attributes, and the grid, need the whole message
            with open_message(file.get(offset, length)) as handle:
                message, attrs = describe_message(handle, offset, length, url)
                if not found:
                    coordinates |= grid_coordinates(handle, url)
                    grid = message.grid
        if message.grid != grid:
            raise bad_file(f"{message.variable!r} is on another grid than the first", url)
        found.setdefault(key, []).append((message, attrs))
    if not found:
        raise bad_file("there are no messages in it", url)
    return _assembled(url, file, found, coordinates)


def _assembled(
    url: str,
    file: Window,
    found: Mapping[tuple[str, str], list[tuple[Message, dict[str, Any]]]],
    coordinates: dict[str, FileVariable],
) -> GribIndex:
    names = [name for name, _ in found]
    cubes: dict[str, Cube] = {}
    for (name, level_type), items in found.items():
        own = name if names.count(name) == 1 else f"{name}_{level_type}"
        cubes[own] = _cube(url, own, level_type, items, coordinates)
        why = _refusal(file, [message for message, _ in items])
        if why is not None:
            bare = replace(cubes[own].variable, references=None, obstacle=why)
            cubes[own] = replace(cubes[own], variable=bare)
    return GribIndex(cubes, coordinates, {"Conventions": "CF-1.7"})


def _refusal(file: Window, members: list[Message]) -> str | None:
    """Why a variable cannot be referred to: one message of each way of packing is tried."""
    kinds = {message.packing: message for message in reversed(members)}
    tried = (refusal(file.get(each.offset, each.length)) for each in reversed(kinds.values()))
    return next((why for why in tried if why is not None), None)


def _cube(
    url: str,
    name: str,
    level_type: str,
    items: list[tuple[Message, dict[str, Any]]],
    coordinates: dict[str, FileVariable],
) -> Cube:
    """The messages of a variable, and the coordinates it needs, put among the others."""
    columns = np.array([message.place for message, _ in items])
    labels = ("number", "time", "step", level_type)
    axes: list[tuple[str, Array]] = []
    places: dict[int, Array] = {}
    scalars: list[str] = []
    for at, label in enumerate(labels):
        values = np.unique(columns[:, at])
        if label == level_type and level_type.startswith("isobaric"):
            values = values[::-1]
        is_single = len(values) == 1 and label != "time"
        if is_single and label == "number":
            continue
        known = _named(label, values, coordinates, is_single=is_single)
        if is_single:
            scalars.append(known)
        else:
            axes.append((known, values))
            places[at] = values
    lat, lon = coordinates["latitude"], coordinates["longitude"]
    is_regular = len(lat.dims) == 1
    inner = lat.dims + lon.dims if is_regular else lat.dims
    grid = lat.shape + lon.shape if is_regular else lat.shape
    if not is_regular:
        scalars += ["latitude", "longitude"]
    rows = _rows(url, name, items, places)
    shape = (*(len(values) for _, values in axes), *grid)
    attrs = items[0][1] | ({"coordinates": " ".join(scalars)} if scalars else {})
    order = sorted(rows)
    codec = [{"name": "gribberish", "configuration": {"var": name}}]
    variable = FileVariable(
        name,
        (*(label for label, _ in axes), *inner),
        shape,
        (*(1 for _ in axes), *grid),
        encoding_of(Meaning(_DTYPE, np.nan, canonical(codec))),
        ordered_json(attrs | encoded_attributes(np.nan, _DTYPE)),
        FileReferences.of_file(
            url, order, [rows[n].offset for n in order], [rows[n].length for n in order]
        ),
    )
    return Cube(variable, rows)


def _named(
    label: str, values: Array, coordinates: dict[str, FileVariable], *, is_single: bool
) -> str:
    """A coordinate with these values; variables whose levels differ get axes of their own."""
    attrs: dict[str, Any] = {}
    kept: Array = values
    if label == "time":
        attrs = {"units": "seconds since 1970-01-01", "calendar": "proleptic_gregorian"}
        kept = values.astype(np.int64)
    elif label == "step":
        attrs = {"units": STEP_HOURS}
    elif label != "number":
        attrs = {"long_name": label} | ({"units": "hPa"} if label == "isobaricInhPa" else {})
    for number in range(1, len(coordinates) + 2):
        name = label if number == 1 else f"{label}_{number}"
        known = coordinates.get(name)
        made = kept[0] if is_single else kept
        if known is None:
            dims = () if is_single else (name,)
            coordinates[name] = coordinate(name, dims, np.asarray(made), attrs)
            return name
        if known.values is not None and np.array_equal(known.values, made):
            return name
    raise AssertionError(label)


def _rows(
    url: str,
    name: str,
    items: list[tuple[Message, dict[str, Any]]],
    axes: Mapping[int, Array],
) -> dict[int, Message]:
    """Messages by the number of their chunk; axes are named by their place in a message."""
    shape = [len(values) for values in axes.values()]
    rows: dict[int, Message] = {}
    for message, _ in items:
        place = [int(np.flatnonzero(values == message.place[at])[0]) for at, values in axes.items()]
        number = int(np.ravel_multi_index(place, shape)) if prod(shape) and shape else 0
        if number in rows:
            raise bad_file(f"two messages hold the same field of {name!r}", url)
        rows[number] = message
    return rows
