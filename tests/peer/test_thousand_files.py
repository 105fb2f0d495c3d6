"""A thousand files in one commit: what xarray reads of them, we and the official package read."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import xarray as xr

from frazil.repository import Repository
from frazil.storage.local import LocalStorage
from tests.peer.conftest import PEERS, PartyOf
from tests.support.archive import many, of_files, seen
from tests.support.peer import official

pytestmark = [
    pytest.mark.peer,
    pytest.mark.soak,
    pytest.mark.filterwarnings("ignore::zarr.errors.ZarrUserWarning"),
]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a file for each of a thousand days."""
    made = tmp_path_factory.mktemp("thousand") / "files"
    many(made, 1000)
    return made


@pytest.fixture(scope="module")
def expected(files: Path) -> xr.Dataset:
    """What xarray reads of all files."""
    return of_files(files)


@pytest.mark.parametrize("how", ["by reference", "by copy"])
@pytest.mark.parametrize("name", ["p1", "p2v2"])
def test_a_thousand_files_in_one_commit(
    name: str, how: str, party_of: PartyOf, files: Path, expected: xr.Dataset, tmp_path: Path
) -> None:
    pytest.importorskip("pyspark")
    from frazil.spark import ingest, session

    number, spec = PEERS[name]
    repository = Repository.create(LocalStorage(tmp_path / "repo"), spec_version=spec)
    spark = session("local[2]", config={"spark.sql.shuffle.partitions": 2})
    url = str(tmp_path / "repo")
    if how == "by copy":
        ingest(f"{files}/*.nc", url, spark=spark, chunks={"time": 100, "x": 3}, compressor="zstd:3")
    else:
        report = ingest(f"{files}/*.nc", url, spark=spark)
        assert report.virtual_chunks == 1000
    assert len(list(repository.ancestry(branch="main"))) == 2
    found = seen(tmp_path / "repo")
    xr.testing.assert_identical(found.drop_attrs(), expected.drop_attrs())
    if how == "by copy":
        assert found.v.encoding["chunks"] == (100, 4, 3)
    party = party_of(official(number))
    values = party.call("values", tmp_path / "repo", files, array="v")
    np.testing.assert_array_equal(np.array(values, "f4"), expected.v)
    days = party.call("values", tmp_path / "repo", array="time")
    np.testing.assert_array_equal(np.array(days), np.arange(1000))
