"""An index of chunks that HDF5 does not search as it is listed is refused, whatever is read of it.

The corpus of odd files has the kinds of damage; here is what it does not reach.
"""

from __future__ import annotations

from pathlib import Path

import h5py
import numpy as np
import pytest

from frazil.errors import InvalidInputError
from frazil.ingestion import hdf_chunks
from frazil.ingestion.records import FileScan, Outcome, ScanFailure, ScanTask
from frazil.ingestion.scan import _scanned
from frazil.ingestion.sources import as_url
from tests.support.archive import take
from tests.support.odd import CASES

DAMAGED = ("hdf5/index-out-of-order", "hdf5/index-cut-off")
SOUND = ("hdf5/chunked-<i4", "hdf5/newest", "hdf5/sparse")


def scanned(folder: Path, name: str, load: tuple[str, ...] = ()) -> Outcome:
    (case,) = (each for each in CASES if each.name == name)
    return _scanned({}, ScanTask(as_url(case.make(folder)), load=load))


@pytest.mark.parametrize("name", DAMAGED)
def test_variables_that_are_loaded_are_looked_at_too(tmp_path: Path, name: str) -> None:
    found = scanned(tmp_path, name, load=("v",))
    assert isinstance(found, ScanFailure)
    assert "does not find all chunks" in found.error


@pytest.mark.parametrize("name", [*DAMAGED, *SOUND])
def test_a_library_that_shows_no_names_is_asked_by_reading(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(hdf_chunks, "_search", lambda: None)
    found = scanned(tmp_path, name)
    assert isinstance(found, ScanFailure if name in DAMAGED else FileScan)


def test_this_library_shows_its_names() -> None:
    assert hdf_chunks._search() is not None


def test_chunks_that_skipped_a_filter_are_refused(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        made = file.create_dataset("v", shape=(4,), chunks=(2,), dtype="i4", compression="gzip")
        made[:2] = [1, 2]
        made.id.write_direct_chunk((2,), np.array([3, 4], "<i4").tobytes(), filter_mask=1)
    with pytest.raises(InvalidInputError, match="skipped a filter"):
        take(tmp_path / "repo", tmp_path / "a.h5")
