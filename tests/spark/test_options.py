"""Options: their names and values, versions, and what they never show."""

from __future__ import annotations

import json
import pickle
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import xarray as xr
from pyspark.sql import SparkSession
from typer.testing import CliRunner

import frazil
import frazil.spark
from frazil.cli.app import make_app
from frazil.errors import (
    InvalidInputError,
    NotFoundError,
    ReadOnlyError,
    RefNotFoundError,
    RepositoryNotFoundError,
)
from frazil.spark.location import absolute_url, location_of, parse_target
from frazil.spark.options.parsing import documented, parse_request
from frazil.spark.options.table import OptionUse, ReadRequest
from frazil.spark.options.written import as_text, changed_options
from frazil.storage.local import LocalStorage
from frazil.texts import names, settings
from frazil.transaction.opened import context_of
from frazil.xarray import to_icechunk
from tests.support.archive import archive, take
from tests.support.nodes import contents
from tests.support.old_repositories import make_small
from tests.support.spark import read_here

SECRET = "do-not-show-me"


def test_a_store_root_elsewhere_is_read(tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    make_small(LocalStorage(here), "g1")
    there.mkdir()
    for folder in ("s", "i", "c"):
        (here / folder).rename(there / folder)
    state = json.loads((here / "state.json").read_text())
    (here / "state.json").write_text(json.dumps(state | {"store_root": there.as_uri()}))
    with pytest.raises(InvalidInputError, match="store_root"):
        location_of(str(here)).location.open()
    for root in (str(there), there.as_uri()):
        location = location_of(str(here), {"Store_Root": root}).location
        repository = pickle.loads(pickle.dumps(location)).open()
        assert contents(repository.readonly_session("main"))
        with pytest.raises(ReadOnlyError, match="only read"):
            repository.writable_session("main")


def test_names_are_free_in_case_and_dashes() -> None:
    found = parse_request(
        ReadRequest,
        {"PATH": "p", "Split_Size": "1m", "versionasof": "ABCD", "DECODE-CF": "no"},
        OptionUse.READ,
    )
    assert found.split_size == 2**20
    assert found.snapshot_id == "ABCD"
    assert found.decode_cf is False


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"wher": "x"}, "unknown option 'wher'; did you mean 'where'.*options are.*branch"),
        ({"splitsizes": "1"}, "unknown option.*did you mean 'split-size'"),
        ({"split-size": "many"}, "'split-size' is 'many': it must be a positive number of bytes"),
        ({"split-size": "0"}, "positive"),
        ({"layout": "rows"}, "one of cells, chunks, lines"),
        ({"decode_cf": "perhaps"}, "true or false"),
        ({"as-of-timestamp": "yesterday"}, "must be a time"),
        ({"variables": " , "}, "list of names"),
        ({"snapshot-id": "A", "versionAsOf": "B"}, "given twice"),
        ({"storage.": "x"}, "names nothing"),
    ],
)
def test_wrong_options_are_explained(given: dict[str, str], problem: str) -> None:
    with pytest.raises(InvalidInputError, match=problem):
        parse_request(ReadRequest, {"path": "p", **given}, OptionUse.READ)


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"branch": "a", "tag": "b"}, "tag and branch"),
        ({"tag": "a", "snapshot-id": "b"}, "tag and snapshot-id"),
        ({"tag": "a", "timestampAsOf": "2024-01-01"}, "tag and as-of-timestamp"),
        ({"path": "p@dev", "branch": "a"}, "the version in the URL and branch"),
        ({"path": "p#/g", "group": "h"}, "group is given twice"),
    ],
)
def test_two_versions_are_an_error(given: dict[str, str], problem: str) -> None:
    with pytest.raises(InvalidInputError, match=problem):
        parse_target(parse_request(ReadRequest, {"path": "p", **given}, OptionUse.READ))


def test_no_path_is_an_error() -> None:
    with pytest.raises(InvalidInputError, match="'path' is missing"):
        parse_target(parse_request(ReadRequest, {}, OptionUse.READ))


def test_secrets_are_never_shown() -> None:
    options = parse_request(
        ReadRequest,
        {
            "path": "s3://bucket/prefix",
            "storage.access_key_id": "AKIA",
            "storage.secret_access_key": SECRET,
            "storage.session-token": SECRET,
            "authorize-virtual-chunk-access": "s3://other/",
            "virtual.secret_access_key": SECRET,
        },
        OptionUse.READ,
    )
    target = parse_target(options)
    for shown in (repr(options), repr(target), repr(target.location), str(target)):
        assert SECRET not in shown
        assert "AKIA" in shown
    assert dict(target.location.storage_options)["secret_access_key"] == SECRET
    assert pickle.loads(pickle.dumps(target)) == target
    with pytest.raises(InvalidInputError) as caught:
        parse_request(ReadRequest, {"path": "p", "secret_acces_key": SECRET}, OptionUse.READ)
    assert SECRET not in str(caught.value)


