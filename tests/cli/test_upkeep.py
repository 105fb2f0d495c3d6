"""Expiry, garbage, verification, rewriting, inspection."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import zarr

import frazil
from frazil.storage.local import LocalStorage
from tests.cli.conftest import Frazil, Ocean, make_ocean
from tests.cli.test_nodes import make_virtual
from tests.support.old_repositories import make_old


@pytest.mark.parametrize("spec", [1, 2])
def test_expire_tells_first_and_does_the_same_then(
    frazil_command: Frazil, tmp_path: Path, spec: int
) -> None:
    ocean = make_ocean(tmp_path / "r", spec)
    arguments = ("expire", ocean.url, "--older-than", "2100-01-01", "--delete-tags")
    plan = frazil_command(*arguments, "--delete-branches", "--json").data
    assert not plan["applied"]
    assert (plan["branches"], plan["tags"]) == (["dev"], ["v1"])
    assert len(ocean.open().list_tags()) == 1
    done = frazil_command(*arguments, "--delete-branches", "--apply", "--json").data
    assert done == {**plan, "applied": True}
    assert ocean.open().list_branches() == {"main"}
    assert ocean.open().list_tags() == set()


def test_expire_needs_a_time_it_can_read(frazil_command: Frazil, ocean: Ocean) -> None:
    assert frazil_command("expire", ocean.url).code == 2
    said = frazil_command("expire", ocean.url, "--older-than", "yesterday")
    assert said.code == 2
    assert "30d" in said.err
    kept = frazil_command("expire", ocean.url, "--older-than", "1w")
    assert kept.out.startswith("Would release 0 snapshots")


def test_gc_counts_first_and_deletes_when_told_so(frazil_command: Frazil, ocean: Ocean) -> None:
    ocean.open().delete_branch("dev")
    old = ("gc", ocean.url, "--older-than", "2100-01-01")
    assert frazil_command(*old, "--json").data["chunks"] == 0
    young = (*old, "--unsafe-minimum-age", "0h")
    plan = frazil_command(*young, "--json").data
    assert (plan["snapshots"], plan["chunks"], plan["applied"]) == (1, 2, False)
    assert plan["bytes"] >= 120
    objects = len(list((ocean.path / "chunks").iterdir()))
    refused = frazil_command(*old, "--apply")
    assert refused.code == 5
    assert "--unsafe-minimum-age" in refused.err
    assert len(list((ocean.path / "chunks").iterdir())) == objects
    done = frazil_command(*young, "--apply", "--json").data
    assert done == {**plan, "applied": True}
    assert len(list((ocean.path / "chunks").iterdir())) == objects - 2


def test_gc_leaves_young_files_alone_by_default(frazil_command: Frazil, ocean: Ocean) -> None:
    ocean.open().delete_branch("dev")
    assert frazil_command("gc", ocean.url, "--apply", "--json").data["chunks"] == 0
    assert frazil_command("gc", ocean.url).out.startswith("Would delete 0 B")


def test_verify_finds_nothing_in_a_sound_repository(
    frazil_command: Frazil, still_ocean: Ocean
) -> None:
    data = frazil_command("verify", still_ocean.url, "--all", "--json").data
    assert data["sound"]
    assert (data["snapshots"], data["native_objects"]) == (4, 4)
    said = frazil_command("verify", still_ocean.url)
    assert said.code == 0
    assert "Everything is there." in said.out


def test_verify_names_the_chunk_whose_object_is_gone(frazil_command: Frazil, ocean: Ocean) -> None:
    data = frazil_command("stat", ocean.url, "sst", "--chunk", "1,0,0", "--json").data
    (ocean.path / data["key"]).unlink()
    said = frazil_command("verify", ocean.url, "--json")
    assert said.code == 6
    [finding] = said.data["findings"]
    assert (finding["code"], finding["target"]) == ("chunk-missing", data["key"])
    assert (finding["path"], finding["chunks"]) == ("/sst", [[1, 0, 0]])
    text = frazil_command("verify", ocean.url).out
    assert "chunk-missing" in text
    assert "/sst" in text
    assert "1,0,0" in text
    assert frazil_command("verify", f"{ocean.url}@v1").code == 0


def test_verify_looks_at_virtual_sources_when_asked(frazil_command: Frazil, tmp_path: Path) -> None:
    url, prefix = str(tmp_path / "r"), f"file://{tmp_path}/files/"
    file = make_virtual(tmp_path)
    assert "--virtual does" in frazil_command("verify", url).out
    leave = ("--virtual", "--authorize", prefix)
    assert frazil_command("verify", url, *leave).code == 0
    file.write_bytes(b"short")
    said = frazil_command("verify", url, *leave, "--json")
    assert said.code == 6
    assert said.data["findings"][0]["code"] == "source-short"
    forbidden = frazil_command("verify", url, "--virtual", "--json")
    assert forbidden.data["findings"][0]["code"] == "source-unauthorized"


def test_rewrite_manifests_commits_only_when_not_dry(frazil_command: Frazil, ocean: Ocean) -> None:
    plan = frazil_command("rewrite-manifests", ocean.url, "--dry-run", "--json").data
    assert plan["snapshot_id"] is None
    assert ocean.open().lookup_branch("main") == ocean.second
    done = frazil_command("rewrite-manifests", f"{ocean.url}@dev", "-m", "anew", "--json").data
    assert ocean.open().lookup_branch("dev") == done["snapshot_id"]
    assert next(ocean.open().ancestry(branch="dev")).message == "anew"
    assert "Rewrote branch main" in frazil_command("rewrite-manifests", ocean.url).out


def test_compact_packs_small_chunks(frazil_command: Frazil, ocean: Ocean) -> None:
    plan = frazil_command("compact", f"{ocean.url}@dev", "--dry-run", "--json").data
    assert (plan["chunks"], plan["objects_before"], plan["snapshot_id"]) == (3, 3, None)
    done = frazil_command("compact", f"{ocean.url}@dev", "--json").data
    assert done["objects_after"] == 1
    session = ocean.open().readonly_session("dev")
    assert session.snapshot_id == done["snapshot_id"]
    values = np.asarray(zarr.open_array(session.store, path="sst", mode="r")[:])
    assert values[1:3].max() == 7
    assert values[0].max() == 14
    assert frazil_command("compact", f"{ocean.url}@dev").out.startswith("Nothing to do")


def test_upgrade_tells_first(frazil_command: Frazil, tmp_path: Path) -> None:
    old = make_ocean(tmp_path / "old", spec=1)
    assert frazil_command("upgrade", old.url).out.startswith("Can be upgraded")
    assert frazil.Repository.fetch_spec_version(old.url) == 1
    data = frazil_command("upgrade", old.url, "--apply", "--json").data
    assert (data["from_spec"], data["to_spec"], data["applied"]) == (1, 2, True)
    assert frazil.Repository.fetch_spec_version(old.url) == 2
    assert frazil_command("upgrade", old.url).code == 5


def test_upgrade_from_before_version_1(frazil_command: Frazil, tmp_path: Path) -> None:
    url = str(tmp_path / "older")
    make_old(LocalStorage(url), "g2")
    said = frazil_command("upgrade", url).out
    assert said.startswith("Can be upgraded from G2 (g2-json) to version 2.")
    assert "to link" in said
    plan = frazil_command("upgrade", url, "--to", "1", "--json").data
    assert (plan["from_spec"], plan["to_spec"], plan["applied"]) == ("g2", 1, False)
    done = frazil_command("upgrade", url, "--to", "1", "--apply", "--json").data
    assert done == {**plan, "applied": True}
    assert frazil.Repository.fetch_spec_version(url) == 1
    assert frazil_command("upgrade", url, "--to", "1").code == 5
    assert frazil_command("upgrade", url, "--undo").out.startswith("Would go back to G2.")
    assert frazil_command("upgrade", url, "--undo", "--apply").out.startswith("Went back to G2.")
    assert frazil_command("upgrade", url, "--clean").code == 5
    assert "did you mean 'local'" in frazil_command("upgrade", url, "--engine", "lokal").err
    copy = ("upgrade", url, "--apply", "--chunks", "copy", "--engine", "local")
    assert frazil_command(*copy).code == 0
    assert frazil_command("upgrade", url, "--clean", "--undo").code == 2
    assert frazil_command("upgrade", url, "--clean", "--apply").code == 5
    clean = ("upgrade", url, "--clean", "--unsafe-minimum-age", "0h", "--apply", "--json")
    data = frazil_command(*clean).data
    assert (data["action"], data["generation"], data["applied"]) == ("clean", "g2", True)
    assert frazil_command("upgrade", url, "--undo").code == 5
    assert "smaller" in frazil_command("log", url).out


def test_inspect_prints_any_file(frazil_command: Frazil, still_ocean: Ocean) -> None:
    repo_object = frazil_command("inspect", still_ocean.url, "--json").data
    assert repo_object["key"] == "repo"
    assert repo_object["branches"]["main"] == still_ocean.second
    snapshot = frazil_command("inspect", f"{still_ocean.url}@v1").data
    assert snapshot["id"] == still_ocean.first
    manifest = snapshot["manifests"][0]["id"]
    found = frazil_command("inspect", still_ocean.url, f"manifests/{manifest[:6].lower()}").data
    assert found["id"] == manifest
    log = frazil_command("inspect", still_ocean.url, f"transactions/{still_ocean.first}").data
    assert len(log["new_arrays"]) == 2


def test_inspect_of_what_is_not_one_file(frazil_command: Frazil, still_ocean: Ocean) -> None:
    assert frazil_command("inspect", still_ocean.url, "manifests/nope").code == 3
    several = frazil_command("inspect", still_ocean.url, "manifests/")
    assert several.code == 3
    assert frazil_command("inspect", still_ocean.url, "../secret").code == 2


def test_inspect_of_version_one_begins_with_its_main_branch(
    frazil_command: Frazil, tmp_path: Path
) -> None:
    old = make_ocean(tmp_path / "old", spec=1)
    assert frazil_command("inspect", old.url).data["snapshot"] == old.second


def test_damage_is_one_sentence_that_names_the_file(frazil_command: Frazil, ocean: Ocean) -> None:
    file = ocean.path / "snapshots" / ocean.second
    file.write_bytes(file.read_bytes()[:40])
    said = frazil_command("ls", ocean.url)
    assert (said.code, said.out) == (1, "")
    assert f"snapshots/{ocean.second}" in said.err
    assert "Traceback" not in said.err
    assert frazil_command("verify", ocean.url, "--json").data["findings"][0]["code"] == "file-body"
