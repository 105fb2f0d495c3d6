"""Where an ingest goes: containers for references, and a repository or branch that may be new."""

from __future__ import annotations

import pytest

from frazil.errors import ConflictError, ErrorKind, InvalidInputError
from frazil.ingestion.plans import IngestPlan
from frazil.ingestion.records import Identity, as_metadata, name_mark, state_mark
from frazil.ingestion.target import (
    IngestTarget,
    access,
    add_missing,
    container_for,
    covering,
    how_to_read,
    prefixes_of,
)
from frazil.model.config import RepositoryConfig
from frazil.repository import Repository
from frazil.storage.memory import MemoryStorage
from tests.support.scans import planned, scan

DATA = "file:///data/"


def config(*prefixes: str) -> RepositoryConfig:
    made = RepositoryConfig()
    add_missing(made, prefixes, {})
    return made


def plan() -> IngestPlan:
    return planned(scan(0, time=[0, 1]))[0]


# --- containers ---


@pytest.mark.parametrize(
    ("locations", "prefixes"),
    [
        (["file:///a/b/1.nc", "file:///a/b/2.nc"], ["file:///a/b/"]),
        (["file:///a/b/1.nc", "file:///a/c/2.nc"], ["file:///a/"]),
        (["file:///data/1.nc", "file:///data2/2.nc"], ["file:///"]),
        (["s3://one/a/1", "s3://two/a/1", "s3://one/b/1"], ["s3://one/", "s3://two/a/"]),
        ([], []),
    ],
)
def test_each_bucket_has_the_longest_folder_that_all_its_files_are_in(
    locations: list[str], prefixes: list[str]
) -> None:
    assert prefixes_of(locations) == prefixes


def test_a_container_that_is_there_covers_what_is_below_it() -> None:
    there = config(DATA)
    assert add_missing(there, ["file:///data/2000/", DATA], {}) == []
    assert add_missing(there, ["file:///database/"], {}) == ["file:///database/"]
    assert set(there.virtual_chunk_containers or {}) == {DATA, "file:///database/"}


def test_a_container_tells_how_to_reach_files_but_no_secret() -> None:
    options = {"region": "eu", "anonymous": True, "secret_access_key": "swordfish"}
    made = container_for("s3://bucket/a", options)
    assert made.url_prefix == "s3://bucket/a/"
    assert "eu" in repr(made)
    assert "swordfish" not in repr(made)


def test_a_scheme_that_no_container_reads_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="cannot be read from ftp:// URLs") as refusal:
        container_for("ftp://host/a", {})
    assert refusal.value.kind == ErrorKind.BAD_PREFIX


def test_the_innermost_container_is_the_one_that_is_read_through() -> None:
    there = config(DATA)
    there.set_virtual_chunk_container(container_for("file:///data/new/", {}))
    assert covering(there, ["file:///data/1.nc"]) == [DATA]
    assert covering(there, ["file:///data/new/1.nc", "s3://b/1.nc"]) == ["file:///data/new/"]


def test_readers_are_told_how_to_authorise() -> None:
    assert "--authorize file:///data/" in how_to_read([DATA])
    assert "credentials" not in how_to_read([DATA])
    assert "credentials of the reader" in how_to_read([DATA, "s3://b/"])


def test_options_of_the_source_become_credentials_of_its_containers() -> None:
    options = {"access_key_id": "key", "secret_access_key": "secret", "region": "eu"}
    assert set(access(["s3://b/", DATA], options)) == {"s3://b/", DATA}


# --- repositories and branches ---


def test_a_repository_is_made_with_the_first_commit_only() -> None:
    place = MemoryStorage()
    target = IngestTarget(place, "main", "")
    assert (target.reading(), target.known()) == (None, {})
    assert not Repository.exists(place)
    session, added = target.writing(plan(), None, [DATA], {})
    assert (session.branch, added) == ("main", [DATA])
    stored = Repository.fetch_config(place)
    assert stored is not None
    assert [*(stored.virtual_chunk_containers or {})] == [DATA]


def test_a_branch_that_is_missing_begins_where_main_was_when_the_plan_was_made() -> None:
    place = MemoryStorage()
    repository = Repository.create(place)
    before = repository.lookup_branch("main")
    target = IngestTarget(place, "trial", "")
    commit(repository, "later")
    target.writing(plan(), None, [], {})
    assert Repository.open(place).lookup_branch("trial") == before


def test_who_makes_the_repository_or_the_branch_meanwhile_is_told() -> None:
    place = MemoryStorage()
    target = IngestTarget(place, "trial", "")
    repository = Repository.create(place)
    with pytest.raises(ConflictError, match="has made the repository"):
        target.writing(plan(), None, [DATA], {})
    target = IngestTarget(place, "trial", "")
    repository.create_branch("trial", repository.lookup_branch("main"))
    with pytest.raises(ConflictError, match="has made the branch 'trial'"):
        target.writing(plan(), None, [DATA], {})


def test_files_are_known_by_the_commits_of_the_branch_and_its_group() -> None:
    place = MemoryStorage()
    repository = Repository.create(place)
    one = Identity(5, None, 7)
    commit(repository, "one", **as_metadata([("file:///a", one)], "/g"))
    assert IngestTarget(place, "main", "/g").known() == {name_mark("file:///a"): state_mark(one)}
    assert IngestTarget(place, "main", "").known() == {}


def test_containers_of_others_stay_when_ours_are_added() -> None:
    place = MemoryStorage()
    Repository.create(place, config("file:///theirs/")).save_config()
    target = IngestTarget(place, "main", "")
    assert target.writing(plan(), None, [DATA], {})[1] == [DATA]
    stored = Repository.fetch_config(place)
    assert stored is not None
    assert set(stored.virtual_chunk_containers or {}) == {"file:///theirs/", DATA}


def commit(repository: Repository, message: str, **metadata: object) -> None:
    session = repository.writable_session("main")
    session.commit(message, metadata, allow_empty=True)
