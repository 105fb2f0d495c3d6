"""Matches names given by users with those in files, and decides which variables are loaded.

Loaded variables are read and stored in the repository, rather than referred to. Coordinates are
small, are needed at once by everybody who opens a dataset, and say how files follow each other:
they are always loaded. Which variables are coordinates is what CF says.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from frazil.cf.decoding import LOADED, named_arrays
from frazil.ingestion.plans import Findings, PlanOptions
from frazil.ingestion.records import FileScan
from frazil.spelling import ALIKE, meant, near, unknown

UNKNOWN: Final = "unknown-name"
LOAD_LIMIT: Final = 16 << 20
"""Coordinates with more than one dimension stay where they are from this size on."""


@dataclass(slots=True)
class VariableChoice:
    """Which variables of a file to load, beside the default ones, and which to leave out."""

    load: frozenset[str] = frozenset()
    drop: frozenset[str] = frozenset()
    found: set[str] = field(default_factory=set)
    """those of the names that the file has"""

    def drops(self, name: str, names: Collection[str]) -> bool:
        """Whether one of all variables is to be left out."""
        asked = {each for each in self.drop if meant(each, names) == name}
        self.found |= asked
        return bool(asked)

    def chosen(
        self, described: Mapping[str, tuple[tuple[str, ...], Mapping[str, Any], int]]
    ) -> set[str]:
        """Names to load, given the dimensions, attributes and bytes of all variables."""
        asked = {each: meant(each, described) for each in self.load}
        self.found |= {each for each, name in asked.items() if name is not None}
        loaded = {*asked.values()}
        named = named_arrays((attrs for _, attrs, _ in described.values()), LOADED)
        return {
            name
            for name, (dims, _, size) in described.items()
            if name in loaded
            or not dims
            or dims == (name,)
            or (name in named and (len(dims) == 1 or size <= LOAD_LIMIT))
        }


def require_variables(names: Iterable[str], scans: Sequence[FileScan], findings: Findings) -> None:
    """Find names of variables, to load or to leave out, that no file has."""
    known = {each for scan in scans for each in scan.named}
    there = dict.fromkeys(variable.name for scan in scans for variable in scan.variables)
    for name in names:
        if name not in known:
            findings.error(UNKNOWN, unknown("variable", name, there))


def with_real_names(
    scans: Sequence[FileScan], wanted: PlanOptions, findings: Findings
) -> PlanOptions:
    """What is wanted, by the names that dimensions have in files."""
    dims = dict.fromkeys(d for scan in scans for each in scan.variables for d in each.dims)
    variables = dict.fromkeys(each.name for scan in scans for each in scan.variables)
    joined = tuple(_joined(name, dims, variables, findings) for name in wanted.concat_dims)
    known = dict.fromkeys((*dims, *joined))
    chunks: dict[str, int] = {}
    for name, length in wanted.chunks.items():
        found = meant(name, known)
        if found is None:
            findings.error(UNKNOWN, f"chunks: {unknown('dimension', name, known)}")
            continue
        chunks[found] = length
    return replace(wanted, concat_dims=joined, chunks=chunks)


def _joined(
    name: str, dims: Collection[str], variables: Collection[str], findings: Findings
) -> str:
    """The dimension to concatenate along; an unknown name makes a new dimension."""
    found = meant(name, dims) or meant(name, variables)
    if found is not None:
        return found
    alike = near(name, dims, ALIKE)
    if alike is not None:
        findings.error(
            UNKNOWN,
            f"there is no dimension {name!r} to join along; did you mean {alike!r}? (a new"
            " dimension needs a name that is less like another)",
        )
    return name
