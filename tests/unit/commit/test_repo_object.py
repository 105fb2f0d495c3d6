"""The repo object is replaced once for each change, whatever others do and replies get lost."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from frazil.commit.base import OVERWRITTEN
from frazil.commit.repo_object import Edit, RepoObject
from frazil.errors import ConflictError, ReadOnlyError, RepositoryNotFoundError, StorageError
from frazil.formats.repo_info import REPO_KEY
from frazil.model.config import (
    RepositoryConfig,
    RepoUpdateRetryConfig,
    StorageRetriesSettings,
)
from frazil.model.history import Metadata, RepoAvailability, RepoInfo, UpdateType
from frazil.model.values import RepoStatus
from frazil.repository import Repository
from frazil.storage.base import PLAIN, Attributes, Bytes, LostRace, Storage, Version, Written
from frazil.storage.memory import MemoryStorage
from frazil.testing.faulty import Fault, FaultyStorage, Trouble
from tests.support.stepping import InterruptedStorage, Moment


def opened(storage: Storage) -> RepoObject:
    """The object, by a client that knows nothing of it yet."""
    return RepoObject(storage, RepositoryConfig())


def adding(name: str, seen: list[Metadata] | None = None) -> Callable[[RepoInfo], Edit]:
    """A change that adds one to a number of the metadata."""

    def change(info: RepoInfo) -> Edit:
        if seen is not None:
            seen.append(info.metadata)
        count = info.metadata.get(name, 0)
        assert isinstance(count, int)
        return Edit(UpdateType.MetadataChanged(), {"metadata": {**info.metadata, name: count + 1}})

    return change


@pytest.fixture
def storage() -> MemoryStorage:
    made = MemoryStorage()
    Repository.create(made)
    return made


def backups(storage: Storage) -> int:
    return len([*storage.list(OVERWRITTEN)])


def test_a_change_keeps_what_it_replaced(storage: MemoryStorage) -> None:
    before = storage.get(REPO_KEY)
    opened(storage).edit(adding("a"))
    info = opened(storage).info()
    assert info.metadata == {"a": 1}
    [backup] = storage.list(OVERWRITTEN)
    assert storage.get(backup.key) == before
    assert info.latest_updates[1].backup_path == backup.key.removeprefix(OVERWRITTEN)


def test_no_change_writes_nothing(storage: MemoryStorage) -> None:
    before = storage.get(REPO_KEY)
    opened(storage).edit(lambda info: None)
    assert storage.get(REPO_KEY) == before
    assert backups(storage) == 0


@pytest.mark.parametrize("moment", ["copy_if", "put_if"])
def test_a_lost_race_is_run_again_upon_what_others_wrote(
    storage: MemoryStorage, moment: str
) -> None:
    seen: list[Metadata] = []
    prefix = REPO_KEY if moment == "put_if" else ""
    line = InterruptedStorage(
        storage, [Moment(moment, prefix, lambda: opened(storage).edit(adding("theirs")))]
    )
    opened(line).edit(adding("ours", seen))
    assert opened(storage).info().metadata == {"theirs": 1, "ours": 1}
    assert seen == [{}, {"theirs": 1}]


@pytest.mark.parametrize("others", [0, 1, 3])
def test_a_write_whose_reply_is_lost_takes_effect_once(storage: MemoryStorage, others: int) -> None:
    class Losing(FaultyStorage):
        """After the reply is lost, others write before anybody looks."""

        def fetch(self, *args: object, **kwargs: object):  # type: ignore[no-untyped-def]  # noqa: ANN202
            wrote = any(name == "put_if" for name, _ in self.calls)
            if wrote and not any(name == "others" for name, _ in self.calls):
                self.calls.append(("others", ""))
                for _ in range(others):
                    opened(storage).edit(adding("theirs"))
            return super().fetch(*args, **kwargs)  # type: ignore[arg-type]

    line = Losing(storage, [Fault(Trouble.LOSE_REPLY, "put_if")])
    opened(line).edit(adding("ours"))
    expected = {"ours": 1, **({"theirs": others} if others else {})}
    assert opened(storage).info().metadata == expected


class Doubtful(FaultyStorage):
    """Calls its first write of the repo object lost, though it took effect; then others write."""

    then: Callable[[], object] | None = None

    def put_if(
        self, key: str, data: Bytes, expected: Version | None, attributes: Attributes = PLAIN
    ) -> Written | LostRace:
        done = super().put_if(key, data, expected, attributes)
        if self.then is None:
            return done
        others, self.then = self.then, None
        others()
        return LostRace(key, in_doubt=True)


@pytest.mark.parametrize("others", [0, 1, 3])
def test_a_write_that_only_seems_lost_takes_effect_once(
    storage: MemoryStorage, others: int
) -> None:
    def come() -> None:
        for _ in range(others):
            opened(storage).edit(adding("theirs"))

    line = Doubtful(storage)
    line.then = come
    opened(line).edit(adding("ours"))
    assert opened(storage).info().metadata["ours"] == 1


def test_it_is_found_also_where_the_log_keeps_one_line(storage: MemoryStorage) -> None:
    line = Doubtful(storage)
    line.then = lambda: None
    RepoObject(line, RepositoryConfig(num_updates_per_repo_info_file=1)).edit(adding("ours"))
    info = opened(storage).info()
    assert len(info.latest_updates) == 1
    assert info.metadata == {"ours": 1}


def test_a_write_that_failed_is_an_error_and_changes_nothing(storage: MemoryStorage) -> None:
    line = FaultyStorage(storage, [Fault(Trouble.FAIL, "put_if")])
    with pytest.raises(StorageError):
        opened(line).edit(adding("ours"))
    assert opened(storage).info().metadata == {}


def test_a_refusal_counts_only_by_the_present_state(storage: MemoryStorage) -> None:
    ours = opened(storage)
    ours.info()
    repo = Repository.open(storage)
    repo.set_status(RepoStatus(RepoAvailability.read_only, None, "moving"))
    with pytest.raises(ReadOnlyError, match="moving"):
        ours.edit(adding("ours"))
    known = opened(storage)
    known.info()
    repo.set_status(RepoStatus(RepoAvailability.online))
    known.edit(adding("ours"), trusts_known=True)
    assert opened(storage).info().metadata == {"ours": 1}


def test_a_change_may_ask_for_any_status(storage: MemoryStorage) -> None:
    Repository.open(storage).set_status(RepoStatus(RepoAvailability.read_only))
    opened(storage).edit(adding("ours"), any_status=True)
    assert opened(storage).info().metadata == {"ours": 1}


def test_nothing_is_written_before_the_caller_is_ready(storage: MemoryStorage) -> None:
    def not_ready() -> None:
        raise RuntimeError

    before = storage.get(REPO_KEY)
    with pytest.raises(RuntimeError):
        opened(storage).edit(adding("ours"), ready=not_ready)
    assert storage.get(REPO_KEY) == before


def test_one_who_always_loses_gives_up(storage: MemoryStorage) -> None:
    few = StorageRetriesSettings(max_tries=3, initial_backoff_ms=1)
    config = RepositoryConfig(repo_update_retries=RepoUpdateRetryConfig(few))
    line = InterruptedStorage(
        storage,
        [
            Moment("put_if", REPO_KEY, lambda: opened(storage).edit(adding("theirs")), call)
            for call in range(1, 10)
        ],
    )
    with pytest.raises(ConflictError):
        RepoObject(line, config).edit(adding("ours"))
    assert "ours" not in opened(storage).info().metadata


def test_an_object_that_is_gone_is_told(storage: MemoryStorage) -> None:
    ours = opened(storage)
    storage.delete_many([REPO_KEY])
    with pytest.raises(RepositoryNotFoundError):
        ours.info()
