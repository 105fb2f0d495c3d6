"""`frazil.spark.read`: the data source with Python values instead of texts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from frazil.spark.errors import raise_task_errors
from frazil.spark.location import absolute_url
from frazil.spark.options.written import as_text, spelled, storage_texts
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
    given = storage_texts(storage_options)
    given |= {spelled(name): as_text(v) for name, v in options.items() if v is not None}
    with raise_task_errors():
        return reader.options(**given).load(absolute_url(url))
