"""The benchmark's own rules: what is compared exists, ratios mean what the page says."""

from __future__ import annotations

import pytest

from bench.cases import all_cases, find
from bench.model import SIZES, Case, Contestant, Figures, Party, Size, Target, Unit
from bench.results import case_result, merge


@pytest.mark.parametrize("size", SIZES.values(), ids=SIZES)
def test_every_target_compares_two_contestants_of_its_case(size: Size) -> None:
    for case in all_cases(size):
        names = [each.name for each in case.contestants]
        assert len(set(names)) == len(names), case.key
        for target in case.targets:
            assert {target.contestant, target.against} <= set(names), case.key
            assert (target.must is None) == (target.goal is None), case.key


def test_a_worker_finds_what_the_runner_names() -> None:
    size = SIZES["small"]
    for case in all_cases(size):
        for each in case.contestants:
            found, contestant = find(size, case.key, each.name)
            assert (found.key, contestant.name, contestant.party) == (
                case.key,
                each.name,
                each.party,
            )


def test_both_sizes_measure_the_same_cases() -> None:
    small, full = ([case.key for case in all_cases(size)] for size in SIZES.values())
    assert small == full
    assert len(set(full)) == len(full)


def compare(unit: Unit, ours: list[float], theirs: list[float]) -> dict[str, object]:
    nothing = Contestant("", Party.LIMIT, lambda data, scratch: lambda: None)
    bounds = (0.6, 0.5) if unit is Unit.BYTES else (2.0, 4.0)
    target = Target("frazil", "peer", *bounds)
    case = Case("key", "title", "theme", (nothing,), (target,), unit=unit)
    figures = [
        Figures("frazil", Party.FRAZIL, ours),
        Figures("peer", Party.ICECHUNK2, theirs),
    ]
    found: dict[str, object] = case_result(case, figures)["targets"][0]
    return found


def test_a_ratio_above_one_means_that_frazil_is_faster() -> None:
    found = compare(Unit.SECONDS, [1.0, 1.0, 2.0], [3.0, 3.0, 4.0])
    assert (found["ratio"], found["low"], found["high"]) == (3.0, 2.0, 3.0)
    assert (found["holds"], found["reached"]) == (True, False)


def test_sizes_are_compared_the_other_way_round() -> None:
    found = compare(Unit.BYTES, [50.0], [100.0])
    assert (found["ratio"], found["holds"], found["reached"]) == (0.5, True, True)


def test_a_contestant_that_failed_leaves_no_ratio() -> None:
    assert compare(Unit.SECONDS, [], [1.0])["ratio"] is None


def test_an_update_replaces_only_what_was_measured_again() -> None:
    old = {"time": 1, "cases": [{"key": "a", "n": 1}, {"key": "b", "n": 1}], "curves": []}
    new = {"time": 2, "cases": [{"key": "b", "n": 2}, {"key": "c", "n": 2}], "curves": []}
    assert merge(old, new) == {
        "time": 2,
        "cases": [{"key": "a", "n": 1}, {"key": "b", "n": 2}, {"key": "c", "n": 2}],
        "curves": [],
    }
