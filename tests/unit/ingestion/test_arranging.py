"""How files follow each other: order, gaps, units of time, and what cannot be put in order."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from frazil.ingestion.arranging import arrange
from frazil.ingestion.manifests import part_of, table_of
from frazil.ingestion.plans import Findings, IngestSeverity, TransferKind
from tests.support.scans import assert_refused, base, codes, coordinate, planned, scan


def test_files_are_joined_in_the_order_of_their_coordinates() -> None:
    plan, findings = planned(scan(0, time=[4, 5]), scan(1, time=[0, 1]), scan(2, time=[2, 3]))
    assert not findings.found
    axis = plan.axis("time")
    assert axis is not None
    assert axis.values is not None
    assert axis.values.tolist() == [0, 1, 2, 3, 4, 5]
    assert [axis.start(n) for n in range(3)] == [4, 0, 2]
    array = next(each for each in plan.arrays if each.name == "v")
    assert (array.kind, array.shape, array.chunks) == (TransferKind.VIRTUAL, (6, 2), (2, 2))
    table = table_of([part_of(plan, array, n) for n in array.files], 2)
    assert table.coords.tolist() == [[0, 0], [1, 0], [2, 0]]
    assert [table.locations[n] for n in table.location.tolist()] == [
        "file:///data/1.nc",
        "file:///data/2.nc",
        "file:///data/0.nc",
    ]
    assert [table.ref(n).checksum for n in range(3)] == ["tag"] * 3  # type: ignore[union-attr]


def test_falling_coordinates_stay_falling() -> None:
    plan, findings = planned(scan(0, time=[1, 0]), scan(1, time=[3, 2]))
    assert not findings.errors
    axis = plan.axis("time")
    assert axis is not None
    assert axis.values is not None
    assert axis.values.tolist() == [3, 2, 1, 0]


def test_files_without_coordinates_are_joined_as_given_if_the_dimension_is_named() -> None:
    pair = [scan(n, time=[0, 1], without=["time"]) for n in range(2)]
    _, unnamed = planned(*pair)
    assert codes(unnamed) == ["duplicate"]
    plan, named = planned(*pair, concat_dims=("time",))
    assert not named.errors
    assert plan.axes[0].length == 4
    assert plan.axes[0].starts.tolist() == [0, 2, 4]


def test_gaps_are_told() -> None:
    _, findings = planned(scan(0, time=[0, 1, 2, 3]), scan(1, time=[6, 7, 8, 9]))
    assert [(each.level, each.code) for each in findings.found] == [(IngestSeverity.WARNING, "gap")]


def test_times_in_other_units_are_counted_anew() -> None:
    plan, findings = planned(
        scan(0, time=[0, 1]), scan(1, time=[0, 1], time_units="days since 2000-01-03")
    )
    assert not findings.errors
    axis = plan.axis("time")
    assert axis is not None
    assert axis.values is not None
    assert axis.values.tolist() == [0, 1, 2, 3]


def test_packed_times_in_other_units_are_refused() -> None:
    parts = []
    for number, day in enumerate(("01", "03")):
        units = f"days since 2000-01-{day}"
        time = coordinate("time", [0, 1], units=units, scale_factor=0.5)
        parts.append(scan(number, time=[0, 1], more={"time": time}))
    _, findings = planned(*parts)
    assert codes(findings) == ["time-units"]
    assert "packed" in findings.errors[0].message


# --- what cannot be put in order ---

OTHER_CALENDAR = coordinate("time", [2, 3], units="days since 2000-01-01", calendar="360_day")


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"time": [1, 2]}, "overlap"),
        ({"time": [2, 3], "without": ["time"]}, "missing-coordinate"),
        ({"time": [2, 3], "more": {"time": OTHER_CALENDAR}}, "calendar"),
        ({"time": [5, 2, 7]}, "order"),
        ({"time": [3, 2]}, "order"),
        ({"time": [2, np.nan]}, "order"),
        ({"time": []}, "empty"),
    ],
    ids=[
        "overlap",
        "no coordinate",
        "other calendar",
        "neither rising nor falling",
        "falling behind rising",
        "missing times",
        "no times",
    ],
)
def test_times_that_have_no_order_are_refused_with_the_file_named(
    changes: dict[str, Any], code: str
) -> None:
    assert_refused(changes, code)


@pytest.mark.parametrize(
    ("there", "new", "code"),
    [([4, 5], [2, 3], "before-existing"), ([0, 1], [1, 2], "overlap")],
)
def test_only_what_follows_the_repository_is_appended(
    there: list[int], new: list[int], code: str
) -> None:
    _, findings = planned(scan(0, time=new), base=base(time=there))
    assert code in codes(findings)


def test_overlaps_are_told_as_dates() -> None:
    _, findings = planned(scan(0, time=[0, 1, 2]), scan(1, time=[1, 2]))
    told = next(each for each in findings.errors if each.code == "overlap")
    assert "ends at 2000-01-03, the next begins at 2000-01-02" in told.message


def test_a_shifted_coordinate_is_told_as_what_it_is() -> None:
    shifted = scan(1, time=[2, 3], lat=[1.000001, 2.000001])
    _, findings = planned(scan(0, time=[0, 1]), shifted)
    told = next(each for each in findings.errors if each.code == "shifted")
    assert "'lat' are the same but for at most 1e-06" in told.message
    assert "overlap" not in codes(findings)


def test_lengths_that_differ_without_a_coordinate_need_a_named_dimension() -> None:
    pair = [scan(n, time=[*range(2 + n)], without=["time"]) for n in range(2)]
    _, findings = planned(*pair)
    (told,) = [each for each in findings.errors if each.code == "unknown-order"]
    assert told.files == ("file:///data/1.nc",)
    assert "name it as dimension to join" in told.message


def test_a_scalar_and_a_dimension_of_one_name_do_not_go_together() -> None:
    single = scan(1, time=[2], more={"time": coordinate("time", np.float64(2))})
    single = replace(single, variables=tuple(each for each in single.variables if each.name != "v"))
    _, findings = planned(scan(0, time=[0, 1]), single, concat_dims=("time",))
    told = next(each for each in findings.errors if each.code == "dimensions")
    assert told.files == ("file:///data/1.nc",)
    assert "scalar" in told.message


# --- gaps ---


def gaps(*times: list[int], refused: bool = False) -> list[str]:
    findings = Findings(refused=frozenset(["gap"] if refused else ()))
    arrange([scan(n, time=each) for n, each in enumerate(times)], None, findings)
    return [each.message for each in findings.found if each.code == "gap"]


def test_a_gap_is_told_by_its_dates_and_the_usual_step() -> None:
    (told,) = gaps([0, 1], [9, 10])
    assert "between 2000-01-02 and 2000-01-10 where the usual step is 1 days" in told
    assert "gaps=tell" not in told
    (told,) = gaps([0, 1], [9, 10], refused=True)
    assert told.endswith("gaps=tell allows it")


def test_months_after_each_other_have_no_gap() -> None:
    assert gaps([0, 31, 60], [91, 121, 152]) == []
    assert gaps([0, 31, 60], [121, 152, 182]) != []
