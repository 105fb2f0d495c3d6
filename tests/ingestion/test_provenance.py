"""Which files are in: known after history was shortened, forgotten when it was taken back."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
import xarray as xr
import zarr

from frazil.ingestion.reports import IngestStatus
from frazil.repository import Repository
from frazil.storage.local import LocalStorage
from tests.support.archive import archive, decoded, seen, take


def ids(repository: Repository) -> list[str]:
    """Snapshots of main, newest first."""
    return [entry.id for entry in repository.ancestry(branch="main")]


def expire(repository: Repository) -> None:
    time.sleep(0.01)
    repository.expire_snapshots(datetime.now(UTC))


def squash(repository: Repository) -> None:
    repository.versions.squash("main", ids(repository)[-1])


def amend(repository: Repository) -> None:
    repository.rewrite_manifests("rewritten", branch="main", commit_method="amend")


@pytest.mark.parametrize("shorten", [expire, squash, amend])
def test_files_are_known_after_history_was_shortened(
    tmp_path: Path, shorten: Callable[[Repository], None]
) -> None:
    files, repo = archive(tmp_path / "files", 4), tmp_path / "repo"
    for number, file in enumerate(files[:3]):
        take(repo, file, append=number > 0)
    shorten(Repository.open(LocalStorage(repo)))
    assert take(repo, *files[:3], append=True).status is IngestStatus.UNCHANGED
    take(repo, *files, append=True)
    xr.testing.assert_equal(seen(repo), decoded(0, 1, 2, 3))


def test_a_file_goes_in_again_after_a_reset(tmp_path: Path) -> None:
    files, repo = archive(tmp_path / "files", 2), tmp_path / "repo"
    take(repo, files[0])
    take(repo, files[1], append=True)
    repository = Repository.open(LocalStorage(repo))
    repository.reset_branch("main", ids(repository)[1])
    assert take(repo, *files, append=True).files == (f"file://{files[1]}",)
    xr.testing.assert_equal(seen(repo), decoded(0, 1))


@pytest.mark.parametrize("is_squashed", [False, True])
def test_a_file_goes_in_again_after_its_ingest_was_reverted(
    tmp_path: Path, is_squashed: bool
) -> None:
    files, repo = archive(tmp_path / "files", 2), tmp_path / "repo"
    take(repo, files[0])
    report = take(repo, files[1], append=True)
    assert report.snapshot_id is not None
    repository = Repository.open(LocalStorage(repo))
    repository.versions.revert(report.snapshot_id)
    xr.testing.assert_equal(seen(repo), decoded(0))
    if is_squashed:
        squash(repository)
    assert take(repo, *files, append=True).status is IngestStatus.COMMITTED
    xr.testing.assert_equal(seen(repo), decoded(0, 1))
    assert take(repo, *files, append=True).status is IngestStatus.UNCHANGED


def merged(repository: Repository) -> str:
    """The commit of a merge that brings main what it has lost."""
    repository.create_branch("side", repository.lookup_branch("main"))
    repository.reset_branch("main", ids(repository)[1])
    return repository.versions.merge("side", ff=False).snapshot_id or ""


def squashed(repository: Repository) -> str:
    """The commit that all but the first ingest are united in, with a later one."""
    write(repository)
    return repository.versions.squash("main", ids(repository)[2]).snapshot_id or ""


def write(repository: Repository) -> None:
    with repository.transaction("main", message="other") as store:
        zarr.create_group(store, path="other")


@pytest.mark.parametrize("take_in", [merged, squashed])
def test_files_go_in_again_after_the_commit_that_took_theirs_in_was_reverted(
    tmp_path: Path, take_in: Callable[[Repository], str]
) -> None:
    files, repo = archive(tmp_path / "files", 2), tmp_path / "repo"
    take(repo, files[0])
    take(repo, files[1], append=True)
    repository = Repository.open(LocalStorage(repo))
    repository.versions.revert(take_in(repository))
    xr.testing.assert_equal(seen(repo), decoded(0))
    assert take(repo, *files, append=True).status is IngestStatus.COMMITTED
    xr.testing.assert_equal(seen(repo), decoded(0, 1))


@pytest.mark.parametrize("take_in", [merged, squashed])
def test_files_are_known_where_the_commit_that_took_theirs_in_is_picked(
    tmp_path: Path, take_in: Callable[[Repository], str]
) -> None:
    files, repo = archive(tmp_path / "files", 2), tmp_path / "repo"
    take(repo, files[0])
    take(repo, files[1], append=True)
    repository = Repository.open(LocalStorage(repo))
    made = take_in(repository)
    repository.reset_branch("main", ids(repository)[1])
    repository.versions.cherry_pick(made, "main")
    xr.testing.assert_equal(seen(repo), decoded(0, 1))
    assert take(repo, *files, append=True).status is IngestStatus.UNCHANGED


def test_the_stored_configuration_names_where_references_point_to(tmp_path: Path) -> None:
    files, more = archive(tmp_path / "files", 2), archive(tmp_path / "more", 2)
    repo = LocalStorage(tmp_path / "repo")
    first = take(tmp_path / "repo", *files)
    config = Repository.fetch_config(repo)
    assert config is not None
    assert [*(config.virtual_chunk_containers or {})] == [f"file://{tmp_path}/files/"]
    assert first.containers == first.added_containers == (f"file://{tmp_path}/files/",)
    second = take(tmp_path / "repo", *more, group="more")
    config = Repository.fetch_config(repo)
    assert config is not None
    assert set(config.virtual_chunk_containers or {}) == {
        f"file://{tmp_path}/files/",
        f"file://{tmp_path}/more/",
    }
    assert second.added_containers == (f"file://{tmp_path}/more/",)
    third = take(tmp_path / "repo", *files, group="third")
    assert third.added_containers == ()
    assert third.containers == (f"file://{tmp_path}/files/",)


def test_a_commit_tells_what_went_into_it(tmp_path: Path) -> None:
    files, repo = archive(tmp_path / "files", 3), tmp_path / "repo"
    take(repo, *files[:2], group="days")
    take(repo, files[2], group="days", append=True)
    history = list(Repository.open(LocalStorage(repo)).ancestry(branch="main"))
    told = [entry.metadata["frazil.ingest"] for entry in history[:2]]
    assert [each["files"] for each in told] == [1, 2]
    assert [each["group"] for each in told] == ["/days", "/days"]
    assert [entry.message for entry in history[:2]] == [
        "Ingest part-2.nc into /days",
        "Ingest 2 files into /days",
    ]
    assert told[1]["virtual_chunks"] > told[0]["virtual_chunks"] > 0


def test_attributes_of_the_first_files_are_those_of_the_group(tmp_path: Path) -> None:
    files, repo = [tmp_path / f"{number}.nc" for number in (0, 1)], tmp_path / "repo"
    for number, file in enumerate(files):
        times = ("time", [number], {"units": "days since 2000-01-01"})
        data = xr.Dataset({"v": ("time", [1.0])}, {"time": times}, {"title": f"part {number}"})
        data.to_netcdf(file, engine="h5netcdf")
    take(repo, files[0])
    assert seen(repo).attrs["title"] == "part 0"
    take(repo, files[1], append=True)
    assert seen(repo).attrs["title"] == "part 0"
    assert seen(repo).sizes == {"time": 2}
