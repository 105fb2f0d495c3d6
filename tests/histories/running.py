"""One run of a history: the processes, the proxy between them and the server, and the check."""

from __future__ import annotations

import importlib
import json
import os
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from frazil.fsck import fsck
from frazil.fsck.findings import Level
from tests.histories import nursery, operations, proxy
from tests.histories.actor import Actor, journal_of
from tests.histories.field import Field, token_of
from tests.histories.model import Verdict, check
from tests.histories.records import THE_END, read_all
from tests.support.peer import ROOT
from tests.support.servers import S3Server

OURS: Final = "frazil.icechunk"
SLOW_START: Final = 3
"""Processes of the official packages take seconds to start, and live longer for that."""
START_S: Final = 180.0
"""What loading the packages may take on a machine that has much else to do."""
FINAL_READS: Final = 60
"""Older snapshots that are read when all is over."""


@dataclass(frozen=True, slots=True)
class Party:
    """Processes of one package."""

    name: str
    python: Path
    module: str
    count: int


def ours(count: int) -> Party:
    """Processes of our own package."""
    return Party("frazil", Path(sys.executable), OURS, count)


@dataclass(frozen=True, slots=True)
class Plan:
    """What a run is."""

    parties: Sequence[Party]
    spec: int | str
    seconds: float
    seed: int
    kill_every_s: float = 8.0
    halt_every_s: float = 4.0
    is_upgraded: bool = False
    """whether somebody upgrades the repository to spec 2 on the way"""

    @property
    def count(self) -> int:
        """How many processes take part."""
        return sum(party.count for party in self.parties)


@dataclass(slots=True)
class Outcome:
    """What a run has shown."""

    verdict: Verdict
    findings: list[str]
    """of fsck"""
    faults: Mapping[str, int]
    deaths: int
    notes: list[str] = field(default_factory=list)

    def summary(self) -> str:
        """A few lines for the log of a test."""
        counts = self.verdict.operations
        outcomes: Counter[str] = Counter()
        for name, count in counts.items():
            outcomes[name.rpartition(" ")[2]] += count
        return (
            f"{counts.total()} operations ({dict(outcomes)}), {self.verdict.snapshots} snapshots, "
            f"{self.verdict.compared} reads compared, {self.deaths} killed, "
            f"faults {dict(self.faults)}\n{dict(sorted(counts.items()))}"
        )


def play_on_disk(plan: Plan, folder: Path) -> Outcome:
    """A run on local disk, without a proxy."""
    place = {"path": str(folder / "repository")}
    return _play(plan, folder, place, {party.name: place for party in plan.parties}, Counter())


def play_on_s3(
    plan: Plan, folder: Path, server: S3Server, *, forgets_conditions: bool = False
) -> Outcome:
    """A run on an S3 server, through a proxy with faults."""
    place = {
        "endpoint": server.endpoint,
        "bucket": server.bucket,
        "prefix": f"histories/{random.Random(str(folder)).getrandbits(60):x}",
        "key": server.access_key_id,
        "secret": server.secret_access_key,
    }
    faults: Counter[str] = Counter()
    settings = proxy.Settings(server.port, plan.seed, forgets_conditions=forgets_conditions)
    with _proxy(settings, faults) as (lossy, careful):
        ports = {party.name: lossy if party.module == OURS else careful for party in plan.parties}
        places = {
            name: {**place, "endpoint": f"http://{proxy.HOST}:{port}"}
            for name, port in ports.items()
        }
        return _play(plan, folder, place, places, faults)


@contextmanager
def _proxy(settings: proxy.Settings, faults: Counter[str]) -> Iterator[tuple[int, int]]:
    started = subprocess.Popen(
        proxy.command(settings), cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert started.stdout is not None
        lossy, careful = json.loads(started.stdout.readline())
        yield lossy, careful
        faults.update(json.loads(started.communicate(timeout=30)[0]))
    finally:
        started.kill()
        started.wait()


def _play(
    plan: Plan,
    folder: Path,
    place: Mapping[str, str],
    places: Mapping[str, Mapping[str, str]],
    faults: Counter[str],
) -> Outcome:
    ground = Field(place, plan.spec, plan.count + 1)
    ground.create()
    journals = folder / "journals"
    journals.mkdir()
    _run_parties(plan, journals, places)
    _read_everything(ground, journals, plan)
    history = read_all(journals, ground.late_s)
    deaths = sum(path.read_text().count('"died"') for path in journals.glob("*.jsonl"))
    verdict = check(history, ground.empty(), takes_back=plan.spec != 2)
    return Outcome(verdict, _fsck(ground), faults, deaths)


def _run_parties(plan: Plan, journals: Path, places: Mapping[str, Mapping[str, str]]) -> None:
    running: list[tuple[Party, subprocess.Popen[bytes], Path]] = []
    first = 1
    try:
        for party in plan.parties:
            settings = nursery.Settings(
                party.name,
                party.module,
                tuple(range(first, first + party.count)),
                dict(places[party.name]),
                plan.spec,
                plan.count + 1,
                str(journals),
                plan.seconds,
                plan.seed,
                plan.kill_every_s * (1 if party.module == OURS else SLOW_START),
                plan.halt_every_s,
                plan.is_upgraded,
            )
            first += party.count
            log = journals / f"{party.name}.log"
            running.append((party, _start(party, settings, log), log))
        for party, process, log in running:
            status = process.wait(plan.seconds + nursery.GRACE_S + START_S)
            said = log.read_text(errors="replace")[-3000:]
            assert status == 0, f"{party.name} ended with {status}: {said}"
    finally:
        for _, process, _ in running:
            process.kill()  # the children see that it has gone
            process.wait()


def _start(party: Party, settings: nursery.Settings, log: Path) -> subprocess.Popen[bytes]:
    inherited = {name: text for name, text in os.environ.items() if not name.startswith("PYTHON")}
    path = {"PYTHONPATH": str(ROOT / "src")} if party.module == OURS else {}
    with log.open("wb") as output:
        return subprocess.Popen(
            [party.python, "-m", "tests.histories.nursery", nursery.argument(settings)],
            cwd=ROOT,
            env=inherited | path | {"ICECHUNK_LOG": "error", "OPENBLAS_NUM_THREADS": "1"},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
        )


# --- when all is over ---


def _read_everything(ground: Field, journals: Path, plan: Plan) -> None:
    """Read all that refs reach, as one more process."""
    rng = random.Random(plan.seed)
    actor = Actor(0, THE_END, OURS, ground, journal_of(journals, 0, THE_END), rng)
    if isinstance(plan.spec, int):
        operations.containers(actor)
    operations.refs(actor)
    versions = [{"branch": name} for name in sorted(actor.memory.branches)]
    versions += [{"tag": name} for name in sorted(actor.memory.tags)]
    older: set[str] = set()
    for selector in versions:
        entries = operations.whole_history(actor, selector)
        older |= {entry[0] for entry in entries if token_of(entry[2])}
    sample = rng.sample(sorted(older), min(len(older), FINAL_READS))
    for selector in [*versions, *({"snapshot_id": each} for each in sample)]:
        operations.read_at(actor, selector)


def _fsck(ground: Field) -> list[str]:
    report = fsck(ground.open(importlib.import_module(OURS)))
    return [str(each) for each in report.findings if each.level is not Level.NOTE]
