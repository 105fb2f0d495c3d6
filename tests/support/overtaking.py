"""A storage that lets somebody else act right before one of its calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from frazil.storage.base import Storage
from tests.support.faulty import FaultyStorage

T = TypeVar("T")


class OvertakenStorage(FaultyStorage):
    """Another storage; `meddle` is done once, before the call with a number (from 1)."""

    def __init__(self, inner: Storage) -> None:
        super().__init__(inner)
        self._at = 0
        self._meddle: Callable[[], object] | None = None

    def before(self, call: int, meddle: Callable[[], object]) -> None:
        """Count calls from now on, and let `meddle` happen before one of them."""
        self.forget_calls()
        self._at, self._meddle = call, meddle

    @property
    def is_over(self) -> bool:
        """Whether fewer calls were made than `before` was told."""
        return self._meddle is not None

    def _ask(self, operation: str, key: str, work: Callable[[], T]) -> T:
        if self._meddle is not None and len(self.calls) + 1 >= self._at:
            meddle, self._meddle = self._meddle, None
            meddle()
        return super()._ask(operation, key, work)
