"""What old generations store as JSON is JSON, whatever Python would write."""

from __future__ import annotations

import json
import math
from typing import Any, NoReturn

import pytest

from frazil.repository import Repository
from frazil.storage.memory import MemoryStorage
from frazil.transaction.opened import context_of
from tests.support.generations import Spec
from tests.support.nodes import contents, group_document, write_keys

ODD = {"a": math.nan, "b": [1.5, math.inf, {"c": -math.inf}]}
SPELLED = {"a": "NaN", "b": [1.5, "Infinity", {"c": "-Infinity"}]}


def refuse(token: str) -> NoReturn:
    raise AssertionError(f"{token} is no JSON")


def strictly(text: bytes | str) -> Any:  # noqa: ANN401 - any JSON
    return json.loads(text, parse_constant=refuse)


def made(spec: Spec) -> MemoryStorage:
    storage = MemoryStorage()
    repository = Repository.create(storage, spec_version=spec)
    session = repository.writable_session("main")
    large = {**ODD, "text": "x" * 5000}
    write_keys(
        session, {"zarr.json": group_document(**ODD), "g/zarr.json": group_document(**large)}
    )
    # What will come back is seen at once, not only after the commit.
    before = contents(session)
    session.commit("odd", metadata=ODD)
    assert contents(Repository.open(storage).readonly_session("main")) == before
    return storage


@pytest.mark.parametrize("spec", ["g1", "g2"])
def test_numbers_that_json_lacks_are_texts(spec: Spec) -> None:
    storage = made(spec)
    for item in storage.list(""):
        if item.key.endswith(".json"):
            strictly(storage.get(item.key) or b"")
    repository = Repository.open(storage)
    assert next(iter(repository.ancestry(branch="main"))).metadata == SPELLED
    document = strictly(contents(repository.readonly_session("main"))["zarr.json"])
    assert document["attributes"] == SPELLED


def test_columns_of_g1_are_json_too() -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    pa = pytest.importorskip("pyarrow")
    storage = made("g1")
    found = 0
    for folder, column in (("s/", "inline_attrs"), ("a/", "attrs")):
        for item in storage.list(folder):
            table = parquet.read_table(pa.BufferReader(storage.get(item.key) or b""))
            texts = [text for text in table.column(column).to_pylist() if text is not None]
            found += len([*map(strictly, texts)])
    assert found >= 2


@pytest.mark.parametrize("spec", ["g2-msgpack", "g3", "3i"])
def test_messages_hold_them_as_they_are(spec: Spec) -> None:
    repository = Repository.open(made(spec))
    metadata = next(iter(repository.ancestry(branch="main"))).metadata
    assert math.isnan(metadata["a"])
    assert metadata["b"] == [1.5, math.inf, {"c": -math.inf}]
    document = json.loads(contents(repository.readonly_session("main"))["zarr.json"])
    assert math.isnan(document["attributes"]["a"])


@pytest.mark.parametrize("spec", ["g1", "g2"])
def test_files_of_others_that_are_no_json_are_mended_by_the_next_commit(
    spec: Spec,
) -> None:
    storage = made(spec)
    folder = "state.json" if spec == "g1" else "s/"
    keys = [item.key for item in storage.list("") if item.key.startswith(folder)]
    for key in keys:
        text = (storage.get(key) or b"").replace(b'"NaN"', b"NaN")
        storage.put(key, text)
    repository = Repository.open(storage)
    assert math.isnan(next(iter(repository.ancestry(branch="main"))).metadata["a"])
    session = repository.writable_session("main")
    write_keys(session, {"h/zarr.json": group_document()})
    session.commit("next")
    newest = (
        max(keys)
        if spec == "g1"
        else context_of(repository).key_in_place(f"snapshots/{repository.lookup_branch('main')}")
    )
    strictly(storage.get(newest) or b"")
