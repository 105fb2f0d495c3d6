"""The public door: create and open repositories."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

from frazil.async_twins import async_maker, async_twin
from frazil.errors import ConflictError, ErrorKind, InvalidInputError
from frazil.formats.generation import BY_NUMBER, V2, Generation, generation_named
from frazil.model.config import Attribution, RepositoryConfig, StorageSettings
from frazil.model.values import SpecVersion
from frazil.opening import (
    create_repository,
    detect_generation,
    is_entry_point,
    open_context,
    require,
    stored_config,
)
from frazil.repository.audit import Audit
from frazil.repository.history import AttributeMethods
from frazil.repository.sessions import SessionMethods
from frazil.repository.space import Space
from frazil.repository.upkeep import UpkeepMethods
from frazil.repository.versions import Versions
from frazil.storage.base import Storage, require_deleted
from frazil.storage.by_url import storage_at
from frazil.storage.trust import own_containers
from frazil.storage.virtual import Authorized
from frazil.transaction.context import make_context

log = logging.getLogger("frazil.repository")


def _chosen(version: SpecVersion | int | str | None) -> Generation:
    """The generation a caller asked for; by name also those from before there were versions."""
    if version is None:
        return V2
    named = generation_named(version) if isinstance(version, str) else None
    if named is not None and named.is_legacy:
        return named
    if not isinstance(version, int):
        raise ValueError(f"Couldn't parse a valid version from {version!r}")  # noqa: TRY004 - the official package's own error
    if version not in BY_NUMBER:
        raise ValueError(f"Unsupported version {version}")
    return BY_NUMBER[version]


class Repository(SessionMethods, AttributeMethods, UpkeepMethods):
    """An Icechunk repository: a versioned hierarchy of Zarr groups and arrays."""

    @classmethod
    def create(
        cls,
        storage: Storage | str | Path,
        config: RepositoryConfig | None = None,
        authorize_virtual_chunk_access: Authorized | None = None,
        spec_version: SpecVersion | int | str | None = None,
        check_clean_root: bool = True,
        attribution: Attribution | None = None,
    ) -> Self:
        """Create a repository in an empty place.

        `spec_version` may also be `g1`, `g2` or `g3`, the generations before spec 1, or the name
        of a dialect of one, such as `3i`.

        Raises:
            InvalidInputError: the place is not empty, or no repository may be made there.
            ConflictError: another process created one at the same time.
        """
        log.debug("Creating Repository")
        place, generation = storage_at(storage), _chosen(spec_version)
        labelled = place.with_attribution(attribution or Attribution())
        create_repository(labelled, config, generation, check_clean_root=check_clean_root)
        context = open_context(labelled, config, authorize_virtual_chunk_access, generation)
        return cls(context, place, attribution)

    @classmethod
    def open(
        cls,
        storage: Storage | str | Path,
        config: RepositoryConfig | None = None,
        authorize_virtual_chunk_access: Authorized | None = None,
        attribution: Attribution | None = None,
        *,
        store_root: Storage | str | None = None,
        endpoints: Iterable[str] = (),
    ) -> Self:
        """Open the repository at a place.

        The state file of a G1 repository may put all other files somewhere else. They are read
        there, and never changed, if you pass that place as `store_root`: its URL, which is used
        without credentials, or a storage that you have opened.

        The stored configuration of a repository may name the address of the store that virtual
        chunks are in. Credentials are sent there only if `config` has that container too, or if
        the address is among `endpoints`, in the environment, or that of the repository itself.

        Raises:
            RepositoryNotFoundError: there is none.
            InvalidInputError: the other files are elsewhere, and `store_root` is not that place.
        """
        place = storage_at(storage)
        labelled = place.with_attribution(attribution or Attribution())
        context = open_context(
            labelled,
            config,
            authorize_virtual_chunk_access,
            store_root=store_root,
            endpoints=endpoints,
        )
        return cls(context, place, attribution)

    @classmethod
    def open_or_create(
        cls,
        storage: Storage | str | Path,
        config: RepositoryConfig | None = None,
        authorize_virtual_chunk_access: Authorized | None = None,
        create_version: SpecVersion | int | str | None = None,
        check_clean_root: bool = True,
        attribution: Attribution | None = None,
    ) -> Self:
        """Open the repository at a place, creating it when there is none."""
        place = storage_at(storage)
        if detect_generation(place) is None:
            try:
                return cls.create(
                    place,
                    config,
                    authorize_virtual_chunk_access,
                    create_version,
                    check_clean_root,
                    attribution,
                )
            except (ConflictError, InvalidInputError):
                if detect_generation(place) is None:
                    raise  # else another process created it meanwhile
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
        place = storage_at(storage)
        if storage_settings is not None:
            place = place.with_settings(place.default_settings().merge(storage_settings))
        found = detect_generation(place)
        return None if found is None else SpecVersion(found.generation.number)

    @staticmethod
    def fetch_config(storage: Storage | str | Path) -> RepositoryConfig | None:
        """The configuration stored in a repository, or None."""
        place = storage_at(storage)
        return stored_config(place, require(place))

    def reopen(
        self,
        config: RepositoryConfig | None = None,
        authorize_virtual_chunk_access: Authorized | None = None,
        *,
        endpoints: Iterable[str] = (),
    ) -> Self:
        """A handle with changed settings; for `endpoints` see `open`."""
        old = self._context
        effective = old.config.merge(config) if config is not None else old.config
        authorized = (
            old.authorized
            if authorize_virtual_chunk_access is None
            else authorize_virtual_chunk_access
        )
        labelled = self.storage.with_attribution(self.attribution)
        named = config is not None and config.virtual_chunk_containers is not None
        trust = replace(old.trust, containers=own_containers(config)) if named else old.trust
        context = make_context(
            labelled,
            old.generation,
            effective,
            authorized,
            store_root=old.store_root,
            trust=trust.and_endpoints(*endpoints),
            checksums=old.checksums,
        )
        context.default_commit_metadata.update(old.default_commit_metadata)
        context.loaded_config.update(old.loaded_config)
        return type(self)(context, self.storage, self.attribution)

    @staticmethod
    def delete(storage: Storage | str | Path, *, confirm: str) -> int:
        """Delete a repository with all its objects, and return their number.

        Args:
            storage: where the repository is.
            confirm: must be the same place again, as text, as a guard against accidents.

        Raises:
            StorageError: an object could not be deleted.
        """
        place = storage_at(storage)
        if confirm not in (place.url, str(storage)):
            raise InvalidInputError(
                f"to delete the repository pass confirm={place.url!r}",
                kind=ErrorKind.BAD_PREFIX,
            )
        require(place)
        keys = [item.key for item in place.list("")]
        entry_points = [*filter(is_entry_point, keys)]
        # Entry points first: a half-deleted repository must not open.
        require_deleted(place.delete_many(entry_points))
        require_deleted(place.delete_many([key for key in keys if key not in set(entry_points)]))
        return len(keys)

    @property
    def versions(self) -> Versions:
        """Merging branches, repeating, undoing and joining commits, comparing values."""
        return Versions(self)

    @property
    def space(self) -> Space:
        """What takes room, and freeing it: expiry, garbage, trash, compaction, erasure."""
        return Space(self, self._minimum_age)

    @property
    def audit(self) -> Audit:
        """Checks of the repository, and of changes before they are published."""
        return Audit(self)

    def __getstate__(self) -> dict[str, Any]:
        return {"context": self._context, "storage": self.storage, "who": self.attribution}

    def __setstate__(self, state: dict[str, Any]) -> None:
        type(self).__init__(self, state["context"], state["storage"], state["who"])

    create_async = async_maker(create)
    open_async = async_maker(open)
    open_or_create_async = async_maker(open_or_create)
    exists_async = staticmethod(async_twin(exists))
    fetch_spec_version_async = staticmethod(async_twin(fetch_spec_version))
    fetch_config_async = staticmethod(async_twin(fetch_config))
    reopen_async = async_twin(reopen)
