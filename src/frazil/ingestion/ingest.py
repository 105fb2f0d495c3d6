"""`frazil.ingest`: files of other formats into a repository, scanned and copied in this process."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Unpack

from frazil.errors import invalid_option
from frazil.ingestion.pipeline import run_request
from frazil.ingestion.reports import IngestReport, Progress
from frazil.ingestion.request import Files, IngestOptions, parse_request
from frazil.run import Here, Runner
from frazil.spelling import require_known
from frazil.storage.base import Storage
from frazil.storage.constructors import storage_from_url
from frazil.urls import MAIN, branch_in, parse_url


def ingest(
    files: Files,
    target: Storage | str | os.PathLike[str],
    *,
    runner: Runner = Here(),  # noqa: B008 - a frozen record
    progress: Callable[[Progress], None] | None = None,
    **options: Unpack[IngestOptions],
) -> IngestReport:
    """Take files into a repository in one commit, by reference or by copy.

    Files are NetCDF 3 and 4, HDF5, GRIB, TIFF, Zarr 2 and 3, or kerchunk references. They are
    joined in the order of their coordinates, along the dimensions whose coordinates differ.

    Args:
        files: paths, URLs and patterns (`data/*.nc`).
        target: the repository, which is made when there is none: `URL[@branch]` or a storage.
        runner: what scans and copies; threads of this process by default.
        progress: called now and then with how far it is.
        options: how to do it; see `IngestOptions`.

    Raises:
        InvalidInputError: files do not go together, or some failed; nothing is committed then,
            and the error has the whole report as `report`.
    """
    require_known(options, IngestOptions)
    in_url = None
    if not isinstance(target, Storage):
        place = parse_url(os.fspath(target))
        in_url = branch_in(place)
        target = storage_from_url(place.url, **(options.get("storage_options") or {}))
    request = parse_request(files, branch_of(in_url, options), options)
    return run_request(target, request, runner, progress or (lambda _: None))


def branch_of(in_url: str | None, options: IngestOptions) -> str:
    """The branch to commit to: as an option, or as the URL names it."""
    named = options.get("branch")
    if named is not None and in_url not in (None, named):
        raise invalid_option("the branch is chosen twice, in the URL and as an argument")
    return named or in_url or MAIN
