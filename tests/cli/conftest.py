"""A small repository on disk, and the real command on it."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from typer.testing import CliRunner

import frazil
from frazil.cli.app import app_for


@dataclass(frozen=True, slots=True)
class Said:
    """What a command printed, and how it ended."""

    code: int
    out: str
    err: str

    @property
    def data(self) -> Any:  # noqa: ANN401  (JSON)
        """Standard output as JSON."""
        return json.loads(self.out)


Frazil = Callable[..., Said]


@dataclass(frozen=True, slots=True)
class Ocean:
    """A repository with two commits on main and one more on dev."""

    url: str
    first: str
    second: str
    third: str

    @property
    def path(self) -> Path:
        """Where its files are."""
        return Path(self.url)

    def open(self) -> frazil.Repository:
        """Open it."""
        return frazil.Repository.open(self.url)


@pytest.fixture
def frazil_command(monkeypatch: pytest.MonkeyPatch) -> Frazil:
    """Run the command in this process."""
    for name in ("FORCE_COLOR", "FRAZIL_DEBUG"):
        monkeypatch.delenv(name, raising=False)
    runner = CliRunner()

    def run(*arguments: str) -> Said:
        result = runner.invoke(app_for(arguments), list(arguments))
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return Said(result.exit_code, result.stdout, result.stderr)

    return run


def make_ocean(path: Path, spec: int = 2) -> Ocean:
    """Write the repository."""
    config = frazil.RepositoryConfig(inline_chunk_threshold_bytes=16)
    repo = frazil.Repository.create(str(path), config=config, spec_version=spec)
    session = repo.writable_session("main")
    group = zarr.create_group(session.store, attributes={"title": "Sea surface"})
    sst = group.create_array(
        "sst",
        shape=(4, 3, 5),
        chunks=(1, 3, 5),
        dtype="float32",
        dimension_names=("time", "lat", "lon"),
        attributes={"units": "degC"},
        compressors=None,
    )
    sst[0] = np.arange(15, dtype="f4").reshape(3, 5)
    air = group.create_group("air")
    air.create_array("flag", shape=(2,), chunks=(1,), dtype="int8", compressors=None)[:] = [1, 2]
    first = session.commit("The first day\n\nin two paragraphs")
    session = repo.writable_session("main")
    zarr.open_array(session.store, path="sst", mode="r+")[1] = np.nan
    second = session.commit("The second day", {"station": "Jan Mayen"})
    repo.create_tag("v1", first)
    repo.create_branch("dev", second)
    session = repo.writable_session("dev")
    zarr.open_array(session.store, path="sst", mode="r+")[1:3] = 7
    third = session.commit("On a branch")
    return Ocean(str(path), first, second, third)


@pytest.fixture
def ocean(tmp_path: Path) -> Ocean:
    """A fresh repository to change."""
    return make_ocean(tmp_path / "ocean")


@pytest.fixture(scope="session")
def still_ocean(tmp_path_factory: pytest.TempPathFactory) -> Ocean:
    """A repository to look at."""
    return make_ocean(tmp_path_factory.mktemp("still") / "ocean")
