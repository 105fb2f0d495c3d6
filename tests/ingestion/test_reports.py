"""What an ingest tells, while it works and afterwards: numbers that a user can check."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import xarray as xr
import zarr

from frazil.errors import ConflictError
from frazil.ingestion import pipeline
from frazil.ingestion.pipeline import run_request
from frazil.ingestion.plans import IngestMode, PlanOptions
from frazil.ingestion.reports import IngestRefusedError, IngestReport, IngestStatus
from frazil.ingestion.request import IngestRequest
from frazil.progress import Progress
from frazil.repository import Repository
from frazil.run import LocalRunner
from frazil.storage.local import LocalStorage
from tests.support.archive import archive, decoded, opened, seen, take
from tests.support.stepping import InterruptedStorage, Moment

DATA = ("t2m", "rain", "mask")
LABELS = ("time", "lat", "lon")


def stored_bytes(file: Path, *names: str) -> int:
    """What variables take in a file, as its own library says."""
    with h5py.File(file) as found:
        return sum(found[name].id.get_storage_size() for name in names)


def memory_bytes(repo: Path, *names: str) -> int:
    """What the values of arrays take."""
    group = zarr.open_group(opened(repo).readonly_session("main").store, mode="r")
    sizes = [np.asarray(group[name][...]).nbytes for name in names]  # type: ignore[index]
    return sum(sizes)


def told(repo: Path, files: Sequence[Path], **request: Any) -> list[Progress]:  # noqa: ANN401
    """Everything that an ingest tells while it works."""
    found: list[Progress] = []
    asked = IngestRequest([str(file) for file in files], **request)
    run_request(LocalStorage(repo), asked, LocalRunner(), found.append)
    return found


def of_step(found: Sequence[Progress], step: str) -> list[Progress]:
    return [each for each in found if each.what == step]


def test_the_report_of_references_counts_what_they_refer_to(tmp_path: Path) -> None:
    files, repo = archive(tmp_path / "files"), tmp_path / "repo"
    report = take(repo, *files)
    referred = sum(stored_bytes(file, "t2m", "rain") for file in files)
    assert (report.virtual_chunks, report.native_chunks) == (13, 0)
    assert report.referenced_bytes == referred + stored_bytes(files[0], "mask")
    assert report.copied_bytes == memory_bytes(repo, *LABELS)


def test_the_report_of_a_copy_counts_what_was_copied(tmp_path: Path) -> None:
    files, repo = archive(tmp_path / "files"), tmp_path / "repo"
    report = take(repo, *files, wanted={"mode": "native", "chunks": {"time": 4}})
    assert (report.virtual_chunks, report.native_chunks) == (0, 3 + 3 + 1)
    assert report.referenced_bytes == 0
    assert report.copied_bytes == memory_bytes(repo, *DATA, *LABELS)
    assert report.containers == report.added_containers == ()


def test_the_report_tells_how_long_it_took(tmp_path: Path) -> None:
    files = archive(tmp_path / "files", 1)
    started = time.monotonic()
    report = take(tmp_path / "repo", *files)
    assert 0 < report.seconds <= time.monotonic() - started


def test_progress_begins_before_the_first_file_and_ends_with_the_commit(tmp_path: Path) -> None:
    found = told(tmp_path / "repo", archive(tmp_path / "files"))
    assert found[0] == Progress("scanning", 0, 3)
    assert [each.done for each in of_step(found, "scanning")] == [0, 1, 2, 3]
    assert found[-1] == Progress("committing")
    assert {each.what for each in found} == {"scanning", "committing"}


def test_progress_of_a_copy_tells_regions_chunks_and_bytes(tmp_path: Path) -> None:
    repo = tmp_path / "repo"
    files = archive(tmp_path / "files")
    found = of_step(told(repo, files, wanted=PlanOptions(IngestMode.NATIVE)), "copying")
    assert found[0] == Progress("copying", 0, 3)
    assert [each.done for each in found] == [0, 1, 2, 3]
    assert found[-1].nbytes == memory_bytes(repo, *DATA)
    assert found[-1].chunks == 13


def test_only_arrays_with_many_references_leave_their_manifests_to_tasks(tmp_path: Path) -> None:
    files, repo = archive(tmp_path / "files"), tmp_path / "repo"
    found = told(repo, files, refs_by_tasks=6)
    steps = {each.what for each in found}
    assert steps - {"scanning", "committing"} == {f"writing manifests of {n}" for n in DATA[:2]}
    steps_of_rain = of_step(found, "writing manifests of rain")
    assert steps_of_rain[0] == Progress("writing manifests of rain", 0, 1)
    assert steps_of_rain[-1] == Progress(
        "writing manifests of rain",
        1,
        1,
        chunks=6,
        nbytes=sum(stored_bytes(file, "rain") for file in files),
    )
    xr.testing.assert_equal(seen(repo), decoded(0, 1, 2))


def test_what_is_appended_has_its_manifests_written_with_the_commit(tmp_path: Path) -> None:
    files, repo = archive(tmp_path / "files"), tmp_path / "repo"
    take(repo, *files[:2])
    found = told(repo, files[2:], append=True, refs_by_tasks=1)
    assert {each.what for each in found} == {"scanning", "committing"}
    xr.testing.assert_equal(seen(repo), decoded(0, 1, 2))


def test_the_first_files_of_a_group_may_be_appended(tmp_path: Path) -> None:
    files, repo = archive(tmp_path / "files", 2), tmp_path / "repo"
    take(repo, files[0], group="one")
    take(repo, files[0], group="two", append=True)
    take(repo, files[1], group="two", append=True)
    xr.testing.assert_equal(seen(repo, "two"), decoded(0, 1))


@pytest.mark.parametrize(("group", "name"), [("", "'/'"), ("days", "'/days'")])
def test_a_group_that_is_not_overwritten_is_named(tmp_path: Path, group: str, name: str) -> None:
    files, repo = archive(tmp_path / "files", 2), tmp_path / "repo"
    take(repo, files[0], group=group)
    with pytest.raises(IngestRefusedError, match=f"the group {name} has arrays already"):
        take(repo, files[1], group=group)


class Counting:
    """Counts the items of each step."""

    def __init__(self) -> None:
        self.counts: list[int] = []

    def run(
        self, work: Callable[[Any], Any], items: Sequence[Any], *, size_bytes: int = 0
    ) -> Iterator[tuple[int, Any]]:
        self.counts.append(len(items))
        return LocalRunner().run(work, items)

    def facts(self) -> dict[str, object]:
        return {}


@pytest.mark.parametrize(("count", "steps"), [(1, [1]), (2, [2, 2])])
def test_values_are_read_for_comparison_only_where_there_are_two(
    tmp_path: Path, count: int, steps: list[int]
) -> None:
    files, runner = archive(tmp_path / "files", count), Counting()
    run_request(LocalStorage(tmp_path / "repo"), IngestRequest([*map(str, files)]), runner)
    assert runner.counts == steps  # the scan; the mask of each file


def overtaken(repo: Path, file: Path, times: int) -> IngestReport:
    """Append a file while somebody writes labels right before so many of the commits."""

    def relabel() -> None:
        with Repository.open(LocalStorage(repo)).transaction("main", message="theirs") as store:
            labels = zarr.open_group(store)["time"]
            assert isinstance(labels, zarr.Array)
            labels[:] = labels[:]
        if storage.left:
            storage.left -= 1
            storage.moments.append(Moment("put_if", "repo", relabel))

    storage = Overtaken(LocalStorage(repo), [Moment("put_if", "repo", relabel)])
    storage.left = times - 1
    report = run_request(storage, IngestRequest([str(file)], append=True), LocalRunner())
    assert storage.is_over
    return report


class Overtaken(InterruptedStorage):
    """A storage on which somebody is quicker more than once."""

    left = 0


def test_an_ingest_plans_as_often_as_it_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files, repo = archive(tmp_path / "files", 2), tmp_path / "repo"
    take(repo, files[0])
    monkeypatch.setattr(pipeline, "PLANS", 2)
    with pytest.raises(ConflictError):
        overtaken(repo, files[1], 2)
    xr.testing.assert_equal(seen(repo), decoded(0))
    assert overtaken(repo, files[1], 1).status is IngestStatus.COMMITTED
    xr.testing.assert_equal(seen(repo), decoded(0, 1))


def test_a_file_that_cannot_be_read_is_named_once_with_the_way_on(tmp_path: Path) -> None:
    files = archive(tmp_path / "files", 2)
    odd = tmp_path / "files" / "odd.nc"
    odd.write_bytes(b"CDF\x01")
    with pytest.raises(IngestRefusedError) as refusal:
        take(tmp_path / "repo", *files, odd)
    told = str(refusal.value)
    assert told.count("odd.nc") == 1
    assert "on_error: skip" in told
    assert str(refusal.value.report).count("odd.nc") == 1
    with pytest.raises(IngestRefusedError) as alone:
        take(tmp_path / "repo", odd)
    assert "on_error" not in str(alone.value)
