"""Starting Spark: what is said when something is missing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import zarr
from pyspark.sql import SparkSession

import frazil
from frazil.errors import ErrorKind, SessionStateError
from frazil.spark.query import run_query
from frazil.spark.sessions import (
    JAVA_OPTIONS,
    QUICK_START,
    active_session,
    embedded_settings,
    java_version,
    require_java,
    session,
)
from tests.support.spark import WEATHER_ENCODING, make_repository, messages_of, weather
from tests.support.spark_jobs import run_job


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


BARE = """
import json
from frazil.errors import SessionStateError
from frazil.spark.jobs.copying import ingest

spark = session("local[1]")
told = []
for work in (
    lambda: fs.read(f"{place}/repo", spark=spark),
    lambda: fs.rechunk(f"{place}/repo", "wind", {"time": 5}, spark=spark),
    lambda: fs.write(spark.range(3).selectExpr("id x", "1.0D v"), f"{place}/new", dims=["x"]),
    lambda: ingest(f"{place}/any.nc", f"{place}/new", spark=spark),
):
    try:
        work()
        told.append("nothing")
    except SessionStateError as error:
        told.append(str(error))
(place / "told").write_text(json.dumps(told))
"""


@pytest.mark.soak
def test_workers_without_frazil_are_told_of(tmp_path: Path) -> None:
    make_repository(tmp_path / "repo", weather(), **WEATHER_ENCODING)
    blocked = tmp_path / "blocked"
    blocked.mkdir()
    (blocked / "sitecustomize.py").write_text(
        "import sys\n"
        "class Blocker:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name.partition('.')[0] in ('frazil', 'pyspark_frazil'):\n"
        "            raise ModuleNotFoundError(f'No module named {name!r}', name=name)\n"
        "sys.meta_path.insert(0, Blocker())\n"
    )
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nPYTHONPATH={blocked}:$PYTHONPATH exec {sys.executable} "$@"\n')
    python.chmod(0o755)
    code = run_job(tmp_path, BARE, PYSPARK_PYTHON=str(python))
    assert code == 0, (tmp_path / "job.log").read_text()[-3000:]
    told = json.loads((tmp_path / "told").read_text())
    assert len(told) == 4
    assert all("workers" in each and "install" in each for each in told), told
    assert messages_of(tmp_path / "new") == []
    assert messages_of(tmp_path / "repo") == ["made"]


PLAN = """
import subprocess
import sys
import frazil.spark.query.run_query  # of `frazil sql`
from frazil.spark.source import FrazilSource
source = FrazilSource({"path": sys.argv[1], "where": "lat > 0 AND time < '2024-02-01'"})
reader = source.reader(source.schema())
rows = sum(batch.num_rows for part in reader.partitions() for batch in reader.read(part))
print(rows, sorted({"zarr", "xarray", "pandas", "dask", "virtualizarr"} & sys.modules.keys()))
"""


def test_planning_and_reading_wait_for_no_other_library(tmp_path: Path) -> None:
    make_repository(tmp_path / "repo", weather(), **WEATHER_ENCODING)
    told = subprocess.run(
        [sys.executable, "-c", PLAN, str(tmp_path / "repo")],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert told.stdout.strip() == f"{2 * 3 * 5} []"


def test_other_threads_use_the_session_of_the_process_as_it_is(spark: SparkSession) -> None:
    names = ("spark.master", "spark.sql.shuffle.partitions", "spark.sql.session.timeZone")
    before = [spark.conf.get(name) for name in names]
    spark.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    try:
        with ThreadPoolExecutor(1) as pool:
            assert pool.submit(session).result() is spark
            assert pool.submit(active_session).result() is spark
        assert spark.conf.get("spark.sql.session.timeZone") == "Asia/Tokyo"
    finally:
        spark.conf.set("spark.sql.session.timeZone", str(before[2]))
    assert [spark.conf.get(name) for name in names] == before


@pytest.mark.parametrize(("rows", "short_lived", "starts_quickly"), [
    (1000, True, True),
    (1000, False, False),
    (10_000_000, True, False),
])  # fmt: skip
def test_one_small_question_has_a_session_that_starts_quickly(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    rows: int,
    short_lived: bool,
    starts_quickly: bool,
) -> None:
    """And a session that lives on, or reads much, one that computes fast."""
    repository = frazil.Repository.create(tmp_path)
    with repository.transaction("main", message="an array") as store:
        zarr.create_array(store, name="a", shape=(rows,), dtype="i4", dimension_names=["x"])

    class StartedError(Exception):
        pass

    def start(master: str | None, *, short_lived: bool) -> None:
        raise StartedError(master, short_lived)

    monkeypatch.setattr(run_query, "spark_session", start)
    with pytest.raises(StartedError) as started:
        run_query.run_query("SELECT 1 FROM data", str(tmp_path), short_lived=short_lived)
    assert started.value.args == (None, starts_quickly)
    options = embedded_settings(short_lived=starts_quickly)[JAVA_OPTIONS]
    assert all((option in options) == starts_quickly for option in QUICK_START)
