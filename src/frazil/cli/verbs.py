"""Commands that are verbs of a repository: their arguments come from the signature of the verb.

A row of a table says what a command is called, which parameters it takes in which order, and how
its report is shown. Types, defaults and help are those of the verb; what the signature cannot say
(a short option, another name for a value) is in `arguments.SHARED`.

Other commands are functions, because a row would be longer: those that only look; `init`, `reset`,
`branch` and `tag`, as the official methods return no report; `du` and `upgrade`, which do different
things by their options; `fsck` and `repair`, which must work where no repository can be opened;
`clone`, `export`, `import` and `ingest`, which have two places, one of them often no repository.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Final

import typer

from frazil.cli.answers import Answer
from frazil.cli.arguments import (
    SHARED,
    Apply,
    Authorize,
    BranchUrl,
    Everything,
    Url,
    WholeUrl,
    parse_slices,
    parse_time,
    parse_unsafe_age,
)
from frazil.cli.commands import add_command, declare
from frazil.cli.places import open_place, open_whole, refuse_version
from frazil.cli.running import Engine, Master, running
from frazil.errors import MergeConflictError
from frazil.operations import VERBS, Effect, Parameter, Verb, summary

Given = Mapping[str, Any]
"""arguments of the verb by name, and `applied`"""
TYPES: Final = {"bool": bool, "int": int, "float": float}


@dataclass(frozen=True, slots=True)
class Command:
    """How a verb is a command."""

    name: str
    verb: str
    """with the parameter that is the branch or version of the URL in parentheses, if any; where it
    may be None, `--all` means everything"""
    answer: Callable[[Any, Given], Answer]
    """from the report to what is printed"""
    takes: str = ""
    """parameters in the order of the command, blanks between them"""
    help: str = ""
    """in place of the docstring of the verb"""
    applies: bool | None = None
    """whether it is done without `--apply`; None: if it deletes nothing"""
    defaults: Given = field(default_factory=dict)
    check: Callable[[Given], None] = lambda _: None
    """refuses arguments, before a repository is opened"""
    engine: bool = False
    """whether it takes `--engine` and `--master`: others can do a part of its work"""
    authorize: bool = False
    """whether it takes `--authorize`: it may read virtual chunks"""


def add_verbs(app: typer.Typer, commands: Iterable[Command], panel: str | None = None) -> None:
    """Make commands of the rows of a table."""
    for command in commands:
        add_command(app, command.name, _work(command), panel)


def _work(command: Command) -> Callable[..., Answer]:
    """The function of a command, with the signature that typer reads."""
    verb_name, _, branch = command.verb.rstrip(")").partition("(")
    verb = VERBS[verb_name]
    taken = [verb.parameters[name] for name in command.takes.split()]
    can_try = "dry_run" in verb.parameters
    kind = verb.parameters[branch].kind if branch else ""
    any_version = kind.startswith("VersionName")

    def work(url: str, apply: bool = True, **texts: Any) -> Answer:  # noqa: ANN401  (typer's)
        given = {each.name: _read(each, texts[each.name]) for each in taken}
        command.check({**given, "applied": apply})
        if command.engine:
            given["runner"] = _runner(texts)
        if branch:
            place = open_place(url, texts.get("authorize"))
            repository = place.repository
            if texts.get("everything"):
                refuse_version(place.ref)
            else:
                given[branch] = place.snapshot_id() if any_version else place.branch()
        else:
            repository = open_whole(url)
        if can_try:
            given["dry_run"] = not apply
        with running(command.name) as tell:
            if "progress" in verb.parameters:
                given["progress"] = tell
            try:
                report = verb.on(repository)(**given)
            except MergeConflictError as error:
                report = error.report  # conflicts are an answer too
        return command.answer(report, {**given, "applied": apply})

    named: dict[str, tuple[Any, object]]
    whole = BranchUrl if branch else WholeUrl
    named = {"url": (Url if any_version else whole, inspect.Parameter.empty)}
    if kind.endswith("None"):
        named["everything"] = (Everything, False)
    named |= {each.name: _declared(command, each) for each in taken}
    if command.engine:
        named |= {"engine": (Engine, "auto"), "master": (Master, None)}
    if command.authorize:
        named["authorize"] = (Authorize, None)
    if can_try:
        is_mild = verb.effect is not Effect.DELETES
        named["apply"] = (Apply, is_mild if command.applies is None else command.applies)
    declare(work, named)
    work.__doc__ = command.help or _help(verb)
    return work


def _help(verb: Verb) -> str:
    """The docstring of a verb; its arguments are written as in the usage of a command."""

    def written(found: re.Match[str]) -> str:
        parameter = verb.parameters.get(found[1])
        return _flag(found[1]) if parameter and parameter.by_name else found[1].upper()

    return re.sub(r"`(\w+)`", written, summary(inspect.getdoc(verb.run) or ""))


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _declared(command: Command, parameter: Parameter) -> tuple[Any, object]:
    """The annotation and the default of a parameter, for typer."""
    name, default = parameter.name, command.defaults.get(parameter.name, parameter.default)
    is_required = default is inspect.Parameter.empty
    if parameter.kind in READERS and not is_required and name not in command.defaults:
        default = None  # what the signature has is no text
    if name in SHARED:
        return SHARED[name], default
    kind = TYPES.get(parameter.kind, str if is_required else str | None)
    help_text = parameter.help[:1].upper() + parameter.help[1:]
    if parameter.by_name:
        metavar = "VERSION" if "VersionName" in parameter.kind else None
        return Annotated[kind, typer.Option(_flag(name), metavar=metavar, help=help_text)], default
    said = typer.Argument(metavar=name.upper(), help=help_text, show_default=False)
    return Annotated[kind, said], default


def _read(parameter: Parameter, value: Any) -> Any:  # noqa: ANN401  (whatever the verb takes)
    """The value that the text of an argument means."""
    reader = READERS.get(parameter.kind)
    if reader is None or (value is None and parameter.kind.endswith("None")):
        return value
    return reader(value)


def _runner(texts: Given) -> Any:  # noqa: ANN401  (its type is not imported yet)
    from frazil.spark.engine import runner_for

    return runner_for(texts["engine"], texts["master"])


def _plan(path: str) -> Any:  # noqa: ANN401  (likewise)
    from frazil.maintenance.garbage_plan import GarbagePlan

    return GarbagePlan.load(path)


def _policy(texts: list[str] | None) -> Any:  # noqa: ANN401  (its type is not imported yet)
    from frazil.merging.policies import parse_policy

    return parse_policy(texts or ())


def _fast_forward(only: bool | None) -> bool | str:
    return True if only is None else "only" if only else False


READERS: Final[dict[str, Callable[[Any], Any]]] = {
    "Policy": _policy,
    "FastForward": _fast_forward,
    "GarbagePlan | None": _plan,
    "datetime": parse_time,
    "timedelta | None": parse_unsafe_age,
    "Sequence[slice | tuple[int, int | None]] | None": parse_slices,
}
"""from text to the kinds of parameters that verbs have"""
