"""S3 and stores that speak its protocol: a record that opens obstore clients."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from obstore.store import S3Store

from frazil.logs import warn_once
from frazil.model.config import ChecksumAlgorithm, S3Options
from frazil.storage import fence
from frazil.storage.aws_profile import profile_key, profile_region
from frazil.storage.client_settings import Client, Provider
from frazil.storage.credentials import (
    AnyS3Credential,
    Renewal,
    S3Credentials,
    S3StaticCredentials,
)
from frazil.storage.reaching import require_listener

if TYPE_CHECKING:
    from obstore.store import ObjectStore

log = logging.getLogger(__name__)

_ENDPOINTS: Final = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT")
_CONDITIONAL_HOSTS: Final = (".amazonaws.com", ".r2.cloudflarestorage.com", ".storage.dev")
_CHECKSUMS: Final = {ChecksumAlgorithm.Crc64Nvme: "crc64nvme", ChecksumAlgorithm.Sha256: "sha256"}


@dataclass(frozen=True, slots=True, repr=False)
class S3Place:
    """A bucket of S3 or of a store that speaks its protocol, and a prefix in it."""

    bucket: str
    prefix: str
    options: S3Options
    credentials: AnyS3Credential
    read_headers: Mapping[str, str] = field(default_factory=dict)
    write_headers: Mapping[str, str] = field(default_factory=dict)
    can_write: bool = True
    keeps_keys: bool = True
    """whether names are used as they are, not percent-encoded as in the official package"""
    accepts_http: bool = False
    """whether an endpoint that begins with `http://` needs no `allow_http`"""

    @property
    def endpoint(self) -> str | None:
        """The address of the store, if it is another than Amazon's: as given, or as AWS tools
        find it in the environment."""
        given = self.options.endpoint_url
        if given or _is_true(os.environ.get("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS")):
            return given
        return os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL") or None

    @property
    def allows_http(self) -> bool:
        """Whether requests may go unencrypted; where that is not asked for, no redirect may."""
        if not (self.endpoint or "").lower().startswith("http://"):
            return False
        asked = self.options.allow_http or _is_true(os.environ.get("AWS_ALLOW_HTTP"))
        return asked or self.accepts_http

    @property
    def kind(self) -> str:
        """As it is shown."""
        return "S3 (native)" if self.keeps_keys else "S3"

    @property
    def url(self) -> str:
        """The location without secrets."""
        return f"s3://{self.bucket}/{self.prefix}"

    @property
    def has_known_conditions(self) -> bool:
        """Whether this is a service that is known to honour conditions on writes."""
        host = urlsplit(self.endpoint or "").hostname
        return host is None or host.endswith(_CONDITIONAL_HOSTS)

    @property
    def connection(self) -> Mapping[str, str | None]:
        """What the caller has said about the address."""
        return {"endpoint": self.options.endpoint_url}

    def fields(self) -> Sequence[tuple[str, object]]:
        """What is shown of it: the options that are not at their defaults."""
        names = "region endpoint_url anonymous allow_http force_path_style requester_pays"
        options = {name: getattr(self.options, name) for name in names.split()}
        checksum = self.options.checksum_algorithm
        return set_fields(
            bucket=self.bucket, prefix=self.prefix, **options, checksum_algorithm=checksum
        )

    def provider(self) -> Provider | None:
        """Fixed or renewed keys, or those of a profile; obstore looks into the environment."""
        match self.credentials:
            case S3Credentials.Static(key):
                return lambda: _s3_key(key)
            case S3Credentials.Refreshable():
                renewal = Renewal(self.credentials, S3StaticCredentials)
                return lambda: _s3_key(renewal.get())
            case S3Credentials.FromEnv() if not self.options.anonymous:
                found = profile_key()
                return None if found is None else lambda: _s3_key(found)
            case _:
                return None

    @property
    def _is_unsigned(self) -> bool:
        return isinstance(self.credentials, S3Credentials.Anonymous) or self.options.anonymous

    def open(self, client: Client, provider: Provider | None, *, rooted: bool) -> ObjectStore:
        """A live client; a rooted one keeps the slash in what obstore takes for the bucket."""
        options = self.options
        if self.endpoint:
            fence.require_address(self.endpoint)
        endpoint, is_hosted = _s3_endpoint(self.endpoint, options, self.bucket)
        asks = provider is None and not self._is_unsigned
        config: dict[str, object] = {}
        region = options.region or profile_region()
        if region:
            config["region"] = region
        if self._is_unsigned:
            config["skip_signature"] = True
        if options.requester_pays:
            config["request_payer"] = True
        if checksum := _checksum(options.checksum_algorithm, self.bucket):
            config["checksum_algorithm"] = checksum
        if rooted:
            endpoint, is_hosted = self.endpoint, False
            config["disable_bulk_delete"] = True  # its request would lack the slash
        amazon = _amazon(region, self.bucket if is_hosted else "")
        if endpoint is None and any(map(os.environ.get, _ENDPOINTS)):
            endpoint = amazon  # obstore would take those of the environment, which do not count
        if endpoint:
            # Under this name it counts more than the environment, for obstore too.
            config["aws_endpoint_url_s3"] = endpoint
        config["virtual_hosted_style_request"] = is_hosted
        fence.require_address(f"{endpoint or amazon}/{self.bucket}")
        if endpoint:
            require_listener(endpoint, client.settings, {})
        return S3Store(
            f"{self.bucket}/" if rooted else self.bucket,
            config=config,  # type: ignore[arg-type]  # a TypedDict, filled above
            client_options=client.options(fence.amazon_hosts(endpoint, asks)),
            retry_config=client.retries(),
            credential_provider=provider,
        )


def set_fields(**fields: object) -> list[tuple[str, object]]:
    """The fields that have a value."""
    return [(name, value) for name, value in fields.items() if value]


def _amazon(region: str | None, bucket: str) -> str:
    """The address of S3 itself; with the bucket in the name of the host, if there is one."""
    names = ("AWS_REGION", "AWS_DEFAULT_REGION")
    found = region or next(filter(None, map(os.environ.get, names)), "us-east-1")
    return f"https://{bucket}{'.' if bucket else ''}s3.{found}.amazonaws.com"


def _s3_key(key: S3StaticCredentials) -> dict[str, object]:
    return {
        "access_key_id": key.access_key_id,
        "secret_access_key": key.secret_access_key,
        "token": key.session_token,
        "expires_at": key.expires_after,
    }


def _is_true(text: str | None) -> bool:
    return (text or "").strip().lower() in ("1", "true", "yes", "on")


def _checksum(wanted: ChecksumAlgorithm | None, bucket: str) -> str | None:
    """The client's name of an algorithm; None for none, and for those that it does not have."""
    if wanted is not None and wanted not in _CHECKSUMS:
        known = " and ".join(each.name for each in _CHECKSUMS)
        text = "objects are written to bucket %s without a checksum: %s is not supported, only %s"
        warn_once(log, (bucket, wanted), text, bucket, wanted.name, known)
    return None if wanted is None else _CHECKSUMS.get(wanted)


def _s3_endpoint(given: str | None, options: S3Options, bucket: str) -> tuple[str | None, bool]:
    """The endpoint for obstore, and whether the bucket is a part of the host name."""
    is_dns_name = re.fullmatch(r"[a-z0-9][a-z0-9-]{1,61}[a-z0-9]", bucket) is not None
    is_hosted = is_dns_name and not options.force_path_style
    if not given:
        return None, is_hosted
    endpoint = given.rstrip("/")
    parts = urlsplit(endpoint)
    host = fence.plain_host(endpoint)
    if not is_hosted or parts.path or host == "localhost" or fence.is_ip(host):
        return endpoint, False
    return f"{parts.scheme}://{bucket}.{parts.netloc}", True
