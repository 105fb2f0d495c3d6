"""Every file of the corpus reads as its own library reads it, or is refused by name."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from numpy.typing import NDArray

from frazil.errors import InvalidInputError
from frazil.repository import Repository
from frazil.storage.base import Storage
from frazil.storage.memory import MemoryStorage
from tests.support.archive import opened, take
from tests.support.odd import CASES, Case, Outcome


def assert_same(case: Case, name: str, found: NDArray[Any], truth: NDArray[Any]) -> None:
    assert found.shape == truth.shape, name
    if case.is_close:
        size = float(np.nanmax(np.abs(truth.astype(float)), initial=1.0))
        assert np.allclose(found, truth, rtol=0, atol=1e-5 * size, equal_nan=True), name
    elif truth.dtype.kind in "OTU":
        assert found.astype(object).tolist() == truth.astype(object).tolist(), name
    else:
        assert found.dtype.newbyteorder("=") == truth.dtype.newbyteorder("="), name
        is_number = truth.dtype.kind in "fcMm"
        assert np.array_equal(found, truth, equal_nan=is_number), name


def assert_reads_right(case: Case, repo: Storage, file: Path) -> None:
    group = zarr.open_group(opened(repo).readonly_session("main").store, mode="r")
    truth = case.truth(file)
    assert set(truth) <= {*group.array_keys()}
    for name, values in truth.items():
        assert_same(case, name, np.asarray(group[name][...]), np.asarray(values))  # type: ignore[index]


_TYPE = re.compile(r"(^|-)([<>|]?([biufcS]\d+|\?)|pair)$")


def layout(case: Case) -> tuple[str, str, Outcome]:
    """What a case is about, but for the variant of its format and the type of its numbers."""
    format, _, label = case.name.partition("/")
    return re.sub(r"_.*|\d$", "", format), _TYPE.sub("", label), case.outcome


def spread() -> set[str]:
    """One case of each layout, in variants and types that take turns."""
    groups: dict[tuple[str, str, Outcome], list[str]] = {}
    for case in CASES:
        groups.setdefault(layout(case), []).append(case.name)
    return {names[turn % len(names)] for turn, names in enumerate(groups.values())}


SPREAD = spread()
ALL = [
    pytest.param(case, id=case.name, marks=() if case.name in SPREAD else pytest.mark.soak)
    for case in CASES
]


@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::DeprecationWarning")
@pytest.mark.filterwarnings("ignore::FutureWarning")
@pytest.mark.parametrize("case", ALL)
def test_a_file_reads_right_or_is_refused(tmp_path: Path, case: Case) -> None:
    file = case.make(tmp_path)
    allow = case.allow(tmp_path)
    for mode in ("virtual", "native"):
        repo = MemoryStorage()
        is_refused = case.outcome is Outcome.REFUSED or (
            case.outcome is Outcome.COPIED and mode == "virtual"
        )
        if not is_refused:
            take(repo, file, wanted={"mode": mode}, allow=allow)
            assert_reads_right(case, repo, file)
            continue
        with pytest.raises(InvalidInputError) as refusal:
            take(repo, file, wanted={"mode": mode}, allow=allow)
        assert case.told in str(refusal.value)
        assert file.name in str(refusal.value)
        assert not Repository.exists(repo)


def test_there_are_enough_cases() -> None:
    assert len(CASES) >= 150
    assert len({case.name for case in CASES}) == len(CASES)
    kinds = {(case.name.partition("/")[0], case.outcome) for case in CASES}
    tried = {(c.name.partition("/")[0], c.outcome) for c in CASES if c.name in SPREAD}
    assert kinds == tried, "each format in each way is tried without the soak, too"
