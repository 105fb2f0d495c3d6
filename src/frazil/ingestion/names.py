"""Names that a user gave, and what files really have. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace

from frazil.ingestion.findings import Findings
from frazil.ingestion.plans import Wanted
from frazil.ingestion.records import FileScan
from frazil.spelling import ALIKE, meant, near, unknown

UNKNOWN = "unknown-name"


def require_variables(names: Iterable[str], scans: Sequence[FileScan], findings: Findings) -> None:
    """Find names of variables, to load or to leave out, that no file has."""
    known = {each for scan in scans for each in scan.named}
    there = dict.fromkeys(variable.name for scan in scans for variable in scan.variables)
    for name in names:
        if name not in known:
            findings.error(UNKNOWN, unknown("variable", name, there))


def with_real_names(scans: Sequence[FileScan], wanted: Wanted, findings: Findings) -> Wanted:
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
    """The dimension to join along; a name that is none makes a new one."""
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
