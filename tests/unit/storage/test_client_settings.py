"""How settings of a storage become those of its client."""

from __future__ import annotations

from datetime import timedelta

import pytest

from frazil.model.config import (
    Attribution,
    StorageRetriesSettings,
    StorageSettings,
    StorageTimeoutSettings,
)
from frazil.storage.client_settings import (
    ATTEMPT_TIMEOUT_S,
    RETRY_WINDOW_S,
    Client,
    Role,
    backoff_s,
    max_tries,
    user_agent,
)


def client(role: Role = Role.READ, **settings: object) -> Client:
    return Client(role, StorageSettings(**settings), "agent")  # type: ignore[arg-type]


def test_unset_timeouts_are_bounded() -> None:
    found = client().options(["host"])
    assert found["timeout"] == timedelta(seconds=ATTEMPT_TIMEOUT_S)
    assert found["read_timeout"] == timedelta(seconds=60)
    assert "read_timeout" not in client(Role.WRITE).options(["host"])
    assert client().retries()["retry_timeout"] == timedelta(seconds=RETRY_WINDOW_S)


def test_timeouts_that_are_set_count() -> None:
    timeouts = StorageTimeoutSettings(1, 2, 3, 4)
    made = client(timeouts=timeouts)
    found = made.options(["host"])
    names = ("connect_timeout", "read_timeout", "timeout")
    assert [found[name] for name in names] == [timedelta(milliseconds=n) for n in (1, 2, 4)]
    assert made.retries()["retry_timeout"] == timedelta(milliseconds=3)


def test_conditional_writes_are_never_repeated_by_the_client() -> None:
    retries = StorageRetriesSettings(5, 7, 9)
    assert client(Role.CONDITION, retries=retries).retries()["max_retries"] == 0
    found = client(Role.WRITE, retries=retries).retries()
    assert found["max_retries"] == 4
    assert found["backoff"]["init_backoff"] == timedelta(milliseconds=7)
    assert found["backoff"]["max_backoff"] == timedelta(milliseconds=9)


@pytest.mark.parametrize(("attempt", "seconds"), [(0, 0.1), (1, 0.2), (3, 0.8), (4, 1), (999, 1)])
def test_waits_double_up_to_a_limit(attempt: int, seconds: float) -> None:
    settings = StorageSettings(retries=StorageRetriesSettings(3, 100, 1000))
    assert backoff_s(settings, attempt) == seconds
    assert max_tries(settings) == 3
    assert max_tries(StorageSettings()) == 10


def test_labels_stand_in_the_user_agent() -> None:
    assert user_agent() == "icechunk/2 frazil"
    labels = Attribution(client="a/1", workload="w", principal="p")
    assert user_agent(labels) == "a/1 icechunk/2 frazil (workload=w; principal=p)"
