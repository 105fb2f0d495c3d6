"""What is at a place, and how to make or open a repository there."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from frazil import config as settings
from frazil.commit.base import now_micros
from frazil.commit.config_file import CONFIG_KEY, read_config
from frazil.commit.file_refs import FileRefs
from frazil.commit.repo_object import create_repo_object, first_repo_info
from frazil.errors import (
    ConflictError,
    ErrorKind,
    InvalidInputError,
    ReadOnlyError,
    RepositoryNotFoundError,
)
from frazil.formats.config_codec import config_from_map, config_to_map
from frazil.formats.generation import V1, Generation, generation_of
from frazil.formats.legacy.dialects import ROOTS, STATE_FILES
from frazil.formats.ref_files import REFS, branch_key
from frazil.formats.repo_info import REPO_KEY, decode_repo_info, snapshot_table
from frazil.ids import INITIAL_SNAPSHOT_ID, MAIN
from frazil.model.config import RepositoryConfig
from frazil.model.history import JSON, Snapshot, TransactionLog
from frazil.storage.assets import log_key, snapshot_key
from frazil.storage.base import Fetched, Storage, Written
from frazil.storage.credentials import AnyCredential
from frazil.storage.trust import Trust, endpoints_of, own_containers
from frazil.transaction.context import Context, KnownRepository, make_context

INITIAL_MESSAGE: Final = "Repository initialized"
INITIAL_METADATA: Final = {"__icechunk": {"is_root": True}}
LEFT_BEHIND: Final = frozenset(
    {snapshot_key(INITIAL_SNAPSHOT_ID), log_key(INITIAL_SNAPSHOT_ID), CONFIG_KEY}
)
"""What an interrupted creation may leave; the next one writes it again."""
ENTRY_KEYS: Final = (*STATE_FILES, CONFIG_KEY, REPO_KEY)
ENTRY_FOLDERS: Final = tuple(dict.fromkeys((*ROOTS.values(), REFS)))
"""What makes the other objects a repository, in any generation: refs, and what has them."""


@dataclass(frozen=True, slots=True)
class Detected:
    """A repository that was found; `known` is what was read to tell its generation."""

    generation: Generation
    known: KnownRepository | None = None


def is_entry_point(key: str) -> bool:
    """Whether an object is one of those that make the others a repository."""
    return key in ENTRY_KEYS or key.startswith(ENTRY_FOLDERS)


def detect_generation(storage: Storage) -> Detected | None:
    """Tell which generation lives at a place, if any."""
    found = storage.fetch(REPO_KEY)
    if isinstance(found, Fetched):
        info = decode_repo_info(found.data, key=REPO_KEY)
        return Detected(generation_of(info.spec_version), (found.version, info))
    if storage.head(branch_key(MAIN, encoded=storage.percent_encodes_names)) is not None:
        return Detected(V1)
    from frazil.storage.legacy.opening import find_legacy  # few repositories are that old

    legacy = find_legacy(storage)
    return None if legacy is None else Detected(legacy.generation, legacy)


def require(storage: Storage) -> Detected:
    """Like `detect_generation`, where there must be a repository."""
    found = detect_generation(storage)
    if found is None:
        raise RepositoryNotFoundError("the repository doesn't exist", url=storage.url)
    return found


def stored_config(storage: Storage, found: Detected) -> RepositoryConfig | None:
    """The configuration kept in a repository."""
    if not found.generation.keeps_config:
        return None
    stored = found.known[1].config if isinstance(found.known, tuple) else read_config(storage)
    return None if stored is None else config_from_map(stored, repository=storage.url)


def open_context(
    storage: Storage,
    config: RepositoryConfig | None,
    authorized: Mapping[str, AnyCredential | None] | None,
    made_as: Generation | None = None,
    store_root: Storage | str | None = None,
    endpoints: Iterable[str] = (),
    trust: Trust | None = None,
) -> Context:
    """The parts of the repository at a place; `config` goes over what is stored there.

    `made_as` says how it was just created, which an empty repository does not show in full.
    `store_root` is where the files of a G1 repository are, if its state file is elsewhere.
    `endpoints` are addresses that credentials for virtual chunks may be sent to. `trust` tells
    what of `config` the caller has named, if it is not all of it.

    Raises:
        RepositoryNotFoundError: there is none.
        InvalidInputError: `store_root` is not what the repository names, or is needed.
    """
    found = require(storage)
    stored = _trusted(stored_config(storage, found) or RepositoryConfig())
    effective = stored if config is None else stored.merge(config)
    generation = found.generation
    if made_as is not None and made_as.name == generation.name:
        generation = made_as
    if store_root is not None and not generation.has_store_root:
        raise InvalidInputError(
            f"store_root is for repositories of generation g1, and this is {generation.title}",
            kind=ErrorKind.NOT_ALLOWED,
            url=storage.url,
        )
    named = trust or Trust(own_containers(config), endpoints_of(storage))
    context = make_context(
        storage,
        generation,
        effective,
        authorized,
        found.known,
        store_root,
        named.and_endpoints(*endpoints),
    )
    if settings.get("verify_chunks"):
        from frazil.statistics.verifying import AnalyzedChecksums  # few programs need it

        context = replace(context, checksums=AnalyzedChecksums(context.place))
    context.loaded_config.update(config_to_map(stored))
    return context


def _trusted(stored: RepositoryConfig) -> RepositoryConfig:
    """The stored configuration without the permission for unconditional writes.

    The official package writes the settings of its local backend, which cannot replace
    conditionally, into repositories that may be copied to stores that can. A caller who needs
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
        ConflictError: another process created one at the same time.
    """
    stored = config_to_map(config) if config and config != RepositoryConfig() else None
    if stored is not None and not generation.keeps_config and _is_of_data(config):
        raise InvalidInputError(
            f"repositories of {generation.title} cannot keep a configuration; create one without,"
            " and give the configuration whenever you open it",
            kind=ErrorKind.NOT_REPRESENTABLE,
        )
    context = make_context(storage, generation, config or RepositoryConfig(), None)
    _require_clean(context, storage, check_clean_root=check_clean_root)
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


def _is_of_data(config: RepositoryConfig | None) -> bool:
    """Whether a configuration has more than settings of the storage."""
    if config is None:
        return False
    plain = RepositoryConfig().merge(config)
    plain.storage = None
    return plain != RepositoryConfig()


def _exists_already(storage: Storage) -> ConflictError:
    return ConflictError(
        message="a repository already exists here",
        kind=ErrorKind.REPO_INFO_UPDATED,
        url=storage.url,
    )


def _publish_first(context: Context, first: Snapshot, config: JSON | None) -> bool:
    """Write the entry point of a new repository; False if one exists already."""
    entry = first.entry(None)
    if isinstance(context.refs, FileRefs):
        # The configuration first: once the branch is there, the repository is complete.
        if config is not None and context.generation.keeps_config:
            context.refs.edit_config(lambda _: config)
        return context.refs.create_main(entry)
    info = first_repo_info(entry, snapshot_table([entry]), config)
    outcome = create_repo_object(context.storage, info, context.config.compression_level())
    return isinstance(outcome, Written)


def _require_clean(context: Context, place: Storage, *, check_clean_root: bool) -> None:
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
    if detect_generation(place) is not None:
        if check_clean_root:
            raise InvalidInputError(
                "a repository already exists here",
                kind=ErrorKind.PARENT_DIRECTORY_NOT_CLEAN,
                url=place.url,
            )
        raise _exists_already(place)
    if not check_clean_root or place.is_empty():
        return
    known = LEFT_BEHIND | {context.key_in_place(key) for key in LEFT_BEHIND}
    if any(item.key not in known for item in place.list("")):
        raise InvalidInputError(
            "cannot create a repository: this place is not empty",
            kind=ErrorKind.PARENT_DIRECTORY_NOT_CLEAN,
            url=place.url,
        )
