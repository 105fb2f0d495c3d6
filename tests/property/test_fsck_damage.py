"""Whatever happens to its files, a check of a repository ends, and so does its repair."""

from __future__ import annotations

from functools import cache
from typing import Final

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from frazil.errors import FormatError, RepositoryNotFoundError
from frazil.formats.envelope import FileKind
from frazil.fsck import fsck, repair
from frazil.fsck.rebuilding_arrays import MissingChunks
from frazil.repository import Repository
from frazil.storage.memory import MemoryStorage
from tests.unit.fsck.samples import copy, make, patched

CHOICES: Final[tuple[MissingChunks, ...]] = ("drop", "older")


@cache
def healthy(spec: int) -> MemoryStorage:
    """The repository that is damaged each time."""
    storage = MemoryStorage()
    make(storage, spec)
    return storage


def flip(storage: MemoryStorage, key: str, at: float, bits: int, *, inside: bool) -> None:
    """Change a byte of a file, or of what it unpacks to."""
    blob = bytearray(storage.get(key) or b"\0")

    def edit(data: bytearray) -> None:
        if data:
            data[int(at * (len(data) - 1))] ^= bits

    if inside and key.split("/")[0] in ("snapshots", "manifests", "transactions", "repo"):
        storage.put(key, patched(bytes(blob), FileKind(blob[37]), edit))
    else:
        edit(blob)
        storage.put(key, bytes(blob))


@pytest.mark.parametrize("spec", [1, 2])
@settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(data=st.data())
def test_damage_ends_in_a_report_and_a_plan(spec: int, data: st.DataObject) -> None:
    storage = copy(healthy(spec))
    keys = sorted(item.key for item in storage.list(""))
    for _ in range(data.draw(st.integers(1, 3), "files")):
        key = data.draw(st.sampled_from(keys), "key")
        if storage.head(key) is None:
            continue
        if data.draw(st.integers(0, 4), "gone") == 0:
            storage.delete_many([key])
        else:
            at = data.draw(st.floats(0, 1), "at")
            bits = data.draw(st.integers(1, 255), "bits")
            inside = data.draw(st.booleans(), "inside")
            try:
                flip(storage, key, at, bits, inside=inside)
            except FormatError:
                continue  # it could not be unpacked any more
    try:
        report = fsck(storage)
    except RepositoryNotFoundError:
        return
    assert report.snapshots > 0 or report.findings
    choice = data.draw(st.sampled_from(CHOICES), "missing chunks")
    plan = repair(storage, missing_chunks=choice)
    assert str(plan)
    repair(storage, apply=True, missing_chunks=choice, expected=plan)
    assert repair(storage, missing_chunks=choice).is_empty
    assert Repository.open(storage).lookup_branch("main")
