"""Options as Spark hands them over, read into the records of `table`.

They come as text with lower-case names. Names are matched without regard to case and with `-` and
`_` taken as the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, Final, TypeVar

from frazil.errors import InvalidInputError, invalid_option
from frazil.masking import shown_option
from frazil.spark.options.table import (
    FAMILIES,
    OPTIONS,
    PROPERTY,
    Option,
    OptionUse,
    RepositoryRequest,
)
from frazil.spelling import nearest

R = TypeVar("R", bound=RepositoryRequest)

_FROM_SPARK: Final = frozenset({"header", "inferschema", "mode", "outputmode"})
"""What Spark itself may add to the options of a source; none of it concerns us."""


def parse_request(kind: type[R], given: Mapping[str, str], use: OptionUse) -> R:
    """Read options as Spark gives them.

    Raises:
        InvalidInputError: an option is unknown, given twice or cannot be read.
    """
    found: dict[str, Any] = {}
    for name, written in given.items():
        prefix = _family(name)
        if prefix is not None:
            family = found.setdefault(_FAMILY_FIELDS[prefix], {})
            family[_family_name(name, prefix)] = written
        elif (option := _known(name, use)) is not None:
            if option.field in found:
                raise invalid_option(
                    f"option {option.name!r} is given twice, under two of its names "
                    f"({', '.join(option.spellings)})"
                )
            found[option.field] = _parsed(option, name, written)
    known = {each.name for each in fields(kind)}
    return kind(**{name: value for name, value in found.items() if name in known})


def require_use(given: Mapping[str, str], use: OptionUse) -> None:
    """Refuse options of another kind of reading or writing.

    Raises:
        InvalidInputError: there is one.
    """
    for name in given:
        if _family(name) is None:
            _known(name, use)


def options_for(given: Mapping[str, str], use: OptionUse) -> dict[str, str]:
    """The options that apply to a use, and unknown ones, which are refused later."""
    found: dict[str, str] = {}
    for name, written in given.items():
        option = _BY_SPELLING.get(_plain(name))
        is_property = _family(name) == PROPERTY
        if (option is None and not is_property) or (
            (OptionUse.WRITE if option is None else option.use) & use
        ):
            found[name] = written
    return found


def documented(use: OptionUse = OptionUse.ANY) -> list[tuple[str, str]]:
    """Names and meanings of all options for a use, for documents and help texts."""
    found = [(", ".join(o.spellings), o.meaning) for o in OPTIONS if o.use & use]
    return [*found, *((f"{prefix}*", meaning) for prefix, meaning in FAMILIES.items())]


def _plain(name: str) -> str:
    return name.lower().replace("-", "").replace("_", "")


_BY_SPELLING: Final = {_plain(s): option for option in OPTIONS for s in option.spellings}
_FAMILY_FIELDS: Final = dict(zip(FAMILIES, ("storage", "virtual", "properties"), strict=True))


def _family(name: str) -> str | None:
    return next((p for p in FAMILIES if _plain(name).startswith(_plain(p))), None)


def _family_name(name: str, prefix: str) -> str:
    rest = name.partition(".")[2]
    if not rest:
        raise invalid_option(f"option {name!r} names nothing: {FAMILIES[prefix]}")
    return rest if prefix == PROPERTY else rest.lower().replace("-", "_")


def _known(name: str, use: OptionUse) -> Option | None:
    """The option with a name; None for what Spark has added."""
    option = _BY_SPELLING.get(_plain(name))
    if option is None:
        if name.lower() in _FROM_SPARK:
            return None
        spellings = sorted({s for each in OPTIONS if each.use & use for s in each.spellings})
        families = ", ".join(f"{prefix}*" for prefix in FAMILIES)
        raise invalid_option(
            f"unknown option {name!r}{nearest(name, spellings)} "
            f"(options are {', '.join(spellings)}, {families})"
        )
    if not option.use & use:
        raise invalid_option(f"option {name!r} has no meaning here: {option.meaning}")
    return option


def _parsed(option: Option, name: str, written: str) -> object:
    try:
        return option.parse(written)
    except InvalidInputError:
        raise
    except ValueError as error:
        shown = shown_option(name, written)
        raise invalid_option(f"option {name!r} is {shown!r}: {error}") from None
