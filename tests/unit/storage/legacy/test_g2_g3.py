"""Files of G2 and G3 as other writers left them."""

from __future__ import annotations

import json
import logging
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from frazil.errors import InvalidInputError
from frazil.formats.legacy.dialects import Dialect, LegacyGeneration
from frazil.formats.legacy.manifest_writing import encode_manifest
from frazil.formats.legacy.manifests import decode_manifest
from frazil.formats.legacy.names import from_crockford
from frazil.formats.legacy.records import AttributeRef
from frazil.formats.legacy.snapshots import decode_snapshot, encode_snapshot
from frazil.ids import SnapshotId, crockford
from frazil.model.chunks import ChunkTable, InlineRef
from frazil.model.history import JSON
from frazil.repository import Repository
from frazil.storage.memory import MemoryStorage
from frazil.transaction.opened import context_of
from tests.support.ages import AT_ONCE
from tests.support.checks import check_repository
from tests.support.generations import Spec
from tests.support.nodes import array_document, contents, group_document, write_keys
from tests.unit.formats.legacy.samples import encode_attributes

TAIL = [1, 2, 3, 4]
G3 = LegacyGeneration.G3


def made(spec: Spec) -> Repository:
    repository = Repository.create(MemoryStorage(), spec_version=spec)
    session = repository.writable_session("main")
    keys = {"zarr.json": group_document(), "a/zarr.json": array_document(3, chunks=(1,))}
    write_keys(session, {**keys, "a/c/0": bytes(600), "a/c/1": b"in"})
    session.commit("first")
    return repository


def foreign(value: JSON) -> JSON:
    """The same document with ids whose last four bytes are not what ours would be."""
    if isinstance(value, dict):
        return {name: foreign(item) for name, item in value.items()}
    if isinstance(value, list):
        is_id = len(value) == 16 and all(type(item) is int and item < 256 for item in value)
        return [*value[:12], *TAIL] if is_id else [foreign(item) for item in value]
    return value


def renamed(key: str) -> str:
    folder, _, name = key.rpartition("/")
    stem, dot, extension = name.partition(".")
    raw = from_crockford(stem, 16)
    return key if raw is None else f"{folder}/{crockford(raw[:12] + bytes(TAIL))}{dot}{extension}"


def foreign_copy(storage: MemoryStorage) -> MemoryStorage:
    """A repository of G2 as one whose ids somebody else has made."""
    copy = MemoryStorage()
    for item in storage.list(""):
        data = storage.get(item.key) or b""
        if item.key.endswith(".json"):
            data = json.dumps(foreign(json.loads(data))).encode()
        copy.put(renamed(item.key), data)
    return copy


def test_ids_that_others_made_are_followed_and_kept() -> None:
    original = made("g2")
    assert isinstance(original.storage, MemoryStorage)
    storage = foreign_copy(original.storage)
    tip = original.lookup_branch("main")
    expected = contents(original.readonly_session("main"))
    for session in (
        Repository.open(storage).readonly_session("main"),
        Repository.open(storage).readonly_session(snapshot_id=tip),
    ):
        assert contents(session) == expected
    before = {item.key for item in storage.list("")}
    session = Repository.open(storage).writable_session("main")
    write_keys(session, {"a/c/2": bytes(700)})
    session.commit("ours")
    repository = Repository.open(storage)
    assert contents(repository.readonly_session("main")) == {**expected, "a/c/2": bytes(700)}
    assert [one.message for one in repository.ancestry(branch="main")][:2] == ["ours", "first"]
    repository.garbage_collect(datetime.now(UTC) + timedelta(days=1), unsafe_minimum_age=AT_ONCE)
    assert before <= {item.key for item in storage.list("")}
    check_repository(repository)


def test_references_from_another_process_keep_their_names() -> None:
    original = made("g2")
    assert isinstance(original.storage, MemoryStorage)
    storage = foreign_copy(original.storage)
    reader = Repository.open(storage).readonly_session("main").state
    table = reader.table(reader.array("/a"))
    session = Repository.open(storage).writable_session("main")
    write_keys(session, {"b/zarr.json": array_document(3, chunks=(1,))})
    session.state.set_table(session.state.array("/b"), table)
    session.commit("the same chunks")
    found = contents(Repository.open(storage).readonly_session("main"))
    assert found["b/c/0"] == bytes(600)


def test_files_with_another_extension_are_found() -> None:
    repository = made("g2")
    storage = repository.storage
    tip = SnapshotId.parse(repository.lookup_branch("main"))
    key = context_of(repository).key_in_place(f"snapshots/{tip}")
    storage.put(key.removesuffix(".json"), storage.get(key) or b"")
    storage.delete_many([key])
    again = Repository.open(storage)
    assert contents(again.readonly_session("main"))["a/c/1"] == b"in"


@pytest.mark.parametrize("spec", ["3a", "g3-unreleased"])
def test_a_first_snapshot_under_another_name_is_the_root(spec: Spec) -> None:
    repository = made(spec)
    storage = repository.storage
    root = list(repository.ancestry(branch="main"))[-1].id
    other = str(SnapshotId.random())
    storage.put(f"snapshots/{other}", storage.get(f"snapshots/{root}") or b"")
    storage.delete_many([f"snapshots/{root}"])
    storage.put("refs/branch.main/ZZZZZZZZ.json", json.dumps({"snapshot": other}).encode())
    again = Repository.open(storage)
    history = list(again.ancestry(branch="main"))
    assert [one.message for one in history] == ["first", "Repository initialized"]
    assert history[-1].id == other
    session = again.writable_session("main")
    write_keys(session, {"a/c/2": b"more"})
    session.commit("second")
    again.garbage_collect(datetime.now(UTC) + timedelta(days=1), unsafe_minimum_age=AT_ONCE)
    assert contents(Repository.open(storage).readonly_session("main"))["a/c/2"] == b"more"


