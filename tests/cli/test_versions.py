"""Merging, picking, reverting, squashing and moving branches by command."""

from __future__ import annotations

from pathlib import Path

import pytest
import zarr

from tests.cli.conftest import Frazil, Ocean, make_ocean


@pytest.fixture(params=[1, 2], ids=["v1", "v2"])
def split_ocean(request: pytest.FixtureRequest, tmp_path: Path) -> Ocean:
    """A repository whose main and dev have both gone on."""
    ocean = make_ocean(tmp_path / "ocean", spec=request.param)
    write(ocean, "main", 3, 1.0)
    return ocean


def write(ocean: Ocean, branch: str, day: int, value: float, message: str = "more") -> str:
    """Write a day and commit."""
    session = ocean.open().writable_session(branch)
    zarr.open_array(session.store, path="sst", mode="r+")[day] = value
    return session.commit(message)


def day(ocean: Ocean, number: int, branch: str = "main") -> float:
    """The first value of a day."""
    session = ocean.open().readonly_session(branch)
    array = zarr.open_array(session.store, path="sst", mode="r")
    return float(array[number, 0, 0])  # type: ignore[arg-type]


def test_merge_brings_both_sides_together(frazil_command: Frazil, split_ocean: Ocean) -> None:
    said = frazil_command("merge", split_ocean.url, "dev", "--json")
    assert said.code == 0
    assert said.data["status"] == "committed"
    assert said.data["changes"]["chunks"] == {"/sst": 2}
    assert said.data["snapshot_id"] == split_ocean.open().lookup_branch("main")
    assert (day(split_ocean, 2), day(split_ocean, 3)) == (7.0, 1.0)
    newest = next(iter(split_ocean.open().ancestry(branch="main")))
    assert newest.message == "merge dev into main"
    again = frazil_command("merge", split_ocean.url, "dev")
    assert again.out.startswith("merge: Nothing to do (branch main")


def test_dry_run_tells_and_changes_nothing(frazil_command: Frazil, split_ocean: Ocean) -> None:
    before = split_ocean.open().lookup_branch("main")
    said = frazil_command("merge", split_ocean.url, "dev", "--dry-run")
    assert "Would commit" in said.out
    assert "--apply" in said.out
    assert split_ocean.open().lookup_branch("main") == before


def test_conflicts_are_a_table_and_exit_code_four(
    frazil_command: Frazil, split_ocean: Ocean
) -> None:
    before = write(split_ocean, "main", 2, 9.0)
    said = frazil_command("merge", split_ocean.url, "dev")
    assert said.code == 4
    assert "1 conflict" in said.out
    assert "1 chunk: 2,0,0" in said.out
    assert split_ocean.open().lookup_branch("main") == before
    data = frazil_command("merge", split_ocean.url, "dev", "--json", "--dry-run").data
    (conflict,) = data["conflicts"]
    assert (conflict["kind"], conflict["path"], conflict["chunks"]) == (
        "chunks",
        "/sst",
        [[2, 0, 0]],
    )


@pytest.mark.parametrize(("policy", "value"), [("ours", 9.0), ("/sst=theirs", 7.0)])
def test_policies_decide(
    frazil_command: Frazil, split_ocean: Ocean, policy: str, value: float
) -> None:
    write(split_ocean, "main", 2, 9.0)
    said = frazil_command("merge", split_ocean.url, "dev", "--policy", policy, "-m", "decided")
    assert said.code == 0
    assert day(split_ocean, 2) == value
    assert next(iter(split_ocean.open().ancestry(branch="main"))).message == "decided"


def test_attributes_of_both_sides_are_shown(frazil_command: Frazil, ocean: Ocean) -> None:
    for branch, title in (("main", "ours"), ("dev", "theirs")):
        session = ocean.open().writable_session(branch)
        zarr.open_group(session.store, mode="r+").attrs["title"] = title
        session.commit(title)
    said = frazil_command("merge", ocean.url, "dev")
    assert "attribute  /     title  ours  theirs  -" in said.out


def test_fast_forward_only_and_never(frazil_command: Frazil, ocean: Ocean) -> None:
    assert frazil_command("merge", ocean.url, "dev", "--no-ff", "--json").data["status"] == (
        "committed"
    )
    assert frazil_command("merge", f"{ocean.url}@dev", "main", "--ff-only").code == 4


def test_fast_forward_moves_a_branch(frazil_command: Frazil, ocean: Ocean) -> None:
    said = frazil_command("fast-forward", ocean.url, "dev", "--json").data
    assert (said["status"], said["snapshot_id"]) == ("fast-forward", ocean.third)
    assert ocean.open().lookup_branch("main") == ocean.third
    assert frazil_command("fast-forward", f"{ocean.url}@dev", "v1").code == 4


def test_cherry_pick_and_revert(frazil_command: Frazil, split_ocean: Ocean) -> None:
    said = frazil_command("cherry-pick", split_ocean.url, split_ocean.third[:8], "--json").data
    assert (said["operation"], said["status"]) == ("cherry-pick", "committed")
    assert day(split_ocean, 2) == 7.0
    assert frazil_command("revert", split_ocean.url, said["snapshot_id"]).code == 0
    assert day(split_ocean, 2) == 0.0


def test_squash_needs_apply(frazil_command: Frazil, split_ocean: Ocean) -> None:
    before = split_ocean.open().lookup_branch("main")
    plan = frazil_command("squash", split_ocean.url, "v1", "--json").data
    assert (plan["dry_run"], plan["snapshot_id"]) == (True, None)
    assert split_ocean.open().lookup_branch("main") == before
    said = frazil_command("squash", split_ocean.url, "v1", "--apply", "-m", "one").out
    assert said.startswith("squash: Committed")
    messages = [info.message for info in split_ocean.open().ancestry(branch="main")]
    assert messages[0] == "one"
    assert len(messages) == 3


def test_wrong_words_are_told(frazil_command: Frazil, ocean: Ocean) -> None:
    assert frazil_command("merge", ocean.url, "nope").code == 3
    assert frazil_command("merge", f"{ocean.url}@v1", "dev").code == 3
    assert frazil_command("merge", ocean.url, "dev", "--policy", "mine", "--no-ff").code == 2
    assert frazil_command("merge", ocean.url, "dev", "--policy", "sst=ours").code == 2
    assert frazil_command("squash", ocean.url, "dev").code == 2
