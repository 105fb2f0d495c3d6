"""The module functions of the official package."""

from __future__ import annotations

import platform
from importlib import metadata
from typing import Final

import frazil
from frazil.icechunk.repository import Repository
from frazil.model.values import SpecVersion

__version__: Final = "2.3.0"
"""the release of the official package whose interface this is"""

_SHOWN_PACKAGES: Final = ("zarr", "numcodecs", "xarray", "virtualizarr")


def spec_version() -> SpecVersion:
    """The format version that new repositories get."""
    return SpecVersion.current()


def supported_spec_versions() -> list[SpecVersion]:
    """The format versions that can be read and written, newest first."""
    return [SpecVersion.v2, SpecVersion.v1]


def user_agent() -> str:
    """How our requests name themselves."""
    return f"frazil-{frazil.__version__}"


def print_debug_info() -> None:
    """Print the versions that a bug report should tell."""
    print(f"platform:  {platform.platform()}")
    print(f"python:  {platform.python_version()}")
    print(f"frazil:  {frazil.__version__}")
    print(f"icechunk interface:  {__version__}")
    for package in _SHOWN_PACKAGES:
        try:
            print(f"{package}:  {metadata.version(package)}")
        except metadata.PackageNotFoundError:
            continue


def upgrade_icechunk_repository(
    repo: Repository,
    *,
    dry_run: bool,
    delete_unused_v1_files: bool = True,
    prefetch_concurrency: int | None = None,
) -> Repository:
    """Move a repository to the newest format; the old handle must not be used afterwards.

    Args:
        repo: the repository.
        dry_run: change nothing, only go through the motions.
        delete_unused_v1_files: delete what the new format does not need.
        prefetch_concurrency: how many snapshots are read at once.
    """
    from frazil.upgrade import upgrade_repository  # with all old formats; seldom needed

    return upgrade_repository(
        repo,
        dry_run=dry_run,
        delete_unused_v1_files=delete_unused_v1_files,
        prefetch_concurrency=prefetch_concurrency,
    )