def test_references_that_strayed_from_other_arrays_are_dropped_with_a_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    repository = made("3a")
    storage = repository.storage
    key = next(item.key for item in storage.list("manifests/"))
    record = decode_manifest(storage.get(key) or b"", key=key, generation=G3)
    node = next(iter(record.tables))
    stray = ChunkTable.from_refs(2, [((0, 0), InlineRef(b"?")), ((0, 1), InlineRef(b"?"))])
    alone = encode_manifest(replace(record, tables={node: stray}))
    rows = encode_manifest(record)
    # Both are [0, {}, map]: their maps are put together.
    assert (rows[:4], alone[:4]) == (b"\x93\x00\x80\x82", b"\x93\x00\x80\x82")
    storage.put(key, b"\x93\x00\x80\x84" + rows[4:] + alone[4:])
    with caplog.at_level(logging.WARNING):
        found = contents(Repository.open(storage).readonly_session("main"))
    assert (found["a/c/0"], found["a/c/1"]) == (bytes(600), b"in")
    assert "chunk references of other arrays" in caplog.text


@pytest.mark.parametrize("spec", ["g2", "3a", "g3", "3i"])
def test_attributes_in_a_file_of_their_own_are_read_and_kept(spec: Spec) -> None:
    repository = made(spec)
    storage, generation = repository.storage, context_of(repository).generation
    dialect = generation.dialect
    assert dialect is not None
    tip = SnapshotId.parse(repository.lookup_branch("main"))
    key = context_of(repository).key_in_place(f"snapshots/{tip}")
    blob = storage.get(key) or b""
    record = decode_snapshot(blob, key=key, generation=dialect.generation, id=tip)
    is_short = dialect.generation is G3
    file = crockford(bytes(range(12 if is_short else 16)))
    storage.put(
        f"{'attributes' if is_short else 'a'}/{file}",
        encode_attributes([{"x": 0}, {"units": "K"}], dialect),
    )
    storage.put(key, encode_snapshot(replace(record, attributes={"/a": AttributeRef(file, 1)})))
    again = Repository.open(storage)
    document = json.loads(contents(again.readonly_session("main"))["a/zarr.json"])
    assert document["attributes"] == {"units": "K"}
    session = again.writable_session("main")
    write_keys(session, {"a/c/2": b"more"})
    second = SnapshotId.parse(session.commit("second"))
    key = context_of(repository).key_in_place(f"snapshots/{second}")
    blob = storage.get(key) or b""
    found = decode_snapshot(blob, key=key, generation=dialect.generation, id=second)
    assert found.attributes == {"/a": AttributeRef(file, 1)}
    old = datetime.now(UTC) + timedelta(days=1)
    assert again.garbage_collect(old, unsafe_minimum_age=AT_ONCE).attributes_deleted == 0
    again.reset_branch("main", [*again.ancestry(branch="main")][-1].id)
    session = again.writable_session("main")
    write_keys(session, {"a/zarr.json": array_document(3, chunks=(1,))})
    session.commit("without")
    assert (
        again.garbage_collect(old, dry_run=True, unsafe_minimum_age=AT_ONCE).attributes_deleted == 1
    )
    assert again.garbage_collect(old, unsafe_minimum_age=AT_ONCE).attributes_deleted == 1
    check_repository(again)


@pytest.mark.parametrize("spec", ["g1", "g2", "g3", "3a"])
def test_what_cannot_be_held_is_refused_at_the_call_and_nothing_is_lost(spec: Spec) -> None:
    repository = made(spec)
    session = repository.writable_session("main")
    write_keys(session, {"a/c/2": b"mine"})
    document = json.loads(array_document(3))

    def put(**other: JSON) -> None:
        write_keys(session, {"b/zarr.json": json.dumps({**document, **other}).encode()})

    irregular = {"name": "rectilinear", "configuration": {"kind": "inline", "chunk_shapes": [[3]]}}
    with pytest.raises(InvalidInputError):
        write_keys(
            session, {"b/zarr.json": json.dumps({**document, "chunk_grid": irregular}).encode()}
        )
    extension = {"name": "numpy.datetime64", "configuration": {"unit": "s", "scale_factor": 1}}
    if spec != "g1":
        with pytest.raises(InvalidInputError, match="data_type"):
            write_keys(
                session, {"b/zarr.json": json.dumps({**document, "data_type": extension}).encode()}
            )
    dialect = context_of(repository).generation.dialect
    assert isinstance(dialect, Dialect)
    if not dialect.has_checksums:
        with pytest.raises(InvalidInputError, match="checksum"):
            session.store.set_virtual_ref(
                "a/c/0",
                "s3://bucket/file.nc",
                offset=0,
                length=9,
                checksum="etag",
                validate_container=False,
            )
    session.commit("mine")
    found = contents(Repository.open(repository.storage).readonly_session("main"))
    assert found["a/c/2"] == b"mine"
    assert "b/zarr.json" not in found
