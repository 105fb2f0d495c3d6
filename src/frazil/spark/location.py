"""Where a repository is and which snapshot of it is meant, small enough to go to every task.

The driver opens a `RepositoryLocation` and pins one snapshot. Tasks get the `Pinned` record and
open it through `frazil.spark.worker`, which keeps it open for the tasks that follow.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias

from frazil.errors import ErrorKind, InvalidInputError, invalid_option
from frazil.ids import MAIN, SnapshotId
from frazil.masking import HIDDEN, shown_option, shown_url
from frazil.repository import Repository
from frazil.session import Session
from frazil.spark.options.parsing import parse_request
from frazil.spark.options.table import OptionUse, RepositoryRequest
from frazil.spelling import nearest
from frazil.storage.base import Storage
from frazil.storage.by_url import storage_from_url
from frazil.storage.constructors import (
    azure_storage,
    gcs_storage,
    hf_storage,
    r2_storage,
    s3_storage,
    tigris_storage,
)
from frazil.storage.credential_functions import MAKERS, containers_credentials
from frazil.storage.credentials import AnyContainerCredential
from frazil.storage.trust import ANONYMOUS, split_word
from frazil.texts import flag, number, parse_as
from frazil.transaction.opened import context_of
from frazil.urls import AsOf, NamedVersion, RepoUrl, VersionRef, parse_url, resolve_version

Pairs: TypeAlias = tuple[tuple[str, str], ...]

_FRAGMENT: Final = re.compile(r"(.*)#(/[^#]*|[A-Za-z_]\w*)", re.DOTALL)
_AUTHORIZE: Final = "authorize-virtual-chunk-access"
_ESCAPED_HASH: Final = "%23"


@dataclass(frozen=True, slots=True, repr=False)
class RepositoryLocation:
    """A place with all that is needed to open the repository there."""

    url: str
    storage_options: Pairs = ()
    authorized: tuple[str, ...] = ()
    virtual_options: Pairs = ()
    store_root: str | None = None

    def storage(self) -> Storage:
        """The storage at this place."""
        given: dict[str, Any] = {name: _typed(name, text) for name, text in self.storage_options}
        return storage_from_url(self.url, **given)

    def open(self) -> Repository:
        """Open the repository, reading what is there now."""
        words = [split_word(each) for each in self.authorized]
        given = dict(self.virtual_options)
        access = {prefix: _credential(prefix, word, given) for prefix, word in words}
        return Repository.open(
            self.storage(),
            authorize_virtual_chunk_access=containers_credentials(access) or None,
            store_root=self.store_root,
            endpoints=[word for _, word in words if "://" in word],
        )

    def __repr__(self) -> str:
        shown = [repr(shown_url(self.url))]
        for family, pairs in (("storage", self.storage_options), ("virtual", self.virtual_options)):
            shown += [f"{family}.{name}={shown_option(name, value)!r}" for name, value in pairs]
        return f"RepositoryLocation({', '.join(shown)})"


@dataclass(frozen=True, slots=True)
class Pinned:
    """One snapshot of a repository."""

    location: RepositoryLocation
    snapshot_id: str


@dataclass(frozen=True, slots=True)
class BranchTip:
    """The newest snapshot of a branch, and of nothing else with its name."""

    name: str


@dataclass(frozen=True, slots=True)
class Tagged:
    """The snapshot of a tag, and of nothing else with its name."""

    name: str


Ref: TypeAlias = BranchTip | Tagged | VersionRef


@dataclass(frozen=True, slots=True)
class NamedTarget:
    """What a user named: a repository, a version of it, and a node or a metadata table in it."""

    location: RepositoryLocation
    ref: Ref | None
    table: str | None = None
    node: str | None = None

    def pin(self, repository: Repository) -> Pinned:
        """Find the snapshot that is meant now."""
        return Pinned(self.location, self.snapshot(repository))

    def snapshot(self, repository: Repository) -> str:
        """The id of the snapshot that is meant now."""
        match self.ref:
            case BranchTip(name):
                return repository.lookup_branch(name)
            case Tagged(name):
                return repository.lookup_tag(name)
            case ref:
                return resolve_version(ref, repository)

    @property
    def branch(self) -> str:
        """The branch that is meant, for what changes it.

        Raises:
            InvalidInputError: a tag, snapshot or time is named, which cannot be changed.
        """
        match self.ref:
            case None:
                return MAIN
            case BranchTip(name) | NamedVersion(name):
                return name
            case _:
                raise invalid_option(f"only a branch can be changed, and {self.ref} is none")

    def is_tip_of(self, branch: str) -> bool:
        """Whether the version that is meant is where a branch, which exists, is now."""
        may_change = self.ref is None or isinstance(self.ref, BranchTip | NamedVersion)
        return may_change and self.branch == branch


def parse_target(request: RepositoryRequest) -> NamedTarget:
    """The location, the version and the node or table that a request names.

    Raises:
        InvalidInputError: there is none, or the version is chosen twice.
    """
    if not request.path:
        raise invalid_option(
            "option 'path' is missing: where the repository is; what `load` and `save` are given; "
            "tables of Spark's catalog lose it, so name it in the query: SELECT … FROM t WITH "
            "(path = 'URL')"
        )
    place, table, node = _split_fragment(request.path)
    root = request.store_root
    location = RepositoryLocation(
        _seen_from_anywhere(place.url),
        tuple(sorted(request.storage.items())),
        request.authorize,
        tuple(sorted(request.virtual.items())),
        None if root is None else _seen_from_anywhere(root),
    )
    if location.virtual_options and not location.authorized:
        raise invalid_option(f"virtual.* options need {_AUTHORIZE!r}, which names the prefixes")
    if node is not None and request.group is not None:
        raise invalid_option("the group is given twice, in the URL and as an option")
    node = node or request.group
    return NamedTarget(
        location,
        _version(request, place),
        table,
        None if node is None else "/" + node.strip("/"),
    )


def reachable_target(request: RepositoryRequest) -> NamedTarget:
    """The same for tasks in other processes."""
    target = parse_target(request)
    if target.location.url.startswith("memory:"):
        raise InvalidInputError(
            "a repository in memory is seen by one process only, and Spark runs its tasks in "
            "others; use a directory or an object store",
            kind=ErrorKind.STORAGE_CONFIG,
            url=target.location.url,
        )
    return target


def location_of(url: str, options: Mapping[str, str] | None = None) -> NamedTarget:
    """The target that a URL and storage options name, outside of a data source."""
    return parse_target(named_request(url, options))


def named_request(url: str, options: Mapping[str, str] | None) -> RepositoryRequest:
    """The request for a URL and storage options."""
    return parse_request(RepositoryRequest, {"path": url, **(options or {})}, OptionUse.ANY)


def absolute_url(url: str) -> str:
    """A URL whose path, if relative, begins here: Spark's server may work in another folder."""
    if "://" in url or url.startswith(("/", "~", "file:")):
        return url
    return f"{str(Path.cwd()).replace('#', _ESCAPED_HASH)}/{url}"


