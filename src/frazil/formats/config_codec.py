"""The stored configuration, as a plain map and as `config.yaml`.

All keys are written, unset ones as null; missing keys are unset and unknown ones are ignored.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final, TypeVar

from frazil.errors import ErrorKind, FormatError, InvalidInputError
from frazil.formats.config_keys import CHECKSUMS, OLD_STORES, S3_STORES, Variant, setting_keys
from frazil.logs import warn_once
from frazil.model.config import (
    CachingConfig,
    ChecksumAlgorithm,
    CompressionAlgorithm,
    CompressionConfig,
    ManifestConfig,
    ManifestPreloadCondition,
    ManifestPreloadConfig,
    ManifestSplitCondition,
    ManifestSplitDimCondition,
    ManifestSplittingConfig,
    ManifestVirtualChunkLocationCompressionConfig,
    ObjectStoreConfig,
    RepositoryConfig,
    RepoUpdateRetryConfig,
    S3Options,
    StorageConcurrencySettings,
    StorageRetriesSettings,
    StorageSettings,
    StorageTimeoutSettings,
    VirtualChunkContainer,
)
from frazil.model.history import JSON
from frazil.model.settings import SettingsRecord, u32

log = logging.getLogger(__name__)

R = TypeVar("R", bound=SettingsRecord)
C = TypeVar("C", ManifestSplitCondition, ManifestPreloadCondition)

_MAX_DEPTH: Final = 64
"""Nesting that no configuration needs; deeper ones are refused before Python's stack ends."""

# --- out ---


def config_to_map(config: RepositoryConfig) -> dict[str, JSON]:
    """The configuration as maps, lists and scalars."""
    made = _untagged(_encode(config))
    assert isinstance(made, dict)
    return made


def config_to_yaml(config: RepositoryConfig) -> bytes:
    """The configuration as a `config.yaml` file."""
    from frazil.formats import plain_yaml  # few repositories have YAML to read

    return plain_yaml.dump_yaml(_encode(config))


def config_map_to_yaml(config: Mapping[str, JSON]) -> bytes:
    """A plain map as a `config.yaml` file."""
    return config_to_yaml(config_from_map(config))


