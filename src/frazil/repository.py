"""The public door: create and open repositories, their refs, history, sessions and settings."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import warnings
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from frazil import urls
from frazil.async_twins import with_async_twins
from frazil.commit.by_repo_object import (
    REPO_KEY,
    require_flag,
)
from frazil.errors import (
    ConflictError,
    ErrorKind,
    InvalidInputError,
    ReadOnlyError,
    SnapshotNotFoundError,
)
from frazil.formats.config_codec import config_to_map
from frazil.formats.generation import BY_SPEC, V2, Generation
from frazil.ids import SnapshotId
from frazil.maintenance import expire, garbage, inspect, stats
from frazil.model.config import Attribution, FeatureFlag, RepositoryConfig, StorageSettings
from frazil.model.display import Field, Literal, Shown
from frazil.model.flags import FLAGS, MOVE_NODE
from frazil.model.graph import AncestryGraph
from frazil.model.history import SnapshotEntry, to_micros
from frazil.model.values import (
    ChunkStorageStats,
    CommitMethod,
    ConflictSolver,
    Diff,
    GCSummary,
    ManifestFileInfo,
    RepoStatus,
    SessionMode,
    SnapshotInfo,
    SpecVersion,
    Update,
    inner_status,
    manifest_file_info,
    repo_status,
    snapshot_info,
    update,
)
from frazil.opening import (
    create_repository,
    detect,
    open_context,
    require,
    stored_config,
)
from frazil.session.context import Context, make_context
from frazil.session.diff import diff_of
from frazil.session.preload import start_preload
from frazil.session.session import Session
from frazil.storage.base import Storage
from frazil.storage.constructors import storage_from_url
from frazil.storage.credentials import AnyCredential
from frazil.store import FrazilStore

log = logging.getLogger(__name__)

Authorized = Mapping[str, AnyCredential | None]


def _chosen(version: SpecVersion | int | None) -> Generation:
    """The generation a caller asked for."""
    if version is None:
        return V2
    if not isinstance(version, int):
        raise ValueError(f"Couldn't parse a valid version from {version!r}")  # noqa: TRY004
    if version not in BY_SPEC:
        raise ValueError(f"Unsupported version {version}")
    return BY_SPEC[version]


def _as_storage(storage: Storage | str | Path) -> Storage:
    return storage if isinstance(storage, Storage) else storage_from_url(str(storage))


@with_async_twins(
    "create",
    "open",
    "open_or_create",
    "exists",
    "fetch_spec_version",
    "fetch_config",
    "save_config",
    "reopen",
    "get_metadata",
    "set_metadata",
    "update_metadata",
    "get_status",
    "set_status",
    "feature_flags",
    "enabled_feature_flags",
    "disabled_feature_flags",
    "set_feature_flag",
    "ancestry_graph",
    "create_branch",
    "list_branches",
    "lookup_branch",
    "reset_branch",
    "delete_branch",
    "create_tag",
    "list_tags",
    "lookup_tag",
    "delete_tag",
    "lookup_snapshot",
    "list_manifest_files",
    "diff",
    "readonly_session",
    "writable_session",
    "rearrange_session",
    "expire_snapshots",
    "garbage_collect",
    "rewrite_manifests",
    "chunk_storage_stats",
    "inspect_snapshot",
    "inspect_repo_info",
    "inspect_manifest",
    "inspect_transaction_log",
    iterators=("ops_log",),
)
class Repository(Shown):
    """An Icechunk repository: a versioned hierarchy of Zarr groups and arrays."""

    shown_name = "Repository"

    def __init__(
        self, context: Context, storage: Storage, attribution: Attribution | None = None
    ) -> None:
        self._open_context: Context | None = context
        self._storage = storage
        self._attribution = attribution or Attribution()

    @property
    def context(self) -> Context:
        """The parts this handle is made of.

        Raises:
            RuntimeError: the repository was upgraded through this handle.
        """
        if self._open_context is None:
            raise RuntimeError(
                "This handle was invalidated by upgrade_icechunk_repository; "
                "use the repository that function returned."
            )
        return self._open_context

    def retire(self) -> None:
        """Make this handle unusable, because the repository behind it has changed its format."""
        self._open_context = None

    # --- opening ---

    @classmethod
    def create(
        cls,
        storage: Storage | str | Path,
        config: RepositoryConfig | None = None,
        authorize_virtual_chunk_access: Authorized | None = None,
        spec_version: SpecVersion | int | None = None,
        check_clean_root: bool = True,
        attribution: Attribution | None = None,
    ) -> Repository:
        """Create a repository in an empty place.

        Raises:
            InvalidInputError: the place is not empty, or no repository may be made there.
            ConflictError: somebody else created one at the same time.
        """
        log.debug("Creating Repository")
        place = _as_storage(storage)
        create_repository(
            place.with_attribution(attribution or Attribution()),
            config,
            _chosen(spec_version),
            check_clean_root=check_clean_root,
        )
        return cls.open(place, config, authorize_virtual_chunk_access, attribution)

    @classmethod
    def open(
        cls,
        storage: Storage | str | Path,
        config: RepositoryConfig | None = None,
        authorize_virtual_chunk_access: Authorized | None = None,
        attribution: Attribution | None = None,
    ) -> Repository:
        """Open the repository at a place.

        Raises:
            RepositoryNotFoundError: there is none.
        """
        place = _as_storage(storage)
        labelled = place.with_attribution(attribution or Attribution())
        context = open_context(labelled, config, authorize_virtual_chunk_access)
        return cls(context, place, attribution)

    @classmethod
    def open_or_create(
        cls,
        storage: Storage | str | Path,
        config: RepositoryConfig | None = None,
        authorize_virtual_chunk_access: Authorized | None = None,
        create_version: SpecVersion | int | None = None,
        check_clean_root: bool = True,
        attribution: Attribution | None = None,
    ) -> Repository:
        """Open the repository at a place, creating it when there is none."""
        place = _as_storage(storage)
        if detect(place) is None:
            try:
                return cls.create(
                    place,
                    config,
                    authorize_virtual_chunk_access,
                    create_version,
                    check_clean_root,
                    attribution,
                )
            except ConflictError:
                pass  # somebody else created it meanwhile
        return cls.open(place, config, authorize_virtual_chunk_access, attribution)

    @staticmethod
    def exists(
        storage: Storage | str | Path, storage_settings: StorageSettings | None = None
    ) -> bool:
        """Whether there is a repository at a place."""
        return Repository.fetch_spec_version(storage, storage_settings) is not None

    @staticmethod
    def fetch_spec_version(
        storage: Storage | str | Path, storage_settings: StorageSettings | None = None
    ) -> SpecVersion | None:
        """The spec version of the repository at a place, or None."""
        place = _as_storage(storage)
        if storage_settings is not None:
            place = place.with_settings(place.default_settings().merge(storage_settings))
        found = detect(place)
        return None if found is None else SpecVersion(found.generation.spec)

    @staticmethod
    def fetch_config(storage: Storage | str | Path) -> RepositoryConfig | None:
        """The configuration stored in a repository, or None."""
        place = _as_storage(storage)
        return stored_config(place, require(place))

    def reopen(
        self,
        config: RepositoryConfig | None = None,
        authorize_virtual_chunk_access: Authorized | None = None,
    ) -> Repository:
        """A handle with changed settings."""
        old = self.context
        effective = old.config.merge(config) if config is not None else old.config
        authorized = (
            old.authorized
            if authorize_virtual_chunk_access is None
            else authorize_virtual_chunk_access
        )
        labelled = self._storage.with_attribution(self._attribution)
        context = make_context(labelled, old.generation, effective, authorized)
        context.default_commit_metadata.update(old.default_commit_metadata)
        return type(self)(context, self._storage, self._attribution)

    @staticmethod
    def delete(storage: Storage | str | Path, *, confirm: str) -> int:
        """Delete a repository with all its objects, and return their number.

        Args:
            storage: where the repository is.
            confirm: must be the same place again, as text, so that nobody does this by accident.
        """
        place = _as_storage(storage)
        if confirm not in (place.url, str(storage)):
            raise InvalidInputError(
                f"to delete the repository pass confirm={place.url!r}",
                kind=ErrorKind.BAD_PREFIX,
            )
        require(place)
        keys = [item.key for item in place.list("")]
        entry_points = [key for key in keys if key == REPO_KEY or key.startswith("refs/")]
        place.delete_many(entry_points)  # first, so that nobody opens a half-deleted repository
        place.delete_many([key for key in keys if key not in set(entry_points)])
        return len(keys)

    def __getstate__(self) -> dict[str, Any]:
        return {"context": self.context, "storage": self._storage, "who": self._attribution}

    def __setstate__(self, state: dict[str, Any]) -> None:
        Repository.__init__(self, state["context"], state["storage"], state["who"])

    # --- what it is ---

    @property
    def config(self) -> RepositoryConfig:
        """A copy of the configuration in force."""
        return RepositoryConfig().merge(self.context.config)

    @property
    def storage(self) -> Storage:
        """Where the repository is."""
        return self._storage

    @property
    def attribution(self) -> Attribution:
        """Who the requests are made for."""
        return self._attribution

    @property
    def spec_version(self) -> SpecVersion:
        """The version of the format this repository is written in."""
        return SpecVersion(self.context.generation.spec)

    @property
    def authorized_virtual_container_prefixes(self) -> set[str]:
        """Virtual chunk containers this handle may read."""
        return set(self.context.containers.authorized_prefixes())

    def shown_title(self) -> str:
        """The first line of `repr`."""
        return f"icechunk.Repository (v{self.context.generation.spec})"

    def shown_fields(self) -> Iterable[Field]:
        """What `repr` shows."""
        yield Field("storage", self._storage)
        yield Field("config", Literal("<RepositoryConfig ...>"))

    def save_config(self) -> None:
        """Store the configuration in force, for everybody who opens the repository later."""
        self.context.refs.save_config(config_to_map(self.context.config))

    def set_default_commit_metadata(self, metadata: dict[str, Any]) -> None:
        """Set metadata that each commit of this handle carries."""
        self.context.default_commit_metadata.clear()
        self.context.default_commit_metadata.update(metadata)

    def default_commit_metadata(self) -> dict[str, Any]:
        """Metadata that each commit of this handle carries."""
        return dict(self.context.default_commit_metadata)

    # --- attributes, status, flags ---

    @property
    def metadata(self) -> dict[str, Any]:
        """Attributes of the repository."""
        return self.get_metadata()

    def get_metadata(self) -> dict[str, Any]:
        """Attributes of the repository."""
        return dict(self.context.refs.metadata())

    def set_metadata(self, metadata: dict[str, Any]) -> None:
        """Replace the attributes of the repository."""
        self.context.refs.set_metadata(metadata, merge=False)

    def update_metadata(self, metadata: dict[str, Any]) -> dict[str, Any]:
        """Overlay attributes of the repository, and return the result."""
        return dict(self.context.refs.set_metadata(metadata, merge=True))

    @property
    def status(self) -> RepoStatus:
        """Whether the repository takes changes."""
        return self.get_status()

    def get_status(self) -> RepoStatus:
        """Whether the repository takes changes."""
        return repo_status(self.context.refs.status())

    def set_status(self, status: RepoStatus) -> None:
        """Open or close the repository for changes."""
        self.context.refs.set_status(inner_status(status))

    def feature_flags(self) -> list[FeatureFlag]:
        """All feature flags."""
        enabled, disabled = self.context.refs.flags()
        return [
            FeatureFlag(
                id=flag,
                name=name,
                default_enabled=True,
                setting=True if flag in enabled else False if flag in disabled else None,
            )
            for flag, name in FLAGS.items()
        ]

    def enabled_feature_flags(self) -> list[FeatureFlag]:
        """Feature flags that are in force."""
        return [flag for flag in self.feature_flags() if flag.enabled]

    def disabled_feature_flags(self) -> list[FeatureFlag]:
        """Feature flags that are off."""
        return [flag for flag in self.feature_flags() if not flag.enabled]

    def set_feature_flag(self, name: str, setting: bool | None) -> None:
        """Set a feature flag; None returns it to its default."""
        self.context.generation.require_repo_object("feature flags")
        for flag, known in FLAGS.items():
            if known == name:
                self.context.refs.set_flag(flag, setting)
                return
        raise InvalidInputError(
            f"invalid feature flag {name!r}; known are {', '.join(FLAGS.values())}",
            kind=ErrorKind.INVALID_FEATURE_FLAG,
        )

    # --- history ---

    def ancestry(
        self,
        *,
        branch: str | None = None,
        tag: str | None = None,
        snapshot_id: str | None = None,
    ) -> Iterator[SnapshotInfo]:
        """A snapshot and its ancestors, newest first."""
        start = self._resolve(branch, tag, snapshot_id)
        return self.context.refs.history(start)

    async def async_ancestry(
        self,
        *,
        branch: str | None = None,
        tag: str | None = None,
        snapshot_id: str | None = None,
    ) -> AsyncIterator[SnapshotInfo]:
        """A snapshot and its ancestors, newest first, as an async iterator."""
        for info in self.ancestry(branch=branch, tag=tag, snapshot_id=snapshot_id):
            yield info

    def ancestry_graph(
        self,
        *,
        branch: str | None = None,
        tag: str | None = None,
        snapshot_id: str | None = None,
        plain: bool = False,
    ) -> AncestryGraph:
        """The history as a picture: of one ref, or of all branches and tags."""
        refs = self.context.refs
        branches, tags = dict(refs.branches()), dict(refs.tags())
        chosen = (branch, tag, snapshot_id) != (None, None, None)
        starts = (
            [self._resolve(branch, tag, snapshot_id)]
            if chosen
            else [*branches.values(), *tags.values()]
        )
        entries = {entry.id: entry for start in starts for entry in refs.ancestry(start)}
        return AncestryGraph(
            [snapshot_info(entry) for entry in entries.values()],
            {name: str(tip) for name, tip in branches.items()},
            {name: str(target) for name, target in tags.items()},
            plain,
        )

    def ops_log(self) -> Iterator[Update]:
        """Everything that was done to the repository, newest first."""
        self.context.generation.require_repo_object("the operations log")
        return (update(entry) for entry in self.context.refs.updates())

    def lookup_snapshot(self, snapshot_id: str) -> SnapshotInfo:
        """What is known of a snapshot.

        Raises:
            SnapshotNotFoundError: there is no such snapshot.
        """
        return snapshot_info(self.context.refs.entry(SnapshotId.parse(snapshot_id)))

    def resolve(self, version: str) -> str:
        """The snapshot a text means: a branch, else a tag, else an id or the beginning of one.

        `{2024-05-01}` means what `main` was at that time, `dev@{2024-05-01}` what `dev` was.
        """
        is_time = version.endswith("}")
        ref = urls.parse_url(f"/@{version}").ref if is_time else urls.Named(version)
        return urls.resolve(ref, self)

    def list_manifest_files(self, snapshot_id: str) -> list[ManifestFileInfo]:
        """The manifests a snapshot needs."""
        snapshot = self.context.assets.snapshot(SnapshotId.parse(snapshot_id))
        return [manifest_file_info(info) for info in snapshot.manifest_files]

    def diff(
        self,
        *,
        from_branch: str | None = None,
        from_tag: str | None = None,
        from_snapshot_id: str | None = None,
        to_branch: str | None = None,
        to_tag: str | None = None,
        to_snapshot_id: str | None = None,
    ) -> Diff:
        """What changed from one snapshot to a later one.

        Raises:
            InvalidInputError: the first is no ancestor of the second.
        """
        first = self._resolve(from_branch, from_tag, from_snapshot_id)
        last = self._resolve(to_branch, to_tag, to_snapshot_id)
        between = self._between(first, last)
        assets = self.context.assets
        ids = [id_ for entry in between for id_ in (*entry.pruned_ancestor_tx_logs, entry.id)]
        logs = [log for log in map(assets.log, ids) if log is not None]
        return diff_of(logs, assets.snapshot(first).nodes, assets.snapshot(last).nodes)

    def _between(self, first: SnapshotId, last: SnapshotId) -> list[SnapshotEntry]:
        """Entries after `first` up to `last`, oldest first."""
        found: list[SnapshotEntry] = []
        for entry in self.context.refs.ancestry(last):
            if entry.id == first and found:
                return found[::-1]
            found.append(entry)
        raise InvalidInputError(
            f"invalid snapshot chain: the ancestry of {last} doesn't include {first} "
            "as an earlier snapshot",
            kind=ErrorKind.BAD_SNAPSHOT_CHAIN_FOR_DIFF,
        )

    # --- branches and tags ---

    def create_branch(self, branch: str, snapshot_id: str) -> None:
        """Make a branch that points to a snapshot."""
        self._require_writable()
        self.context.refs.create_branch(branch, SnapshotId.parse(snapshot_id))

    def list_branches(self) -> set[str]:
        """Names of all branches."""
        return set(self.context.refs.branches())

    def lookup_branch(self, branch: str) -> str:
        """The snapshot a branch points to."""
        return str(self.context.refs.branch_tip(branch))

    def reset_branch(
        self, branch: str, snapshot_id: str, *, from_snapshot_id: str | None = None
    ) -> None:
        """Point a branch to another snapshot, if it still is where you think."""
        self._require_writable()
        expected = None if from_snapshot_id is None else SnapshotId.parse(from_snapshot_id)
        self.context.refs.reset_branch(branch, SnapshotId.parse(snapshot_id), expected)

    def delete_branch(self, branch: str) -> None:
        """Delete a branch; its snapshots stay until garbage collection."""
        self._require_writable()
        self.context.refs.delete_branch(branch)

    def create_tag(self, tag: str, snapshot_id: str) -> None:
        """Give a snapshot a name that never moves."""
        self._require_writable()
        self.context.refs.create_tag(tag, SnapshotId.parse(snapshot_id))

    def list_tags(self) -> set[str]:
        """Names of all tags."""
        return set(self.context.refs.tags())

    def lookup_tag(self, tag: str) -> str:
        """The snapshot a tag points to."""
        return str(self.context.refs.tag_target(tag))

    def delete_tag(self, tag: str) -> None:
        """Delete a tag; its name cannot be used again."""
        self._require_writable()
        self.context.refs.delete_tag(tag)

    # --- sessions ---

    def readonly_session(
        self,
        branch: str | None = None,
        *,
        tag: str | None = None,
        snapshot_id: str | None = None,
        as_of: datetime | None = None,
    ) -> Session:
        """A session to read a snapshot: of a branch (perhaps at an earlier time), a tag or an id.

        Raises:
            SnapshotNotFoundError: no snapshot there, or none so early.
        """
        if as_of is not None and branch is None:
            raise ValueError("as_of is only allowed together with a branch")
        found = self._resolve(branch, tag, snapshot_id)
        if as_of is not None:
            found = self._at_time(found, as_of)
        self.context.refs.entry(found)
        session = Session(self.context, found)
        start_preload(session.state)
        return session

    def writable_session(self, branch: str) -> Session:
        """A session to change a branch."""
        return self._session(branch, SessionMode.writable)

    def rearrange_session(self, branch: str) -> Session:
        """A session to move nodes of a branch."""
        self.context.generation.require_repo_object("moving nodes")
        session = self._session(branch, SessionMode.rearrange)
        enabled, disabled = self.context.refs.flags()
        require_flag(MOVE_NODE, enabled, disabled)
        return session

    def _session(self, branch: str, mode: SessionMode) -> Session:
        self._require_writable()
        self.context.refs.require_online()
        tip = self.context.refs.branch_tip(branch)
        session = Session(self.context, tip, branch=branch, mode=mode)
        start_preload(session.state)
        return session

    @contextlib.contextmanager
    def transaction(
        self,
        branch: str,
        *,
        message: str,
        metadata: dict[str, Any] | None = None,
        rebase_with: ConflictSolver | None = None,
        rebase_tries: int = 1_000,
    ) -> Iterator[FrazilStore]:
        """A store to write to; leaving the block without an error commits."""
        session = self.writable_session(branch)
        yield session.store
        session.commit(message, metadata, rebase_with=rebase_with, rebase_tries=rebase_tries)

    # --- maintenance ---

    def expire_snapshots(
        self,
        older_than: datetime,
        *,
        delete_expired_branches: bool = False,
        delete_expired_tags: bool = False,
    ) -> set[str]:
        """Release snapshots older than a time from the history, and return their ids."""
        self._require_writable()
        return expire.expire_snapshots(
            self.context,
            older_than,
            delete_expired_branches=delete_expired_branches,
            delete_expired_tags=delete_expired_tags,
        )

    def garbage_collect(
        self,
        delete_object_older_than: datetime,
        *,
        dry_run: bool = False,
        max_snapshots_in_memory: int = 50,
        max_compressed_manifest_mem_bytes: int = 512 * 1024 * 1024,
        max_decoded_manifest_mem_bytes: int = 4 * 1024 * 1024 * 1024,
        max_concurrent_manifest_fetches: int = 500,
        max_concurrent_deletes: int = 10,
        max_consecutive_delete_failures: int = 50,
        max_concurrent_listings: int | None = None,
    ) -> GCSummary:
        """Delete objects that nothing refers to and that are older than a time."""
        self._require_writable()
        return garbage.garbage_collect(
            self.context,
            delete_object_older_than,
            dry_run=dry_run,
            max_snapshots_in_memory=max_snapshots_in_memory,
            max_compressed_manifest_mem_bytes=max_compressed_manifest_mem_bytes,
            max_decoded_manifest_mem_bytes=max_decoded_manifest_mem_bytes,
            max_concurrent_manifest_fetches=max_concurrent_manifest_fetches,
            max_concurrent_deletes=max_concurrent_deletes,
            max_consecutive_delete_failures=max_consecutive_delete_failures,
            max_concurrent_listings=max_concurrent_listings,
        )

    def chunk_storage_stats(
        self,
        *,
        max_snapshots_in_memory: int = 50,
        max_compressed_manifest_mem_bytes: int = 512 * 1024 * 1024,
        max_decoded_manifest_mem_bytes: int = 4 * 1024 * 1024 * 1024,
        max_concurrent_manifest_fetches: int = 500,
    ) -> ChunkStorageStats:
        """How many bytes the chunks of the whole history take."""
        return stats.chunk_storage_stats(
            self.context,
            max_snapshots_in_memory=max_snapshots_in_memory,
            max_compressed_manifest_mem_bytes=max_compressed_manifest_mem_bytes,
            max_decoded_manifest_mem_bytes=max_decoded_manifest_mem_bytes,
            max_concurrent_manifest_fetches=max_concurrent_manifest_fetches,
        )

    def total_chunks_storage(
        self,
        *,
        max_snapshots_in_memory: int = 50,
        max_compressed_manifest_mem_bytes: int = 512 * 1024 * 1024,
        max_decoded_manifest_mem_bytes: int = 4 * 1024 * 1024 * 1024,
        max_concurrent_manifest_fetches: int = 500,
    ) -> int:
        """How many bytes native chunks take; use `chunk_storage_stats` instead."""
        warnings.warn(
            "total_chunks_storage is deprecated, use chunk_storage_stats",
            DeprecationWarning,
            stacklevel=2,
        )
        return self.chunk_storage_stats(
            max_snapshots_in_memory=max_snapshots_in_memory,
            max_compressed_manifest_mem_bytes=max_compressed_manifest_mem_bytes,
            max_decoded_manifest_mem_bytes=max_decoded_manifest_mem_bytes,
            max_concurrent_manifest_fetches=max_concurrent_manifest_fetches,
        ).native_bytes

    async def total_chunks_storage_async(
        self,
        *,
        max_snapshots_in_memory: int = 50,
        max_compressed_manifest_mem_bytes: int = 512 * 1024 * 1024,
        max_decoded_manifest_mem_bytes: int = 4 * 1024 * 1024 * 1024,
        max_concurrent_manifest_fetches: int = 500,
    ) -> int:
        """How many bytes native chunks take; use `chunk_storage_stats_async` instead."""
        warnings.warn(
            "total_chunks_storage_async is deprecated, use chunk_storage_stats_async",
            DeprecationWarning,
            stacklevel=2,
        )
        found = await asyncio.to_thread(
            self.chunk_storage_stats,
            max_snapshots_in_memory=max_snapshots_in_memory,
            max_compressed_manifest_mem_bytes=max_compressed_manifest_mem_bytes,
            max_decoded_manifest_mem_bytes=max_decoded_manifest_mem_bytes,
            max_concurrent_manifest_fetches=max_concurrent_manifest_fetches,
        )
        return found.native_bytes

    def rewrite_manifests(
        self,
        message: str,
        *,
        branch: str,
        metadata: dict[str, Any] | None = None,
        commit_method: CommitMethod = "new_commit",
    ) -> str:
        """Build the manifests of a branch anew by the present settings, in a commit."""
        if commit_method not in ("new_commit", "amend"):
            raise InvalidInputError(
                f"commit_method must be 'new_commit' or 'amend', not {commit_method!r}",
                kind=ErrorKind.INVALID_COMMIT_CONFIGURATION,
            )
        session = self.writable_session(branch)
        return session.rewrite_manifests(message, metadata, amend=commit_method == "amend")

    def inspect_snapshot(self, snapshot_id: str) -> dict[str, Any]:
        """A snapshot file as plain data."""
        return inspect.inspect_snapshot(self.context, SnapshotId.parse(snapshot_id))

    def inspect_repo_info(self) -> dict[str, Any]:
        """The repo object as plain data."""
        return inspect.inspect_repo_info(self.context)

    def inspect_manifest(self, manifest_id: str) -> dict[str, Any]:
        """A manifest file as plain data."""
        return inspect.inspect_manifest(self.context, manifest_id)

    def inspect_transaction_log(self, snapshot_id: str) -> dict[str, Any]:
        """A transaction log as plain data."""
        return inspect.inspect_transaction_log(self.context, SnapshotId.parse(snapshot_id))

    # --- rules ---

    def _resolve(self, branch: str | None, tag: str | None, snapshot_id: str | None) -> SnapshotId:
        if sum(choice is not None for choice in (branch, tag, snapshot_id)) != 1:
            raise ValueError("give exactly one of branch, tag and snapshot_id")
        if branch is not None:
            return self.context.refs.branch_tip(branch)
        if tag is not None:
            return self.context.refs.tag_target(tag)
        assert snapshot_id is not None
        return SnapshotId.parse(snapshot_id)

    def _at_time(self, tip: SnapshotId, as_of: datetime) -> SnapshotId:
        if as_of.tzinfo is None:
            raise ValueError("as_of needs a time zone")
        limit = to_micros(as_of)
        for entry in self.context.refs.ancestry(tip):
            if entry.flushed_at <= limit:
                return entry.id
        raise SnapshotNotFoundError(
            f"no snapshot as early as {as_of.isoformat()}", kind=ErrorKind.NO_SNAPSHOT_AT_TIME
        )

    def _require_writable(self) -> None:
        if not self.context.storage.can_write:
            raise ReadOnlyError(
                "this storage is read-only",
                kind=ErrorKind.READ_ONLY_STORAGE,
                url=self._storage.url,
            )
