"""Tasks link or copy the chunks of a repository from before spec 1."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import frazil
from frazil.errors import InvalidInputError
from frazil.progress import Progress
from frazil.repository import Repository
from frazil.spark import upgrade_older
from frazil.storage.local import LocalStorage
from tests.support.old_repositories import make_old, told


@pytest.mark.parametrize(("spec", "mode"), [("g1", "copy"), ("g2", "link")])
def test_chunks_are_moved_by_tasks(
    spec: str, mode: str, spark: SparkSession, tmp_path: Path
) -> None:
    place = LocalStorage(str(tmp_path))
    make_old(place, spec)
    before = told(Repository.open(place))
    steps: list[Progress] = []
    plan = upgrade_older(str(tmp_path), spark=spark, mode=mode, dry_run=True)
    report = upgrade_older(str(tmp_path), spark=spark, mode=mode, progress=steps.append)
    assert report.chunks == plan.chunks > 0
    assert steps[-1] == Progress("chunks", report.chunks, report.chunks)
    assert told(Repository.open(place)) == before
    links = {path.stat().st_nlink for path in (tmp_path / "chunks").iterdir()}
    assert links == {2 if mode == "link" else 1}
    with pytest.raises(frazil.FrazilError):
        upgrade_older(str(tmp_path), spark=spark)


def test_a_version_cannot_be_upgraded(spark: SparkSession, tmp_path: Path) -> None:
    make_old(LocalStorage(str(tmp_path)), "g2")
    with pytest.raises(InvalidInputError, match="leave the version out"):
        upgrade_older(f"{tmp_path}@v1", spark=spark)
