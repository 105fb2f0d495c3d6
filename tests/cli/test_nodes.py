"""Looking at the data of a snapshot."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import zarr

import frazil
from tests.cli.conftest import Frazil, Ocean
from tests.support.nodes import array_document, write_keys


def test_ls_shows_groups_and_arrays_of_a_group(frazil_command: Frazil, still_ocean: Ocean) -> None:
    said = frazil_command("ls", still_ocean.url)
    assert said.code == 0
    assert said.out.splitlines() == [
        "name  type   dtype    shape      chunks     dimensions",
        "air/  group",
        "sst   array  float32  4 x 3 x 5  1 x 3 x 5  time, lat, lon",
    ]
    below = frazil_command("ls", still_ocean.url, "air", "--json").data
    assert [node["path"] for node in below["nodes"]] == ["/air/flag"]


def test_ls_of_an_array_shows_it(frazil_command: Frazil, still_ocean: Ocean) -> None:
    data = frazil_command("ls", f"{still_ocean.url}@v1", "/sst", "--json").data
    assert data["snapshot_id"] == still_ocean.first
    assert data["nodes"] == [
        {
            "path": "/sst",
            "type": "array",
            "dtype": "float32",
            "shape": [4, 3, 5],
            "chunks": [1, 3, 5],
            "dimension_names": ["time", "lat", "lon"],
        }
    ]


def test_ls_of_a_new_repository_is_empty(frazil_command: Frazil, tmp_path: Path) -> None:
    url = str(tmp_path / "new")
    assert frazil_command("init", url).code == 0
    assert frazil_command("ls", url, "--json").data["nodes"] == []


def test_shards_show_their_inner_chunks(frazil_command: Frazil, tmp_path: Path) -> None:
    repo = frazil.Repository.create(str(tmp_path / "r"))
    with repo.transaction("main", message="shards") as store:
        zarr.create_array(store, name="a", shape=(8,), chunks=(2,), shards=(4,), dtype="i4")
    [node] = frazil_command("ls", str(tmp_path / "r"), "--json").data["nodes"]
    assert (node["chunks"], node["inner_chunks"]) == ([4], [2])


def test_tree_draws_the_hierarchy(frazil_command: Frazil, still_ocean: Ocean) -> None:
    said = frazil_command("tree", still_ocean.url)
    assert said.out.splitlines() == [
        "/",
        "├── air",
        "│   └── flag int8 (2)",
        "└── sst float32 (time: 4, lat: 3, lon: 5)",
    ]
    shallow = frazil_command("tree", still_ocean.url, "--depth", "1", "--json").data
    assert [node["path"] for node in shallow["nodes"]] == ["/", "/air", "/sst"]


def test_stat_of_an_array_counts_its_chunks(frazil_command: Frazil, still_ocean: Ocean) -> None:
    data = frazil_command("stat", still_ocean.url, "sst", "--json").data
    assert data["attributes"] == {"units": "degC"}
    assert (data["chunks_total"], data["chunks_written"]) == (4, 2)
    assert data["storage"]["native"] == {"chunks": 2, "bytes": 2 * 60}
    text = frazil_command("stat", still_ocean.url, "sst").out
    assert "2 of 4 chunks" in text
    assert '"units": "degC"' in text


@pytest.mark.parametrize(
    ("path", "index", "kind"),
    [
        ("sst", "0,0,0", "native"),
        ("sst", "c/3/0/0", "uninitialized"),
        ("air/flag", "1", "inline"),
    ],
)
def test_stat_tells_where_a_chunk_is(
    frazil_command: Frazil, still_ocean: Ocean, path: str, index: str, kind: str
) -> None:
    data = frazil_command("stat", still_ocean.url, path, "--chunk", index, "--json").data
    assert data["type"] == kind
    if kind == "native":
        assert (still_ocean.path / data["key"]).stat().st_size >= data["length"]


def test_stat_refuses_a_chunk_outside_the_grid(frazil_command: Frazil, still_ocean: Ocean) -> None:
    said = frazil_command("stat", still_ocean.url, "sst", "--chunk", "4,0,0")
    assert said.code == 2
    assert "4 x 1 x 1" in said.err


def test_cat_prints_values_as_numpy_would(frazil_command: Frazil, still_ocean: Ocean) -> None:
    said = frazil_command("cat", still_ocean.url, "sst", "--region", "0, 1:, ::2")
    assert said.out == "[[[ 5.  7.  9.]\n  [10. 12. 14.]]]\n"
    assert said.err == ""


def test_cat_as_json_keeps_what_json_cannot_hold(
    frazil_command: Frazil, still_ocean: Ocean
) -> None:
    data = frazil_command("cat", still_ocean.url, "sst", "-r", "0:2,0,0", "--json").data
    assert data["values"] == [[[0.0]], [["NaN"]]]
    assert data["region"] == [[0, 2, 1], [0, 1, 1], [0, 1, 1]]
    assert not data["truncated"]


def test_cat_as_csv_has_index_columns(frazil_command: Frazil, still_ocean: Ocean) -> None:
    said = frazil_command("cat", f"{still_ocean.url}@dev", "sst", "--csv", "-r", "2,-1,3:")
    assert said.out.splitlines() == ["time,lat,lon,value", "2,2,3,7.0", "2,2,4,7.0"]


def test_cat_stops_at_its_limit_and_says_so(frazil_command: Frazil, still_ocean: Ocean) -> None:
    said = frazil_command("cat", still_ocean.url, "sst", "--limit", "7", "--json")
    assert np.array(said.data["values"]).shape == (1, 1, 5)
    assert said.data["truncated"]
    assert "[0:1, 0:1, 0:5] of 60 cells" in said.err


@pytest.mark.parametrize("region", ["0:x", "0,0,0,0", "9", "::0"])
def test_cat_refuses_a_region_that_makes_no_sense(
    frazil_command: Frazil, still_ocean: Ocean, region: str
) -> None:
    said = frazil_command("cat", still_ocean.url, "sst", "-r", region)
    assert (said.code, said.out) == (2, "")


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (np.array(["2024-05-01"], "M8[D]"), ["2024-05-01"]),
        (np.array([1 + 2j], "c8"), [[1.0, 2.0]]),
        (np.array([True]), [True]),
        (np.array([np.inf, -np.inf]), ["Infinity", "-Infinity"]),
        (np.array(["ü"], "U1"), ["ü"]),
    ],
)
def test_cat_writes_every_kind_of_value(
    frazil_command: Frazil, tmp_path: Path, values: np.ndarray, expected: list[object]
) -> None:
    url = str(tmp_path / "r")
    with frazil.Repository.create(url).transaction("main", message="values") as store:
        array = zarr.create_array(store, name="a", shape=values.shape, dtype=values.dtype)
        array[:] = values
    assert frazil_command("cat", url, "a", "--json").data["values"] == expected
    assert frazil_command("cat", url, "a").code == 0


def test_cat_of_a_scalar(frazil_command: Frazil, tmp_path: Path) -> None:
    url = str(tmp_path / "r")
    with frazil.Repository.create(url).transaction("main", message="scalar") as store:
        zarr.create_array(store, name="a", shape=(), dtype="i4")[...] = 5
    assert frazil_command("cat", url, "a").out == "5\n"
    assert frazil_command("cat", url, "a", "--csv").out == "value\n5\n"


def test_cat_of_an_unknown_codec_is_one_sentence(frazil_command: Frazil, tmp_path: Path) -> None:
    repo = frazil.Repository.create(str(tmp_path / "r"))
    session = repo.writable_session("main")
    document = json.loads(array_document(4))
    document["codecs"].append({"name": "sorcery", "configuration": {}})
    write_keys(session, {"a/zarr.json": json.dumps(document).encode()})
    session.commit("strange")
    said = frazil_command("cat", str(tmp_path / "r"), "a")
    assert said.code == 1
    assert "sorcery" in said.err


def test_cat_of_virtual_chunks_needs_leave(frazil_command: Frazil, tmp_path: Path) -> None:
    url, prefix = str(tmp_path / "r"), f"file://{tmp_path}/files/"
    make_virtual(tmp_path)
    refused = frazil_command("cat", url, "a")
    assert refused.code == 5
    assert prefix in refused.err
    for given in (prefix, str(tmp_path / "files")):  # a folder may be given as it is
        assert frazil_command("cat", url, "a", "--authorize", given).out == "[1 2 3 4]\n"
    unknown = frazil_command("cat", url, "a", "--authorize", "s3://elsewhere/")
    assert unknown.code == 3
    assert prefix in unknown.err


def make_virtual(root: Path) -> Path:
    """A repository whose only chunk is a part of a file; the file is returned."""
    file = root / "files" / "a.bin"
    file.parent.mkdir()
    file.write_bytes(b"head" + np.arange(1, 5, dtype="<i4").tobytes())
    config = frazil.RepositoryConfig()
    prefix = f"file://{root}/files/"
    config.set_virtual_chunk_container(
        frazil.VirtualChunkContainer(prefix, frazil.local_filesystem_store(str(file.parent)))
    )
    repo = frazil.Repository.create(str(root / "r"), config=config)
    repo.save_config()
    session = repo.writable_session("main")
    zarr.create_array(session.store, name="a", shape=(4,), dtype="i4", compressors=None)
    session.store.set_virtual_ref("a/c/0", f"{prefix}a.bin", offset=4, length=16)
    session.commit("virtual")
    return file


def test_du_sums_the_arrays_of_a_snapshot(frazil_command: Frazil, still_ocean: Ocean) -> None:
    data = frazil_command("du", still_ocean.url, "--json").data
    assert {each["path"]: each["stored_bytes"] for each in data["arrays"]} == {
        "/air/flag": 2,
        "/sst": 120,
    }
    assert data["total"]["chunks"] == 4
    below = frazil_command("du", still_ocean.url, "/air").out.splitlines()
    assert [line.split()[-1] for line in below] == ["array", "/air/flag", "total"]


def test_du_by_snapshot_tells_what_each_added(frazil_command: Frazil, still_ocean: Ocean) -> None:
    data = frazil_command("du", f"{still_ocean.url}@dev", "--snapshots", "--json").data
    assert [(each["id"], each["new_native_bytes"]) for each in data["snapshots"]][:3] == [
        (still_ocean.third, 120),
        (still_ocean.second, 60),
        (still_ocean.first, 60),
    ]


def test_du_of_everything_counts_objects(frazil_command: Frazil, still_ocean: Ocean) -> None:
    data = frazil_command("du", still_ocean.url, "--all", "--json").data
    assert data["referenced"]["native_bytes"] == 4 * 60
    assert data["objects"]["chunks"]["objects"] == len(
        list((still_ocean.path / "chunks").iterdir())
    )
    assert frazil_command("du", still_ocean.url, "--all", "--snapshots").code == 2


@pytest.mark.parametrize("command", ["ls", "tree", "stat", "cat", "du"])
def test_a_path_that_is_not_there_is_not_found(
    frazil_command: Frazil, still_ocean: Ocean, command: str
) -> None:
    said = frazil_command(command, still_ocean.url, "/airr")
    assert (said.code, said.out) == (3, "")
    assert "did you mean '/air'?" in said.err
