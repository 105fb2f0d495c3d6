"""The error tree, grouped by what a handler would do.

    FrazilError
    ├── ConflictError                  a concurrent change won; rebase or retry
    │   ├── RebaseFailedError          the changes do not go together
    │   └── MergeConflictError         the versions to merge do not go together
    ├── NotFoundError                  (also a KeyError)
    │   ├── NodeNotFoundError
    │   ├── SnapshotNotFoundError
    │   ├── RefNotFoundError
    │   └── RepositoryNotFoundError
    ├── AlreadyExistsError
    ├── ReadOnlyError
    ├── InvalidInputError              (also a ValueError)
    │   └── SelectionError             (also an IndexError)
    ├── SessionStateError              not allowed in this state
    │   └── AuditFailedError           what was written did not pass its checks
    ├── StorageError                   the store failed or is misconfigured
    ├── FormatError                    a damaged, foreign or newer file
    └── InternalError

Every error carries a stable `kind` code and the `facts` it was raised with, and pickles,
because errors cross process borders.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Any, ClassVar, Self

from frazil.masking import safe
from frazil.naming import OFFICIAL, dotted, package


class ErrorKind(StrEnum):
    """Stable codes that tell failures apart without one class for each."""

    COMMIT_CONFLICT = "commit-conflict"
    BRANCH_UPDATE_CONFLICT = "branch-update-conflict"
    REBASE_FAILED = "rebase-failed"
    MERGE_CONFLICT = "merge-conflict"
    NOT_FAST_FORWARD = "not-fast-forward"
    CONFIG_UPDATED = "config-updated"
    REPO_INFO_UPDATED = "repo-info-updated"
    UPDATE_ATTEMPTS_EXHAUSTED = "update-attempts-exhausted"
    GC_DELETES_FAILING = "gc-deletes-failing"

    NODE_NOT_FOUND = "node-not-found"
    ANCESTOR_NODE_NOT_FOUND = "ancestor-node-not-found"
    CHUNK_NOT_FOUND = "chunk-not-found"
    KEY_NOT_FOUND = "key-not-found"
    SNAPSHOT_NOT_FOUND = "snapshot-not-found"
    NO_SNAPSHOT_AT_TIME = "no-snapshot-at-time"
    REF_NOT_FOUND = "ref-not-found"
    BRANCH_NOT_FOUND = "branch-not-found"
    TAG_NOT_FOUND = "tag-not-found"
    REPOSITORY_NOT_FOUND = "repository-not-found"
    MANIFEST_INFO_NOT_FOUND = "manifest-info-not-found"

    NODE_ALREADY_EXISTS = "node-already-exists"
    BRANCH_ALREADY_EXISTS = "branch-already-exists"
    TAG_ALREADY_EXISTS = "tag-already-exists"
    TAG_PREVIOUSLY_DELETED = "tag-previously-deleted"
    MOVE_WONT_OVERWRITE = "move-wont-overwrite"

    READ_ONLY_SESSION = "read-only-session"
    READ_ONLY_STORE = "read-only-store"
    READ_ONLY_STORAGE = "read-only-storage"
    READ_ONLY_REPOSITORY = "read-only-repository"

    INVALID_KEY = "invalid-key"
    INVALID_CHUNK_INDEX = "invalid-chunk-index"
    ZERO_LENGTH_CHUNK = "zero-length-chunk"
    INVALID_MANIFEST_SPLIT_INDEX = "invalid-manifest-split-index"
    INVALID_REF_TYPE = "invalid-ref-type"
    INVALID_REF_NAME = "invalid-ref-name"
    INVALID_SNAPSHOT_ID = "invalid-snapshot-id"
    INVALID_PATH = "invalid-path"
    BAD_KEY_PREFIX = "bad-key-prefix"
    BAD_METADATA = "bad-metadata"
    BAD_PREFIX = "bad-prefix"
    NOT_AN_ARRAY = "not-an-array"
    NOT_A_GROUP = "not-a-group"
    INVALID_BYTE_RANGE = "invalid-byte-range"
    INVALID_COMMIT_CONFIGURATION = "invalid-commit-configuration"
    INVALID_ARRAY_METADATA = "invalid-array-metadata"
    INVALID_FEATURE_FLAG = "invalid-feature-flag"
    INVALID_SELECTION = "invalid-selection"
    INVALID_SETTING = "invalid-setting"
    INVALID_VIRTUAL_REF = "invalid-virtual-ref"
    INVALID_CREDENTIALS = "invalid-credentials"
    NO_CONTAINER_FOR_VIRTUAL_CHUNK = "no-container-for-virtual-chunk"
    UNAUTHORIZED_VIRTUAL_CHUNK_CONTAINER = "unauthorized-virtual-chunk-container"
    EMPTY_PREFIX_CREATION = "empty-prefix-creation"
    PARENT_DIRECTORY_NOT_CLEAN = "parent-directory-not-clean"
    BAD_SNAPSHOT_CHAIN_FOR_DIFF = "bad-snapshot-chain-for-diff"
    INVALID_OPTION = "invalid-option"
    INVALID_EXPRESSION = "invalid-expression"
    UNSUITABLE_DATA = "unsuitable-data"
    NOT_REPRESENTABLE = "not-representable"

    COMMIT_NOT_ALLOWED = "commit-not-allowed"
    MERGE_NOT_ALLOWED = "merge-not-allowed"
    CANNOT_FORK_READ_ONLY_SESSION = "cannot-fork-read-only-session"
    REARRANGE_SESSION_ONLY = "rearrange-session-only"
    NON_REARRANGE_SESSION = "non-rearrange-session"
    MOVE_INTO_SELF_OR_DESCENDANT = "move-into-self-or-descendant"
    MOVE_DESTINATION_PARENT_MISSING = "move-destination-parent-missing"
    MOVE_DESTINATION_PARENT_NOT_GROUP = "move-destination-parent-not-group"
    NO_CHANGES_TO_COMMIT = "no-changes-to-commit"
    NO_AMEND_FOR_INITIAL_COMMIT = "no-amend-for-initial-commit"
    NOT_ON_BRANCH = "not-on-branch"
    NO_SNAPSHOT = "no-snapshot"
    CANNOT_DELETE_MAIN = "cannot-delete-main"
    UNCOMMITTED_CHANGES = "uncommitted-changes"
    MERGE_FAILED = "merge-failed"
    NOT_ALLOWED = "not-allowed"
    UNIMPLEMENTED = "unimplemented"
    REBASE_TX_LOG_PRUNED = "rebase-tx-log-pruned"
    MERGE_BASE_EXPIRED = "merge-base-expired"
    UNRELATED_HISTORIES = "unrelated-histories"
    FEATURE_FLAG_DISABLED = "feature-flag-disabled"
    TAG_ERROR = "tag-error"
    INVALID_REPOSITORY_MIGRATION = "invalid-repository-migration"
    SPARK_UNAVAILABLE = "spark-unavailable"
    AUDIT_FAILED = "audit-failed"
    NOT_CONFIRMED = "not-confirmed"

    OBJECT_NOT_FOUND = "object-not-found"
    OBJECT_STORE = "object-store"
    IO = "io"
    STORAGE_CONFIG = "storage-config"
    CANNOT_PARSE_URL = "cannot-parse-url"
    BAD_REDIRECT = "bad-redirect"
    SEMAPHORE_ACQUIRE = "semaphore-acquire"
    THROTTLED = "throttled"
    STORAGE_OTHER = "storage-other"
    VIRTUAL_CHUNK_FETCH = "virtual-chunk-fetch"
    VIRTUAL_CHUNK_MODIFIED = "virtual-chunk-modified"
    INVALID_OBJECT_SIZE = "invalid-object-size"

    SERIALIZATION = "serialization"
    DESERIALIZATION = "deserialization"
    CONFIG_DESERIALIZATION = "config-deserialization"
    INVALID_FILE_FORMAT = "invalid-file-format"
    UNSUPPORTED_SPEC_VERSION = "unsupported-spec-version"
    UNSUPPORTED_OPERATION_FOR_VERSION = "unsupported-operation-for-version"
    SNAPSHOT_TIMESTAMP = "snapshot-timestamp"
    DUPLICATE_SNAPSHOT_ID = "duplicate-snapshot-id"

    CONCURRENCY = "concurrency"
    FLUSH = "flush"
    PARTIAL_VALUES_PANIC = "partial-values-panic"
    CONFLICTING_PATH_NOT_FOUND = "conflicting-path-not-found"
    INCONSISTENT_MANIFESTS = "inconsistent-manifests"
    POISON_LOCK = "poison-lock"
    PICKLE = "pickle"
    UNKNOWN = "unknown"


class IcechunkError(Exception):
    """Base of all our errors, under the name that programs for the official package catch.

    `facts` holds what a program may inspect.
    """

    __module__ = "frazil.icechunk"

    default_kind: ClassVar[ErrorKind] = ErrorKind.UNKNOWN
    hint: ClassVar[str | None] = None
    """what the reader may try, shown as a note below the traceback"""

    def __init__(
        self, message: str = "", kind: ErrorKind | str | None = None, **facts: object
    ) -> None:
        # Here, not where it is shown: an error reaches logs, tracebacks and other processes.
        super().__init__(safe(str(message)))
        self.kind = ErrorKind(kind) if kind else self.default_kind
        self.facts = {name: _shown(fact) for name, fact in facts.items()}
        if self.hint:
            self.add_note(self.hint)

    @property
    def message(self) -> str:
        """What went wrong, with the facts."""
        return str(self)

    def during(self, operation: str) -> Self:
        """Note what was being done when this happened; callers add theirs on its way up."""
        inner, outer = self.facts.get("during"), safe(operation)
        self.facts["during"] = f"{inner} < {outer}" if inner else outer
        return self

    def of_chunk(self, array: str, chunk: Iterable[int]) -> Self:
        """Note which chunk of which array this is about."""
        self.facts |= {"array": array, "chunk": tuple(map(int, chunk))}
        return self

    def __str__(self) -> str:
        shown = ", ".join(f"{name}={value}" for name, value in self.facts.items())
        return f"{self.args[0]} ({shown})" if shown else str(self.args[0])

    def __repr__(self) -> str:
        cls = IcechunkError if type(self) is FrazilError and package() == OFFICIAL else type(self)
        return f'{dotted(cls.__name__)}(message="{self}", kind="{self.kind}")'

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild, (type(self), self.args[0], str(self.kind), self.facts, self.__dict__)


def _shown(fact: object) -> object:
    match fact:
        case str() if type(fact) is str:
            return safe(fact)
        case list():
            return [*map(_shown, fact)]
        case tuple() if type(fact) is tuple:
            return tuple(map(_shown, fact))
        case _:
            return fact


def _rebuild(
    cls: type[IcechunkError],
    message: str,
    kind: str,
    facts: dict[str, object],
    state: dict[str, object],
) -> IcechunkError:
    error = cls.__new__(cls, message)
    IcechunkError.__init__(error, message, kind=ErrorKind(kind), **facts)
    error.__dict__.update(state)
    return error


class FrazilError(IcechunkError):
    """Base of all errors that Frazil raises."""


class ConflictError(FrazilError):
    """A concurrent change of the branch or the repository won."""

    default_kind = ErrorKind.COMMIT_CONFLICT

    def __init__(
        self,
        expected_parent: str | None = None,
        actual_parent: str | None = None,
        message: str | None = None,
        kind: ErrorKind | str | None = None,
        **facts: object,
    ) -> None:
        expected, actual = _optional(expected_parent), _optional(actual_parent)
        text = f"Failed to commit, expected parent: {expected}, actual parent: {actual}"
        super().__init__(message or text, kind=kind, **facts)
        self.expected_parent = expected_parent
        self.actual_parent = actual_parent


def _optional(text: str | None) -> str:
    """A perhaps absent id, spelled as programs written for the official package expect."""
    return "None" if text is None else f'Some("{text}")'


class RebaseFailedError(ConflictError):
    """The session's changes conflict with commits made since it began."""

    default_kind = ErrorKind.REBASE_FAILED

    def __init__(
        self,
        snapshot: str = "",
        conflicts: Sequence[object] = (),
        message: str | None = None,
        **facts: object,
    ) -> None:
        text = f"Rebase failed on snapshot {snapshot}: {len(conflicts)} conflicts found"
        super().__init__(None, None, message or text, ErrorKind.REBASE_FAILED, **facts)
        self.snapshot = snapshot
        self.conflicts: list[Any] = list(conflicts)


