"""A parser that crashes, hangs or takes all memory costs one file, which is named."""

from __future__ import annotations

import base64
import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from frazil import config
from frazil.errors import InvalidInputError
from frazil.ingestion import isolation
from frazil.ingestion.isolation import ParserEndedError, ParserLimits, isolated
from frazil.ingestion.records import ScanFailure, ScanTask
from frazil.ingestion.scan import scan
from frazil.ingestion.sources import as_url
from tests.support.archive import archive, decoded, seen, take

ENDLESS_GRIB = (
    "R1JJQv//AAIAAAAAAAAAswAAABUBAH8AAAQAAQfXAxcMAAAAAgAAAEgDAAAAAfAAAAAABv//////////////////"
    "/wAAABAAAAAfAAAAAP////8Dk4cAAAAAADAAAAAAAcnDgAAehIAAHoSAAAAAAAAEAAAAAAAAAP+AAAAAAQAAAAAB"
    "//////////////8AAAAVBQAAAfAAAEOIkzMAAAAAAAAAAAAGBv8AAAAFBzc3Nzc="
)
"""a message over which eccodes never comes to an end"""
FATAL_TIFF = (
    "SUkqAEIBAAB4nGPVZGJmYWVj5+Dk4ubh5eMXEBQSFhEVE5eQlJKWkZWTV1BUUlZRVVPX0NTS1tHV0zcwNDI2MTUz"
    "t7C0sraxtbN3cHRydnF1c/fw9PL28fXzDwgMCg4JDQuPiIyKjomNi09ITEpOSf9Lz8jMys7JzcsvKCwqLiktK6+o"
    "rKquqa2rb2hsam5pbWvv6Ozq7unt658wcdLkKVOnTZ8xc9bsOXPnzV+wcNHiJUuXLV+xctXqNWvXrd+wcdPmLVu3"
    "bd+xc9fuPXv37T9w8NDhI0ePHT9x8tTpM2fPnb9w8dLlK1evXb9x89btO3fv3X/w8NHjJ0+fPX/x8tXrN2/fvf/w"
    "8dPnL1+/ff/x89fvP3//MYx6f9T7o94f9f6o90e9P+r9Ue+Pen/U+6PeH/X+qPdHvT8SvA8AFFro8gkAAAEDAAAA"
    "AABAAAAAAQEDAAEAAABAAAAAAgEDAAEAAAAIAAAAAwEDAAEAAAAIAAAABgEDAAEAAAABAAAAEQEEAAEAAAAIAAAA"
    "FgEDAAEAF/5AAAAAFwEEAAEAAAA6AQAAHAEDAAEAAAABAAAAAAAAAA=="
)
"""a directory at which the reader of tiles panics"""


def hang() -> None:
    while True:
        pass


def wait() -> None:
    time.sleep(600)


def crash() -> None:
    os.abort()


def gorge() -> int:
    return int(np.ones(1 << 30).sum())


def keep() -> int:
    """What a library that never frees its memory does."""
    KEPT.append(np.ones(10 << 20))
    return os.getpid()


KEPT: list[object] = []


def fail() -> None:
    raise KeyError("no such thing")


def test_what_is_done_elsewhere_comes_back() -> None:
    values = isolated(ParserLimits(), np.arange, 1_000_000)
    assert values.sum() == 499_999_500_000
    values[0] = 5
    assert isolated(ParserLimits(), os.getpid) != os.getpid()
    assert isolated(ParserLimits(), os.getpid) == isolated(ParserLimits(), os.getpid)


def nap() -> int:
    time.sleep(0.2)
    return os.getpid()


