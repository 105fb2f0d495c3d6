"""The guide to SQL: its examples run as printed."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest
from pyspark.sql import SparkSession

from tests.support.documents import program

PAGE: Final = Path(__file__).resolve().parents[2] / "docs" / "sql.md"


def test_examples_run_as_printed(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    exec(compile(program(PAGE), str(PAGE), "exec"), {"__name__": "page"})
    assert (tmp_path / "weather" / "repo").exists()
