"""Counts of work, for tests that something is quick: a busy machine does not fail them."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class TooMuchError(BaseException):
    """More was done than should be; not an error that anything could mistake for its own."""


@contextmanager
def at_most(calls: int) -> Iterator[None]:
    """Stop a block, and fail, as soon as it has called more functions than this."""
    made = 0

    def count(_frame: FrameType, event: str, _argument: object) -> None:
        nonlocal made
        made += event in ("call", "c_call")
        if made > calls:
            sys.setprofile(None)
            raise TooMuchError(f"more than {calls:,} calls")

    sys.setprofile(count)
    try:
        yield
    finally:
        sys.setprofile(None)
