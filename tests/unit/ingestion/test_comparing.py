"""What must be equal in all files: dimensions, attributes, encodings and values."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from frazil.ingestion.comparing import decoded_attrs, same_values
from frazil.ingestion.encoding import encoded_attributes
from frazil.ingestion.plans import IngestSeverity
from tests.support.scans import (
    RAW,
    SHORT,
    ZLIB,
    assert_refused,
    base,
    codes,
    coordinate,
    data,
    planned,
    scan,
)


def test_coordinates_of_other_dimensions_must_be_the_same() -> None:
    shifted = scan(1, time=[2, 3], lat=[1.5, 2.5])
    _, findings = planned(scan(0, time=[0, 1]), shifted, concat_dims=("time",))
    assert codes(findings) == ["coordinate-values"]
    longer = scan(1, time=[2, 3], lat=[1.0, 2.0, 3.0], chunks=(2, 3))
    _, found = planned(scan(0, time=[0, 1]), longer, concat_dims=("time",))
    assert "shape" in codes(found)


def test_dimensions_must_be_the_same() -> None:
    turned = {"v": data("file:///data/1.nc", {"lat": 2, "time": 2})}
    _, findings = planned(scan(0, time=[0, 1]), scan(1, time=[2, 3], more=turned))
    assert "dimensions" in codes(findings)


def test_attributes_that_do_not_matter_may_differ() -> None:
    _, findings = planned(
        scan(0, time=[0, 1], attrs={"history": "a"}), scan(1, time=[2, 3], attrs={"history": "b"})
    )
    assert [(each.level, each.code) for each in findings.found] == [
        (IngestSeverity.NOTE, "attributes")
    ]


def test_a_variable_that_is_referred_to_once_must_have_the_same_codecs_in_all_files() -> None:
    def findings(*native: str) -> list[str]:
        scans = []
        for number, encoding in enumerate((ZLIB, RAW)):
            url = f"file:///data/{number}.nc"
            static = replace(data(url, {"lat": 2}, encoding=encoding), name="mask")
            scans.append(scan(number, time=[2 * number, 2 * number + 1], more={"mask": static}))
        return codes(planned(*scans, native_arrays=frozenset(native))[1])

    assert findings() == ["codecs"]
    assert findings("mask", "v") == []


@pytest.mark.parametrize(
    ("changes", "code", "can_materialize"),
    [
        ({"encoding": SHORT}, "dtype", True),
        ({"encoding": RAW}, "codecs", True),
        ({"attrs": {"scale_factor": 2.0}}, "packing", True),
        ({"attrs": {"missing_value": -1}}, "packing", True),
        ({"attrs": {"units": "degC"}}, "units", False),
        ({"attrs": {"standard_name": "x"}}, "meaning", False),
    ],
    ids=[
        "other type",
        "other codecs",
        "other scale",
        "other missing value",
        "other units",
        "other meaning",
    ],
)
def test_what_would_give_wrong_values_is_refused_with_the_file_named(
    changes: dict[str, Any], code: str, can_materialize: bool
) -> None:
    assert_refused({"time": [2, 3], **changes}, code, can_materialize=can_materialize)


@pytest.mark.parametrize(
    ("new", "code"),
    [
        ({"encoding": RAW}, "codecs"),
        ({"encoding": SHORT}, "dtype"),
        ({"attrs": {"scale_factor": 2.0}}, "packing"),
    ],
)
def test_what_is_appended_must_be_stored_as_what_is_there(new: dict[str, Any], code: str) -> None:
    _, findings = planned(scan(0, time=[2, 3], **new), base=base(time=[0, 1]))
    assert code in codes(findings)


def test_codecs_are_told_with_their_settings() -> None:
    _, findings = planned(scan(0, time=[0, 1]), scan(1, time=[2, 3], encoding=RAW))
    (told,) = findings.errors
    assert "numcodecs.zlib(level=4) in the first file" in told.message


def test_fill_values_are_told_as_numbers() -> None:
    fills = [encoded_attributes(fill, np.dtype("<f4")) for fill in (-9999.0, 0.5)]
    pair = [scan(n, time=[2 * n, 2 * n + 1], attrs=fill) for n, fill in enumerate(fills)]
    (told,) = planned(*pair)[1].errors
    assert told.code == "packing"
    assert "_FillValue is 0.5 here, and -9999.0 in the first file" in told.message


def test_a_fill_value_that_is_no_number_is_told_as_it_is() -> None:
    pair = [
        scan(n, time=[2 * n, 2 * n + 1], attrs={"_FillValue": fill})
        for n, fill in enumerate(("none", 0))
    ]
    (told,) = planned(*pair)[1].errors
    assert "_FillValue is 0 here, and 'none' in the first file" in told.message


def test_values_are_the_same_only_if_all_files_have_them() -> None:
    one, other = coordinate("lat", [1.0, np.nan]), coordinate("lat", [1.0, np.nan])
    assert same_values([one, other])
    assert not same_values([one, coordinate("lat", [1.0, 2.0])])
    assert not same_values([one, replace(other, values=None)])
    assert not same_values([replace(one, values=None), other])


def test_attributes_of_decoded_values_do_not_tell_how_they_were_packed() -> None:
    packing = {"scale_factor": 2.0, "add_offset": 1.0, "_FillValue": -1, "missing_value": -1}
    assert decoded_attrs({**packing, "units": "K"}) == {"units": "K"}
