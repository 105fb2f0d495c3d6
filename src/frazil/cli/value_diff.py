"""Values of two versions compared: `diff --values`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Any

import numpy as np

from frazil.cli.answers import Answer, Screen, styled
from frazil.cli.places import OpenedUrl
from frazil.cli.running import running
from frazil.cli.text import axes, counted, short
from frazil.cli.values import json_values, written
from frazil.comparing.records import ArrayChange, ArrayDiff
from frazil.comparing.values import diff_values
from frazil.ids import SnapshotId
from frazil.transaction.opened import context_of

Described = dict[str, Any]


def of_values(
    place: OpenedUrl, begin: str, end: str, paths: Sequence[str] | None, samples: int
) -> Answer:
    """Compare the values of two snapshots."""
    with running("Comparing") as tell:
        found = diff_values(
            context_of(place.repository),
            SnapshotId.parse(begin),
            SnapshotId.parse(end),
            paths=paths or None,
            max_samples=samples,
            progress=tell,
        )
    data = {
        "from": begin,
        "to": end,
        "cells_changed": found.cells_changed,
        "arrays": [array_data(each) for each in found.arrays],
    }

    def draw(screen: Screen) -> None:
        screen.note(f"from {short(begin)} to {short(end)}")
        if found.is_empty:
            screen.note("all values are the same")
        for each in found.arrays:
            _draw(screen, each)

    return Answer(data, draw)


def array_data(diff: ArrayDiff) -> Described:
    """The differences of an array as JSON shows them."""
    found: Described = {each.name: getattr(diff, each.name) for each in fields(diff)}
    return {
        **found,
        "change": str(diff.change),
        "found_by": str(diff.found_by),
        "old_shape": _list(diff.old_shape),
        "new_shape": _list(diff.new_shape),
        "bounding_box": None if diff.bounding_box is None else [*map(list, diff.bounding_box)],
        "samples": [
            {"coords": list(each.coords), "old": _plain(each.old), "new": _plain(each.new)}
            for each in diff.samples
        ],
    }


def _list(shape: tuple[int, ...] | None) -> list[int] | None:
    return None if shape is None else list(shape)


def _plain(value: object) -> object:
    return json_values(np.asarray(value))


def _draw(screen: Screen, diff: ArrayDiff) -> None:
    mark, colour = {
        ArrayChange.CHANGED: ("~", "yellow"),
        ArrayChange.ADDED: ("+", "green"),
        ArrayChange.DELETED: ("-", "red"),
    }[diff.change]
    moved = f"  was {diff.old_path}" if diff.old_path else ""
    screen.line(styled(f"{mark} {diff.path}", colour), styled(moved, "dim"))
    screen.fields(_lines(diff))
    if diff.samples:
        rows = [
            [",".join(map(str, each.coords)) or "()", str(_plain(each.old)), str(_plain(each.new))]
            for each in diff.samples
        ]
        screen.table(("cell", "old", "new"), rows)


def _lines(diff: ArrayDiff) -> list[tuple[str, str]]:
    found = []
    if diff.old_shape != diff.new_shape and diff.old_shape and diff.new_shape:
        found.append(("shape", f"{axes(diff.old_shape)} to {axes(diff.new_shape)}"))
    if diff.old_dtype != diff.new_dtype and diff.old_dtype and diff.new_dtype:
        found.append(("type", f"{diff.old_dtype} to {diff.new_dtype}"))
    if diff.cells_compared:
        detail = f"{diff.cells_changed:,} of {diff.cells_compared:,} compared"
        found.append(("changed", f"{detail}, in {counted(diff.chunks_read, 'chunk')}"))
    for name, count in (("added", diff.cells_added), ("removed", diff.cells_removed)):
        if count:
            found.append((name, counted(count, "cell")))
    if diff.bounding_box:
        found.append(("within", written([slice(a, b, 1) for a, b in diff.bounding_box])))
    if diff.differences:
        least, most, mean = diff.min_difference, diff.max_difference, diff.mean_difference
        found.append(("difference", f"{least:g} to {most:g}, mean {mean:g}"))
    return found
