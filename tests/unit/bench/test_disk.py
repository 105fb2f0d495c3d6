"""Waiting for the disk: as long as it works, and not where nothing tells."""

from __future__ import annotations

from itertools import count
from pathlib import Path

import pytest

from bench import disk


@pytest.fixture(autouse=True)
def nothing_to_write(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.sync", lambda: None)


def line(*, writes: int = 5, in_flight: int = 0, discards: int = 0) -> str:
    return f"254 0 vda 1 2 3 4 {writes} 6 7 8 {in_flight} 10 11 {discards} 0 0 0 5 0\n"


@pytest.mark.parametrize("what", ["writes", "in_flight", "discards"])
def test_it_waits_as_long_as_a_disk_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    told, later = tmp_path / "diskstats", iter([7, 8, 9])
    told.write_text(line())
    monkeypatch.setattr(disk, "STATISTICS", told)

    def sleep(_: float) -> None:
        if number := next(later, None):
            told.write_text(line(**{what: number}))

    monkeypatch.setattr("time.sleep", sleep)
    disk.settle()
    assert next(later, None) is None


def test_it_does_not_wait_where_nothing_tells(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slept: list[float] = []
    monkeypatch.setattr(disk, "STATISTICS", tmp_path / "missing")
    monkeypatch.setattr("time.sleep", slept.append)
    disk.settle()
    assert not slept


def test_it_does_not_wait_for_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told, numbers = tmp_path / "diskstats", count()
    told.write_text(line())
    monkeypatch.setattr(disk, "STATISTICS", told)
    monkeypatch.setattr(disk, "PATIENCE_S", 0.01)
    monkeypatch.setattr("time.sleep", lambda _: told.write_text(line(discards=next(numbers) + 1)))
    disk.settle()
    assert next(numbers) > 0
