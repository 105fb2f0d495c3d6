"""How manifests are split, preloaded and compressed, and the pure rules behind it."""

from __future__ import annotations

import re
from abc import ABC
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import lru_cache
from typing import Any, ClassVar, Final, Self, TypeAlias

from frazil.errors import ErrorKind, InvalidInputError
from frazil.model.display import quoted, source
from frazil.model.settings import (
    U32,
    SettingsRecord,
    i32,
    instance,
    record,
    setting,
    string,
    u16,
    u32,
    u64,
)
from frazil.naming import dotted

UNSPLIT: Final = U32
"""a split size no array reaches: one manifest holds the whole axis"""

# Python's engine knows constructs that the format's regex language refuses.
_FOREIGN_REGEX: Final = re.compile(r"(?:^|[^\\])(?:\\\\)*(?:\\[1-9]|\(\?(?:[=!>(]|<[=!]|P[=>]))")


@lru_cache(maxsize=1024)
def _compiled(pattern: str) -> re.Pattern[str] | None:
    """The pattern for an unanchored search; None when it is not valid."""
    if _FOREIGN_REGEX.search(pattern):
        return None
    try:
        return re.compile(pattern.replace(r"\z", r"\Z"))
    except (re.error, OverflowError, RecursionError):
        return None


def regex_matches(pattern: str, text: str) -> bool:
    """Search `pattern` anywhere in `text`; an invalid pattern matches nothing."""
    compiled = _compiled(pattern)
    return compiled is not None and compiled.search(text) is not None


class _Variant:
    """One kind of condition by its official class name: to be called, and for `isinstance`."""

    def __init__(self, op: str, constructor: str) -> None:
        self._op = op
        self._constructor = constructor
        self._family: Any = None

    def __get__(self, condition: object, family: type) -> _Variant:
        bound = _Variant(self._op, self._constructor)
        bound._family = family
        return bound

    def __call__(self, *operands: object) -> Any:  # noqa: ANN401 - a condition of the family
        return getattr(self._family, self._constructor)(*operands)

    def __instancecheck__(self, condition: object) -> bool:
        return isinstance(condition, self._family) and condition.op == self._op


@dataclass(frozen=True, slots=True, repr=False)
class _Condition:
    """A test on a node; `op` says which, with the operands it needs."""

    op: str
    regex: str = ""
    parts: tuple[Self, ...] = ()
    And: ClassVar[Any] = _Variant("and", "and_conditions")
    Or: ClassVar[Any] = _Variant("or", "or_conditions")
    PathMatches: ClassVar[Any] = _Variant("path_matches", "path_matches")
    NameMatches: ClassVar[Any] = _Variant("name_matches", "name_matches")

    @classmethod
    def path_matches(cls, regex: str) -> Self:
        """Nodes whose full path contains a match."""
        return cls("path_matches", regex=string(regex))

    @classmethod
    def name_matches(cls, regex: str) -> Self:
        """Nodes whose last path segment contains a match."""
        return cls("name_matches", regex=string(regex))

    @classmethod
    def and_conditions(cls, conditions: Iterable[Self]) -> Self:
        """Nodes for which all conditions hold."""
        return cls("and", parts=tuple(instance(cls)(c) for c in conditions))

    @classmethod
    def or_conditions(cls, conditions: Iterable[Self]) -> Self:
        """Nodes for which some condition holds."""
        return cls("or", parts=tuple(instance(cls)(c) for c in conditions))

    def __and__(self, other: Self) -> Self:
        if not isinstance(other, type(self)):
            return NotImplemented
        return self.and_conditions([self, other])

    def __or__(self, other: Self) -> Self:
        if not isinstance(other, type(self)):
            return NotImplemented
        return self.or_conditions([self, other])

    def __repr__(self) -> str:
        prefix = dotted(f"config.{type(self).__name__}.")
        if self.op in ("and", "or"):
            return f"{prefix}{self.op}_conditions([{', '.join(map(repr, self.parts))}])"
        return prefix + self._call()

    def _call(self) -> str:
        return f"{self.op}({quoted(self.regex)})"

    def matches(self, path: str, num_refs: int = 0) -> bool:
        """Tell whether the condition holds for the array at `path`."""
        if self.op == "and":
            return all(part.matches(path, num_refs) for part in self.parts)
        if self.op == "or":
            return any(part.matches(path, num_refs) for part in self.parts)
        if self.op == "path_matches":
            return regex_matches(self.regex, path)
        if self.op == "name_matches":
            return path != "/" and regex_matches(self.regex, path.rpartition("/")[2])
        return self._holds(num_refs)

    def _holds(self, num_refs: int) -> bool:
        return True


@dataclass(frozen=True, slots=True, repr=False)
class ManifestSplitCondition(_Condition):
    """Which arrays a rule for splitting manifests is about."""

    AnyArray: ClassVar[Any] = _Variant("any_array", "any_array")

    @classmethod
    def any_array(cls) -> Self:
        """All arrays."""
        return cls("any_array")

    def _call(self) -> str:
        return "AnyArray()" if self.op == "any_array" else _Condition._call(self)


