"""Keeping a repository small and sound: `expire`, `analyze`, `verify` and `inspect`."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Annotated, Final

import typer

from frazil.cli.answers import Answer, Exit, Screen, print_json, styled, tell_dry_run
from frazil.cli.arguments import Url
from frazil.cli.commands import add_command
from frazil.cli.fsck import show_report
from frazil.cli.places import open_place
from frazil.cli.text import counted, exact, second_text, short, size
from frazil.cli.verbs import Command, Given, add_verbs
from frazil.errors import ErrorKind, NotFoundError
from frazil.transaction.opened import context_of

if TYPE_CHECKING:
    from frazil.fsck.findings import Report
    from frazil.repository.reports import ExpiryReport
    from frazil.statistics.analyzing import Analysis
    from frazil.storage.base import Storage

PANEL: Final = "Maintain"
Key = Annotated[
    str | None,
    typer.Argument(
        metavar="KEY",
        help="A file such as repo, snapshots/ID or manifests/ID; the beginning of an id will do.",
        show_default=False,
    ),
]


# --- expire ---


def _expired(report: ExpiryReport, given: Given) -> Answer:
    apply, released = given["applied"], report.snapshots
    data = {
        "older_than": exact(report.older_than),
        "snapshots": list(released),
        "branches": list(report.branches),
        "tags": list(report.tags),
        "applied": apply,
    }

    def show(screen: Screen) -> None:
        verb, when = "Released" if apply else "Would release", second_text(report.older_than)
        screen.line(f"{verb} {counted(len(released), 'snapshot')} older than {when}")
        if released:
            screen.note(" ".join(map(short, released[:8])) + (" …" if len(released) > 8 else ""))
        gone = "Deleted" if apply else "Would delete"
        for kind, names in (("branches", report.branches), ("tags", report.tags)):
            if names:
                screen.line(f"{gone} {kind}: ", styled(", ".join(names), "bold"))
        tell_dry_run(screen, applied=apply)

    return Answer(data, show)


EXPIRE: Final = Command(
    "expire",
    "space.expire",
    _expired,
    "older_than delete_branches delete_tags",
    "Release old snapshots from the history; gc then frees their space.",
)


# --- analyze ---


def _analyzed(done: Analysis, given: Given) -> Answer:
    applied = given["applied"]
    data = {**dataclasses.asdict(done), "problems": list(done.problems), "applied": applied}

    def show(screen: Screen) -> None:
        verb = "Read" if applied else "Would read"
        screen.line(f"{verb} {counted(done.chunks, 'chunk')}, {size(done.bytes_read)}")
        lines = [
            ("arrays", done.arrays),
            ("known before", done.known),
            ("without statistics", done.without),
            ("not readable", done.failed),
        ]
        screen.fields([(name, f"{count:,}") for name, count in lines if count])
        for problem in done.problems:
            screen.note(problem)
        tell_dry_run(screen, applied=applied)

    return Answer(data, show, Exit.FINDINGS if done.failed else Exit.OK)


ANALYZE: Final = Command(
    "analyze", "audit.analyze(version)", _analyzed, "path", engine=True, authorize=True
)


# --- verify ---


def _verified(report: Report, _: Given) -> Answer:
    code = Exit.OK if report.is_clean else Exit.FINDINGS
    clean = "Everything is there."
    return Answer(report.as_dict(), lambda screen: show_report(screen, report, clean), code)


VERIFY: Final = Command(
    "verify", "audit.verify(version)", _verified, "virtual", engine=True, authorize=True
)


# --- inspect ---


def inspect(url: Url, key: Key = None) -> Answer:
    """Print any file of a repository as JSON.

    Without KEY: the snapshot file of a URL with @REF, else the file that the repository begins
    with.
    """
    from frazil.commit.file_refs import FileRefs
    from frazil.formats.repo_info import REPO_KEY
    from frazil.maintenance.inspect import inspect_file
    from frazil.storage.assets import SNAPSHOTS

    place = open_place(url)
    context = context_of(place.repository)
    if key is not None:
        wanted = key
    elif place.ref is not None:
        wanted = context.key_in_place(f"{SNAPSHOTS}{place.snapshot_id()}")
    elif isinstance(context.refs, FileRefs):
        wanted = context.refs.entry_key()
    else:
        wanted = REPO_KEY
    found, blob = _file(context.place, wanted)
    data = {"key": found, **inspect_file(blob, found)}
    return Answer(data, lambda screen: print_json(screen, data))


def _file(storage: Storage, wanted: str) -> tuple[str, bytes]:
    """A file by its key, or by the beginning of its key."""
    key = wanted.strip("/")
    blob = storage.get(key)
    if blob is not None:
        return key, blob
    folder, slash, start = key.rpartition("/")
    begin = start.upper() if slash else start
    near = [
        item.key
        for item in storage.list(f"{folder}/" if slash else "")
        if item.key.startswith((f"{folder}{slash}{begin}", key))
    ]
    if len(near) != 1:
        detail = f"no file {key!r}"
        if near:
            detail = f"{key!r} fits {counted(len(near), 'file')}, such as {near[0]} and {near[1]}"
        raise NotFoundError(detail, kind=ErrorKind.KEY_NOT_FOUND)
    blob = storage.get(near[0])
    if blob is None:
        raise NotFoundError(f"no file {near[0]!r}", kind=ErrorKind.KEY_NOT_FOUND)
    return near[0], blob


def add_commands(app: typer.Typer) -> None:
    """Add the commands of this file."""
    add_verbs(app, [EXPIRE, ANALYZE, VERIFY], PANEL)
    add_command(app, "inspect", inspect, PANEL)
