"""Memory for files: used before each run on disk, and given back."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from bench import page_cache
from bench.execution import execute
from bench.model import Case, Contestant, Party, Place

NBYTES = 2 * max(page_cache.PIECES)
TOLD = Path("/proc/self/io")


@pytest.fixture(autouse=True)
def little(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_cache, "NBYTES", NBYTES)
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


@pytest.mark.skipif(not TOLD.exists(), reason="this system does not tell what a process wrote")
def test_it_is_written_in_small_and_in_large_pieces(tmp_path: Path) -> None:
    def told() -> dict[str, int]:
        lines = (line.split(": ") for line in TOLD.read_text().splitlines())
        return {name: int(number) for name, number in lines}

    before = told()
    page_cache.warm(tmp_path)
    after = told()
    small, large = (NBYTES // nbytes for nbytes in page_cache.PIECES)
    assert after["wchar"] - before["wchar"] >= 2 * NBYTES
    assert after["syscw"] - before["syscw"] in range(small + large, 2 * small)
