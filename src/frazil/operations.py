"""The verbs: what can be done to a repository, each described once.

    class Versions(Namespace):
        @verb(Effect.CHANGES)
        def revert(self, snapshot: VersionName, on: str, *, dry_run: bool = False) -> Report:

A verb is a method of `repo.versions`, `repo.space` or `repo.audit`. Its name, parameters and
report are those of the method, the help of its parameters is the `Args` section of the docstring.
From this table come commands (`cli/verbs.py`) and Spark's procedures (`spark/upkeep/verbs.py`),
which add only what they call things.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, TypeAlias, TypeVar, cast

from frazil.tip import require_writable
from frazil.transaction.opened import OpenRepository, context_of

VersionName: TypeAlias = str
"""a branch, a tag, a snapshot id or the beginning of one, or a `{time}`"""
F = TypeVar("F", bound=Callable[..., Any])


class Effect(StrEnum):
    """What a verb does to a repository."""

    READS = "reads"
    CHANGES = "changes"
    """it moves refs or makes commits; everything is still in the history"""
    DELETES = "deletes"
    """what it takes away cannot be brought back, or only for a while"""


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of a verb."""

    name: str
    kind: str
    """its annotation, as it is written"""
    default: object
    """`inspect.Parameter.empty` if it must be given"""
    by_name: bool
    """whether it can only be given by its name"""
    help: str


@dataclass(frozen=True, slots=True)
class Verb:
    """One thing that can be done to a repository."""

    name: str
    """with its namespace: `versions.merge`"""
    run: Callable[..., Any]
    """the method of the namespace"""
    effect: Effect
    parameters: Mapping[str, Parameter]
    report: str
    """the record that it returns"""

    def on(self, repository: object) -> Callable[..., Any]:
        """The verb for one repository."""
        namespace, _, method = self.name.partition(".")
        return cast("Callable[..., Any]", getattr(getattr(repository, namespace), method))


VERBS: Final[dict[str, Verb]] = {}


def verb(effect: Effect) -> Callable[[F], F]:
    """Make a method of a namespace a verb; what changes something needs a place that allows it."""

    def known(method: F) -> F:
        name = method.__qualname__.lower()
        VERBS[name] = _described(name, method, effect)
        if effect is Effect.READS:
            return method

        @functools.wraps(method)
        def run(self: OpenRepository, *args: object, **options: object) -> object:
            if not options.get("dry_run"):
                require_writable(context_of(self))
            return method(self, *args, **options)

        return cast("F", run)

    return known


def _described(name: str, method: Callable[..., Any], effect: Effect) -> Verb:
    signature = inspect.signature(method)
    helps = _argument_help(inspect.getdoc(method) or "")
    _, *own = signature.parameters.values()
    parameters = {
        each.name: Parameter(
            each.name,
            str(each.annotation),
            each.default,
            each.kind is each.KEYWORD_ONLY,
            helps.get(each.name, ""),
        )
        for each in own
    }
    return Verb(name, method, effect, parameters, str(signature.return_annotation))


def _argument_help(doc: str) -> dict[str, str]:
    """The `Args` section of a docstring: what is said of each parameter, in one line."""
    found: dict[str, str] = {}
    name = ""
    for line in doc.partition("\nArgs:\n")[2].splitlines():
        if not line.startswith("    "):
            break
        if line.startswith("        "):
            found[name] += f" {line.strip()}"
        else:
            name, _, text = line.strip().partition(": ")
            found[name] = text
    return found


def summary(doc: str) -> str:
    """A docstring without what only programmers need: its sections on arguments and errors."""
    return doc.partition("\nArgs:\n")[0].partition("\nRaises:\n")[0].strip()
