"""Columns of Spark as the values of an array: the inverse of CF decoding.

Times become numbers in the units of the array, packed variables are scaled back, NULL becomes the
fill value. What an array cannot hold is an error that names the column, never another value.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from frazil.arrays import Mask
from frazil.cf.decoding import TEXT, Decoder, Rules, Values, error_prefix
from frazil.cf.times import TimeUnits, require_dates
from frazil.errors import unsuitable
from frazil.spark.reading.variables import TableVariable

_FAR_US: Final = 2**62
_NEARLY: Final = 1e-3
"""Largest distance of a packed time from a whole number, for rounding errors of floats."""
_HELD: Final = {
    "b": ("bool",),
    **dict.fromkeys("iu", ("integer", "decimal")),
    "f": ("integer", "decimal", "float"),
    "c": ("complex", "float", "integer"),
    "M": ("time",),
    "m": ("span",),
}
"""families of values that arrays hold, by the kind of their type"""


@dataclass(frozen=True, slots=True)
class Encoder:
    """How the values of a column are stored in one array."""

    name: str
    decoder: Decoder
    fill: Any
    """what stands for NULL; None when nothing does"""

    @property
    def stored(self) -> np.dtype[Any]:
        """The type of the array."""
        return self.decoder.source

    def require_fits(self, kind: pa.DataType) -> None:
        """Refuse a column whose type the array cannot hold.

        Raises:
            InvalidInputError: with both types.
        """
        if family(kind) not in self._families():
            decoder = self.decoder
            detail = "times" if decoder.time is not None else str(decoder.result)
            hint = ""
            if decoder.time is not None and not decoder.time.is_numpy:
                hint = "; times of this calendar can be written as numbers with decode_cf=false"
            raise unsuitable(
                f"column {self.name!r} holds {kind}, which does not fit the array of {detail}{hint}"
            )

    def _families(self) -> tuple[str, ...]:
        decoder = self.decoder
        if decoder.time is not None:
            return ("time",) if decoder.time.is_numpy else ()
        if decoder.is_packed:
            return ("integer", "decimal", "float")
        if decoder.result == TEXT or decoder.source.kind == "U":
            return ("text",)
        return _HELD.get(decoder.result.kind, ("bytes", "text"))

    def encode(self, column: pa.Array | pa.ChunkedArray) -> Values:
        """Values as they are stored.

        Raises:
            InvalidInputError: a value does not fit, or is NULL and the array has no fill value for
                it.
        """
        if isinstance(column, pa.ChunkedArray):
            column = column.combine_chunks()
        missing = column.is_null().to_numpy(zero_copy_only=False) if column.null_count else None
        if family(column.type) in ("text", "bytes"):
            return self._texts(column, missing)
        values = _numbers(column, self.stored)
        if self.stored.kind in "iu" and values.dtype.kind == "f":
            missing = np.isnan(values) if missing is None else missing | np.isnan(values)
        if missing is None or not missing.any():
            return self._stored(values, None)
        stored = self._stored(np.where(missing, values.dtype.type(0), values), missing)
        stored[missing] = self._null()
        return stored

    def _null(self) -> Any:  # noqa: ANN401  (a value of the array)
        if self.fill is None:
            raise unsuitable(
                f"column {self.name!r} has NULLs, and nothing stands for them in an array of "
                f"{self.stored}; create it with option 'fill-value', or fill them"
            )
        return self.fill

    def _stored(self, values: Values, missing: Mask | None) -> Values:
        decoder = self.decoder
        if decoder.time is not None:
            values = self._times(values, missing, decoder.time)
        elif self.stored.kind in "Mm":
            return self._native_times(values, missing)
        if decoder.is_packed:
            values = self._packed(values, missing)
        packed = decoder.view or self.stored
        if packed.kind in "iu":
            self._require_range(values, packed)
        with np.errstate(over="ignore"):
            made = values.astype(packed)
        if packed.kind == "f" and values.dtype.kind == "f":
            self._require_finite(values, made)
        return made if decoder.view is None else made.view(self.stored)

    def _packed(self, values: Values, missing: Mask | None) -> Values:
        """Values without scale and offset; times must be those that are read again."""
        decoder, packed = self.decoder, values.astype(np.float64)
        if decoder.offset is not None:
            packed = packed - decoder.offset
        if decoder.scale is not None:
            packed = packed / decoder.scale
        if self.stored.kind in "iu":
            whole = np.rint(packed)
            odd = np.abs(whole - packed) > _NEARLY
            if missing is not None:
                odd &= ~missing
            if decoder.time is not None and odd.any():
                detail = "a time that is no whole number in the packing of the array"
                raise unsuitable(f"column {self.name!r} has {detail}")
            packed = whole
        self._require_other(packed, missing)
        return packed

    def _require_other(self, values: Values, missing: Mask | None) -> None:
        """Refuse what would be packed as something that stands for NULL."""
        for fill in self.decoder.fills:
            found = values == fill
            if missing is not None:
                found &= ~missing
            if found.any():
                raise unsuitable(
                    f"column {self.name!r} has the value {self._shown(fill)}, which is packed as "
                    f"{fill}, and that stands for missing values"
                )

    def _require_finite(self, values: Values, made: Values) -> None:
        lost = np.isinf(made) & np.isfinite(values)
        if lost.any():
            raise unsuitable(
                f"column {self.name!r} has the value {self._shown(values[lost][0].item())}, which "
                f"does not fit an array of {self.stored}"
            )

    def _require_range(self, values: Values, packed: np.dtype[Any]) -> None:
        limits = np.iinfo(packed)
        if values.dtype.kind == "b" or not len(values):
            return
        low, high = values.min().item(), values.max().item()
        if low < limits.min or high > limits.max:
            worst = low if low < limits.min else high
            raise unsuitable(
                f"column {self.name!r} has the value {self._shown(worst)}, which does not fit an "
                f"array of {self.stored}"
            )

    def _shown(self, packed: float) -> object:
        decoder = self.decoder
        if not decoder.is_packed:
            return packed
        return packed * (decoder.scale or 1.0) + (decoder.offset or 0.0)

    def _times(self, us: Values, missing: Mask | None, units: TimeUnits) -> Values:
        present = us if missing is None else us[~missing]
        with error_prefix("column", self.name):
            require_dates(present, units)
        if len(present) and max(abs(int(present.min())), abs(int(present.max()))) > _FAR_US:
            raise unsuitable(f"column {self.name!r} has times too far away to be counted")
        steps: Values = us - units.start_us
        if self.stored.kind == "f" or self.decoder.is_packed:
            return steps * (units.per_us / units.step_us)
        if units.per_us > 1:
            if len(present) and int(np.abs(steps).max()) > _FAR_US // units.per_us:
                raise unsuitable(f"column {self.name!r} has times too far away for nanoseconds")
            return steps * units.per_us
        whole, rest = np.divmod(steps, units.step_us)
        odd = rest != 0 if missing is None else (rest != 0) & ~missing
        if odd.any():
            time = us[odd][:1].view("M8[us]")[0]
            raise unsuitable(
                f"column {self.name!r} has the time {time}, which is no whole number in the units "
                "of the array"
            )
        return np.asarray(whole)

    def _native_times(self, values: Values, missing: Mask | None) -> Values:
        """Microseconds in the unit of an array of times."""
        given = values.astype("i8").view(f"{self.stored.kind}8[us]")
        made = given.astype(self.stored)
        lost = made.astype(given.dtype) != given
        if missing is not None:
            lost &= ~missing
        if lost.any():
            raise unsuitable(
                f"column {self.name!r} has the time {given[lost][0]}, which does not fit an array "
                f"of {self.stored}"
            )
        return made

    def _texts(self, column: pa.Array, missing: Mask | None) -> Values:
        kind = self.stored.kind
        values = column.to_pylist()
        if missing is not None:
            empty: Any = "" if self.decoder.result == TEXT or kind == "U" else b""
            fill = empty if self.fill is None else self.fill
            values = [fill if value is None else value for value in values]
        if kind in "SV":
            raw = [v.encode() if isinstance(v, str) else v for v in values]
            self._require_short(raw, self.stored.itemsize)
            return np.array(raw, f"S{self.stored.itemsize}").view(self.stored).reshape(len(raw))
        if kind == "U":
            self._require_short(values, self.stored.itemsize // 4)
        found = np.empty(len(values), self.stored)
        found[:] = values
        return found

    def _require_short(self, values: list[Any], most: int) -> None:
        longest = max(values, key=len, default="")
        if len(longest) > most:
            raise unsuitable(
                f"column {self.name!r} has {longest!r}, which does not fit an array of "
                f"{self.stored}"
            )


def encoder_of(variable: TableVariable, rules: Rules, zarr_fill: object) -> Encoder:
    """The encoder of an array; its attributes say how, its own fill value is the last resort."""
    decoder = variable.decoder(rules)
    return Encoder(variable.name, decoder, _fill(variable, decoder, zarr_fill))


def _fill(variable: TableVariable, decoder: Decoder, zarr_fill: object) -> Any:  # noqa: ANN401  (a scalar of any type)
    dtype = variable.dtype
    if decoder.fills:
        given = np.array(decoder.fills[0], decoder.view or dtype)
        return given.view(dtype)[()] if decoder.view is not None else given[()]
    match dtype.kind:
        case "f":
            return dtype.type("nan")
        case "c":
            return dtype.type(complex("nan"))
        case "M" | "m":
            return np.array("NaT", dtype)[()]
        case "T" | "O" | "U":
            return zarr_fill
        case _:
            return None


def family(kind: pa.DataType) -> str:
    """What kind of values a type has, in a word."""
    for is_kind, word in _FAMILIES:
        if is_kind(kind):
            return word
    if pa.types.is_struct(kind) and {field.name for field in kind} == {"re", "im"}:
        return "complex"
    return "other"


_FAMILIES: Final = (
    (pa.types.is_boolean, "bool"),
    (pa.types.is_integer, "integer"),
    (pa.types.is_floating, "float"),
    (pa.types.is_decimal, "decimal"),
    (pa.types.is_timestamp, "time"),
    (pa.types.is_date, "time"),
    (pa.types.is_duration, "span"),
    (pa.types.is_string, "text"),
    (pa.types.is_large_string, "text"),
    (pa.types.is_binary, "bytes"),
    (pa.types.is_large_binary, "bytes"),
)


def _numbers(column: pa.Array, stored: np.dtype[Any]) -> Values:
    """Numbers of a column with any value where there is none; times in microseconds."""
    match family(column.type):
        case "time":
            zone = column.type.tz if pa.types.is_timestamp(column.type) else None
            column = column.cast(pa.timestamp("us", tz=zone)).cast(pa.int64())
        case "span":
            column = column.cast(pa.duration("us")).cast(pa.int64())
        case "decimal":
            is_whole = stored.kind in "iu" and column.type.scale == 0
            whole = pa.uint64() if stored == np.dtype("u8") else pa.int64()
            column = column.cast(whole if is_whole else pa.float64())
        case "complex":
            parts = [
                column.field(name).fill_null(0).to_numpy(zero_copy_only=False)
                for name in ("re", "im")
            ]
            return np.asarray(parts[0] + 1j * parts[1])
    if column.null_count:
        column = pc.fill_null(column, pa.scalar(0).cast(column.type))
    return np.asarray(column.to_numpy(zero_copy_only=False))
