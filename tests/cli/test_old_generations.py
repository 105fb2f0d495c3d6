"""The commands on repositories from before spec 1."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import zarr

import frazil
from frazil.storage.local import LocalStorage
from tests.cli.conftest import Frazil
from tests.support.generations import OLD
from tests.support.old_repositories import make_old


@pytest.fixture(params=OLD)
def old(request: pytest.FixtureRequest, frazil_command: Frazil, tmp_path: Path) -> str:
    """A repository with one commit."""
    url = str(tmp_path / "old")
    made = frazil_command("init", url, "--spec", request.param, "--json").data
    assert made["spec_version"] == frazil.Repository.fetch_spec_version(url)
    session = frazil.Repository.open(url).writable_session("main")
    array = zarr.create_array(session.store, name="t", shape=(300,), chunks=(150,), dtype="f8")
    array[:] = np.random.default_rng(1).random(300)
    session.commit("numbers")
    return url


def test_every_file_is_printed(frazil_command: Frazil, old: str) -> None:
    kinds = set()
    for path in sorted(Path(old).rglob("*")):
        if path.is_file() and not path.name.startswith("."):
            key = path.relative_to(old).as_posix()
            data = frazil_command("inspect", old, key).data
            assert data["key"] == key
            kinds.add(data["file_type"])
    assert {"chunk", "snapshot", "manifest"} <= kinds
    assert frazil_command("inspect", old).data["file_type"] in ("ref", "state")
    assert frazil_command("inspect", f"{old}@main").data["file_type"] == "snapshot"


def test_it_is_looked_at_like_any_other(frazil_command: Frazil, old: str) -> None:
    status = frazil_command("status", old, "--json").data
    assert status["generation"] in OLD
    assert list(status["branches"]) == ["main"]
    log = frazil_command("log", old, "--json").data
    assert "numbers" in str(log)
    assert frazil_command("verify", old).code == 0
    assert frazil_command("init", old).code == 4
    assert frazil_command("init", f"{old}2", "--spec", "g9").code == 2


def test_snapshots_expire_where_no_file_must_be_changed_for_it(
    frazil_command: Frazil, old: str
) -> None:
    before = {path: path.read_bytes() for path in Path(old).rglob("*") if path.is_file()}
    said = frazil_command("expire", old, "--older-than", "2100-01-01")
    if frazil_command("status", old, "--json").data["generation"] == "g1":
        assert said.code == 0
        return
    assert said.code != 0
    assert "cannot be expired" in said.err
    assert "upgrade the repository first" in said.err
    assert frazil_command("expire", old, "--older-than", "2100-01-01", "--apply").code == said.code
    assert {path: path.read_bytes() for path in Path(old).rglob("*") if path.is_file()} == before


def test_files_elsewhere_are_named_on_the_command_line(
    frazil_command: Frazil, tmp_path: Path
) -> None:
    make_old(LocalStorage(tmp_path / "here"), "g1")
    (tmp_path / "there").mkdir()
    for folder in ("s", "i", "c", "a"):
        if (tmp_path / "here" / folder).exists():
            (tmp_path / "here" / folder).rename(tmp_path / "there" / folder)
    state = tmp_path / "here" / "state.json"
    named = {"store_root": (tmp_path / "there").as_uri()}
    state.write_text(json.dumps(json.loads(state.read_text()) | named))
    here = str(tmp_path / "here")
    said = frazil_command("upgrade", here, "--apply")
    assert said.code != 0
    assert "frazil upgrade --store-root" in said.err
    said = frazil_command("upgrade", here, "--store-root", str(tmp_path / "other"), "--apply")
    assert said.code != 0
    assert "another place" in said.err
    said = frazil_command("upgrade", here, "--store-root", str(tmp_path / "there"), "--apply")
    assert said.code == 0
    assert frazil_command("status", here, "--json").data["spec_version"] == 2
