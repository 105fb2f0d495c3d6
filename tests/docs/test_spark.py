"""The Spark guide: its examples run as printed, and its tables list what there is."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import pytest
from pyspark.sql import SparkSession

from frazil.spark.options.parsing import documented
from frazil.spark.options.table import OPTIONS, OptionUse
from frazil.spark.tables.metadata import TABLES
from frazil.spark.upkeep import calls  # noqa: F401 - fills the table
from frazil.spark.upkeep.procedure import PROCEDURES, REQUIRED
from tests.support.documents import program

PAGE: Final = Path(__file__).resolve().parents[2] / "docs" / "spark.md"
USES: Final = {
    OptionUse.READ: "read",
    OptionUse.WRITE: "write",
    OptionUse.STREAM_READ: "stream read",
    OptionUse.STREAM_WRITE: "stream write",
}


def section(title: str) -> str:
    """The text below a heading."""
    found = re.search(rf"^## {title}\n(.*?)(?=^## |\Z)", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    assert found is not None
    return found[1]


def option_rows() -> list[str]:
    """The table of options as it should be."""
    uses = {", ".join(option.spellings): option.use for option in OPTIONS}
    rows = []
    for spellings, meaning in documented():
        use = uses.get(spellings, OptionUse.ANY)
        word = "all" if use == OptionUse.ANY else ", ".join(w for u, w in USES.items() if u & use)
        shown = ", ".join(f"`{each}`" for each in spellings.split(", "))
        rows.append(f"| {shown} | {word} | {meaning} |")
    return rows


def test_examples_run_as_printed(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    exec(compile(program(PAGE), str(PAGE), "exec"), {"__name__": "page"})
    assert (tmp_path / "weather" / "repo").exists()


def test_every_option_is_in_the_table() -> None:
    printed = [line for line in section("All options").splitlines() if line.startswith("| `")]
    assert printed == option_rows(), "the table should be:\n" + "\n".join(option_rows())


def test_every_procedure_is_in_the_table() -> None:
    rows = []
    for name, procedure in PROCEDURES.items():
        arguments = ", ".join(
            f"**`{each}`**" if default is REQUIRED else f"`{each}`"
            for each, default in procedure.parameters.items()
        )
        rows.append(f"| `{name}` | {arguments} | {procedure.meaning} |")
    printed = [line for line in section("Procedures").splitlines() if line.startswith("| `")]
    assert sorted(printed) == sorted(rows), "the table should be:\n" + "\n".join(rows)


def test_every_metadata_table_is_listed() -> None:
    rows = [line for line in section("Metadata tables").splitlines() if line.startswith("| `")]
    names = [name for row in rows for name in re.findall(r"`(\w+)`", row.split("|")[1])]
    assert sorted(names) == sorted(TABLES)