def _untagged(value: object) -> JSON:
    if isinstance(value, Variant):
        return {value.name: _untagged(value.payload)}
    if isinstance(value, Mapping):
        return {key: _untagged(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_untagged(item) for item in value]
    return value


def _encode(value: object) -> object:
    if isinstance(value, SettingsRecord):
        return {name: _encode(getattr(value, name)) for name in setting_keys(type(value))}
    if isinstance(value, CompressionAlgorithm):
        return "zstd"
    if isinstance(value, ChecksumAlgorithm):
        return CHECKSUMS[value]
    if isinstance(value, ManifestSplitCondition | ManifestPreloadCondition):
        return _encode_condition(value)
    if isinstance(value, ObjectStoreConfig):
        return _encode_store(value)
    if isinstance(value, list):  # split sizes, the only list there is
        return [[_encode(condition), [*map(_encode_size, sizes)]] for condition, sizes in value]
    if isinstance(value, Mapping):
        return {key: _encode(item) for key, item in value.items()}
    return value


def _encode_size(rule: tuple[object, int]) -> object:
    dim, size = rule
    condition: object = "Any"
    if isinstance(dim, ManifestSplitDimCondition.Axis):
        condition = Variant("Axis", dim.axis)
    elif isinstance(dim, ManifestSplitDimCondition.DimensionName):
        condition = Variant("DimensionName", dim.regex)
    return {"condition": condition, "num_chunks": size}


def _encode_condition(condition: ManifestSplitCondition | ManifestPreloadCondition) -> object:
    if condition.op in ("and", "or"):
        return Variant(condition.op, [_encode(part) for part in condition.parts])
    if condition.op in ("path_matches", "name_matches"):
        return Variant(condition.op, {"regex": condition.regex})
    if isinstance(condition, ManifestPreloadCondition) and condition.op == "num_refs":
        low, high = condition.from_refs, condition.to_refs
        bounds = {
            "from": "Unbounded" if low is None else Variant("Included", low),
            "to": "Unbounded" if high is None else Variant("Excluded", high),
        }
        return Variant("num_refs", bounds)
    return condition.op


def _encode_store(store: object) -> object:
    match store:
        case ObjectStoreConfig.LocalFileSystem(path=path):
            return Variant("local_file_system", path)
        case ObjectStoreConfig.Http(opts=opts, headers=headers):
            extra = {} if headers is None else {"headers": dict(headers)}
            return Variant("http", {**(opts or {}), **extra})
        case ObjectStoreConfig.Gcs(opts=opts):
            return Variant("gcs", dict(opts or {}))
        case ObjectStoreConfig.Azure(opts=opts):
            return Variant("azure", dict(opts or {}))
        case ObjectStoreConfig.InMemory():
            return "in_memory"
    for name, kind in S3_STORES.items():
        if type(store) is kind:
            return Variant(name, _encode(getattr(store, "options", None)))
    raise InvalidInputError(f"unknown store {store!r}", kind=ErrorKind.SERIALIZATION)


# --- in ---


def config_from_map(
    data: Mapping[str, JSON] | None, *, key: str = "config", repository: str = ""
) -> RepositoryConfig:
    """Read a plain map.

    Containers that cannot be used are left out, with a warning that names the repository.

    Raises:
        FormatError: a value of the wrong type or outside its range; `where` names it.
    """
    return _record(RepositoryConfig, {} if data is None else data, _Place(key, "", repository))


def config_from_yaml(data: bytes, *, key: str = "config.yaml") -> RepositoryConfig:
    """Read a `config.yaml` file of any age."""
    from frazil.formats import plain_yaml  # few repositories have YAML to read

    return config_from_map(plain_yaml.load_yaml(data, key=key), key=key)


def config_map_from_yaml(data: bytes, *, key: str = "config.yaml") -> dict[str, JSON]:
    """Read a `config.yaml` file of any age into a plain map of today's form."""
    return config_to_map(config_from_yaml(data, key=key))


class _Place:
    """Where we are in a file, for messages."""

    def __init__(self, key: str, path: str, repository: str, depth: int = 0) -> None:
        self.key, self.path, self.repository, self.depth = key, path, repository, depth

    def below(self, step: object) -> _Place:
        path = f"{self.path}.{step}" if self.path else str(step)
        if self.depth >= _MAX_DEPTH:
            raise self.damage("nested too deeply")
        return _Place(self.key, path, self.repository, self.depth + 1)

    def damage(self, problem: str) -> FormatError:
        return FormatError(
            f"unusable configuration: {problem}",
            kind=ErrorKind.CONFIG_DESERIALIZATION,
            key=self.key,
            where=self.path[:200] or "top",
        )


Reader = Callable[[Any, _Place], object]


def _record(cls: type[R], data: JSON, place: _Place) -> R:
    if not isinstance(data, Mapping):
        raise place.damage("expected a map")
    made = cls()
    for name in setting_keys(cls):
        raw = data.get(name)
        if raw is None:
            continue
        here = place.below(name)
        reader = _READERS.get((cls, name))
        try:
            setattr(made, name, raw if reader is None else reader(raw, here))
        except (TypeError, ValueError, OverflowError) as error:
            if isinstance(error, FormatError):
                raise
            raise here.damage(str(error)[:200]) from error
    return made


def _algorithm(raw: JSON, place: _Place) -> CompressionAlgorithm:
    if raw not in ("zstd", "Zstd"):  # the second until 0.1.0
        raise place.damage("unknown compression algorithm")
    return CompressionAlgorithm.Zstd


def _checksum(raw: JSON, place: _Place) -> ChecksumAlgorithm:
    for algorithm, name in CHECKSUMS.items():
        if raw == name:
            return algorithm
    raise place.damage("unknown checksum algorithm")


def _variant(raw: JSON, place: _Place) -> tuple[str, JSON]:
    """Name and payload of a value of an enumeration."""
    if isinstance(raw, str):
        return raw, None
    if isinstance(raw, Mapping) and len(raw) == 1:
        [(name, payload)] = raw.items()
        return str(name), payload
    raise place.damage("expected a name or a map of one key")


def _condition(cls: type[C], raw: JSON, place: _Place) -> C:
    name, payload = _variant(raw, place)
    if name in ("and", "or"):
        if not isinstance(payload, list):
            raise place.damage("expected a list of conditions")
        here = place.below(name)
        parts = [_condition(cls, part, here.below(i)) for i, part in enumerate(payload)]
        return cls.and_conditions(parts) if name == "and" else cls.or_conditions(parts)
    if name in ("path_matches", "name_matches"):
        regex = payload.get("regex") if isinstance(payload, Mapping) else None
        if not isinstance(regex, str):
            raise place.damage("expected a regex")
        return cls.path_matches(regex) if name == "path_matches" else cls.name_matches(regex)
    if cls is ManifestSplitCondition and name == "any_array":
        return cls(name)
    if cls is ManifestPreloadCondition and name in ("true", "false"):
        return cls(name)
    if cls is ManifestPreloadCondition and name == "num_refs" and isinstance(payload, Mapping):
        low = _bound(payload.get("from"), place.below("from"), exclusive_adds=True)
        high = _bound(payload.get("to"), place.below("to"), exclusive_adds=False)
        return cls(name, from_refs=low, to_refs=high)
    raise place.damage(f"unknown condition {name[:40]!r}")


def _bound(raw: JSON, place: _Place, *, exclusive_adds: bool) -> int | None:
    """A bound in the form we keep: the lower one inclusive, the upper one exclusive."""
    name, payload = ("Unbounded", None) if raw is None else _variant(raw, place)
    if name == "Unbounded":
        return None
    if name not in ("Included", "Excluded"):
        raise place.damage("unknown bound")
    return u32(payload) + int((name == "Excluded") == exclusive_adds)


def _split_sizes(raw: JSON, place: _Place) -> list[tuple[ManifestSplitCondition, list[object]]]:
    if not isinstance(raw, list):
        raise place.damage("expected a list of rules")
    return [_rule(rule, place.below(i)) for i, rule in enumerate(raw)]


def _rule(raw: JSON, place: _Place) -> tuple[ManifestSplitCondition, list[object]]:
    if not isinstance(raw, list) or len(raw) != 2 or not isinstance(raw[1], list):
        raise place.damage("expected a condition and a list of sizes")
    condition = _condition(ManifestSplitCondition, raw[0], place.below(0))
    return condition, [_size(item, place.below(1)) for item in raw[1]]


def _size(raw: JSON, place: _Place) -> tuple[object, JSON]:
    if not isinstance(raw, Mapping):
        raise place.damage("expected a map")
    name, payload = _variant(raw.get("condition"), place)
    size = raw.get("num_chunks")
    if name == "Any":
        return ManifestSplitDimCondition.Any(), size
    if name == "Axis":
        return ManifestSplitDimCondition.Axis(payload), size
    if name == "DimensionName":
        return ManifestSplitDimCondition.DimensionName(payload), size
    raise place.damage("unknown dimension condition")


def _containers(raw: JSON, place: _Place) -> dict[str, VirtualChunkContainer]:
    """Containers by prefix; what could never serve a chunk is left out."""
    if not isinstance(raw, Mapping):
        raise place.damage("expected a map")
    made: dict[str, VirtualChunkContainer] = {}
    for label, item in raw.items():
        here = place.below(label)
        if not isinstance(item, Mapping):
            raise here.damage("expected a map")
        prefix, name = item.get("url_prefix"), item.get("name")
        if not isinstance(prefix, str):
            raise here.damage("expected a url_prefix")
        if not isinstance(name, str | None):
            raise here.damage("expected a name")
        if not prefix.endswith("/"):  # as early versions wrote it
            prefix += "/"
        store = _store(item.get("store"), here.below("store"))
        # For mypy: `_store` makes one of the kinds.
        container = VirtualChunkContainer(prefix, store, name)  # type: ignore[arg-type]
        try:
            container.check()
        except InvalidInputError as error:
            if place.repository:  # names it, so that the warning is shown once for each
                detail = "ignoring a stored virtual chunk container of %s: %s"
                about = (place.repository, prefix, str(error))
                warn_once(log, about, detail, place.repository, error)
            continue
        made[prefix] = container
    return made


def _store(raw: JSON, place: _Place) -> object:
    name, payload = _variant(raw, place)
    name = OLD_STORES.get(name, name)
    if name in S3_STORES:
        return S3_STORES[name](_record(S3Options, payload or {}, place))
    if name == "in_memory":
        return ObjectStoreConfig.InMemory()
    if name == "local_file_system" and isinstance(payload, str):
        return ObjectStoreConfig.LocalFileSystem(payload)
    if name not in ("gcs", "azure", "http"):
        raise place.damage("unknown store")
    if payload is not None and not isinstance(payload, Mapping):
        raise place.damage("expected a map of options")
    options = dict(payload or {})
    if name == "http":
        headers = options.pop("headers", None)
        sent = None if headers is None else _texts(headers, place)
        return ObjectStoreConfig.Http(_texts(options, place) or None, sent)
    made = _texts(options, place) or None
    return ObjectStoreConfig.Gcs(made) if name == "gcs" else ObjectStoreConfig.Azure(made)


def _texts(raw: JSON, place: _Place) -> dict[str, str]:
    if not isinstance(raw, Mapping) or not all(isinstance(item, str) for item in raw.values()):
        raise place.damage("expected a map of texts")
    return dict(raw)


_READERS: Final[Mapping[tuple[type[SettingsRecord], str], Reader]] = {
    (RepositoryConfig, "compression"): partial(_record, CompressionConfig),
    (RepositoryConfig, "caching"): partial(_record, CachingConfig),
    (RepositoryConfig, "storage"): partial(_record, StorageSettings),
    (RepositoryConfig, "virtual_chunk_containers"): _containers,
    (RepositoryConfig, "manifest"): partial(_record, ManifestConfig),
    (RepositoryConfig, "repo_update_retries"): partial(_record, RepoUpdateRetryConfig),
    (CompressionConfig, "algorithm"): _algorithm,
    (StorageSettings, "concurrency"): partial(_record, StorageConcurrencySettings),
    (StorageSettings, "retries"): partial(_record, StorageRetriesSettings),
    (StorageSettings, "timeouts"): partial(_record, StorageTimeoutSettings),
    (ManifestConfig, "preload"): partial(_record, ManifestPreloadConfig),
    (ManifestConfig, "splitting"): partial(_record, ManifestSplittingConfig),
    (ManifestConfig, "virtual_chunk_location_compression"): partial(
        _record, ManifestVirtualChunkLocationCompressionConfig
    ),
    (ManifestPreloadConfig, "preload_if"): partial(_condition, ManifestPreloadCondition),
    (ManifestSplittingConfig, "split_sizes"): _split_sizes,
    (RepoUpdateRetryConfig, "default"): partial(_record, StorageRetriesSettings),
    (S3Options, "checksum_algorithm"): _checksum,
}
