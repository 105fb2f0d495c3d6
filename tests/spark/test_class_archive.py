"""Spark starts sooner with the classes that `frazil prepare-spark` keeps, and never worse."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from frazil import config
from frazil.errors import StorageError
from frazil.spark.class_archive import archive_name, archived_classes
from frazil.spark.jobs.preparing import forget_spark, prepare_spark
from frazil.spark.sessions import java_options

JAVA = "/usr/bin/java"


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """Where archives are, in a path that must be quoted."""
    path = tmp_path / "of mine"
    path.mkdir(mode=0o700)
    with config.set(spark_archive_path=path):
        yield path


def shared_classes(tmp_path: Path) -> int:
    """Start Spark in a process of its own, and count the classes that come from the archive."""
    log = tmp_path / "classes.log"
    program = (
        "from frazil.spark.sessions import session; print(session('local[1]').range(3).count())"
    )
    said = subprocess.run(
        [sys.executable, "-c", program],
        env={
            **os.environ,
            "FRAZIL_SPARK_ARCHIVE_PATH": str(tmp_path / "of mine"),
            "SPARK_SUBMIT_OPTS": f"-Xlog:class+load:file={log}",
        },
        capture_output=True,
        text=True,
        check=True,
    )
    assert said.stdout == "3\n"
    assert said.stderr == ""
    return log.read_text().count("shared objects file (top)")


def test_without_an_archive_java_gets_no_word_of_it(folder: Path) -> None:
    assert archived_classes(JAVA) == ()
    assert "Shared" not in java_options()
    assert [*folder.iterdir()] == []


def test_only_a_whole_archive_is_used(folder: Path) -> None:
    """Java would crash with half of one."""
    file = archive_name(JAVA).of(5)
    file.write_bytes(b"12345")
    assert archived_classes(JAVA)[0] == f"-XX:SharedArchiveFile={file}"
    assert archived_classes("/another/java") == ()
    file.write_bytes(b"1234")
    assert archived_classes(JAVA) == ()


def test_archive_that_others_could_have_made_is_not_used(folder: Path) -> None:
    archive_name(JAVA).of(1).write_bytes(b"1")
    folder.chmod(0o770)
    assert archived_classes(JAVA) == ()
    with pytest.raises(StorageError, match="cannot keep Spark's classes here"):
        prepare_spark()


def test_missing_folder_is_not_made_by_looking(tmp_path: Path) -> None:
    with config.set(spark_archive_path=tmp_path / "none"):
        assert archived_classes(JAVA) == ()
    assert not (tmp_path / "none").exists()


@pytest.mark.soak
@pytest.mark.timeout(900)
def test_spark_takes_its_classes_from_the_archive_until_it_is_removed(
    folder: Path, tmp_path: Path
) -> None:
    made = prepare_spark()
    assert made.is_new
    assert made.size_bytes > 50_000_000
    assert [str(file) for file in folder.iterdir()] == [made.path]
    assert not prepare_spark().is_new
    assert shared_classes(tmp_path) > 5000

    damaged = bytearray(Path(made.path).read_bytes())
    damaged[len(damaged) // 2] ^= 1
    Path(made.path).chmod(0o600)
    Path(made.path).write_bytes(damaged)
    assert shared_classes(tmp_path) == 0, "Java sees the damage and goes on without"

    assert forget_spark() == [made.path]
    assert [*folder.iterdir()] == []
