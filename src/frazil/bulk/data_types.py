"""Types and fill values of Zarr metadata, without zarr for those that nearly all arrays have.

Programs that only look at an array then need not wait for the import of zarr. What is not plain
here goes to zarr, which also says what is wrong with it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from frazil.texts import FLOAT_WORDS

_NUMBERS: Final = frozenset(
    f"{kind}{bits}"
    for kind, widths in (("int", (8, 16, 32, 64)), ("uint", (8, 16, 32, 64)), ("float", (32, 64)))
    for bits in widths
)
TEXT: Final = "string"


def dtype_of(data_type: object) -> np.dtype[Any]:
    """The numpy type of a `data_type`.

    Raises:
        ValueError: there is no such type; TypeError and KeyError likewise.
    """
    if isinstance(data_type, str):
        if data_type in _NUMBERS or data_type == "bool":
            return np.dtype(data_type)
        if data_type == TEXT:
            return np.dtypes.StringDType()
    from zarr.core.dtype import get_data_type_from_json

    found: np.dtype[Any] = get_data_type_from_json(
        data_type,  # type: ignore[arg-type]  # foreign JSON, which zarr looks through
        zarr_format=3,
    ).to_native_dtype()
    return found


def fill_of(data_type: object, value: object) -> Any:  # noqa: ANN401  (a scalar of the type)
    """The fill value that metadata tells, as a scalar of the type.

    Raises:
        ValueError: it is none; TypeError and KeyError likewise.
    """
    if isinstance(data_type, str) and (plain := _PLAIN.get(data_type)) is not None:
        found = plain(value)
        if found is not None:
            return found
    from zarr.core.dtype import get_data_type_from_json

    kind = get_data_type_from_json(
        data_type,  # type: ignore[arg-type]  # foreign JSON, which zarr looks through
        zarr_format=3,
    )
    return kind.from_json_scalar(value, zarr_format=3)  # type: ignore[arg-type]  # likewise


def _whole(dtype: np.dtype[Any]) -> Callable[[object], Any]:
    limits = np.iinfo(dtype)

    def read(value: object) -> Any:  # noqa: ANN401  (a scalar of the type)
        if type(value) is int and limits.min <= value <= limits.max:
            return dtype.type(value)
        return None

    return read


def _real(dtype: np.dtype[Any]) -> Callable[[object], Any]:
    largest = float(np.finfo(dtype).max)

    def read(value: object) -> Any:  # noqa: ANN401  (a scalar of the type)
        if isinstance(value, str):
            return dtype.type(FLOAT_WORDS[value]) if value in FLOAT_WORDS else None
        # For mypy: not narrowed by `type`, and bool is no number here.
        if type(value) in (int, float) and abs(value) <= largest:  # type: ignore[arg-type]
            return dtype.type(value)
        return None

    return read


_PLAIN: Final[dict[str, Callable[[object], Any]]] = {
    **{n: _whole(np.dtype(n)) for n in _NUMBERS if not n.startswith("float")},
    **{n: _real(np.dtype(n)) for n in _NUMBERS if n.startswith("float")},
    "bool": lambda value: np.bool_(value) if type(value) is bool else None,
    TEXT: lambda value: value if type(value) is str else None,
}
"""readers of fill values by type; they give None for what zarr has to look at"""
