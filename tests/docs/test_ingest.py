"""The ingest guide: its examples run as printed."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest
from pyspark.sql import SparkSession

from frazil.ingestion.parsers import Format
from tests.support.documents import program

PAGE: Final = Path(__file__).resolve().parents[2] / "docs" / "ingest.md"


@pytest.mark.filterwarnings("ignore::zarr.errors.ZarrUserWarning")
def test_examples_run_as_printed(
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    exec(compile(program(PAGE), str(PAGE), "exec"), {"__name__": "page"})
    printed = capsys.readouterr().out
    assert "committed 4 chunks referred to" in printed
    assert "2 were in already, 2 are new" in printed
    assert "2 chunks copied" in printed
    assert "other.nc" in printed


def test_every_format_is_on_the_page() -> None:
    text = PAGE.read_text().lower()
    for name in Format:
        assert name.partition("-")[0].removesuffix("3") in text.replace(" ", "")
