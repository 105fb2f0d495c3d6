"""Arguments that several commands share, and how their text is read."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Annotated, Final

import typer

from frazil import texts
from frazil.errors import InvalidInputError

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
        help="Delete what is younger than a day too, if it has this age: 0h, 12h. It may belong to "
        "an open session.",
        show_default=False,
    ),
]
Limit = Annotated[
    int, typer.Option("--limit", "-n", min=0, help="Show at most so many; 0 shows all.")
]
Message = Annotated[
    str | None, typer.Option("--message", "-m", help="Message of the commit.", show_default=False)
]
PolicyTexts = Annotated[
    list[str] | None,
    typer.Option(
        "--policy",
        metavar="[PATH=]CHOICE",
        help="What to do about conflicts: fail, ours (the branch that is changed) or theirs; for "
        "a group, an array or a pattern with PATH=. May be repeated, the first that fits counts.",
        show_default="fail",
    ),
]
Batch = Annotated[
    str | None,
    typer.Argument(metavar="BATCH", help="As `trash list` names it.", show_default=False),
]
BranchUrl = Annotated[
    str,
    typer.Argument(
        metavar="URL@BRANCH",
        help="Repository, and with @ the branch to change; without it, main.",
        show_default=False,
    ),
]
Everything = Annotated[bool, typer.Option("--all", help="All snapshots of all branches and tags.")]
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

SHARED: Final = {
    "batch": Batch,
    "confirm": Annotated[
        str | None, typer.Option(metavar="PATH", help="The path again, to do it.")
    ],
    "ff": Annotated[
        bool | None,
        typer.Option("--ff-only/--no-ff", help="Only move the branch, or always make a commit."),
    ],
    "message": Message,
    "older_than": OlderThan,
    "path": NodePath,
    "plan": Annotated[
        str | None,
        typer.Option("--plan", metavar="FILE", help="Use a saved plan instead of a new one."),
    ],
    "policy": PolicyTexts,
    "region": Annotated[
        str | None,
        typer.Option(metavar="REGION", help="Only these cells of an array: 0:10, :, 5."),
    ],
    "save_plan": Annotated[
        str | None,
        typer.Option("--save-plan", metavar="FILE", help="Write the plan to a file, as JSON."),
    ],
    "unsafe_minimum_age": UnsafeAge,
}
"""declarations of parameters that verbs share"""


def parse_time(text: str, now: datetime | None = None) -> datetime:
    """Read a time: `2024-05-01`, `2024-05-01T12:00Z`, or an age such as `30d`, `12h`, `2w`."""
    return texts.parse_as("a time", lambda written: texts.moment_or_age(written, now), text)


def parse_unsafe_age(text: str | None) -> timedelta | None:
    """Read an age such as `30d`, `12h` or `0h`; none was given where there is no text."""
    return None if text is None else texts.parse_as("an age", texts.age, text)


def parse_region(text: str, shape: tuple[int, ...]) -> tuple[slice, ...]:
    """Read a region as numpy would write it, `0:3, :, 5`, for an array of a shape."""
    return texts.parse_as("the region", lambda written: texts.region(written, shape), text)


def parse_slices(text: str) -> list[slice]:
    """Read a region of whatever shape: `0:10, :, 5`."""
    found = []
    for part in text.strip().strip("[]").split(","):
        first, colon, last = (each.strip() for each in part.partition(":"))
        if not all(not each or (each.isascii() and each.isdigit()) for each in (first, last)):
            raise InvalidInputError(f"{part.strip()!r} is neither a number nor start:stop")
        if not colon and not first:
            raise InvalidInputError(f"{text!r} is no region; write 0:10, :, 5")
        start = int(first) if first else None
        stop = (int(last) if last else None) if colon else int(first) + 1
        found.append(slice(start, stop))
    return found


def parse_index(text: str) -> tuple[int, ...]:
    """Read the coordinates of a chunk: `0,3,1`, `0/3/1` or `c/0/3/1`."""
    return texts.parse_as("the index of a chunk", texts.chunk_index, text)