class MergeConflictError(ConflictError):
    """Versions that were to be merged changed the same things; `report` tells which."""

    default_kind = ErrorKind.MERGE_CONFLICT

    def __init__(self, message: str = "", report: Any = None, **facts: object) -> None:  # noqa: ANN401  (a record of a later layer)
        super().__init__(None, None, message, ErrorKind.MERGE_CONFLICT, **facts)
        self.report = report


class NotFoundError(FrazilError, KeyError):
    """Something that was asked for does not exist."""

    default_kind = ErrorKind.KEY_NOT_FOUND
    __str__ = FrazilError.__str__  # KeyError would show the quoted repr


class NodeNotFoundError(NotFoundError):
    """No group, array or chunk at this path."""

    default_kind = ErrorKind.NODE_NOT_FOUND


class SnapshotNotFoundError(NotFoundError):
    """No snapshot with this id, or none at this time."""

    default_kind = ErrorKind.SNAPSHOT_NOT_FOUND


class RefNotFoundError(NotFoundError):
    """No branch or tag with this name."""

    default_kind = ErrorKind.REF_NOT_FOUND


class RepositoryNotFoundError(NotFoundError):
    """No repository at this location."""

    default_kind = ErrorKind.REPOSITORY_NOT_FOUND
    hint = "Check the location; Repository.create makes a new repository there."


