"""Names of old files that do not follow from ids: kept by kind, and never two for one id."""

from __future__ import annotations

import pytest

from frazil.errors import FormatError
from frazil.formats.legacy.records import Names
from frazil.ids import ChunkId, ManifestId, SnapshotId
from frazil.storage.legacy.name_book import NameBook

RAW = bytes(range(12))


def test_a_name_is_known_once_it_was_noted() -> None:
    book = NameBook()
    assert book.name("snapshots", SnapshotId(RAW)) is None
    book.note("snapshots", SnapshotId(RAW), "first")
    assert book.name("snapshots", SnapshotId(RAW)) == "first"
    assert book.name("manifests", ManifestId(RAW)) is None  # equal bytes of another kind


def test_an_id_that_two_names_lead_to_is_refused() -> None:
    book = NameBook()
    book.note("chunks", ChunkId(RAW), "one")
    book.note("chunks", ChunkId(RAW), "one")
    with pytest.raises(FormatError, match="two objects whose names lead to one id") as caught:
        book.note("chunks", ChunkId(RAW), "two")
    assert "one" in str(caught.value)
    assert "two" in str(caught.value)
    assert book.name("chunks", ChunkId(RAW)) == "one"


def test_names_of_a_file_are_added_to_those_of_others() -> None:
    first, second = SnapshotId.random(), SnapshotId.random()
    book = NameBook()
    book.note_all(Names({first: "a"}, {ManifestId(RAW): "m"}, {}))
    book.note_all(Names({first: "a", second: "b"}, {}, {ChunkId(RAW): "c"}))
    found = book.names()
    assert found.snapshots == {first: "a", second: "b"}
    assert (found.manifests, found.chunks) == ({ManifestId(RAW): "m"}, {ChunkId(RAW): "c"})
    with pytest.raises(FormatError):
        book.note_all(Names({second: "other"}, {}, {}))


def test_the_name_of_a_file_may_change_as_files_are_replaced() -> None:
    book = NameBook()
    assert book.file("manifests", ManifestId(RAW)) is None
    book.note_file("manifests", ManifestId(RAW), "m.parquet")
    book.note_file("manifests", ManifestId(RAW), "m.msgpack")
    assert book.file("manifests", ManifestId(RAW)) == "m.msgpack"
    assert book.name("manifests", ManifestId(RAW)) is None
    assert book.names() == Names()
