"""Checking and repairing through the command."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Frazil, Ocean, make_ocean


@pytest.mark.parametrize("spec", [1, 2])
def test_nothing_is_found_in_a_good_repository(
    frazil_command: Frazil, tmp_path: Path, spec: int
) -> None:
    ocean = make_ocean(tmp_path / "r", spec)
    said = frazil_command("fsck", ocean.url, "--deep", "--strict")
    assert said.code == 0, said.out
    assert "Every rule is kept." in said.out
    data = frazil_command("fsck", ocean.url, "--deep", "--json").data
    assert (data["sound"], data["spec"], data["findings"]) == (True, spec, [])
    assert data["decoded_chunks"] > 0


def test_findings_end_with_six(frazil_command: Frazil, ocean: Ocean) -> None:
    manifest = sorted((ocean.path / "manifests").iterdir())[0]
    manifest.write_bytes(b"garbage")
    said = frazil_command("fsck", ocean.url)
    assert said.code == 6
    assert "file-short" in said.out
    assert manifest.name in said.out
    data = frazil_command("fsck", ocean.url, "--json").data
    assert data["errors"] >= 1
    assert {finding["target"] for finding in data["findings"]} == {f"manifests/{manifest.name}"}


@pytest.mark.parametrize("command", ["fsck", "verify"])
def test_the_engine_is_chosen_by_name(
    frazil_command: Frazil, still_ocean: Ocean, command: str
) -> None:
    here = frazil_command(command, still_ocean.url, "--engine", "local", "--json").data
    assert here == frazil_command(command, still_ocean.url, "--json").data
    said = frazil_command(command, still_ocean.url, "--engine", "lokal")
    assert said.code == 2
    assert "'local'" in said.err


def test_warnings_count_only_if_strict(frazil_command: Frazil, ocean: Ocean) -> None:
    (ocean.path / "repo").with_name("refs").mkdir()
    info = ocean.open()
    session = info.writable_session("main")
    session.store._keys.set("lost/child/zarr.json", b'{"zarr_format":3,"node_type":"group"}')
    session.commit("an orphan")
    said = frazil_command("fsck", ocean.url)
    assert said.code == 0
    assert "node-orphan" in said.out
    assert frazil_command("fsck", ocean.url, "--strict").code == 6
    assert frazil_command("fsck", f"{ocean.url}@v1", "--strict").code == 0


def test_one_version_is_checked_with_or_without_its_past(
    frazil_command: Frazil, ocean: Ocean
) -> None:
    (ocean.path / "snapshots" / ocean.first).unlink()
    assert frazil_command("fsck", f"{ocean.url}@main").code == 6
    tip = frazil_command("fsck", f"{ocean.url}@main", "--tips", "--json")
    assert (tip.code, tip.data["snapshots"]) == (0, 1)
    assert frazil_command("fsck", f"{ocean.url}@nope").code == 3
    assert frazil_command("fsck", str(ocean.path.parent / "nothing")).code == 3


def test_findings_are_limited(frazil_command: Frazil, ocean: Ocean) -> None:
    for chunk in (ocean.path / "chunks").iterdir():
        chunk.unlink()
    data = frazil_command("fsck", ocean.url, "--limit", "1", "--json").data
    assert (len(data["findings"]), data["more_findings"]) == (1, data["errors"] - 1)
    assert "more" in frazil_command("fsck", ocean.url, "-n", "1").out


def test_a_repository_that_does_not_open_is_checked_and_repaired(
    frazil_command: Frazil, ocean: Ocean, tmp_path: Path
) -> None:
    before = {name: ocean.open().lookup_branch(name) for name in ocean.open().list_branches()}
    (ocean.path / "repo").write_bytes(b"garbage")
    said = frazil_command("fsck", ocean.url)
    assert said.code == 6
    assert "file-short" in said.out
    plan = tmp_path / "plan.json"
    # Main and dev were at the same place before the last commit, so that it may be of either.
    assert "recovered-" in frazil_command("repair", ocean.url).out
    known = ("--tip", f"dev={ocean.third}")
    dry = frazil_command("repair", ocean.url, *known, "--save", str(plan))
    assert dry.code == 0
    assert "1. restore-repo repo" in dry.out
    assert "Nothing was changed" in dry.out
    assert (ocean.path / "repo").read_bytes() == b"garbage"
    done = frazil_command("repair", ocean.url, *known, "--plan", str(plan), "--apply", "--json")
    assert done.code == 0
    assert done.data["applied"]
    assert done.data["steps"] == json.loads(plan.read_text())["steps"]
    assert before == {
        name: ocean.open().lookup_branch(name) for name in ocean.open().list_branches()
    }
    assert frazil_command("fsck", ocean.url, "--strict").code == 0
    assert frazil_command("repair", ocean.url).out == "Nothing to repair.\n"


def test_a_branch_goes_back_when_its_newest_snapshot_is_gone(
    frazil_command: Frazil, ocean: Ocean
) -> None:
    (ocean.path / "snapshots" / ocean.second).unlink()
    said = frazil_command("repair", ocean.url, "--apply")
    assert said.code == 0
    assert "reset-branch main" in said.out
    assert f"the commit {ocean.second} of branch 'main' is lost" in said.out
    assert ocean.open().lookup_branch("main") == ocean.first


def test_lost_chunks_are_dropped_or_taken_from_the_past(
    frazil_command: Frazil, ocean: Ocean
) -> None:
    for chunk in (ocean.path / "chunks").iterdir():
        chunk.unlink()
    dry = frazil_command("repair", ocean.url, "--missing-chunks", "older", "--json").data
    assert {step["action"] for step in dry["steps"]} == {"rewrite-arrays"}
    done = frazil_command("repair", ocean.url, "--apply", "--json").data
    assert len(done["snapshots"]) == len(done["steps"]) > 0
    assert frazil_command("fsck", f"{ocean.url}@main", "--tips").code == 0
    assert frazil_command("repair", ocean.url, "--missing-chunks", "guess").code == 2
    assert frazil_command("repair", ocean.url, "--tip", "main").code == 2


def test_a_plan_must_exist_and_still_hold(
    frazil_command: Frazil, ocean: Ocean, tmp_path: Path
) -> None:
    assert frazil_command("repair", ocean.url, "--plan", str(tmp_path / "none.json")).code == 2
    plan = tmp_path / "plan.json"
    frazil_command("repair", ocean.url, "--save", str(plan))
    (ocean.path / "snapshots" / ocean.second).unlink()
    said = frazil_command("repair", ocean.url, "--plan", str(plan), "--apply")
    assert said.code == 4
    assert "plan again" in said.err
    plan.write_text("[]")
    assert frazil_command("repair", ocean.url, "--plan", str(plan)).code == 1
