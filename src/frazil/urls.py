"""Repository URLs with a version: `URL@branch`, `URL@tag`, `URL@SNAPSHOT`, `URL@{TIME}`.

The version follows the last `@` of the last path segment, so an `@` in a directory or a user
name means nothing. Where a last segment must hold one itself, write `%40`, or end the path
with a slash. In the version every percent escape counts: `@feature%2Frain` is the branch
`feature/rain`. `@{2024-05-01T12:00:00Z}` is what `main` was then, `@dev@{2024-05-01}` what
`dev` was at the beginning of that day; times without a zone are UTC. A query comes last:
`s3://bucket/prefix@dev?region=eu-west-1`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Protocol, TypeAlias, assert_never
from urllib.parse import quote, unquote

from frazil.errors import (
    ErrorKind,
    InvalidInputError,
    NotFoundError,
    RefNotFoundError,
    SnapshotNotFoundError,
    StorageError,
)
from frazil.ids import ALPHABET, MAIN, SnapshotId
from frazil.masking import MaskedRecord, bare_url
from frazil.model.values import SnapshotInfo
from frazil.spelling import nearest
from frazil.texts import iso_time

SHORTEST_PREFIX: Final = 4
"""Fewer digits of a snapshot id would too soon name two."""

_MARK: Final = re.compile(r"(?:frazil|icechunk)\+(?=[A-Za-z][A-Za-z0-9+.-]*://)")
_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_HOST_FIRST: Final = frozenset(["http", "https", "az", "azure", "abfs", "abfss"])
"""Schemes whose first part may hold an @ of its own: a user, a container of an account."""
_TIME: Final = re.compile(r"(.*)@\{([^{}]*)\}", re.DOTALL)
# An escaped escape loses one level (%2540 is %40), so that every path can be written.
_ESCAPED_AT: Final = re.compile(r"%((?:25)*)40")
_TO_ESCAPE: Final = re.compile(r"@|%((?:25)*)40")
_ID_DIGITS: Final = -(-SnapshotId.width * 8 // 5)
_LOOKALIKES: Final = str.maketrans("ILO", "110")


@dataclass(frozen=True, slots=True)
class NamedVersion:
    """A branch, else a tag, else a snapshot id or the beginning of one."""

    text: str

    def __str__(self) -> str:
        return f"@{quote(self.text, safe='')}"


@dataclass(frozen=True, slots=True)
class AsOf:
    """What a branch was at a time."""

    time: datetime
    branch: str = MAIN

    def __str__(self) -> str:
        branch = "" if self.branch == MAIN else str(NamedVersion(self.branch))
        return f"{branch}@{{{self.time.isoformat()}}}"


VersionRef: TypeAlias = NamedVersion | AsOf


@dataclass(frozen=True, slots=True, repr=False)
class RepoUrl(MaskedRecord):
    """Where a repository is, and which version of it is meant; `str()` gives the text back."""

    url: str
    ref: VersionRef | None = None

    def __str__(self) -> str:
        head, last, query = _split(self.url)
        name = last.replace("@", "%40") if _is_url(head) else _TO_ESCAPE.sub(_escaped, last)
        return f"{head}{name}{'' if self.ref is None else self.ref}{query}"


class VersionLookup(Protocol):
    """What resolving a version asks of a repository."""

    def list_branches(self) -> set[str]:
        """The names of all branches."""

    def list_tags(self) -> set[str]:
        """The names of all tags."""

    def lookup_branch(self, branch: str, /) -> str:
        """The newest snapshot of a branch."""

    def lookup_tag(self, tag: str, /) -> str:
        """The snapshot of a tag."""

    def lookup_snapshot(self, snapshot_id: str, /) -> SnapshotInfo:
        """What is known of a snapshot."""

    def ancestry(
        self, *, branch: str | None = None, tag: str | None = None
    ) -> Iterator[SnapshotInfo]:
        """A snapshot and its ancestors, newest first."""


# --- parsing ---


def parse_url(text: str) -> RepoUrl:
    """Split the text of a repository URL into location and version.

    A `frazil+` or `icechunk+` before the scheme, which tells other programs whose URL this
    is, is taken off.
    """
    head, last, query = _split(_MARK.sub("", text, count=1))
    name, ref = _split_version(last, text)
    # Storage reads the escapes of URLs itself; a path has none but this one.
    location = head + (name if _is_url(head) else _ESCAPED_AT.sub(_unescaped, name)) + query
    if not location:
        raise InvalidInputError(f"{text!r} names no location", kind=ErrorKind.INVALID_PATH)
    return RepoUrl(location, ref)


def branch_in(place: RepoUrl) -> str | None:
    """The branch that a URL names, for what changes it; None when it names nothing."""
    if isinstance(place.ref, AsOf):
        raise InvalidInputError(
            f"only a branch can be changed, and {place.ref} is none", kind=ErrorKind.INVALID_OPTION
        )
    return None if place.ref is None else place.ref.text


def parse_version(text: str) -> VersionRef | None:
    """Read a version by itself: a name, or a time such as `{2024-05-01}` or `dev@{2024-05-01}`."""
    return parse_url(f"/@{text}").ref if text.endswith("}") else NamedVersion(text)


def is_marked(text: str) -> bool:
    """Tell whether a URL says by itself that it is one of a repository."""
    return _MARK.match(text) is not None


def _split(text: str) -> tuple[str, str, str]:
    """Cut out the last path segment; the bucket or name of a URL without a path is one."""
    scheme = _SCHEME.match(text)
    start = scheme.end() if scheme else 0
    end = text.find("?", start) if scheme else -1
    end = len(text) if end < 0 else end
    slash = text.rfind("/", start, end)
    if slash < 0 and text[: max(start - 3, 0)].lower() in _HOST_FIRST:
        return text[:end], "", text[end:]
    cut = slash + 1 if slash >= 0 else start
    return text[:cut], text[cut:end], text[end:]


def _is_url(head: str) -> bool:
    return _SCHEME.match(head) is not None


def _split_version(segment: str, text: str) -> tuple[str, VersionRef | None]:
    timed = _TIME.fullmatch(segment)
    if timed is not None:
        name, at, branch = timed[1].rpartition("@")
        if not at:
            return timed[1], AsOf(_time(timed[2], text))
        return name, AsOf(_time(timed[2], text), _ref_name(branch, text))
    name, at, version = segment.rpartition("@")
    if not at:
        return segment, None
    return name, NamedVersion(_ref_name(version, text))


def _ref_name(escaped: str, text: str) -> str:
    name = unquote(escaped)
    if not name or escaped.startswith("{"):
        raise InvalidInputError(
            f"{text!r} has no readable version after the @; write %40 for an @ of the path",
            kind=ErrorKind.INVALID_REF_NAME,
        )
    return name


def _time(written: str, text: str) -> datetime:
    try:
        return iso_time(written)
    except ValueError as error:
        raise InvalidInputError(
            f"{text!r} has no readable time: {written!r} is not like 2024-05-01 or "
            "2024-05-01T12:00:00Z",
            kind=ErrorKind.INVALID_REF_NAME,
        ) from error


def _unescaped(found: re.Match[str]) -> str:
    return f"%{found[1][2:]}40" if found[1] else "@"


def _escaped(found: re.Match[str]) -> str:
    return "%40" if found[0] == "@" else f"%25{found[1]}40"


# --- resolving ---


def resolve_version(ref: VersionRef | None, repository: VersionLookup) -> str:
    """Find the snapshot that a version means; no version means the newest of `main`.

    Raises:
        RefNotFoundError: no branch, tag or snapshot has this name.
        SnapshotNotFoundError: the branch has no snapshot so old.
        InvalidInputError: the beginning of an id fits several snapshots.
    """
    match ref:
        case None:
            return repository.lookup_branch(MAIN)
        case AsOf(time, branch):
            return _at_time(time, branch, repository)
        case NamedVersion(text):
            return _named(text, repository)
        case _:
            assert_never(ref)


def _named(text: str, repository: VersionLookup) -> str:
    lookups: tuple[Callable[[str], str], ...] = (repository.lookup_branch, repository.lookup_tag)
    for lookup in lookups:
        try:
            return lookup(text)
        except NotFoundError:
            continue
    digits = text.upper().translate(_LOOKALIKES)
    if all(digit in ALPHABET for digit in digits):
        if len(digits) == _ID_DIGITS:
            return repository.lookup_snapshot(digits).id
        if SHORTEST_PREFIX <= len(digits) < _ID_DIGITS:
            return _only_match(text, digits, repository)
    try:  # ids from before spec 1 have other spellings
        return repository.lookup_snapshot(text).id
    except (InvalidInputError, NotFoundError):
        raise _nothing(text, repository) from None


def _only_match(text: str, digits: str, repository: VersionLookup) -> str:
    found = sorted(s for s in _reachable(repository) if s.startswith(digits))
    if not found:
        raise _nothing(text, repository)
    if len(found) > 1:
        raise InvalidInputError(
            f"{text!r} fits {len(found)} snapshots, such as {found[0]} and {found[1]}",
            kind=ErrorKind.INVALID_SNAPSHOT_ID,
        )
    return found[0]


def _reachable(repository: VersionLookup) -> set[str]:
    """Ids of all snapshots that a branch or a tag leads to."""
    seen: set[str] = set()
    histories = [repository.ancestry(branch=name) for name in repository.list_branches()]
    histories += [repository.ancestry(tag=name) for name in repository.list_tags()]
    for history in histories:
        for snapshot in history:
            if snapshot.id in seen:
                break  # the rest is shared with a history already walked
            seen.add(snapshot.id)
    return seen


def _at_time(time: datetime, branch: str, repository: VersionLookup) -> str:
    for snapshot in repository.ancestry(branch=branch):
        if snapshot.written_at <= time:
            return snapshot.id
    raise SnapshotNotFoundError(
        f"branch {branch!r} has no snapshot as early as {time.isoformat()}",
        kind=ErrorKind.NO_SNAPSHOT_AT_TIME,
    )


def _nothing(text: str, repository: VersionLookup) -> RefNotFoundError:
    near = nearest(text, [*repository.list_branches(), *repository.list_tags()])
    return RefNotFoundError(
        f"no branch, tag or snapshot {text!r} (the beginning of a snapshot id needs at least "
        f"{SHORTEST_PREFIX} digits){near}"
    )


def bad_url(url: str, expected: str) -> StorageError:
    """The error for a URL that no storage can be made of."""
    return StorageError(
        f"error parsing URL: expected {expected}",
        kind=ErrorKind.CANNOT_PARSE_URL,
        url=bare_url(url),
    )
