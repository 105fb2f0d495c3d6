"""The functions that make storages and store configurations, with the official signatures."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, Final, Unpack

from frazil.model.config import ChecksumAlgorithm, ObjectStoreConfig, S3Options
from frazil.storage.base import Storage
from frazil.storage.credential_functions import azure_credentials, gcs_credentials, s3_credentials
from frazil.storage.credentials import GcsBearerCredential
from frazil.storage.factory import (
    GatewayArguments,
    HeaderArguments,
    Headers,
    S3Arguments,
    S3LikeArguments,
    S3ObjectStoreArguments,
    StorageFactory,
    spelled_out,
)


def in_memory_storage() -> Storage:
    """A storage in the memory of this process, for tests."""
    return StorageFactory.new_in_memory()


def local_filesystem_storage(path: str) -> Storage:
    """A storage in a directory, which need not exist yet."""
    return StorageFactory.new_local_filesystem(path)


def http_storage(
    base_url: str, opts: dict[str, str] | None = None, headers: Headers = None
) -> Storage:
    """A storage behind a web server, to be read only; headers go with every request."""
    return StorageFactory.new_http(base_url, opts, headers)


def redirect_storage(base_url: str) -> Storage:
    """A storage whose place a web address tells by redirecting, when it is first used."""
    return StorageFactory.new_redirect(base_url)


@spelled_out
def s3_storage(*, bucket: str, prefix: str | None, **more: Unpack[S3Arguments]) -> Storage:
    """A storage in S3, or in a store that speaks its protocol."""
    return _made(StorageFactory.new_s3, more, bucket=bucket, prefix=prefix)


@spelled_out
def s3_object_store_storage(
    *, bucket: str, prefix: str | None, **more: Unpack[S3ObjectStoreArguments]
) -> Storage:
    """A storage in S3 as the official package's generic backend lays it out."""
    return _made(StorageFactory.new_s3_object_store, more, bucket=bucket, prefix=prefix)


@spelled_out
def tigris_storage(
    *,
    bucket: str,
    prefix: str | None,
    use_weak_consistency: bool = False,
    **more: Unpack[S3LikeArguments],
) -> Storage:
    """A storage in Tigris; with weak consistency it can only be read."""
    where = {"bucket": bucket, "prefix": prefix, "use_weak_consistency": use_weak_consistency}
    return _made(StorageFactory.new_tigris, more, **where)


@spelled_out
def r2_storage(
    *,
    bucket: str | None = None,
    prefix: str | None = None,
    account_id: str | None = None,
    **more: Unpack[S3LikeArguments],
) -> Storage:
    """A storage in Cloudflare R2, found by `account_id` or `endpoint_url`."""
    return _made(StorageFactory.new_r2, more, bucket=bucket, prefix=prefix, account_id=account_id)


@spelled_out
def hf_storage(
    *, bucket: str, prefix: str | None, namespace: str, **more: Unpack[GatewayArguments]
) -> Storage:
    """A storage in a bucket of Hugging Face, through its S3 gateway."""
    return _made(StorageFactory.new_hf, more, bucket=bucket, prefix=prefix, namespace=namespace)


_CREDENTIALS: Final = {*inspect.signature(s3_credentials).parameters}
_OPTIONS: Final = {*inspect.signature(S3Options).parameters}


def _made(make: Callable[..., Storage], given: Mapping[str, Any], **where: object) -> Storage:
    """Sort the arguments of an S3-like storage into credentials, options and the rest."""
    options = {name: given[name] for name in given.keys() & _OPTIONS}
    rest = {name: given[name] for name in given.keys() - _OPTIONS - _CREDENTIALS}
    return make(
        S3Options(**options | {"anonymous": bool(given.get("anonymous"))}),
        credentials=s3_credentials(**{name: given[name] for name in given.keys() & _CREDENTIALS}),
        **where,
        **rest,
    )


@spelled_out
def gcs_storage(
    *,
    bucket: str,
    prefix: str | None,
    service_account_file: str | None = None,
    service_account_key: str | None = None,
    application_credentials: str | None = None,
    bearer_token: str | None = None,
    anonymous: bool | None = None,
    from_env: bool | None = None,
    config: dict[str, str] | None = None,
    get_credentials: Callable[[], GcsBearerCredential] | None = None,
    scatter_initial_credentials: bool = False,
    **more: Unpack[HeaderArguments],
) -> Storage:
    """A storage in Google Cloud Storage."""
    credentials = gcs_credentials(
        service_account_file=service_account_file,
        service_account_key=service_account_key,
        application_credentials=application_credentials,
        bearer_token=bearer_token,
        from_env=from_env,
        anonymous=anonymous,
        get_credentials=get_credentials,
        scatter_initial_credentials=scatter_initial_credentials,
    )
    return StorageFactory.new_gcs(bucket, prefix, credentials, config=config, **more)


def azure_storage(
    *,
    account: str,
    container: str,
    prefix: str,
    access_key: str | None = None,
    sas_token: str | None = None,
    bearer_token: str | None = None,
    from_env: bool | None = None,
    anonymous: bool | None = None,
    config: dict[str, str] | None = None,
) -> Storage:
    """A storage in Azure Blob Storage."""
    credentials = azure_credentials(
        access_key=access_key,
        sas_token=sas_token,
        bearer_token=bearer_token,
        from_env=from_env,
        anonymous=anonymous,
    )
    return StorageFactory.new_azure_blob(account, container, prefix, credentials, config=config)


# --- stores of virtual chunk containers ---


def s3_store(
    region: str | None = None,
    endpoint_url: str | None = None,
    allow_http: bool = False,
    anonymous: bool = False,
    s3_compatible: bool = False,
    force_path_style: bool = False,
    network_stream_timeout_seconds: int = 60,
    requester_pays: bool = False,
    checksum_algorithm: ChecksumAlgorithm | None = None,
) -> ObjectStoreConfig.S3Compatible | ObjectStoreConfig.S3:
    """The store of a virtual chunk container in S3 or in a store that speaks its protocol."""
    timeout, checksum = network_stream_timeout_seconds, checksum_algorithm
    where, who = (region, endpoint_url, allow_http), (anonymous, force_path_style)
    options = S3Options(*where, *who, timeout, requester_pays, checksum)
    return (
        ObjectStoreConfig.S3Compatible(options) if s3_compatible else ObjectStoreConfig.S3(options)
    )


def gcs_store(opts: dict[str, str] | None = None) -> ObjectStoreConfig.Gcs:
    """The store of a virtual chunk container in Google Cloud Storage."""
    return ObjectStoreConfig.Gcs(opts)


def azure_store(*, account: str, config: dict[str, str] | None = None) -> ObjectStoreConfig.Azure:
    """The store of a virtual chunk container in Azure."""
    return ObjectStoreConfig.Azure({"account": account, **(config or {})})


def http_store(
    opts: dict[str, str] | None = None, headers: Headers = None
) -> ObjectStoreConfig.Http:
    """The store of a virtual chunk container behind a web server."""
    return ObjectStoreConfig.Http(opts, headers)


def local_filesystem_store(path: str) -> ObjectStoreConfig.LocalFileSystem:
    """The store of a virtual chunk container in local files."""
    return ObjectStoreConfig.LocalFileSystem(path)
