"""Credentials for object stores, with the names of the official package.

Every class hides its secrets in `repr` and `str`. All of them pickle, because storages travel
to worker processes; none of them is ever stored in a repository.
"""

from __future__ import annotations

import pickle
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, Generic, TypeAlias, TypeVar

from frazil.errors import ErrorKind, InvalidInputError
from frazil.model.display import Field, HasRepr, Verbatim
from frazil.naming import dotted

C = TypeVar("C")

MASK: Final = Verbatim("****")


class _Family(type):
    """Makes `isinstance(x, Family)` true for the members nested in a family class."""

    def __instancecheck__(cls, instance: object) -> bool:
        return any(type(instance) is member for member in vars(cls).values())


def _moment(value: datetime | None) -> object:
    return None if value is None else Verbatim(value.isoformat())


@dataclass(frozen=True, slots=True, repr=False)
class _Bare(HasRepr):
    """A credential without content."""

    def shown_title(self) -> str:
        return dotted(f"credentials.{type(self).__qualname__}")


@dataclass(frozen=True, slots=True, repr=False)
class _Secret(_Bare):
    """A credential that is one secret text."""

    _0: str

    def shown_fields(self) -> Iterable[Field]:
        """The secret, hidden."""
        return (Field("value", MASK),)


@dataclass(frozen=True, slots=True, repr=False)
class _Path(_Bare):
    """A credential kept in a file."""

    _0: str

    def shown_fields(self) -> Iterable[Field]:
        return (Field("path", self._0),)


@dataclass(frozen=True, slots=True, repr=False)
class _Expiring(_Bare):
    """A secret text that may expire."""

    _0: str
    expires_after: datetime | None = None

    def shown_fields(self) -> Iterable[Field]:
        """The secret, hidden, and when it ends."""
        return Field("value", MASK), Field("expires_after", _moment(self.expires_after))


@dataclass(frozen=True, slots=True, repr=False)
class _Holder(_Bare, Generic[C]):
    """A credential that holds another one."""

    _0: C

    def shown_fields(self) -> Iterable[Field]:
        """The credential inside, which hides its own secrets."""
        return (Field("credentials", self._0),)


