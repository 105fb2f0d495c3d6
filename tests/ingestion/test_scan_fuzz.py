"""Damaged files of every format end in a failure with a name, or in what their library reads."""

from __future__ import annotations

from typing import Final

import pytest

from tests.support.fuzzing import tried
from tests.support.soaking import Soak

FUZZER: Final = "tests.ingestion.scan_fuzzing"
A_FEW: Final = 400
MANY: Final = 8_000
"""Files of one case of the long run; to begin costs as much as some thousand of them."""


def test_damaged_files_are_told_or_read_right() -> None:
    told = tried(FUZZER, 1, A_FEW)
    assert told["compared"] > A_FEW // 10, "most files would not be worth trying"
    assert told["refused"] > A_FEW // 10


@pytest.mark.soak
@pytest.mark.timeout(0)  # it keeps time itself
def test_damaged_files_without_end(soak: Soak) -> None:
    def check(seed: str) -> None:
        soak.inputs += tried(FUZZER, int(seed), MANY)["inputs"]

    soak.run(soak.seeds(), check)
