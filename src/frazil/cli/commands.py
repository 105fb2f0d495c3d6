"""One way to make a command: every one prints an answer, takes `--json`, and fails calmly."""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import wraps
from typing import Annotated, Any, Final, get_type_hints

import typer
from typer.core import TyperCommand, TyperGroup

from frazil.cli.answers import Answer, Exit, print_answer, tell
from frazil.errors import FrazilError

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Debug = Annotated[
    bool, typer.Option("--debug", help="Show tracebacks.", envvar="FRAZIL_DEBUG", show_envvar=False)
]
COMMON: Final = {"as_json": AsJson, "debug": Debug}

Work = Callable[..., Answer]


def add_command(app: typer.Typer, name: str, work: Work, panel: str | None = None) -> None:
    """Make a function that gives an answer a command of that name."""
    app.command(name, cls=QuickCommand, help=help_of(work), rich_help_panel=panel)(
        _as_command(work)
    )


def make_group(help_text: str) -> typer.Typer:
    """Commands that have a word of their own before them, as in `branch list`."""
    return typer.Typer(cls=QuickGroup, no_args_is_help=True, help=help_text)


def declare(work: Work, named: Mapping[str, tuple[Any, object]]) -> None:
    """Give a function the signature that typer reads: annotations and defaults by name."""
    kind = inspect.Parameter.KEYWORD_ONLY
    work.__signature__ = inspect.Signature(  # type: ignore[attr-defined]  # what `inspect` reads
        [inspect.Parameter(name, kind, default=default) for name, (_, default) in named.items()]
    )
    work.__annotations__ = {**{name: type_ for name, (type_, _) in named.items()}, "return": Answer}


def help_of(work: Callable[..., object]) -> str:
    """The docstring of a function, each paragraph one line: terminals differ in width."""
    paragraphs = (inspect.getdoc(work) or "").split("\n\n")
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)


class QuickCommand(TyperCommand):
    """A command that lets typer convert only what needs it."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:  # noqa: ANN401  (typer's)
        """What typer calls with the words of the command line."""
        _spare_conversions(self.get_params(ctx))
        return super().parse_args(ctx, args)


class QuickGroup(TyperGroup):
    """The same for commands that have commands of their own."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:  # noqa: ANN401  (typer's)
        """What typer calls with the words of the command line."""
        _spare_conversions(self.get_params(ctx))
        return super().parse_args(ctx, args)


def _spare_conversions(parameters: Iterable[Any]) -> None:
    """Let values that are of their type already pass.

    typer converts all of them with pydantic, which takes longer to import than most commands run.
    """
    for parameter in parameters:
        typers = getattr(parameter, "get_runtime_param", None)  # older releases of typer have none
        if typers and not isinstance(typers, _Converter):
            parameter.get_runtime_param = _Converter(typers, parameter.type_descriptor.annotation)


@dataclass(frozen=True, slots=True)
class _Converter:
    """Converts a value of a parameter, with typer's converter if it must."""

    typers: Callable[[], Any]
    type: object

    def __call__(self) -> _Converter:
        return self

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:  # noqa: ANN401  (typer's)
        """What typer calls with a text or a default."""
        if value is None:
            return () if param.multiple or param.nargs == -1 else None
        if type(value) is self.type:
            return value
        return self.typers().coerce(value, param=param, ctx=ctx)


def _as_command(work: Work) -> Callable[..., None]:
    @wraps(work)
    def run(*, as_json: bool, debug: bool, **arguments: Any) -> None:  # noqa: ANN401  (typer's)
        raise typer.Exit(_run(work, arguments, as_json=as_json, debug=debug))

    # typer reads the signature: that of the work, and the options that all commands have.
    hints = get_type_hints(work, include_extras=True)
    hints.pop("return")
    own = [
        parameter.replace(annotation=hints[name])
        for name, parameter in inspect.signature(work).parameters.items()
    ]
    common = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=False, annotation=kind)
        for name, kind in COMMON.items()
    ]
    # What `inspect` reads.
    run.__signature__ = inspect.Signature([*own, *common])  # type: ignore[attr-defined]
    run.__annotations__ = {**hints, **COMMON, "return": None}
    return run


def _run(work: Work, arguments: dict[str, Any], *, as_json: bool, debug: bool) -> int:
    try:
        answer = work(**arguments)
        print_answer(answer, as_json=as_json)
    except FrazilError as error:
        if debug:
            raise
        return tell(error, as_json=as_json)
    except KeyboardInterrupt:
        return Exit.INTERRUPTED
    except BrokenPipeError:
        # The reader of our output (a pager, `head`) has closed it; Python must not complain at
        # exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return Exit.OK
    return answer.code
