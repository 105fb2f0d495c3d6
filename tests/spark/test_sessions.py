"""Starting Spark: what is said when something is missing."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from frazil.errors import ErrorKind, SessionStateError
from frazil.spark.sessions import java_version, require_java


def fake_java(folder: Path, told: str, status: int = 0) -> Path:
    """A program that answers `-version`."""
    program = folder / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho '{told}' >&2\nexit {status}\n")
    program.chmod(0o755)
    return folder


@pytest.mark.parametrize(
    ("told", "version"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('java version "1.8.0_412"', 8),
        ('openjdk version "25" 2025-09-16', 25),
        ('openjdk version "21-ea" 2023-09-19', 21),
        ("what is a version?", None),
    ],
)
def test_versions_of_java(tmp_path: Path, told: str, version: int | None) -> None:
    home = fake_java(tmp_path / "java", told)
    assert java_version(str(home / "bin" / "java")) == version


def test_old_java_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = fake_java(tmp_path / "old", 'java version "1.8.0_412"')
    monkeypatch.setenv("JAVA_HOME", str(home))
    with pytest.raises(
        SessionStateError, match=r"needs Java 17 or newer, but .* is Java 8"
    ) as error:
        require_java()
    assert error.value.kind == ErrorKind.SPARK_UNAVAILABLE


def test_no_java_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(SessionStateError, match=r"no bin/java in it"):
        require_java()
    monkeypatch.delenv("JAVA_HOME")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SessionStateError, match="no java found; install it, or set JAVA_HOME"):
        require_java()


def test_importing_frazil_spark_needs_no_spark() -> None:
    import subprocess
    import sys

    code = "import frazil.spark, sys; print('pyspark' in sys.modules, 'pyarrow' in sys.modules)"
    path = os.pathsep.join(sys.path)
    told = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": path},
    )
    assert told.stdout.split() == ["False", "False"]
