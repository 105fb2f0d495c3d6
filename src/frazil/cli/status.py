"""What a repository is, and what was done to it: `status` and `reflog`."""

from __future__ import annotations

import dataclasses
import re
from typing import TYPE_CHECKING, Any

import typer

from frazil.cli.answers import Answer, Screen, print_json, styled
from frazil.cli.arguments import Limit, WholeUrl
from frazil.cli.commands import add_command
from frazil.cli.history import KINDS, PANEL, Described, first_items, targets, tell_cut
from frazil.cli.places import open_whole
from frazil.cli.text import exact, second_text, short
from frazil.transaction.opened import context_of

if TYPE_CHECKING:
    from frazil.model.values import Update


def add_commands(app: typer.Typer) -> None:
    """Add the commands of this file."""
    add_command(app, "status", status, PANEL)
    add_command(app, "reflog", reflog, PANEL)


def status(url: WholeUrl) -> Answer:
    """Tell what a repository is: version, availability, branches, tags, flags."""

    repository = open_whole(url)
    generation = context_of(repository).generation
    known = repository.get_status() if generation.repo_object else None
    branches, tags = (targets(repository, kind) for kind in KINDS)
    flags = repository.feature_flags() if generation.repo_object else []
    data = {
        "url": repository.storage.url,
        "spec_version": generation.number,
        "generation": generation.name,
        "availability": known.availability.name if known else "online",
        "availability_reason": known.limited_availability_reason if known else None,
        "storage_is_writable": context_of(repository).storage.can_write,
        "branches": branches,
        "tags": tags,
        "metadata": repository.get_metadata() if generation.repo_object else {},
        "feature_flags": {flag.name: flag.enabled for flag in flags},
        "virtual_chunk_containers": sorted(repository.config.virtual_chunk_containers or {}),
    }

    def draw(screen: Screen) -> None:
        screen.fields(_status_lines(data))
        rows = [[styled(name, "bold green"), "branch", short(at)] for name, at in branches.items()]
        rows += [[styled(name, "bold cyan"), "tag", short(at)] for name, at in tags.items()]
        screen.line()
        screen.table(("name", "type", "snapshot"), rows)
        if data["metadata"]:
            screen.note("metadata")
            print_json(screen, repository.get_metadata())

    return Answer(data, draw)


def _status_lines(data: Described) -> list[tuple[str, Any]]:
    reason = f": {data['availability_reason']}" if data["availability_reason"] else ""
    access = "" if data["storage_is_writable"] else " (the storage is read-only)"
    off = [name for name, enabled in data["feature_flags"].items() if not enabled]
    return [
        ("repository", styled(data["url"], "bold")),
        ("spec version", str(data["spec_version"])),
        ("availability", f"{data['availability']}{reason}{access}"),
        *([("turned off", ", ".join(off))] if off else []),
        *(("virtual chunks", prefix) for prefix in data["virtual_chunk_containers"]),
    ]


def reflog(url: WholeUrl, limit: Limit = 20) -> Answer:
    """List everything that was done to a repository, newest first."""

    shown, is_cut = first_items(open_whole(url).ops_log(), limit)
    data = {"updates": [update_data(each) for each in shown], "truncated": is_cut}

    def draw(screen: Screen) -> None:
        rows = [
            [
                second_text(each.updated_at),
                styled(event_name(each), "bold"),
                _facts(update_data(each)),
            ]
            for each in shown
        ]
        screen.table(("when", "what", "details"), rows)
        tell_cut(is_cut=is_cut)

    return Answer(data, draw)


def event_name(update: Update) -> str:
    """What an operation is called in lists."""
    starts = r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])"
    return re.sub(starts, "-", type(update.kind).__name__).lower()


def update_data(update: Update) -> Described:
    details = {
        each.name: _plain(getattr(update.kind, each.name))
        for each in dataclasses.fields(update.kind)
    }
    return {
        "type": event_name(update),
        "updated_at": exact(update.updated_at),
        "details": details,
        "backup_path": update.backup_path,
    }


def _plain(value: object) -> object:
    if dataclasses.is_dataclass(value):
        availability = getattr(value, "availability", None)
        return getattr(availability, "name", str(value))
    return int(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _facts(update: Described) -> str:
    shown = {
        name: short(value) if name.endswith("snap_id") else value
        for name, value in update["details"].items()
    }
    words = {"new_snap_id": "snapshot", "previous_snap_id": "before"}
    return ", ".join(f"{words.get(name, name)} {value}" for name, value in shown.items())
