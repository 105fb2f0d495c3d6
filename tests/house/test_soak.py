"""`make soak` shares its time, forgets no suite and tells what failed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Final

import psutil
import pytest

from tests.soak import __main__ as runner
from tests.soak.sharing import Failure, Result, goal, patience, seconds_of, share, table
from tests.soak.suites import SUITES, Suite, all_suites, marked
from tests.support.soaking import BEGUN, CASE, REPORT, SECONDS, SEED, Soak

ROOT: Final = Path(__file__).resolve().parents[2]
LONG: Final = "@pytest.mark." + "soak"  # in two, for this file has no such tests
A, B = Suite("a", ("x",)), Suite("b", ("y",), share=3)


def test_times_are_told_as_people_tell_them() -> None:
    assert seconds_of("90s") == 90
    assert seconds_of("1h30m") == 5400
    for text in ("", "30", "m", "3m 4s", "-5m"):
        with pytest.raises(ValueError, match="is no time"):
            seconds_of(text)


def test_time_is_shared_by_weight_and_on_all_cores() -> None:
    assert share(A, [B], left_s=100, workers=2, busy_s=0) == 50
    assert share(A, [], left_s=100, workers=2, busy_s=0) == 100, "no longer than to the end"
    assert share(A, [A], left_s=100, workers=2, busy_s=100) == 50
    assert share(A, [], left_s=0, workers=2, busy_s=40) == 0


def test_a_suite_with_one_long_test_gets_the_time_for_it() -> None:
    long = Suite("long", ("x",), least_s=80)
    assert share(long, [B], left_s=100, workers=2, busy_s=0) == 80
    assert share(long, [], left_s=100, workers=2, busy_s=0) == 100
    assert share(long, [B], left_s=60, workers=2, busy_s=0) == 60, "too little: it does not begin"


def test_every_soak_test_is_in_one_suite() -> None:
    suites = all_suites(ROOT)
    assert len(marked(ROOT)) > 10
    for file in marked(ROOT):
        holding = [suite.name for suite in suites if suite.holds(file)]
        assert len(holding) == 1, f"{file} is in {holding}; see tests/soak/suites.py"


def test_suites_that_nobody_put_into_the_table_run_all_the_same(tmp_path: Path) -> None:
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_new.py").write_text(LONG, encoding="utf-8")
    assert all_suites(tmp_path) == (Suite("others", ("tests/test_new.py",)), *SUITES)


def test_cases_go_on_after_a_failure_and_are_run_again_by_name() -> None:
    def check(case: str) -> None:
        assert int(case) % 3, "a multiple of three"

    soak = Soak(seconds=60, seed=1)
    with pytest.raises(pytest.fail.Exception, match=r"2 of 6 cases failed\n--- 3"):
        soak.run(map(str, range(1, 7)), check)
    assert [case for case, _ in soak.failures] == ["3", "6"]
    again = Soak(seconds=0, seed=1, only="6")
    with pytest.raises(pytest.fail.Exception, match="1 of 1"):
        again.run(again.seeds(), check)


def test_seeds_end_with_the_time() -> None:
    soak = Soak(seconds=0.05, seed=7)
    seen: list[str] = []
    soak.run(soak.seeds(), seen.append)
    assert seen[0] == "7"
    assert soak.cases == len(seen) > 1


def test_a_suite_ends_when_it_has_tried_enough() -> None:
    soak = Soak(seconds=60, seed=7, goal=100)

    def check(_: str) -> None:
        soak.inputs += 30

    soak.run(soak.seeds(), check)
    assert (soak.cases, soak.inputs) == (4, 120)


def test_half_an_hour_is_to_try_a_million_changed_files() -> None:
    (changed,) = (suite for suite in SUITES if suite.name == "changed files")
    assert goal(changed, seconds_of("30m")) == goal(changed, seconds_of("2h")) == 1_000_000
    assert goal(changed, seconds_of("3m")) == 100_000
    told = table([Result("a", 9, 1, 0, 3, (), inputs=120_000, goal=100_000)])
    assert told.endswith("good (120,000 inputs)")
    told = table([Result("a", 9, 1, 0, 3, (), note="cut off in t", inputs=5000, goal=100_000)])
    assert told.endswith("good (5,000 of 100,000 inputs, cut off in t)")


def test_the_table_tells_how_to_see_a_failure_again() -> None:
    bad = Result("races", 61, 2, 0, 40, (Failure("tests/x.py::t", "17", "lost", 4),))
    told = table([Result("kills", 5, 3, 1, 3, ()), bad])
    assert "kills                 3        1         3    0:05  good" in told
    assert "races                 2        0        40    1:01  1 failed" in told
    assert (
        "FRAZIL_SOAK_SEED=4 FRAZIL_SOAK_CASE='17' .venv/bin/python -m pytest -m soak"
        " --hypothesis-seed=4 'tests/x.py::t'" in told
    )


def test_the_table_has_every_seed_that_failed() -> None:
    failures = tuple(Failure("tests/x.py::t", str(seed), "lost") for seed in range(20))
    told = table([Result("races", 61, 2, 0, 40, failures)])
    assert all(failure.replay() in told for failure in failures)


def test_what_was_not_run_is_told() -> None:
    told = table([Result("races", 0, 0, 0, 0, (), note="no time was left for it")])
    assert "good (no time was left for it)" in told


def test_a_suite_ends_with_the_whole_time_or_a_little_later() -> None:
    assert patience(60, left_s=1000, whole_s=1800) == 180, "a test that hangs costs two minutes"
    assert patience(60, left_s=60, whole_s=360) == 96
    assert patience(0, left_s=0, whole_s=360) == 36


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the runner leaves its logs."""
    monkeypatch.setattr(runner, "FOLDER", tmp_path)
    return tmp_path


