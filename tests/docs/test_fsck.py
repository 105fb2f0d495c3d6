"""The page on checking and repairing runs as it is printed, and has every rule and step."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import pytest

from frazil.fsck import Code
from frazil.fsck.plans import Action

PAGE: Final = Path(__file__).resolve().parents[2] / "docs" / "fsck.md"


def test_examples_run_as_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    exec(compile("\n".join(blocks), str(PAGE), "exec"), {"__name__": "page"})
    assert capsys.readouterr().out.startswith("1. restore-repo repo: from the backup repo.")


def test_every_rule_is_in_the_table() -> None:
    wanted = [f"| `{code}` | {code.level} | {code.meaning} |" for code in Code]
    text = PAGE.read_text()
    printed = [line for line in text[text.index("## Rules") :].splitlines() if "| `" in line]
    assert printed == wanted


def test_every_step_is_in_the_table() -> None:
    printed = re.findall(r"^\| `([\w-]+)` \| .*\| .*\|$", PAGE.read_text(), re.MULTILINE)
    assert [name for name in printed if name in set(Action)] == [str(action) for action in Action]