class AlreadyExistsError(FrazilError):
    """What was to be created exists already."""

    default_kind = ErrorKind.NODE_ALREADY_EXISTS


class ReadOnlyError(FrazilError):
    """A write through something that may only be read."""

    default_kind = ErrorKind.READ_ONLY_SESSION


class InvalidInputError(FrazilError, ValueError):
    """An argument, key, index or metadata document is wrong."""

    default_kind = ErrorKind.INVALID_KEY


class SelectionError(InvalidInputError, IndexError):
    """A selection that an array does not have."""

    default_kind = ErrorKind.INVALID_SELECTION


class SessionStateError(FrazilError):
    """Not allowed in the present state of the session or repository."""

    default_kind = ErrorKind.NOT_ALLOWED


class AuditFailedError(SessionStateError):
    """What was written did not pass the checks that come before it is published.

    `report` tells the outcome of each check.
    """

    default_kind = ErrorKind.AUDIT_FAILED
    report: Any = None


class StorageError(FrazilError):
    """The store failed, is unreachable or is misconfigured."""

    default_kind = ErrorKind.OBJECT_STORE


class FormatError(FrazilError):
    """A stored file is damaged, foreign or newer than we know."""

    default_kind = ErrorKind.INVALID_FILE_FORMAT


class InternalError(FrazilError):
    """A broken promise inside Frazil: a bug worth reporting."""


def unsuitable(message: str, **facts: object) -> InvalidInputError:
    """The error for data that cannot be what is asked for."""
    return InvalidInputError(message, kind=ErrorKind.UNSUITABLE_DATA, **facts)


def invalid_option(message: str, **facts: object) -> InvalidInputError:
    """The error for a wrong option or argument."""
    return InvalidInputError(message, kind=ErrorKind.INVALID_OPTION, **facts)
