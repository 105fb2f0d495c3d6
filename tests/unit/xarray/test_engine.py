"""`xr.open_dataset(url, engine="frazil")`: every way to say what to open."""

from __future__ import annotations

import pickle
import tomllib
from datetime import UTC, datetime, timedelta
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest
import xarray as xr
from xarray.testing import assert_identical

from frazil.errors import InvalidInputError, RefNotFoundError, RepositoryNotFoundError
from frazil.repository import Repository
from frazil.storage.local import LocalStorage
from frazil.storage.memory import MemoryStorage
from frazil.xarray import to_icechunk
from frazil.xarray.engine import FrazilBackend
from tests.support.generations import WITH_TEXTS, spec_id
from tests.unit.xarray.weather import forecast

HINDCAST = forecast(2).rename(time="valid_time")
"""other times than the forecast, so that both fit into one tree"""


@pytest.fixture(params=WITH_TEXTS, ids=spec_id)
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Two commits on `main`, the first of them tagged and on branch `old data`."""
    repository = Repository.create(LocalStorage(tmp_path / "repo"), spec_version=request.param)
    session = repository.writable_session("main")
    to_icechunk(forecast(1), session)
    to_icechunk(HINDCAST, session, group="hindcast/long")
    first = session.commit("one day")
    repository.create_tag("v1", first)
    repository.create_branch("old data", first)
    session = repository.writable_session("main")
    to_icechunk(forecast(3), session, mode="w")
    session.commit("three days")
    return tmp_path / "repo"


def open_dataset(source: Any, **options: Any) -> xr.Dataset:  # noqa: ANN401  (as xarray's)
    return xr.open_dataset(source, engine=FrazilBackend, **options)


def test_a_path_opens_the_newest_of_main(folder: Path) -> None:
    assert_identical(open_dataset(folder), forecast(3))
    assert_identical(open_dataset(str(folder)), forecast(3))
    assert_identical(open_dataset(f"file://{folder}"), forecast(3))
    assert_identical(open_dataset(f"frazil+file://{folder}"), forecast(3))


def test_a_url_may_name_the_version(folder: Path) -> None:
    repository = Repository.open(LocalStorage(folder))
    newest, first, *_ = repository.ancestry(branch="main")
    for version in ("v1", "old%20data", "old data", first.id, first.id[:6].lower()):
        assert_identical(open_dataset(f"{folder}@{version}"), forecast(1))
    just_before = newest.written_at - timedelta(microseconds=1)
    assert_identical(open_dataset(f"{folder}@{{{just_before.isoformat()}}}"), forecast(1))
    assert_identical(open_dataset(f"{folder}@main"), forecast(3))


def test_arguments_may_name_the_version(folder: Path) -> None:
    repository = Repository.open(LocalStorage(folder))
    newest, first, *_ = repository.ancestry(branch="main")
    assert_identical(open_dataset(folder, tag="v1"), forecast(1))
    assert_identical(open_dataset(folder, branch="old data"), forecast(1))
    assert_identical(open_dataset(folder, snapshot_id=first.id), forecast(1))
    assert_identical(open_dataset(folder, as_of=newest.written_at), forecast(3))
    before = newest.written_at - timedelta(microseconds=1)
    assert_identical(open_dataset(folder, branch="main", as_of=before), forecast(1))
    assert_identical(open_dataset(repository, tag="v1"), forecast(1))


def test_open_objects_are_opened_as_they_are(folder: Path) -> None:
    repository = Repository.open(LocalStorage(folder))
    assert_identical(open_dataset(repository), forecast(3))
    session = repository.readonly_session(tag="v1")
    assert_identical(open_dataset(session), forecast(1))
    assert_identical(open_dataset(session.store), forecast(1))
    writable = repository.writable_session("main")
    to_icechunk(forecast(4), writable, mode="w")
    assert_identical(open_dataset(writable), forecast(4))


def test_versions_are_not_named_twice(folder: Path) -> None:
    repository = Repository.open(LocalStorage(folder))
    with pytest.raises(InvalidInputError, match="already names a version"):
        open_dataset(f"{folder}@main", tag="v1")
    with pytest.raises(InvalidInputError, match="already is one version"):
        open_dataset(repository.readonly_session("main"), branch="main")
    with pytest.raises(InvalidInputError, match="has its storage"):
        open_dataset(repository, storage_options={"region": "eu-west-1"})


def test_what_does_not_exist_is_said(folder: Path) -> None:
    with pytest.raises(RefNotFoundError, match="nowhere"):
        open_dataset(f"{folder}@nowhere")
    with pytest.raises(RepositoryNotFoundError):
        open_dataset(folder / "nothing")


def test_groups_and_decoding(folder: Path) -> None:
    url = f"{folder}@v1"
    assert_identical(open_dataset(url, group="hindcast/long"), HINDCAST)
    raw = open_dataset(url, decode_cf=False)
    assert raw["t2m"].dtype == "int16"
    assert raw["time"].attrs["units"].startswith("hours since 2024-02-27")
    assert "rain" not in open_dataset(url, drop_variables="rain")


def test_a_tree_of_groups(folder: Path) -> None:
    tree = xr.open_datatree(f"{folder}@v1", engine=FrazilBackend)
    assert set(tree.groups) == {"/", "/hindcast", "/hindcast/long"}
    inherited = tree["hindcast/long"].to_dataset()
    assert_identical(inherited.drop_vars("time"), HINDCAST)
    below = xr.open_datatree(folder, engine=FrazilBackend, group="hindcast", tag="v1")
    assert_identical(below["long"].to_dataset(), HINDCAST)
    groups = xr.open_groups(folder, engine=FrazilBackend, branch="main")
    assert_identical(groups["/"], forecast(3))


def test_chunks_make_dask_arrays_that_travel(folder: Path) -> None:
    lazy = open_dataset(f"file://{folder}@v1", chunks={})
    assert lazy["rain"].chunks == ((24,), (5,), (7,))
    assert_identical(pickle.loads(pickle.dumps(lazy)).compute(), forecast(1))


def test_memory_repositories_have_urls() -> None:
    repository = Repository.create(MemoryStorage("test_memory_repositories_have_urls"))
    session = repository.writable_session("main")
    to_icechunk(forecast(1), session)
    session.commit("one day")
    assert_identical(open_dataset("memory://test_memory_repositories_have_urls@main"), forecast(1))


def test_storage_options_reach_the_storage(folder: Path) -> None:
    with pytest.raises(InvalidInputError, match="region"):
        open_dataset(folder, storage_options={"region": "eu-west-1"})


def test_xarray_recognises_what_is_surely_ours(folder: Path, tmp_path: Path) -> None:
    can_open = FrazilBackend().guess_can_open
    repository = Repository.open(LocalStorage(folder))
    session = repository.readonly_session("main")
    ours = (repository, session, session.store, folder, str(folder), f"{folder}@v1")
    assert all(map(can_open, ours))
    assert can_open("icechunk+s3://bucket/prefix")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "repo").write_bytes(b"something else")
    foreign = ("s3://bucket/prefix", tmp_path / "other", tmp_path, "data.zarr", "", "x@", b"CDF", 7)
    assert not any(map(can_open, foreign))


def test_the_engine_is_registered() -> None:
    project = Path(__file__).parents[3] / "pyproject.toml"
    entries = tomllib.loads(project.read_text())["project"]["entry-points"]
    value = entries["xarray.backends"]["frazil"]
    assert EntryPoint("frazil", value, "xarray.backends").load() is FrazilBackend


def test_a_time_before_the_first_commit_has_nothing(folder: Path) -> None:
    with pytest.raises(KeyError, match="as early as"):
        open_dataset(folder, branch="main", as_of=datetime(2020, 1, 1, tzinfo=UTC))
