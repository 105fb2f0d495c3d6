"""The bar of an ingest on a terminal tells what is known, and nothing else."""

from __future__ import annotations

import io

import pytest

from frazil.cli.running import running
from frazil.progress import Progress


class Terminal(io.StringIO):
    """A stream that is a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("state", "shown"),
    [
        (None, "Ingesting"),
        (Progress("scanning", 1, 3, chunks=5, nbytes=2000), "1/3 5 chunks"),
        (Progress("copying", 2, 4), "2/4"),
        (Progress("committing"), "committing"),
    ],
)
def test_numbers_are_shown_once_they_are_known(
    state: Progress | None, shown: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    screen = Terminal()
    monkeypatch.setattr("sys.stderr", screen)
    monkeypatch.setenv("COLUMNS", "200")
    with running("Ingesting") as tell:
        if state is not None:
            tell(state)
    assert shown in screen.getvalue()
    assert "?" not in screen.getvalue().replace("\x1b[?25", "")
