"""Memory for files, at hand before something is measured that writes them."""

from __future__ import annotations

from pathlib import Path

NAME = "warm"
PIECE = bytes(16 << 10)
NBYTES = 128 << 20
"""twice what the largest case writes"""


def warm(folder: Path) -> None:
    """Write a file in pieces, which the kernel keeps in memory, and empty it again.

    A host that takes unused memory back from a virtual machine gives it out anew when it is
    touched, page by page, which can take several times as long as to write the page. Memory that
    was given back a moment ago is used first, if it was in pieces of the same size.
    """
    with (folder / NAME).open("wb", buffering=0) as file:
        for _ in range(0, NBYTES, len(PIECE)):
            file.write(PIECE)
        file.truncate(0)
