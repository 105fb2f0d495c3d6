"""Memory for files, at hand before something is measured that writes them."""

from __future__ import annotations

from pathlib import Path

NAME = "warm"
NBYTES = 128 << 20
"""twice what the largest file has, or all small ones of a case"""
PIECES = (16 << 10, 4 << 20)
"""memory of files that are written in small pieces is of no use for large ones, and vice versa"""


def warm(folder: Path) -> None:
    """Write a file in small and in large pieces, which the kernel keeps in memory, and empty it.

    A host that takes unused memory back from a virtual machine gives it out anew when it is
    touched, page by page, which can take ten times as long as to write the page. Memory that was
    given back a moment ago is used first, if it was in pieces of the same size.
    """
    with (folder / NAME).open("wb", buffering=0) as file:
        for nbytes in PIECES:
            piece = bytes(nbytes)
            for _ in range(0, NBYTES, nbytes):
                file.write(piece)
        file.truncate(0)
