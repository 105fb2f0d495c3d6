"""Two arrays of numpy compared cell by cell; pure.

Two NaNs are equal, and so are two NaTs and zeros of different sign. Differences of numbers are
counted in the widest float there is where 64-bit integers are among them.
"""

from __future__ import annotations

from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from frazil.comparing.records import Box, Sample, Shape, Tally

Array: TypeAlias = npt.NDArray[Any]
I64: TypeAlias = npt.NDArray[np.int64]
Flags: TypeAlias = npt.NDArray[np.bool_]

_FAMILY: Final = {kind: family for family in ("biufc", "UTO", "M", "m") for kind in family}
_NOT_EQUAL_TO_ITSELF: Final = "fcMmO"
_PLAIN: Final = "biufUTO"


def differing(old: Array, new: Array) -> Flags:
    """Where two arrays of one shape differ."""
    names = old.dtype.names
    if names is not None or new.dtype.names is not None:
        if names != new.dtype.names or names is None:
            return np.ones(old.shape, np.bool_)
        found = np.zeros(old.shape, np.bool_)
        for name in names:
            part = differing(old[name], new[name])
            found |= part.any(axis=tuple(range(found.ndim, part.ndim)))  # of fields with a shape
        return found
    kinds = old.dtype.kind + new.dtype.kind
    families = [_FAMILY.get(kind, kind) for kind in kinds]
    if families[0] != families[1] or (kinds == "VV" and old.dtype != new.dtype):
        return np.ones(old.shape, np.bool_)
    found = np.asarray(old != new, np.bool_)
    if all(kind in _NOT_EQUAL_TO_ITSELF for kind in kinds):
        found &= ~np.asarray((old != old) & (new != new), np.bool_)
    return found


def compare_cells(old: Array, new: Array, starts: I64, limit: Shape, max_samples: int = 0) -> Tally:
    """Compare boxes of cells: `old` and `new` are (n, *shape of a box).

    `starts` is (n, ndim), the first cell of each box; cells at or beyond `limit` do not count.
    """
    inside = _inside(starts, old.shape[1:], limit)
    compared = int(np.prod([each.sum(axis=1) for each in inside], axis=0).sum()) if inside else 1
    changed = differing(old, new)
    for axis, flags in enumerate(inside):
        if not flags.all():
            rest = [1] * len(inside)
            rest[axis] = flags.shape[1]
            changed &= flags.reshape(len(flags), *rest)
    count = int(changed.sum())
    if not count:
        return Tally(compared=compared)
    differences = _differences(old[changed], new[changed])
    has_some = len(differences) > 0
    return Tally(
        compared,
        count,
        len(differences),
        float(differences.min()) if has_some else None,
        float(differences.max()) if has_some else None,
        float(differences.sum()) if has_some else 0.0,
        _box(changed, starts),
        _samples(old, new, changed, starts, max_samples) if max_samples else (),
    )


def _inside(starts: I64, shape: Shape, limit: Shape) -> list[Flags]:
    """For each axis which cells of each box are in the array, (n, length)."""
    return [
        starts[:, axis, None] + np.arange(length) < limit[axis] for axis, length in enumerate(shape)
    ]


def _differences(old: Array, new: Array) -> npt.NDArray[np.floating[Any]]:
    """New minus old, where that is a finite number."""
    if old.dtype.kind not in "iuf" or new.dtype.kind not in "iuf":
        return np.zeros(0)
    is_wide = any(a.dtype.itemsize > 8 or a.dtype.kind + str(a.dtype.itemsize) in ("i8", "u8")
                  for a in (old, new))  # fmt: skip
    wide = np.longdouble if is_wide else np.float64
    with np.errstate(invalid="ignore", over="ignore"):
        found = new.astype(wide) - old.astype(wide)
    return np.asarray(found[np.isfinite(found)])


def _box(changed: Flags, starts: I64) -> Box:
    """The smallest box around the cells that differ."""
    edges = []
    for axis in range(1, changed.ndim):
        others = tuple(n for n in range(1, changed.ndim) if n != axis)
        rows, places = np.nonzero(changed.any(axis=others))
        cells = starts[rows, axis - 1] + places
        edges.append((int(cells.min()), int(cells.max()) + 1))
    return tuple(edges)


def _samples(
    old: Array, new: Array, changed: Flags, starts: I64, max_samples: int
) -> tuple[Sample, ...]:
    """The cells that differ with the smallest coordinates."""
    found: list[tuple[Shape, Shape]] = []
    for row in _in_order(starts):
        # No cell of this box, nor of those that follow, comes before what was found.
        if len(found) == max_samples and starts[row, :1].tolist() > [*found[-1][0][:1]]:
            break
        first = np.flatnonzero(changed[row])[:max_samples]
        inner = np.unravel_index(first, changed.shape[1:]) if changed.ndim > 1 else ()
        places = list(zip(*(axis.tolist() for axis in inner), strict=True)) or [()] * len(first)
        origin = starts[row].tolist()
        found += [
            (tuple(a + b for a, b in zip(origin, place, strict=True)), (row, *place))
            for place in places
        ]
        found = sorted(found)[:max_samples]
    return tuple(
        Sample(coords, _scalar(old, place), _scalar(new, place)) for coords, place in found
    )


def _in_order(starts: I64) -> list[int]:
    """The boxes by their first cells."""
    order = np.lexsort(starts.T[::-1]) if starts.shape[1] else np.arange(len(starts))
    rows: list[int] = order.tolist()
    return rows


def _scalar(array: Array, place: Shape) -> Any:  # noqa: ANN401 - an element of any type
    value = array[place]
    is_plain = array.dtype.kind in _PLAIN and hasattr(value, "item")
    return value.item() if is_plain else value
