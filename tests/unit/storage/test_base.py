"""What every storage can do because of the contract, whatever its backend leaves out."""

from __future__ import annotations

from pathlib import Path

from frazil.storage.constructors import (
    in_memory_storage,
    local_filesystem_storage,
)


def test_listing_a_folder(tmp_path: Path) -> None:
    for storage in (in_memory_storage(), local_filesystem_storage(str(tmp_path / "repo"))):
        for key in ("chunks/A", "chunks/B", "chunky", "repo"):
            storage.put(key, b"xx")
        for prefix in ("chunks", "chunks/", "/chunks"):
            assert storage.list_objects(prefix=prefix) == [("A", 2), ("B", 2)]
        assert storage.list_objects(prefix="chunk") == []
        assert len(storage.list_objects(storage.default_settings())) == 4
        (found,) = storage.list_objects_metadata(prefix="chunks")[:1]
        assert (found.key, found.size_bytes) == ("A", 2)
        assert found.created_at.tzinfo is not None
