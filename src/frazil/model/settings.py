"""The base of all configuration records: optional settings, checked when they are set.

None means unset. The default is kept with the field, once for the engine and for display.
"""

from __future__ import annotations

import copy
import dataclasses
import operator
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import IntEnum
from typing import (
    TYPE_CHECKING,
    ClassVar,
    Final,
    Self,
    SupportsIndex,
    TypeVar,
    cast,
    dataclass_transform,
)

from frazil.model.display import Field, HasRepr

T = TypeVar("T")

U8: Final = 2**8 - 1
U16: Final = 2**16 - 1
U32: Final = 2**32 - 1
U64: Final = 2**64 - 1


class NamedInt(IntEnum):
    """An enumeration that equals its numbers and shows as `Class.Name`."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}.{self.name}"

    def __str__(self) -> str:
        return repr(self)


def integer(low: int, high: int) -> Callable[[object], int]:
    """A check for whole numbers of a range; zero has a message of its own when forbidden."""

    def check(value: object) -> int:
        number = operator.index(cast("SupportsIndex", value))
        if number == 0 and low == 1:
            raise ValueError("zero is not allowed here")
        if not low <= number <= high:
            raise OverflowError(f"{number} is not between {low} and {high}")
        return int(number)

    return check


def instance(*types: type[T]) -> Callable[[object], T]:
    """A check for the type of a value."""

    def check(value: object) -> T:
        if not isinstance(value, types):
            wanted = " or ".join(t.__name__ for t in types)
            raise TypeError(f"{type(value).__name__!r} object is not an instance of {wanted!r}")
        return value

    return check


u8: Final = integer(0, U8)
u16: Final = integer(0, U16)
u32: Final = integer(0, U32)
u64: Final = integer(0, U64)
nonzero_u16: Final = integer(1, U16)
nonzero_u64: Final = integer(1, U64)
i32: Final = integer(-(2**31), 2**31 - 1)
boolean: Final = instance(bool)
string: Final = instance(str)


def setting(
    check: Callable[[object], T],
    default: object = None,
    *,
    init: bool = True,
    replace: bool = False,
    kw_only: bool = False,
) -> T | None:
    """Declare an optional setting of a record.

    Args:
        check: gives the value back, or raises TypeError, ValueError or OverflowError.
        default: what counts while the setting is None; a callable is called to get it.
        init: whether the constructor takes it.
        replace: in a merge the other's value replaces ours as a whole.
        kw_only: whether the constructor takes it by name only.
    """
    meta = {"check": check, "default": default, "optional": True, "replace": replace}
    made = dataclasses.field(default=None, init=init, metadata=meta, kw_only=kw_only)
    return cast("T | None", made)


def always_set(check: Callable[[object], T], default: T) -> T:
    """Declare a setting that is never None; `default` is its value until another is set."""
    meta = {"check": check, "default": None, "optional": False, "replace": True}
    made: T = dataclasses.field(default=default, metadata=meta)
    return made


def required(check: Callable[[object], T]) -> T:
    """Declare an argument that must be given."""
    meta = {"check": check, "default": None, "optional": False, "replace": True}
    return cast("T", dataclasses.field(metadata=meta))


C = TypeVar("C", bound=type)


@dataclass_transform(field_specifiers=(required,))
def record(cls: C) -> C:
    """Make a dataclass of settings, which shows itself in its own way."""
    return cast("C", dataclass(repr=False)(cls))


class SettingsRecord(HasRepr):
    """A mutable record of settings; subclasses are `record`s of `setting` fields."""

    _executable = True
    shown_order: ClassVar[tuple[str, ...]] = ()
    """names in the order of display, when it is not that of the constructor"""

    if not TYPE_CHECKING:  # a type checker would take it to allow any attribute

        def __setattr__(self, name: str, new: object) -> None:
            meta = _field(type(self), name).metadata
            if new is not None or not meta["optional"]:
                try:
                    new = meta["check"](new)
                except (TypeError, ValueError, OverflowError) as error:
                    raise type(error)(f"{name}: {error}") from None
            object.__setattr__(self, name, new)

    def effective(self, name: str) -> object:
        """The value of a setting, or the default that counts while it is unset."""
        mine = getattr(self, name)
        if mine is not None:
            return mine
        default = _field(type(self), name).metadata["default"]
        return default() if callable(default) else default

    def merge(self, other: Self) -> Self:
        """A new record: what `other` sets, over what this one sets, key by key."""
        made = copy.deepcopy(self)
        for each in _fields(type(self)).values():
            mine, theirs = getattr(self, each.name), getattr(other, each.name)
            if theirs is None:
                continue
            if isinstance(mine, SettingsRecord) and not each.metadata["replace"]:
                theirs = mine.merge(theirs)
            setattr(made, each.name, copy.deepcopy(theirs))
        return made

    def _shown_fields(self) -> Iterable[Field]:
        names = self.shown_order or [f.name for f in _fields(type(self)).values() if f.init]
        for name in names:
            mine = getattr(self, name)
            yield Field(name, mine, self.effective(name) if mine is None else None)


def _fields(cls: type) -> dict[str, dataclasses.Field[object]]:
    known: dict[str, dataclasses.Field[object]] = vars(cls)["__dataclass_fields__"]
    return known


def _field(cls: type, name: str) -> dataclasses.Field[object]:
    known = _fields(cls)
    if name not in known:
        raise AttributeError(f"{cls.__name__!r} object has no attribute {name!r}")
    return known[name]
