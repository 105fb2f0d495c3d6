"""The same names for all parties: their modules, storages and repositories."""

from __future__ import annotations

import contextlib
import importlib
import logging
import os
import warnings
from collections.abc import Iterable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Literal

from bench.model import Party, Place

ACCESS = {"access_key_id": "frazil-bench", "secret_access_key": "only-for-bench"}
REGION = "us-east-1"

Durability = Literal["commit", "none", "after"]
"""who syncs files to the disk: Frazil as a part of each commit, nobody, or we when it has ended"""

SYNCED = f"{Party.ICECHUNK2.value}, then fsync"
"""The official package never syncs; with this after a commit it promises what Frazil does."""

BATCHED = "zarr.core.codec_pipeline.BatchedCodecPipeline"
"""zarr's own pipeline, for everything that is not ours"""


def quiet() -> None:
    """Keep warnings and logs of all parties out of the output."""
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    try:
        import icechunk
    except ModuleNotFoundError:
        return
    icechunk.set_logs_filter("error")


def api(party: Party) -> Any:
    """The module with the official names."""
    return importlib.import_module("frazil.icechunk" if party is Party.FRAZIL else "icechunk")


def storage(party: Party, place: Place, durability: Durability = "none") -> Any:
    """Where a repository is. Durability is ours alone: the official package never syncs."""
    if place.is_local:
        if party is Party.FRAZIL:
            from frazil.storage.local import LocalStorage

            return LocalStorage(
                place.path, durability="commit" if durability == "commit" else "none"
            )
        return api(party).local_filesystem_storage(place.path)
    return api(party).s3_storage(
        bucket=place.bucket,
        prefix=place.path,
        endpoint_url=place.endpoint,
        region=REGION,
        allow_http=True,
        force_path_style=True,
        **ACCESS,
    )


def to_disk(paths: Iterable[Path]) -> None:
    """Return once files, and the names in folders, would survive a power cut."""
    for path in paths:
        descriptor = os.open(path, os.O_RDONLY)
        os.fsync(descriptor)
        os.close(descriptor)


def pipeline(party: Party) -> AbstractContextManager[Any]:
    """Let zarr open arrays as if Frazil were not in the process, except for Frazil's own.

    With Frazil loaded, other stores get zarr's own pipeline anyway; this leaves no doubt.
    """
    import zarr

    if party is Party.FRAZIL:
        return contextlib.nullcontext()
    changed: AbstractContextManager[Any] = zarr.config.set({"codec_pipeline.path": BATCHED})
    return changed


def create(
    party: Party, place: Place, durability: Durability = "none", spec: int = 2, **options: Any
) -> Any:
    """A new repository; Frazil can make those of the older format too."""
    if party is Party.FRAZIL:
        options["spec_version"] = spec
    return api(party).Repository.create(storage(party, place, durability), **options)


def open_repository(
    party: Party, place: Place, durability: Durability = "none", **options: Any
) -> Any:
    """An existing repository, opened anew: nothing is cached yet."""
    return api(party).Repository.open(storage(party, place, durability), **options)


def reading(party: Party, place: Place) -> Any:
    """A session that reads the newest state."""
    return open_repository(party, place).readonly_session("main")


def split_config(party: Party, rows: int) -> Any:
    """A configuration with so many rows of chunks per manifest."""
    module = api(party)
    any_array = module.ManifestSplitCondition.AnyArray()
    rule = {any_array: {module.ManifestSplitDimCondition.Axis(0): rows}}
    config = module.RepositoryConfig.default()
    config.manifest = module.ManifestConfig(
        splitting=module.ManifestSplittingConfig.from_dict(rule)
    )
    return config
