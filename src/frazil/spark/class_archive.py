"""Spark's classes as Java has them in memory, kept in a file, so that Spark starts sooner.

Half of the time in which a local Spark starts goes into reading and checking ten thousand classes.
Java can keep what comes of that ("class data sharing"), and looks by itself whether the file fits:
for another Java or other jars it is left unread. `frazil prepare-spark` makes the file.
"""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from frazil import config
from frazil.errors import StorageError
from frazil.storage.own_folder import own_folder

PURPOSE: Final = "keep Spark's classes"
"""what the folder is for, in errors"""


@dataclass(frozen=True, slots=True)
class ArchiveName:
    """The names that archives for one Java and one Spark have: they end in the file's size.

    Java does not look whether the file is whole, and crashes where it is not.
    """

    folder: Path
    stem: str

    def of(self, size: int) -> Path:
        """Where an archive of this size belongs."""
        return self.folder / f"{self.stem}-{size}.jsa"

    def found(self) -> list[Path]:
        """The archives that are there."""
        return sorted(self.folder.glob(f"{self.stem}-*.jsa"))

    def whole(self) -> Path | None:
        """One that is as long as it was made."""
        for file in self.found():
            if self.of(file.stat().st_size) == file:
                return file
        return None


def archive_name(java: str) -> ArchiveName:
    """What archives for this Java and this Spark are called."""
    folder = config.current().spark_archive_path or _user_caches()
    spark = find_spec("pyspark")
    made_of = (os.path.realpath(java), spark and spark.origin)
    return ArchiveName(
        Path(folder), f"spark-{hashlib.sha256(repr(made_of).encode()).hexdigest()[:16]}"
    )


def archived_classes(java: str | None) -> tuple[str, ...]:
    """Options that let Java use the archive, if no other user could have made it."""
    file = None if java is None else archive_name(java).whole()
    if file is None:
        return ()
    try:
        own_folder(file.parent, PURPOSE)
    except StorageError:  # Spark starts without it, and `frazil prepare-spark` tells why
        return ()
    # An archive that does not fit needs no message: Java goes on without it.
    quiet = ("-Xlog:cds=off", "-Xlog:cds+dynamic=off")
    return (f"-XX:SharedArchiveFile={file}", "-XX:+VerifySharedSpaces", *quiet)


def _user_caches() -> str:
    """Our folder among the caches of the user."""
    caches = os.environ.get("XDG_CACHE_HOME", "")
    home = Path(caches) if caches.startswith("/") else Path("~/.cache").expanduser()
    return str(home / "frazil")
