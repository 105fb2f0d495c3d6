"""Statements about versions and what there is: ALTER TABLE … BRANCH or TAG, SHOW, DESCRIBE.

ALTER TABLE frazil.NAME CREATE [OR REPLACE] BRANCH|TAG [IF NOT EXISTS] x [AS OF VERSION v]
ALTER TABLE frazil.NAME REPLACE BRANCH x AS OF VERSION v
ALTER TABLE frazil.NAME DROP BRANCH|TAG [IF EXISTS] x
SHOW TABLES IN frazil[.NAME[.group…]]
SHOW BRANCHES|TAGS IN frazil.NAME
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from frazil.model.nodes import ArrayNode
from frazil.repository import Repository
from frazil.spark.query.names import CATALOG, attached
from frazil.spark.query.phrases import Phrase
from frazil.spark.query.procedure_calls import place_of, run_procedure
from frazil.spark.query.scopes import invalid_query
from frazil.spark.query.sql import Statement, after_first_word
from frazil.spark.query.tables import OpenTable, open_table
from frazil.spark.reading.read import read

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_REF: Final = "name string, type string, snapshot_id string"
_TABLES: Final = "namespace string, tableName string, isTemporary boolean"
_KINDS: Final = ("branch", "tag")


def alter_table(statement: Statement) -> DataFrame:
    """Make, move or drop a branch or a tag, and tell what it is or was.

    Raises:
        InvalidInputError: something else is to be altered.
        FrazilError: there is no such version, or the name is taken.
    """
    phrase = Phrase(after_first_word(statement))
    phrase.expect("table")
    place = place_of(statement, phrase.name())
    table = open_table(place, statement.options)
    repository = table.target.location.open()
    is_made, is_moved, is_dropped = False, False, phrase.accept("drop")
    if not is_dropped:
        is_made = phrase.accept("create")
        is_moved = phrase.accept("or", "replace") if is_made else phrase.accept("replace")
    kind = next((kind for kind in _KINDS if phrase.accept(kind)), None)
    if kind is None or not (is_made or is_moved or is_dropped):
        raise invalid_query(
            "ALTER TABLE can CREATE, REPLACE or DROP a BRANCH or TAG; arrays and attributes are "
            "changed in Python, with zarr or xarray"
        )
    skips = phrase.accept("if", "exists") if is_dropped else phrase.accept("if", "not", "exists")
    name = phrase.value()
    if is_dropped:
        phrase.end()
        return _answer(statement, _drop(repository, kind, name, skips=skips))
    at = table.pinned.snapshot_id
    if phrase.accept("as", "of", "version"):
        at = repository.resolve(phrase.value())
    if phrase.sees("retain") or phrase.sees("with"):
        raise invalid_query(
            "branches and tags have no retention of their own; CALL "
            f"{CATALOG}.system.expire_snapshots(…) says how long snapshots are kept"
        )
    phrase.end()
    there = _there(repository, kind)
    if name in there and skips:
        return _answer(statement, [(name, kind.upper(), _lookup(repository, kind, name))])
    if not is_moved or (is_made and name not in there):
        (repository.create_branch if kind == "branch" else repository.create_tag)(name, at)
    elif kind == "tag":
        raise invalid_query(
            "a tag stays where it is, and its name cannot be used again; create another one"
        )
    else:
        before = repository.lookup_branch(name)
        repository.reset_branch(name, at, from_snapshot_id=before)
    return _answer(statement, [(name, kind.upper(), at)])


def _drop(repository: Repository, kind: str, name: str, *, skips: bool) -> list[tuple[str, ...]]:
    if skips and name not in _there(repository, kind):
        return []
    at = _lookup(repository, kind, name)
    (repository.delete_branch if kind == "branch" else repository.delete_tag)(name)
    return [(name, kind.upper(), at)]


def _there(repository: Repository, kind: str) -> set[str]:
    return set(repository.list_branches() if kind == "branch" else repository.list_tags())


def _lookup(repository: Repository, kind: str, name: str) -> str:
    return repository.lookup_branch(name) if kind == "branch" else repository.lookup_tag(name)


def _answer(statement: Statement, rows: list[tuple[str, ...]]) -> DataFrame:
    return statement.spark.createDataFrame(rows, _REF)


def show(statement: Statement) -> DataFrame:
    """What there is in a repository, or which repositories have names."""
    phrase = Phrase(after_first_word(statement))
    what = next((each for each in ("tables", "branches", "tags") if phrase.accept(each)), None)
    if what is None:
        raise invalid_query("SHOW knows TABLES, BRANCHES and TAGS of repositories")
    if not phrase.accept("in"):
        phrase.expect("from")
    parts = phrase.name()
    phrase.end()
    if len(parts) == 1 and parts[0].text.lower() == CATALOG:
        rows = [(CATALOG, name, False) for name in attached(statement.spark)]
        return statement.spark.createDataFrame(rows, _TABLES)
    table = open_table(place_of(statement, parts), statement.options)
    if what == "tables":
        namespace = ".".join(part.text for part in parts)
        rows = [(namespace, name, False) for name in _below(table)]
        return statement.spark.createDataFrame(rows, _TABLES)
    repository, kind = table.target.location.open(), "branch" if what == "branches" else "tag"
    names = sorted(_there(repository, kind))
    found = [(name, kind.upper(), _lookup(repository, kind, name)) for name in names]
    return statement.spark.createDataFrame(found, _REF)


def _below(table: OpenTable) -> list[str]:
    """The groups and arrays that are tables; labels of dimensions are columns of these."""
    tree, node = table.session.state.tree, table.node
    prefix = node.rstrip("/") + "/"
    return [
        name
        for name in sorted(tree.children(node))
        if not (
            isinstance(each := tree.get(prefix + name), ArrayNode)
            and each.dimension_names == (name,)
        )
    ]


def describe_detail(statement: Statement) -> DataFrame:
    """`DESCRIBE DETAIL name`: what kind of repository it is, in one row."""
    phrase = Phrase(statement.text)
    place = place_of(statement, phrase.name())
    phrase.end()
    return run_procedure(statement, place, "detail", {})


def describe_history(statement: Statement) -> DataFrame:
    """`DESCRIBE HISTORY name`: what the branch was and since when, newest first."""
    phrase = Phrase(statement.text)
    place = place_of(statement, phrase.name())
    phrase.end()
    table = open_table(place, statement.options)
    url = table.pinned.location.url.replace("#", "%23")
    given = {**statement.options, **place.options}
    given.setdefault("branch", table.target.branch)
    found = read(f"{url}#history", spark=statement.spark, **given)
    return found.orderBy(found["made_current_at"].desc())
