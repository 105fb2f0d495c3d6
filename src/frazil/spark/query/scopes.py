"""Which tables a query names, and which columns of each of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from sqlglot import exp, parse
from sqlglot.errors import OptimizeError, ParseError, TokenError
from sqlglot.optimizer.scope import Scope, traverse_scope

from frazil.errors import ErrorKind, InvalidInputError
from frazil.spark.query.dialect import DIALECT
from frazil.spark.query.names import CATALOG, NamePart

Columns: TypeAlias = Callable[[exp.Table], Sequence[str] | None]
"""The columns of a table; None when they are not known."""

_ALL_COLUMNS: Final = (exp.Pivot, exp.Lateral, exp.QueryTransform, exp.Unnest)
"""expressions that use columns without naming them"""


@dataclass(eq=False)
class TableUse:
    """One table of a query where it stands, with the columns that the query takes of it."""

    node: exp.Table
    scope: Scope
    columns: set[str] | None = field(default_factory=set)
    """as they are written; None when they may be any"""

    @property
    def alias(self) -> str:
        """What the query calls it."""
        return str(self.node.alias_or_name)

    @property
    def is_renamed(self) -> bool:
        """Whether the query calls its columns otherwise, as in `AS w(a, b)`."""
        return _is_renamed(self.node)

    @property
    def start(self) -> int:
        """Where its name begins in the text."""
        return int(self.node.parts[0].meta["start"])

    @property
    def sources(self) -> list[exp.Expr | Scope]:
        """What its SELECT reads from; tables of WITH that stand elsewhere are not."""
        return [source for _, source in self.scope.selected_sources.values()]

    @property
    def select(self) -> exp.Select | None:
        """The SELECT that it is a table of."""
        found = self.scope.expression
        return found if isinstance(found, exp.Select) else None


def parse_query(text: str) -> exp.Expr:
    """The tree of a query.

    Raises:
        InvalidInputError: it cannot be read, or it is more than one.
    """
    try:
        found = [each for each in parse(text, dialect=DIALECT) if each is not None]
    except (ParseError, TokenError) as error:
        said = str(error).replace("\x1b[4m", "").replace("\x1b[0m", "")
        raise invalid_query(f"the query cannot be read: {' '.join(said.split())}") from None
    if len(found) != 1:
        raise invalid_query(f"one query is expected, and there are {len(found)}")
    return found[0]


def invalid_query(message: str) -> InvalidInputError:
    """The error for what SQL cannot mean here."""
    return InvalidInputError(message, kind=ErrorKind.INVALID_EXPRESSION)


def parts_of(table: exp.Table) -> tuple[NamePart, ...]:
    """The parts of a table's name."""
    return tuple(NamePart(part.name, bool(part.args.get("quoted"))) for part in table.parts)


def is_repository_table(table: exp.Table) -> bool:
    """Whether a table is one of Frazil's by its name."""
    parts = parts_of(table)
    return len(parts) > 1 and parts[0].text.lower() == CATALOG


def outer_tables(tree: exp.Expr) -> Iterator[str]:
    """The names of tables that the query itself does not make by WITH."""
    made: set[int] = set()
    for scope in _scopes(tree):
        for table in scope.tables:
            # One of WITH is made before, so that its own query may mean another of that name.
            if isinstance(scope.sources.get(table.alias_or_name), Scope):
                made.add(id(table))
    for table in tree.find_all(exp.Table):
        if id(table) not in made:
            yield ".".join(part.text for part in parts_of(table))


def _scopes(tree: exp.Expr) -> list[Scope]:
    """The SELECTs of a query.

    Raises:
        InvalidInputError: two of its tables have one name.
    """
    found: list[Scope] = []
    try:
        for scope in traverse_scope(tree):
            _ = scope.selected_sources
            found.append(scope)
    except OptimizeError as error:
        raise invalid_query(f"the query cannot be read: {error}") from None
    return found