@dataclass(frozen=True, slots=True, repr=False)
class _Renewed(_Bare, Generic[C]):
    """A credential got by calling a pickled function, again whenever it has expired."""

    pickled_function: bytes
    current: C | None = None

    def shown_fields(self) -> Iterable[Field]:
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

    def shown_fields(self) -> Iterable[Field]:
        """The first letters of the key, everything else hidden."""
        return (
            Field("access_key_id", Verbatim(f"{self.access_key_id[:4]}****")),
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

    def shown_fields(self) -> Iterable[Field]:
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


# --- functions ---


def _conflict(function: str) -> InvalidInputError:
    return InvalidInputError(
        f"conflicting arguments to {function}: give one kind of credential",
        kind=ErrorKind.INVALID_CREDENTIALS,
    )


def _any(*parts: object) -> bool:
    return any(part is not None for part in parts)


def _renewed(ask: Callable[[], C], at_once: bool) -> tuple[bytes, C | None]:
    return pickle.dumps(ask), ask() if at_once else None


def s3_refreshable_credentials(
    get_credentials: Callable[[], S3StaticCredentials], scatter_initial_credentials: bool = False
) -> S3Credentials.Refreshable:
    """Credentials from a picklable function; `scatter_initial_credentials` calls it at once.

    The value got then travels in pickles, so that many copies need not each ask at the start.
    """
    return S3Credentials.Refreshable(*_renewed(get_credentials, scatter_initial_credentials))


def s3_static_credentials(
    *,
    access_key_id: str,
    secret_access_key: str,
    session_token: str | None = None,
    expires_after: datetime | None = None,
) -> S3Credentials.Static:
    """One fixed S3 key."""
    return S3Credentials.Static(
        S3StaticCredentials(access_key_id, secret_access_key, session_token, expires_after)
    )


def s3_anonymous_credentials() -> S3Credentials.Anonymous:
    """Unsigned requests to S3."""
    return S3Credentials.Anonymous()


def s3_from_env_credentials() -> S3Credentials.FromEnv:
    """S3 credentials from the environment."""
    return S3Credentials.FromEnv()


def s3_credentials(
    *,
    access_key_id: str | None = None,
    secret_access_key: str | None = None,
    session_token: str | None = None,
    expires_after: datetime | None = None,
    anonymous: bool | None = None,
    from_env: bool | None = None,
    get_credentials: Callable[[], S3StaticCredentials] | None = None,
    scatter_initial_credentials: bool = False,
) -> AnyS3Credential:
    """S3 credentials of the kind the arguments tell; with none, from the environment."""
    is_static = _any(access_key_id, secret_access_key, session_token, expires_after)
    chosen = (is_static, bool(anonymous), bool(from_env), get_credentials is not None)
    if sum(chosen) > 1 or (sum(chosen) == 0 and from_env is False):
        raise _conflict("s3_credentials")
    if anonymous:
        return s3_anonymous_credentials()
    if get_credentials is not None:
        return s3_refreshable_credentials(get_credentials, scatter_initial_credentials)
    if not is_static:
        return s3_from_env_credentials()
    if not access_key_id or not secret_access_key:
        raise _conflict("s3_credentials")
    return s3_static_credentials(
        access_key_id=access_key_id,
        secret_access_key=secret_access_key,
        session_token=session_token,
        expires_after=expires_after,
    )


def gcs_static_credentials(
    *,
    service_account_file: str | None = None,
    service_account_key: str | None = None,
    application_credentials: str | None = None,
    bearer_token: str | None = None,
) -> AnyGcsStaticCredential:
    """One fixed credential of Google Cloud Storage."""
    if service_account_file is not None:
        return GcsStaticCredentials.ServiceAccount(service_account_file)
    if service_account_key is not None:
        return GcsStaticCredentials.ServiceAccountKey(service_account_key)
    if application_credentials is not None:
        return GcsStaticCredentials.ApplicationCredentials(application_credentials)
    if bearer_token is not None:
        return GcsStaticCredentials.BearerToken(bearer_token)
    raise _conflict("gcs_static_credentials")


def gcs_refreshable_credentials(
    get_credentials: Callable[[], GcsBearerCredential], scatter_initial_credentials: bool = False
) -> GcsCredentials.Refreshable:
    """Google tokens from a picklable function; see `s3_refreshable_credentials`."""
    return GcsCredentials.Refreshable(*_renewed(get_credentials, scatter_initial_credentials))


def gcs_anonymous_credentials() -> GcsCredentials.Anonymous:
    """Unsigned requests to Google Cloud Storage."""
    return GcsCredentials.Anonymous()


def gcs_from_env_credentials() -> GcsCredentials.FromEnv:
    """Google credentials from the environment."""
    return GcsCredentials.FromEnv()


def gcs_credentials(
    *,
    service_account_file: str | None = None,
    service_account_key: str | None = None,
    application_credentials: str | None = None,
    bearer_token: str | None = None,
    from_env: bool | None = None,
    anonymous: bool | None = None,
    get_credentials: Callable[[], GcsBearerCredential] | None = None,
    scatter_initial_credentials: bool = False,
) -> AnyGcsCredential:
    """Google credentials of the kind the arguments tell; with none, from the environment."""
    if anonymous:
        return gcs_anonymous_credentials()
    is_static = _any(
        service_account_file, service_account_key, application_credentials, bearer_token
    )
    is_given = is_static or get_credentials is not None
    if (is_given and from_env) or (not is_given and from_env is False):
        raise _conflict("gcs_credentials")
    if is_static:
        return GcsCredentials.Static(
            gcs_static_credentials(
                service_account_file=service_account_file,
                service_account_key=service_account_key,
                application_credentials=application_credentials,
                bearer_token=bearer_token,
            )
        )
    if get_credentials is not None:
        return gcs_refreshable_credentials(get_credentials, scatter_initial_credentials)
    return gcs_from_env_credentials()


def azure_static_credentials(
    *,
    access_key: str | None = None,
    sas_token: str | None = None,
    bearer_token: str | None = None,
) -> AnyAzureStaticCredential:
    """One fixed credential of Azure."""
    if [access_key, sas_token, bearer_token].count(None) != 2:
        raise _conflict("azure_static_credentials")
    if access_key is not None:
        return AzureStaticCredentials.AccessKey(access_key)
    if sas_token is not None:
        return AzureStaticCredentials.SasToken(sas_token)
    return AzureStaticCredentials.BearerToken(str(bearer_token))


def azure_refreshable_credentials(
    get_credentials: Callable[[], AnyAzureRefreshableCredential],
    scatter_initial_credentials: bool = False,
) -> AzureCredentials.Refreshable:
    """Azure credentials from a picklable function; see `s3_refreshable_credentials`."""
    return AzureCredentials.Refreshable(*_renewed(get_credentials, scatter_initial_credentials))


def azure_from_env_credentials() -> AzureCredentials.FromEnv:
    """Azure credentials from the environment."""
    return AzureCredentials.FromEnv()


def azure_anonymous_credentials() -> AzureCredentials.Anonymous:
    """Unsigned requests to Azure."""
    return AzureCredentials.Anonymous()


def azure_credentials(
    *,
    access_key: str | None = None,
    sas_token: str | None = None,
    bearer_token: str | None = None,
    from_env: bool | None = None,
    anonymous: bool | None = None,
    get_credentials: Callable[[], AnyAzureRefreshableCredential] | None = None,
    scatter_initial_credentials: bool = False,
) -> AnyAzureCredential:
    """Azure credentials of the kind the arguments tell; with none, from the environment."""
    if anonymous:
        return azure_anonymous_credentials()
    if get_credentials is not None:
        return azure_refreshable_credentials(get_credentials, scatter_initial_credentials)
    is_static = _any(access_key, sas_token, bearer_token)
    if (is_static and from_env) or (not is_static and from_env is False):
        raise _conflict("azure_credentials")
    if not is_static:
        return azure_from_env_credentials()
    return AzureCredentials.Static(
        azure_static_credentials(
            access_key=access_key, sas_token=sas_token, bearer_token=bearer_token
        )
    )


AnyContainerCredential: TypeAlias = (
    AnyS3Credential | AnyGcsCredential | AnyAzureCredential | AnyCredential | None
)


MAKERS: Final[dict[str, Callable[..., AnyContainerCredential]]] = {
    "file": lambda **_: LocalFileSystemAccess,
    **dict.fromkeys(("http", "https"), lambda **_: HttpAccess),
    **dict.fromkeys(("s3", "s3a", "tigris", "r2"), s3_credentials),
    **dict.fromkeys(("gs", "gcs"), gcs_credentials),
    **dict.fromkeys(("az", "azure", "abfs", "abfss"), azure_credentials),
}
"""What makes credentials, by the scheme of URLs; without arguments from the environment."""


def containers_credentials(
    m: Mapping[str, AnyContainerCredential],
) -> dict[str, AnyCredential | None]:
    """What `authorize_virtual_chunk_access` takes, from URL prefixes and plain credentials."""
    return {prefix: _for_container(prefix, credential) for prefix, credential in m.items()}


_HOLDERS: Final[dict[type, Callable[[Any], AnyCredential]]] = {
    S3Credentials: Credentials.S3,
    GcsCredentials: Credentials.Gcs,
    AzureCredentials: Credentials.Azure,
}


def _for_container(prefix: str, credential: object) -> AnyCredential | None:
    if credential is None or isinstance(credential, AnyCredential):
        return credential
    for family, wrap in _HOLDERS.items():
        if isinstance(credential, family):
            return wrap(credential)
    raise InvalidInputError(
        "not a credential",
        kind=ErrorKind.INVALID_CREDENTIALS,
        prefix=prefix,
        type=type(credential).__name__,
    )
