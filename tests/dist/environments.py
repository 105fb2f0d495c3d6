"""Fresh environments with the wheel and what one extra asks for, made without a network.

An environment has the distributions that the wheel's own metadata names for an extra, and what
those need in turn, each linked from the environment that runs the tests. So a module that needs
more than its extra says fails here as it would for whoever installed only that.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from typing import Final

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

PROJECT: Final = "frazil"


def needed(requirements: Iterator[Requirement], extras: frozenset[str]) -> Iterator[Requirement]:
    """Those that count for the chosen extras on this machine."""
    for requirement in requirements:
        marker = requirement.marker
        if marker is None or any(marker.evaluate({"extra": each}) for each in {"", *extras}):
            yield requirement


def closure(wheel: Distribution, extra: str) -> dict[str, Distribution]:
    """All distributions that an environment with one extra has, by their names."""
    found: dict[str, Distribution] = {}
    seen: set[tuple[str, frozenset[str]]] = set()
    waiting: list[tuple[Distribution, frozenset[str]]] = [
        (wheel, frozenset({extra} if extra else ()))
    ]
    while waiting:
        owner, extras = waiting.pop()
        asked = (Requirement(text) for text in owner.requires or ())
        for requirement in needed(asked, extras):
            name = canonicalize_name(requirement.name)
            if (name, frozenset(requirement.extras)) in seen:
                continue
            seen.add((name, frozenset(requirement.extras)))
            try:
                dependency = wheel if name == PROJECT else distribution(name)
            except PackageNotFoundError as error:
                raise LookupError(f"{name} is not in the lock file of the project") from error
            if name != PROJECT:
                found[name] = dependency
            waiting.append((dependency, frozenset(requirement.extras)))
    return found


def make(folder: Path, wheel: Path, extra: str) -> Path:
    """Make an environment with the wheel and one extra; give its Python."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    python = folder / "bin" / "python"
    [packages] = (folder / "lib").glob("python*/site-packages")
    pip = [sys.executable, "-m", "pip", "--python", str(python), "--quiet"]
    subprocess.run(
        [*pip, "install", "--no-deps", "--no-index", "--disable-pip-version-check", wheel],
        check=True,
    )
    [metadata] = packages.glob(f"{PROJECT}-*.dist-info")
    for each in closure(Distribution.at(metadata), extra).values():
        link(each, packages)
    return python


def link(owner: Distribution, packages: Path) -> None:
    """Let the files of a distribution be found in another folder as well."""
    home = Path(str(owner.locate_file("")))
    for file in owner.files or ():
        if file.parts[0] in {"..", "__pycache__"}:
            continue  # programs, which belong to the other environment
        # Only a folder without `__init__.py` may be shared with other distributions.
        is_whole = (home / file.parts[0] / "__init__.py").exists() or "-info" in file.parts[0]
        name = Path(file.parts[0]) if is_whole else Path(file)
        if not (packages / name).exists():
            (packages / name).parent.mkdir(parents=True, exist_ok=True)
            (packages / name).symlink_to(home / name)