def _split_fragment(url: str) -> tuple[RepoUrl, str | None, str | None]:
    """Cut off `#table` or `#/path/of/a/node`; `%23` stands for a # of the path itself."""
    found = _FRAGMENT.fullmatch(url)
    base, fragment = (found[1], found[2]) if found else (url, "")
    place = parse_url(base)
    if "://" not in base and _ESCAPED_HASH in place.url:
        place = RepoUrl(place.url.replace(_ESCAPED_HASH, "#"), place.ref)
    if fragment.startswith("/"):
        return place, None, fragment
    return place, fragment.lower() or None, None


def _seen_from_anywhere(url: str) -> str:
    """A location that means the same in every process: paths are made absolute."""
    if "://" in url:
        return url
    # Spark's own sources spell local files file:/path.
    return str(Path(url.removeprefix("file:")).expanduser().absolute())


def _version(request: RepositoryRequest, place: RepoUrl) -> Ref | None:
    """The one version that was chosen; a time may go together with a branch."""
    branch, tag, snapshot, time = request.branch, request.tag, request.snapshot_id, request.as_of
    chosen = [
        name
        for name, value in (
            ("the version in the URL", place.ref),
            ("tag", tag),
            ("snapshot-id", snapshot),
            # A time is a time of a branch, so the two go together.
            ("branch" if time is None else "as-of-timestamp", branch or time),
        )
        if value is not None
    ]
    if len(chosen) > 1:
        raise invalid_option(f"the version is chosen more than once: by {' and '.join(chosen)}")
    if time is not None:
        return AsOf(time, branch or MAIN)
    if branch is not None:
        return BranchTip(branch)
    if tag is not None:
        return Tagged(tag)
    return place.ref if snapshot is None else NamedVersion(snapshot)


def _typed(name: str, text: str) -> object:
    """A text as the type that the functions which make storages ask for."""
    wanted = _ARGUMENTS.get(name, "str")
    for word, parse in (("bool", flag), ("int", number)):
        if word in wanted:
            return parse_as(f"option 'storage.{name}'", parse, text)
    if "str" not in wanted:
        raise invalid_option(f"option 'storage.{name}' cannot be given as text")
    return text


_ARGUMENTS: Final = {
    name: str(parameter.annotation)
    for maker in (s3_storage, tigris_storage, r2_storage, hf_storage, gcs_storage, azure_storage)
    for name, parameter in inspect.signature(maker).parameters.items()
}


def _credential(prefix: str, word: str, given: Mapping[str, str]) -> AnyContainerCredential:
    scheme = prefix.partition("://")[0]
    if word not in ("", ANONYMOUS) and "://" not in word:
        raise invalid_option(
            f"{_AUTHORIZE!r} has {HIDDEN!r} after the prefix {prefix!r}; "
            "only '=anonymous' or the address of its store, '=https://host', may stand there"
        )
    if scheme not in MAKERS:
        raise invalid_option(
            f"{_AUTHORIZE!r} has the prefix {prefix!r}, which is no URL; that of a"
            " folder is written file:///folder/"
        )
    is_open = word == ANONYMOUS
    return MAKERS[scheme](**({"anonymous": True} if is_open else _texts(scheme, given)))


def _texts(scheme: str, given: Mapping[str, str]) -> Mapping[str, str]:
    """Credentials as options, once it is sure that there are such; files need none."""
    signature = inspect.signature(MAKERS[scheme]).parameters
    names = [name for name, each in signature.items() if "str" in str(each.annotation)]
    for name in given if names else ():
        if name not in names:
            raise invalid_option(
                f"there is no option 'virtual.{name}'{nearest(name, names)} for {scheme}:// "
                f"(there are {', '.join(names)})"
            )
    return given


def open_pinned(pinned: Pinned, repository: Repository) -> Session:
    """A session at a pinned snapshot, without asking again what the refs are."""
    return Session(context_of(repository), SnapshotId.parse(pinned.snapshot_id))
