"""What is built can be installed: with each extra alone, every module that it is for works."""

from __future__ import annotations

import json
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path
from typing import Final

import pytest

from tests.dist.environments import make
from tests.support.documents import program

ROOT: Final = Path(__file__).resolve().parents[2]
EXTRAS: Final = ("", "xarray", "dask", "spark", "virtual", "legacy", "cli", "web", "testing", "all")
NEEDS: Final = {
    "frazil.cli": "cli",
    "frazil.dask": "dask",
    "frazil.distributed": "dask",
    "frazil.icechunk.dask": "dask",
    "frazil.icechunk.distributed": "dask",
    "frazil.icechunk.xarray": "xarray",
    "frazil.ingestion": "virtual",
    "frazil.spark": "spark",
    "frazil.spark.jobs.copying": "all",
    "frazil.testing": "testing",
    "frazil.web": "web",
    "frazil.xarray": "xarray",
    "pyspark_frazil": "spark",
    "pyspark_icechunk": "spark",
}
"""Rooms whose modules are only for those who installed an extra; all others must import alone."""

IMPORT_ALL: Final = """
import importlib, json, pkgutil, sys
failed = {}
def walk(name):
    try:
        module = importlib.import_module(name)
    except Exception as error:
        failed[name] = f"{type(error).__name__}: {error}"
        return
    for found in pkgutil.iter_modules(getattr(module, "__path__", ()), name + "."):
        if not found.name.endswith("__main__"):
            walk(found.name)
for name in ("frazil", "pyspark_frazil", "pyspark_icechunk"):
    walk(name)
print(json.dumps([len([n for n in sys.modules if n.startswith("frazil")]), failed]))
"""


SERVE_A_PAGE: Final = """
import threading, time, urllib.request
import uvicorn, zarr, frazil
from frazil.web.app import make_app
from frazil.web.library import Library
from frazil.web.server import bind
from frazil.web.settings import ServerSettings
session = frazil.Repository.create("place").writable_session("main")
zarr.group(session.store)
session.commit("The first look")
listening, settings = bind(ServerSettings(port=0))
server = uvicorn.Server(uvicorn.Config(make_app(Library(["place"]), settings), log_level="error"))
threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True).start()
while not server.started:
    time.sleep(0.01)
for page in ("", "r/place/", "r/place/commit", "static/style.css", "static/dataview.js"):
    print(urllib.request.urlopen(settings.url + page, timeout=60).read().decode())
server.should_exit = True
"""


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with what `make dist` makes."""
    folder = tmp_path_factory.mktemp("dist")
    subprocess.run([sys.executable, ROOT / "scripts" / "dist", folder], check=True, cwd=ROOT)
    return folder


def the_wheel(built: Path) -> Path:
    [wheel] = built.glob("*.whl")
    return wheel


def run(python: Path, *arguments: str, cwd: Path) -> str:
    done = subprocess.run(
        [python, "-I", *arguments], capture_output=True, text=True, cwd=cwd, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def extra_of(module: str) -> str | None:
    """The extra without which a module need not import."""
    while module:
        if module in NEEDS:
            return NEEDS[module]
        module = module.rpartition(".")[0]
    return None


def test_the_wheel_has_the_source_and_the_sdist_what_tests_it(built: Path) -> None:
    names = set(zipfile.ZipFile(the_wheel(built)).namelist())
    source = {str(path.relative_to(ROOT / "src")) for path in (ROOT / "src").rglob("*.py")}
    assert source <= names
    explorer = ROOT / "src" / "frazil" / "web"
    assets = [path for part in ("static", "templates") for path in (explorer / part).rglob("*.*")]
    assert len(assets) > 30
    assert {str(path.relative_to(ROOT / "src")) for path in assets} <= names
    assert "frazil/py.typed" in names
    assert not [name for name in names if name.startswith(("tests", "docs"))]
    [sdist] = built.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        inside = {name.partition("/")[2] for name in archive.getnames()}
    assert {"README.md", "pyproject.toml", "tests/dist/test_wheel.py"} <= inside


@pytest.mark.slow
@pytest.mark.parametrize("extra", EXTRAS)
def test_every_module_imports_with_the_extra_it_is_for(
    built: Path, tmp_path: Path, extra: str
) -> None:
    python = make(tmp_path / "env", the_wheel(built), extra)
    count, failed = json.loads(run(python, "-c", IMPORT_ALL, cwd=tmp_path).splitlines()[-1])
    unexpected = {
        module: why
        for module, why in failed.items()
        if extra_of(module) in {None, extra} or (extra == "all" and extra_of(module) != "testing")
    }
    assert not unexpected
    assert count > 200


@pytest.mark.slow
def test_the_explorer_serves_pages_from_the_wheel(built: Path, tmp_path: Path) -> None:
    python = make(tmp_path / "env", the_wheel(built), "web")
    served = run(python, "-c", SERVE_A_PAGE, cwd=tmp_path)
    for text in ("The first look", 'href="/r/place/history"', "--accent", "import {"):
        assert text in served, text


@pytest.mark.slow
def test_the_tour_of_the_readme_and_the_command_run_from_the_wheel(
    built: Path, tmp_path: Path
) -> None:
    python = make(tmp_path / "env", the_wheel(built), "all")
    (tmp_path / "tour.py").write_text(program(ROOT / "README.md"), encoding="utf-8")
    assert "The third day" in run(python, "tour.py", cwd=tmp_path)
    helped = subprocess.run(
        [python.parent / "frazil", "--help"], capture_output=True, text=True, check=False
    )
    assert helped.returncode == 0
    assert "ingest" in helped.stdout


@pytest.mark.slow
def test_the_command_without_its_extra_says_what_to_install(built: Path, tmp_path: Path) -> None:
    python = make(tmp_path / "env", the_wheel(built), "")
    asked = subprocess.run(
        [python.parent / "frazil", "--help"], capture_output=True, text=True, check=False
    )
    assert asked.returncode != 0
    assert "frazil[cli]" in asked.stderr
    assert "Traceback" not in asked.stderr
