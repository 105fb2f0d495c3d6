"""Arguments that several commands share, and how their text is read."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Annotated

import typer

from frazil import texts

Url = Annotated[
    str,
    typer.Argument(
        metavar="URL@REF",
        help="Repository, and with @ a branch, tag, snapshot id (or its beginning) or {time}; "
        "without it, main.",
        show_default=False,
    ),
]
WholeUrl = Annotated[str, typer.Argument(metavar="URL", help="Repository.", show_default=False)]
NodePath = Annotated[str, typer.Argument(metavar="PATH", help="Group or array.")]
Apply = Annotated[
    bool,
    typer.Option("--apply/--dry-run", help="Do it, or only tell what would be done."),
]
OlderThan = Annotated[
    str,
    typer.Option(metavar="TIME", help="A time, 2024-05-01T12:00Z, or an age: 30d, 12h, 2w."),
]
UnsafeAge = Annotated[
    str | None,
    typer.Option(
        "--unsafe-minimum-age",
        metavar="AGE",
        help="Delete what is younger than a day too, if it has this age: 0h, 12h. It may be what "
        "somebody's open session has written.",
        show_default=False,
    ),
]
Limit = Annotated[
    int, typer.Option("--limit", "-n", min=0, help="Show at most so many; 0 shows all.")
]
Message = Annotated[str, typer.Option("--message", "-m", help="Message of the commit.")]
Authorize = Annotated[
    list[str] | None,
    typer.Option(
        "--authorize",
        metavar="PREFIX",
        help="Allow reading virtual chunks of the container with this URL prefix, with the "
        "credentials of the environment (=anonymous: without; =https://host: also at this "
        "address); may be repeated.",
        show_default=False,
    ),
]


def parse_time(text: str, now: datetime | None = None) -> datetime:
    """Read a time: `2024-05-01`, `2024-05-01T12:00Z`, or an age such as `30d`, `12h`, `2w`."""
    return texts.read("a time", lambda written: texts.moment_or_age(written, now), text)


def parse_unsafe_age(text: str | None) -> timedelta | None:
    """Read an age such as `30d`, `12h` or `0h`; none was given where there is no text."""
    return None if text is None else texts.read("an age", texts.age, text)


def parse_region(text: str, shape: tuple[int, ...]) -> tuple[slice, ...]:
    """Read a region as numpy would write it, `0:3, :, 5`, for an array of a shape."""
    return texts.read("the region", lambda written: texts.region(written, shape), text)


def parse_index(text: str) -> tuple[int, ...]:
    """Read the coordinates of a chunk: `0,3,1`, `0/3/1` or `c/0/3/1`."""
    return texts.read("the index of a chunk", texts.chunk_index, text)
