"""What jobs on Spark make, as official packages see it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import zarr
from pyspark.sql import SparkSession

from frazil.repository import Repository
from frazil.spark import clone, rechunk
from frazil.storage.local import LocalStorage
from tests.peer.conftest import PEERS, PartyOf
from tests.support.peer import official

pytestmark = pytest.mark.peer


@pytest.mark.parametrize("name", ["p1", "p2v2"])
def test_rechunked_and_cloned_repositories_are_read(
    name: str, party_of: PartyOf, spark: SparkSession, tmp_path: Path
) -> None:
    number, spec = PEERS[name]
    repository = Repository.create(LocalStorage(tmp_path / "repo"), spec_version=spec)
    writing = repository.writable_session("main")
    values = np.random.default_rng(4).normal(size=(30, 40))
    zarr.create_array(writing.store, name="v", data=values, chunks=(1, 40))
    writing.commit("made")
    url = str(tmp_path / "repo")
    # Little memory, so that it goes through the shuffle.
    report = rechunk(url, "v", (30, 2), spark=spark, max_memory=30 * 2 * 8 * 4)
    assert report.shuffled == ("/v",)
    clone(url, str(tmp_path / "one"), spark=spark)
    clone(url, str(tmp_path / "all"), spark=spark, all_history=True)
    party = party_of(official(number))
    for place in ("repo", "one", "all"):
        assert party.call("values", tmp_path / place, array="v") == values.tolist()
    history = party.call("history", tmp_path / "all")
    assert len(history) == len(party.call("history", tmp_path / "repo")) == 3
    party.call("new_array", tmp_path / "one", array="w", length=3)
    assert {"v", "w"} <= set(
        zarr.open_group(Repository.open(tmp_path / "one").readonly_session("main").store, mode="r")
    )
