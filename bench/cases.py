"""All cases, in the order of the report."""

from __future__ import annotations

from bench import history, reading, references, remote, writing
from bench.model import Case, Contestant, Size


def all_cases(size: Size) -> tuple[Case, ...]:
    """Everything that is measured side by side."""
    return (
        *reading.cases(size),
        *writing.cases(size),
        *references.cases(size),
        *history.cases(size),
        *remote.cases(size),
    )


def find(size: Size, key: str, name: str) -> tuple[Case, Contestant]:
    """A contestant by the names of its case and of itself."""
    case = next(case for case in all_cases(size) if case.key == key)
    return case, next(each for each in case.contestants if each.name == name)
