"""What all sessions of one repository share."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from frazil.commit.base import RefStore
from frazil.commit.by_ref_file import RefFileRefs
from frazil.commit.by_repo_object import RepoObjectRefs
from frazil.formats.config_codec import config_to_map
from frazil.formats.generation import Generation, generation_of
from frazil.model.config import RepositoryConfig
from frazil.model.history import JSON, RepoInfo
from frazil.storage.assets import Assets
from frazil.storage.base import Storage, Version, ahead
from frazil.storage.cached import with_disk_cache
from frazil.storage.credentials import AnyCredential
from frazil.storage.virtual import Containers

MANY_REFS: Final = 50_000
"""From so many references on, coding them takes longer than handing them to threads."""
REFS_AT_ONCE: Final = 2_000_000
"""References coded at once, unless there are more in as many manifests as there are cores."""
T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True, eq=False)
class Context:
    """The parts of an open repository; pickles as its settings and is put together again."""

    storage: Storage
    generation: Generation
    config: RepositoryConfig
    refs: RefStore
    assets: Assets
    containers: Containers
    authorized: Mapping[str, AnyCredential | None]
    default_commit_metadata: dict[str, Any] = field(default_factory=dict)

    def each_manifest(
        self, work: Callable[[T], R], items: Sequence[T], references: int
    ) -> Sequence[R]:
        """Read or write manifests side by side; `references` is how many they hold together."""
        if references < MANY_REFS:
            return self.storage.each(work, items)
        # More at once would take memory and no less time: the work is mostly computing.
        width = max(os.cpu_count() or 1, REFS_AT_ONCE * len(items) // references)
        return [*ahead(work, items, width)]

    def splitting_summary(self) -> JSON:
        """The manifest splitting in force, as commit metadata records it."""
        manifest = config_to_map(self.config)["manifest"] or {}
        return manifest.get("splitting")

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild, (
            self.storage,
            self.generation.spec,
            self.config,
            dict(self.authorized),
            self.default_commit_metadata,
        )


def make_context(
    storage: Storage,
    generation: Generation,
    config: RepositoryConfig,
    authorized: Mapping[str, AnyCredential | None] | None,
    known: tuple[Version, RepoInfo] | None = None,
) -> Context:
    """Put together the parts of a repository; `known` is its repo object, if just read."""
    settings = config.storage_settings(storage.default_settings())
    tuned = storage.with_settings(settings).with_request_limit(config.request_limit())
    near = with_disk_cache(tuned, rewrites_snapshots=generation.stores_parent)
    assets = Assets(near, generation, config)
    refs: RefStore = (
        RepoObjectRefs(tuned, config, known)
        if generation.repo_object
        else RefFileRefs(tuned, assets, config)
    )
    return Context(
        storage=tuned,
        generation=generation,
        config=config,
        refs=refs,
        assets=assets,
        containers=Containers(config, authorized or {}),
        authorized=dict(authorized or {}),
    )


def _rebuild(
    storage: Storage,
    spec: int,
    config: RepositoryConfig,
    authorized: Mapping[str, AnyCredential | None],
    metadata: dict[str, Any],
) -> Context:
    context = make_context(storage, generation_of(spec), config, authorized)
    context.default_commit_metadata.update(metadata)
    return context
