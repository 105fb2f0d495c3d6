"""The code that documents print."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

BLOCK: Final = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def program(document: Path) -> str:
    """The Python blocks of a document as one program, each on the line where it is printed."""
    text = document.read_text()
    lines: list[str] = []
    for block in BLOCK.finditer(text):
        start = text.count("\n", 0, block.start(1))
        lines += [""] * (start - len(lines)) + block[1].splitlines()
    return "\n".join(lines)
