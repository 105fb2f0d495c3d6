"""Merges of old chunks look at the snapshots they rely on, not at each chunk."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

from frazil.storage.local import LocalStorage
from frazil.testing.faulty import FaultyStorage
from tests.support.branches import Branches
from tests.support.nodes import array_document, contents, group_document

CHUNKS = 40


def test_a_merge_of_old_chunks_asks_for_none_of_them(tmp_path: Path) -> None:
    storage = FaultyStorage(LocalStorage(tmp_path, durability="none"))
    made = Branches(2, storage=storage)
    made.commit("main", {"zarr.json": group_document(), "a/zarr.json": array_document(CHUNKS)})
    made.branch("side")
    written: dict[str, bytes | None] = {f"a/c/{at}": b"native" * 200 for at in range(CHUNKS)}
    made.commit("side", written)
    made.commit("main", {"b/zarr.json": array_document(1)})
    last_week = (datetime.now(UTC) - timedelta(days=7)).timestamp()
    for file in (tmp_path / "chunks").iterdir():
        os.utime(file, (last_week, last_week))
    storage.calls.clear()
    made.repository.merge("side")
    looks = [key for name, key in storage.calls if name == "head" and key.startswith("chunks/")]
    assert looks == []
    assert written.items() <= contents(made.repository.readonly_session("main")).items()
