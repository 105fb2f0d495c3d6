"""Which statistics go with chunks that were collected or erased."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from frazil.arrays import StructRows
from frazil.bulk.fetch import INLINE, NATIVE, VIRTUAL, ChunkReferences
from frazil.ids import ChunkId
from frazil.maintenance.chunk_statistics import forget_collected, forget_erased, left_to_tell
from frazil.maintenance.id_sets import ID_WIDTH, RowSet
from frazil.model.chunks import ChunkRef, ChunkTable, InlineRef, NativeRef, VirtualRef
from frazil.repository import Repository
from frazil.statistics.files import DroppedRows, list_files, load_file, store
from frazil.statistics.records import RANGE_WIDTH, blank_rows, located
from frazil.storage.memory import MemoryStorage
from frazil.transaction.context import Context
from frazil.transaction.opened import context_of
from tests.unit.maintenance.samples import commit_refs, later, make

DECODING = bytes(16)
HERE, GONE = ChunkId(b"h" * 12), ChunkId(b"g" * 12)


@pytest.fixture(params=[1, 2], ids=["v1", "v2"])
def repo(request: pytest.FixtureRequest, storage: MemoryStorage) -> Repository:
    """A repository with one chunk object."""
    made = make(storage, request.param)
    storage.put(f"chunks/{HERE}", bytes(8))
    return made


def row(kind: int, owner: bytes = b"") -> StructRows:
    """Statistics of a chunk."""
    made = blank_rows(1)
    made["kind"] = kind
    made["owner"][0, : len(owner)] = np.frombuffer(owner, np.uint8)
    return made


def rows_of(context: Context, *refs: ChunkRef) -> StructRows:
    """Statistics of the chunks that references name."""
    table = ChunkTable.from_refs(1, [((n,), ref) for n, ref in enumerate(refs)])
    return located(ChunkReferences.of(table), context.containers.expand)[0]


def keep(context: Context, *rows: StructRows) -> None:
    """Write a file of statistics."""
    assert store(context.place, DECODING, np.concatenate(rows))


def kinds(context: Context) -> list[int]:
    """Kinds of the chunks of which something is told."""
    found = [load_file(context.place, item) for item in list_files(context.place)]
    return sorted(int(kind) for rows in found if rows is not None for kind in rows["kind"])


def ids(*names: ChunkId) -> RowSet:
    found = RowSet()
    found.add_ids(names)
    return found


def ranges(*names: ChunkId) -> RowSet:
    """Erased ranges of objects."""
    found = RowSet(RANGE_WIDTH)
    plain = np.zeros((len(names), RANGE_WIDTH), np.uint8)
    for place, name in enumerate(names):
        plain[place, :ID_WIDTH] = np.frombuffer(name, np.uint8)
    found.add(plain)
    return found


# --- collected ---


def test_statistics_of_objects_that_were_deleted_go(repo: Repository) -> None:
    context = context_of(repo)
    keep(context, row(NATIVE, HERE), row(NATIVE, GONE), row(VIRTUAL), row(INLINE))
    assert forget_collected(context, ids(GONE), later()) == DroppedRows(1, 1)
    assert kinds(context) == [NATIVE, VIRTUAL, INLINE]


def test_objects_that_a_listing_does_not_show_are_gone(repo: Repository) -> None:
    context = context_of(repo)
    keep(context, row(NATIVE, HERE), row(NATIVE, GONE))
    assert forget_collected(context, None, later()).rows == 1
    assert kinds(context) == [NATIVE]
    assert forget_collected(context, None, later()) == DroppedRows()


def test_other_chunks_stay_while_a_manifest_has_them(repo: Repository) -> None:
    context = context_of(repo)
    virtual, inline = VirtualRef("s3://bucket/a", 0, 8, "tag"), InlineRef(b"abc")
    keep(context, rows_of(context, virtual, inline), row(NATIVE, HERE))
    commit_refs(repo, {(0,): virtual, (1,): NativeRef(HERE, 0, 8)})
    assert forget_collected(context, None, later()).rows == 1
    assert kinds(context) == [NATIVE, VIRTUAL]


def test_a_manifest_that_cannot_be_read_may_have_them_all(
    repo: Repository, storage: MemoryStorage
) -> None:
    context = context_of(repo)
    keep(context, row(VIRTUAL), row(INLINE), row(NATIVE, GONE))
    storage.put("manifests/damaged", b"garbage")
    assert forget_collected(context, None, later()).rows == 1
    assert kinds(context) == [VIRTUAL, INLINE]


def test_files_written_since_are_left_alone(repo: Repository) -> None:
    context = context_of(repo)
    keep(context, row(NATIVE, GONE))
    before = datetime.now(UTC) - timedelta(hours=1)
    assert forget_collected(context, ids(GONE), before) == DroppedRows()
    assert forget_collected(context, None, before) == DroppedRows()
    assert kinds(context) == [NATIVE]


# --- erased ---


@pytest.mark.parametrize("sources", [False, True])
def test_all_that_may_tell_of_erased_bytes_goes(repo: Repository, sources: bool) -> None:
    context = context_of(repo)
    keep(context, row(NATIVE, HERE), row(NATIVE, GONE), row(INLINE), row(VIRTUAL))
    assert len(left_to_tell(context, ranges(GONE))) == 1
    forget_erased(context, ranges(GONE), sources=sources)
    assert kinds(context) == [NATIVE] + [VIRTUAL] * (not sources)
    assert left_to_tell(context, ranges(GONE)) == []
    assert len(left_to_tell(context, ranges(HERE))) == 1


def test_bytes_in_manifests_are_told_of_even_if_no_object_was_erased(repo: Repository) -> None:
    context = context_of(repo)
    keep(context, row(INLINE))
    [key] = left_to_tell(context, ranges())
    assert key == list_files(context.place)[0].key
    assert forget_erased(context, ranges(), sources=False).rows == 1
    assert left_to_tell(context, ranges()) == []
