"""What is at a place, and how to make or open a repository there (format reference 1.2, 1.3)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from frazil.commit.base import MAIN, now_micros
from frazil.commit.by_ref_file import CONFIG_KEY, create_main, read_config
from frazil.commit.by_repo_object import REPO_KEY, create_repo_object, first_repo_info
from frazil.errors import (
    ConflictError,
    ErrorKind,
    InvalidInputError,
    ReadOnlyError,
    RepositoryNotFoundError,
)
from frazil.formats.config_codec import config_from_map, config_to_map
from frazil.formats.generation import V1, Generation, generation_of
from frazil.formats.ref_files import branch_key
from frazil.formats.repo_info import decode_repo_info, snapshot_table
from frazil.ids import INITIAL_SNAPSHOT_ID
from frazil.model.config import RepositoryConfig
from frazil.model.history import JSON, RepoInfo, Snapshot, SnapshotEntry, TransactionLog
from frazil.session.context import Context, make_context
from frazil.storage.assets import log_key, snapshot_key
from frazil.storage.base import Fetched, Storage, Version, Written
from frazil.storage.credentials import AnyCredential

INITIAL_MESSAGE: Final = "Repository initialized"
INITIAL_METADATA: Final = {"__icechunk": {"is_root": True}}
LEFT_BEHIND: Final = frozenset(
    {snapshot_key(INITIAL_SNAPSHOT_ID), log_key(INITIAL_SNAPSHOT_ID), CONFIG_KEY}
)
"""What an interrupted creation may leave; the next one writes it again."""


@dataclass(frozen=True, slots=True)
class Detected:
    """A repository that was found; `repo` is its repo object, already read."""

    generation: Generation
    repo: tuple[Version, RepoInfo] | None


def detect(storage: Storage) -> Detected | None:
    """Tell which generation lives at a place, if any."""
    found = storage.fetch(REPO_KEY)
    if isinstance(found, Fetched):
        info = decode_repo_info(found.data, key=REPO_KEY)
        return Detected(generation_of(info.spec_version), (found.version, info))
    if storage.head(branch_key(MAIN, encoded=storage.percent_encodes_names)) is not None:
        return Detected(V1, None)
    return None


def require(storage: Storage) -> Detected:
    """Like `detect`, where there must be a repository.

    Raises:
        RepositoryNotFoundError: there is none.
    """
    found = detect(storage)
    if found is None:
        raise RepositoryNotFoundError("the repository doesn't exist", url=storage.url)
    return found


def stored_config(storage: Storage, found: Detected) -> RepositoryConfig | None:
    """The configuration kept in a repository."""
    stored = read_config(storage) if found.repo is None else found.repo[1].config
    return None if stored is None else config_from_map(stored)


def open_context(
    storage: Storage,
    config: RepositoryConfig | None,
    authorized: Mapping[str, AnyCredential | None] | None,
) -> Context:
    """The parts of the repository at a place; `config` goes over what is stored there."""
    found = require(storage)
    effective = _trusted(stored_config(storage, found) or RepositoryConfig())
    if config is not None:
        effective = effective.merge(config)
    return make_context(storage, found.generation, effective, authorized, found.repo)


def _trusted(stored: RepositoryConfig) -> RepositoryConfig:
    """The stored configuration without the permission to commit unsafely.

    The official package writes the settings of its local backend, which cannot replace
    conditionally, into repositories that may be copied to stores that can. Whoever needs
    unconditional writes must ask for them when opening.
    """
    if stored.storage is None:
        return stored
    safe = RepositoryConfig().merge(stored)
    assert safe.storage is not None
    safe.storage.unsafe_use_conditional_create = None
    safe.storage.unsafe_use_conditional_update = None
    return safe


def create_repository(
    storage: Storage,
    config: RepositoryConfig | None,
    generation: Generation,
    *,
    check_clean_root: bool,
) -> None:
    """Write the first snapshot and the entry point of a repository.

    Raises:
        InvalidInputError: the place is not empty, or no repository may be made there.
        ConflictError: somebody else created one at the same time.
    """
    _require_clean(storage, check_clean_root=check_clean_root)
    stored = config_to_map(config) if config and config != RepositoryConfig() else None
    context = make_context(storage, generation, config or RepositoryConfig(), None)
    context.storage.require_safe_commits()
    first = Snapshot(
        id=INITIAL_SNAPSHOT_ID,
        parent_id=None,
        nodes=(),
        flushed_at=now_micros(),
        message=INITIAL_MESSAGE,
        metadata=INITIAL_METADATA,
        manifest_files=(),
    )
    keys = [context.assets.save_snapshot(first)]
    if generation.initial_log:
        keys.append(context.assets.save_log(TransactionLog(first.id)))
    context.assets.make_durable(keys)
    if not _publish_first(context, first, stored):
        raise _exists_already(storage)


def _exists_already(storage: Storage) -> ConflictError:
    return ConflictError(
        message="a repository already exists here",
        kind=ErrorKind.REPO_INFO_UPDATED,
        url=storage.url,
    )


def _publish_first(context: Context, first: Snapshot, config: JSON | None) -> bool:
    """Write the entry point of a new repository; False when somebody else was faster."""
    if not context.generation.repo_object:
        # The configuration first: once the branch is there, the repository is complete.
        if config is not None:
            context.refs.save_config(config)
        return create_main(context.storage, first.id)
    entry = SnapshotEntry(first.id, None, first.flushed_at, first.message, first.metadata)
    info = first_repo_info(entry, snapshot_table([entry]), config)
    outcome = create_repo_object(context.storage, info, context.config.compression_level())
    return isinstance(outcome, Written)


def _require_clean(place: Storage, *, check_clean_root: bool) -> None:
    if not place.can_write:
        raise ReadOnlyError(
            "cannot create a repository: this storage is read-only",
            kind=ErrorKind.READ_ONLY_STORAGE,
            url=place.url,
        )
    if not place.allows_empty_prefix:
        raise InvalidInputError(
            "cannot create a repository at an empty prefix of an object store; give it a prefix",
            kind=ErrorKind.EMPTY_PREFIX_CREATION,
            url=place.url,
        )
    if detect(place) is not None:
        if check_clean_root:
            raise InvalidInputError(
                "a repository already exists here",
                kind=ErrorKind.PARENT_DIRECTORY_NOT_CLEAN,
                url=place.url,
            )
        raise _exists_already(place)
    if not check_clean_root or place.is_empty():
        return
    if any(item.key not in LEFT_BEHIND for item in place.list("")):
        raise InvalidInputError(
            "cannot create a repository: this place is not empty",
            kind=ErrorKind.PARENT_DIRECTORY_NOT_CLEAN,
            url=place.url,
        )
