"""What all sessions of one repository share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from frazil.commit.base import RefStore
from frazil.commit.by_ref_file import RefFileRefs
from frazil.commit.by_repo_object import RepoObjectRefs
from frazil.formats.config_codec import config_to_map
from frazil.formats.generation import Generation, generation_of
from frazil.model.config import RepositoryConfig
from frazil.model.history import JSON, RepoInfo
from frazil.storage.assets import Assets
from frazil.storage.base import Storage, Version
from frazil.storage.credentials import AnyCredential
from frazil.storage.virtual import Containers


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
    assets = Assets(tuned, generation, config)
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
