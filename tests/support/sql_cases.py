"""Random tables and random queries on them, for answers that must not depend on what is pushed."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pytest
import zarr
from pyspark.sql import DataFrame, SparkSession

import frazil
import frazil.spark
from frazil.spark.query import here, readings
from frazil.spark.query.names import ResolvedName
from frazil.spark.query.tables import open_table
from frazil.spark.reading.partitions import plan_blocks

BATCH: Final = 20
"""Queries that are run as one, since a job of Spark costs more than what it does."""
KINDS: Final = ("f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "?", "packed", "filled", "M8")
EPOCH: Final = "hours since 2024-01-30"


@dataclass(frozen=True)
class Table:
    """A table that was made, and what a query may say about it."""

    url: str
    view: str
    """the same cells as a plain table of Spark"""
    dims: tuple[str, ...]
    coordinates: dict[str, str]
    """kinds by name"""
    variables: dict[str, str]
    labels: dict[str, list[str]]
    """some of them, as SQL writes them"""
    authorize: tuple[str, ...] = ()


def make_table(
    rng: np.random.Generator,
    folder: Path,
    spark: SparkSession,
    view: str,
    kinds: Sequence[str] = KINDS,
) -> Table:
    """Make a random repository, and a plain table of all its cells."""
    folder.mkdir(parents=True)
    dims = tuple(["time", "lat", "station"][: rng.integers(1, 4)])
    sizes = {dim: int(rng.integers(1, 8)) for dim in dims}
    is_virtual = bool(rng.random() < 0.25)
    container = f"file://{folder}/"
    config = frazil.RepositoryConfig.default()
    if is_virtual:
        config.set_virtual_chunk_container(
            frazil.VirtualChunkContainer(container, frazil.local_filesystem_store(str(folder)))
        )
    access = {container: frazil.LocalFileSystemAccess} if is_virtual else None
    url = str(folder / "repo")
    repo = frazil.Repository.create(
        frazil.local_filesystem_storage(url), config, authorize_virtual_chunk_access=access
    )
    session = repo.writable_session("main")
    root = zarr.create_group(session.store)
    coordinates = {dim: _coordinate(rng, root, dim, sizes[dim]) for dim in dims}
    variables: dict[str, str] = {}
    for number in range(rng.integers(1, 4)):
        kind = str(rng.choice(kinds))
        own = dims if number == 0 else tuple(dim for dim in dims if rng.random() < 0.7) or dims
        name = f"v{number}"
        _variable(rng, root, name, kind, own, tuple(sizes[dim] for dim in own))
        variables[name] = kind
    if is_virtual:
        _virtual(rng, session, root, dims, tuple(sizes[dim] for dim in dims), folder)
        variables["far"] = "f8"
    session.commit("made")
    if rng.random() < 0.6:
        repo.audit.analyze()
    authorize = (container,) if is_virtual else ()
    options = {"authorize-virtual-chunk-access": container} if is_virtual else {}
    cells = plain_view(spark, url, view, **options)
    labels = {
        dim: [literal(cells.column(dim)[int(n)].as_py()) for n in rng.integers(0, len(cells), 3)]
        for dim in dims
    }
    return Table(url, view, dims, coordinates, variables, labels, authorize)


def plain_view(spark: SparkSession, url: str, view: str, **options: str) -> pa.Table:
    """Make a plain table of Spark with all cells of a repository."""
    table = open_table(ResolvedName(url), options)
    scan = table.scan(table.chosen(None))
    cells = here.read_cells_here(scan, plan_blocks(scan, scan.data_columns()))
    # In one partition Spark groups without a shuffle.
    spark.createDataFrame(cells, scan.schema).coalesce(1).createOrReplaceTempView(view)
    return cells


def _coordinate(rng: np.random.Generator, root: zarr.Group, dim: str, size: int) -> str:
    kind = str(
        rng.choice(
            {"time": ["time", "i4"], "lat": ["f4", "f8", "none"]}.get(dim, ["text", "i8", "none"])
        )
    )
    if kind == "none":
        return kind
    attributes: dict[str, Any] = {}
    values: Any
    match kind:
        case "time":
            values = np.cumsum(rng.integers(1, 40, size)).astype("i8")
            attributes = {"units": EPOCH}
        case "text":
            values = np.array([f"s{n % 5}" for n in range(size)], np.dtypes.StringDType())
        case "i4" | "i8":
            values = np.cumsum(rng.integers(-2, 6, size)).astype(kind)
        case _:
            values = np.linspace(-60, 70, size).round(2).astype(kind)
            if rng.random() < 0.2:
                values[-1] = np.nan
    made = root.create_array(
        dim, shape=(size,), chunks=(max(size // 2, 1),), dtype=values.dtype,
        dimension_names=[dim], attributes=attributes,
    )  # fmt: skip
    made[:] = values
    return kind


def _variable(
    rng: np.random.Generator,
    root: zarr.Group,
    name: str,
    kind: str,
    dims: tuple[str, ...],
    shape: tuple[int, ...],
) -> None:
    chunks = tuple(int(rng.integers(1, n + 2)) for n in shape)
    attributes: dict[str, Any] = {}
    fill: Any = None
    match kind:
        case "packed":
            values: Any = rng.integers(-100, 100, shape).astype("i2")
            attributes = {"scale_factor": 0.5, "add_offset": 3.0, "_FillValue": 7}
            fill = 7
        case "filled":
            values = rng.normal(0, 3, shape).astype("f8")
            attributes = {"_FillValue": float(-9)}
            values[rng.random(shape) < 0.3] = -9
            fill = -9.0
        case "marked":
            values = rng.integers(-9, 9, shape).astype("i2")
            attributes = {"_FillValue": -5}
            fill = -5
        case "M8":
            values = rng.integers(0, 2000, shape).astype("i4")
            attributes = {"units": EPOCH}
        case "?":
            values = rng.random(shape) < 0.5
        case "f4" | "f8":
            values = rng.normal(2, 3, shape).astype(kind).round(2)
            values[rng.random(shape) < 0.1] = np.nan
            values[rng.random(shape) < 0.03] = np.inf
        case "i8":
            values = rng.integers(-(2**50), 2**50, shape)
        case _:
            info = np.iinfo(kind)
            values = rng.integers(info.min, info.max, shape).astype(kind)
    made = root.create_array(
        name, shape=shape, chunks=chunks, dtype=values.dtype, dimension_names=[*dims],
        attributes=attributes, fill_value=fill,
    )  # fmt: skip
    if not dims or rng.random() < 0.7:
        made[...] = values
    else:  # some chunks are never written
        part = tuple(slice(0, max(n // 2, 1)) for n in shape)
        made[part] = values[part]


def _virtual(
    rng: np.random.Generator,
    session: frazil.Session,
    root: zarr.Group,
    dims: tuple[str, ...],
    shape: tuple[int, ...],
    folder: Path,
) -> None:
    """An array whose chunks are rows of a file elsewhere; some are not there."""
    values = rng.normal(0, 5, shape).astype("<f8")
    (folder / "far.bin").write_bytes(values.tobytes())
    root.create_array(
        "far", shape=shape, chunks=(1, *shape[1:]), dtype="f8", dimension_names=[*dims],
        compressors=None, filters=None, fill_value=0.5,
    )  # fmt: skip
    length = values[0].nbytes
    for number in range(shape[0]):
        if rng.random() < 0.8:
            key = "/".join(["far/c", str(number), *("0" for _ in shape[1:])])
            session.store.set_virtual_ref(
                key,
                f"file://{folder}/far.bin",
                offset=number * length,
                length=length,
                checksum=datetime.now(UTC) + timedelta(hours=1),
            )


def literal(value: object) -> str:
    """A value as SQL writes it."""
    match value:
        case None:
            return "NULL"
        case float():
            return "double('NaN')" if math.isnan(value) else repr(value)
        case bool() | int():
            return repr(value)
        case str():
            return f"'{value}'"
        case _:
            return f"TIMESTAMP_NTZ '{value}'"


# --- queries ---

SIGNS: Final = ("=", "<", "<=", ">", ">=", "!=")
NUMBERS: Final = ("f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "packed", "filled")


def make_query(rng: np.random.Generator, table: Table) -> str:
    """A random query on a table; `{table}` stands where its name goes."""
    where = _where(rng, table)
    kind = rng.choice(["aggregate", "aggregate", "aggregate", "distinct", "cells", "joined"])
    if kind == "joined":
        return _joined(rng, table, where)
    if kind == "cells":
        names = [*table.dims, *table.variables]
        chosen = ", ".join(rng.permutation(names)[: rng.integers(1, len(names) + 1)])
        return f"SELECT v0 AS first, {chosen} FROM {{table}} w{where}"
    groups = [_label(rng, table) for _ in range(rng.integers(0, 3))]
    groups = [*dict.fromkeys(groups)]
    items = [f"{each} AS g{n}" for n, each in enumerate(groups)]
    if kind == "distinct":
        more = items or [f"{_label(rng, table)} AS g0"]
        text = f"SELECT DISTINCT {', '.join(more)} FROM {{table}}{where}"
        if "v" in text.replace("v0", "") or "far" in text:
            text += f"{' AND' if where else ' WHERE'} (v0 IS NULL OR v0 IS NOT NULL)"
        return text
    made = [_aggregate(rng, table) for _ in range(rng.integers(1, 4))]
    items += [f"{each} AS a{n}" if rng.random() < 0.8 else each for n, each in enumerate(made)]
    # The variable with all dimensions is named, so that both tables have the same rows.
    items.append("count(v0) AS n")
    text = f"SELECT {', '.join(items)} FROM {{table}} w{where}"
    if groups:
        listed = ", ".join(groups)
        text += (
            f" GROUP BY {pick(rng, ['ROLLUP', 'CUBE'])}({listed})"
            if rng.random() < 0.1
            else (f" GROUP BY {listed}")
        )
        if rng.random() < 0.2:
            text += f" HAVING count(*) > {rng.integers(0, 4)}"
        elif rng.random() < 0.2:  # Spark itself does not take both
            text += f" ORDER BY {pick(rng, made)}"
    return text


def _joined(rng: np.random.Generator, table: Table, where: str) -> str:
    """Aggregates beside a join with a small table, whose keys may repeat or find nothing."""
    dim = pick(rng, table.dims)
    keys = [*table.labels[dim], "NULL"]
    rows = ", ".join(
        f"({pick(rng, keys)}, '{pick(rng, 'abc')}', {rng.integers(1, 9)}.5D)" for _ in range(4)
    )
    other = f"(SELECT * FROM VALUES {rows} AS k(key, name, weight))"
    how = pick(rng, ["JOIN", "JOIN", "JOIN", "LEFT SEMI JOIN", "LEFT ANTI JOIN", "LEFT JOIN"])
    on = pick(rng, [f"{dim} = k.key", f"{dim} <= k.key", f"{dim} = k.key AND {dim} IS NOT NULL"])
    seen = "SEMI" not in how and "ANTI" not in how
    groups = [pick(rng, ["k.name", dim])] if seen else [dim]
    groups = groups if rng.random() < 0.7 else []
    items = [f"{each} AS g{n}" for n, each in enumerate(groups)]
    items += [f"{_aggregate(rng, table)} AS a{n}" for n in range(rng.integers(1, 3))]
    numbers = [name for name, kind in table.variables.items() if kind in NUMBERS]
    if seen:
        items += ["sum(k.weight) AS w1", "count(k.name) AS w2", "max(k.name) AS w3"][
            : rng.integers(4)
        ]
        if numbers:
            items.append(f"sum({pick(rng, numbers)} * k.weight) AS w4")
        if where and rng.random() < 0.5:
            where += f" AND (k.name < 'c' OR {dim} IS NULL)"
    items.append("count(v0) AS n")
    text = f"SELECT {', '.join(items)} FROM {{table}} w {how} {other} k ON {on}{where}"
    if groups:
        text += f" GROUP BY {', '.join(groups)}"
    own = "|".join([*table.dims, *table.variables])
    return re.sub(rf"(?<![.\w'])({own})(?![\w'])", r"w.\1", text)


def pick(rng: np.random.Generator, choices: Any) -> Any:  # noqa: ANN401  (one of them)
    """One of some."""
    found = [*choices]
    return found[int(rng.integers(len(found)))]


def _label(rng: np.random.Generator, table: Table) -> str:
    dim = pick(rng, table.dims)
    match table.coordinates[dim]:
        case "time":
            ways = ["{}", "month({})", "date_trunc('day', {})", "hour({}) % 6", "year({})"]
            ways += ["date_trunc('month', {})", "if(month({0}) > 1, day({0}) > 9, NULL)"]
        case "text":
            ways = ["{}", "upper({})", "substr({}, 2)", "length({})"]
        case _:
            ways = ["{}", "{} > 3", "abs({})", "floor({} / 10)", "sign({})", "isnan(double({}))"]
    if len(table.dims) > 1 and rng.random() < 0.1:
        return f"coalesce(string({table.dims[0]}), string({table.dims[1]}))"
    narrow = [n for n, k in table.variables.items() if n != "v0" and k in ("i1", "u1", "?")]
    if narrow and rng.random() < 0.15:
        return str(pick(rng, narrow))
    return str(pick(rng, ways)).format(dim)


def _aggregate(rng: np.random.Generator, table: Table) -> str:
    name = pick(rng, table.variables)
    kind = table.variables[name]
    numeric = kind in NUMBERS
    ways = ["count({})", "count(*)", "min({})", "max({})"]
    if numeric:
        ways += [
            "avg({})",
            "sum({})",
            "stddev({})",
            "var_pop({})",
            "variance({})",
            "stddev_pop({})",
        ]
        ways += ["avg({} * 2.5D)", "sum({} - 1.5D)", "count(DISTINCT {})", "sum(abs(double({})))"]
    weight = next((d for d in table.dims if table.coordinates[d] in ("f4", "f8")), None)
    if weight is not None:
        ways += [f"min({weight})", f"count(DISTINCT {weight})", f"sum(double({weight}))"]
        if numeric:
            ways += [f"sum({{}} * cos(radians({weight})))", f"avg({{}} / (100D + {weight}))"]
            ways += [f"sum({{}} * floor({weight} / 50))", f"count({{}} * sqrt(double({weight})))"]
    text = str(pick(rng, ways)).format(name)
    if rng.random() < 0.15:
        text += f" FILTER (WHERE {on_labels(rng, table)})"
    elif rng.random() < 0.05:
        both = " OR ".join(f"{pick(rng, table.variables)} IS NOT NULL" for _ in range(2))
        text += f" FILTER (WHERE {pick(rng, [f'{name} IS NOT NULL', both])})"
    return text


def _where(rng: np.random.Generator, table: Table) -> str:
    parts = [on_labels(rng, table) for _ in range(int(rng.choice([0, 1, 1, 2, 3])))]
    if rng.random() < 0.25:
        parts.append(on_value(rng, table))
    return f" WHERE {' AND '.join(parts)}" if parts else ""


def on_labels(rng: np.random.Generator, table: Table) -> str:
    """A random condition on labels."""
    dim = pick(rng, table.dims)
    value = pick(rng, table.labels[dim])
    sign = pick(rng, SIGNS)
    plain = [
        f"{dim} {sign} {value}",
        f"{value} {sign} {dim}",
        f"{dim} IN ({', '.join(table.labels[dim])})",
        f"NOT ({dim} {sign} {value})",
        f"{dim} BETWEEN {value} AND {pick(rng, table.labels[dim])}",
        f"{dim} IS NOT NULL",
    ]
    match table.coordinates[dim]:
        case "time":
            plain += [f"month({dim}) = {rng.integers(1, 4)}", f"hour({dim}) < {rng.integers(24)}"]
        case "text":
            plain += [f"{dim} LIKE 's%'", f"length({dim}) {sign} 2"]
        case _:
            plain += [f"abs({dim}) {sign} {rng.integers(40)}", f"{dim} % 2 = 0"]
    one = str(pick(rng, plain))
    if rng.random() < 0.2:
        return f"({one} OR {on_labels(rng, table)})"
    return one


def on_value(rng: np.random.Generator, table: Table) -> str:
    """A random condition on values."""
    name = pick(rng, table.variables)
    sign = pick(rng, SIGNS)
    match table.variables[name]:
        case "?":
            return str(pick(rng, [f"{name}", f"NOT {name}", f"{name} = true"]))
        case "M8":
            return f"{name} {sign} TIMESTAMP_NTZ '2024-02-20 12:00:00'"
        case _:
            number = pick(rng, ["0", "2.5", "-1", "100", "1e3"])
            ways = [
                f"{name} {sign} {number}",
                f"{name} IS NULL",
                f"{name} IN (0, 1, {number})",
                f"{name} NOT BETWEEN {number} AND 50",
                f"{name} + 1 {sign} {number}",
            ]
            return str(pick(rng, ways))


# --- answers ---


def differences(
    spark: SparkSession, table: Table, queries: list[str], limit: str
) -> list[tuple[str, str]]:
    """The queries whose answers are not those of plain Spark, with what is different."""
    spark.conf.set(here.SETTING, limit)
    options: dict[str, Any] = {"authorize": [*table.authorize]} if table.authorize else {}
    try:
        with pytest.MonkeyPatch.context() as patch:
            # Tables are small here: their labels would never be taken together.
            patch.setattr(readings, "MANY_ROWS", 0)
            ours = _batch(queries, f"frazil.`{table.url}`")
            found = _answers(frazil.spark.sql(ours, spark, **options), len(queries))
    finally:
        spark.conf.unset(here.SETTING)
    wanted = _answers(spark.sql(_batch(queries, table.view)), len(queries))
    return [
        (query, f"{one[:4]} is not {other[:4]}")
        for query, one, other in zip(queries, found, wanted, strict=True)
        if not _same(one, other)
    ]


def _batch(queries: list[str], name: str) -> str:
    return " UNION ALL ".join(
        f"SELECT {n} AS q, to_json(struct(*), map('ignoreNullFields', 'false')) AS answer "
        f"FROM ({query.format(table=name)})"
        for n, query in enumerate(queries)
    )


def _answers(answers: DataFrame, count: int) -> list[list[dict[str, Any]]]:
    found: list[list[dict[str, Any]]] = [[] for _ in range(count)]
    # A task for each query would cost more than the queries.
    for row in answers.coalesce(1).collect():
        found[row.q].append(json.loads(row.answer))
    return [sorted(each, key=_order) for each in found]


def _order(row: dict[str, Any]) -> str:
    rounded = {k: f"{v:.5g}" if isinstance(v, float) else v for k, v in row.items()}
    return json.dumps(rounded)


def _same(one: list[dict[str, Any]], other: list[dict[str, Any]]) -> bool:
    return len(one) == len(other) and all(
        a.keys() == b.keys() and all(_close(a[k], b[k]) for k in a)
        for a, b in zip(one, other, strict=True)
    )


def _close(one: object, other: object) -> bool:
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=1e-7, abs_tol=1e-7)
    return one == other
