"""From the text of a URL to an open repository and one snapshot of it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import quote

from frazil import urls
from frazil.errors import (
    ErrorKind,
    InvalidInputError,
    NodeNotFoundError,
    NotFoundError,
    RefNotFoundError,
)
from frazil.ids import MAIN, NodeId, SnapshotId
from frazil.model.config import RepositoryConfig
from frazil.model.nodes import GroupNode, Node
from frazil.opening import open_context, require, stored_config
from frazil.repository import Repository
from frazil.spelling import nearest
from frazil.storage.base import Storage
from frazil.storage.by_url import storage_from_url
from frazil.storage.credential_functions import MAKERS, containers_credentials
from frazil.storage.credentials import AnyContainerCredential, AnyCredential
from frazil.storage.trust import ANONYMOUS, split_word
from frazil.storage.wrapped import ReadOnlyStorage
from frazil.transaction.opened import context_of
from frazil.transaction.working import WorkingState


@dataclass(frozen=True, slots=True)
class OpenedUrl:
    """A repository and the version that its URL names."""

    repository: Repository
    ref: urls.VersionRef | None

    @property
    def url(self) -> str:
        """Where the repository is, without secrets."""
        return self.repository.storage.url

    def snapshot_id(self) -> str:
        """The snapshot that the URL means."""
        return urls.resolve_version(self.ref, self.repository)

    def named(self, text: str) -> str:
        """The snapshot that a text means."""
        return urls.resolve_version(urls.parse_version(text), self.repository)

    def branch(self) -> str:
        """The branch that the URL names; main when it names nothing."""
        match self.ref:
            case None:
                return MAIN
            case urls.NamedVersion(text) if text in self.repository.list_branches():
                return text
            case urls.NamedVersion(text):
                known = sorted(self.repository.list_branches())
                raise RefNotFoundError(
                    f"there is no branch {text!r}{nearest(text, known)}",
                    kind=ErrorKind.BRANCH_NOT_FOUND,
                )
            case _:
                raise InvalidInputError("this command needs a branch after the @, not a time")

    def state(self) -> WorkingState:
        """The hierarchy of the snapshot."""
        return WorkingState(context_of(self.repository), SnapshotId.parse(self.snapshot_id()))


def storage_at(text: str) -> Storage:
    """The storage of a URL without version."""
    place = urls.parse_url(text)
    refuse_version(place.ref)
    return storage_from_url(place.url)


def refuse_version(ref: urls.VersionRef | None) -> None:
    """Refuse a version where only a whole repository makes sense."""
    if ref is not None:
        raise InvalidInputError(
            f"this command is about the whole repository: leave out {ref}",
            kind=ErrorKind.INVALID_REF_TYPE,
        )


def open_place(
    text: str,
    authorize: Sequence[str] | None = None,
    store_root: Storage | str | None = None,
    *,
    read_only: bool = False,
) -> OpenedUrl:
    """Open the repository of a URL; for `store_root` see `Repository.open`.

    With `read_only` nothing is written there, whatever the credentials would allow.
    """
    place = urls.parse_url(text)
    storage = storage_from_url(place.url)
    if read_only:
        storage = ReadOnlyStorage(storage)
    access: dict[str, AnyCredential | None] = {}
    words = [split_word(as_prefix(each)) for each in authorize or ()]
    if words:
        config = stored_config(storage, require(storage)) or RepositoryConfig()
        given = {_slashed(prefix): _credential(config, prefix, word) for prefix, word in words}
        access = containers_credentials(given)
    endpoints = [word for _, word in words if "://" in word]
    context = open_context(storage, None, access, store_root=store_root, endpoints=endpoints)
    return OpenedUrl(Repository(context, storage), place.ref)


def open_whole(text: str, store_root: Storage | str | None = None) -> Repository:
    """Open a repository where a version makes no sense."""
    refuse_version(urls.parse_url(text).ref)
    return open_place(text, store_root=store_root).repository


def find_node(state: WorkingState, path: str) -> Node:
    """The node at a path; the root of an empty repository counts as a group."""
    found = state.tree.get(path)
    if found is not None:
        return found
    if path == "/":
        return GroupNode(NodeId(bytes(NodeId.width)), path, b"{}")
    near = nearest(path, (node.path for node in state.tree))
    raise NodeNotFoundError(f"no group or array at {path!r}{near}")


def _slashed(prefix: str) -> str:
    return prefix if prefix.endswith("/") else f"{prefix}/"


def as_prefix(text: str) -> str:
    """The URL prefix of a container, given as URL or as path of a folder; what follows it stays."""
    prefix, word = split_word(text)
    if "://" not in prefix:
        prefix = f"file://{quote(os.path.abspath(prefix))}"  # noqa: PTH100  (links stay)
    return _slashed(prefix) + (f"={word}" if word else "")


def _credential(config: RepositoryConfig, prefix: str, word: str) -> AnyContainerCredential:
    """What opens a container: nothing for files and the web, else what the environment holds."""
    containers = config.virtual_chunk_containers or {}
    wanted = _slashed(prefix)
    found = next((c for c in containers.values() if _slashed(c.url_prefix) == wanted), None)
    if found is None:
        known = ", ".join(sorted(containers)) or "none"
        raise NotFoundError(
            f"the repository has no virtual chunk container {wanted!r}; it has: {known}"
        )
    if word not in ("", ANONYMOUS) and "://" not in word:
        raise InvalidInputError(
            f"--authorize {prefix}={word}: write {prefix}={ANONYMOUS} or {prefix}=https://host"
        )
    options = getattr(found.store, "options", None)  # those of S3 may tell that it is open
    is_open = word == ANONYMOUS or bool(getattr(options, "anonymous", False))
    maker = MAKERS[found.url_prefix.partition("://")[0]]
    return maker(anonymous=True) if is_open else maker()
