"""`frazil.spark.read`: the data source with Python values instead of texts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from frazil.errors import ErrorKind, InvalidInputError
from frazil.spark.errors import told
from frazil.spark.options.table import OPTIONS, STORAGE
from frazil.spark.sessions import session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

FORMAT: Final = "frazil"


def read(
    url: str,
    *,
    spark: SparkSession | None = None,
    schema: StructType | str | None = None,
    storage_options: Mapping[str, Any] | None = None,
    **options: Any,  # noqa: ANN401  (those of the data source)
) -> DataFrame:
    """Read a repository, a group of it or one of its metadata tables into a DataFrame.

    Args:
        url: `URL[@version][#table or #/node]`.
        spark: the session to use; the active or an embedded one by default.
        schema: the columns to read, with types.
        storage_options: arguments of the storage, such as `region`.
        options: options of the data source with `_` for `-`; lists, dicts and times are
            written as the options want them: `variables=["t2m"]`, `isel={"time": slice(0, 10)}`.

    Raises:
        FrazilError: there is no such repository, version, node, option or column.
        SessionStateError: the Python that Spark runs has no Frazil.
    """
    reader = (spark or session()).read.format(FORMAT)
    if schema is not None:
        reader = reader.schema(schema)
    for name, value in (storage_options or {}).items():
        reader = reader.option(STORAGE + name, as_text(value))
    for name, value in options.items():
        if value is not None:
            reader = reader.option(spelled(name), as_text(value))
    with told():
        return reader.load(url)


def spelled(name: str) -> str:
    """The name of an option as it is documented."""
    plain = name.replace("_", "-")
    known = {option.name for option in OPTIONS}
    return plain if plain in known or name not in known else name


def as_text(value: object) -> str:
    """A Python value as options write it."""
    match value:
        case bool():
            return str(value).lower()
        case str() | int() | float():
            return str(value)
        case datetime():
            return value.isoformat()
        case slice():
            return _slice(value)
        case Mapping():
            return ", ".join(f"`{name}`={_labels(each)}" for name, each in value.items())
        case Iterable():
            return ", ".join(_name(each) for each in value)
        case _:
            raise InvalidInputError(
                f"an option cannot be {type(value).__name__}", kind=ErrorKind.INVALID_OPTION
            )


def _name(value: object) -> str:
    text = str(value)
    return f"`{text}`" if "," in text or " " in text else text


def _labels(value: object) -> str:
    if isinstance(value, slice):
        return _slice(value)
    if isinstance(value, Iterable) and not isinstance(value, str):
        return f"[{', '.join(_label(each) for each in value)}]"
    return _label(value)


def _slice(value: slice) -> str:
    start, stop = ("" if part is None else _label(part) for part in (value.start, value.stop))
    return f"{start}:{stop}" + ("" if value.step is None else f":{value.step}")


def _label(value: object) -> str:
    if isinstance(value, datetime):
        return value.isoformat()
    return f"'{value}'" if isinstance(value, str) else str(value)
