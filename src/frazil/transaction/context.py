"""What all sessions of one repository share."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from frazil.commit.base import RefStore
from frazil.commit.by_ref_file import RefFileRefs
from frazil.commit.by_repo_object import RepoObjectRefs
from frazil.formats.config_codec import config_to_map
from frazil.formats.generation import CommitProtocol, Generation
from frazil.model.chunks import ChunkRef, InlineRef, NativeRef, VirtualRef
from frazil.model.config import RepositoryConfig
from frazil.model.history import JSON, RepoInfo
from frazil.storage.assets import Assets
from frazil.storage.base import Storage, Version
from frazil.storage.credentials import AnyCredential
from frazil.storage.pool import ahead
from frazil.storage.trust import NOTHING, Trust
from frazil.storage.virtual import Containers
from frazil.storage.wrapped import IMMUTABLE, SNAPSHOTS_CHANGE, with_disk_cache
from frazil.transaction.tuning import MANY_REFS, REFS_AT_ONCE
from frazil.transaction.verification import RecordedChecksums, check_one_checksum

if TYPE_CHECKING:
    from frazil.storage.legacy.opening import LegacyRepository

T = TypeVar("T")
R = TypeVar("R")
KnownRepository: TypeAlias = "tuple[Version, RepoInfo] | LegacyRepository"
"""What tells a repository's generation: its repo object, or the files of a legacy one."""


@dataclass(frozen=True, eq=False)
class Context:
    """The parts of an open repository; pickles as its settings and is put together again."""

    storage: Storage
    """the objects of the repository, under the keys of a spec"""
    place: Storage
    """the storage as it is; its keys differ from those of `storage` only before spec 1"""
    generation: Generation
    config: RepositoryConfig
    refs: RefStore
    assets: Assets
    containers: Containers
    authorized: Mapping[str, AnyCredential | None]
    store_root: Storage | str | None = None
    """where the caller says the files of a G1 repository are, if not beside its state file; they
    are only read there"""
    trust: Trust = NOTHING
    """settings and addresses that the caller named, as opposed to stored ones"""
    default_commit_metadata: dict[str, Any] = field(default_factory=dict)
    loaded_config: dict[str, JSON] = field(default_factory=dict)
    """the stored configuration as it was read or saved last, to tell what has changed since"""
    checksums: RecordedChecksums | None = None
    """what chunks are compared with when they are read; None to read them as they are"""

    def read_chunk(self, ref: ChunkRef, start: int = 0, end: int | None = None) -> bytes:
        """Bytes `start:end` of one chunk; for many at once see `bulk.fetch.fetch_into`.

        Raises:
            StorageError: the object that holds it is missing, too short or has changed.
            InvalidInputError: a virtual chunk may not be read.
            FormatError: the chunk is not what its checksum says.
        """
        match ref:
            case InlineRef(data):
                return data[start:end] if start or end is not None else data
            case NativeRef(length=length):
                data = self.assets.chunk(ref, start, length if end is None else end)
                if self.checksums is not None and len(data) == length:
                    check_one_checksum(self.checksums, ref, data)
                return data
            case VirtualRef():
                return self.containers.fetch(ref, start, end)

    def each_manifest(
        self, work: Callable[[T], R], items: Sequence[T], references: int, limit: int | None = None
    ) -> Sequence[R]:
        """Read or write manifests side by side; `references` is how many they hold together.

        At most `limit` at once, and no more than the configuration allows, if it says so.
        """
        limits = [each for each in (limit, self.config.decode_limit()) if each is not None]
        if limits:
            return [*ahead(work, items, min(limits))]
        if references < MANY_REFS:
            return self.storage.each(work, items)
        # The work is mostly computing: more at once would take memory, and time of each other.
        width = os.cpu_count() or 1
        if not self.storage.answers_inline:
            width = max(width, REFS_AT_ONCE * len(items) // references)
        return [*ahead(work, items, width)]

    def key_in_place(self, key: str) -> str:
        """The key of an object in `place`."""
        return self.assets.where(key)

    @property
    def why_read_only(self) -> str:
        """The reason, for error messages, why this repository cannot be written to."""
        if self.store_root is None:
            return "the storage is read-only"
        return (
            f"its files are at {self.storage.url}, which was given as store_root and is only read;"
            " an upgrade makes it a repository of one place"
        )

    def splitting_summary(self) -> JSON:
        """The manifest splitting in force, as commit metadata records it."""
        manifest = config_to_map(self.config)["manifest"] or {}
        return manifest.get("splitting")

    def __reduce__(self) -> tuple[object, ...]:
        parts = (self.place, self.generation, self.config, dict(self.authorized))
        more = {"store_root": self.store_root, "trust": self.trust, "checksums": self.checksums}
        return _rebuild, (parts, more, self.default_commit_metadata, self.loaded_config)


def make_context(
    storage: Storage,
    generation: Generation,
    config: RepositoryConfig,
    authorized: Mapping[str, AnyCredential | None] | None,
    known: KnownRepository | None = None,
    store_root: Storage | str | None = None,
    trust: Trust = NOTHING,
    checksums: RecordedChecksums | None = None,
) -> Context:
    """Put together the parts of a repository; `known` is what was just read to find it."""
    settings = config.storage_settings(storage.default_settings())
    tuned = storage.with_settings(settings).with_request_limit(config.request_limit())
    objects, assets_of, refs_of = _parts(tuned, generation, config, known, store_root)
    kept = SNAPSHOTS_CHANGE if generation.stores_parent else IMMUTABLE
    assets = assets_of(with_disk_cache(objects, prefixes=kept))
    return Context(
        storage=objects,
        place=tuned,
        generation=generation,
        config=config,
        refs=refs_of(assets),
        assets=assets,
        containers=Containers(config, authorized or {}, trust),
        authorized=dict(authorized or {}),
        store_root=store_root,
        trust=trust,
        checksums=checksums,
    )


def _parts(
    storage: Storage,
    generation: Generation,
    config: RepositoryConfig,
    known: KnownRepository | None,
    store_root: Storage | str | None,
) -> tuple[Storage, Callable[[Storage], Assets], Callable[[Assets], RefStore]]:
    """The objects of a repository under the keys of a spec, its assets and its refs."""
    assets_of = partial(Assets, storage, generation, config)
    match generation.protocol:
        case CommitProtocol.REPO_OBJECT:
            repo = known if isinstance(known, tuple) else None
            return storage, assets_of, lambda _: RepoObjectRefs(storage, config, repo)
        case CommitProtocol.REF_FILES:
            return storage, assets_of, lambda assets: RefFileRefs(storage, assets, config)
        case CommitProtocol.NUMBERED_FILES | CommitProtocol.STATE_FILE:
            # Few repositories are that old, and all others need not wait for the modules.
            from frazil.commit.legacy import legacy_parts

            found = None if isinstance(known, tuple) else known
            parts = legacy_parts(storage, generation, config, found, store_root)
            return parts.objects, parts.assets, parts.refs


def _rebuild(
    parts: tuple[Any, ...],
    more: Mapping[str, Any],
    metadata: dict[str, Any],
    loaded: dict[str, JSON],
) -> Context:
    context = make_context(*parts, **more)
    context.default_commit_metadata.update(metadata)
    context.loaded_config.update(loaded)
    return context
