"""Memory for files: used before each run on disk, and given back."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from bench import page_cache
from bench.execution import execute
from bench.model import Case, Contestant, Party, Place


@pytest.fixture(autouse=True)
def little(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_cache, "NBYTES", 3 * page_cache.PIECES[0])
    monkeypatch.setattr("os.sync", lambda: None)


def test_it_is_used_and_given_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []
    monkeypatch.setattr("os.sync", lambda: sizes.append(-1))

    def make(_: Place, __: Place) -> Callable[[], None]:
        return lambda: sizes.append((tmp_path / page_cache.NAME).stat().st_size)

    worker = Contestant("a", Party.FRAZIL, make)
    case = Case("case", "work", "theme", (worker,))
    for number in range(2):
        scratch = Place(str(tmp_path / str(number)))
        execute(case, worker, scratch, scratch, check=False)
    assert sizes == [-1, 0] * 2, "each run is after the disk has rested, with no file in the way"
