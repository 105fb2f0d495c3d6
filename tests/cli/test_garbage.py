"""Collections as plans, the trash, erasure, value diffs and whose bytes they are."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import zarr

import frazil
from tests.cli.conftest import Frazil, Ocean, make_ocean
from tests.cli.test_nodes import make_virtual

YOUNG = ("--unsafe-minimum-age", "0h")
ALL = ("--older-than", "2100-01-01", *YOUNG)


def test_gc_takes_only_what_expired_snapshots_left(frazil_command: Frazil, ocean: Ocean) -> None:
    ocean.open().delete_branch("dev")
    full = frazil_command("gc", ocean.url, *ALL, "--json").data
    plan = frazil_command("gc", ocean.url, *ALL, "--incremental", "--json").data
    assert plan == {**full, "how": "incremental"}
    done = frazil_command("gc", ocean.url, *ALL, "--incremental", "--apply", "--json").data
    assert (done["chunks"], done["snapshots"], done["applied"]) == (2, 1, True)
    assert frazil_command("gc", ocean.url, *ALL, "--json").data["chunks"] == 0


def test_gc_saves_a_plan_and_carries_it_out_later(
    frazil_command: Frazil, ocean: Ocean, tmp_path: Path
) -> None:
    ocean.open().delete_branch("dev")
    place = str(tmp_path / "plan.json")
    plan = frazil_command("gc", ocean.url, *ALL, "--save-plan", place, "--json").data
    assert (plan["chunks"], plan["applied"]) == (2, False)
    ocean.open().create_branch("again", ocean.third)
    shown = frazil_command("gc", ocean.url, "--plan", place, "--json").data
    assert shown["chunks"] == 2
    spared = frazil_command("gc", ocean.url, "--plan", place, *YOUNG, "--apply", "--json").data
    assert (spared["chunks"], spared["snapshots"]) == (0, 0)
    assert ocean.open().lookup_branch("again") == ocean.third
    wrong = frazil_command("gc", ocean.url, "--plan", place, "--incremental")
    assert wrong.code == 2
    (tmp_path / "plan.json").write_text("{}")
    assert frazil_command("gc", ocean.url, "--plan", place).code == 1
    assert frazil_command("gc", ocean.url, "--plan", str(tmp_path / "none")).code == 2


def test_garbage_is_put_aside_brought_back_and_deleted(
    frazil_command: Frazil, ocean: Ocean
) -> None:
    ocean.open().delete_branch("dev")
    done = frazil_command("gc", ocean.url, *ALL, "--quarantine", "--apply", "--json").data
    [batch] = frazil_command("trash", "list", ocean.url, "--json").data["batches"]
    assert (batch["batch"], batch["bytes"]) == (done["trash"], done["bytes"])
    assert done["trash"] in frazil_command("trash", "list", ocean.url).out
    assert frazil_command("trash", "restore", ocean.url, "nothing").code == 3
    told = frazil_command("trash", "restore", ocean.url, "--dry-run", "--json").data
    assert (told["objects"], told["applied"]) == (batch["objects"], False)
    back = frazil_command("trash", "restore", ocean.url, done["trash"], "--json").data
    assert back["objects"] == batch["objects"]
    frazil_command("gc", ocean.url, *ALL, "--quarantine", "--apply")
    young = frazil_command("trash", "empty", ocean.url, "--apply", "--json").data
    assert young["objects"] == 0
    old = ("trash", "empty", ocean.url, "--older-than", "2100-01-01")
    assert frazil_command(*old, "--apply", "--json").data["objects"] == 0
    young_too = (*old, *YOUNG)
    assert frazil_command(*young_too).out.startswith("Would delete 5 objects")
    assert frazil_command(*young_too, "--apply", "--json").data["objects"] == 5
    assert frazil_command("trash", "list", ocean.url, "--json").data == {"batches": []}
    assert frazil_command("verify", ocean.url, "--all").code == 0


@pytest.mark.parametrize("spec", [1, 2])
def test_purge_tells_first_needs_a_word_and_proves_it(
    frazil_command: Frazil, tmp_path: Path, spec: int
) -> None:
    ocean = make_ocean(tmp_path / "r", spec)
    told = frazil_command("purge", ocean.url, "sst", "--json").data
    assert (told["applied"], told["proved"], told["paths"]) == (False, False, ["/sst"])
    assert set(told["snapshots"]) >= {ocean.first, ocean.second, ocean.third}
    refused = frazil_command("purge", ocean.url, "sst", "--apply")
    assert refused.code == 2
    assert "confirm='/sst'" in refused.err
    arguments = ("purge", ocean.url, "sst", "--apply", "--confirm", "sst", "--json")
    young = frazil_command(*arguments)
    assert young.code == 5
    assert "unsafe_minimum_age" in young.err
    done = frazil_command(*arguments, *YOUNG).data
    assert done["proved"]
    assert done["objects_deleted"] == told["objects_deleted"] == 4
    assert done["verification"]["leftovers"] == []
    nodes = frazil_command("ls", f"{ocean.url}@v1", "--json").data["nodes"]
    assert "/sst" not in [node["path"] for node in nodes]
    assert frazil_command("verify", ocean.url, "--all").code == 0
    assert frazil_command("purge", ocean.url, "sst").code == 3


def test_purge_of_a_region_leaves_the_rest(frazil_command: Frazil, ocean: Ocean) -> None:
    arguments = ("purge", ocean.url, "/sst", "--region", "0, 0:2, :", *YOUNG)
    assert "Would purge" in frazil_command(*arguments).out
    said = frazil_command(*arguments, "--apply", "--confirm", "/sst")
    assert said.code == 0
    assert "Nothing is left" in said.out
    values = np.asarray(ocean.open().readonly_session("main").array("sst")[0])
    assert values.tolist() == [[0] * 5, [0] * 5, [10, 11, 12, 13, 14]]
    for wrong in ("1:2:3", "-1", "a", ""):
        assert frazil_command("purge", ocean.url, "/sst", "--region", wrong).code == 2


def test_diff_compares_values(frazil_command: Frazil, still_ocean: Ocean) -> None:
    data = frazil_command("diff", still_ocean.url, "v1", "dev", "--values", "--json").data
    assert (data["from"], data["to"]) == (still_ocean.first, still_ocean.third)
    [array] = data["arrays"]
    assert (array["path"], array["cells_changed"], array["chunks_read"]) == ("/sst", 30, 2)
    assert array["bounding_box"] == [[1, 3], [0, 3], [0, 5]]
    assert (array["min_difference"], array["max_difference"]) == (7.0, 7.0)
    assert array["samples"][0] == {"coords": [1, 0, 0], "old": 0.0, "new": 7.0}
    said = frazil_command("diff", still_ocean.url, "main", "dev", "--values", "--samples", "1")
    assert "30 of 30 compared, in 2 chunks" in said.out
    assert "NaN" in said.out
    none = frazil_command("diff", still_ocean.url, "v1", "dev", "--values", "--path", "air")
    assert "all values are the same" in none.out
    assert frazil_command("diff", still_ocean.url, "v1", "v1", "--values", "--path", "x").code == 3


def test_du_tells_whose_bytes_they_are(frazil_command: Frazil, still_ocean: Ocean) -> None:
    data = frazil_command("du", still_ocean.url, "--by", "branch", "--json").data
    owners = {each["name"]: each for each in data["owners"]}
    assert {each["type"] for each in data["owners"]} == {"branch", "tag"}
    assert owners["dev"]["unique_bytes"] == 120
    assert owners["main"]["shared_bytes"] == owners["main"]["referenced_bytes"] == 120
    assert data["total"]["referenced_bytes"] == 240
    snapshots = frazil_command("du", still_ocean.url, "--by", "snapshot", "--json").data
    assert len(snapshots["owners"]) == 4
    arrays = frazil_command("du", still_ocean.url, "--by", "array", "--older-than", "2100-01-01")
    assert "reclaimable" in arrays.out
    assert frazil_command("du", still_ocean.url, "--by", "user").code == 2
    assert frazil_command("du", still_ocean.url, "--all", "--by", "array").code == 2
    assert frazil_command("du", still_ocean.url, "--older-than", "1d").code == 2


def test_du_tells_what_was_added_over_time(frazil_command: Frazil, still_ocean: Ocean) -> None:
    steps = frazil_command("du", still_ocean.url, "--growth", "snapshot", "--json").data["steps"]
    assert [step["native_bytes"] for step in steps] == [0, 60, 60, 120]
    assert [step["inline_bytes"] for step in steps][1] == 2
    totals = [step["total_bytes"] for step in steps]
    assert totals == sorted(totals)
    [year] = frazil_command("du", still_ocean.url, "--growth", "year", "--json").data["steps"]
    assert (year["snapshots"], year["native_bytes"]) == (4, 240)
    assert "in all" in frazil_command("du", still_ocean.url, "--growth", "day").out
    assert frazil_command("du", still_ocean.url, "--growth", "week").code == 2


def test_diff_of_values_reads_virtual_chunks_only_if_allowed(
    frazil_command: Frazil, tmp_path: Path
) -> None:
    make_virtual(tmp_path)
    url, prefix = str(tmp_path / "r"), f"file://{tmp_path}/files/"
    repo = frazil.Repository.open(url)
    before = repo.lookup_branch("main")
    session = repo.writable_session("main")
    zarr.open_array(session.store, path="a", mode="r+")[...] = 9
    session.commit("native now")
    refused = frazil_command("diff", url, before, "main", "--values")
    assert refused.code == 5
    said = frazil_command("diff", url, before, "main", "--values", "--authorize", prefix, "--json")
    assert said.data["cells_changed"] == 4
