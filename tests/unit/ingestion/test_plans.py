"""What a finding says, and where the part of each file goes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from frazil.ingestion.encoding import encoded_attributes
from frazil.ingestion.plans import (
    ABSENT,
    Findings,
    IngestFinding,
    IngestMode,
    IngestSeverity,
    JoinAxis,
    PlannedArray,
    PlanOptions,
    TransferKind,
    missing_value,
    with_new_axes,
)
from tests.support.scans import RAW, SHORT, array_of, planned, scan


def array(**changes: object) -> PlannedArray:
    made = PlannedArray("v", TransferKind.NATIVE, ("t", "x"), (6, 4), (2, 4), RAW, {}, ())
    return replace(made, **changes)  # type: ignore[arg-type]


# --- findings ---


@pytest.mark.parametrize(
    ("count", "where"),
    [
        (0, ""),
        (1, " [/data/0.nc]"),
        (5, " [/data/0.nc, /data/1.nc, /data/2.nc, /data/3.nc, /data/4.nc]"),
        (7, " [/data/0.nc, /data/1.nc, /data/2.nc, /data/3.nc, /data/4.nc and 2 more]"),
    ],
)
def test_a_finding_names_the_first_files(count: int, where: str) -> None:
    files = tuple(f"file:///data/{number}.nc" for number in range(count))
    found = IngestFinding(IngestSeverity.ERROR, "codecs", "they differ", files, "v")
    assert str(found) == f"v: they differ{where}"
    assert found.as_row()["files"] == [f"/data/{number}.nc" for number in range(count)]


def test_a_finding_shows_no_secret_of_a_url() -> None:
    files = ("https://host/a.nc?X-Amz-Signature=swordfish",)
    found = IngestFinding(IngestSeverity.NOTE, "left-out", "told", files)
    assert "swordfish" not in f"{found} {found.as_row()}"
    assert "host/a.nc" in str(found)


def test_warnings_that_are_refused_forbid_to_go_on() -> None:
    findings = Findings(refused=frozenset(["gap"]))
    findings.note("attributes", "differ")
    findings.warn("place", "elsewhere")
    assert not findings.errors
    findings.warn("gap", "a day is missing")
    assert [each.code for each in findings.errors] == ["gap"]


# --- places ---


def test_a_file_without_the_dimension_begins_at_its_start() -> None:
    block, starts = np.array([1, 0, ABSENT]), np.array([0, 3, 7])
    axis = JoinAxis("t", 7, block, starts, None, None, is_new=False)
    assert axis.blocks == 2
    assert [axis.start(file) for file in range(3)] == [3, 0, 0]
    assert [axis.span(file) for file in range(2)] == [slice(3, 7), slice(0, 3)]


def test_axes_that_a_file_lacks_come_first() -> None:
    assert with_new_axes((4, 5), 3) == (1, 4, 5)
    assert with_new_axes((4, 5), 2) == (4, 5)
    assert with_new_axes((), 1) == (1,)


def test_new_values_begin_where_the_repository_ends_along_axes_that_grow() -> None:
    assert array().first == (0, 0)
    assert array(base_shape=(3, 4)).first == (3, 0)
    assert array(base_shape=(6, 4)).first == (0, 0)


def test_each_file_has_its_place_in_arrays_with_its_dimensions() -> None:
    plan, _ = planned(scan(0, time=[2, 3]), scan(1, time=[0, 1]))
    made = array_of(plan)
    assert [plan.start(made, file) for file in range(2)] == [(2, 0), (0, 0)]
    assert plan.part_shape(made, 0) == (2, 2)
    assert plan.axis("lat") is None
    assert plan.start(array_of(plan, "lat"), 0) == (0,)


# --- what is wanted ---


def test_what_cannot_be_referred_to_is_copied_only_if_asked_for() -> None:
    assert not PlanOptions().copies
    assert PlanOptions(materialize=True).copies
    assert PlanOptions(IngestMode.AUTO).copies
    assert PlanOptions(IngestMode.NATIVE).copies


def test_zeros_stand_where_no_file_has_a_value_unless_a_fill_value_is_known() -> None:
    assert missing_value(array(encoding=SHORT)) == 0
    fill = encoded_attributes(np.float32(np.nan), np.dtype("<f4"))
    assert np.isnan(missing_value(array(attrs=fill)))
    fill = encoded_attributes(np.int16(-7), np.dtype("<i2"))
    assert missing_value(array(encoding=SHORT, attrs=fill)) == -7
