"""Files of every generation, changed at random, are refused by errors of ours or read right."""

from __future__ import annotations

from typing import Final

import pytest

from tests.support.fuzzing import tried
from tests.support.soaking import Soak

FUZZER: Final = "tests.hostile.fuzzing"
A_FEW: Final = 3000
MANY: Final = 100_000
"""Inputs of one case of the long run: to begin costs as much as 15,000 of them."""


def test_a_sample_of_changed_files() -> None:
    assert tried(FUZZER, 1, A_FEW)["inputs"] == A_FEW


@pytest.mark.soak
@pytest.mark.timeout(0)  # it keeps time itself
def test_changed_files(soak: Soak) -> None:
    def check(seed: str) -> None:
        soak.inputs += tried(FUZZER, int(seed), MANY)["inputs"]

    soak.run(soak.seeds(), check)
