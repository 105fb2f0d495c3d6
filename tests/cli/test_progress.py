"""The bar of an ingest on a terminal tells what is known, and nothing else."""

from __future__ import annotations

import io

import pytest

from frazil.cli.ingest import _tell
from frazil.cli.running import running
from frazil.ingestion.reports import IngestProgress


class Terminal(io.StringIO):
    """A stream that is a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("state", "shown"),
    [
        (None, "Ingesting"),
        (IngestProgress("scanning", 3, 1, chunks=5, nbytes=2000), "1/3 5 chunks"),
        (IngestProgress("copying", 0, regions=4, regions_done=2), "2/4"),
        (IngestProgress("committing", 0), "committing"),
    ],
)
def test_numbers_are_shown_once_they_are_known(
    state: IngestProgress | None, shown: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    screen = Terminal()
    monkeypatch.setattr("sys.stderr", screen)
    monkeypatch.setenv("COLUMNS", "200")
    with running("Ingesting") as tell:
        if state is not None:
            _tell(tell, state)
    assert shown in screen.getvalue()
    assert "?" not in screen.getvalue().replace("\x1b[?25", "")
