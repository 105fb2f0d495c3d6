"""Rows are written while their snapshot is in history, and a failure to do so harms no commit."""

from __future__ import annotations

import logging

import numpy as np
import pytest

from frazil.arrays import StructRows
from frazil.ids import SnapshotId
from frazil.repository import Repository
from frazil.statistics.files import list_files, load_file
from frazil.statistics.publishing import publish_rows, store_rows
from frazil.statistics.records import blank_rows, decoding_of
from frazil.storage.memory import MemoryStorage
from frazil.storage.wrapped import ReadOnlyStorage
from frazil.transaction.context import Context
from frazil.transaction.opened import context_of
from tests.support.ages import AT_ONCE
from tests.unit.statistics.samples import all_coords, files, known, make, row_count, write

VALUES = np.arange(1.0, 50.0).reshape(7, 7)
COORDS = all_coords((7, 7), (3, 3))
ONE, OTHER = bytes(16), bytes([1]) * 16


def tip_of(repo: Repository) -> tuple[Context, SnapshotId]:
    """The parts of a repository, and its newest snapshot."""
    return context_of(repo), SnapshotId.parse(repo.lookup_branch("main"))


def rows(*lengths: int) -> StructRows:
    """Rows about chunks of some lengths."""
    made = blank_rows(len(lengths))
    made["length"] = lengths
    return made


def test_rows_of_a_decoding_become_one_file(storage: MemoryStorage) -> None:
    context, tip = tip_of(make(storage))
    held = {ONE: [rows(1, 2), rows(), rows(3)], OTHER: [rows(4)]}
    assert store_rows(context, held, tip) == 2
    found = {item.key.split("/")[-2]: load_file(storage, item) for item in list_files(storage)}
    one, other = found[ONE.hex()], found[OTHER.hex()]
    assert one is not None
    assert other is not None
    assert sorted(one["length"].tolist()) == [1, 2, 3]
    assert other["length"].tolist() == [4]


def test_without_rows_nothing_is_written(storage: MemoryStorage) -> None:
    context, tip = tip_of(make(storage))
    assert store_rows(context, {}, tip) == 0
    assert store_rows(context, {ONE: [], OTHER: [rows()]}, tip) == 0
    assert not files(storage)


def test_rows_of_a_snapshot_that_is_not_in_history_are_not_written(
    storage: MemoryStorage, spec: int
) -> None:
    context, _ = tip_of(make(storage, spec))
    assert store_rows(context, {ONE: [rows(1)]}, SnapshotId.random()) == 0
    assert not files(storage)


def test_whoever_writes_after_the_erasure_does_not_tell_it_either(
    storage: MemoryStorage,
) -> None:
    repo = make(storage)
    write(repo, "secret", VALUES)
    write(repo, "other", VALUES + 1)
    repo.audit.analyze("main", "/other")
    state = repo.readonly_session("main").state
    decoding = decoding_of(state.array("/secret"))
    assert decoding is not None

    def erase() -> None:
        Repository.open(storage).space.purge("secret", confirm="secret", unsafe_minimum_age=AT_ONCE)

    held: dict[bytes, list[StructRows]] = {}
    for answer in (
        rows for item in list_files(storage) if (rows := load_file(storage, item)) is not None
    ):
        held.setdefault(decoding.id, []).append(answer)
    told = np.concatenate(held[decoding.id])
    told["owner"][:, 0] ^= 1  # rows of somebody who analyzed what is erased now
    erase()
    assert not store_rows(state.context, {decoding.id: [told]}, state.base_id)
    assert row_count(storage) == 9
    assert known(Repository.open(storage), "other", COORDS).known.all()


def test_rows_that_cannot_be_written_are_only_a_warning(
    storage: MemoryStorage, caplog: pytest.LogCaptureFixture
) -> None:
    make(storage)
    context, tip = tip_of(Repository.open(ReadOnlyStorage(storage)))
    with caplog.at_level(logging.WARNING):
        publish_rows(context, {ONE: [rows(1)]}, tip)
    assert f"the statistics of {tip} could not be kept: this storage is read-only" in caplog.text
    assert not files(storage)
