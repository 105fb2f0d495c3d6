"""Where an ingest goes: the repository as it was when the plan was made, and the session for it.

A plan appends files to the arrays of one snapshot and is valid for that snapshot only. The session
begins there and names what the plan relied on. If others have changed that, the ingest plans again.

References point to places for which the repository gets virtual chunk containers.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from frazil.errors import AlreadyExistsError, ConflictError, ErrorKind, InvalidInputError
from frazil.formats.config_codec import config_from_map, config_to_map
from frazil.ids import INITIAL_SNAPSHOT_ID, MAIN, child_path, node_path
from frazil.ingestion.plans import IngestPlan
from frazil.ingestion.records import FileScan, known_files
from frazil.ingestion.sources import parent, root_of
from frazil.model.config import (
    ObjectStoreConfig,
    RepositoryConfig,
    S3Options,
    VirtualChunkContainer,
)
from frazil.model.history import JSON
from frazil.repository import Repository
from frazil.repository.handle import edit_stored_config
from frazil.session import Session
from frazil.storage.base import Storage
from frazil.storage.credential_functions import MAKERS, containers_credentials
from frazil.storage.credentials import AnyCredential
from frazil.storage.locations import key_of
from frazil.tip import Tip
from frazil.transaction.opened import context_of

_S3_OPTIONS: Final = ("region", "endpoint_url", "allow_http", "anonymous", "force_path_style")


def prefixes_of(locations: Iterable[str]) -> list[str]:
    """The longest common folder of the locations of each bucket or host."""
    found: dict[str, str] = {}
    for folder in dict.fromkeys(map(parent, locations)):
        root = root_of(folder)
        found[root] = folder if root not in found else _common(found[root], folder)
    return sorted(found.values())


def _common(one: str, other: str) -> str:
    while not other.startswith(one):
        one = parent(one)
    return one


def missing_containers(
    config: RepositoryConfig, prefixes: Iterable[str], options: Mapping[str, Any]
) -> list[VirtualChunkContainer]:
    """Containers that a configuration needs for some prefixes and does not have."""
    known = [*(config.virtual_chunk_containers or {})]
    return [
        container_for(prefix, options)
        for prefix in prefixes
        if not any(prefix.startswith(_with_slash(each)) for each in known)
    ]


def add_missing(
    config: RepositoryConfig, prefixes: Iterable[str], options: Mapping[str, Any]
) -> list[str]:
    """Put them into a configuration, and tell their prefixes."""
    fresh = missing_containers(config, prefixes, options)
    for container in fresh:
        config.set_virtual_chunk_container(container)
    return [container.url_prefix for container in fresh]


def container_for(prefix: str, options: Mapping[str, Any]) -> VirtualChunkContainer:
    """A container for a prefix, with a store that the options of its files suit."""
    scheme = prefix.partition("://")[0]
    store: Any
    match scheme:
        case "file":
            store = ObjectStoreConfig.LocalFileSystem("/" + key_of(prefix))
        case "s3":
            given = {name: options[name] for name in _S3_OPTIONS if name in options}
            store = ObjectStoreConfig.S3(S3Options(**given))
        case "gs" | "gcs":
            store = ObjectStoreConfig.Gcs({})
        case "az" | "azure" | "abfs":
            store = ObjectStoreConfig.Azure({"account": str(options.get("account", ""))})
        case "http" | "https":
            store = ObjectStoreConfig.Http({})
        case _:
            raise InvalidInputError(
                f"virtual chunks cannot be read from {scheme}:// URLs",
                kind=ErrorKind.BAD_PREFIX,
                prefix=prefix,
            )
    made = VirtualChunkContainer(_with_slash(prefix), store)
    made.check()
    return made


def covering(config: RepositoryConfig, locations: Iterable[str]) -> list[str]:
    """The prefixes of the containers of a configuration that some locations are in."""
    known = sorted(map(_with_slash, config.virtual_chunk_containers or {}), key=len, reverse=True)
    found = (next((p for p in known if each.startswith(p)), None) for each in locations)
    return sorted({prefix for prefix in found if prefix is not None})


def access(prefixes: Iterable[str], options: Mapping[str, Any]) -> dict[str, AnyCredential | None]:
    """Credentials for containers, as far as options say how to reach their files."""
    made: dict[str, Any] = {}
    for prefix in prefixes:
        maker = MAKERS.get(prefix.partition("://")[0])
        if maker is not None:
            names = inspect.signature(maker).parameters
            given = {name: value for name, value in options.items() if name in names}
            made[prefix] = maker(**given)
    return containers_credentials(made)


def how_to_read(prefixes: Iterable[str]) -> str:
    """How readers get at virtual chunks in some containers, in one sentence."""
    named = ", ".join(prefixes)
    kinds = {prefix.partition("://")[0] for prefix in prefixes}
    simple = kinds <= {"file"}
    return (
        f"readers must authorise virtual chunks: --authorize {named} (command line),"
        f" authorize={named!r} (Spark), authorize_virtual_chunk_access (Python)"
        + ("" if simple else ", with the credentials of the reader")
    )


def _with_slash(prefix: str) -> str:
    return prefix if prefix.endswith("/") else f"{prefix}/"


class IngestTarget:
    """A branch of a repository, either of which may have to be made."""

    def __init__(self, storage: Storage, branch: str, group: str) -> None:
        self.storage = storage
        self.branch = branch
        self.group = group
        self._repository = Repository.open(storage) if Repository.exists(storage) else None
        self._tip: Tip | None = None
        if self._repository is not None:
            there = branch if branch in self._repository.list_branches() else MAIN
            self._tip = self._repository.tip(there)

    def reading(self) -> Session | None:
        """A session to plan with; None while there is no repository."""
        return None if self._tip is None else self._tip.readonly_session()

    def known(self) -> dict[bytes, bytes]:
        """States of the files that the branch holds already, by the marks of their names."""
        if self._repository is None or self._tip is None:
            return {}
        history = self._repository.ancestry(snapshot_id=self._tip.snapshot_id)
        return known_files((entry.metadata for entry in history), self.group)

    def writing(
        self,
        plan: IngestPlan,
        base: FileScan | None,
        prefixes: Sequence[str],
        options: Mapping[str, Any],
    ) -> tuple[Session, list[str]]:
        """A session for a plan, and the prefixes of containers that had to be added for it.

        Raises:
            ConflictError: somebody else made the repository or the branch meanwhile.
        """
        if self._repository is None:
            added = self._create(prefixes, options)
        else:
            added = self._add_containers(prefixes, options)
        self._allow([each.url for each in plan.scans], options)
        session = self._branched().writable_session()
        _rely(session, self.group, plan, base)
        return session, added

    def _create(self, prefixes: Sequence[str], options: Mapping[str, Any]) -> list[str]:
        config = RepositoryConfig.default()
        added = add_missing(config, prefixes, options)
        try:
            self._repository = Repository.create(self.storage, config)
        except InvalidInputError as error:
            if Repository.exists(self.storage):
                raise _overtaken("made the repository") from error
            raise
        self._tip = self._repository.tip(MAIN, snapshot_id=str(INITIAL_SNAPSHOT_ID))
        return added

    def _add_containers(self, prefixes: Sequence[str], options: Mapping[str, Any]) -> list[str]:
        """Add containers to what is stored now, where others may have added theirs."""
        assert self._repository is not None
        if not missing_containers(self._repository.config, prefixes, options):
            return []
        added: list[str] = []

        def change(stored: JSON | None) -> JSON:
            config = config_from_map(stored)
            added[:] = add_missing(config, prefixes, options)
            return config_to_map(config)

        edit_stored_config(context_of(self._repository), change)
        self._repository = Repository.open(self.storage)
        return added

    def _allow(self, urls: Sequence[str], options: Mapping[str, Any]) -> None:
        """A copy behind references begins with the chunk that they end in."""
        assert self._repository is not None
        reached = covering(self._repository.config, urls)
        if reached:
            allowed = access(reached, options)
            named = [str(options[name]) for name in ("endpoint_url",) if options.get(name)]
            self._repository = self._repository.reopen(
                authorize_virtual_chunk_access=allowed, endpoints=named
            )

    def _branched(self) -> Tip:
        """The tip that the plan was made from, on a branch that exists."""
        assert self._repository is not None
        assert self._tip is not None
        at = self._tip.snapshot_id
        if self._tip.branch != self.branch:
            try:
                self._repository.create_branch(self.branch, at)
            except AlreadyExistsError as error:
                raise _overtaken(f"made the branch {self.branch!r}") from error
        return self._repository.tip(self.branch, snapshot_id=at)


def _rely(session: Session, group: str, plan: IngestPlan, base: FileScan | None) -> None:
    """Say what the plan was made by: the lengths of dimensions, and all that the group has."""
    where = node_path(group or "/")
    dims = {dim for array in plan.arrays for dim in array.dims}
    growing = {axis.name for axis in plan.axes} if base is not None else set()
    session.rely_on_dimensions(where, *growing, members=True)
    session.rely_on_dimensions(where, *(dims - growing))
    for variable in () if base is None else base.variables:
        path = child_path(where, variable.name)
        session.rely_on(path, values=variable.values is not None)


def _overtaken(what: str) -> ConflictError:
    return ConflictError(
        message=f"another process has {what} meanwhile", kind=ErrorKind.COMMIT_CONFLICT
    )
