"""Random statements that write, and what cells they must leave behind.

The model knows nothing of chunks: it holds the values of every cell, has Spark evaluate the
conditions and expressions on a plain table of them, and sets cells one by one.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from itertools import product
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np
import zarr
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import frazil
import frazil.spark
from frazil.errors import FrazilError
from frazil.spark.query.names import ResolvedName
from frazil.spark.query.tables import open_table
from tests.support.sql_cases import (
    Table,
    literal,
    make_table,
    on_labels,
    on_value,
    pick,
    plain_view,
)

KINDS: Final = (
    "f4", "f8", "f8", "packed", "packed", "filled", "filled", "marked", "marked", "i4", "u1", "i8",
    "M8", "?",
)  # fmt: skip
"""more of those that can hold NULL, since others let most statements be refused"""
EPOCH: Final = datetime(2024, 1, 30)
RANGES: Final = {
    "i1": "i1", "i2": "i2", "i4": "i4", "i8": "i8", "u1": "u1", "u2": "u2", "u4": "u4",
    "marked": "i2", "packed": "i2",
}  # fmt: skip
FILLS: Final = {"packed": 7, "marked": -5, "filled": -9.0}

Cells: TypeAlias = dict[str, np.ndarray[Any, Any]]
"""the values of each variable, as objects; None where there is none"""


class Unstorable(Exception):
    """An array cannot hold a value."""


def decoded(raw: object, kind: str) -> Any:  # noqa: ANN401  (a value of any type)
    """A value as it is read, from how it is stored."""
    if FILLS.get(kind) == raw:
        return None
    match kind:
        case "packed":
            return float(raw) * 0.5 + 3.0  # type: ignore[arg-type]
        case "M8" | "time":
            return EPOCH + timedelta(hours=int(raw))  # type: ignore[call-overload]
        case _:
            return raw.item() if isinstance(raw, np.generic) else raw


def stored(value: Any, kind: str) -> Any:  # noqa: ANN401  (a value of any type)
    """What a value that is written is read as.

    Raises:
        Unstorable: it cannot be written.
    """
    if value is None or (kind == "packed" and math.isnan(value)):
        if kind in FILLS:
            return None
        if kind in ("f4", "f8"):  # nothing but NaN stands for what is missing
            return math.nan
        raise Unstorable(f"NULL in {kind}")
    match kind:
        case "packed":
            raw = float(np.rint((value - 3.0) / 0.5))
            if raw == FILLS[kind]:
                raise Unstorable(f"{value} is stored as what stands for NULL")
        case "M8":
            hours, rest = divmod(value - EPOCH, timedelta(hours=1))
            if rest or not -(2**31) <= hours < 2**31:
                raise Unstorable(str(value))
            return value
        case _:
            raw = value
    if kind in RANGES:
        limits = np.iinfo(RANGES[kind])
        if not limits.min <= raw <= limits.max:
            raise Unstorable(f"{value} in {kind}")
    return decoded(raw, kind)


@dataclass
class Case:
    """A repository, and what it must hold."""

    table: Table
    spark: SparkSession
    rng: np.random.Generator
    repo: frazil.Repository
    dims: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """those of each variable"""
    types: dict[str, str] = field(default_factory=dict)
    """of each column, as SQL names them"""

    @property
    def name(self) -> str:
        """The table in SQL."""
        return f"frazil.`{self.table.url}`"

    @property
    def options(self) -> dict[str, Any]:
        """Options of the source."""
        allowed = self.table.authorize
        return {"authorize": [*allowed]} if allowed else {}

    def group(self) -> zarr.Group:
        """The arrays as they are on the branch."""
        return zarr.open_group(self.repo.readonly_session("main").store, mode="r")

    def labels(self) -> dict[str, list[Any]]:
        """The labels along each dimension; positions where it has none."""
        group, found = self.group(), {}
        for dim in self.table.dims:
            if dim in group:
                kind = self.table.coordinates[dim]
                stored_labels: Any = group[dim]
                found[dim] = [decoded(raw, kind) for raw in stored_labels[...]]
            else:
                found[dim] = [*range(self.sizes()[dim])]
        return found

    def sizes(self) -> dict[str, int]:
        """The lengths of dimensions."""
        return dict(zip(self.dims["v0"], self.group()["v0"].shape, strict=True))  # type: ignore[union-attr]

    def cells(self) -> Cells:
        """All that is there."""
        group, found = self.group(), {}
        for name, kind in self.table.variables.items():
            raw = np.asarray(group[name][...])  # type: ignore[index]
            made = np.empty(raw.shape, object)
            for at in np.ndindex(raw.shape):
                made[at] = decoded(raw[at], kind)
            found[name] = made
        return found

    def commits(self) -> list[str]:
        """The history, newest first."""
        return [each.id for each in self.repo.ancestry(branch="main")]

    def within(self, dims: Sequence[str]) -> Table:
        """The table as conditions on cells of some dimensions may name it."""
        own = {n: k for n, k in self.table.variables.items() if set(self.dims[n]) <= {*dims}}
        return replace(self.table, dims=tuple(dims), variables=own)


def make_case(seed: int, folder: Path, spark: SparkSession) -> Case:
    """A random repository whose labels mostly are unique."""
    rng = np.random.default_rng(seed)
    for number in range(100):
        view = f"cells_{seed}"
        table = make_table(rng, folder / str(number), spark, view, KINDS)
        access = dict.fromkeys(table.authorize, frazil.LocalFileSystemAccess)
        repo = frazil.Repository.open(
            frazil.local_filesystem_storage(table.url),
            authorize_virtual_chunk_access=access or None,
        )
        case = Case(table, spark, rng, repo)
        group = case.group()
        for name in table.variables:
            case.dims[name] = tuple(group[name].metadata.dimension_names)  # type: ignore[union-attr, arg-type]
        opened = open_table(ResolvedName(table.url), _reading(table))
        schema = opened.schema(opened.chosen(None))
        case.types = {each.name: each.dataType.simpleString() for each in schema}
        if is_placed(case) or rng.random() < 0.05:
            return case
    raise AssertionError("no table has unique labels")


def _reading(table: Table) -> dict[str, str]:
    return {"authorize-virtual-chunk-access": ",".join(table.authorize)} if table.authorize else {}


def is_placed(case: Case) -> bool:
    """Whether rows can be placed by labels."""
    return is_placed_along(case, case.table.dims)


# --- statements ---


@dataclass(frozen=True)
class Made:
    """A statement, and what it does to cells."""

    text: str
    dims: tuple[str, ...]
    """of the cells that it sets"""
    queries: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """on the plain table: rows of labels and values, and the variables that these are for"""
    rows: tuple[tuple[Any, ...], ...] = ()
    """such rows that the statement itself has"""
    names: tuple[str, ...] = ()
    """the variables of these rows"""
    is_once: bool = True
    """whether two rows for one cell are an error"""
    skips_same: bool = True
    """whether there is no commit if nothing changes"""
    grows: tuple[str, Any] | None = None
    """the dimension that gets a label, and this"""

    @property
    def options(self) -> dict[str, Any]:
        """Options that it needs."""
        return {} if self.grows is None else {"append_dim": self.grows[0]}


def make_statement(case: Case) -> Made:
    """A random statement."""
    ways = [
        _update, _update, _update, _delete, _delete_one, _values, _selected, _merge, _merge,
        _replaced, _appended,
    ]  # fmt: skip
    return ways[int(case.rng.integers(len(ways)))](case)


def _condition(case: Case, table: Table) -> str:
    rng = case.rng
    parts = [on_labels(rng, table) for _ in range(int(rng.integers(0, 3)))]
    if table.variables and rng.random() < 0.5:
        parts.append(on_value(rng, table))
    if rng.random() < 0.2:
        name = str(pick(rng, case.table.dims))
        if name in table.dims:
            parts.append(f"{name} IN (SELECT max({name}) FROM {{table}})")
    return f" WHERE {' AND '.join(parts)}" if parts else ""


def _expression(case: Case, name: str, table: Table) -> str:
    rng, kind = case.rng, case.table.variables[name]
    ways = [name]
    if kind in FILLS or kind in ("f4", "f8") or rng.random() < 0.1:
        ways.append("NULL")
    match kind:
        case "?":
            ways += [f"NOT {name}", "true", "false"]
        case "M8":
            ways += [
                f"{name} + INTERVAL 5 HOURS", "TIMESTAMP_NTZ '2024-03-01 07:00:00'",
                f"{name} + INTERVAL 90 MINUTES",
            ]  # fmt: skip
        case _:
            ways += [
                f"{name} + 1", f"-{name}", "4", "12.5", f"coalesce({name}, 3)", "1e3", "'17'",
                f"{name} * 1000", f"CASE WHEN {name} > 2 THEN 1 ELSE {name} END",
                f"(SELECT max({name}) FROM {{table}})", f"CAST({name} AS DOUBLE) / 2",
            ]  # fmt: skip
            others = [n for n, k in table.variables.items() if k not in ("?", "M8")]
            if others:
                ways.append(f"{pick(rng, others)} + 1")
    return str(pick(rng, ways))


def _targets(case: Case) -> list[str]:
    """One variable, or some that have the same dimensions."""
    rng, names = case.rng, [*case.table.variables]
    first = str(pick(rng, names))
    same = [n for n in names if set(case.dims[n]) == set(case.dims[first]) and n != first]
    return [first, *(n for n in same if rng.random() < 0.4)]


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names)


def _update(case: Case) -> Made:
    names = _targets(case)
    dims = case.dims[names[0]]
    table = case.within(dims)
    values = {name: _expression(case, name, table) for name in names}
    where = _condition(case, table)
    alias = str(pick(case.rng, ["", " w", " AS w"]))
    sets = ", ".join(f"{name} = {text}" for name, text in values.items())
    return Made(
        f"UPDATE {{table}}{alias} SET {sets}{where}",
        dims,
        ((_chosen(case, dims, values, where), tuple(names)),),
        is_once=False,
    )


def _chosen(case: Case, dims: Sequence[str], values: Mapping[str, str], where: str) -> str:
    made = [f"CAST(({text}) AS {case.types[name]})" for name, text in values.items()]
    return f"SELECT {_listed([*dims, *made])} FROM {{table}} w{where}"


def _full(case: Case) -> list[str]:
    most = max(len(dims) for dims in case.dims.values())
    return [name for name, dims in case.dims.items() if len(dims) == most]


def _delete(case: Case) -> Made:
    names = _full(case)
    dims = case.dims[names[0]]
    where = _condition(case, case.within(dims))
    query = _chosen(case, dims, dict.fromkeys(names, "NULL"), where)
    return Made(f"DELETE FROM {{table}}{where}", dims, ((query, tuple(names)),), is_once=False)


def _delete_one(case: Case) -> Made:
    name = str(pick(case.rng, [*case.table.variables]))
    dims = case.dims[name]
    own = replace(case.within(dims), variables={name: case.table.variables[name]})
    where = _condition(case, own)
    return Made(
        f"DELETE FROM {{table}}.{name}{where.replace('{table}', '{table}.' + name)}",
        dims,
        ((_chosen(case, dims, {name: "NULL"}, where), (name,)),),
        is_once=False,
    )


def _value(case: Case, name: str) -> Any:  # noqa: ANN401  (a value of any type)
    rng, kind = case.rng, case.table.variables[name]
    if rng.random() < 0.15:
        return None
    match kind:
        case "?":
            return bool(rng.integers(2))
        case "M8":
            return EPOCH + timedelta(hours=int(rng.integers(0, 500)))
        case "f4" | "f8" | "filled" | "packed":
            return float(rng.integers(-40, 40)) / 2
        case _:
            return int(rng.integers(0, 100))


def _picked(case: Case, dims: Sequence[str]) -> list[tuple[Any, ...]]:
    """Labels of some cells, each once, but for a few."""
    rng, labels = case.rng, case.labels()
    count = int(rng.integers(1, 6))
    found = [
        tuple(labels[d][int(rng.integers(len(labels[d])))] for d in dims) for _ in range(count)
    ]
    return found if rng.random() < 0.1 else [*dict.fromkeys(found)]


def _values_text(rows: Sequence[Sequence[Any]]) -> str:
    return ", ".join(f"({', '.join(map(literal, row))})" for row in rows)


def _values(case: Case) -> Made:
    names = _targets(case)
    dims = case.dims[names[0]]
    rows = [(*at, *(_value(case, name) for name in names)) for at in _picked(case, dims)]
    columns = [*dims, *names]
    order = [int(n) for n in case.rng.permutation(len(columns))]
    shown = [[row[n] for n in order] for row in rows]
    head = f"INSERT INTO {{table}} ({_listed([columns[n] for n in order])})"
    return Made(
        f"{head} VALUES {_values_text(shown)}",
        dims, rows=tuple(rows), names=tuple(names), skips_same=False,
    )  # fmt: skip


def _selected(case: Case) -> Made:
    names = _targets(case)
    dims = case.dims[names[0]]
    table = case.within(dims)
    values = {name: _expression(case, name, table) for name in names}
    # Their own values are named, so that their cells are the rows.
    where = _condition(case, table) or " WHERE true"
    where += f" AND ({names[0]} IS NULL OR {names[0]} IS NOT NULL)"
    items = [*dims, *(f"{text} AS {name}" for name, text in values.items())]
    how = "BY NAME" if case.rng.random() < 0.5 else f"({_listed([*dims, *names])})"
    return Made(
        f"INSERT INTO {{table}} {how} SELECT {_listed(items)} FROM {{table}} w{where}",
        dims,
        ((_chosen(case, dims, values, where), tuple(names)),),
        is_once=False,
        skips_same=False,
    )


def _replaced(case: Case) -> Made:
    """INSERT … REPLACE WHERE: the cells that it chooses are missing, but for those of rows."""
    rng, names, labels = case.rng, _targets(case), case.labels()
    dims = case.dims[names[0]]
    dim = str(pick(rng, dims))
    least = pick(rng, labels[dim])
    if isinstance(least, str) or least is None or least != least:
        return _values(case)
    # The grammar of this condition is that of the option `where`.
    shown = f"'{least}'" if isinstance(least, datetime) else repr(least)
    rows = [
        (*at, *(_value(case, name) for name in names))
        for at in dict.fromkeys(_picked(case, dims))
        if at[dims.index(dim)] is not None and at[dims.index(dim)] >= least
    ]
    taken = " OR ".join(
        "(" + " AND ".join(f"{d} = {literal(v)}" for d, v in zip(dims, row, strict=False)) + ")"
        for row in rows
    )
    where = f" WHERE {dim} >= {literal(least)} AND NOT ({taken or 'false'})"
    source = f"VALUES {_values_text(rows)}"
    if not rows:
        items = [f"CAST(NULL AS {case.types[name]})" for name in (*dims, *names)]
        source = f"SELECT {_listed(items)} WHERE false"
    return Made(
        f"INSERT INTO {{table}} ({_listed([*dims, *names])}) REPLACE WHERE {dim} >= {shown} "
        f"{source}",
        dims,
        ((_chosen(case, dims, dict.fromkeys(names, "NULL"), where), tuple(names)),),
        tuple(rows),
        tuple(names),
        is_once=False,
        skips_same=False,
    )


def _appended(case: Case) -> Made:
    """Rows with a new label, for variables that all grow with it."""
    rng, labels = case.rng, case.labels()
    growing = {d: _next(labels[d]) for d in case.table.dims if case.table.coordinates[d] != "none"}
    growing = {dim: label for dim, label in growing.items() if label is not None}
    if not growing:
        return _update(case)
    dim = str(pick(rng, growing))
    names = [name for name, dims in case.dims.items() if dim in dims]
    dims = case.dims[names[0]]
    if any({*case.dims[name]} != {*dims} for name in names) or not is_placed_along(case, dims):
        return _update(case)
    places = [[growing[dim]] if d == dim else labels[d] for d in dims]
    rows = [(*at, *(_value(case, name) for name in names)) for at in product(*places)]
    if rng.random() < 0.5 and all(case.table.variables[n] in FILLS for n in names):
        rows = [row for row in rows if rng.random() < 0.6] or rows[:1]  # others are missing
    return Made(
        f"INSERT INTO {{table}} ({_listed([*dims, *names])}) VALUES {_values_text(rows)}",
        dims,
        rows=tuple(rows),
        names=tuple(names),
        skips_same=False,
        grows=(dim, growing[dim]),
    )


def _next(labels: Sequence[Any]) -> Any:  # noqa: ANN401  (a label of any type)
    """A label that is not there yet."""
    if not labels or None in labels or any(label != label for label in labels):
        return None
    last = max(labels)
    match last:
        case datetime():
            return last + timedelta(hours=3)
        case str():
            return f"{last}x"
        case _:
            return last + 2


def _merge(case: Case) -> Made:
    rng, names = case.rng, _targets(case)
    dims = case.dims[names[0]]
    rows = [(*at, int(rng.integers(0, 50))) for at in _picked(case, dims)]
    kinds = [case.types[dim] for dim in dims]
    items = [f"CAST(c{n} AS {kind}) AS {dims[n]}" for n, kind in enumerate(kinds)]
    columns = _listed([f"c{n}" for n in range(len(dims) + 1)])
    source = (
        f"(SELECT {_listed(items)}, c{len(dims)} AS x FROM VALUES {_values_text(rows)} "
        f"AS v({columns}))"
    )
    on = " AND ".join(f"t.{dim} = s.{dim}" for dim in dims)
    full = case.dims[names[0]] == case.dims["v0"]
    text = f"MERGE INTO {{table}} t USING {source} s ON {on}"
    matched: list[tuple[str, dict[str, str]]] = []
    lost: list[tuple[str, dict[str, str]]] = []
    for _ in range(int(rng.integers(1, 3))):
        condition, shown = "TRUE", ""
        if rng.random() < 0.6:
            condition = str(pick(rng, ["s.x > 20", "s.x % 2 = 0", f"t.{names[0]} IS NULL"]))
            shown = f" AND {condition}"
        if full and rng.random() < 0.3:
            matched.append((condition, dict.fromkeys(_full(case), "NULL")))
            text += f" WHEN MATCHED{shown} THEN DELETE"
        else:
            values = {name: _merged(case, name) for name in names}
            matched.append((condition, values))
            text += f" WHEN MATCHED{shown} THEN UPDATE SET {_sets(values)}"
    if rng.random() < 0.3:
        condition = f"t.{names[0]} IS NOT NULL"
        values = {names[0]: _merged(case, names[0], is_lost=True)}
        lost.append((condition, values))
        text += f" WHEN NOT MATCHED BY SOURCE AND {condition} THEN UPDATE SET {_sets(values)}"
    queries = [
        *_merge_queries(case, dims, matched, f"JOIN {source} s ON {on}"),
        *_merge_queries(case, dims, lost, f"LEFT ANTI JOIN {source} s ON {on}"),
    ]
    return Made(text, dims, tuple(queries))


def _sets(values: Mapping[str, str]) -> str:
    return ", ".join(f"{name} = {text}" for name, text in values.items())


def _merged(case: Case, name: str, *, is_lost: bool = False) -> str:
    kind = case.table.variables[name]
    match kind:
        case "?":
            ways = [f"NOT t.{name}", "true"]
        case "M8":
            ways = [f"t.{name} + INTERVAL 1 HOUR"]
        case _:
            ways = ["3", f"t.{name} + 1", "NULL"] + ([] if is_lost else ["s.x", f"t.{name} + s.x"])
    return str(pick(case.rng, ways))


def _merge_queries(
    case: Case, dims: Sequence[str], clauses: Sequence[tuple[str, dict[str, str]]], join: str
) -> Iterator[tuple[str, tuple[str, ...]]]:
    """A query for each clause, about the rows that no clause before has taken."""
    before: list[str] = []
    labels = _listed([f"t.{dim}" for dim in dims])
    for condition, values in clauses:
        own = " AND ".join([f"({condition})", *(f"NOT coalesce({each}, false)" for each in before)])
        made = _listed([f"CAST(({text}) AS {case.types[name]})" for name, text in values.items()])
        query = (
            f"SELECT {labels}, {made} FROM (SELECT DISTINCT * FROM {{own}}) t {join} WHERE {own}"
        )
        yield query, tuple(values)
        before.append(f"({condition})")


# --- what they do ---


def expected(case: Case, made: Made, before: Cells) -> Cells:
    """The cells after a statement.

    Raises:
        Unstorable: it must be refused.
        PySparkException: Spark itself refuses the expressions.
    """
    after = {name: values.copy() for name, values in before.items()}
    view = case.table.view
    _make_own(case, made)
    found: list[tuple[tuple[str, ...], Sequence[Any]]] = [(made.names, row) for row in made.rows]
    for query, names in made.queries:
        own = query.format(table=view, own=f"{view}_own")
        found += [(names, tuple(row)) for row in case.spark.sql(own).coalesce(1).collect()]
    if not is_placed_along(case, made.dims):
        raise Unstorable("labels are not unique")
    numbers = {
        dim: {_key(label): n for n, label in enumerate(case.labels()[dim])} for dim in made.dims
    }
    if made.grows is not None:
        dim, label = made.grows
        numbers[dim][label] = len(numbers[dim])
        for name in made.names:
            more = [(0, int(each == dim)) for each in case.dims[name]]
            nothing: Any = None
            after[name] = np.pad(after[name], more, constant_values=nothing)
    seen: set[tuple[int, ...]] = set()
    for names, row in found:
        at = dict(zip(made.dims, row[: len(made.dims)], strict=True))
        place = {dim: numbers[dim][_key(label)] for dim, label in at.items()}
        key = tuple(place.values())
        if made.is_once and key in seen:
            raise Unstorable("two rows for a cell")
        seen.add(key)
        for name, value in zip(names, row[len(made.dims) :], strict=True):
            where = tuple(place[dim] for dim in case.dims[name])
            after[name][where] = stored(value, case.table.variables[name])
    return after


def is_placed_along(case: Case, dims: Sequence[str]) -> bool:
    """Whether rows can be placed by the labels of some dimensions."""
    labels = case.labels()
    keys = {dim: {*map(_key, labels[dim])} for dim in dims}
    return all(None not in keys[d] and len(keys[d]) == len(labels[d]) for d in dims)


def _key(label: object) -> object:
    """What a label is found by: NaN is like NaN."""
    return "nan" if isinstance(label, float) and math.isnan(label) else label


def _make_own(case: Case, made: Made) -> None:
    """The plain table of all cells, and one of those that a statement sets."""
    view = case.table.view
    plain_view(case.spark, case.table.url, view, **_reading(case.table))
    own = [n for n in case.table.variables if set(case.dims[n]) <= {*made.dims}]
    names = _listed([*made.dims, *own])
    case.spark.sql(f"SELECT {names} FROM {view}").createOrReplaceTempView(f"{view}_own")


def same(one: Cells, other: Cells) -> str:
    """What is different, in words; empty when nothing is."""
    for name, values in one.items():
        if values.shape != other[name].shape:
            return f"{name} has the shape {values.shape}, not {other[name].shape}"
        for at in np.ndindex(values.shape):
            if not _equal(values[at], other[name][at]):
                return f"{name}{list(at)} is {values[at]!r}, not {other[name][at]!r}"
    return ""


def _equal(one: object, other: object) -> bool:
    if isinstance(one, float) and isinstance(other, float):
        both = math.isnan(one) and math.isnan(other)
        return both or math.isclose(one, other, rel_tol=1e-6, abs_tol=1e-9)
    return one == other


def run(case: Case, made: Made, **options: Any) -> str | None:  # noqa: ANN401  (of any kind)
    """Run a statement; why it was refused, or None."""
    text = made.text.format(table=case.name)
    try:
        frazil.spark.sql(text, case.spark, **{**case.options, **options})
    except (FrazilError, PySparkException) as error:
        return f"{type(error).__name__}: {error}"
    return None


def attempt(case: Case, made: Made, **options: Any) -> tuple[str, Cells, Cells]:  # noqa: ANN401
    """Run a statement and compare what it leaves with the model; what is wrong, in words."""
    before, history = case.cells(), case.commits()
    why: str | None = None
    wanted = before
    try:
        wanted = expected(case, made, before)
    except (Unstorable, PySparkException) as error:
        why = str(error)
    said = run(case, made, **options, **made.options)
    after, now = case.cells(), case.commits()
    if difference := same(after, wanted):
        return f"{difference} ({said or 'accepted'}; {why})", before, after
    if (said is None) != (why is None):
        return f"{said or 'accepted'}, and the model says {why or 'it can be done'}", before, after
    is_changed = bool(same(wanted, before))
    most = 0 if why is not None or (made.skips_same and not is_changed) else 1
    least = int(is_changed)
    if not least <= len(now) - len(history) <= most or now[len(now) - len(history) :] != history:
        return f"there are {len(now) - len(history)} commits", before, after
    return "", before, after


def feed(case: Case, start: str, names: Sequence[str]) -> set[tuple[Any, ...]]:
    """The change feed since a snapshot, for some variables with the same dimensions."""
    first = literal(start)
    columns = _listed(["_commit_version", "_change_type", *case.dims[names[0]], *names])
    rows = frazil.spark.sql(
        f"SELECT {columns} FROM table_changes('{case.table.url}', {first})",
        case.spark,
        variables=[*names],
        **case.options,
    ).collect()
    return {tuple(map(_plain, row)) for row in rows}


def changes(
    case: Case, snapshot: str, before: Cells, after: Cells, names: Sequence[str]
) -> set[tuple[Any, ...]]:
    """What the feed must tell of a commit."""
    labels, dims = case.labels(), case.dims[names[0]]
    found: set[tuple[Any, ...]] = set()
    orders = [[case.dims[name].index(dim) for dim in dims] for name in names]
    for at in np.ndindex(after[names[0]].shape):
        old, new = (
            tuple(
                _plain(_at(cells[name].transpose(order), at))
                for name, order in zip(names, orders, strict=True)
            )
            for cells in (before, after)
        )
        if old == new:
            continue
        where = tuple(_plain(labels[dim][n]) for dim, n in zip(dims, at, strict=True))
        was, now = (any(v not in (None, "nan") for v in values) for values in (old, new))
        if was and now:
            found.add((snapshot, "update_preimage", *where, *old))
            found.add((snapshot, "update_postimage", *where, *new))
        elif was:
            found.add((snapshot, "delete", *where, *old))
        else:
            found.add((snapshot, "insert", *where, *new))
    return found


def _at(values: np.ndarray[Any, Any], at: tuple[int, ...]) -> object:
    """A value; none beyond the end."""
    is_there = all(n < size for n, size in zip(at, values.shape, strict=True))
    return values[at] if is_there else None


def known(case: Case, name: str) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """How many values a variable has, the least and the greatest: as SQL tells, and as it is."""
    found = frazil.spark.sql(
        f"SELECT count({name}), min({name}), max({name}) FROM {case.name}.{name}",
        case.spark,
        **case.options,
    ).first()
    assert found is not None
    there = [value for value in case.cells()[name].ravel() if value is not None]
    low, high = (
        min(there, key=_order, default=None),
        max(there, key=_order, default=None),
    )
    return tuple(map(_plain, found)), (len(there), _plain(low), _plain(high))


def _order(value: Any) -> Any:  # noqa: ANN401  (NaN is greater than all, as Spark has it)
    return math.inf if isinstance(value, float) and math.isnan(value) else value


def _plain(value: object) -> object:
    return f"{value:.6g}" if isinstance(value, float) else value
