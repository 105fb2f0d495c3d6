"""Values of an array for a screen: a plane or a line of it, thinned out to what may be read.

Coarse first is done by strides: the page asks for few cells, then for more. A stride larger than
a chunk also skips chunks; a stride below that reads all of them. So the bytes to decode are
counted before anything is read, and the stride grows until they fit.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from frazil.arrays import Array
from frazil.bulk.array import BulkArray
from frazil.bulk.grid import MOST_AXES
from frazil.cf.decoding import TEXT, DecodedValues, Decoder, Rules, decoder_of
from frazil.errors import FormatError, FrazilError, InvalidInputError
from frazil.masking import clean
from frazil.model.nodes import ArrayNode
from frazil.session import Session
from frazil.web.settings import RequestLimits

TEXT_CELLS: Final = 2_000
"""Cells of arrays of text that one request shows."""
TEXT_CHARS: Final = 200
UNITS: Final = ("units", "long_name", "standard_name", "calendar")
NORTH: Final = ("degrees_north", "degree_north", "degrees_n", "degreesn")


@dataclass(frozen=True, slots=True)
class AxisSpan:
    """The part of an axis that is shown: `start`, `stop` and the stride."""

    start: int
    stop: int
    step: int = 1

    @property
    def count(self) -> int:
        """Number of cells."""
        return max(0, -((self.start - self.stop) // self.step))  # exact, also beyond 2**53

    @property
    def indices(self) -> range:
        """The cells."""
        return range(self.start, self.stop, self.step)


@dataclass(frozen=True, slots=True)
class SliceRequest:
    """What a page asks for: axes to show, where to stand on the others, how fine."""

    shown: tuple[int, ...]
    """axes of the picture, rows first: none, one or two"""
    at: Mapping[int, int]
    windows: Mapping[int, tuple[int, int]]
    most: int
    """cells along one side that the screen has room for"""
    decode: bool = True


@dataclass(frozen=True, slots=True)
class SliceView:
    """What will be read: an index along hidden axes, a span along shown ones."""

    spans: tuple[AxisSpan, ...]
    shown: tuple[int, ...]

    @property
    def cells(self) -> int:
        """Number of values."""
        found = 1
        for axis in self.shown:
            found *= self.spans[axis].count
        return found


def plan_view(
    shape: Sequence[int],
    chunks: Sequence[int],
    itemsize: int,
    request: SliceRequest,
    limits: RequestLimits,
) -> SliceView:
    """Work out what to read so that it fits the screen and the limits.

    Raises:
        InvalidInputError: a single chunk is too large, or the request fits no array of the shape.
    """
    _check(shape, request)
    spans = []
    for axis, length in enumerate(shape):
        if axis not in request.shown:
            index = min(max(request.at.get(axis, 0), 0), max(length - 1, 0))
            spans.append(AxisSpan(index, min(index + 1, length)))
            continue
        start, stop = request.windows.get(axis, (0, length))
        start = min(max(start, 0), length)
        stop = min(max(stop, start), length)
        spans.append(AxisSpan(start, stop, max(1, -((start - stop) // max(request.most, 1)))))
    view = SliceView(tuple(spans), request.shown)
    while view.cells > limits.cells or _decoded(view, chunks, itemsize) > limits.decoded_bytes:
        widest = max(view.shown, key=lambda axis: view.spans[axis].count, default=None)
        if widest is None or view.spans[widest].count <= 1:
            raise InvalidInputError(
                f"one chunk of {list(chunks)} elements is more than this page reads at once "
                f"({limits.decoded_bytes >> 20} MiB)"
            )
        grown = replace(view.spans[widest], step=view.spans[widest].step * 2)
        view = replace(
            view, spans=tuple(grown if n == widest else each for n, each in enumerate(view.spans))
        )
    return view


def _check(shape: Sequence[int], request: SliceRequest) -> None:
    if len(set(request.shown)) != len(request.shown) or len(request.shown) > 2:
        raise InvalidInputError("a picture has two different axes")
    for axis in request.shown:
        if not 0 <= axis < len(shape):
            raise InvalidInputError(f"the array has no axis {axis}")


def _decoded(view: SliceView, chunks: Sequence[int], itemsize: int) -> int:
    """Bytes of all chunks that a view touches."""
    total = itemsize
    for span, length in zip(view.spans, chunks, strict=True):
        side = max(length, 1)
        if span.step >= side:
            touched = span.count
        else:
            touched = (span.stop - 1) // side - span.start // side + 1 if span.count else 0
        total *= touched * side
    return total


@dataclass(frozen=True, slots=True, eq=False)
class Cells:
    """What was read: numbers for a picture, or text where there are none."""

    header: dict[str, Any]
    numbers: Array | None

    def packed(self) -> bytes:
        """The length of the header, the header as JSON, and the numbers, all in little endian."""
        body = b"" if self.numbers is None else self.numbers.tobytes()
        head = json.dumps(self.header, allow_nan=False).encode()
        head += b" " * (-(len(head) + 4) % 8)
        return len(head).to_bytes(4, "little") + head + body


def read_view(session: Session, path: str, request: SliceRequest, limits: RequestLimits) -> Cells:
    """Read what a page asks for.

    Raises:
        FrazilError: it cannot be read, or is too much.
    """
    array = _opened(session, path)
    view = plan_view(array.shape, array.largest_chunk, _itemsize(array), request, limits)
    index = tuple(
        slice(span.start, span.stop, span.step) if axis in view.shown else span.start
        for axis, span in enumerate(view.spans)
    )
    is_empty = any(not span.count for span in view.spans)
    shape = tuple(view.spans[axis].count for axis in sorted(view.shown))
    stored = np.zeros(shape, array.dtype) if is_empty else np.asarray(array[index])
    stored = stored.reshape(shape)
    if len(view.shown) == 2 and view.shown[0] > view.shown[1]:
        stored = stored.T
    found, note = decode_values(path, stored, array.attrs, decode=request.decode)
    header: dict[str, Any] = {
        "shape": list(stored.shape),
        "dtype": str(array.dtype),
        "empty": is_empty,
        "axes": [
            {"axis": axis, **_axis(session, path, axis, view.spans[axis], limits)}
            for axis in view.shown
        ],
        "at": {
            str(axis): _label(session, path, axis, span.start, limits)
            for axis, span in enumerate(view.spans)
            if axis not in view.shown
        },
        "note": note,
        **_described(array.attrs),
    }
    return _cells(header, found)


def _opened(session: Session, path: str) -> BulkArray:
    """An array whose values can be read here.

    Raises:
        InvalidInputError: they cannot, since its type or a codec is unknown here.
    """
    try:
        array = session.array(path)
        _ = array.dtype
    except (FormatError, LookupError, TypeError, ValueError, ImportError) as error:
        if isinstance(error, FrazilError) and not isinstance(error, FormatError):
            raise
        why = clean(str(error))[:TEXT_CHARS]
        raise InvalidInputError(f"the values cannot be read here: {why}") from error
    if array.ndim > MOST_AXES:
        raise InvalidInputError(f"{array.ndim} dimensions are more than numpy has room for")
    return array


def _itemsize(array: BulkArray) -> int:
    return max(array.dtype.itemsize, 1)


def decode_values(
    path: str, stored: Array, attrs: Mapping[str, Any], *, decode: bool
) -> tuple[DecodedValues, str]:
    """Values by the CF conventions, or as stored with the reason why not."""
    try:
        decoder: Decoder = decoder_of(
            path, stored.dtype, attrs, Rules(cf=decode, calendars_as_text=True)
        )
        return decoder.decode(stored), ""
    except FrazilError as error:
        return DecodedValues(stored), f"shown as stored: {clean(str(error))}"


def _cells(header: dict[str, Any], found: DecodedValues) -> Cells:
    values, missing = found.values, found.missing
    kind = values.dtype.kind
    if kind == "c":
        header["note"] = header["note"] or "complex numbers: their magnitude is shown"
        values, kind = np.abs(values), "f"
    if kind == "M":
        numbers = values.astype("M8[us]").astype(np.int64).astype("<f8")
        numbers[np.isnat(values)] = np.nan
        header["kind"] = "time"
    elif kind == "m":
        numbers = values.astype("m8[us]").astype(np.int64).astype("<f8") / 1e6
        header["kind"], header["units"] = "number", "s"
    elif kind in "biuf":
        small = values.dtype.itemsize <= (4 if kind == "f" else 2)
        numbers = values.astype("<f4" if small else "<f8")
        header["kind"] = "number"
    else:
        return _as_text(header, found)
    if missing is not None:
        numbers = np.where(missing, numbers.dtype.type(np.nan), numbers)
    header["type"] = "f4" if numbers.dtype.itemsize == 4 else "f8"
    return Cells(header, np.ascontiguousarray(numbers))


def _as_text(header: dict[str, Any], found: DecodedValues) -> Cells:
    flat = found.values.ravel()[:TEXT_CELLS].tolist()
    header["kind"] = "text"
    header["values"] = [_text(each) for each in flat]
    header["cut"] = found.values.size > TEXT_CELLS
    return Cells(header, None)


def _text(value: object) -> str:
    shown = value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
    return clean(shown if len(shown) <= TEXT_CHARS else shown[: TEXT_CHARS - 1] + "…")


def _described(attrs: Mapping[str, Any]) -> dict[str, str]:
    return {name: _text(attrs[name]) for name in UNITS if isinstance(attrs.get(name), str)}


# --- coordinates ---


def coordinate_path(session: Session, path: str, axis: int) -> str | None:
    """The coordinate array of an axis: a sibling with the name and the length of the axis."""
    node = session.state.array(path)
    name = None if node.dimension_names is None else node.dimension_names[axis]
    if not name or "/" in name:
        return None
    above = path.rpartition("/")[0]
    found = session.state.tree.get(f"{above}/{name}")
    if not isinstance(found, ArrayNode) or len(found.shape) != 1:
        return None
    if found.shape[0].array_length != node.shape[axis].array_length:
        return None
    return f"{above}/{name}"


def coordinates(
    session: Session, path: str, axis: int, span: AxisSpan, limits: RequestLimits
) -> tuple[Array, str, Mapping[str, Any]] | None:
    """Coordinates along a part of an axis: numbers or texts, their kind, their attributes."""
    where = coordinate_path(session, path, axis)
    if where is None or not span.count:
        return None
    try:
        array = _opened(session, where)
        if _decoded(SliceView((span,), (0,)), array.largest_chunk, _itemsize(array)) > (
            limits.decoded_bytes
        ):
            return None
        stored = np.asarray(array[slice(span.start, span.stop, span.step)])
    except FrazilError:
        return None  # a picture without labels is better than none
    found, _ = decode_values(where, stored, array.attrs, decode=True)
    values = found.values
    if values.dtype.kind == "M":
        texts = [text.rstrip("0").rstrip(".") for text in np.datetime_as_string(values, "us")]
        return np.array([_short_time(text) for text in texts]), "text", array.attrs
    if values.dtype.kind in "biuf" and found.missing is None:
        return values.astype("f8"), "number", array.attrs
    return np.array([_text(each) for each in values.tolist()]), "text", array.attrs


def _short_time(text: str) -> str:
    """A time without the parts that are zero."""
    return text.removesuffix(":00").removesuffix("T00:00").replace("T", " ")


def _axis(
    session: Session, path: str, axis: int, span: AxisSpan, limits: RequestLimits
) -> dict[str, Any]:
    found = coordinates(session, path, axis, span, limits)
    about: dict[str, Any] = {"start": span.start, "stop": span.stop, "step": span.step}
    if found is None:
        return about
    values, kind, attrs = found
    units = "" if kind == "text" else str(attrs.get("units", ""))
    is_north = units.lower().replace(" ", "_") in NORTH
    ascends = kind == "number" and len(values) > 1 and bool(values[-1] > values[0])
    return {
        **about,
        "kind": kind,
        "values": values.tolist()
        if kind == "text"
        else [_finite(each) for each in values.tolist()],
        "units": _text(units),
        "upward": is_north and ascends,
    }


def _finite(value: float) -> float | None:
    return value if np.isfinite(value) else None


def _label(session: Session, path: str, axis: int, index: int, limits: RequestLimits) -> str:
    """The coordinate of one place of an axis."""
    found = coordinates(session, path, axis, AxisSpan(index, index + 1), limits)
    if found is None or not len(found[0]):
        return ""
    values, kind, attrs = found
    if kind == "text":
        return str(values[0])
    return f"{float(values[0]):.6g} {_text(attrs.get('units', ''))}".strip()


def exact_value(
    session: Session, path: str, index: Sequence[int], limits: RequestLimits, *, decode: bool
) -> str:
    """One cell, in full, as text.

    Raises:
        InvalidInputError: there is no such cell, or its chunk is too large.
    """
    array = _opened(session, path)
    inside = len(index) == array.ndim and all(
        0 <= one < length for one, length in zip(index, array.shape, strict=True)
    )
    if not inside:
        raise InvalidInputError(f"{path!r} has no cell {list(index)}")
    request = SliceRequest((), dict(enumerate(index)), {}, 1)
    plan_view(array.shape, array.largest_chunk, _itemsize(array), request, limits)
    stored = np.asarray(array[tuple(index)])
    found, _ = decode_values(path, stored, array.attrs, decode=decode)
    if found.missing is not None and found.missing.all():
        return "missing"
    value = found.values
    if value.dtype == TEXT or value.dtype.kind not in "biufcMm":
        return _text(value.item())
    return str(value[()]) if value.dtype.kind in "Mm" else repr(value.item())
