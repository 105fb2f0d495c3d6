"""`frazil.ingest` as users call it: where to, onto which branch, and how far it is."""

from __future__ import annotations

from pathlib import Path

import pytest

import frazil
from frazil.errors import InvalidInputError
from frazil.ingestion.pipeline import branch_of
from frazil.progress import Progress
from tests.support.archive import archive


def test_the_branch_is_that_of_the_url_or_of_the_argument() -> None:
    assert branch_of(None, {}) == "main"
    assert branch_of("dev", {}) == "dev"
    assert branch_of(None, {"branch": "dev"}) == "dev"
    assert branch_of("dev", {"branch": "dev"}) == "dev"
    with pytest.raises(InvalidInputError, match="chosen twice"):
        branch_of("dev", {"branch": "main"})


def test_files_go_to_a_path_with_a_branch_and_progress_is_told(tmp_path: Path) -> None:
    file, *_ = archive(tmp_path / "files")
    place, seen = tmp_path / "repo", list[Progress]()
    frazil.ingest(file, f"{place}@dev", progress=seen.append)
    assert {each.what for each in seen} >= {"scanning", "committing"}
    repository = frazil.Repository.open(str(place))
    assert next(repository.ancestry(branch="dev")).message == f"Ingest {file.name}"
    assert repository.lookup_branch("main") != repository.lookup_branch("dev")
