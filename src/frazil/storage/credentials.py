"""Credentials for object stores, with the names of the official package.

Every class hides its secrets in `repr` and `str`. All of them pickle, because storages travel
to worker processes; none of them is ever stored in a repository.
"""

from __future__ import annotations

import pickle
import threading
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, Generic, TypeAlias, TypeVar

from frazil.masking import HIDDEN
from frazil.model.display import Field, HasRepr, Verbatim
from frazil.naming import dotted

C = TypeVar("C")

MASK: Final = Verbatim(HIDDEN)


class _Family(type):
    """Makes `isinstance(x, Family)` true for the members nested in a family class."""

    def __instancecheck__(cls, instance: object) -> bool:
        return any(type(instance) is member for member in vars(cls).values())


def _moment(value: datetime | None) -> object:
    return None if value is None else Verbatim(value.isoformat())


@dataclass(frozen=True, slots=True, repr=False)
class _Bare(HasRepr):
    """A credential without content."""

    def _shown_title(self) -> str:
        return dotted(f"credentials.{type(self).__qualname__}")


@dataclass(frozen=True, slots=True, repr=False)
class _Secret(_Bare):
    """A credential that is one secret text."""

    _0: str

    def _shown_fields(self) -> Iterable[Field]:
        """The secret, hidden."""
        return (Field("value", MASK),)


@dataclass(frozen=True, slots=True, repr=False)
class _Path(_Bare):
    """A credential kept in a file."""

    _0: str

    def _shown_fields(self) -> Iterable[Field]:
        return (Field("path", self._0),)


@dataclass(frozen=True, slots=True, repr=False)
class _Expiring(_Bare):
    """A secret text that may expire."""

    _0: str
    expires_after: datetime | None = None

    def _shown_fields(self) -> Iterable[Field]:
        """The secret, hidden, and when it ends."""
        return Field("value", MASK), Field("expires_after", _moment(self.expires_after))


@dataclass(frozen=True, slots=True, repr=False)
class _Holder(_Bare, Generic[C]):
    """A credential that holds another one."""

    _0: C

    def _shown_fields(self) -> Iterable[Field]:
        """The credential inside, which hides its own secrets."""
        return (Field("credentials", self._0),)


@dataclass(frozen=True, slots=True, repr=False)
class _Renewed(_Bare, Generic[C]):
    """A credential got by calling a pickled function, again whenever it has expired."""

    pickled_function: bytes
    current: C | None = None

    def _shown_fields(self) -> Iterable[Field]:
        """What is known now; the function stays hidden, since it may carry secrets."""
        return (Field("current", self.current),)


# --- S3 ---


@dataclass(frozen=True, slots=True, repr=False)
class S3StaticCredentials(_Bare):
    """An access key of S3 and what belongs to it."""

    access_key_id: str
    secret_access_key: str
    session_token: str | None = None
    expires_after: datetime | None = None

    def _shown_fields(self) -> Iterable[Field]:
        """The first letters of the key, everything else hidden."""
        return (
            Field("access_key_id", Verbatim(f"{self.access_key_id[:4]}{HIDDEN}")),
            Field("secret_access_key", MASK),
            Field("session_token", None if self.session_token is None else MASK),
            Field("expires_after", _moment(self.expires_after)),
        )


class S3Credentials(metaclass=_Family):
    """How to sign requests to S3 and to stores that speak its protocol."""

    class FromEnv(_Bare):
        """What the environment and the AWS configuration files say."""

    class Anonymous(_Bare):
        """Requests are not signed."""

    class Static(_Holder[S3StaticCredentials]):
        """One fixed key."""

    class Refreshable(_Renewed[S3StaticCredentials]):
        """Keys from a function."""


AnyS3Credential: TypeAlias = (
    S3Credentials.Static
    | S3Credentials.Anonymous
    | S3Credentials.FromEnv
    | S3Credentials.Refreshable
)


# --- Google Cloud Storage ---


@dataclass(frozen=True, slots=True, repr=False)
class GcsBearerCredential(_Bare):
    """A bearer token that may expire."""

    bearer: str
    expires_after: datetime | None = None

    def _shown_fields(self) -> Iterable[Field]:
        """The token, hidden, and when it ends."""
        return Field("bearer", MASK), Field("expires_after", _moment(self.expires_after))


class GcsStaticCredentials(metaclass=_Family):
    """Fixed credentials of Google Cloud Storage."""

    class ServiceAccount(_Path):
        """The path of a service account file."""

    class ServiceAccountKey(_Secret):
        """The text of a service account key."""

    class ApplicationCredentials(_Path):
        """The path of an application default credentials file."""

    class BearerToken(_Secret):
        """A bearer token."""


