"""What a command gives back, and how it is printed: JSON for programs, text for people.

Errors are one calm sentence, with advice and without a traceback.
"""

from __future__ import annotations

import csv
import json
import os
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from frazil.errors import (
    AlreadyExistsError,
    ConflictError,
    ErrorKind,
    FrazilError,
    InvalidInputError,
    NotFoundError,
    ReadOnlyError,
    SessionStateError,
)
from frazil.masking import clean, clean_json, safe

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text


JsonValue: TypeAlias = object
Cell: TypeAlias = "str | Text"
WIDE: Final = 10_000
"""The width of output that goes to no terminal, so that lines are neither wrapped nor cut."""


class Exit(IntEnum):
    """What the exit code of a command means."""

    OK = 0
    FAILURE = 1
    USAGE = 2
    NOT_FOUND = 3
    CONFLICT = 4
    REFUSED = 5
    FINDINGS = 6
    INTERRUPTED = 130


@dataclass(frozen=True, slots=True)
class Answer:
    """The result of a command, as data and as text."""

    data: JsonValue
    show: Callable[[Screen], None]
    code: Exit = Exit.OK


class Screen:
    """Standard output, for people."""

    def __init__(self) -> None:
        from rich.console import Console

        is_terminal = sys.stdout.isatty()
        self.console: Console = Console(
            markup=False,
            highlight=False,
            emoji=False,
            width=None if is_terminal else WIDE,
            color_system=None if os.environ.get("NO_COLOR") else "auto",
        )

    def line(self, *parts: Cell) -> None:
        """A line put together from parts."""
        from rich.text import Text

        self.console.print(Text.assemble(*map(_safe, parts)), soft_wrap=True)

    def note(self, text: str) -> None:
        """A remark beside the matter."""
        self.line(styled(text, "dim"))

    def fields(self, pairs: Iterable[tuple[str, Cell]]) -> None:
        """Names and values, a line each."""
        rows = [(styled(name, "dim"), value) for name, value in pairs]
        self.table(("", ""), rows, header=False)

    def table(
        self,
        columns: Sequence[str],
        rows: Iterable[Sequence[Any]],
        *,
        header: bool = True,
    ) -> None:
        """Columns of cells; a name ending in `#` is that of numbers, which stand to the right."""
        from rich.table import Table

        table = Table(box=None, pad_edge=False, show_header=header, header_style="dim")
        for column in columns:
            is_number = column.endswith("#")
            table.add_column(
                clean(column.removesuffix("#")),  # a query may name it as it likes
                justify="right" if is_number else "left",
                overflow="fold",
                no_wrap=is_number,
            )
        for row in rows:
            table.add_row(*map(_safe, row))
        with self.console.capture() as captured:
            self.console.print(table)
        # Columns are padded to their width, which is only noise at the end of a line.
        for text in captured.get().splitlines():
            self.console.file.write(f"{text.rstrip()}\n")

    def csv(self, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
        """Rows with commas between their cells; control characters are spelled out, as in text."""
        writer = csv.writer(self.console.file, lineterminator="\n")
        for row in (columns, *rows):
            writer.writerow([clean(cell) if isinstance(cell, str) else cell for cell in row])


def styled(text: str, style: str) -> Text:
    """Text in a colour, where there are colours."""
    from rich.text import Text

    return Text(clean(text), style=style)


def _safe(cell: Cell) -> Text:
    from rich.text import Text

    return Text(clean(cell)) if isinstance(cell, str) else cell


def print_answer(answer: Answer, *, as_json: bool) -> None:
    """Print a result."""
    if as_json:
        text = json.dumps(answer.data, indent=2, ensure_ascii=False, allow_nan=False)
        sys.stdout.write(clean_json(text) + "\n")
    else:
        answer.show(Screen())
    sys.stdout.flush()


def print_json(screen: Screen, data: Mapping[str, object] | list[object]) -> None:
    """Show data that is JSON for people too."""
    screen.console.file.write(json.dumps(data, indent=2, ensure_ascii=True) + "\n")


def tell_dry_run(screen: Screen, *, applied: bool) -> None:
    """Say how to go on after a dry run."""
    if not applied:
        screen.note("Nothing was changed; --apply does it.")


MEANING: Final = {
    Exit.OK: "done",
    Exit.FAILURE: "failure: the store cannot be reached, a file is damaged",
    Exit.USAGE: "usage: an argument is wrong",
    Exit.NOT_FOUND: "no such repository, ref, snapshot, node or file",
    Exit.CONFLICT: "a concurrent commit won, the object already exists, or versions conflict",
    Exit.REFUSED: "refused: read-only, not allowed, or not possible for this version",
    Exit.FINDINGS: "verify, fsck or doctor found problems",
    Exit.INTERRUPTED: "interrupted",
}

BY_KIND: Final = {
    ErrorKind.OBJECT_NOT_FOUND: Exit.NOT_FOUND,
    ErrorKind.PARENT_DIRECTORY_NOT_CLEAN: Exit.CONFLICT,
    ErrorKind.UNSUPPORTED_SPEC_VERSION: Exit.REFUSED,
    ErrorKind.UNSUPPORTED_OPERATION_FOR_VERSION: Exit.REFUSED,
    ErrorKind.NOT_REPRESENTABLE: Exit.REFUSED,
    ErrorKind.UNAUTHORIZED_VIRTUAL_CHUNK_CONTAINER: Exit.REFUSED,
    ErrorKind.CONFIG_DESERIALIZATION: Exit.USAGE,
    ErrorKind.CANNOT_PARSE_URL: Exit.USAGE,
}
"""Kinds that tell more than the class of their error."""
BY_CLASS: Final[tuple[tuple[type[FrazilError], Exit], ...]] = (
    (NotFoundError, Exit.NOT_FOUND),
    (ConflictError, Exit.CONFLICT),
    (AlreadyExistsError, Exit.CONFLICT),
    (ReadOnlyError, Exit.REFUSED),
    (SessionStateError, Exit.REFUSED),
    (InvalidInputError, Exit.USAGE),
)


def exit_code(error: FrazilError) -> Exit:
    """The exit code that an error ends with."""
    if error.kind in BY_KIND:
        return BY_KIND[error.kind]
    return next((code for cls, code in BY_CLASS if isinstance(error, cls)), Exit.FAILURE)


IN_PYTHON: Final = re.compile(
    r"by authorize_virtual_chunk_access when the repository is opened"
    r"|by the option 'authorize-virtual-chunk-access'"
)
"""How the library and Spark say what is an option of the command."""


def tell(error: FrazilError, *, as_json: bool) -> Exit:
    """Say on stderr what went wrong, and return the exit code."""
    code = exit_code(error)
    message = IN_PYTHON.sub("with --authorize", str(error))
    if as_json:
        payload = {"error": {"kind": str(error.kind), "message": message, "exit_code": int(code)}}
        print(json.dumps(payload), file=sys.stderr)
        return code
    print(f"frazil: {safe(message)}", file=sys.stderr)
    if code == Exit.FAILURE:
        print("  (--debug shows where it happened)", file=sys.stderr)
    return code
