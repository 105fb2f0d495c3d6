"""Every file of the corpus reads as its own library reads it, or is refused by name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from numpy.typing import NDArray

from frazil.errors import InvalidInputError
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
        is_number = truth.dtype.kind in "fc"
        assert np.array_equal(found, truth, equal_nan=is_number), name


def assert_reads_right(case: Case, repo: Path, file: Path) -> None:
    group = zarr.open_group(opened(repo).readonly_session("main").store, mode="r")
    truth = case.truth(file)
    assert set(truth) <= {*group.array_keys()}
    for name, values in truth.items():
        assert_same(case, name, np.asarray(group[name][...]), np.asarray(values))  # type: ignore[index]


@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::DeprecationWarning")
@pytest.mark.filterwarnings("ignore::FutureWarning")
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_file_reads_right_or_is_refused(tmp_path: Path, case: Case) -> None:
    (tmp_path / "files").mkdir()
    file = case.make(tmp_path / "files")
    allow = case.allow(tmp_path / "files")
    for mode in ("virtual", "native"):
        repo = tmp_path / mode
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
        assert not repo.exists()


def test_there_are_enough_cases() -> None:
    assert len(CASES) >= 150
    assert len({case.name for case in CASES}) == len(CASES)
