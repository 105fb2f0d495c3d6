"""`dataclass` for records, made in a third of the time that `dataclasses` takes.

    from frazil.records import dataclass

    @dataclass(frozen=True, slots=True)
    class Range: ...

A command of the `frazil` program defines about two hundred records before it does anything, and
`dataclasses` compiles six methods for each, which was a quarter of the time of a short command.
Here only `__init__` is compiled at once, `__eq__` and `__hash__` when they are first called, and
the other methods are functions that all records share. The result is a dataclass in every
respect: `fields`, `replace`, `match`, pickling and the errors are those of `dataclasses`. Records
that want more than that (bases with fields, `kw_only`, `order`, methods of their own in place of
generated ones) are made by `dataclasses` itself.
"""

from __future__ import annotations

import sys
from dataclasses import MISSING, Field, FrozenInstanceError, fields
from dataclasses import dataclass as standard_dataclass
from inspect import get_annotations
from reprlib import recursive_repr
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from dataclasses import dataclass as dataclass

_SWITCHES: Final = frozenset(("frozen", "slots", "eq", "repr"))
"""The options that are known here."""
_OWN: Final = frozenset(("__init__", "__eq__", "__setattr__", "__delattr__", "__getstate__"))
"""Methods that a class with generated ones does not define itself."""


def _dataclass(cls: type | None = None, /, **options: bool) -> Any:  # noqa: ANN401
    """The same as `dataclasses.dataclass`."""
    if cls is None:
        return lambda given: _dataclass(given, **options)
    if not _is_plain(cls, options):
        return standard_dataclass(**options)(cls)
    has_slots, is_frozen = options.get("slots", False), options.get("frozen", False)
    has_eq, has_repr = options.get("eq", True), options.get("repr", True)
    made: Any = standard_dataclass(init=False, repr=False, eq=False, slots=has_slots)(cls)
    own = fields(made)
    made.__init__ = _initializer(made, own, has_slots=has_slots, is_frozen=is_frozen)
    if is_frozen:
        made.__setattr__, made.__delattr__ = _refuse_to_set, _refuse_to_delete
    if is_frozen and has_slots:
        made.__getstate__, made.__setstate__ = _state, _set_state
    if has_repr and "__repr__" not in cls.__dict__:
        made.__repr__ = _repr
    if has_eq:
        _add_equality(made, [each.name for each in own if each.compare])
    if has_eq and "__hash__" not in cls.__dict__:
        if is_frozen:
            _add_hash(made, [f.name for f in own if (f.compare if f.hash is None else f.hash)])
        else:
            made.__hash__ = None
    parameters = made.__dataclass_params__
    parameters.init, parameters.frozen = True, is_frozen
    parameters.eq, parameters.repr = has_eq, has_repr
    return made


if not TYPE_CHECKING:
    dataclass = _dataclass


def _is_plain(cls: type, options: dict[str, bool]) -> bool:
    """Whether this is a record that asks for nothing unusual."""
    return (
        options.keys() <= _SWITCHES
        and cls.__doc__ is not None  # which `dataclasses` would write
        and not hasattr(cls, "__dataclass_fields__")  # of a base
        and not _OWN & cls.__dict__.keys()
        and not any(
            isinstance(value, Field) and (value.kw_only is True or not value.init)
            for value in cls.__dict__.values()
        )
        and not any("InitVar" in kind or "KW_ONLY" in kind for kind in map(str, _types(cls)))
    )


def _types(cls: type) -> Collection[object]:
    return get_annotations(cls).values()


def _initializer(
    cls: type, own: tuple[Field[Any], ...], *, has_slots: bool, is_frozen: bool
) -> Callable[..., None]:
    """The one method that is compiled at once: it has the parameters of the class."""
    given: dict[str, Any] = {"_set": object.__setattr__}
    put = "_set(self, '{0}', {1})" if is_frozen else "self.{0} = {1}"
    if has_slots and is_frozen:
        # A slot sets its value by itself, faster than `object.__setattr__` finds the slot.
        given = {f"_set_{each.name}": getattr(cls, each.name).__set__ for each in own}
        put = "_set_{0}(self, {1})"
    parameters, lines = ["self"], []
    for each in own:
        name, value = each.name, each.name
        if each.default is not MISSING:
            given[f"_default_{name}"] = each.default
            parameters.append(f"{name}=_default_{name}")
        elif each.default_factory is not MISSING:
            given[f"_make_{name}"], given["_missing"] = each.default_factory, _missing
            parameters.append(f"{name}=_missing")
            value = f"_make_{name}() if {name} is _missing else {name}"
        else:
            parameters.append(name)
        lines.append(f"  {put.format(name, value)}")
    if hasattr(cls, "__post_init__"):
        lines.append("  self.__post_init__()")
    source = (
        f"def _made({', '.join(given)}):\n"
        f" def __init__({', '.join(parameters)}):\n"
        + "\n".join(lines or ["  pass"])
        + "\n return __init__"
    )
    found: dict[str, Any] = {}
    exec(source, sys.modules[cls.__module__].__dict__, found)
    init: Callable[..., None] = found["_made"](**given)
    init.__qualname__ = f"{cls.__qualname__}.__init__"
    init.__annotations__ = {**{each.name: each.type for each in own}, "return": None}
    return init


class _Missing:
    def __repr__(self) -> str:
        return "<factory>"  # as `dataclasses` shows such a default in signatures


_missing: Final = _Missing()


def _add_equality(cls: Any, names: list[str]) -> None:  # noqa: ANN401
    def __eq__(self: object, other: object) -> bool:
        both = f"{_tuple('self', names)} == {_tuple('other', names)}"
        same = f"{both} if other.__class__ is self.__class__ else NotImplemented"
        cls.__eq__ = eval(f"lambda self, other: {same}", {})
        equal: bool = cls.__eq__(self, other)
        return equal

    cls.__eq__ = __eq__


def _add_hash(cls: Any, names: list[str]) -> None:  # noqa: ANN401
    def __hash__(self: object) -> int:
        cls.__hash__ = eval(f"lambda self: hash({_tuple('self', names)})", {})
        return hash(self)

    cls.__hash__ = __hash__


def _tuple(owner: str, names: list[str]) -> str:
    return f"({''.join(f'{owner}.{name}, ' for name in names)})"


@recursive_repr()
def _repr(self: Any) -> str:  # noqa: ANN401
    shown = (f"{each.name}={getattr(self, each.name)!r}" for each in fields(self) if each.repr)
    return f"{self.__class__.__qualname__}({', '.join(shown)})"


def _refuse_to_set(self: object, name: str, value: object) -> None:
    raise FrozenInstanceError(f"cannot assign to field {name!r}")


def _refuse_to_delete(self: object, name: str) -> None:
    raise FrozenInstanceError(f"cannot delete field {name!r}")


def _state(self: Any) -> list[Any]:  # noqa: ANN401
    return [getattr(self, each.name) for each in fields(self)]


def _set_state(self: Any, state: list[Any]) -> None:  # noqa: ANN401
    for each, value in zip(fields(self), state, strict=False):
        object.__setattr__(self, each.name, value)