def test_secrets_in_a_url_are_not_shown_either() -> None:
    url = f"https://me:{SECRET}@host/repo?signature={SECRET}"
    options = parse_request(ReadRequest, {"path": url}, OptionUse.READ)
    assert SECRET not in repr(options)
    assert SECRET not in repr(parse_target(options))
    assert "host/repo" in repr(parse_target(options))


def test_storage_options_reach_the_storage() -> None:
    location = location_of(
        "s3://bucket/prefix",
        {"storage.region": "eu-north-1", "storage.anonymous": "true", "storage.allow-http": "no"},
    ).location
    assert "eu-north-1" in repr(location.storage())
    with pytest.raises(InvalidInputError, match="this kind of storage; did you mean 'region'"):
        location_of("s3://b/p", {"storage.regin": "x"}).location.storage()
    with pytest.raises(InvalidInputError, match="true or false"):
        location_of("s3://b/p", {"storage.anonymous": "maybe"}).location.storage()
    timeout = {"storage.network_stream_timeout_seconds": "soon"}
    with pytest.raises(InvalidInputError, match=r"timeout_seconds' is 'soon': .*whole number"):
        location_of("s3://b/p", timeout).location.storage()


def test_paths_mean_the_same_in_every_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert location_of("some/repo@dev").location.url == str(tmp_path / "some/repo")
    assert location_of("file:/some/repo").location.url == "/some/repo"


def test_unknown_credentials_are_named() -> None:
    given = {"authorize-virtual-chunk-access": "s3://b/", "virtual.secret_acces_key": SECRET}
    with pytest.raises(InvalidInputError, match="did you mean 'secret_access_key'") as caught:
        location_of("/p", given).location.open()
    assert SECRET not in str(caught.value)


def test_words_after_a_prefix(tmp_path: Path) -> None:
    frazil.Repository.create(str(tmp_path / "repo"))
    words = "s3://a/=https://host:9000, gs://b/=anonymous, file:///year=2020/"
    found = location_of(str(tmp_path / "repo"), {"authorize-virtual-chunk-access": words})
    opened = found.location.open()
    assert opened.authorized_virtual_container_prefixes == {
        "s3://a/",
        "gs://b/",
        "file:///year=2020/",
    }
    assert context_of(opened).trust.endpoints >= {"https://host:9000"}
    with pytest.raises(InvalidInputError, match="after the prefix"):
        location_of(
            str(tmp_path / "repo"), {"authorize-virtual-chunk-access": f"s3://a/={SECRET}"}
        ).location.open()


@pytest.mark.filterwarnings("ignore::zarr.errors.ZarrUserWarning")
def test_what_is_told_after_an_ingest_can_be_followed(tmp_path: Path) -> None:
    """Word by word: the option of the command line, that of Spark, and a plain path."""
    report = take(tmp_path / "repo", *archive(tmp_path / "files", 1))
    hint = report.how_to_read or ""
    url, runner = str(tmp_path / "repo"), CliRunner()
    on_spark = re.search(r"(\S+)='(.+)' \(Spark\)", hint)
    on_line = re.search(r"(--\S+) (\S+) \(command line\)", hint)
    assert on_spark is not None
    assert on_line is not None
    options: dict[str, Any] = {on_spark[1]: on_spark[2], "variables": "t2m"}
    assert read_here(url, **options).num_rows == 60
    for prefix in (on_line[2], str(tmp_path / "files")):
        said = runner.invoke(make_app(), ["cat", url, "t2m", on_line[1], prefix])
        assert said.exit_code == 0, said.output
    refused = runner.invoke(make_app(), ["cat", url, "t2m"])
    assert refused.exit_code != 0
    assert "--authorize" in refused.stderr
    assert "authorize_virtual_chunk_access" not in refused.stderr


@pytest.mark.filterwarnings("ignore::zarr.errors.ZarrUserWarning")
def test_small_query_names_the_option_that_opens_a_container(
    tmp_path: Path, spark: SparkSession
) -> None:
    """What a small query reads is read here and not by a task; the advice is the same."""
    take(tmp_path / "repo", *archive(tmp_path / "files", 1))
    with pytest.raises(InvalidInputError, match="option 'authorize-virtual-chunk-access'"):
        frazil.spark.sql(f"SELECT avg(t2m) FROM frazil.`{tmp_path / 'repo'}`", spark)


@pytest.mark.parametrize("name", ["here@b", "here#", "here#/x"])
def test_relative_path_begins_in_the_folder_of_the_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Also where Spark's server, started before, works in another folder."""
    (tmp_path / name).mkdir(parents=True)
    monkeypatch.chdir(tmp_path / name)
    frazil.Repository.create("repo")
    for url in ("repo", "./repo@main", "repo#snapshots", "repo@main#/"):
        target = location_of(absolute_url(url))
        monkeypatch.chdir("/")
        assert str(target.location.url) == str(tmp_path / name / "repo")
        assert target.location.open().list_branches() == {"main"}
        monkeypatch.chdir(tmp_path / name)
    assert absolute_url("s3://b/p@main") == "s3://b/p@main"


