"""Many processes commit to one branch, are killed and started again; nothing is lost or doubled."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from uuid import uuid4

import pytest

from frazil import Repository, S3Options, Storage, s3_static_credentials
from frazil.model.history import SnapshotEntry
from frazil.storage.local import LocalStorage
from frazil.storage.object import ObjectStorage
from frazil.storage.s3_place import S3Place
from tests.support.ages import AT_ONCE
from tests.support.checks import garbage_of
from tests.support.committers import Field, Journal, check_field, write_all
from tests.support.forkserver import start
from tests.support.generations import OLD, Spec
from tests.support.servers import REGION, S3Server

WRITERS = 8
COMMITS = 25


@pytest.fixture(params=["local", "s3"])
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> Storage:
    if request.param == "local":
        return LocalStorage(tmp_path / "repository")
    server: S3Server = request.getfixturevalue("s3_server")
    options = S3Options(region=REGION, endpoint_url=server.endpoint, allow_http=True)
    credentials = s3_static_credentials(
        access_key_id=server.access_key_id, secret_access_key=server.secret_access_key
    )
    return ObjectStorage(S3Place(server.bucket, f"race/{uuid4().hex}", options, credentials))


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    folder = tmp_path / "journal"
    folder.mkdir()
    return Journal(folder)


class Writers:
    """The processes of a race."""

    def __init__(self, field: Field, journal: Journal) -> None:
        self.field = field
        self.journal = journal
        self.deaths = 0
        self._running = {writer: self._start(writer) for writer in range(field.writers)}

    def _start(self, writer: int) -> ForkServerProcess:
        return start(write_all, self.field, self.journal, writer)

    def wait(self, limit_s: float) -> None:
        """Wait until all have ended well."""
        end = time.monotonic() + limit_s
        for writer, process in self._running.items():
            process.join(max(0.0, end - time.monotonic()))
            assert process.exitcode == 0, f"writer {writer}: {process.exitcode}"

    def run_killing(self, limit_s: float, pause_s: float) -> None:
        """Kill and restart writers at random until all have made their commits."""
        end = time.monotonic() + limit_s
        while any(process.exitcode is None for process in self._running.values()):
            assert time.monotonic() < end, "the writers do not come to an end"
            time.sleep(random.uniform(0, pause_s) if self.deaths else 0)
            victim = random.randrange(self.field.writers)
            if self._running[victim].exitcode is None:
                self._running[victim].kill()
                self._running[victim].join()
                self.deaths += self._running[victim].exitcode != 0
                self._running[victim] = self._start(victim)
        self.wait(0)

    def end(self) -> None:
        """Leave none behind."""
        for process in self._running.values():
            process.kill()
            process.join()


@pytest.fixture
def writers(
    request: pytest.FixtureRequest, storage: Storage, journal: Journal, spec: Spec
) -> Iterator[Writers]:
    field = Field(storage, *request.param)
    field.create(spec)
    made = Writers(field, journal)
    yield made
    made.end()


def size(writers: int, commits: int) -> pytest.MarkDecorator:
    """How many processes make how many commits each."""
    return pytest.mark.parametrize(
        "writers", [(writers, commits)], indirect=True, ids=[f"{writers}x{commits}"]
    )


def check_all_are_there(writers: Writers) -> None:
    """Nobody was killed, so each commit is there; and there was a race at all."""
    checked = check_field(writers.field, writers.journal)
    made = checked.histories["main"][:-2]
    assert len(made) == writers.field.writers * writers.field.commits
    assert any(rebases(entry) for entry in made), "nobody was ever in the way of another"


def rebases(entry: SnapshotEntry) -> int:
    """How often a commit had to be put on top of another one."""
    ours = entry.metadata["__icechunk"]
    assert isinstance(ours, dict)
    return int(ours["rebase_attempts"])


def check_after_kills(writers: Writers) -> None:
    """What was acknowledged is there; what the dead left is garbage, and goes."""
    assert writers.deaths
    field, journal = writers.field, writers.journal
    check_field(field, journal)
    assert len(journal.commits("began")) == field.writers * field.commits
    lost = len(journal.commits("began")) - len(journal.commits("acknowledged"))
    assert lost <= writers.deaths
    repository = Repository.open(field.storage)
    repository.garbage_collect(datetime.now(UTC) + timedelta(days=1), unsafe_minimum_age=AT_ONCE)
    assert garbage_of(repository) == set()
    check_field(field, journal)


by_spec = pytest.mark.parametrize("spec", [1, 2], ids=["v1", "v2"])
on_disk = pytest.mark.parametrize("storage", ["local"], indirect=True)
"""Also in a bucket by the longer tests of the same: the conditional writes are those of spec 1."""
by_old = pytest.mark.parametrize("spec", OLD)


@pytest.mark.slow
@by_spec
@size(4, 8)
def test_every_commit_of_some_processes_is_there_once(writers: Writers) -> None:
    writers.wait(limit_s=240)
    check_all_are_there(writers)


@pytest.mark.slow
@by_spec
@size(4, 8)
def test_every_acknowledged_commit_of_some_killed_processes_is_there_once(writers: Writers) -> None:
    writers.run_killing(limit_s=240, pause_s=0.4)
    check_after_kills(writers)


@pytest.mark.slow
@by_old
@on_disk
@size(3, 4)
def test_every_commit_to_an_old_generation_is_there_once(writers: Writers) -> None:
    writers.wait(limit_s=240)
    check_all_are_there(writers)


@pytest.mark.soak
@pytest.mark.timeout(1800)
@by_old
@size(WRITERS, COMMITS)
def test_every_commit_of_many_processes_to_an_old_generation_is_there_once(
    writers: Writers,
) -> None:
    writers.wait(limit_s=1500)
    check_all_are_there(writers)


@pytest.mark.soak
@pytest.mark.timeout(1800)
@by_old
@size(WRITERS, COMMITS)
def test_every_acknowledged_commit_to_an_old_generation_is_there_once(writers: Writers) -> None:
    writers.run_killing(limit_s=1500, pause_s=0.4)
    check_after_kills(writers)


@pytest.mark.soak
@pytest.mark.timeout(1800)
@by_spec
@size(WRITERS, 150)
def test_every_commit_of_a_long_race_is_there_once(writers: Writers) -> None:
    writers.wait(limit_s=1500)
    check_all_are_there(writers)


@pytest.mark.soak
@pytest.mark.timeout(1800)
@by_spec
@size(WRITERS, 150)
def test_every_acknowledged_commit_of_a_long_massacre_is_there_once(writers: Writers) -> None:
    writers.run_killing(limit_s=1500, pause_s=0.3)
    check_after_kills(writers)