@pytest.mark.usefixtures("folder")
def test_a_suite_that_begins_too_late_is_told_and_not_run() -> None:
    late = [Suite("late", ("no such file",), least_s=90)]
    (result,) = runner.Soak(late, seconds=80, workers=2, seed=1).run()
    assert result.is_good
    assert result.note == "no time was left for it: it needs 1:30"


ENDLESS = """
import subprocess
import time
from pathlib import Path
import pytest

@long
def test_x():
    child = subprocess.Popen(["sleep", "3000"], start_new_session=True)
    (Path(__file__).parent / "child").write_text(str(child.pid))
    time.sleep(3000)
"""


@pytest.mark.slow
def test_a_test_that_goes_on_is_cut_off_with_all_that_it_has_started(folder: Path) -> None:
    file = folder / "test_endless.py"
    file.write_text(ENDLESS.replace("@long", LONG))
    endless = Suite("endless", (str(file),), least_s=1)
    soak = runner.Soak([endless], seconds=1, workers=1, seed=1)
    soak.end += 6  # a busy machine needs so long to start the test
    (result,) = soak.run()
    assert result.is_good, "nothing is known to be wrong"
    assert result.tests == 0
    child = int((folder / "child").read_text())
    assert not psutil.pid_exists(child) or psutil.Process(child).status() == psutil.STATUS_ZOMBIE


def test_what_was_cut_off_is_told(tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    done = {"test": "t[1]", "outcome": "passed", "cases": 3, "failures": []}
    notes = [{"test": "t[1]", "outcome": BEGUN}, done, {"test": "t[2]", "outcome": BEGUN}]
    report.write_text("\n".join(map(json.dumps, notes)), encoding="utf-8")
    result = runner.read(Suite("a", ()), 1.0, report, "", 1)
    assert (result.tests, result.cases, result.note) == (1, 3, "cut off in t[2]")


SAMPLE = """
import time
import pytest

@long
def test_with_an_end():
    time.sleep(0.3)

@long
def test_that_goes_on(soak):
    def check(seed):
        assert seed != "12", "twelve"
    soak.run(soak.seeds(), check)

@long
def test_that_is_too_late():
    pass
"""


@pytest.mark.slow
def test_tests_note_what_they_did(tmp_path: Path) -> None:
    file, report = tmp_path / "test_sample.py", tmp_path / "report.json"
    file.write_text(SAMPLE.replace("@long", LONG), encoding="utf-8")
    environment = {**os.environ, SECONDS: "0.8", SEED: "10", REPORT: str(report)}
    environment.pop(CASE, None)
    program = [sys.executable, "-m", "pytest", "-q", "-m", "soak", "--rootdir", str(tmp_path)]
    options = ["-p", "tests.conftest", "-p", "no:cacheprovider", "-o", "markers=soak"]
    done = subprocess.run(
        [*program, *options, str(file)], cwd=ROOT, env=environment, capture_output=True, check=False
    )
    assert done.returncode == 1, done.stdout.decode()
    result = runner.read(Suite("sample", (str(file),)), 1.0, report, "", 10)
    assert (result.tests, result.skipped) == (2, 1), done.stdout.decode()
    assert result.cases > 3
    (failure,) = result.failures
    assert failure.case == "12"
    assert "twelve" in failure.why
