"""Every exemption from a rule of the linters has its reason beside it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import frazil

SOURCE = Path(frazil.__file__).parent
PRAGMA = re.compile(r"# (?:type: ignore|noqa)(?:\[[\w, -]+\]|: [A-Z]+\d+(?:, [A-Z]+\d+)*)?(.*)")
REASON = re.compile(r"\W*(?!noqa|type:)\w")


def unexplained(text: str) -> list[str]:
    """Lines with an exemption that neither they nor the comment above them give a reason for."""
    lines = text.splitlines()
    return [
        line.strip()
        for above, line in zip(["", *lines], lines, strict=False)
        if (found := PRAGMA.search(line))
        and not REASON.match(found[1])
        and not re.match(r"\s*# (?!type: |noqa)", above)
    ]


def test_exemptions_in_the_source_are_explained() -> None:
    found = {
        str(path.relative_to(SOURCE)): lines
        for path in SOURCE.rglob("*.py")
        if (lines := unexplained(path.read_text()))
    }
    assert found == {}


@pytest.mark.parametrize(
    ("line", "is_explained"),
    [
        ("a = b  # type: ignore[arg-type]", False),
        ("a = b  # type: ignore[arg-type]  # numpy calls it Any", True),
        ("def f(a: Any):  # noqa: ANN401", False),
        ("def f(a: Any):  # noqa: ANN401  (typer's)", True),
        ("# For mypy: it is one.\na = b  # type: ignore[arg-type]", True),
        ("a = b  # type: ignore[arg-type]  # noqa: E501", False),
        ("# noqa: X1\na = b  # type: ignore", False),
    ],
)
def test_what_counts_as_a_reason(line: str, is_explained: bool) -> None:
    assert (not unexplained(line)) == is_explained
