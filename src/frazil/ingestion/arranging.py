"""How files follow each other: the dimensions along which they differ, and their order there.

Pure: from scans to `JoinAxis` records. Order comes from coordinate values; where there are none, it
is the order in which the files were given, and only for a dimension that the user named.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np
import numpy.typing as npt

from frazil.cf.decoding import is_scaled
from frazil.cf.times import TimeUnits, common_units, converted, shown_time, time_units
from frazil.errors import InvalidInputError
from frazil.ingestion.encoding import values_match
from frazil.ingestion.plans import ABSENT, Findings, JoinAxis
from frazil.ingestion.records import Array, FileScan

MANY_STEPS: Final = 1.5
"""A step of more than this many usual steps is a gap."""
NEARLY: Final = 0.01
"""Values that differ by less than this part of a step are meant to be the same."""


@dataclass(frozen=True, slots=True, eq=False)
class _Dimension:
    """A dimension in the files that have it, with values in the units that all share."""

    name: str
    scans: Sequence[FileScan]
    files: Sequence[int]
    """numbers of the scans that have it"""
    values: Sequence[Array | None]
    lengths: Sequence[int]
    units: TimeUnits | None
    """what values had to be put into"""

    @property
    def urls(self) -> list[str]:
        """The files that have it."""
        return [self.scans[number].url for number in self.files]

    @property
    def bare(self) -> list[str]:
        """The files that have no values for it."""
        return [url for url, each in zip(self.urls, self.values, strict=True) if each is None]

    def require_values(self, findings: Findings) -> bool:
        """Whether all files have values, or none."""
        bare = self.bare
        is_mixed = 0 < len(bare) < len(self.files)
        if is_mixed:
            detail = f"there are no coordinate values for the dimension {self.name!r}"
            findings.error("missing-coordinate", detail, bare)
        return not is_mixed

    def axis(
        self, ranks: Sequence[int], lengths: Sequence[int], values: Array | None, *, is_new: bool
    ) -> JoinAxis:
        """The axis on which each file has the part of its rank."""
        block = np.full(len(self.scans), ABSENT, np.int64)
        block[list(self.files)] = ranks
        starts = np.cumsum([0, *lengths])
        units = None if values is None else self.units
        return JoinAxis(self.name, int(starts[-1]), block, starts, values, units, is_new)


def arrange(
    scans: Sequence[FileScan],
    named: Sequence[str] | None,
    findings: Findings,
    *,
    has_base: bool = False,
) -> list[JoinAxis]:
    """Find the dimensions to join files along, and their order; the first scan may be the base.

    What stands in the way is put into `findings`.
    """
    sizes = [scan.sizes for scan in scans]
    names = [*named] if named else _differing(scans, sizes, findings)
    axes = (_axis(scans, sizes, name, findings, has_base=has_base) for name in names)
    return [axis for axis in axes if axis is not None]


def _differing(
    scans: Sequence[FileScan], sizes: Sequence[Mapping[str, int]], findings: Findings
) -> list[str]:
    """Dimensions whose coordinates are not the same in all files that have them."""
    found = []
    for name in dict.fromkeys(dim for each in sizes for dim in each):
        having = [number for number, each in enumerate(sizes) if name in each]
        dim = _dimension(scans, sizes, name, having, Findings(), has_base=False)
        if dim is None:  # they cannot be compared: the axis will say why
            found.append(name)
            continue
        if not dim.require_values(findings):
            continue
        known = [each for each in dim.values if each is not None]
        if known and not all(values_match(known[0], each) for each in known[1:]):
            found.append(name)
        pairs = zip(dim.urls, dim.lengths, strict=True)
        odd = [url for url, length in pairs if length != dim.lengths[0]]
        if odd and not known:
            detail = (
                f"the dimension {name!r} has different lengths and no coordinate; if files"
                " are to be joined along it in the order given, name it as dimension to join"
            )
            findings.error("unknown-order", detail, odd)
    return found


def _dimension(
    scans: Sequence[FileScan],
    sizes: Sequence[Mapping[str, int]],
    name: str,
    files: Sequence[int],
    findings: Findings,
    *,
    has_base: bool,
) -> _Dimension | None:
    """A dimension in some files; None when its times do not go together."""
    raw: list[tuple[Array | None, TimeUnits | None]] = []
    for number in files:
        variable = scans[number].get(name)
        is_index = variable is not None and variable.dims in ((name,), ())
        values = variable.values if variable is not None and is_index else None
        units = None if variable is None else time_units(variable.attrs)
        raw.append((None if values is None else values.reshape(-1), units))
    known = [units for _, units in raw if units is not None]
    target: TimeUnits | None = None
    if len(set(known)) > 1:
        try:
            target = common_units(known)
        except InvalidInputError as error:
            odd = [scans[n].url for n in files]
            findings.error("calendar", f"times along {name!r}: {error.args[0]}", odd)
            return None
        if has_base and files[0] == 0 and raw[0][1] is not None:
            target = raw[0][1]  # what is stored stays as it is
    moved = []
    for number, (values, units) in zip(files, raw, strict=True):
        is_other = values is not None and units is not None and target is not None
        is_packed = is_other and is_scaled(scans[number][name].attrs)
        try:
            moved.append(
                converted(values, units, target, is_packed=is_packed) if is_other else values  # type: ignore[arg-type]  # none is None
            )
        except InvalidInputError as error:
            findings.error("time-units", str(error.args[0]), [scans[number].url], name)
            return None
    lengths = [sizes[number].get(name, 1) for number in files]
    return _Dimension(name, scans, files, moved, lengths, target)


def _axis(
    scans: Sequence[FileScan],
    sizes: Sequence[Mapping[str, int]],
    name: str,
    findings: Findings,
    *,
    has_base: bool,
) -> JoinAxis | None:
    having = [number for number, each in enumerate(sizes) if name in each]
    is_new = not any(number or not has_base for number in having)
    if is_new:
        having = [*range(len(scans))]
    elif len(having) < len(scans):
        _refuse_scalars(scans, name, findings)
    dim = _dimension(scans, sizes, name, having, findings, has_base=has_base)
    if dim is None or not dim.require_values(findings):
        return None
    if dim.bare:  # in the order given
        return dim.axis(range(len(having)), dim.lengths, None, is_new=is_new)
    return _in_order(dim, findings, is_new=is_new, has_base=has_base)


def _refuse_scalars(scans: Sequence[FileScan], name: str, findings: Findings) -> None:
    """Files with a scalar of some name cannot be mixed with those that have a dimension."""
    scalars = [
        scan.url for scan in scans if (variable := scan.get(name)) is not None and not variable.dims
    ]
    if scalars:
        findings.error(
            "dimensions", f"{name!r} is a scalar here and a dimension in other files", scalars
        )


def _in_order(
    dim: _Dimension, findings: Findings, *, is_new: bool, has_base: bool
) -> JoinAxis | None:
    name, urls = dim.name, dim.urls
    values = [each for each in dim.values if each is not None]
    if not _are_sound(name, urls, values, findings):
        return None
    groups: dict[bytes, int] = {}
    numbers = [groups.setdefault(_key(each), len(groups)) for each in values]
    places = dict(zip(reversed(numbers), reversed(range(len(numbers))), strict=True))
    distinct = [values[places[number]] for number in range(len(groups))]
    steps = {_direction(each) for each in distinct if len(each) > 1}
    if len(steps) > 1 or None in steps:
        findings.error(
            "order", f"the values of {name!r} neither rise nor fall in the same way in all", urls
        )
        return None
    sign = (steps.pop() if steps else 1) or 1
    order = sorted(range(len(distinct)), key=lambda n: distinct[n][0], reverse=sign < 0)
    parts = [(distinct[n], urls[places[n]]) for n in order]
    shown = dim.units or _units(dim)
    if not _follow(name, parts, findings, shown, sign=sign):
        return None
    if has_base and dim.files[0] == 0 and order[0] != numbers[0]:
        early = [url for url, n in zip(urls, numbers, strict=True) if n == order[0]]
        detail = (
            f"values of {name!r} come before those that the repository has; only what follows"
            " them can be appended"
        )
        findings.error("before-existing", detail, early)
        return None
    joined = np.concatenate([part for part, _ in parts])
    rank = {number: place for place, number in enumerate(order)}
    ranks = [rank[number] for number in numbers]
    made = dim.axis(ranks, [len(part) for part, _ in parts], joined, is_new=is_new)
    _tell_gaps(name, joined, made.starts[1:-1], findings, shown)
    return made


def _units(dim: _Dimension) -> TimeUnits | None:
    """What the values of a coordinate count, where all files agree on it."""
    found = (dim.scans[number].get(dim.name) for number in dim.files)
    return next((time_units(each.attrs) for each in found if each is not None), None)


def _are_sound(name: str, urls: Sequence[str], values: Sequence[Array], findings: Findings) -> bool:
    """Whether coordinates can be put in order at all."""
    pairs = [*zip(urls, values, strict=True)]
    empty = [url for url, each in pairs if not len(each)]
    unclear = [url for url, each in pairs if each.dtype.kind == "f" and np.isnan(each).any()]
    if empty:
        findings.error("empty", f"the dimension {name!r} has no values", empty)
    if unclear:
        findings.error("order", f"the coordinate {name!r} has missing values", unclear)
    return not empty and not unclear


def _key(values: Array) -> bytes:
    """A key that is the same for equal values of any type."""
    if values.dtype.kind in "iuf":
        return np.asarray(values, np.float64).tobytes() + repr(values.tolist()[:1]).encode()
    return repr(values.tolist()).encode()


def _direction(values: Array) -> int | None:
    """1 when values rise, -1 when they fall, None when they do neither throughout."""
    later, earlier = values[1:], values[:-1]
    if (later > earlier).all():
        return 1
    return -1 if (later < earlier).all() else None


def _follow(
    name: str,
    parts: Sequence[tuple[Array, str]],
    findings: Findings,
    units: TimeUnits | None,
    *,
    sign: int,
) -> bool:
    """Whether each part begins after the end of the one before."""
    is_good = True
    for (before, first), (after, second) in pairwise(parts):
        ends, begins = before[-1], after[0]
        if (begins > ends) if sign > 0 else (begins < ends):
            continue
        is_good = False
        shift = _shift(before, after)
        if shift is not None:
            detail = (
                f"values of {name!r} are the same but for at most {shift:g}: if they are meant to"
                " be the same, make them equal in the files"
            )
            findings.error("shifted", detail, (first, second))
            continue
        detail = (
            f"values of {name!r} overlap: one file ends at {shown_time(ends, units)}, the next"
            f" begins at {shown_time(begins, units)}"
        )
        findings.error("overlap", detail, (first, second))
    return is_good


def _shift(one: Array, other: Array) -> float | None:
    """The difference of values that are nearly the same, relative to their steps."""
    if len(one) != len(other) or one.dtype.kind not in "iuf" or other.dtype.kind not in "iuf":
        return None
    first, second = one.astype(np.float64), other.astype(np.float64)
    found = float(np.abs(first - second).max())
    steps = np.abs(np.diff(first))
    room = float(steps.min()) if len(steps) else float(np.abs(first).max())
    return found if found < NEARLY * room else None


def _tell_gaps(
    name: str,
    values: Array,
    joints: npt.NDArray[np.int64],
    findings: Findings,
    units: TimeUnits | None,
) -> None:
    """Note where a coordinate jumps by more than its usual step; `joints` are where files meet."""
    if len(values) < 3 or values.dtype.kind not in "iuf":
        return
    steps = np.abs(np.diff(values.astype(np.float64)))
    usual = float(np.median(steps))
    gaps = np.flatnonzero(steps > MANY_STEPS * usual)
    # Months have no equal lengths: where most steps differ, no step is a gap.
    if len(gaps) > len(steps) // 4:
        gaps = gaps[:0]
    # Between two files a gap is what is longer than every step inside of them.
    inside = np.delete(steps, joints - 1)
    if len(inside) and not len(gaps):
        gaps = (joints - 1)[steps[joints - 1] > MANY_STEPS * float(inside.max())]
        usual = float(np.median(inside))
    if not len(gaps) or usual == 0:
        return
    first = int(gaps[0])
    step = f"{usual:g}" if units is None else f"{usual:g} {units.unit}"
    findings.warn(
        "gap",
        f"{len(gaps)} {'gap' if len(gaps) == 1 else 'gaps'} along {name!r}, the first between"
        f" {shown_time(values[first], units)} and {shown_time(values[first + 1], units)} where the"
        f" usual step is {step}{'; gaps=tell allows it' if 'gap' in findings.refused else ''}",
    )
