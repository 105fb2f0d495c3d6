"""`frazil.spark.ingest`: files of other formats into a repository, scanned and copied by Spark."""

from __future__ import annotations

import difflib
import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from frazil.errors import ErrorKind, InvalidInputError
from frazil.ingest.encoding import compressors
from frazil.ingest.formats import parse_format
from frazil.ingest.pipeline import FAIL, SKIP, Request
from frazil.ingest.pipeline import ingest as run_ingest
from frazil.ingest.plans import Mode, Wanted
from frazil.ingest.reports import IngestReport as IngestReport
from frazil.ingest.reports import Progress
from frazil.spark.jobs import target_of
from frazil.spark.location import Target
from frazil.spark.options import STORAGE, invalid_option
from frazil.spark.runner import SparkRunner
from frazil.spark.sessions import require_workers, session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Files: TypeAlias = "str | os.PathLike[str] | Sequence[str | os.PathLike[str]]"

_MODES: Final = ("virtual", "native", "auto")


def ingest(
    files: Files,
    url: str,
    *,
    spark: SparkSession | None = None,
    group: str = "",
    branch: str | None = None,
    mode: str = "virtual",
    chunks: Mapping[str, int] | None = None,
    compressor: str | None = None,
    concat_dim: str | Sequence[str] | None = None,
    append: bool = False,
    on_error: str = FAIL,
    materialize: bool = False,
    dry_run: bool = False,
    message: str | None = None,
    format: str | None = None,
    load: Sequence[str] = (),
    drop: Sequence[str] = (),
    source_group: str = "",
    source_options: Mapping[str, Any] | None = None,
    storage_options: Mapping[str, Any] | None = None,
    container: str | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> IngestReport:
    """Take files into a repository in one commit, by reference or by copy.

    Files are NetCDF 3 and 4, HDF5, GRIB, TIFF, Zarr 2 and 3, or kerchunk references. They are
    joined in the order of their coordinates, along the dimensions whose coordinates differ.

    Args:
        files: paths, URLs and patterns (`data/*.nc`).
        url: the repository, which is made when there is none, and a branch: `URL@branch`.
        spark: the session to use; the active or an embedded one by default.
        group: where in the repository the arrays go.
        branch: made from `main` when there is none.
        mode: `virtual` refers to the bytes of the files, `native` copies values, `auto` copies
            what cannot be referred to.
        chunks: lengths by dimension of what is copied (-1 for all of it); implies `native`.
        compressor: of what is copied: `zstd`, `zstd:9`, `gzip:5`, `blosc:lz4:5`, `none`.
        concat_dim: the dimensions to join along, where coordinates do not tell; a new name
            makes a new dimension.
        append: put the files behind what the group has.
        on_error: `fail` when a file cannot be read, or `skip` it.
        materialize: copy, decoded, what cannot be one array as it is stored.
        dry_run: compare the files and tell what would be done.
        message: of the commit.
        format: of all files, instead of looking at their first bytes.
        load: further variables to copy into the repository at once.
        drop: variables to leave out.
        source_group: the group to take from each file.
        source_options: how to reach the files, as for storages: `region`, `anonymous`, …
        storage_options: how to reach the repository.
        container: the URL prefix that virtual chunks may be read below; the longest common
            folder of the files by default.
        progress: called now and then with how far it is.

    Raises:
        InvalidInputError: files do not go together, or some failed; nothing is committed then,
            and the error has the whole report as `report`.
    """
    wanted = wishes(
        mode=mode,
        chunks=chunks,
        compressor=compressor,
        concat_dim=concat_dim,
        materialize=materialize,
    )
    if on_error not in (FAIL, SKIP):
        raise _no_choice("on_error", on_error, (FAIL, SKIP))
    if format is not None:
        parse_format(format)
    target = target_of(
        url, {STORAGE + name: each for name, each in (storage_options or {}).items()}
    )
    request = Request(
        files=[files] if isinstance(files, str | os.PathLike) else [*files],  # type: ignore[list-item]
        group=group,
        branch=_branch(target, branch),
        wanted=wanted,
        append=append,
        on_error=on_error,
        dry_run=dry_run,
        message=message,
        format=format,
        source_group=source_group,
        source_options=source_options or {},
        load=tuple(load),
        drop=tuple(drop),
        container=container,
    )
    active = spark or session()
    require_workers(active)
    return run_ingest(
        target.location.storage(), request, SparkRunner(active), progress or (lambda _: None)
    )


def _branch(target: Target, named: str | None) -> str:
    """The branch to commit to: as an argument, or as the URL names it."""
    if named is not None and target.ref is not None and target.branch != named:
        raise invalid_option("the branch is chosen twice, in the URL and as an argument")
    return named or target.branch


def wishes(
    *,
    mode: str,
    chunks: Mapping[str, int] | None,
    compressor: str | None,
    concat_dim: str | Sequence[str] | None,
    materialize: bool,
) -> Wanted:
    """What a user wants, once it is sure that there is such a thing.

    Raises:
        InvalidInputError: there is not.
    """
    if mode not in _MODES:
        raise _no_choice("mode", mode, _MODES)
    try:
        compressors(compressor)
    except ValueError:
        raise InvalidInputError(
            f"there is no compressor {compressor!r}; write zstd:9, gzip:5, blosc:lz4:5 or none",
            kind=ErrorKind.INVALID_OPTION,
        ) from None
    for dim, length in (chunks or {}).items():
        if length == 0 or length < -1:
            raise InvalidInputError(
                f"chunks cannot have the length {length} along {dim!r}; -1 means all of it",
                kind=ErrorKind.INVALID_OPTION,
            )
    dims = (concat_dim,) if isinstance(concat_dim, str) else tuple(concat_dim or ())
    return Wanted(Mode(mode), dims, dict(chunks or {}), compressor, materialize)


def _no_choice(name: str, given: str, known: Sequence[str]) -> InvalidInputError:
    near = difflib.get_close_matches(given, known, 1)
    meant = f"; is {near[0]!r} meant?" if near else ""
    return InvalidInputError(
        f"{name} is {given!r}, and can be {', '.join(known)}{meant}", kind=ErrorKind.INVALID_OPTION
    )
