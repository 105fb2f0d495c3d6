"""Making repositories, branches and tags."""

from __future__ import annotations

from pathlib import Path

import pytest

import frazil
from tests.cli.conftest import Frazil, Ocean


@pytest.mark.parametrize("spec", [1, 2])
def test_init_makes_a_repository_once(frazil_command: Frazil, tmp_path: Path, spec: int) -> None:
    url = str(tmp_path / "new")
    said = frazil_command("init", url, "--spec", str(spec), "--json")
    assert said.data == {"url": f"file://{url}", "spec_version": spec, "created": True}
    assert frazil.Repository.fetch_spec_version(url) == spec
    again = frazil_command("init", url)
    assert again.code == 4
    assert "already exists" in again.err
    assert frazil_command("init", f"{url}@main").code == 2


def test_branches_are_listed_with_their_snapshots(
    frazil_command: Frazil, still_ocean: Ocean
) -> None:
    data = frazil_command("branch", "list", still_ocean.url, "--json").data
    found = {each["name"]: each["snapshot"]["id"] for each in data["branches"]}
    assert found == {"dev": still_ocean.third, "main": still_ocean.second}
    assert "On a branch" in frazil_command("branch", "list", still_ocean.url).out


def test_branch_is_created_at_the_version_of_the_url(frazil_command: Frazil, ocean: Ocean) -> None:
    assert frazil_command("branch", "create", f"{ocean.url}@v1", "old").code == 0
    assert ocean.open().lookup_branch("old") == ocean.first
    again = frazil_command("branch", "create", ocean.url, "old")
    assert again.code == 4


def test_branch_is_deleted_only_when_told_so(frazil_command: Frazil, ocean: Ocean) -> None:
    plan = frazil_command("branch", "delete", ocean.url, "dev", "--json").data
    assert plan["unreachable_snapshots"] == [ocean.third]
    assert not plan["applied"]
    assert "--apply" in frazil_command("branch", "delete", ocean.url, "dev").out
    assert "dev" in ocean.open().list_branches()
    assert frazil_command("branch", "delete", ocean.url, "dev", "--apply").code == 0
    assert "dev" not in ocean.open().list_branches()
    assert frazil_command("branch", "delete", ocean.url, "dev").code == 3
    assert frazil_command("branch", "delete", ocean.url, "main", "--apply").code == 5


def test_tags_come_and_go(frazil_command: Frazil, ocean: Ocean) -> None:
    assert frazil_command("tag", "create", f"{ocean.url}@dev", "v2").code == 0
    listed = frazil_command("tag", "list", ocean.url, "--json").data["tags"]
    assert [each["name"] for each in listed] == ["v1", "v2"]
    assert frazil_command("tag", "delete", ocean.url, "v2").code == 0
    assert "v2" in ocean.open().list_tags()
    assert frazil_command("tag", "delete", ocean.url, "v2", "--apply").code == 0
    assert ocean.open().list_tags() == {"v1"}
    again = frazil_command("tag", "create", ocean.url, "v2")
    assert again.code == 4


def test_no_tags_is_said_and_is_an_empty_list(frazil_command: Frazil, tmp_path: Path) -> None:
    frazil_command("init", str(tmp_path / "r"))
    assert frazil_command("tag", "list", str(tmp_path / "r")).out == "no tags\n"
    assert frazil_command("tag", "list", str(tmp_path / "r"), "--json").data == {"tags": []}


def test_reset_moves_a_branch_only_when_told_so(frazil_command: Frazil, ocean: Ocean) -> None:
    plan = frazil_command("reset", f"{ocean.url}@dev", "v1", "--json").data
    assert plan["from_snapshot_id"] == ocean.third
    assert plan["to_snapshot_id"] == ocean.first
    assert plan["unreachable_snapshots"] == [ocean.third]
    assert ocean.open().lookup_branch("dev") == ocean.third
    said = frazil_command("reset", f"{ocean.url}@dev", ocean.first[:8], "--apply")
    assert said.out.startswith("Moved branch dev from")
    assert ocean.open().lookup_branch("dev") == ocean.first


def test_reset_needs_a_branch(frazil_command: Frazil, ocean: Ocean) -> None:
    assert frazil_command("reset", f"{ocean.url}@v1", "dev").code == 3
    near = frazil_command("reset", f"{ocean.url}@dew", "v1")
    assert near.code == 3
    assert "did you mean 'dev'?" in near.err
    assert frazil_command("reset", f"{ocean.url}@{{2024-05-01}}", "v1").code == 2


def test_a_version_is_refused_where_it_means_nothing(
    frazil_command: Frazil, still_ocean: Ocean
) -> None:
    said = frazil_command("status", f"{still_ocean.url}@main")
    assert said.code == 2
    assert "leave out @main" in said.err
