"""An ingest from files to a commit: what is written, skipped, appended, refused."""
# Options of other libraries have any type:
# ruff: noqa: ANN401

from __future__ import annotations

import os
import pickle
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr

from frazil.errors import InvalidInputError
from frazil.formats.zarr_meta import array_document
from frazil.ingestion.pipeline import run_request
from frazil.ingestion.plans import IngestMode, PlanOptions, TransferKind
from frazil.ingestion.reports import IngestRefusedError, IngestStatus
from frazil.ingestion.request import IngestRequest
from frazil.model.config import ManifestConfig, RepositoryConfig
from frazil.progress import Progress
from frazil.repository import Repository
from frazil.run import LocalRunner
from frazil.storage.local import LocalStorage
from tests.support.ages import left_over
from tests.support.archive import archive, as_netcdf4, decoded, opened, part, seen, take


def commits(repo: Path, branch: str = "main") -> list[str]:
    history = Repository.open(LocalStorage(repo)).ancestry(branch=branch)
    return [entry.message for entry in history]


def test_files_go_in_by_one_commit_that_tells_of_them(tmp_path: Path) -> None:
    archive(tmp_path / "files")
    report = take(tmp_path / "repo", f"{tmp_path}/files/*.nc", message="first days")
    assert report.status is IngestStatus.COMMITTED
    assert commits(tmp_path / "repo") == ["first days", "Repository initialized"]
    assert report.virtual_chunks == 13
    assert report.added_containers == (f"file://{tmp_path}/files/",)
    assert report.how_to_read is not None
    assert "--authorize" in report.how_to_read
    entry = next(iter(Repository.open(LocalStorage(tmp_path / "repo")).ancestry(branch="main")))
    assert entry.metadata["frazil.ingest"]["files"] == 3
    assert entry.metadata["frazil.ingest"]["virtual_chunks"] == 13
    xr.testing.assert_equal(seen(tmp_path / "repo"), decoded(0, 1, 2))


def test_references_notice_that_a_file_has_changed(tmp_path: Path) -> None:
    files = archive(tmp_path / "files")
    take(tmp_path / "repo", *files)
    os.utime(files[0], (5e9, 5e9))
    with pytest.raises(Exception, match="has changed"):
        seen(tmp_path / "repo")


def test_references_notice_that_an_older_file_has_taken_its_place(tmp_path: Path) -> None:
    files = archive(tmp_path / "files")
    an_hour_ago = time.time() - 3600  # what happens within one second cannot be noticed
    for file in files:
        os.utime(file, (an_hour_ago, an_hour_ago))
    take(tmp_path / "repo", *files)
    as_netcdf4(tmp_path / "files", part(7), files[0].name)
    os.utime(files[0], (1e9, 1e9))  # as cp -p, rsync -a and backups do
    with pytest.raises(Exception, match="has changed"):
        seen(tmp_path / "repo")


def test_a_file_that_was_restored_is_the_same(tmp_path: Path) -> None:
    files = archive(tmp_path / "files")
    take(tmp_path / "repo", *files)
    for file in files:
        shutil.copy2(file, file.with_suffix(".copy"))
        file.with_suffix(".copy").replace(file)
    xr.testing.assert_equal(seen(tmp_path / "repo"), decoded(0, 1, 2))


def test_chunks_and_compressor_are_as_asked(tmp_path: Path) -> None:
    files = archive(tmp_path / "files")
    wanted = {"chunks": {"time": 5, "lon": -1}, "compressor": "blosc:lz4"}
    report = take(tmp_path / "repo", *files, wanted=wanted)
    assert report.virtual_chunks == 0
    session = opened(tmp_path / "repo").readonly_session("main")
    assert session.array("/rain").chunks == (5, 3, 5)
    assert b'"cname": "lz4"' in session.state.array("/rain").user_data
    xr.testing.assert_equal(seen(tmp_path / "repo"), decoded(0, 1, 2))


def test_again_skips_what_is_in(tmp_path: Path) -> None:
    files = archive(tmp_path / "files")
    take(tmp_path / "repo", *files[:2])
    again = take(tmp_path / "repo", *files[:2])
    assert (again.status, len(again.skipped)) == (IngestStatus.UNCHANGED, 2)
    more = take(tmp_path / "repo", *files, append=True)
    assert (len(more.skipped), more.files) == (2, (f"file://{files[2]}",))
    xr.testing.assert_equal(seen(tmp_path / "repo"), decoded(0, 1, 2))
    assert len(commits(tmp_path / "repo")) == 3
    elsewhere = take(tmp_path / "repo", files[0], group="other")
    assert elsewhere.status is IngestStatus.COMMITTED


