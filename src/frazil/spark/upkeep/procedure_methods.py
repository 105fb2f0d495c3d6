"""A method for each procedure, made from the table of them; `scripts/stubs` declares them."""

from __future__ import annotations

import inspect
from abc import abstractmethod
from typing import TYPE_CHECKING, Any, Final

from frazil.spark.upkeep import calls
from frazil.spark.upkeep.procedure import PROCEDURES, Procedure

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

assert calls.KNOWN, "importing it fills the table"


OTHERWISE: Final = frozenset({"changes", "diff_values", "fsck", "remove_orphan_files", "vacuum"})
"""Procedures that are methods of `FrazilTable` in another way: it can run them on executors."""


def made_here() -> list[Procedure]:
    """The procedures whose methods are only calls."""
    return [each for each in PROCEDURES.values() if each.name not in OTHERWISE]


class ProcedureMethods:
    """What `FrazilTable` inherits."""

    @abstractmethod
    def call(self, procedure: str, **arguments: Any) -> DataFrame:  # noqa: ANN401  (its own)
        """Run a procedure by its name."""


def _method(procedure: Procedure) -> Any:  # noqa: ANN401 - a function of any signature
    owner = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    signature = inspect.Signature([owner, *procedure.signature.parameters.values()])

    # The arguments are those of the procedure.
    def method(self: ProcedureMethods, *args: Any, **kwargs: Any) -> DataFrame:  # noqa: ANN401
        given = signature.bind(self, *args, **kwargs).arguments
        del given["self"]
        return self.call(procedure.name, **given)

    # What `inspect` and editors read.
    method.__signature__ = signature  # type: ignore[attr-defined]
    method.__name__ = procedure.name
    method.__qualname__ = f"{ProcedureMethods.__name__}.{procedure.name}"
    method.__doc__ = f"{procedure.meaning.capitalize()}."
    return method


for _procedure in made_here():
    setattr(ProcedureMethods, _procedure.name, _method(_procedure))