def test_calls_at_once_wait_for_a_helper_that_is_soon_free(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files that are scanned in a moment need no second process, which takes longer to start."""
    monkeypatch.setattr(isolation, "_idle", [])
    with ThreadPoolExecutor(3) as threads:
        monkeypatch.setattr(isolation, "START_S", 60)
        busy = {
            each.result()
            for each in [threads.submit(isolated, ParserLimits(), nap) for _ in range(3)]
        }
        assert len(busy) == 1
        monkeypatch.setattr(isolation, "START_S", 0.01)
        busy = {
            each.result()
            for each in [threads.submit(isolated, ParserLimits(), nap) for _ in range(3)]
        }
        assert len(busy) == 3


def test_a_helper_that_was_started_ahead_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(isolation, "_idle", [])
    isolation.start_ahead("colorsys", "no_such_module")
    assert isolated(ParserLimits(), has_imported, "colorsys")


def has_imported(module: str) -> bool:
    return module in sys.modules


def test_a_crash_is_told_and_the_next_call_works() -> None:
    with pytest.raises(ParserEndedError, match=r"crashed .SIGABRT"):
        isolated(ParserLimits(), crash)
    assert isolated(ParserLimits(), abs, -3) == 3


def test_a_hang_ends_in_time() -> None:
    for work in (hang, wait):
        isolated(ParserLimits(), abs, -3)
        with pytest.raises(ParserEndedError, match=r"longer than 0.2 s"):
            isolated(ParserLimits(seconds=0.2), work)
    assert isolated(ParserLimits(seconds=1), abs, -3) == 3
    time.sleep(1.1)
    assert isolated(ParserLimits(), abs, -4) == 4


def test_memory_has_a_limit() -> None:
    with pytest.raises(MemoryError):
        isolated(ParserLimits(memory=512 << 20), gorge)
    assert isolated(ParserLimits(memory=512 << 20), len, b"abc") == 3


@pytest.mark.soak
def test_what_one_file_leaves_in_memory_is_not_taken_from_the_next() -> None:
    limits = ParserLimits(memory=1 << 30)
    processes = [isolated(limits, keep) for _ in range(16)]  # 80 MiB each
    assert 1 < len({*processes}) < 16  # some were done by one process, but not for ever


def test_errors_are_those_of_the_function() -> None:
    with pytest.raises(KeyError, match="no such thing"):
        isolated(ParserLimits(), fail)


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [("a.grib", ENDLESS_GRIB, "longer than 5 s"), ("a.tif", FATAL_TIFF, "TIFF")],
)
def test_files_that_end_parsers_are_skipped_by_name(
    tmp_path: Path, name: str, content: str, told: str
) -> None:
    files = archive(tmp_path / "files")
    bad = tmp_path / "files" / name
    bad.write_bytes(base64.b64decode(content))
    take(tmp_path / "warm", *files)  # what is imported now costs no time later
    with config.set(scan_seconds=5):
        report = take(tmp_path / "repo", *files, bad, on_error="skip")
    assert [Path(each.url).name for each in report.failures] == [name]
    assert told in report.failures[0].error
    assert name in report.failures[0].error
    assert seen(tmp_path / "repo").equals(decoded(0, 1, 2))


def test_whatever_a_parser_raises_is_a_failure_with_a_name(tmp_path: Path) -> None:
    file = tmp_path / "odd.parq"
    file.mkdir()
    (file / ".zmetadata").write_text('{"metadata": 5, "record_size": 10}')
    found = scan({}, ParserLimits(), ScanTask(as_url(file)))
    assert isinstance(found, ScanFailure)
    assert "odd.parq" in found.error
    assert "AttributeError" in found.error or "TypeError" in found.error


def test_copies_name_the_file_whose_parser_ended(tmp_path: Path) -> None:
    files = archive(tmp_path / "files", 1)
    whole = files[0].read_bytes()
    assert take(tmp_path / "repo", *files, wanted={"mode": "native"}).native_chunks
    # The index of chunks is sound, and the chunks are not.
    at = whole.find(b"x\x9c")
    files[0].write_bytes(whole[: at + 2] + bytes(40) + whole[at + 42 :])
    with pytest.raises(InvalidInputError, match=files[0].name):
        take(tmp_path / "other", *files, wanted={"mode": "native"})
