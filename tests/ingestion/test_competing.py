"""Two ingests at once: whatever was acknowledged is in, once, at its place."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import xarray as xr
import zarr

from frazil.errors import ConflictError, FrazilError
from frazil.ingestion.pipeline import run_request
from frazil.ingestion.plans import IngestMode, PlanOptions
from frazil.ingestion.reports import IngestReport, IngestStatus
from frazil.ingestion.request import IngestRequest
from frazil.repository import Repository
from frazil.run import LocalRunner
from frazil.storage.local import LocalStorage
from tests.support.archive import archive, decoded, opened, seen, take
from tests.support.stepping import InterruptedStorage, Moment, SteppingStorage

STEP = 4
"""A competitor comes in at each so-manieth storage call."""


class Competing(SteppingStorage):
    """A storage before one of whose calls somebody else does something; or before many."""

    def __init__(self, repo: Path, compete: Callable[[], object], at: int, every: int = 0) -> None:
        super().__init__(LocalStorage(repo), self._meet)
        self.compete = compete
        self.at = at
        self.every = every
        self.count = 0
        self.has_competed = False
        self.refusal: FrazilError | None = None
        """why the other one did nothing"""

    def _meet(self, _operation: str, _key: str) -> None:
        self.count += 1
        if self.count == self.at:
            self.at += self.every
            self.has_competed = True
            try:
                self.compete()
            except FrazilError as error:
                self.refusal = error


def append(storage: Competing, *files: Path, **request: Any) -> IngestReport:  # noqa: ANN401
    """Append files while somebody else is at work."""
    asked = IngestRequest([str(file) for file in files], **{"append": True, **request})
    return run_request(storage, asked, LocalRunner())


def change(repo: Path, act: Callable[[zarr.Group], object]) -> Callable[[], object]:
    """A commit of somebody who writes arrays."""

    def done() -> None:
        with Repository.open(LocalStorage(repo)).transaction("main", message="theirs") as store:
            act(zarr.open_group(store))

    return done


@pytest.mark.slow
@pytest.mark.parametrize("mode", [IngestMode.VIRTUAL, IngestMode.NATIVE])
def test_two_appends_at_once_follow_each_other(tmp_path: Path, mode: IngestMode) -> None:
    files = archive(tmp_path / "files", 5)
    for at in count(1, STEP):
        repo = tmp_path / f"repo-{at}"
        take(repo, files[0], wanted={"mode": mode})
        storage = Competing(
            repo,
            lambda repo=repo: take(repo, *files[1:3], wanted={"mode": mode}, append=True),  # type: ignore[misc]
            at,
        )
        append(storage, *files[3:], wanted=PlanOptions(mode))
        if not storage.has_competed:
            break
        acknowledged = [0, 3, 4] if storage.refusal is not None else [0, 1, 2, 3, 4]
        xr.testing.assert_equal(seen(repo), decoded(*acknowledged))
        again = take(repo, *(files[n] for n in acknowledged), append=True)
        assert again.status is IngestStatus.UNCHANGED
    assert at > 3 * STEP


@pytest.mark.slow
def test_two_who_make_the_repository_do_not_lose_each_others_files(tmp_path: Path) -> None:
    files = archive(tmp_path / "files", 4)
    for at in count(1, STEP):
        repo = tmp_path / f"repo-{at}"
        storage = Competing(
            repo,
            lambda repo=repo: take(repo, *files[:2], append=True),  # type: ignore[misc]
            at,
        )
        append(storage, *files[2:])
        if not storage.has_competed:
            break
        acknowledged = [2, 3] if storage.refusal is not None else [0, 1, 2, 3]
        xr.testing.assert_equal(seen(repo), decoded(*acknowledged))
    assert at > 3 * STEP


@pytest.mark.slow
def test_what_is_appended_to_a_branch_that_is_reset_is_planned_anew(tmp_path: Path) -> None:
    files = archive(tmp_path / "files", 4)
    for at in count(1, STEP):
        repo = tmp_path / f"repo-{at}"
        take(repo, files[0])
        repository = Repository.open(LocalStorage(repo))
        first = repository.lookup_branch("main")
        take(repo, files[1], append=True)
        storage = Competing(
            repo,
            lambda there=repository, to=first: there.reset_branch("main", to),  # type: ignore[misc]
            at,
        )
        append(storage, *files[2:])
        if not storage.has_competed:
            break
        assert seen(repo).sizes["time"] in (4, 12)  # after the commit it takes that back too
        if seen(repo).sizes["time"] == 12:
            xr.testing.assert_equal(seen(repo), decoded(0, 2, 3))
    assert at > 3 * STEP


@pytest.mark.slow
def test_a_file_that_somebody_else_was_quicker_with_is_left_out(tmp_path: Path) -> None:
    files = archive(tmp_path / "files", 4)
    for at in count(1, STEP):
        repo = tmp_path / f"repo-{at}"
        take(repo, files[0])
        storage = Competing(
            repo,
            lambda repo=repo: take(repo, *files[1:3], append=True),  # type: ignore[misc]
            at,
        )
        report = append(storage, *files[1:])
        if not storage.has_competed:
            break
        xr.testing.assert_equal(seen(repo), decoded(0, 1, 2, 3))
        assert len(report.files) + len(report.skipped) == 3
    assert at > 3 * STEP


def test_a_commit_to_another_group_costs_no_second_plan(tmp_path: Path) -> None:
    files, repo = archive(tmp_path / "files", 3), tmp_path / "repo"
    take(repo, files[0])
    plain = Competing(repo, lambda: None, 0)
    append(plain, files[1])
    elsewhere = change(repo, lambda root: root.create_array("o/a", shape=(2,), dtype="i4"))
    storage = Competing(repo, elsewhere, plain.count // 2)
    append(storage, files[2])
    assert storage.has_competed
    assert storage.count < plain.count * 2
    xr.testing.assert_equal(seen(repo), decoded(0, 1, 2))


@pytest.mark.slow
def test_a_new_variable_on_the_dimension_is_not_left_short(tmp_path: Path) -> None:
    files = archive(tmp_path / "files", 3)

    def add(root: zarr.Group) -> None:
        length = root["time"].shape[0]  # type: ignore[union-attr]
        made = root.create_array("wind", shape=(length,), dtype="f4", dimension_names=["time"])
        made[:] = 1

    for at in count(1, STEP):
        repo = tmp_path / f"repo-{at}"
        take(repo, files[0])
        storage = Competing(repo, change(repo, add), at)
        try:
            append(storage, *files[1:])
        except FrazilError as error:
            assert "wind" in str(error)  # noqa: PT017  (either may happen)
        if not storage.has_competed:
            break
        assert "wind" in seen(repo)  # and xarray can open the group
    assert at > 3 * STEP


def test_a_variable_made_right_before_the_commit_is_not_left_short(tmp_path: Path) -> None:
    files, repo = archive(tmp_path / "files", 2), tmp_path / "repo"
    take(repo, files[0])

    def add(root: zarr.Group) -> None:
        length = root["time"].shape[0]  # type: ignore[union-attr]
        made = root.create_array("wind", shape=(length,), dtype="f4", dimension_names=["time"])
        made[:] = 1

    storage = InterruptedStorage(LocalStorage(repo), [Moment("put_if", "repo", change(repo, add))])
    with pytest.raises(FrazilError, match="wind"):
        run_request(storage, IngestRequest([str(files[1])], append=True), LocalRunner())
    assert storage.is_over
    xr.testing.assert_equal(seen(repo).drop_vars("wind"), decoded(0))


def test_an_ingest_does_not_try_for_ever(tmp_path: Path) -> None:
    files, repo = archive(tmp_path / "files", 4), tmp_path / "repo"
    take(repo, *files[:2])

    def relabel(root: zarr.Group) -> None:
        time = root["time"]
        assert isinstance(time, zarr.Array)
        time[:] = time[:]

    storage = Competing(repo, change(repo, relabel), 8, every=4)
    with pytest.raises(ConflictError):
        append(storage, *files[2:])
    xr.testing.assert_equal(seen(repo), decoded(0, 1))


@pytest.mark.slow
def test_containers_of_two_ingests_are_both_kept(tmp_path: Path) -> None:
    folders = [tmp_path / name for name in ("one", "two", "three")]
    one, two, three = ([str(file) for file in archive(folder, 2)] for folder in folders)
    for at in count(1, STEP):
        repo = tmp_path / f"repo-{at}"
        take(repo, *one, group="first")
        storage = Competing(repo, lambda repo=repo: take(repo, *two, group="b"), at)  # type: ignore[misc]
        append(storage, *map(Path, three), group="a", append=False)
        if not storage.has_competed:
            break
        assert storage.refusal is None
        stored = opened(repo).config.virtual_chunk_containers or {}
        found = {prefix.removeprefix("file://").rstrip("/") for prefix in stored}
        assert found == {str(folder) for folder in folders}
        for group in ("first", "a", "b"):
            xr.testing.assert_equal(seen(repo, group), decoded(0, 1))
    assert at > 3 * STEP
