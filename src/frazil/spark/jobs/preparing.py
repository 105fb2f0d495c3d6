"""`frazil prepare-spark`: keeps Spark's classes in a file, so that a local Spark starts sooner."""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import frazil
from frazil.errors import ErrorKind, SessionStateError
from frazil.spark.class_archive import PURPOSE, ArchiveName, archive_name
from frazil.spark.sessions import (
    JAVA_OPTIONS,
    find_java,
    java_options,
    require_java,
    require_pyspark,
    session,
)
from frazil.storage.own_folder import own_folder

TIMEOUT_S: Final = 600
_PROGRAM: Final = "import sys; from frazil.spark.jobs import preparing; preparing.run(sys.argv[1])"


@dataclass(frozen=True, slots=True)
class PreparedSpark:
    """The archive of Spark's classes, and whether it was made just now."""

    path: str
    size_bytes: int
    is_new: bool


def prepare_spark(*, force: bool = False) -> PreparedSpark:
    """Keep the classes that a local Spark loads, for the next one; takes about half a minute.

    Args:
        force: make the archive anew if there is one.

    Raises:
        SessionStateError: PySpark or Java is missing, or no archive came of it.
        StorageError: the folder cannot be made, or others may write to it.
    """
    name = _archive_name()
    folder = Path(own_folder(name.folder, PURPOSE))
    if (known := name.whole()) is not None and not force:
        return PreparedSpark(str(known), known.stat().st_size, is_new=False)
    fresh = folder / f"{name.stem}-{secrets.token_hex(4)}.new"
    try:
        try:
            said = _load_elsewhere(fresh)
        except subprocess.TimeoutExpired:
            said = f"it did not end within {TIMEOUT_S} s"
        if not fresh.is_file():
            raise SessionStateError(
                f"Java has kept no classes; it said: {said[-1000:].strip() or 'nothing'}",
                kind=ErrorKind.SPARK_UNAVAILABLE,
            )
        file = name.of(fresh.stat().st_size)
        fresh.replace(file)
    finally:
        fresh.unlink(missing_ok=True)
    for older in name.found():
        if older != file:
            older.unlink(missing_ok=True)
    return PreparedSpark(str(file), file.stat().st_size, is_new=True)


def forget_spark() -> list[str]:
    """Delete what `prepare_spark` has made, and return the paths."""
    gone = _archive_name().found()
    for file in gone:
        file.unlink(missing_ok=True)
    return [str(file) for file in gone]


def _archive_name() -> ArchiveName:
    require_pyspark()
    require_java()
    return archive_name(find_java() or "")


def _load_elsewhere(fresh: Path) -> str:
    """Let another process start a Spark; Java writes the file when it ends."""
    home = str(Path(frazil.__file__).resolve().parents[1])
    path = os.pathsep.join([home, *filter(None, [os.environ.get("PYTHONPATH")])])
    # Java has our end of the pipe too, so that this waits for its end and not only for Python's.
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM, str(fresh)],
        env={**os.environ, "PYTHONPATH": path},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        timeout=TIMEOUT_S,
        check=False,
    )
    return done.stdout


def run(file: str) -> None:
    """In a process of its own: use Spark as queries do, and let Java keep what that has loaded."""
    import numpy as np
    import zarr

    from frazil.spark.query.sql import sql
    from frazil.spark.reading.read import read

    options = java_options(f"-XX:ArchiveClassesAtExit={file}", "-Xlog:cds=off")
    spark = session("local[2]", config={JAVA_OPTIONS: options})
    with tempfile.TemporaryDirectory() as folder:
        repository = frazil.Repository.create(folder)
        with repository.transaction("main", message="a table") as store:
            for name in ("x", "y"):
                zarr.create_array(store, name=name, data=np.arange(8.0), dimension_names=["x"])
        table = f"frazil.`{folder}`"
        sql(f"SELECT floor(x / 2), avg(y) FROM {table} WHERE x < 7 GROUP BY 1", spark).toArrow()
        read(folder, spark=spark).groupBy("x").avg("y").orderBy("x").collect()
        read(f"{folder}#snapshots", spark=spark).collect()
    spark.stop()
