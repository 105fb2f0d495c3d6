"""Functions that make credentials: for S3, Google Cloud, Azure, and virtual chunk containers."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, Final, TypeVar

from frazil.errors import ErrorKind, InvalidInputError
from frazil.storage.credentials import (
    AnyAzureCredential,
    AnyAzureRefreshableCredential,
    AnyAzureStaticCredential,
    AnyContainerCredential,
    AnyCredential,
    AnyGcsCredential,
    AnyGcsStaticCredential,
    AnyS3Credential,
    AzureCredentials,
    AzureStaticCredentials,
    Credentials,
    GcsBearerCredential,
    GcsCredentials,
    GcsStaticCredentials,
    HttpAccess,
    LocalFileSystemAccess,
    S3Credentials,
    S3StaticCredentials,
)

C = TypeVar("C")


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