def find_uses(
    tree: exp.Expr, ours: Callable[[exp.Table], bool], columns: Columns
) -> list[TableUse]:
    """The tables of a query that are Frazil's, with what it takes of each."""
    uses: dict[int, TableUse] = {}
    scopes: dict[int, Scope] = {}
    for scope in _scopes(tree):
        scopes[id(scope.expression)] = scope
        for source in scope.sources.values():
            # Tables of a SELECT are also sources of what stands beside them, such as VALUES.
            if (
                isinstance(source, exp.Table)
                and source.find_ancestor(exp.Select) is scope.expression
                and ours(source)
            ):
                uses.setdefault(id(source), TableUse(source, scope))
    for table in tree.find_all(exp.Table):
        if ours(table) and id(table) not in uses:
            raise invalid_query(
                f"the table {table.sql(dialect=DIALECT)} stands where only Spark's tables can"
            )
    for scope in scopes.values():
        _take_whole(scope, uses)
    for column in tree.find_all(exp.Column):
        if not isinstance(column.this, exp.Star):
            for source in _owners(column, scopes, columns):
                use = uses.get(id(source))
                if use is not None and use.columns is not None:
                    use.columns.add(column.name)
    return [*uses.values()]


def _take_whole(scope: Scope, uses: Mapping[int, TableUse]) -> None:
    """Note the tables that a SELECT takes all columns of, and columns that joins name."""
    select = scope.expression
    own = {
        name: use
        for name, source in scope.sources.items()
        if (use := uses.get(id(source))) is not None and use.scope is scope
    }
    if not own or not isinstance(select, exp.Select):
        return
    whole: set[str] = set()
    for star in _stars(select):
        table = star.parent.table if isinstance(star.parent, exp.Column) else ""
        whole |= {table.lower()} if table else {name.lower() for name in own}
    joins = select.args.get("joins") or ()
    if (
        any(join.args.get("method") == "NATURAL" for join in joins)
        or select.args.get("laterals")
        or any(use.node.args.get("pivots") for use in own.values())
        or any(_own(select, kind) for kind in _ALL_COLUMNS)
    ):
        whole |= {name.lower() for name in own}
    for name, use in own.items():
        if name.lower() in whole or use.is_renamed:
            use.columns = None
        elif use.columns is not None:
            use.columns |= {each.name for join in joins for each in join.args.get("using") or ()}


def _is_renamed(table: exp.Table) -> bool:
    alias = table.args.get("alias")
    return isinstance(alias, exp.TableAlias) and bool(alias.columns)


def _stars(select: exp.Select) -> Iterator[exp.Star]:
    """The stars that mean columns; that of count(*) means rows."""
    for star in select.find_all(exp.Star):
        is_count = isinstance(star.parent, exp.Count)
        if not is_count and star.find_ancestor(exp.Select) is select:
            yield star


def _own(select: exp.Select, kind: type[exp.Expr]) -> bool:
    return any(found.find_ancestor(exp.Select) is select for found in select.find_all(kind))


def _owners(
    column: exp.Column, scopes: Mapping[int, Scope], columns: Columns
) -> Iterator[exp.Table]:
    """The tables that a column may be of: those of the innermost SELECT that has it."""
    select = column.find_ancestor(exp.Select)
    if select is not None and _means_output(column, select):
        return
    while select is not None:
        scope = scopes.get(id(select))
        is_found = False
        for name, source in () if scope is None else scope.sources.items():
            has = _has(column, name, source, columns)
            if has is not False and isinstance(source, exp.Table):
                yield source
            is_found = is_found or has is True
        if is_found:
            return
        select = select.find_ancestor(exp.Select)


def _has(column: exp.Column, name: str, source: exp.Table | Scope, columns: Columns) -> bool | None:
    """Whether a table has a column; None when that is not known."""
    if column.table and column.table.lower() != name.lower():
        return False
    if isinstance(source, Scope):
        found = (
            source.expression.named_selects if hasattr(source.expression, "named_selects") else []
        )
        known: Sequence[str] | None = None if "*" in found or not found else found
    else:
        known = None if _is_renamed(source) else columns(source)
    if known is None:
        return None
    return column.name.lower() in {each.lower() for each in known}


def _means_output(column: exp.Column, select: exp.Select) -> bool:
    """Whether a column of HAVING or ORDER BY is one that the SELECT makes."""
    if column.table:
        return False
    made = {each.alias.lower() for each in select.selects if each.alias}
    if (
        column.name.lower() not in made
        or column.find_ancestor(exp.AggFunc, exp.Select) is not select
    ):
        return False
    clause = column.find_ancestor(exp.Having, exp.Order, exp.Sort, exp.Cluster)
    return clause is not None and clause.parent is select
