"""What is asked of an ingest: the options as users give them, checked, and as one record."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias, TypedDict, cast

from frazil import texts
from frazil.errors import invalid_option
from frazil.ingestion.georeference import PLACE
from frazil.ingestion.parsers import parse_format
from frazil.ingestion.plans import IngestMode, PlanOptions
from frazil.ingestion.tuning import REFS_BY_TASKS
from frazil.masking import MaskedRecord
from frazil.spelling import nearest

Files: TypeAlias = "str | os.PathLike[str] | Sequence[str | os.PathLike[str]]"

FAIL: Final = "fail"
SKIP: Final = "skip"
TELL: Final = "tell"
REFUSE: Final = "refuse"
_CHOICES: Final = {
    "mode": ("virtual", "native", "auto"),
    "on_error": (FAIL, SKIP),
    "gaps": (TELL, REFUSE),
    "grid_mapping": (REFUSE, TELL),
}
"""What some options can be; the first is the default."""
_LISTS: Final = ("load", "drop", "allow")
_AS_GIVEN: Final = (
    "group", "append", "dry_run", "message", "format", "source_group", "container", "statistics"
)  # fmt: skip


class IngestOptions(TypedDict, total=False):
    """How to ingest; all by name."""

    group: str
    """where in the repository the arrays go"""
    branch: str | None
    """made from `main` when there is none"""
    mode: str
    """`virtual` refers to the bytes of the files, `native` copies values, `auto` copies what
    cannot be referred to"""
    chunks: Mapping[str, int] | None
    """lengths by dimension of what is copied (-1 for all of it); implies `native`"""
    compressor: str | None
    """of what is copied: `zstd`, `zstd:9`, `gzip:5`, `blosc:lz4:5`, `none`"""
    checksum: bool
    """let chunks that are copied end in a CRC-32C, so that damage is seen when they are read"""
    statistics: bool
    """keep count, extremes and sum of chunks that are copied, so that they can be skipped"""
    concat_dim: str | Sequence[str] | None
    """the dimensions to join along, where coordinates do not tell; a new name makes a new one"""
    append: bool
    """put the files behind what the group has"""
    on_error: str
    """`fail` when a file cannot be read, or `skip` it"""
    gaps: str
    """`tell` of coordinates that jump, between files or behind what is there, or `refuse` them"""
    grid_mapping: str
    """`refuse` files that disagree about where on Earth their values are (grid mappings of CF, keys
    of GeoTIFF), or `tell` of it and take the word of the first"""
    materialize: bool
    """copy, decoded, what cannot be one array as it is stored"""
    dry_run: bool
    """compare the files and tell what would be done"""
    message: str | None
    """of the commit"""
    format: str | None
    """of all files, instead of looking at their first bytes"""
    load: Sequence[str]
    """further variables to copy into the repository at once"""
    drop: Sequence[str]
    """variables to leave out"""
    source_group: str
    """the group to take from each file"""
    source_options: Mapping[str, Any] | None
    """how to reach the files, as for storages: `region`, `anonymous`, …"""
    storage_options: Mapping[str, Any] | None
    """how to reach the repository"""
    allow: str | Sequence[str]
    """prefixes (paths or URLs) of further files that the given ones may refer to: kerchunk
    references, external and virtual datasets and links of HDF5"""
    container: str | None
    """the URL prefix that virtual chunks may be read below; the longest common folder of the
    files by default"""


@dataclass(frozen=True, slots=True, repr=False)
class IngestRequest(MaskedRecord):
    """All that a user asks of an ingest."""

    files: Files
    group: str = ""
    branch: str = "main"
    wanted: PlanOptions = field(default_factory=PlanOptions)
    append: bool = False
    on_error: str = FAIL
    gaps: str = TELL
    """whether gaps in a coordinate are reported, or refused"""
    grid_mapping: str = REFUSE
    """whether files that disagree about where on Earth values are are refused, or reported"""
    dry_run: bool = False
    message: str | None = None
    format: str | None = None
    source_group: str = ""
    source_options: Mapping[str, Any] = field(default_factory=dict)
    load: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()
    container: str | None = None
    allow: tuple[str, ...] = ()
    """prefixes of further files that the given ones may refer to"""
    refs_by_tasks: int = REFS_BY_TASKS
    statistics: bool = False

    @property
    def refused_warnings(self) -> frozenset[str]:
        """Codes of warnings that forbid to go on."""
        settings = {"gap": self.gaps, PLACE: self.grid_mapping}
        return frozenset(code for code, setting in settings.items() if setting == REFUSE)


def parse_ingest(files: Files, branch: str, options: IngestOptions) -> IngestRequest:
    """What is asked for, once it is sure that there is such a thing."""
    given = cast("Mapping[str, Any]", options)
    kept: dict[str, Any] = {name: _choice(name, given.get(name)) for name in _CHOICES}
    kept |= {name: _texts(given.get(name)) for name in _LISTS}
    kept |= {name: given[name] for name in _AS_GIVEN if name in given}
    if kept.get("format") is not None:
        parse_format(kept["format"])
    return IngestRequest(
        files,
        branch=branch,
        wanted=_wanted(IngestMode(kept.pop("mode")), options),
        source_options=options.get("source_options") or {},
        **kept,
    )


def _choice(name: str, given: object) -> str:
    known = _CHOICES[name]
    if given is None:
        return known[0]
    if given not in known:
        raise invalid_option(
            f"{name} is {given!r}, and can be {', '.join(known)}{nearest(str(given), known)}"
        )
    return str(given)


def _texts(given: str | Sequence[str] | None) -> tuple[str, ...]:
    return (given,) if isinstance(given, str) else tuple(given or ())


def _wanted(mode: IngestMode, options: IngestOptions) -> PlanOptions:
    """What the arrays shall be like."""
    chunks, compressor = options.get("chunks") or {}, options.get("compressor")
    if compressor is not None:
        texts.parse_as("the compressor", texts.compressor, compressor)
    for dim, length in chunks.items():
        if length == 0 or length < -1:
            raise invalid_option(
                f"chunks cannot have the length {length} along {dim!r}; -1 means all of it"
            )
    return PlanOptions(
        mode,
        _texts(options.get("concat_dim")),
        dict(chunks),
        compressor,
        options.get("materialize", False),
        checksum=options.get("checksum", False),
    )