@dataclass(frozen=True, slots=True, repr=False)
class ManifestPreloadCondition(_Condition):
    """Which manifests are fetched as soon as a session opens."""

    from_refs: int | None = None
    to_refs: int | None = None
    NumRefs: ClassVar[Any] = _Variant("num_refs", "num_refs")

    @classmethod
    def num_refs(cls, from_refs: int | None, to_refs: int | None) -> Self:
        """Manifests with at least `from_refs` and fewer than `to_refs` references."""
        low = None if from_refs is None else u32(from_refs)
        high = None if to_refs is None else u32(to_refs)
        return cls("num_refs", from_refs=low, to_refs=high)

    @classmethod
    def true(cls) -> Self:
        """All manifests."""
        return cls("true")

    @classmethod
    def false(cls) -> Self:
        """No manifest."""
        return cls("false")

    def _call(self) -> str:
        if self.op == "num_refs":
            return f"num_refs({self.from_refs}, {self.to_refs})"
        return f"{self.op}()" if self.op in ("true", "false") else _Condition._call(self)

    def _holds(self, num_refs: int) -> bool:
        if self.op != "num_refs":
            return self.op == "true"
        above = self.from_refs is None or num_refs >= self.from_refs
        return above and (self.to_refs is None or num_refs < self.to_refs)


@dataclass(frozen=True, slots=True, repr=False)
class _DimCondition:
    """Base of the tests on one axis."""

    def matches(self, axis: int, name: str | None) -> bool:
        """Tell whether the axis with this number and name is meant."""
        return True

    def __repr__(self) -> str:
        operands = ", ".join(source(getattr(self, each.name)) for each in fields(self))
        return dotted(f"config.ManifestSplitDimCondition.{type(self).__name__}({operands})")


class ManifestSplitDimCondition(ABC):  # noqa: B024  (a namespace; the variants are virtual subclasses)
    """Which axis a split size is for; use one of the nested classes."""

    def __new__(cls) -> ManifestSplitDimCondition:
        """Refuse: only the variants can be made."""
        raise TypeError("use one of the variants, such as ManifestSplitDimCondition.Axis(0)")

    @dataclass(frozen=True, slots=True, repr=False)
    class Axis(_DimCondition):
        """The axis with this number."""

        axis: int

        def __post_init__(self) -> None:
            u64(self.axis)

        def matches(self, axis: int, name: str | None) -> bool:
            return axis == self.axis

    @dataclass(frozen=True, slots=True, repr=False)
    class DimensionName(_DimCondition):
        """Axes whose dimension name contains a match."""

        regex: str

        def __post_init__(self) -> None:
            string(self.regex)

        def matches(self, axis: int, name: str | None) -> bool:
            return name is not None and regex_matches(self.regex, name)

    @dataclass(frozen=True, slots=True, repr=False)
    class Any(_DimCondition):
        """Every axis."""


ManifestSplitDimCondition.register(_DimCondition)

AnyDimCondition: TypeAlias = (
    ManifestSplitDimCondition.Axis
    | ManifestSplitDimCondition.DimensionName
    | ManifestSplitDimCondition.Any
)
ManifestSplitValues: TypeAlias = dict[AnyDimCondition, int]
SplitSizesDict: TypeAlias = dict[ManifestSplitCondition, ManifestSplitValues]
SplitRule: TypeAlias = tuple[ManifestSplitCondition, list[tuple[AnyDimCondition, int]]]


def _split_rules(value: object) -> list[SplitRule]:
    """Check split sizes given as nested sequences or pairs."""
    if isinstance(value, str | bytes) or not isinstance(value, Iterable):
        raise TypeError("split_sizes must be a sequence of (condition, sizes) pairs")
    rules: list[SplitRule] = []
    for condition, sizes in value:
        if not isinstance(condition, ManifestSplitCondition):
            raise TypeError(f"{condition!r} is not a ManifestSplitCondition")
        pairs: list[tuple[AnyDimCondition, int]] = []
        for dim, size in sizes:
            if not isinstance(dim, _DimCondition):
                raise TypeError(f"{dim!r} is not a ManifestSplitDimCondition")
            # For mypy: the conditions there are have this base.
            pairs.append((dim, u32(size)))  # type: ignore[arg-type]
        rules.append((condition, pairs))
    return rules


def _never_split() -> list[SplitRule]:
    everything = ManifestSplitCondition.path_matches(".*")
    return [(everything, [(ManifestSplitDimCondition.Any(), UNSPLIT)])]


