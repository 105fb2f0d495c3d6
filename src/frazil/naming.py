"""The package under whose name our objects show themselves.

Repositories, sessions and stores know it by their class. Records and errors are the same classes
in `frazil` and in `frazil.icechunk`, so that each package catches and reads what the other made;
they go by the process: a program that imports the facade sees the official names.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

OURS: Final = "frazil"
OFFICIAL: Final = "icechunk"

_of_process = [OURS]
_of_view: ContextVar[str | None] = ContextVar("package of the view", default=None)


def name_process(package: str) -> None:
    """From now on, show records and errors under this package's name."""
    _of_process[0] = package


@contextmanager
def shown_as(package: str | None) -> Iterator[None]:
    """Show everything inside the block under one package's name; None leaves it as it is."""
    before = _of_view.set(package or _of_view.get())
    try:
        yield
    finally:
        _of_view.reset(before)


def package() -> str:
    """The package whose names are shown at the moment."""
    return _of_view.get() or _of_process[0]


def dotted(name: str) -> str:
    """A class name as a program would write it, from its name in the official package.

    The official package has its classes in modules, `config.RepositoryConfig`; ours all at once.
    """
    shown = package()
    if shown == OFFICIAL:
        return f"{shown}.{name}"
    parts = name.split(".")
    while parts[0].islower():
        del parts[0]
    return ".".join([shown, *parts])
