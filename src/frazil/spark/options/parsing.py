"""Options as Spark hands them over, read by the table of `known_options`.

They come as text with lower-case names. Names are matched without regard to case and with `-` and
`_` taken as the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar, cast, overload

from frazil.errors import ErrorKind, InvalidInputError
from frazil.masking import shown_option, shown_text, shown_url
from frazil.spark.options.table import (
    FAMILIES,
    OPTIONS,
    PATH,
    PROPERTY,
    STORAGE,
    VIRTUAL,
    Option,
    Use,
)
from frazil.spelling import nearest

T = TypeVar("T")

_FROM_SPARK: Final = frozenset({"header", "inferschema", "mode", "outputmode"})
"""What Spark itself may add to the options of a source; none of it concerns us."""


@dataclass(frozen=True, slots=True, repr=False)
class Options:
    """The options of one read or write; `options[SPLIT_SIZE]` is typed by its option."""

    values: Mapping[str, Any] = field(default_factory=dict)
    storage: Mapping[str, str] = field(default_factory=dict)
    virtual: Mapping[str, str] = field(default_factory=dict)
    properties: Mapping[str, str] = field(default_factory=dict)

    @overload
    def get(self, option: Option[T]) -> T | None: ...

    @overload
    def get(self, option: Option[T], default: T) -> T: ...

    def get(self, option: Option[T], default: T | None = None) -> T | None:
        """The value of an option, or a default."""
        return cast("T | None", self.values.get(option.name, default))

    def __getitem__(self, option: Option[T]) -> T:
        return self.require(option)

    def __contains__(self, option: Option[Any]) -> bool:
        return option.name in self.values

    def require(self, option: Option[T]) -> T:
        """The value of an option that must be given."""
        if option.name not in self.values:
            raise invalid_option(f"option {option.name!r} is missing: {option.meaning}")
        return cast(T, self.values[option.name])

    def __repr__(self) -> str:
        shown = {name: shown_option(name, str(value)) for name, value in self.values.items()}
        if PATH.name in shown:
            shown[PATH.name] = shown_url(shown[PATH.name])
        for prefix, family in ((STORAGE, self.storage), (VIRTUAL, self.virtual)):
            shown |= {prefix + name: shown_option(name, value) for name, value in family.items()}
        shown |= {PROPERTY + name: shown_text(value) for name, value in self.properties.items()}
        return f"Options({', '.join(f'{name}={value!r}' for name, value in shown.items())})"


def parse_options(
    given: Mapping[str, str], use: Use, known: Iterable[Option[Any]] = OPTIONS
) -> Options:
    """Read options as Spark gives them.

    Raises:
        InvalidInputError: an option is unknown, given twice or cannot be read.
    """
    by_spelling = {_plain(s): option for option in known for s in option.spellings}
    values: dict[str, Any] = {}
    families: dict[str, dict[str, str]] = {prefix: {} for prefix in FAMILIES}
    for name, written in given.items():
        prefix = next((p for p in FAMILIES if _plain(name).startswith(_plain(p))), None)
        if prefix is not None:
            families[prefix][_family_name(name, prefix)] = written
            continue
        option = by_spelling.get(_plain(name))
        if option is None:
            if name.lower() in _FROM_SPARK:
                continue
            raise _unknown(name, use, by_spelling.values())
        if not option.use & use:
            raise invalid_option(f"option {name!r} has no meaning here: {option.meaning}")
        if option.name in values:
            raise invalid_option(
                f"option {option.name!r} is given twice, under two of its names "
                f"({', '.join(option.spellings)})"
            )
        values[option.name] = _parsed(option, name, written)
    return Options(values, families[STORAGE], families[VIRTUAL], families[PROPERTY])


def invalid_option(message: str) -> InvalidInputError:
    """The error for a wrong option."""
    return InvalidInputError(message, kind=ErrorKind.INVALID_OPTION)


def documented(use: Use = Use.ANY) -> list[tuple[str, str]]:
    """Names and meanings of all options for a use, for documents and help texts."""
    found = [(", ".join(o.spellings), o.meaning) for o in OPTIONS if o.use & use]
    return [*found, *((f"{prefix}*", meaning) for prefix, meaning in FAMILIES.items())]


def _plain(name: str) -> str:
    return name.lower().replace("-", "").replace("_", "")


def _family_name(name: str, prefix: str) -> str:
    rest = name.partition(".")[2]
    if not rest:
        raise invalid_option(f"option {name!r} names nothing: {FAMILIES[prefix]}")
    return rest if prefix == PROPERTY else rest.lower().replace("-", "_")


def _unknown(name: str, use: Use, known: Iterable[Option[Any]]) -> InvalidInputError:
    spellings = sorted({s for option in known if option.use & use for s in option.spellings})
    close = nearest(name, spellings)
    families = ", ".join(f"{prefix}*" for prefix in FAMILIES)
    return invalid_option(
        f"unknown option {name!r}{close} (options are {', '.join(spellings)}, {families})"
    )


def _parsed(option: Option[T], name: str, written: str) -> T:
    try:
        return option.parse(written)
    except ValueError as error:
        shown = shown_option(name, written)
        raise invalid_option(f"option {name!r} is {shown!r}: {error}") from None
