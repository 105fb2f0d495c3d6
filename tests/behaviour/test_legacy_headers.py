"""Files of G3 behind the headers that they have: as designed, as released, or none."""

from __future__ import annotations

import json
from typing import Any

import msgpack
import numpy as np
import pytest
import zarr
import zstandard

from frazil.repository import Repository
from frazil.storage.base import Storage
from frazil.storage.memory import MemoryStorage
from frazil.transaction.opened import context_of
from frazil.upgrade import upgrade_older
from tests.support.generations import Spec
from tests.support.seed_files import G3, MAGIC, Array, sequence

KINDS = {"snapshots/": 1, "manifests/": 2, "transactions/": 4}


def arrays() -> list[Array]:
    plane = np.arange(48, dtype=np.int32).reshape(6, 8)
    return [Array("/plane", plane, (2, 3)), Array("/line", np.arange(9, dtype=np.int32), (2,))]


def opened(blob: bytes, header: int, kind: int, *, is_packed: bool = True) -> Any:  # noqa: ANN401
    """The body of a file, as the design text describes it."""
    if header:
        assert blob[:12] == MAGIC
        name = blob[12 : header - 3]
        assert len(name.decode()) == header - 15
        assert name == name.rstrip().ljust(header - 15, b" ")
        assert [*blob[header - 3 : header]] == [1, kind, int(is_packed)]
        blob = blob[header:]
        if is_packed:
            blob = zstandard.ZstdDecompressor().decompressobj().decompress(blob)
    return msgpack.unpackb(blob, strict_map_key=False, use_list=False)


def files(storage: Storage) -> dict[str, bytes]:
    return {
        item.key: storage.get(item.key) or b"" for folder in KINDS for item in storage.list(folder)
    }


def write_more(storage: Storage) -> None:
    session = Repository.open(storage).writable_session("main")
    group = zarr.open_group(session.store)
    group["plane"][0, 0] = 1000  # type: ignore[index]
    group.create_array("new", shape=(3,), chunks=(1,), dtype="i4")[:] = [7, 8, 9]
    session.commit("more")


def check(storage: Storage, *, more: bool) -> None:
    group = zarr.open_group(Repository.open(storage).readonly_session("main").store, mode="r")
    for array in arrays():
        expected = array.expected()
        if more and array.path == "/plane":
            expected[0, 0] = 1000
        assert np.asarray(group[array.path][...]).tolist() == expected.tolist()  # type: ignore[index]
    if more:
        assert np.asarray(group["new"][...]).tolist() == [7, 8, 9]  # type: ignore[index]


@pytest.mark.parametrize("fields", [9, 11])
@pytest.mark.parametrize("is_packed", [True, False])
@pytest.mark.parametrize("header", [0, 27, 39])
def test_commits_write_the_headers_and_the_structs_that_a_repository_has(
    header: int, is_packed: bool, fields: int
) -> None:
    storage = MemoryStorage()
    G3(header=header, is_packed=is_packed, fields=fields).write(storage, arrays())
    before = files(storage)
    check(storage, more=False)
    write_more(storage)
    write_more_again = Repository.open(storage).writable_session("main")
    zarr.open_group(write_more_again.store).attrs["n"] = 1
    write_more_again.commit("again")
    check(storage, more=True)
    made = {key: blob for key, blob in files(storage).items() if key not in before}
    assert {key.split("/")[0] for key in made} >= {"snapshots", "manifests"}
    for key, blob in made.items():
        folder = next(folder for folder in KINDS if key.startswith(folder))
        body = opened(blob, header, KINDS[folder], is_packed=is_packed)
        if folder == "snapshots/":
            assert len(body) == fields
        elif folder == "manifests/":
            assert len(body) == 3
    upgrade_older(storage)
    check(storage, more=True)


def test_a_new_repository_is_written_as_both_texts_say() -> None:
    """The eleven fields of the one behind the 27 bytes of the other, down to every value."""
    storage = MemoryStorage()
    Repository.create(storage, spec_version="g3")
    session = Repository.open(storage).writable_session("main")
    group = zarr.create_group(session.store, attributes={"title": "t"})
    data = group.create_array(
        "a", shape=(4, 3), chunks=(2, 3), dtype="f4", fill_value=0, compressors=None
    )
    data[:2] = 1
    group.create_array("small", shape=(1,), chunks=(1,), dtype="i1", compressors=None)[:] = 5
    session.commit("first", metadata={"who": "me"})

    names = [item.key for item in storage.list("refs/")]
    assert names == [f"refs/branch.main/{sequence(n)}.json" for n in (1, 0)]
    tip = json.loads(storage.get(names[0]) or b"")
    root = json.loads(storage.get(names[1]) or b"")
    assert list(tip) == list(root) == ["snapshot"]
    assert not [*storage.list("transactions/")]

    body = opened(storage.get(f"snapshots/{tip['snapshot']}") or b"", 27, 1)
    version, flags, manifests, attributes, total, short, history, own, started, properties, nodes = body  # fmt: skip  # noqa: E501
    assert (version, flags, attributes, total, short) == (0, {}, (), 1, 1)
    assert [entry[0] for entry in history] == [root["snapshot"]]
    assert (own[0], own[2]) == (tip["snapshot"], "first")
    assert started.endswith("Z")
    assert properties["who"] == "me"
    assert sorted(nodes) == ["/", "/a", "/small"]
    number, path, user, node_data = nodes["/a"]
    assert (type(number), path, user) == (int, "/a", {"Inline": {}})
    metadata, refs = node_data["Array"]
    assert metadata[:5] == ((4, 3), "float32", (2, 3), "Slash", {"Float32": 0.0})
    assert nodes["/"][2:] == ({"Inline": {"title": "t"}}, "Group")
    assert {ref[0] for ref in refs} <= {file[0] for file in manifests}
    assert all(ref[1] == () for ref in refs)
    found: dict[Any, Any] = {}
    for file in manifests:
        version, flags, chunks = opened(storage.get(f"manifests/{file[0]}") or b"", 27, 2)
        assert (version, flags) == (0, {})
        found |= chunks
    native = found[number, (0, 0)]
    assert list(native) == ["Inline"] or len(native["Ref"]) == 3
    assert found[nodes["/small"][0], (0,)] == {"Inline": b"\x05"}


@pytest.mark.parametrize("spec", ["3a", "3a-27", "3a-39", "3b-27", "3c-27-plain", "3e", "3e-27"])
def test_dialects_and_headers_can_be_chosen(spec: Spec) -> None:
    storage = MemoryStorage()
    repository = Repository.create(storage, spec_version=spec)
    assert context_of(repository).generation.full_name == spec
    session = repository.writable_session("main")
    array = zarr.create_array(session.store, name="a", shape=(2,), chunks=(1,), dtype="i4")
    array[:] = [1, 2]
    session.commit("first")
    again = Repository.open(storage)
    if spec != "3c-27-plain":  # only virtual references tell 3c from 3b
        assert context_of(again).generation.full_name == spec
    found = zarr.open_array(again.readonly_session("main").store, path="a", mode="r")
    assert np.asarray(found[...]).tolist() == [1, 2]
