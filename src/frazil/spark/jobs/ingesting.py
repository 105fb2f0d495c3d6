"""`frazil.spark.ingest`: files of other formats into a repository, scanned and copied by Spark."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypedDict, Unpack

from frazil import texts
from frazil.errors import ErrorKind, InvalidInputError
from frazil.ingestion.formats import parse_format
from frazil.ingestion.pipeline import FAIL, REFUSE, SKIP, TELL, Request
from frazil.ingestion.pipeline import ingest as run_ingest
from frazil.ingestion.plans import Mode, Wanted
from frazil.ingestion.reports import IngestReport as IngestReport
from frazil.ingestion.reports import Progress
from frazil.ingestion.sources import expand
from frazil.spark.location import Target
from frazil.spark.options.parsing import invalid_option
from frazil.spark.options.table import STORAGE
from frazil.spark.runner import SparkRunner
from frazil.spark.sessions import session
from frazil.spark.tasks import require_known, target_of
from frazil.spelling import nearest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Files: TypeAlias = "str | os.PathLike[str] | Sequence[str | os.PathLike[str]]"

_MODES: Final = ("virtual", "native", "auto")


class Wishes(TypedDict, total=False):
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
    concat_dim: str | Sequence[str] | None
    """the dimensions to join along, where coordinates do not tell; a new name makes a new one"""
    append: bool
    """put the files behind what the group has"""
    on_error: str
    """`fail` when a file cannot be read, or `skip` it"""
    gaps: str
    """`tell` of coordinates that jump, between files or behind what is there, or `refuse` them"""
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


def ingest(
    files: Files,
    url: str,
    *,
    spark: SparkSession | None = None,
    master: str | None = None,
    progress: Callable[[Progress], None] | None = None,
    **wishes: Unpack[Wishes],
) -> IngestReport:
    """Take files into a repository in one commit, by reference or by copy.

    Files are NetCDF 3 and 4, HDF5, GRIB, TIFF, Zarr 2 and 3, or kerchunk references. They are
    joined in the order of their coordinates, along the dimensions whose coordinates differ.

    Args:
        files: paths, URLs and patterns (`data/*.nc`).
        url: the repository, which is made when there is none, and a branch: `URL@branch`.
        spark: the session to use; the active or an embedded one by default.
        master: where that one is to run.
        progress: called now and then with how far it is.
        wishes: how to do it; see `Wishes`.

    Raises:
        InvalidInputError: files do not go together, or some failed; nothing is committed then,
            and the error has the whole report as `report`.
    """
    require_known(wishes, Wishes)
    reached = {STORAGE + name: v for name, v in (wishes.get("storage_options") or {}).items()}
    target = target_of(url, reached)
    request = _request(files, target, wishes)
    expand(
        request.files, request.source_options
    )  # what matches nothing is told before Spark starts
    runner = SparkRunner(spark or session(master))
    return run_ingest(target.location.storage(), request, runner, progress or (lambda _: None))


def _request(files: Files, target: Target, wishes: Wishes) -> Request:
    """What is asked for, once it is sure that there is such a thing."""
    on_error, format = wishes.get("on_error", FAIL), wishes.get("format")
    if on_error not in (FAIL, SKIP):
        raise _no_choice("on_error", on_error, (FAIL, SKIP))
    gaps = wishes.get("gaps", TELL)
    if gaps not in (TELL, REFUSE):
        raise _no_choice("gaps", gaps, (TELL, REFUSE))
    if format is not None:
        parse_format(format)
    return Request(
        files=[files] if isinstance(files, str | os.PathLike) else [*files],  # type: ignore[list-item]
        group=wishes.get("group", ""),
        branch=_branch(target, wishes.get("branch")),
        wanted=_wanted(wishes),
        append=wishes.get("append", False),
        on_error=on_error,
        gaps=gaps,
        dry_run=wishes.get("dry_run", False),
        message=wishes.get("message"),
        format=format,
        source_group=wishes.get("source_group", ""),
        source_options=wishes.get("source_options") or {},
        load=tuple(wishes.get("load", ())),
        drop=tuple(wishes.get("drop", ())),
        container=wishes.get("container"),
        allow=_texts(wishes.get("allow", ())),
    )


def _texts(given: str | Sequence[str]) -> tuple[str, ...]:
    return (given,) if isinstance(given, str) else tuple(given)


def _branch(target: Target, named: str | None) -> str:
    """The branch to commit to: as an argument, or as the URL names it."""
    if named is not None and target.ref is not None and target.branch != named:
        raise invalid_option("the branch is chosen twice, in the URL and as an argument")
    return named or target.branch


def _wanted(wishes: Wishes) -> Wanted:
    """What the arrays shall be like.

    Raises:
        InvalidInputError: there is no such thing.
    """
    mode, chunks = wishes.get("mode", Mode.VIRTUAL), wishes.get("chunks") or {}
    compressor, concat_dim = wishes.get("compressor"), wishes.get("concat_dim")
    if mode not in _MODES:
        raise _no_choice("mode", mode, _MODES)
    if compressor is not None:
        texts.read("the compressor", texts.compressor, compressor)
    for dim, length in chunks.items():
        if length == 0 or length < -1:
            raise InvalidInputError(
                f"chunks cannot have the length {length} along {dim!r}; -1 means all of it",
                kind=ErrorKind.INVALID_OPTION,
            )
    dims = (concat_dim,) if isinstance(concat_dim, str) else tuple(concat_dim or ())
    return Wanted(
        Mode(mode),
        dims,
        dict(chunks),
        compressor,
        wishes.get("materialize", False),
        checksum=wishes.get("checksum", False),
    )


def _no_choice(name: str, given: str, known: Sequence[str]) -> InvalidInputError:
    return InvalidInputError(
        f"{name} is {given!r}, and can be {', '.join(known)}{nearest(given, known)}",
        kind=ErrorKind.INVALID_OPTION,
    )
