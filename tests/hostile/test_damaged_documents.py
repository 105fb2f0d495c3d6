"""A damaged `zarr.json` is an error of ours that names the node, whoever meets it."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest
import zarr

from frazil.errors import FormatError, FrazilError, InvalidInputError
from frazil.formats.snapshot import decode_snapshot, encode_snapshot
from frazil.fsck import fsck
from frazil.repository import Repository
from frazil.storage.memory import MemoryStorage
from frazil.transaction.keyspace import KeySpace
from tests.support.nodes import array_document, group_document, write_keys


def _keys(repository: Repository) -> KeySpace:
    return KeySpace(repository.readonly_session("main").state)


GOOD = json.loads(array_document(4, chunks=(2,)))


def _without(name: str) -> bytes:
    return json.dumps({key: value for key, value in GOOD.items() if key != name}).encode()


def _with(**fields: object) -> bytes:
    return json.dumps({**GOOD, **fields}).encode()


DOCUMENTS = {
    "not-json": b'{"zarr_format": 3,',
    "not-utf8": b'\xff{"zarr_format": 3}',
    "a-list": b"[]",
    "a-number": b"7",
    "deep": b'{"attributes":' + b"[" * 100_000,
    "long-number": b'{"shape":[' + b"9" * 5000 + b"]}",
    "a-group": group_document(),
    "no-shape": _without("shape"),
    "no-grid": _without("chunk_grid"),
    "grid-text": _with(chunk_grid="regular"),
    "grid-list": _with(chunk_grid={"name": "regular", "configuration": []}),
    "grid-none": _with(chunk_grid={"name": "regular", "configuration": None}),
    "grid-rank": _with(chunk_grid={"name": "regular", "configuration": {"chunk_shape": [1, 1]}}),
    "shape-negative": _with(shape=[-1]),
    "shape-float": _with(shape=[1e300]),
    "shape-huge": _with(shape=[2**70]),
    "attributes-list": _with(attributes=[1]),
    "names-number": _with(dimension_names=3),
    "separator": _with(chunk_key_encoding={"name": "v2", "configuration": {"separator": 7}}),
}
USES: dict[str, Callable[[Repository, str, str], Any]] = {
    "bulk": lambda repo, old, new: repo.readonly_session("main").array("a")[:],
    "values": lambda repo, old, new: repo.versions.diff_values(old, new),
    "diff": lambda repo, old, new: repo.diff(from_snapshot_id=old, to_snapshot_id=new),
    "stats": lambda repo, old, new: repo.chunk_storage_stats(),
    "revert": lambda repo, old, new: repo.versions.revert(new),
    "list": lambda repo, old, new: list(_keys(repo).list_prefix("")),
}


def damaged(document: bytes) -> tuple[Repository, str, str]:
    """A repository whose newest snapshot has such a document, and its two snapshots."""
    storage = MemoryStorage()
    repository = Repository.create(storage, spec_version=1)
    ids = []
    for number in range(2):
        session = repository.writable_session("main")
        keys = {"zarr.json": group_document(), "a/zarr.json": array_document(4, chunks=(2,))}
        write_keys(session, {**keys, "a/c/0": bytes([number + 1, 2])})
        ids.append(session.commit("x"))
    key = f"snapshots/{ids[1]}"
    old = decode_snapshot(storage.get(key) or b"", key=key)
    nodes = [replace(n, user_data=document) if n.path == "/a" else n for n in old.nodes]
    storage.put(key, encode_snapshot(replace(old, nodes=tuple(nodes)), spec=1))
    return Repository.open(storage), ids[0], ids[1]


@pytest.mark.parametrize("name", DOCUMENTS)
@pytest.mark.parametrize("use", USES)
def test_whoever_meets_a_damaged_document_is_told_by_us(name: str, use: str) -> None:
    repository, old, new = damaged(DOCUMENTS[name])
    with suppress(FrazilError):
        USES[use](repository, old, new)


@pytest.mark.parametrize("name", DOCUMENTS)
def test_reading_names_the_array(name: str) -> None:
    repository, _, _ = damaged(DOCUMENTS[name])
    if name in ("names-number", "separator"):  # not needed for reading
        return
    with pytest.raises(FormatError, match=r"zarr\.json.*path=/a"):
        repository.readonly_session("main").array("a")[:]


@pytest.mark.parametrize("name", ["not-json", "not-utf8", "a-list", "deep"])
def test_zarr_is_not_handed_what_is_no_document(name: str) -> None:
    repository, _, _ = damaged(DOCUMENTS[name])
    with pytest.raises(FormatError, match=r"zarr\.json.*path=/a"):
        zarr.open_array(repository.readonly_session("main").store, path="a", mode="r")


@pytest.mark.parametrize("name", DOCUMENTS)
def test_a_check_finds_it(name: str) -> None:
    repository, _, _ = damaged(DOCUMENTS[name])
    report = fsck(repository, deep=True)
    if name not in ("attributes-list", "separator"):
        assert not report.is_sound


HALF = "x\ud800"


@pytest.mark.parametrize("spec", [1, 2])
def test_half_of_a_character_is_refused_and_nothing_moves(spec: int) -> None:
    repository = Repository.create(MemoryStorage(), spec_version=spec)
    head = repository.lookup_branch("main")
    session = repository.writable_session("main")
    write_keys(session, {"zarr.json": group_document()})
    for work in (
        lambda: session.commit(HALF),
        lambda: repository.create_branch(HALF, head),
        lambda: repository.create_tag(HALF, head),
    ):
        with pytest.raises(InvalidInputError):
            work()
    assert repository.lookup_branch("main") == head
    document = json.loads(array_document(1)) | {"dimension_names": [HALF]}
    write_keys(session, {"a/zarr.json": json.dumps(document).encode()})
    with pytest.raises(InvalidInputError, match="half of a character"):
        session.commit("m")
    assert repository.lookup_branch("main") == head
