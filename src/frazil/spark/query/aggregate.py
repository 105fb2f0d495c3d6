"""`frazil.spark.aggregate`: means, sums and extremes of variables without writing SQL."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from frazil.errors import invalid_option
from frazil.spark.query.sql import sql
from frazil.spelling import unknown
from frazil.texts import backquoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

GroupBy: TypeAlias = str | Iterable[str] | Mapping[str, str] | None

FUNCTIONS: Final = {
    "count": "count",
    "sum": "sum",
    "mean": "avg",
    "avg": "avg",
    "min": "min",
    "max": "max",
    "std": "stddev_samp",
    "stddev": "stddev_samp",
    "stddev_pop": "stddev_pop",
    "var": "var_samp",
    "variance": "var_samp",
    "var_pop": "var_pop",
}


def aggregate(
    url: str,
    by: GroupBy = None,
    *,
    where: str | None = None,
    spark: SparkSession | None = None,
    storage_options: Mapping[str, Any] | None = None,
    options: Mapping[str, Any] | None = None,
    **variables: str | Iterable[str],
) -> DataFrame:
    """Aggregate variables of a repository, as `frazil.spark.sql` does it.

    Args:
        url: `URL[@version][#/group]`.
        by: coordinates or expressions to group by: `"lat"`, `["lat", "lon"]`, or by name
            `{"month": "date_trunc('month', time)"}`.
        where: a condition in SQL.
        spark: the session to use; the active or an embedded one by default.
        storage_options: arguments of the storage, such as `region`.
        options: further options of the data source.
        variables: for each variable one or more of count, sum, mean, min, max, std, stddev_pop,
            var and var_pop; the columns are called `t2m_mean` and so on.

    Raises:
        InvalidInputError: there is no such aggregate, or none was asked for.
        FrazilError: what reading the repository failed with.
    """
    groups = _groups(by)
    items = [f"{expression} AS {backquoted(name)}" for name, expression in groups.items()]
    for name, words in variables.items():
        for word in [words] if isinstance(words, str) else words:
            if word not in FUNCTIONS:
                raise invalid_option(unknown("aggregate", word, FUNCTIONS))
            items.append(f"{FUNCTIONS[word]}({backquoted(name)}) AS {backquoted(f'{name}_{word}')}")
    if len(items) == len(groups):
        raise invalid_option("say what to compute of which variable, such as t2m='mean'")
    text = f"SELECT {', '.join(items)} FROM frazil.{backquoted(_place(url))}"
    if where is not None:
        text += f" WHERE {where}"
    if groups:
        text += f" GROUP BY {', '.join(groups.values())}"
    return sql(text, spark, storage_options=storage_options, **(options or {}))


def _groups(by: GroupBy) -> dict[str, str]:
    match by:
        case None:
            return {}
        case str():
            return {by: by}
        case Mapping():
            return dict(by)
        case _:
            return {each: each for each in by}


def _place(url: str) -> str:
    """A URL that is not taken for a name."""
    return url if "/" in url or ":" in url else f"./{url}"
