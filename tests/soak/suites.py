"""Which suites share the time of `make soak`: to join, add a line."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final


@dataclass(frozen=True, slots=True)
class Suite:
    """Tests marked `soak` that run in one process, with a share of the time and a seed."""

    name: str
    paths: tuple[str, ...]
    """files or folders; all their tests marked `soak` belong to the suite"""
    share: float = 1.0
    """how much time it gets, compared with the others"""
    goal: int = 0
    """inputs after which it ends and leaves its time to the others; 0 if it has none"""
    least_s: float = 10.0
    """what its longest test, or all that run only once, take on a busy machine; with less time the
    suite does not begin"""

    def holds(self, file: str) -> bool:
        """Whether a file belongs to it."""
        return any(file == path or file.startswith(f"{path}/") for path in self.paths)


# Those with an end of their own come first: what they leave over goes to those that take all
# the time they can get.
SUITES: Final = (
    Suite("odd files", ("tests/ingestion/test_corpus.py",)),
    Suite("spark kills", ("tests/spark/test_kills.py",), least_s=480),
    Suite("cluster", ("tests/spark/test_cluster.py",), least_s=480),
    Suite("many references", ("tests/spark/test_scale.py",)),
    Suite("thousand files", ("tests/peer/test_thousand_files.py",), least_s=240),
    Suite("verdicts", ("tests/peer/test_verdicts.py",)),
    Suite(
        "matrices",
        (
            "tests/races/test_edit_matrix.py",
            "tests/races/test_fork_matrix.py",
            "tests/races/test_merge_matrix.py",
        ),
    ),
    Suite("commit kills", ("tests/races/test_commit_kills.py", "tests/races/test_local_cas.py")),
    Suite(
        "upgrade kills",
        (
            "tests/races/test_upgrade_kills.py",
            "tests/behaviour/test_interrupted_upgrades.py",
            "tests/unit/upgrading",
        ),
    ),
    Suite("explorer", ("tests/web",)),
    Suite("power cuts", ("tests/behaviour/test_power_cut.py",)),
    Suite("commit races", ("tests/races/test_commit_races.py",)),
    Suite("interleavings", ("tests/races/test_interleavings.py",), share=2),
    Suite("schedules", ("tests/races/test_schedules.py",), share=2),
    Suite("changed files", ("tests/hostile",), share=7, goal=1_000_000),
    Suite(
        "damaged files",
        ("tests/ingestion/test_scan_fuzz.py",),
        share=4,
        goal=1_000_000,
        least_s=120,
    ),
    Suite("statements", ("tests/spark/test_statements_generated.py",), goal=2_000, least_s=60),
    Suite("queries", ("tests/spark/test_sql_generated.py",), goal=20_000, least_s=60),
    Suite("machines", ("tests/property",), least_s=60),
    Suite("histories", ("tests/histories",), share=2, least_s=100),
)


def marked(root: Path) -> list[str]:
    """The files below a folder `tests` that have tests marked `soak`."""
    return sorted(
        str(file.relative_to(root))
        for file in (root / "tests").rglob("test_*.py")
        if re.search(r"mark\.soak\b", file.read_text(encoding="utf-8"))
    )


def all_suites(root: Path) -> tuple[Suite, ...]:
    """The table, and before it those that nobody has put there, lest they be forgotten."""
    rest = [file for file in marked(root) if not any(suite.holds(file) for suite in SUITES)]
    return (Suite("others", tuple(rest)), *SUITES) if rest else SUITES
