"""Headers and zstd bodies: large files are packed part by part."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from frazil.flatbuf.tuning import WHOLE_BODY
from frazil.formats import envelope
from frazil.formats.txlog import decode_log, encode_log
from frazil.ids import NodeId, SnapshotId
from frazil.model.history import TransactionLog

NODE = NodeId(range(8))


def log_of(changed: int) -> TransactionLog:
    """A commit that changed so many chunks."""
    numbers = np.arange(changed, dtype=np.uint32)
    coords = np.stack([numbers // 1000, numbers % 1000], axis=1)
    return TransactionLog(SnapshotId(range(12)), updated_chunks={NODE: coords})


@pytest.mark.parametrize("part", [1, 1000, 1 << 20])
def test_a_file_packed_in_parts_is_the_same_file(
    monkeypatch: pytest.MonkeyPatch, part: int
) -> None:
    log = log_of(3000)
    at_once = envelope.unseal(encode_log(log, spec=2), None, key="log")
    monkeypatch.setattr(envelope, "WHOLE_BODY", 0)
    monkeypatch.setattr(envelope, "BODY_PART", part)
    blob = encode_log(log, spec=2)
    assert envelope.unseal(blob, None, key="log") == at_once
    found = decode_log(blob, key="log").updated_chunks[NODE]
    assert found.tolist() == log.updated_chunks[NODE].tolist()


def test_a_large_log_is_not_held_twice() -> None:
    log = log_of(3_000_000)
    size = 24 * 3_000_000
    assert size > WHOLE_BODY
    tracemalloc.start()
    blob = encode_log(log, spec=2)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1.5 * size + len(blob)