def test_a_file_that_was_ingested_and_has_changed_is_told(tmp_path: Path) -> None:
    files = archive(tmp_path / "files")
    take(tmp_path / "repo", *files[:2])
    as_netcdf4(tmp_path / "files", part(7), files[0].name)
    with pytest.raises(IngestRefusedError, match="has changed since"):
        take(tmp_path / "repo", *files, append=True)


@pytest.mark.parametrize("chunks", [{"time": 3}, {"time": 5, "lat": 2}, {"time": 100}])
def test_appending_fills_up_the_last_chunk_of_native_arrays(
    tmp_path: Path, chunks: dict[str, int]
) -> None:
    files = archive(tmp_path / "files", 4)
    take(tmp_path / "repo", *files[:2], wanted={"chunks": chunks})
    take(tmp_path / "repo", files[2], append=True)
    take(tmp_path / "repo", files[3], append=True)
    xr.testing.assert_equal(seen(tmp_path / "repo"), decoded(0, 1, 2, 3))


def test_appending_to_references_needs_whole_chunks_or_a_copy(tmp_path: Path) -> None:
    files = [
        as_netcdf4(tmp_path, part(0, days=3), "a.nc"),
        as_netcdf4(tmp_path, part(1), "b.nc"),
    ]
    take(tmp_path / "repo", files[0])
    with pytest.raises(IngestRefusedError, match="inside a chunk") as refusal:
        take(tmp_path / "repo", files[1], append=True)
    assert {each.code for each in refusal.value.report.errors} == {"chunk-alignment"}
    assert len(commits(tmp_path / "repo")) == 2
    report = take(tmp_path / "repo", files[1], append=True, wanted={"materialize": True})
    assert (report.virtual_chunks, report.native_chunks) == (0, 6)
    first = xr.decode_cf(part(0, days=3))
    expected = xr.concat(
        [first, decoded(1)], "time", data_vars="minimal", coords="minimal", compat="override"
    )
    xr.testing.assert_equal(seen(tmp_path / "repo"), expected)


def test_a_group_with_arrays_is_not_overwritten(tmp_path: Path) -> None:
    files = archive(tmp_path / "files")
    take(tmp_path / "repo", files[0])
    with pytest.raises(IngestRefusedError, match="append to them"):
        take(tmp_path / "repo", files[1])


def test_files_go_to_a_branch_and_main_stays(tmp_path: Path) -> None:
    files = archive(tmp_path / "files")
    take(tmp_path / "repo", files[0])
    take(tmp_path / "repo", files[1], append=True, branch="trial")
    assert len(commits(tmp_path / "repo")) == 2
    xr.testing.assert_equal(seen(tmp_path / "repo"), decoded(0))
    xr.testing.assert_equal(seen(tmp_path / "repo", branch="trial"), decoded(0, 1))


def test_failed_files_are_listed_and_nothing_is_committed(tmp_path: Path) -> None:
    files = archive(tmp_path / "files")
    (tmp_path / "files" / "bad.nc").write_bytes(b"not a file of data")
    with pytest.raises(IngestRefusedError, match=r"bad\.nc") as refusal:
        take(tmp_path / "repo", f"{tmp_path}/files/*.nc", tmp_path / "gone.nc")
    report = refusal.value.report
    assert [Path(each.url).name for each in report.failures] == ["bad.nc", "gone.nc"]
    assert not (tmp_path / "repo").exists()
    done = take(tmp_path / "repo", f"{tmp_path}/files/*.nc", on_error="skip")
    assert (len(done.files), len(done.failures)) == (len(files), 1)
    assert "bad.nc" in "\n".join(done.lines())
    xr.testing.assert_equal(seen(tmp_path / "repo"), decoded(0, 1, 2))


def test_only_failed_files_are_an_error_even_when_skipped(tmp_path: Path) -> None:
    (tmp_path / "bad.nc").write_bytes(b"rubbish")
    with pytest.raises(IngestRefusedError):
        take(tmp_path / "repo", tmp_path / "bad.nc", on_error="skip")


def test_a_dry_run_writes_nothing(tmp_path: Path) -> None:
    files = archive(tmp_path / "files")
    report = take(tmp_path / "repo", *files, dry_run=True)
    assert (report.status, report.axes) == (IngestStatus.PLANNED, (("time", 12, 3),))
    assert not (tmp_path / "repo").exists()
    assert report.as_dict()["arrays"][0]["kind"] in ("virtual", "loaded")


