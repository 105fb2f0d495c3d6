"""The example on the page on formats runs as it is printed."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import pytest

import frazil

PAGE: Final = Path(__file__).resolve().parents[2] / "docs" / "format.md"


def test_upgrading_runs_as_printed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    exec(compile("\n".join(blocks), str(PAGE), "exec"), {"__name__": "page"})
    assert frazil.Repository.fetch_spec_version(str(tmp_path / "old")) == 2
    assert not (tmp_path / "old" / "c").exists() or not [*(tmp_path / "old" / "c").iterdir()]
