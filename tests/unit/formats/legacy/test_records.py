"""What records of the older generations tell beyond their fields."""

from __future__ import annotations

from dataclasses import replace

from frazil.formats.legacy.dialects import Dialect
from frazil.formats.legacy.records import Ancestor, AttributeRef, ManifestRecord
from frazil.ids import NodeId, SnapshotId
from frazil.model.chunks import ChunkTable, InlineRef
from tests.unit.formats.legacy.samples import small_snapshot


def test_times_lose_what_the_model_cannot_hold() -> None:
    """Rounding up could put a commit before its parent."""
    ancestor = Ancestor(SnapshotId(bytes(12)), 1_700_000_000_000_001_999, "x")
    assert ancestor.flushed_at == 1_700_000_000_000_001


def test_only_files_of_unresolved_attributes_have_to_be_read() -> None:
    refs = {"/a": AttributeRef("Z", 0), "/b": AttributeRef("Y", 0), "/c": AttributeRef("Z", 1)}
    record = replace(small_snapshot(Dialect.G3A), attributes=refs)
    assert record.attribute_files == ()
    assert replace(record, unresolved=frozenset({"/a", "/c"})).attribute_files == ("Z",)
    assert replace(record, unresolved=frozenset(refs)).attribute_files == ("Y", "Z")


def test_strays_are_references_too() -> None:
    def rows(ndim: int, count: int) -> ChunkTable:
        refs = [((n,) * ndim, InlineRef(b"")) for n in range(count)]
        return ChunkTable.from_refs(ndim, refs)

    first, second = NodeId(b"a" * 8), NodeId(b"b" * 8)
    tables, strays = {first: rows(2, 3), second: rows(1, 4)}, {first: [rows(1, 2), rows(3, 1)]}
    assert ManifestRecord(tables, Dialect.G3I, strays=strays).num_refs == 10
    assert ManifestRecord({}, Dialect.G3I).num_refs == 0
