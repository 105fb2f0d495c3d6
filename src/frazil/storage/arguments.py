"""The keyword arguments of storage constructors, each spelled once.

Constructors take them as `**more: Unpack[...]`, which type checkers understand; `spelled_out`
shows them to `inspect` and `help` one by one.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from datetime import datetime
from typing import Any, Final, TypeAlias, TypedDict, TypeVar, get_args

from frazil.model.config import ChecksumAlgorithm
from frazil.storage.credentials import S3StaticCredentials

Headers: TypeAlias = dict[str, str] | None
Function = TypeVar("Function", bound=Callable[..., Any])


class HeaderArguments(TypedDict, total=False):
    """HTTP headers of all requests, and of those that read or write."""

    read_headers: Headers
    write_headers: Headers
    headers: Headers


class AddressArguments(TypedDict, total=False):
    """Where an S3-like store is."""

    region: str | None
    endpoint_url: str | None
    allow_http: bool
    anonymous: bool | None


class KeyArguments(HeaderArguments, total=False):
    """Who asks an S3-like store."""

    access_key_id: str | None
    secret_access_key: str | None
    session_token: str | None
    expires_after: datetime | None
    from_env: bool | None


class GatewayArguments(KeyArguments, total=False):
    """What storages with a fixed address take."""

    get_credentials: Callable[[], S3StaticCredentials] | None
    scatter_initial_credentials: bool
    network_stream_timeout_seconds: int
    legacy_rooted_keys: bool | None


class S3LikeArguments(AddressArguments, GatewayArguments, total=False):
    """What all S3-like storages take."""

    checksum_algorithm: ChecksumAlgorithm | None


class S3Arguments(S3LikeArguments, total=False):
    """What a storage in S3 takes."""

    force_path_style: bool
    requester_pays: bool


class S3ObjectStoreArguments(AddressArguments, KeyArguments, total=False):
    """What a storage in S3 takes whose names the generic backend spells."""

    force_path_style: bool


DEFAULTS: Final[dict[str, object]] = {
    "allow_http": False,
    "scatter_initial_credentials": False,
    "force_path_style": False,
    "network_stream_timeout_seconds": 60,
    "requester_pays": False,
}
"""of arguments whose default is not None"""


def spelled_out(function: Function) -> Function:
    """Replace `**more: Unpack[Arguments]` in the signature of a function by the arguments.

    The function always gets all of them, and is never called with others.
    """
    *named, more = inspect.signature(function, eval_str=True).parameters.values()
    (arguments,) = get_args(more.annotation)
    own = inspect.signature(function)
    keywords = [
        inspect.Parameter(
            name,
            inspect.Parameter.KEYWORD_ONLY,
            default=DEFAULTS.get(name),
            annotation=kind.__forward_arg__,
        )
        for name, kind in arguments.__annotations__.items()
    ]
    shown = own.replace(parameters=[*[own.parameters[each.name] for each in named], *keywords])

    @functools.wraps(function)
    def called(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401  (those of the function)
        try:
            bound = shown.bind(*args, **kwargs)
        except TypeError as error:
            raise TypeError(f"{function.__name__}() {error}") from None
        bound.apply_defaults()
        return function(*bound.args, **bound.kwargs)

    called.__signature__ = shown  # type: ignore[attr-defined]
    return called  # type: ignore[return-value]