AnyGcsStaticCredential: TypeAlias = (
    GcsStaticCredentials.ServiceAccount
    | GcsStaticCredentials.ServiceAccountKey
    | GcsStaticCredentials.ApplicationCredentials
    | GcsStaticCredentials.BearerToken
)


class GcsCredentials(metaclass=_Family):
    """How to sign requests to Google Cloud Storage."""

    class Anonymous(_Bare):
        """Requests are not signed."""

    class FromEnv(_Bare):
        """What the environment says."""

    class Static(_Holder[AnyGcsStaticCredential]):
        """One fixed credential."""

    class Refreshable(_Renewed[GcsBearerCredential]):
        """Tokens from a function."""


AnyGcsCredential: TypeAlias = (
    GcsCredentials.Anonymous
    | GcsCredentials.FromEnv
    | GcsCredentials.Static
    | GcsCredentials.Refreshable
)


# --- Azure ---


class AzureRefreshableCredential(metaclass=_Family):
    """A credential of Azure that a function gave."""

    class AccessKey(_Expiring):
        """An account key."""

    class SasToken(_Expiring):
        """A shared access signature."""

    class BearerToken(_Expiring):
        """A bearer token."""


class AzureStaticCredentials(metaclass=_Family):
    """Fixed credentials of Azure."""

    class AccessKey(_Secret):
        """An account key."""

    class SasToken(_Secret):
        """A shared access signature."""

    class BearerToken(_Secret):
        """A bearer token."""


AnyAzureStaticCredential: TypeAlias = (
    AzureStaticCredentials.AccessKey
    | AzureStaticCredentials.SasToken
    | AzureStaticCredentials.BearerToken
)
AnyAzureRefreshableCredential: TypeAlias = (
    AzureRefreshableCredential.AccessKey
    | AzureRefreshableCredential.SasToken
    | AzureRefreshableCredential.BearerToken
)


class AzureCredentials(metaclass=_Family):
    """How to sign requests to Azure Blob Storage."""

    class FromEnv(_Bare):
        """What the environment says."""

    class Anonymous(_Bare):
        """Requests are not signed."""

    class Static(_Holder[AnyAzureStaticCredential]):
        """One fixed credential."""

    class Refreshable(_Renewed[AnyAzureRefreshableCredential]):
        """Credentials from a function."""


AnyAzureCredential: TypeAlias = (
    AzureCredentials.FromEnv
    | AzureCredentials.Anonymous
    | AzureCredentials.Static
    | AzureCredentials.Refreshable
)


# --- any of them, for virtual chunk containers ---


class Credentials(metaclass=_Family):
    """What authorises reading from a virtual chunk container."""

    class S3(_Holder[AnyS3Credential]):
        """Credentials for an S3 container."""

    class Gcs(_Holder[AnyGcsCredential]):
        """Credentials for a Google container."""

    class Azure(_Holder[AnyAzureCredential]):
        """Credentials for an Azure container."""

    class LocalFileSystemAccess(_Bare):
        """Leave to read local files below a `file://` prefix."""

    class HttpAccess(_Bare):
        """Leave to read below an `http(s)://` prefix."""


AnyCredential: TypeAlias = (
    Credentials.S3
    | Credentials.Gcs
    | Credentials.Azure
    | Credentials.LocalFileSystemAccess
    | Credentials.HttpAccess
)

LocalFileSystemAccess: Final = Credentials.LocalFileSystemAccess()
HttpAccess: Final = Credentials.HttpAccess()


class Renewal(Generic[C]):
    """Calls the function of a refreshable credential, once for each period of validity.

    All clients of a storage share one, so that they do not each ask.
    """

    def __init__(self, source: _Renewed[C], wanted: type | tuple[type, ...]) -> None:
        self._source = source
        self._wanted = wanted if isinstance(wanted, tuple) else (wanted,)
        self._current = source.current
        self._lock = threading.Lock()

    def get(self) -> C:
        """Return a credential that has not expired, if the function gives one."""
        with self._lock:
            if self._current is None or _is_over(self._current):
                self._current = self._call()
            return self._current

    def _call(self) -> C:
        found: C = pickle.loads(self._source.pickled_function)()
        if not isinstance(found, self._wanted):
            names = " or ".join(kind.__qualname__ for kind in self._wanted)
            raise TypeError(f"get_credentials must return {names}, not {type(found).__name__}")
        return found


def _is_over(credential: object) -> bool:
    end: datetime | None = getattr(credential, "expires_after", None)
    return end is not None and end <= datetime.now(UTC)


AnyContainerCredential: TypeAlias = (
    AnyS3Credential | AnyGcsCredential | AnyAzureCredential | AnyCredential | None
)
