"""Where an object store is and how to talk to it: records that open obstore clients.

A place is plain configuration and pickles. Clients are live and belong to one process.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Final, TypeAlias

from obstore.store import AzureStore, GCSStore, HTTPStore

from frazil.masking import bare_url
from frazil.storage import fence
from frazil.storage.client_settings import Client, Provider
from frazil.storage.credentials import (
    AnyAzureCredential,
    AnyGcsCredential,
    AzureCredentials,
    AzureRefreshableCredential,
    AzureStaticCredentials,
    GcsBearerCredential,
    GcsCredentials,
    GcsStaticCredentials,
    Renewal,
)
from frazil.storage.reaching import require_listener
from frazil.storage.s3_place import S3Place, set_fields

if TYPE_CHECKING:
    from obstore.store import ObjectStore

_CLIENT_KEYS: Final = re.compile(
    r"allow_http|allow_invalid_certificates|connect_timeout|default_content_type|http1_only"
    r"|http2_\w+|pool_\w+|proxy_\w+|randomize_addresses|read_timeout|timeout|user_agent"
    r"|root_certificate|redirect_hosts"
)


# --- Google Cloud Storage ---


@dataclass(frozen=True, slots=True, repr=False)
class GcsPlace:
    """A bucket of Google Cloud Storage and a prefix in it."""

    kind: ClassVar[str] = "GCS"
    has_known_conditions: ClassVar[bool] = True
    bucket: str
    prefix: str
    credentials: AnyGcsCredential
    config: Mapping[str, str] = field(default_factory=dict)
    read_headers: Mapping[str, str] = field(default_factory=dict)
    write_headers: Mapping[str, str] = field(default_factory=dict)
    can_write: bool = True
    keeps_keys: bool = False

    @property
    def url(self) -> str:
        """The location without secrets."""
        return f"gs://{self.bucket}/{self.prefix}"

    @property
    def connection(self) -> Mapping[str, str | None]:
        """What the caller has said about the address."""
        return self.config

    def fields(self) -> Sequence[tuple[str, object]]:
        """What is shown of it."""
        return set_fields(bucket=self.bucket, prefix=self.prefix)

    def provider(self) -> Provider | None:
        """Fixed or renewed tokens."""
        match self.credentials:
            case GcsCredentials.Static(GcsStaticCredentials.BearerToken(token)):
                return lambda: {"token": token, "expires_at": None}
            case GcsCredentials.Refreshable():
                renewal = Renewal(self.credentials, GcsBearerCredential)

                def token_now() -> dict[str, object]:
                    found = renewal.get()
                    return {"token": found.bearer, "expires_at": found.expires_after}

                return token_now
            case _:
                return None

    def open(self, client: Client, provider: Provider | None, *, rooted: bool) -> ObjectStore:
        """A live client."""
        options, extra = split_options(self.config)
        config: dict[str, object] = dict(options)
        match self.credentials:
            case GcsCredentials.Anonymous():
                config["skip_signature"] = True
            case GcsCredentials.Static(GcsStaticCredentials.ServiceAccount(path)):
                config["service_account"] = path
            case GcsCredentials.Static(GcsStaticCredentials.ServiceAccountKey(key)):
                config["service_account_key"] = key
            case GcsCredentials.Static(GcsStaticCredentials.ApplicationCredentials(path)):
                config["application_credentials"] = path
            case _:
                pass
        asks = provider is None and not isinstance(self.credentials, GcsCredentials.Anonymous)
        base = config.get("base_url") or config.get("google_base_url")
        fence.require_address(f"{base or 'https://storage.googleapis.com'}/{self.bucket}")
        if base:
            require_listener(str(base), client.settings, extra)
        return GCSStore(
            self.bucket,
            config=config,  # type: ignore[arg-type]  # a TypedDict, filled above
            client_options=client.options(fence.google_hosts(config, asks), _as_at(base, extra)),
            retry_config=client.retries(),
            credential_provider=provider,
        )


# --- Azure ---


@dataclass(frozen=True, slots=True, repr=False)
class AzurePlace:
    """A container of an Azure account and a prefix in it."""

    kind: ClassVar[str] = "Azure"
    has_known_conditions: ClassVar[bool] = True
    account: str
    container: str
    prefix: str
    credentials: AnyAzureCredential
    config: Mapping[str, str] = field(default_factory=dict)
    read_headers: Mapping[str, str] = field(default_factory=dict)
    write_headers: Mapping[str, str] = field(default_factory=dict)
    can_write: bool = True
    keeps_keys: bool = False

    @property
    def url(self) -> str:
        """The location without secrets."""
        return f"az://{self.container}/{self.prefix}"

    @property
    def connection(self) -> Mapping[str, str | None]:
        """What the caller has said about the address."""
        return self.config

    def fields(self) -> Sequence[tuple[str, object]]:
        """What is shown of it."""
        own = [("account", self.account), ("container", self.container)]
        return [*own, *set_fields(prefix=self.prefix)]

    def provider(self) -> Provider | None:
        """Fixed or renewed keys and tokens."""
        match self.credentials:
            case AzureCredentials.Static(secret):
                return lambda: _azure_secret(secret)
            case AzureCredentials.Refreshable():
                family = AzureRefreshableCredential
                kinds = (family.AccessKey, family.SasToken, family.BearerToken)
                renewal = Renewal(self.credentials, kinds)
                return lambda: _azure_secret(renewal.get())
            case _:
                return None

    def open(self, client: Client, provider: Provider | None, *, rooted: bool) -> ObjectStore:
        """A live client."""
        options, extra = split_options(self.config)
        config: dict[str, object] = {k: v for k, v in options.items() if k != "account"}
        if self.account:
            config["account_name"] = self.account
        if isinstance(self.credentials, AzureCredentials.Anonymous):
            config["skip_signature"] = True
        asks = provider is None and not isinstance(self.credentials, AzureCredentials.Anonymous)
        base = config.get("endpoint")
        account = f"https://{self.account or 'account'}.blob.core.windows.net"
        fence.require_address(f"{base or account}/{self.container}")
        if base:
            require_listener(str(base), client.settings, extra)
        return AzureStore(
            self.container,
            config=config,  # type: ignore[arg-type]  # a TypedDict, filled above
            client_options=client.options(fence.azure_hosts(config, asks), _as_at(base, extra)),
            retry_config=client.retries(),
            credential_provider=provider,
        )


def _azure_secret(secret: object) -> dict[str, object]:
    end = getattr(secret, "expires_after", None)
    match secret:
        case AzureStaticCredentials.AccessKey(text) | AzureRefreshableCredential.AccessKey(text):
            return {"access_key": text, "expires_at": end}
        case AzureStaticCredentials.SasToken(text) | AzureRefreshableCredential.SasToken(text):
            return {"sas_token": text, "expires_at": end}
        case AzureStaticCredentials.BearerToken(text) | AzureRefreshableCredential.BearerToken(
            text
        ):
            return {"token": text, "expires_at": end}
        case _:
            raise TypeError(f"{type(secret).__name__} is no credential of Azure")


# --- HTTP ---


@dataclass(frozen=True, slots=True, repr=False)
class HttpPlace:
    """A directory behind a web server, to be read only."""

    kind: ClassVar[str] = "HTTP"
    has_known_conditions: ClassVar[bool] = True
    base_url: str
    config: Mapping[str, str] = field(default_factory=dict)
    read_headers: Mapping[str, str] = field(default_factory=dict)
    write_headers: Mapping[str, str] = field(default_factory=dict)
    prefix: str = ""
    can_write: bool = False
    keeps_keys: bool = False

    @property
    def url(self) -> str:
        """The location without secrets."""
        return bare_url(self.base_url)

    @property
    def connection(self) -> Mapping[str, str | None]:
        """What the caller has said about the address."""
        return {}

    def fields(self) -> Sequence[tuple[str, object]]:
        """What is shown of it."""
        return [("url", self.url)]

    def provider(self) -> Provider | None:
        """None: what the server wants to see is in the headers."""
        return None

    def open(self, client: Client, provider: Provider | None, *, rooted: bool) -> ObjectStore:
        """A live client."""
        _, extra = split_options(self.config)
        require_listener(self.base_url, client.settings, extra)
        extra = _as_at(self.base_url, {"allow_http": "true", **extra})
        options = client.options([self.base_url], extra)
        return HTTPStore.from_url(
            self.base_url, client_options=options, retry_config=client.retries()
        )


CloudPlace: TypeAlias = S3Place | GcsPlace | AzurePlace | HttpPlace
"""A location in some kind of object store."""


def _as_at(address: object, options: Mapping[str, str]) -> dict[str, str]:
    """Client options that allow plain HTTP only if the address has it; a redirect could use it."""
    is_safe = str(address or "").lower().startswith("https://")
    return {name: value for name, value in options.items() if not is_safe or name != "allow_http"}


def split_options(config: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """Separate the options of a store from those of its HTTP client."""
    bare = {
        re.sub(r"^(azure|google|aws)_(?=allow_http|timeout|proxy)", "", k): v
        for k, v in config.items()
    }
    client = {k: v for k, v in bare.items() if _CLIENT_KEYS.fullmatch(k)}
    return {k: v for k, v in bare.items() if k not in client}, client
