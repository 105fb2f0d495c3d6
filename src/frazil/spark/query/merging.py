"""MERGE INTO: cells that rows of a source match are set, and rows without a cell are added.

Every combination of existing labels is a cell, even if its value is missing. So NOT MATCHED rows
are those with new labels; `append_dim` names the dimension that they extend. NOT MATCHED BY SOURCE
are all other cells of the table.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from frazil.run import JobReport
from frazil.spark.query.changing import assignments, one_word
from frazil.spark.query.destinations import (
    IS_MEANT,
    Destination,
    QueryRows,
    changed_cells,
    column,
    destination,
    full_variables,
    now,
    shared_dims,
    was,
)
from frazil.spark.query.phrases import Phrase
from frazil.spark.query.scopes import invalid_query
from frazil.spark.query.sql import Statement, after_first_word
from frazil.spelling import listed, meant
from frazil.texts import backquoted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame


@dataclass(slots=True)
class _Clause:
    """What is done with some of the rows."""

    condition: str
    values: dict[str, str] = field(default_factory=dict)
    """expressions by column"""
    is_delete: bool = False


@dataclass(slots=True)
class _Merge:
    """A statement in parts."""

    where: Destination
    table: str
    """its text"""
    alias: str
    source: str
    source_alias: str
    source_columns: Sequence[str]
    on: str
    matched: list[_Clause] = field(default_factory=list)
    added: list[_Clause] = field(default_factory=list)
    lost: list[_Clause] = field(default_factory=list)
    """for cells that no row of the source matches"""

    @property
    def variables(self) -> list[str]:
        """What is written."""
        data = self.where.there.group.data_names
        clauses = (*self.matched, *self.added, *self.lost)
        named = {name for each in clauses for name in each.values if name in data}
        if any(each.is_delete for each in clauses):
            named |= {each.name for each in full_variables(self.where)}
        return [name for name in data if name in named]


def merge_into(statement: Statement) -> DataFrame:
    """`MERGE INTO name USING source ON condition WHEN [NOT] MATCHED [AND …] THEN …`."""
    found = _parsed(statement, Phrase(after_first_word(statement)))
    where = found.where
    if not found.variables:
        raise invalid_query("MERGE sets no variable of the table")
    dims = shared_dims([where.variable(name) for name in found.variables])
    if where.is_done:
        return where.answer(JobReport(None, ()))
    rows: list[QueryRows] = []
    for clauses, join in ((found.matched, "JOIN"), (found.lost, "LEFT ANTI JOIN")):
        if clauses:
            cells = where.rows(_cells(found, dims, clauses, join))
            rows.append(
                changed_cells(
                    where, cells, dims, found.variables, may_repeat=clauses is found.matched
                )
            )
    if found.added:
        rows.append(_added(found, dims))
    frame = rows[0].frame
    for each in rows[1:]:
        frame = frame.unionByName(each.frame)
    readings = tuple(reading for each in rows for reading in each.readings)
    return where.write(QueryRows(frame, readings), is_cellwise=True)


def _cells(found: _Merge, dims: Sequence[str], clauses: Sequence[_Clause], join: str) -> str:
    """The query for cells that the source has rows for, or has none for."""
    own = backquoted(found.alias)
    items = [f"{own}.{backquoted(dim)}" for dim in dims]
    items += [f"{own}.{backquoted(name)} AS {was(n)}" for n, name in enumerate(found.variables)]
    for number, name in enumerate(found.variables):
        kept = f"{own}.{backquoted(name)}"
        cases = " ".join(
            f"WHEN {each.condition} THEN "
            + ("NULL" if each.is_delete else f"({each.values.get(name, kept)})")
            for each in clauses
        )
        items.append(f"CASE {cases} ELSE {kept} END AS {now(number)}")
    takes = " OR ".join(f"coalesce({each.condition}, FALSE)" for each in clauses)
    items.append(f"({takes}) AS {IS_MEANT}")
    source = f"{found.source} AS {backquoted(found.source_alias)}"
    return f"SELECT {', '.join(items)} FROM {found.table} {join} {source} ON {found.on}"


def _added(found: _Merge, dims: Sequence[str]) -> QueryRows:
    """The rows that no cell is there for."""
    (clause,) = found.added
    names = [*dims, *found.variables]
    lacking = [dim for dim in dims if dim not in clause.values]
    if lacking:
        raise invalid_query(f"INSERT of MERGE needs a value for {listed(lacking)}")
    items = [f"({clause.values.get(name, 'NULL')}) AS {backquoted(name)}" for name in names]
    # Naming a variable is what makes its cells the rows of the table.
    cell = f"{backquoted(found.alias)}.{backquoted(found.variables[0])}"
    query = (
        f"SELECT {', '.join(items)} FROM {found.source} AS {backquoted(found.source_alias)} "
        f"LEFT ANTI JOIN {found.table} ON ({found.on}) AND ({cell} IS NULL OR TRUE) "
        f"WHERE {clause.condition}"
    )
    rows = found.where.rows(query)
    cells = found.where.cast(names, [column(name) for name in names])
    return QueryRows(rows.frame.select(*cells), rows.readings)


# --- reading the statement ---


def _parsed(statement: Statement, phrase: Phrase) -> _Merge:
    if phrase.accept("with", "schema", "evolution"):
        raise invalid_query(
            "MERGE makes no variables; add them before, with INSERT INTO … and merge_schema=true"
        )
    phrase.expect("into")
    start = phrase.at
    parts = phrase.name()
    table = phrase.since(start)
    alias = _alias(phrase, "using", parts[-1].text)
    phrase.expect("using")
    start, default = phrase.at, "source"
    if phrase.sees("("):
        phrase.items()
    else:
        default = phrase.name()[-1].text
    source = phrase.since(start)
    source_alias = _alias(phrase, "on", default)
    phrase.expect("on")
    on = phrase.until(lambda: phrase.sees("when"))
    where = destination(statement, parts)
    columns = where.rows(
        f"SELECT * FROM {source} AS {backquoted(source_alias)} LIMIT 1"
    ).frame.columns
    found = _Merge(
        where, f"{table} AS {backquoted(alias)}", alias, source, source_alias, columns, on
    )
    while phrase.accept("when"):
        _clause(found, phrase)
    phrase.end()
    if len(found.added) > 1:
        raise invalid_query("MERGE can have one WHEN NOT MATCHED; put both into it with CASE")
    return found


def _alias(phrase: Phrase, end: str, default: str) -> str:
    phrase.accept("as")
    return default if phrase.sees(end) else phrase.value()


def _clause(found: _Merge, phrase: Phrase) -> None:
    is_added = phrase.accept("not")
    phrase.expect("matched")
    is_lost = is_added and phrase.accept("by", "source")
    is_added = is_added and not is_lost
    if is_added:
        phrase.accept("by", "target")
    condition = "TRUE"
    if phrase.accept("and"):
        condition = f"({phrase.until(lambda: phrase.sees('then'))})"
    phrase.expect("then")
    clause = _Clause(condition)
    (found.added if is_added else found.lost if is_lost else found.matched).append(clause)
    if not is_added and phrase.accept("delete"):
        clause.is_delete = True
    elif not is_added and phrase.accept("update", "set"):
        if phrase.accept("*"):
            if is_lost:
                raise invalid_query("UPDATE SET *: the source has no row for these cells")
            clause.values = _all(found, with_labels=False)
        else:
            clause.values = assignments(found.where, phrase, lambda: phrase.sees("when"))
    elif is_added and phrase.accept("insert"):
        clause.values = (
            _all(found, with_labels=True) if phrase.accept("*") else _values(found, phrase)
        )
    else:
        raise phrase.wrong("INSERT" if is_added else "UPDATE SET or DELETE")


def _all(found: _Merge, *, with_labels: bool) -> dict[str, str]:
    """The columns of the source that the table has too."""
    table = found.where.there
    own = table.names if with_labels else table.group.data_names
    source = backquoted(found.source_alias)
    pairs = ((meant(name, own), name) for name in found.source_columns)
    return {mine: f"{source}.{backquoted(name)}" for mine, name in pairs if mine is not None}


def _values(found: _Merge, phrase: Phrase) -> dict[str, str]:
    text, table = phrase.tokens.text_of, found.where.there
    names = [one_word(phrase, span) for span in phrase.items()]
    phrase.expect("values")
    values = [text(span) for span in phrase.items()]
    if len(names) != len(values):
        raise invalid_query(f"INSERT names {len(names)} columns and has {len(values)} values")
    unknown = [name for name in names if table.find(name) is None]
    if unknown:
        raise invalid_query(f"the table has no column {listed(unknown)}")
    return {str(table.find(name)): value for name, value in zip(names, values, strict=True)}
