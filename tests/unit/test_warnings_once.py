"""A warning about what is stored is told once, however often it is met."""

from __future__ import annotations

import logging
import uuid

import pytest

from frazil.formats.config_codec import config_from_map
from frazil.logs import warn_once


def test_a_warning_is_told_once_for_each_matter(caplog: pytest.LogCaptureFixture) -> None:
    logger = logging.getLogger("frazil.test")
    matter = uuid.uuid4()
    for _ in range(3):
        for place in ("a", "b"):
            warn_once(logger, (matter, place), "something odd in %s", place)
    assert [record.getMessage() for record in caplog.records] == [
        "something odd in a",
        "something odd in b",
    ]


def test_a_stored_container_is_told_to_be_ignored_once_for_each_repository(
    caplog: pytest.LogCaptureFixture,
) -> None:
    prefix = f"odd{uuid.uuid4().hex}:///"
    stored = {"virtual_chunk_containers": {prefix: {"url_prefix": prefix, "store": "in_memory"}}}
    for _ in range(4):
        for place in ("memory://a", "memory://b", ""):
            config_from_map(stored, repository=place)
    told = [r.getMessage() for r in caplog.records if "ignoring a stored" in r.getMessage()]
    assert ["memory://a" in each for each in told] == [True, False]
