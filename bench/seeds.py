"""Repositories that are built once and given to several contestants.

Every copy is made of hard links: all files of a repository but one are never changed, and
that one is replaced by rename, so copies cannot disturb each other.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from itertools import islice
from pathlib import Path

from bench.model import Place

BACKUPS = "overwritten"
"""old versions of the repo object: quadratic in the number of commits, and never read"""

FEW = 1000
"""files that are emptied at once"""


def link_copy(source: Path, target: Path) -> None:
    """Copy a folder by hard links."""
    shutil.copytree(
        source,
        target,
        copy_function=os.link,
        ignore=shutil.ignore_patterns(BACKUPS),
        dirs_exist_ok=True,
    )


def discard(folder: Path) -> None:
    """Give back the space of a folder of few files; all else is left for the end of the run.

    A file system may take longer to free a file than to create it, and goes on with that beside
    whatever is measured next. One without a journal (ext4) also passes over the inodes of files
    removed in the last five minutes whenever it creates one, which then takes up to twenty times
    as long. So nothing is removed during a run: files are emptied, unless others share them.
    """
    files = (Path(place, name) for place, _, names in os.walk(folder) for name in names)
    found = list(islice(files, FEW))
    if len(found) < FEW:
        for each in found:
            if not each.is_symlink() and each.stat().st_nlink == 1:
                os.truncate(each, 0)


def seeded(name: str, build: Callable[[Place], None], place: Place) -> None:
    """Fill `place` with a copy of the repository `name`, which `build` makes at the first use."""
    seed = place.folder.parent / f"seed-{name}"
    if not seed.exists():
        building = Place(f"{seed}.building")
        build(building)
        building.folder.rename(seed)
    link_copy(seed, place.folder)
