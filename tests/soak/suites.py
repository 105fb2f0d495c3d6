"""Which suites share the time of `make soak`: to join, add a line."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Suite:
    """Tests marked `soak` that run in one process, with a share of the time and a seed."""

    name: str
    paths: tuple[str, ...]
    """files or folders; all their tests marked `soak` belong to the suite"""
    share: float = 1.0
    """how much time it gets, compared with the others"""


# Those with an end of their own come first: what they leave over goes to those that take all
# the time they can get.
SUITES: Final = (
    Suite("spark kills", ("tests/spark/test_kills.py",)),
    Suite("thousand files", ("tests/peer/test_thousand_files.py",)),
    Suite("verdicts", ("tests/peer/test_verdicts.py",)),
    Suite("matrices", ("tests/races/test_edit_matrix.py", "tests/races/test_fork_matrix.py")),
    Suite("commit kills", ("tests/races/test_commit_kills.py", "tests/races/test_local_cas.py")),
    Suite("upgrade kills", ("tests/races/test_upgrade_kills.py", "tests/unit/upgrading")),
    Suite("power cuts", ("tests/unit/storage/test_power_cut.py",)),
    Suite("commit races", ("tests/races/test_commit_races.py",)),
    Suite("interleavings", ("tests/races/test_interleavings.py",), share=2),
    Suite("schedules", ("tests/races/test_schedules.py",), share=2),
    Suite("machines", ("tests/property",)),
    Suite("histories", ("tests/histories",), share=2.0),
)