def test_other_packing_is_refused_or_decoded(tmp_path: Path) -> None:
    second = part(1)
    second.rain.attrs["scale_factor"] = 0.25
    files = [
        as_netcdf4(tmp_path, part(0), "a.nc"),
        as_netcdf4(tmp_path, second, "b.nc"),
    ]
    with pytest.raises(IngestRefusedError, match=r"scale_factor.*b\.nc"):
        take(tmp_path / "repo", *files)
    report = take(tmp_path / "repo", *files, wanted={"materialize": True})
    kinds = {array.name: array.kind for array in report.arrays}
    assert (kinds["rain"], kinds["t2m"]) == (TransferKind.NATIVE, TransferKind.VIRTUAL)
    expected = xr.concat(
        [xr.decode_cf(part(0)), xr.decode_cf(second)],
        "time",
        data_vars="minimal",
        coords="minimal",
        compat="override",
    )
    found = seen(tmp_path / "repo")
    xr.testing.assert_equal(found, expected)
    assert np.isnan(found.rain.values[0, 0, 0])


def test_other_codecs_and_types_are_copied_if_wanted(tmp_path: Path) -> None:
    second = part(1)
    second["t2m"] = second.t2m.astype("f8")
    files = [as_netcdf4(tmp_path, part(0), "a.nc"), as_netcdf4(tmp_path, second, "b.nc")]
    with pytest.raises(IngestRefusedError, match="float64"):
        take(tmp_path / "repo", *files)
    take(tmp_path / "repo", *files, wanted={"mode": "auto"})
    found = seen(tmp_path / "repo")
    assert found.t2m.dtype == "f8"
    xr.testing.assert_equal(found, decoded(0, 1))


def test_other_static_values_are_refused(tmp_path: Path) -> None:
    second = part(1)
    second["mask"] = second.mask + 1
    files = [as_netcdf4(tmp_path, part(0), "a.nc"), as_netcdf4(tmp_path, second, "b.nc")]
    with pytest.raises(IngestRefusedError, match=r"mask: the values differ.*b\.nc"):
        take(tmp_path / "repo", *files)
    take(tmp_path / "repo", *files, drop=("mask",))
    assert "mask" not in seen(tmp_path / "repo")


def test_times_in_other_units_and_their_bounds_read_right(tmp_path: Path) -> None:
    def bounded(number: int, since: str) -> xr.Dataset:
        made = part(number, since=since)
        first = made.time.values
        made["bnds"] = (("time", "edge"), np.stack([first, first + 1], 1))
        made.time.attrs["bounds"] = "bnds"
        return made

    files = [
        as_netcdf4(tmp_path, bounded(0, "2000-01-01"), "a.nc"),
        as_netcdf4(tmp_path, bounded(1, "2000-01-04"), "b.nc"),
    ]
    report = take(tmp_path / "repo", *files)
    assert "time-units" in {each.code for each in report.findings}
    found = seen(tmp_path / "repo")
    assert np.array_equal(found.time.values, decoded(0, 1).time.values)
    assert np.array_equal(found.bnds.values[:, 0], found.time.values)
    late = as_netcdf4(tmp_path, bounded(2, "1999-12-01"), "c.nc")
    take(tmp_path / "repo", late, append=True)
    again = seen(tmp_path / "repo")
    assert np.array_equal(again.time.values, decoded(0, 1, 2).time.values)
    assert np.array_equal(again.bnds.values[:, 0], again.time.values)


def test_manifests_that_tasks_write_read_the_same(tmp_path: Path) -> None:
    files = archive(tmp_path / "files", 4)
    Repository.create(
        LocalStorage(tmp_path / "repo"),
        RepositoryConfig(manifest=ManifestConfig(splitting=_split_by_two())),
    ).save_config()
    report = take(tmp_path / "repo", *files[:3], refs_by_tasks=1)
    assert report.virtual_chunks == 13
    xr.testing.assert_equal(seen(tmp_path / "repo"), decoded(0, 1, 2))
    repository = Repository.open(LocalStorage(tmp_path / "repo"))
    session = repository.readonly_session("main")
    node = session.state.array("/t2m")
    assert [ref.extents[0] for ref in node.manifests] == [(0, 2), (2, 4), (4, 6)]
    tip = repository.lookup_branch("main")
    parent = list(repository.ancestry(branch="main"))[1].id
    assert (
        len(repository.diff(from_snapshot_id=parent, to_snapshot_id=tip).updated_chunks["/t2m"])
        == 6
    )
    take(tmp_path / "repo", files[3], append=True)
    xr.testing.assert_equal(seen(tmp_path / "repo"), decoded(0, 1, 2, 3))


def _split_by_two() -> Any:
    from frazil.model.manifest_config import (
        ManifestSplitCondition,
        ManifestSplitDimCondition,
        ManifestSplittingConfig,
    )

    return ManifestSplittingConfig.from_dict(
        {ManifestSplitCondition.AnyArray(): {ManifestSplitDimCondition.Axis(0): 2}}
    )


