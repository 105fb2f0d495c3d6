"""Looking at the history of a repository."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from xml.etree import ElementTree

import pytest
import zarr

import frazil
from tests.cli.conftest import Frazil, Ocean, make_ocean


def test_log_is_newest_first_with_refs(frazil_command: Frazil, still_ocean: Ocean) -> None:
    lines = frazil_command("log", still_ocean.url).out.splitlines()
    assert [line.split()[0] for line in lines[1:3]] == [
        still_ocean.second[:8],
        still_ocean.first[:8],
    ]
    assert lines[1].endswith("(main) The second day")
    assert lines[2].endswith("(tag v1) The first day")


def test_log_as_json_is_exact(frazil_command: Frazil, still_ocean: Ocean) -> None:
    data = frazil_command("log", f"{still_ocean.url}@dev", "--json").data
    newest = data["snapshots"][0]
    assert newest["id"] == still_ocean.third
    assert newest["parent_id"] == still_ocean.second
    assert newest["refs"] == [{"type": "branch", "name": "dev"}]
    expected = still_ocean.open().lookup_snapshot(still_ocean.third).written_at
    assert datetime.fromisoformat(newest["written_at"]) == expected
    assert data["snapshots"][1]["metadata"] == {"station": "Jan Mayen"}
    assert data["snapshots"][2]["message"] == "The first day\n\nin two paragraphs"
    assert not data["truncated"]


def test_log_has_a_limit_and_says_so(frazil_command: Frazil, still_ocean: Ocean) -> None:
    said = frazil_command("log", still_ocean.url, "-n", "1")
    assert len(said.out.splitlines()) == 2
    assert "--limit 0" in said.err
    assert frazil_command("log", still_ocean.url, "-n", "1", "--json").data["truncated"]
    everything = frazil_command("log", still_ocean.url, "-n", "0", "--json").data
    assert len(everything["snapshots"]) == 3


def test_log_by_time_and_by_the_beginning_of_an_id(
    frazil_command: Frazil, still_ocean: Ocean
) -> None:
    by_prefix = frazil_command("log", f"{still_ocean.url}@{still_ocean.first[:6]}", "--json").data
    assert by_prefix["snapshots"][0]["id"] == still_ocean.first
    when = still_ocean.open().lookup_snapshot(still_ocean.first).written_at.isoformat()
    by_time = frazil_command("log", f"{still_ocean.url}@{{{when}}}", "--json").data
    assert by_time["snapshots"][0]["id"] == still_ocean.first


def test_graph_draws_all_branches(frazil_command: Frazil, still_ocean: Ocean) -> None:
    said = frazil_command("log", still_ocean.url, "--graph")
    assert "(dev) On a branch" in said.out
    assert "●─╯" in said.out
    assert "\x1b" not in said.out
    found = frazil_command("log", still_ocean.url, "--graph", "--json").data["snapshots"]
    assert found[0]["id"] == still_ocean.third
    assert len(found) == 4


def merged(ocean: Ocean) -> str:
    repo = ocean.open()
    session = repo.writable_session("main")
    zarr.open_array(session.store, path="sst", mode="r+")[0] = 9.0
    session.commit("Meanwhile <b>")
    repo.versions.merge("dev", into="main")
    repo.delete_branch("dev")
    return ocean.url


def test_graph_draws_merges_though_the_branch_is_gone(frazil_command: Frazil, ocean: Ocean) -> None:
    url = merged(ocean)
    for version in ("", "@main"):
        said = frazil_command("log", url + version, "--graph")
        assert "●─╮" in said.out
        assert "●─╯" in said.out
        assert "On a branch" in said.out


def test_graph_is_written_as_a_picture_and_as_mermaid(
    frazil_command: Frazil, ocean: Ocean, tmp_path: Path
) -> None:
    url, file = merged(ocean), tmp_path / "history.svg"
    said = frazil_command("log", url, "--svg", str(file))
    assert said.out == f"wrote {file}\n"
    picture = file.read_text()
    assert ElementTree.fromstring(picture).tag.endswith("svg")
    assert "Meanwhile &lt;b&gt;" in picture
    assert "<script" not in picture
    drawn = frazil_command("log", url, "--mermaid").out
    assert drawn.startswith("flowchart BT\n")
    assert "-.->" in drawn
    assert "<b>" not in drawn
    as_json = frazil_command("log", url, "--mermaid", "--json")
    assert as_json.data == frazil_command("log", url, "--graph", "--json").data


def test_a_picture_that_cannot_be_written_is_told(
    frazil_command: Frazil, still_ocean: Ocean, tmp_path: Path
) -> None:
    said = frazil_command("log", still_ocean.url, "--svg", str(tmp_path / "none" / "x.svg"))
    assert said.code == 2
    assert "cannot write" in said.err


def test_show_tells_what_a_snapshot_changed(frazil_command: Frazil, still_ocean: Ocean) -> None:
    data = frazil_command("show", still_ocean.url, "--json").data
    assert data["changes"]["updated_chunks"] == {"/sst": [[1, 0, 0]]}
    assert data["manifests"]["chunk_references"] == 4
    text = frazil_command("show", f"{still_ocean.url}@v1").out
    assert "    in two paragraphs" in text
    assert "+ /sst  array" in text


def test_show_of_the_first_snapshot(frazil_command: Frazil, still_ocean: Ocean) -> None:
    root = frazil_command("log", still_ocean.url, "--json").data["snapshots"][-1]["id"]
    data = frazil_command("show", f"{still_ocean.url}@{root}", "--json").data
    assert (data["parent_id"], data["changes"]) == (None, None)


@pytest.mark.parametrize(
    "arguments", [("{url}", "v1", "dev"), ("{url}@v1", "dev")], ids=["two refs", "in the url"]
)
def test_diff_between_refs(
    frazil_command: Frazil, still_ocean: Ocean, arguments: tuple[str, ...]
) -> None:
    filled = [each.format(url=still_ocean.url) for each in arguments]
    data = frazil_command("diff", *filled, "--json").data
    assert (data["from"], data["to"]) == (still_ocean.first, still_ocean.third)
    assert data["updated_chunks"] == {"/sst": [[1, 0, 0], [2, 0, 0]]}
    assert "~ /sst  2 chunks: [1,0,0] [2,0,0]" in frazil_command("diff", *filled).out


def test_diff_of_one_snapshot_and_with_main(frazil_command: Frazil, still_ocean: Ocean) -> None:
    own = frazil_command("diff", f"{still_ocean.url}@dev", "--json").data
    assert (own["from"], own["to"]) == (still_ocean.second, still_ocean.third)
    with_main = frazil_command("diff", still_ocean.url, "v1", "--json").data
    assert (with_main["from"], with_main["to"]) == (still_ocean.first, still_ocean.second)


def test_diff_shows_every_kind_of_change(frazil_command: Frazil, ocean: Ocean) -> None:
    repo = ocean.open()
    session = repo.writable_session("main")
    root = zarr.open_group(session.store, mode="r+")
    root.create_group("new")
    del root["air/flag"]
    root["sst"].attrs["units"] = "K"
    session.commit("changes")
    session = repo.rearrange_session("main")
    session.move("/new", "/moved")
    session.commit("move")
    lines = frazil_command("diff", ocean.url, "v1").out.splitlines()[1:]
    assert lines == [
        "+ /moved  group",
        "- /air/flag  array",
        "~ /sst  array metadata",
        "> /new -> /moved  moved",
        "~ /sst  1 chunk: [1,0,0]",
    ]


def test_diff_of_versions_in_the_wrong_order_or_apart(frazil_command: Frazil, ocean: Ocean) -> None:
    turned = frazil_command("diff", ocean.url, "dev", "v1")
    assert turned.code == 2
    assert f"diff URL {ocean.first[:8]} {ocean.third[:8]}" in turned.err
    session = ocean.open().writable_session("main")
    zarr.open_group(session.store, mode="r+").create_group("more")
    session.commit("apart")
    apart = frazil_command("diff", ocean.url, "main", "dev")
    assert apart.code == 2
    assert f"they part at {ocean.second[:8]}" in apart.err
    assert frazil_command("diff", f"{ocean.url}@v1", "main", "dev").code == 2
    assert frazil_command("diff", ocean.url, "main", "main").code == 2


def test_status_lists_refs_and_availability(frazil_command: Frazil, ocean: Ocean) -> None:
    data = frazil_command("status", ocean.url, "--json").data
    assert data["spec_version"] == 2
    assert data["availability"] == "online"
    assert data["branches"] == {"dev": ocean.third, "main": ocean.second}
    assert data["tags"] == {"v1": ocean.first}
    repo = ocean.open()
    repo.set_metadata({"owner": "someone"})
    availability = frazil.RepoAvailability.read_only
    repo.set_status(frazil.RepoStatus(availability, limited_availability_reason="moving house"))
    text = frazil_command("status", ocean.url).out
    assert "read_only: moving house" in text
    assert '"owner": "someone"' in text


def test_reflog_lists_operations(frazil_command: Frazil, still_ocean: Ocean) -> None:
    data = frazil_command("reflog", still_ocean.url, "--json").data
    assert [each["type"] for each in data["updates"]] == [
        "new-commit",
        "branch-created",
        "tag-created",
        "new-commit",
        "new-commit",
        "repo-initialized",
    ]
    assert data["updates"][0]["details"] == {"branch": "dev", "new_snap_id": still_ocean.third}
    assert "branch dev, snapshot" in frazil_command("reflog", still_ocean.url).out
    assert "--limit 0" in frazil_command("reflog", still_ocean.url, "-n", "2").err


def test_version_one_has_history_but_no_reflog(frazil_command: Frazil, tmp_path: Path) -> None:
    old = make_ocean(tmp_path / "old", spec=1)
    assert frazil_command("status", old.url, "--json").data["spec_version"] == 1
    assert len(frazil_command("log", old.url, "--json").data["snapshots"]) == 3
    said = frazil_command("reflog", old.url)
    assert said.code == 5
    assert "upgrade" in said.err


def test_messages_cannot_move_the_cursor(frazil_command: Frazil, tmp_path: Path) -> None:
    url = str(tmp_path / "r")
    repo = frazil.Repository.create(url)
    session = repo.writable_session("main")
    zarr.create_group(session.store)
    session.commit("\x1b[2J[red]evil\x07")
    for command in ("log", "show"):
        said = frazil_command(command, url)
        assert "\x1b" not in said.out
        assert "\\x1b[2J[red]evil\\x07" in said.out