@record
class ManifestSplittingConfig(SettingsRecord):
    """Rules, in order, for how many chunks a manifest covers along each axis."""

    _shown_name = "config.ManifestSplittingConfig"
    split_sizes: list[SplitRule] | None = setting(_split_rules, _never_split, replace=True)

    @staticmethod
    def from_dict(
        split_sizes: Mapping[ManifestSplitCondition, Mapping[AnyDimCondition, int]],
    ) -> ManifestSplittingConfig:
        """Make the rules from nested dictionaries, in their order."""
        return ManifestSplittingConfig(
            [(condition, list(sizes.items())) for condition, sizes in split_sizes.items()]
        )

    def to_dict(self) -> dict[ManifestSplitCondition, dict[AnyDimCondition, int]]:
        """The rules as nested dictionaries."""
        return {condition: dict(sizes) for condition, sizes in self.split_sizes or ()}

    def rules(self) -> list[SplitRule]:
        """The rules that count."""
        return self.split_sizes if self.split_sizes is not None else _never_split()


@record
class ManifestPreloadConfig(SettingsRecord):
    """Which manifests are fetched as soon as a session opens, and how many."""

    _shown_name = "config.ManifestPreloadConfig"
    max_total_refs: int | None = setting(u32, 10_000)
    preload_if: ManifestPreloadCondition | None = setting(instance(ManifestPreloadCondition))
    max_arrays_to_scan: int | None = setting(u32, 50)


@record
class ManifestVirtualChunkLocationCompressionConfig(SettingsRecord):
    """How URLs of virtual chunks are compressed inside manifests."""

    _shown_name = "config.ManifestVirtualChunkLocationCompressionConfig"
    min_num_chunks: int | None = setting(u16, 1000)
    dictionary_max_training_samples: int | None = setting(u16, 100, kw_only=True)
    dictionary_max_size_bytes: int | None = setting(u32, 2048, kw_only=True)
    compression_level: int | None = setting(i32, 3, kw_only=True)


@record
class ManifestConfig(SettingsRecord):
    """How manifests are preloaded, split and written."""

    _shown_name = "config.ManifestConfig"
    preload: ManifestPreloadConfig | None = setting(
        instance(ManifestPreloadConfig), ManifestPreloadConfig, replace=True
    )
    splitting: ManifestSplittingConfig | None = setting(
        instance(ManifestSplittingConfig), ManifestSplittingConfig, replace=True
    )
    virtual_chunk_location_compression: ManifestVirtualChunkLocationCompressionConfig | None = (
        setting(
            instance(ManifestVirtualChunkLocationCompressionConfig),
            ManifestVirtualChunkLocationCompressionConfig,
        )
    )
    max_concurrent_manifest_fetches_during_commit: int | None = setting(u16, 1)


# Names that CF data sets give to their coordinates: time, vertical, latitude and longitude.
_COORDINATE_NAMES: Final = (
    r"^t$|^(time|min|hour|day|week|month|year)[0-9]*$",
    r"^(z|nav_lev|gdep|lv_|o*lev|bottom_top|sigma|h(ei)?ght|altitude|depth|isobaric|pres|isotherm)"
    r"[a-z_]*[0-9]*$",
    r"^(y|j|nlat|rlat|nj)$|^y?(nav_lat|lat|gphi)[a-z0-9]*$",
    r"^(x|i|nlon|rlon|ni)$|^x?(nav_lon|lon|glam)[a-z0-9]*$",
)


def default_preload_condition() -> ManifestPreloadCondition:
    """Small manifests of arrays that are named like coordinates."""
    names = [ManifestPreloadCondition.name_matches(regex) for regex in _COORDINATE_NAMES]
    return ManifestPreloadCondition.or_conditions(names) & ManifestPreloadCondition.num_refs(
        None, 1001
    )


def should_preload(config: ManifestPreloadConfig, path: str, num_refs: int) -> bool:
    """Tell whether a manifest of the array at `path` with so many references is preloaded."""
    return (config.preload_if or default_preload_condition()).matches(path, num_refs)


def split_sizes(
    config: ManifestConfig | None,
    path: str,
    dimension_names: Sequence[str | None] | None,
    grid: Sequence[int],
) -> tuple[int, ...]:
    """How many chunks a manifest covers along each axis; `UNSPLIT` where no rule speaks.

    Raises:
        InvalidInputError: a rule asks for manifests of no chunks.
    """
    splitting = (config.splitting if config else None) or ManifestSplittingConfig()
    rules = [sizes for condition, sizes in splitting.rules() if condition.matches(path)]
    names = list(dimension_names or ())
    names += [None] * (len(grid) - len(names))
    return tuple(_axis_size(rules, axis, names[axis], path) for axis in range(len(grid)))


def _axis_size(
    rules: list[list[tuple[AnyDimCondition, int]]], axis: int, name: str | None, path: str
) -> int:
    for sizes in rules:
        for dim, size in sizes:
            if dim.matches(axis, name):
                if size == 0:
                    raise InvalidInputError(
                        "a manifest split size must not be zero",
                        kind=ErrorKind.INVALID_MANIFEST_SPLIT_INDEX,
                        path=path,
                        axis=axis,
                    )
                return size
    return UNSPLIT