def test_progress_tells_files_chunks_and_bytes(tmp_path: Path) -> None:
    files = archive(tmp_path / "files")
    told: list[Progress] = []
    request = IngestRequest([str(file) for file in files])
    run_request(LocalStorage(tmp_path / "repo"), request, LocalRunner(), told.append)
    last = [each for each in told if each.what == "scanning"][-1]
    assert (last.done, last.total) == (3, 3)
    assert last.chunks == 15
    assert last.nbytes > 0


def test_a_container_of_ones_own_must_cover_the_files(tmp_path: Path) -> None:
    files = archive(tmp_path / "files")
    with pytest.raises(InvalidInputError, match="no virtual chunk container"):
        take(tmp_path / "repo", *files, container="file:///elsewhere/")
    take(tmp_path / "repo2", *files, container=f"file://{tmp_path}/")
    config = Repository.open(LocalStorage(tmp_path / "repo2")).config
    assert [*(config.virtual_chunk_containers or {})] == [f"file://{tmp_path}/"]


class Watching:
    """Keeps the items of all tasks as a runner may write them to a disk."""

    def __init__(self) -> None:
        self.items: list[bytes] = []

    def run(
        self, work: Callable[[Any], Any], items: Sequence[Any], *, size_bytes: int = 0
    ) -> Iterator[tuple[int, Any]]:
        self.items.append(pickle.dumps([*items]))
        return LocalRunner().run(pickle.loads(pickle.dumps(work)), items)

    def facts(self) -> dict[str, object]:
        return {}


@pytest.mark.parametrize("wanted", [{}, {"mode": IngestMode.NATIVE}, {"concat_dims": ("time",)}])
def test_secrets_of_the_source_are_in_no_item_of_a_task(
    tmp_path: Path, wanted: dict[str, Any]
) -> None:
    """Long lists of items go through a shuffle, whose files stay on the disks of a cluster."""
    files = archive(tmp_path / "files")
    runner = Watching()
    request = IngestRequest(
        [*map(str, files)],
        wanted=PlanOptions(**wanted),
        source_options={"secret_access_key": "swordfish", "region": "us-east-1"},
    )
    assert (
        run_request(LocalStorage(tmp_path / "repo"), request, runner).status
        is IngestStatus.COMMITTED
    )
    assert runner.items
    assert not any(b"swordfish" in each for each in runner.items)
    xr.testing.assert_equal(seen(tmp_path / "repo"), decoded(0, 1, 2))


def test_chunks_that_are_copied_may_end_in_a_checksum(tmp_path: Path) -> None:
    archive(tmp_path / "files")
    wanted = {"mode": "native", "chunks": {"time": 3}, "checksum": True}
    take(tmp_path / "repo", f"{tmp_path}/files/*.nc", wanted=wanted)
    xr.testing.assert_equal(seen(tmp_path / "repo"), decoded(0, 1, 2))
    state = opened(tmp_path / "repo").readonly_session("main").state
    codecs = {node.path: array_document(node)["codecs"] for node in state.arrays()}
    copied = [path for path, found in codecs.items() if found[-1]["name"] == "crc32c"]
    assert copied == ["/mask", "/rain", "/t2m"]  # coordinates are written as ever


def test_statistics_of_what_is_copied_are_kept_when_asked_for(tmp_path: Path) -> None:
    archive(tmp_path / "files")
    for name, how in {"asked": {"statistics": True}, "not": {}}.items():
        take(tmp_path / name, f"{tmp_path}/files/*.nc", wanted={"mode": "native"}, **how)
    asked, plain = (opened(tmp_path / name).audit for name in ("asked", "not"))
    assert asked.analyze().chunks == 0
    assert plain.analyze().chunks > 0
    xr.testing.assert_equal(seen(tmp_path / "asked"), decoded(0, 1, 2))


# --- what is left behind ---


@pytest.mark.parametrize(
    "how",
    [
        {"mode": "virtual"},
        {"mode": "native"},
        {"mode": "native", "chunks": {"time": 3}},
        {"mode": "auto"},
    ],
    ids=["virtual", "native", "rechunked", "auto"],
)
def test_an_ingest_leaves_no_file_that_nothing_refers_to(
    tmp_path: Path, how: dict[str, Any]
) -> None:
    files, repo = archive(tmp_path / "files"), tmp_path / "repo"
    take(repo, *files[:2], wanted=how)
    take(repo, files[2], wanted=how, append=True)
    assert left_over(Repository.open(LocalStorage(repo))) == []
    xr.testing.assert_equal(seen(repo), decoded(0, 1, 2))