def test_virtual_credentials_need_a_prefix() -> None:
    with pytest.raises(InvalidInputError, match="authorize-virtual-chunk-access"):
        location_of("p", {"virtual.access_key_id": "x"})


def test_a_repository_in_memory_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="seen by one process only"):
        read_here("memory://somewhere")


def test_no_repository_there(tmp_path: Path) -> None:
    with pytest.raises(RepositoryNotFoundError, match="doesn't exist"):
        read_here(tmp_path / "nothing")


def test_every_option_is_documented() -> None:
    told = dict(documented())
    assert "where" in told
    assert all(told.values())


# --- versions ---


@pytest.fixture(scope="module")
def versions(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str], list[datetime]]:
    """A repository whose `n` is 0, 1, 2 in three commits; with a branch `dev` and a tag `v1`."""
    path = tmp_path_factory.mktemp("versions") / "repo"
    repository = frazil.Repository.create(path)
    for number in range(3):
        session = repository.writable_session("main")
        to_icechunk(xr.Dataset({"n": ((), number)}), session, mode="w")
        session.commit(f"n is {number}")
    ids = [info.id for info in repository.ancestry(branch="main")][-2::-1]
    times = [info.written_at for info in repository.ancestry(branch="main")][-2::-1]
    repository.create_branch("dev", ids[1])
    repository.create_tag("v1", ids[0])
    return path, ids, times


def test_time_travel(versions: tuple[Path, list[str], list[datetime]]) -> None:
    path, ids, times = versions

    def read_number(url: str = str(path), **options: Any) -> int:  # noqa: ANN401
        found = read_here(url, **options)["n"].to_pylist()
        return int(found[0])

    assert read_number() == 2
    assert read_number(branch="dev") == 1
    assert read_number(tag="v1") == 0
    assert read_number(snapshot_id=ids[1]) == 1
    assert read_number(versionAsOf=ids[0][:8]) == 0
    assert read_number(f"{path}@dev") == 1
    assert read_number(f"{path}@{ids[0]}") == 0
    assert read_number(timestampAsOf=times[1].isoformat()) == 1
    after = times[1] + timedelta(milliseconds=1)
    assert read_number(as_of_timestamp=str(int(after.timestamp() * 1000))) >= 1
    assert read_number(timestampAsOf=datetime.now(UTC).isoformat(), branch="dev") == 1


def test_unknown_versions(versions: tuple[Path, list[str], list[datetime]]) -> None:
    path, _, _ = versions
    with pytest.raises(RefNotFoundError):
        read_here(path, branch="v1")  # a tag is no branch
    with pytest.raises(NotFoundError):
        read_here(path, tag="dev")
    with pytest.raises(NotFoundError):
        read_here(path, timestampAsOf="1999-01-01")


def test_a_plan_stays_at_its_snapshot(tmp_path: Path) -> None:
    from frazil.spark.source import FrazilSource

    repository = frazil.Repository.create(tmp_path / "r")
    session = repository.writable_session("main")
    to_icechunk(xr.Dataset({"n": ((), 1)}), session)
    session.commit("one")
    source = FrazilSource({"path": str(tmp_path / "r")})
    schema = source.schema()
    session = repository.writable_session("main")
    to_icechunk(xr.Dataset({"n": ((), 2)}), session, mode="w")
    session.commit("two")
    reader = source.reader(schema)
    batch: Any = next(iter(reader.read(reader.partitions()[0])))
    assert batch.to_pylist() == [{"n": 1}]


def test_values_are_written_as_they_are_read() -> None:
    assert settings(as_text({"time": 24, "la t": 3})) == {"time": "24", "la t": "3"}
    assert names(as_text(["a", "b c", "d,e"])) == ("a", "b c", "d,e")


def test_a_request_comes_back_from_the_options_that_change_another_one() -> None:
    given = {
        "columns": "`a b`, c",
        "isel": "time=[0:2, 5:9], `la t`=3",
        "sel": "lon=3:5",
        "value-where": "(t2m > 3) AND (t2m < 9)",
        "aggregates": "`t2 m`=[count, sum]",
        "layout": "aggregates",
        "broadcast": "true",
        "as-of-timestamp": "2024-05-01T00:00:00+00:00",
        "split-size": "1024",
    }
    before = ReadRequest(path="here", layout="lines")
    after = parse_request(ReadRequest, {"path": "here", **given}, OptionUse.READ)
    options = changed_options(before, after)
    assert options.keys() == given.keys()
    assert parse_request(ReadRequest, {"path": "here", **options}, OptionUse.READ) == after
    assert changed_options(after, after) == {}
