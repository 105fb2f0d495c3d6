"""Small work of `ingest`, `clone`, `export` and `import` is done without Spark."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import xarray as xr
import zarr

import frazil
from frazil.errors import AlreadyExistsError, InvalidInputError, NotFoundError
from frazil.progress import Progress
from tests.cli.conftest import Frazil, Ocean
from tests.support.archive import archive, decoded, seen

ALONE = """
import sys
from frazil.cli import main
code = 0
try:
    main()
except SystemExit as end:
    code = end.code
loaded = sorted({"pyspark", "py4j", "pyarrow"} & {name.partition(".")[0] for name in sys.modules})
sys.exit(f"loaded {loaded}" if loaded else code)
"""


def alone(*arguments: str | Path) -> None:
    """Run a command in a process of its own, which has no Java and must not load PySpark."""
    done = subprocess.run(
        [sys.executable, "-c", ALONE, *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "JAVA_HOME": "/nowhere"},
    )
    assert done.returncode == 0, done.stderr


def test_three_files_are_ingested_copied_and_exported_without_spark(tmp_path: Path) -> None:
    files = archive(tmp_path / "files", 3)
    alone("ingest", *files, tmp_path / "repo", "--mode", "native")
    xr.testing.assert_equal(seen(tmp_path / "repo"), decoded(0, 1, 2))
    alone("clone", tmp_path / "repo", tmp_path / "copy")
    alone("export", tmp_path / "copy", tmp_path / "out.zarr")
    alone("import", tmp_path / "out.zarr", tmp_path / "back")
    xr.testing.assert_equal(seen(tmp_path / "back"), decoded(0, 1, 2))


def test_import_says_what_it_did(frazil_command: Frazil, tmp_path: Path) -> None:
    zarr.create_array(str(tmp_path / "in.zarr"), name="v", shape=(4,), chunks=(2,), dtype="i4")[
        :
    ] = 1
    target = str(tmp_path / "repo")
    arguments = ("--group", "g", "-m", "mine", "--engine", "local")
    said = frazil_command("import", str(tmp_path / "in.zarr"), target, *arguments, "--json")
    assert said.code == 0, said.err
    assert (said.data["arrays"], said.data["chunks"]) == (["/g/v"], 2)
    repository = frazil.Repository.open(target)
    assert next(iter(repository.ancestry(branch="main"))).message == "mine"
    again = frazil_command("import", str(tmp_path / "in.zarr"), target, *arguments)
    assert again.code == 4
    time = frazil_command("import", str(tmp_path / "in.zarr"), f"{target}@{{2024-05-01}}")
    assert (time.code, "only a branch" in time.err) == (2, True)


def test_a_group_of_a_url_is_exported(
    frazil_command: Frazil, still_ocean: Ocean, tmp_path: Path
) -> None:
    target = str(tmp_path / "out.zarr")
    said = frazil_command("export", f"{still_ocean.url}@dev#/air", target, "--engine", "local")
    assert said.code == 0, said.err
    assert sorted(zarr.open_group(target, mode="r")) == ["flag"]


@pytest.mark.parametrize("engine", [("--engine", "lokal"), ("--engine", "local", "--master", "x")])
def test_engines_that_make_no_sense_are_refused(
    frazil_command: Frazil, still_ocean: Ocean, tmp_path: Path, engine: tuple[str, ...]
) -> None:
    assert frazil_command("clone", still_ocean.url, str(tmp_path / "x"), *engine).code == 2
    assert not (tmp_path / "x").exists()


def test_python_copies_open_repositories(still_ocean: Ocean, tmp_path: Path) -> None:
    repository = frazil.Repository.open(still_ocean.url)
    session = repository.readonly_session("dev")
    told: list[Progress] = []
    report = frazil.clone(session, tmp_path / "one", progress=told.append)
    assert report.snapshot_id == frazil.Repository.open(tmp_path / "one").lookup_branch("main")
    assert told[-1].done == told[-1].total
    frazil.clone(repository, tmp_path / "all")
    assert frazil.Repository.open(tmp_path / "all").list_branches() == repository.list_branches()
    with pytest.raises(AlreadyExistsError, match="not empty"):
        frazil.clone(repository, tmp_path / "all")
    assert frazil.export(session, tmp_path / "out").arrays == ("/air/flag", "/sst")
    made = frazil.import_zarr(tmp_path / "out", tmp_path / "back")
    assert set(made.arrays) == {"/air/flag", "/sst"}
    with pytest.raises(NotFoundError, match="no Zarr store"):
        frazil.import_zarr(tmp_path / "nothing", tmp_path / "new")
    with pytest.raises(InvalidInputError, match="twice"):
        frazil.ingest("x.nc", f"{tmp_path}/new@a", branch="b")
