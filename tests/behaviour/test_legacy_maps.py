"""Repositories whose MessagePack structs are maps with the names of their fields.

The texts describe structs, not how they are spelled. What a repository has is what is written.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import msgpack
import numpy as np
import pytest
import zarr
import zstandard

from frazil.errors import ErrorKind, FormatError
from frazil.fsck import fsck
from frazil.repository import Repository
from frazil.storage.base import Storage
from frazil.storage.memory import MemoryStorage
from frazil.transaction.opened import context_of
from frazil.upgrade import upgrade_older
from tests.support.seed_files import G2, G3, Array, crockford, sequence

Value = Any
SNAPSHOT = {
    "metadata",
    "nodes",
    "properties",
    "short_term_history",
    "short_term_parents",
    "started_at",
    "total_parents",
}
ARRAY = {
    "shape",
    "data_type",
    "chunk_shape",
    "chunk_key_encoding",
    "fill_value",
    "codecs",
    "storage_transformers",
    "dimension_names",
}
FORMS: dict[str, Callable[[bytes], Value]] = {"numbers": list, "text": crockford}
CONTAINER = "s3://bucket/"


def arrays() -> list[Array]:
    plane = np.arange(48, dtype=np.int32).reshape(6, 8)
    return [
        Array("/plane", plane, (2, 3), attributes={"units": "K"}),
        Array("/line", np.arange(9, dtype=np.int32), (2,)),
    ]


def written(form: str, *, attribute_file: bool = False) -> MemoryStorage:
    """A repository as somebody else wrote it."""
    storage = MemoryStorage()
    made = G2(
        id_text=FORMS[form], suffix=".msgpack", is_message=True, attribute_file=attribute_file
    )
    made.write(storage, arrays())
    return storage


def is_spelled(form: str, id: Value) -> bool:
    """Whether an id has the form of the repository."""
    return len(id) == 16 if form == "numbers" else isinstance(id, str)


def files(storage: Storage, folder: str) -> dict[str, bytes]:
    return {item.key: storage.get(item.key) or b"" for item in storage.list(folder)}


def body(blob: bytes) -> Value:
    return msgpack.unpackb(blob, strict_map_key=False, use_list=False)


def write_more(storage: Storage) -> None:
    session = Repository.open(storage).writable_session("main")
    group = zarr.open_group(session.store)
    group["plane"][0, 0] = 1000  # type: ignore[index]
    new = group.create_array("new", shape=(300,), chunks=(150,), dtype="i4", compressors=None)
    new[:] = np.arange(300)
    session.store.set_virtual_ref(
        "line/c/0", f"{CONTAINER}f.nc", offset=4, length=8, validate_container=False
    )
    session.commit("more", {"who": "me"})


def check(storage: Storage) -> None:
    group = zarr.open_group(Repository.open(storage).readonly_session("main").store, mode="r")
    plane, line = (array.expected() for array in arrays())
    plane[0, 0] = 1000
    assert np.asarray(group["plane"][...]).tolist() == plane.tolist()  # type: ignore[index]
    assert np.asarray(group["line"][2:]).tolist() == line[2:].tolist()  # type: ignore[index]
    assert np.asarray(group["new"][...]).tolist() == [*range(300)]  # type: ignore[index]
    assert dict(group["plane"].attrs) == {"units": "K"}


@pytest.mark.parametrize("attribute_file", [False, True])
@pytest.mark.parametrize("form", FORMS)
def test_commits_write_maps_where_a_repository_has_maps(form: str, attribute_file: bool) -> None:
    storage = written(form, attribute_file=attribute_file)
    before = {key for folder in "smra" for key in files(storage, f"{folder}/")}
    write_more(storage)
    check(storage)
    (key,) = files(storage, "s/").keys() - before
    snapshot = body(files(storage, "s/")[key])
    assert snapshot.keys() == SNAPSHOT
    assert snapshot["metadata"].keys() == {"id", "message", "written_at"}
    for entry in (snapshot["metadata"], *snapshot["short_term_history"]):
        assert entry.keys() == {"id", "message", "written_at"}
        assert is_spelled(form, entry["id"])
    assert snapshot["short_term_history"][0]["message"] == "commit 1"
    assert snapshot["properties"]["who"] == "me"
    for path, node in snapshot["nodes"].items():
        assert node.keys() == {"id", "path", "user_attributes", "node_data"}
        if path == "/":
            continue
        metadata, manifests = node["node_data"]["Array"]
        assert metadata.keys() == ARRAY
        assert all(codec.keys() == {"name", "configuration"} for codec in metadata["codecs"])
        for ref in manifests:
            assert ref.keys() == {"object_id", "flags", "extents"}
            assert is_spelled(form, ref["object_id"])
    (kind,) = snapshot["nodes"]["/plane"]["user_attributes"]
    assert kind == ("Ref" if attribute_file else "Inline")
    if attribute_file:
        where = snapshot["nodes"]["/plane"]["user_attributes"]["Ref"]
        assert where.keys() == {"object_id", "location", "flags"}
        assert is_spelled(form, where["object_id"])
    seen = set()
    made = files(storage, "m/")
    for name in made.keys() - before:
        manifest = body(made[name])
        assert manifest.keys() == {"chunks"}
        for payload in manifest["chunks"].values():
            ((kind, content),) = payload.items()
            seen.add(kind)
            if kind == "Ref":
                assert content.keys() == {"id", "offset", "length"}
                assert is_spelled(form, content["id"])
            elif kind == "Virtual":
                assert content == {"location": f"{CONTAINER}f.nc", "offset": 4, "length": 8}
            else:
                assert isinstance(content, bytes)
    assert seen == {"Ref", "Virtual", "Inline"}
    ref = json.loads(storage.get(f"r/main/{sequence(2)}.json") or b"")
    assert ref.keys() == {"properties", "snapshot", "timestamp"}
    assert is_spelled(form, ref["snapshot"])
    assert not files(storage, "a/").keys() - before
    assert fsck(storage).is_sound
    upgrade_older(storage)
    check(storage)


def test_who_has_not_read_the_repository_goes_on_in_the_same_form() -> None:
    """Tasks get the name of the form, not the files."""
    storage = written("numbers")
    generation = context_of(Repository.open(storage)).generation
    assert generation.full_name == "g2-maps"
    again = Repository.create(MemoryStorage(), spec_version=generation.full_name)
    assert context_of(again).generation == generation


def spoil(value: Value, how: str) -> Value:
    """A snapshot in a form that commits would not keep."""
    if how == "a field that no text has":
        return {**value, "comment": "mine"}
    if how == "some structs are lists":
        own = value["metadata"]
        return {**value, "metadata": [own["id"], own["written_at"], own["message"]]}
    node = value["nodes"]["/line"]
    metadata, manifests = node["node_data"]["Array"]
    data = {"Array": {"zarr_metadata": metadata, "manifests": manifests}}
    return {**value, "nodes": {**value["nodes"], "/line": {**node, "node_data": data}}}


@pytest.mark.parametrize(
    "how", ["a field that no text has", "some structs are lists", "arrays are maps"]
)
def test_a_form_that_would_not_be_kept_is_read_and_not_continued(how: str) -> None:
    storage = written("numbers")
    for key, blob in files(storage, "s/").items():
        value = msgpack.unpackb(blob, strict_map_key=False)
        if value["nodes"]:
            storage.put(key, msgpack.packb(spoil(value, how)))
    refuse_and_upgrade(storage)


def test_manifests_in_another_form_than_snapshots_are_not_continued() -> None:
    storage = written("text")
    for key, blob in files(storage, "m/").items():
        chunks = {
            at: {kind: [*content.values()] if kind == "Ref" else content}
            for at, payload in body(blob)["chunks"].items()
            for kind, content in payload.items()
        }
        storage.put(key, msgpack.packb([chunks]))
    refuse_and_upgrade(storage)


@pytest.mark.parametrize("wrapped", [False, True])
def test_maps_of_g3_are_read_and_not_continued(wrapped: bool) -> None:
    storage = MemoryStorage()
    writer = G3(header=27 if wrapped else 0, fields=9)
    writer.write(storage, arrays())
    for key, blob in files(storage, "snapshots/").items():
        raw = blob[27:] if wrapped else blob
        value = body(zstandard.ZstdDecompressor().decompress(raw) if wrapped else raw)
        storage.put(key, writer.wrapped(1, dict(zip(G3_FIELDS, value, strict=True))))
    refuse_and_upgrade(storage)


G3_FIELDS = (
    "manifest_files",
    "attribute_files",
    "total_parents",
    "short_term_parents",
    "short_term_history",
    "metadata",
    "started_at",
    "properties",
    "nodes",
)


def refuse_and_upgrade(storage: Storage) -> None:
    """Reading goes on, changes are refused before anything is written, an upgrade helps."""
    before = {item.key: storage.get(item.key) for item in storage.list("")}
    repository = Repository.open(storage)
    store = repository.readonly_session("main").store
    line = zarr.open_array(store, path="line", mode="r")
    assert np.asarray(line[...]).tolist() == [*range(9)]
    tip = repository.lookup_branch("main")
    changes: list[Callable[[], object]] = [
        lambda: repository.writable_session("main"),
        lambda: repository.create_branch("b", tip),
        lambda: repository.create_tag("t", tip),
        lambda: repository.reset_branch("main", tip),
    ]
    for change in changes:
        with pytest.raises(FormatError, match="can be read but not continued; upgrade") as raised:
            change()
        assert raised.value.kind == ErrorKind.UNSUPPORTED_SPEC_VERSION
    assert {item.key: storage.get(item.key) for item in storage.list("")} == before
    upgrade_older(storage)
    write_more(storage)
    check(storage)
