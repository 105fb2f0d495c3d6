"""Running cases: contestants take turns, round after round, so that a busy machine hurts all."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from statistics import median

from bench.execution import QUICK_S, QUICK_TIMES, Measured, execute
from bench.model import Case, Contestant, Dataset, Figures, Party, Place, Size, Unit, Where
from bench.seeds import discard
from bench.servers import Remote
from bench.worker import ROOT, Worker


@dataclass(slots=True)
class Runner:
    """One run: where things are, and what is there already."""

    size: Size
    rounds: int
    folder: Path
    remote: Remote | None = None
    workers: dict[Party, Worker] = field(default_factory=dict)
    """parties that live in other environments"""
    with_memory: bool = True
    _made: dict[str, Place] = field(default_factory=dict)
    _failed: dict[str, str] = field(default_factory=dict)
    _numbers: count[int] = field(default_factory=count)

    def run(self, case: Case) -> list[Figures]:
        """Measure all contestants of a case."""
        figures = {each.name: Figures(each.name, each.party) for each in case.contestants}
        places = {each.name: self._dataset(case, each, figures) for each in case.contestants}
        for turn in range(0 if case.warm_up else 1, self.rounds + 1):
            self._round(case, places, figures, turn)
        if case.memory and self.with_memory:
            for each in case.contestants:
                if not figures[each.name].failure and each.party is not Party.LIMIT:
                    self._memory(case, each, places[each.name], figures[each.name])
        return list(figures.values())

    def release(self, later: Sequence[Case]) -> None:
        """Remove datasets that none of the later cases reads."""
        needed = {each.data.key for case in later for each in case.contestants if each.data}
        for key in [key for key in self._made if key not in needed]:
            place = self._made.pop(key)
            if place.is_local:
                discard(place.folder)

    # --- the turns ---

    def _round(
        self, case: Case, places: dict[str, Place], figures: dict[str, Figures], number: int
    ) -> None:
        """All contestants in turn, quick ones several times; the first round is a warm-up."""
        first = number == (0 if case.warm_up else 1)
        values: dict[str, list[float]] = {each.name: [] for each in case.contestants}
        for turn in range(QUICK_TIMES if number and case.unit is Unit.SECONDS else 1):
            for each in case.contestants[:: 1 if (number + turn) % 2 else -1]:
                found, known = figures[each.name], values[each.name]
                if not found.failure and (not turn or known[0] < QUICK_S):
                    known += self._turn(case, each, places[each.name], found, check=first)
        for name, known in values.items():
            if number and known:
                figures[name].values.append(median(known))

    def _turn(
        self, case: Case, contestant: Contestant, data: Place, figures: Figures, *, check: bool
    ) -> list[float]:
        """What was measured, if it did not fail."""
        try:
            return [self._once(case, contestant, data, figures, check=check).value]
        except Exception as error:
            figures.failure = f"{type(error).__name__}: {error}"[:300]
            print(f"    {contestant.name} failed: {figures.failure}", file=sys.stderr, flush=True)
            return []

    def _once(
        self, case: Case, contestant: Contestant, data: Place, figures: Figures, *, check: bool
    ) -> Measured:
        scratch = self._scratch(case)
        counting = self.remote if case.where is not Where.LOCAL else None
        before = counting.passed if counting is not None else None
        try:
            worker = self.workers.get(contestant.party)
            if worker is None:
                measured = execute(case, contestant, data, scratch, check=check, before=before)
            else:
                measured = worker.run(self.size, case, contestant, data, scratch, check=check)
        finally:
            if scratch.is_local:
                discard(scratch.folder)
        if counting is not None:
            figures.requests = counting.passed()
        return measured

    def _memory(self, case: Case, contestant: Contestant, data: Place, figures: Figures) -> None:
        """Run once more in a fresh process, where nothing is cached and no peak was before."""
        known = self.workers.get(contestant.party)
        fresh = Worker(
            known.python if known else Path(sys.executable),
            known.path if known else (ROOT / "src", ROOT),
        )
        scratch = self._scratch(case)
        try:
            measured = fresh.run(self.size, case, contestant, data, scratch, check=False)
        except Exception as error:
            print(f"    {contestant.name}, memory: {error}", file=sys.stderr, flush=True)
            return
        finally:
            fresh.close()
            if scratch.is_local:
                discard(scratch.folder)
        figures.base_bytes, figures.peak_bytes = measured.base_bytes, measured.peak_bytes

    # --- places ---

    def _scratch(self, case: Case) -> Place:
        name = f"scratch-{next(self._numbers)}-{time.monotonic_ns()}"
        if case.where is Where.LOCAL:
            return Place(str(self.folder / name))
        assert self.remote is not None
        return self.remote.place(case.where, name)

    def _dataset(self, case: Case, contestant: Contestant, figures: dict[str, Figures]) -> Place:
        data = contestant.data
        if data is None:
            return self._scratch(case)
        if data.key not in self._made and data.key not in self._failed:
            try:
                self._made[data.key] = self._prepare(case, contestant, data)
            except Exception as error:
                self._failed[data.key] = f"preparing: {type(error).__name__}: {error}"[:300]
                print(f"    {data.key}, {self._failed[data.key]}", file=sys.stderr, flush=True)
        if data.key in self._failed:
            figures[contestant.name].failure = self._failed[data.key]
            return Place("")
        place = self._made[data.key]
        if case.where is Where.LOCAL:
            return place
        assert self.remote is not None
        return self.remote.place(case.where, place.path)

    def _prepare(self, case: Case, contestant: Contestant, data: Dataset) -> Place:
        """Make a dataset; those on the server from nearby."""
        if case.where is Where.LOCAL:
            place = Place(str(self.folder / data.key))
        else:
            assert self.remote is not None
            place = self.remote.place(Where.S3, data.key)
        worker = self.workers.get(data.party)
        if worker is None:
            data.prepare(place)
        else:
            worker.prepare(self.size, case, contestant, place)
        return place
