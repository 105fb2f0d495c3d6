"""The table of SQL procedures: each is a function over a repository, added by a decorator.

    @procedure("point a branch to an ancestor", MOVED, on_branch=True)
    def rollback_to_snapshot(place: ProcedureTarget, snapshot_id: str) -> list[Row]: ...

Its name and parameters are those of the function; `verbs.py` makes procedures of the verbs of a
repository. From the table come `call`, CALL and functions of SQL, the methods of `FrazilTable`
and the list in docs/spark.md.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final, ParamSpec, TypeAlias, TypeVar

from pyspark.sql import types as t

from frazil.errors import ErrorKind, InvalidInputError
from frazil.repository import Repository
from frazil.run import Runner
from frazil.spelling import nearest

P = ParamSpec("P")
R = TypeVar("R")
ResultRow: TypeAlias = tuple[Any, ...]

REQUIRED: Final = object()
"""the default of a parameter that must be given"""
TEXT, LONG, INT, TIME = t.StringType(), t.LongType(), t.IntegerType(), t.TimestampType()


@dataclass(frozen=True, slots=True)
class ProcedureTarget:
    """The repository that a procedure works on, and the branch that the URL named."""

    repository: Repository
    branch: str
    snapshot: Callable[[], str]
    """the snapshot that the URL means"""
    runner: Runner | None = None
    """what does the work of procedures that can spread it"""

    def at(self, version: str | None) -> str:
        """The snapshot of a version, or of the URL."""
        return self.snapshot() if version is None else self.repository.resolve(version)


@dataclass(frozen=True, slots=True)
class Procedure:
    """One procedure: its parameters after `table`, its columns, and what it does."""

    name: str
    signature: inspect.Signature
    """without the place"""
    returns: t.StructType
    run: Callable[..., Iterable[ResultRow]]
    meaning: str
    on_branch: bool
    """whether it works on the branch that the URL names"""
    changes: bool
    """whether it changes the repository"""
    can_spread: bool
    """whether a runner can do a part of the work"""

    @property
    def parameters(self) -> dict[str, Any]:
        """Their defaults by name."""
        return {
            each.name: REQUIRED if each.default is each.empty else each.default
            for each in self.signature.parameters.values()
        }


PROCEDURES: Final[dict[str, Procedure]] = {}


def procedure(
    meaning: str,
    returns: t.StructType,
    *,
    name: str | None = None,
    on_branch: bool = False,
    changes: bool = False,
    can_spread: bool = False,
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Decorate a function of a `ProcedureTarget` to add it to the table."""

    def known(function: Any) -> Any:  # noqa: ANN401 - given back as it came
        _, *own = inspect.signature(function).parameters.values()
        called, signature = name or function.__name__, inspect.Signature(own)
        PROCEDURES[called] = Procedure(
            called, signature, returns, function, meaning, on_branch, changes, can_spread
        )
        return function

    return known


def columns(**kinds: t.DataType) -> t.StructType:
    """The columns of the rows of a procedure."""
    return t.StructType([t.StructField(name, kind) for name, kind in kinds.items()])


def procedure_named(name: str) -> Procedure:
    """A procedure."""
    if name not in PROCEDURES:
        raise bad_argument(f"there is no procedure {name!r}{nearest(name, PROCEDURES)}")
    return PROCEDURES[name]


def bad_argument(message: str) -> InvalidInputError:
    """The error for a wrong argument."""
    return InvalidInputError(message, kind=ErrorKind.INVALID_OPTION)
