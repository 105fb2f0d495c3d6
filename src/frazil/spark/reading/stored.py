"""Values of arrays, read in a worker and decoded; small coordinates are kept between tasks."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from frazil.bulk.read import open_array, read_selection, zarr_array
from frazil.cf.decoding import DecodedValues, Decoder, Values
from frazil.spark.location import Pinned
from frazil.spark.reading.variables import TableVariable
from frazil.spark.tuning import COORDINATE_SIZE, COORDINATES_KEPT
from frazil.spark.worker import session_at

Places: TypeAlias = slice | npt.NDArray[np.int64]
"""Where along one axis: a slice with step 1, or ascending numbers."""


def read_stored(pinned: Pinned, path: str, places: tuple[Places, ...]) -> Values:
    """Stored values at the crossings of places along each axis."""
    owner = session_at(pinned)
    opened = open_array(owner, path)
    if opened.layout is not None:
        return read_selection(opened, places, by="oindex")
    array = zarr_array(owner, path)  # it has a codec that we do not know
    return np.asarray(array.oindex[places] if places else array[...])


def read_variable(
    pinned: Pinned, variable: TableVariable, decoder: Decoder, places: tuple[Places, ...]
) -> DecodedValues:
    """Decoded values at the crossings of places along each axis."""
    more = (slice(0, variable.letters),) if variable.letters else ()
    return decoder.decode(read_stored(pinned, variable.path, (*places, *more)))


def read_coordinate(
    pinned: Pinned, variable: TableVariable, decoder: Decoder, places: tuple[Places, ...]
) -> DecodedValues:
    """Decoded values of a coordinate, which many regions ask for."""
    if math.prod(variable.shape) > COORDINATE_SIZE:
        return read_variable(pinned, variable, decoder, places)
    ndim = len(variable.shape) + (1 if variable.letters else 0)
    whole = _whole(pinned, variable.path, ndim, decoder)
    for axis, chosen in enumerate(places):
        whole = whole.take((slice(None),) * axis + (chosen,))
    return whole


@lru_cache(maxsize=COORDINATES_KEPT)
def _whole(pinned: Pinned, path: str, ndim: int, decoder: Decoder) -> DecodedValues:
    return decoder.decode(read_stored(pinned, path, (slice(None),) * ndim))


def length_of(places: Places) -> int:
    """How many places there are."""
    return places.stop - places.start if isinstance(places, slice) else len(places)


def numbers_of(places: Places) -> npt.NDArray[np.int64]:
    """Places as numbers."""
    return np.arange(places.start, places.stop) if isinstance(places, slice) else places


def box_of(places: Places) -> slice:
    """All from the first place to the last one; there is one at least."""
    if isinstance(places, slice):
        return places
    return slice(int(places[0]), int(places[-1]) + 1)


def first_of(places: Places) -> Places:
    """The first place alone, if there is one."""
    if isinstance(places, slice):
        return slice(places.start, min(places.start + 1, places.stop))
    return places[:1]


def chosen_of(places: Places, mask: npt.NDArray[np.bool_]) -> Places:
    """The places where a mask says yes, as a slice if they are neighbours."""
    if mask.all():
        return places
    return compact(numbers_of(places)[mask])


def compact(numbers: npt.NDArray[np.int64]) -> Places:
    """Ascending places as a slice, if they are neighbours."""
    if not len(numbers):
        return slice(0, 0)
    first, last = int(numbers[0]), int(numbers[-1])
    return slice(first, last + 1) if last - first + 1 == len(numbers) else numbers
