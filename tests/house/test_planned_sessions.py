"""Jobs look first and write later, so they open their sessions at the tip they have looked at."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Final

SOURCE: Final = Path(__file__).resolve().parents[2] / "src" / "frazil"
JOBS: Final = (
    "maintenance",
    "merging",
    "comparing",
    "purging",
    "upgrading",
    "fsck",
    "xarray",
    "ingest",
    "spark",
    "cli",
)


def test_no_job_opens_a_session_at_whatever_a_branch_is_by_then() -> None:
    found = []
    for path in sorted(file for name in JOBS for file in (SOURCE / name).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(), str(path))):
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
                continue
            if node.func.attr == "writable_session" and (node.args or node.keywords):
                found.append(f"{path.relative_to(SOURCE)} line {node.lineno}")
    assert not found, f"use repository.tip(branch), and the sessions of that: {found}"
