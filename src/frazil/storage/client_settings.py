"""Settings of object store clients: timeouts, retries, headers, and what forked processes need."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from enum import Enum, auto
from typing import Any, ClassVar, Final, TypeAlias

from frazil.errors import ErrorKind, StorageError
from frazil.masking import MaskedRecord
from frazil.model.config import (
    Attribution,
    StorageRetriesSettings,
    StorageSettings,
    StorageTimeoutSettings,
)
from frazil.storage import fence

ATTEMPT_TIMEOUT_S: Final = 600
"""For one request with its body; stalled reads are noticed earlier."""
RETRY_WINDOW_S: Final = 180
"""No new attempt after this time: signatures must stay valid."""

Provider: TypeAlias = Callable[[], Any]
"""What obstore calls for credentials; each store wants a dict of its own shape."""


class Role(Enum):
    """What a client is for; clients differ in headers and in how failed requests are retried."""

    READ = auto()
    WRITE = auto()
    CONDITION = auto()
    """single attempts, so that we know whether a refusal may be an echo of our own write"""


@dataclass(frozen=True, slots=True, repr=False)
class Client(MaskedRecord):
    """How one client behaves, whatever the store."""

    role: Role
    settings: StorageSettings
    user_agent: str
    headers: Mapping[str, str] = field(default_factory=dict)
    stall_timeout_s: int = 60
    allow_http: bool = False

    def options(self, hosts: Iterable[str], extra: Mapping[str, str] | None = None) -> Any:  # noqa: ANN401  (TypedDict)
        """The `client_options` of obstore, by which it asks these hosts and no others."""
        timeouts = self.settings.timeouts or StorageTimeoutSettings()
        found: dict[str, object] = {"timeout": timedelta(seconds=ATTEMPT_TIMEOUT_S)}
        if self.role is Role.READ and self.stall_timeout_s:
            found["read_timeout"] = timedelta(seconds=self.stall_timeout_s)
        chosen = {
            "connect_timeout": timeouts.connect_timeout_ms,
            "read_timeout": timeouts.read_timeout_ms,
            "timeout": timeouts.operation_attempt_timeout_ms,
        }
        for name, milliseconds in chosen.items():
            if milliseconds:
                found[name] = timedelta(milliseconds=milliseconds)
        found["user_agent"] = self.user_agent
        if self.allow_http:
            found["allow_http"] = True
        found.update(fence.fenced(hosts, extra))
        if self.headers:
            found["default_headers"] = dict(self.headers)
        return found

    def retries(self) -> Any:  # noqa: ANN401  (TypedDict)
        """The `retry_config` of obstore."""
        retries = self.settings.retries or StorageRetriesSettings()
        timeouts = self.settings.timeouts or StorageTimeoutSettings()
        window = timeouts.operation_timeout_ms or RETRY_WINDOW_S * 1000
        return {
            "max_retries": 0 if self.role is Role.CONDITION else max_tries(self.settings) - 1,
            "backoff": {
                "init_backoff": timedelta(milliseconds=_number(retries, "initial_backoff_ms")),
                "max_backoff": timedelta(milliseconds=_number(retries, "max_backoff_ms")),
                "base": 2,
            },
            "retry_timeout": timedelta(milliseconds=window),
        }


def _number(settings: StorageRetriesSettings, name: str) -> int:
    return int(str(settings.effective(name)))


def max_tries(settings: StorageSettings) -> int:
    """How often a request is made before giving up."""
    return _number(settings.retries or StorageRetriesSettings(), "max_tries")


def backoff_s(settings: StorageSettings, attempt: int) -> float:
    """How long to wait after a failed attempt, counted from 0."""
    retries = settings.retries or StorageRetriesSettings()
    longest = _number(retries, "max_backoff_ms")
    return float(min(_number(retries, "initial_backoff_ms") << min(attempt, 30), longest)) / 1000


def user_agent(attribution: Attribution | None = None) -> str:
    """The User-Agent of our requests, with the labels of an attribution."""
    labels = attribution or Attribution()
    products = " ".join(filter(None, (labels.client, "icechunk/2 frazil")))
    pairs = (("workload", labels.workload), ("principal", labels.principal))
    fields = "; ".join(f"{name}={value}" for name, value in pairs if value)
    return f"{products} ({fields})" if fields else products


class _Fork:
    """Knows whether obstore's threads were left behind in a parent process."""

    used: ClassVar[bool] = False
    stranded: ClassVar[bool] = False

    @classmethod
    def entered_child(cls) -> None:
        cls.stranded = cls.used


os.register_at_fork(after_in_child=_Fork.entered_child)


def check_process() -> None:
    """Refuse to call obstore where it would wait for ever.

    Its threads start with the first request of a process and do not survive a fork.
    """
    if _Fork.stranded:
        raise StorageError(
            "object stores cannot be used in a process forked from one that used them: start"
            ' workers with the "spawn" or "forkserver" method',
            kind=ErrorKind.STORAGE_OTHER,
        )
    _Fork.used = True
