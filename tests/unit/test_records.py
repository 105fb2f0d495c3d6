"""Records made here are those that `dataclasses` makes."""

from __future__ import annotations

import copy
import dataclasses
import functools
import inspect
import pickle
import typing
from collections.abc import Callable
from dataclasses import FrozenInstanceError, dataclass, field, fields, replace

import pytest

from frazil import records

NAN = float("nan")
Maker = Callable[..., typing.Any]


class Named:
    """A base without fields."""

    __slots__ = ()

    @property
    def shown(self) -> str:
        return repr(self)


class Positive:
    """A base that looks at values before they are set."""

    def __setattr__(self, name: str, value: object) -> None:
        if not isinstance(value, int) or value < 1:
            raise ValueError(f"{name} is not positive")
        super().__setattr__(name, value)


def made_by(make: Maker) -> dict[str, type]:
    """The same classes, made by one of the two."""

    @make(frozen=True, slots=True)
    class Several(Named):
        """What it is."""

        name: str
        size: int = 3
        parts: list[int] = field(default_factory=list, repr=False)
        note: str | None = field(default=None, compare=False)
        seed: int = field(default=1, hash=False)
        known: typing.ClassVar[int] = 7

        def doubled(self) -> int:
            return 2 * self.size

    @make(frozen=True, slots=True)
    class One:
        """A number."""

        value: float

    @make(frozen=True, slots=True)
    class Nothing:
        """No fields."""

    @make(frozen=True, slots=True, eq=False)
    class ByIdentity:
        """Equal to itself only."""

        value: int = 0

    @make(frozen=True, slots=True, repr=False)
    class Checked:
        """Not negative."""

        value: int

        def __post_init__(self) -> None:
            if self.value < 0:
                raise ValueError(f"negative: {self.value}")

        def __repr__(self) -> str:
            return f"<{self.value}>"

    @make(frozen=True, slots=True)
    class Hashed:
        """With a hash of its own."""

        value: object

        def __hash__(self) -> int:
            return 5

    @make(frozen=True, slots=True)
    class Odd:
        """Some fields are given by name only, or not at all."""

        value: int
        named: int = field(default=2, kw_only=True)
        made: list[int] = field(default_factory=list, init=False)

    @make(frozen=True, slots=True)
    class OnlyByName:
        """All fields after the mark are given by name."""

        value: int
        _: dataclasses.KW_ONLY
        named: int = 2

    @make(frozen=True, slots=True)
    class Given:
        """A parameter that is no field."""

        value: int
        twice: dataclasses.InitVar[bool] = False  # type: ignore[assignment]

        def __post_init__(self, twice: bool) -> None:
            object.__setattr__(self, "value", self.value * (1 + twice))

    @make(frozen=True, slots=True)
    class WithoutText:
        value: int

    @make(frozen=True, slots=True)
    class Child(One):
        """With the field of another record."""

        unit: str = "m"

    @make(frozen=True, slots=True, order=True)
    class Ordered:
        """With an order."""

        value: int

    @make(slots=True)
    class Changing:
        """Not frozen."""

        value: int
        parts: list[int] = field(default_factory=list)

    @make(frozen=True)
    class WithoutSlots:
        """Frozen, with room for what is computed later."""

        value: int
        unit: str = "m"

        @functools.cached_property
        def twice(self) -> int:
            return 2 * self.value

    @make(repr=False)
    class Setting(Positive):
        """Every value is looked at before it is set."""

        value: int

    return {k: v for k, v in locals().items() if isinstance(v, type)}


OURS, STANDARD = made_by(records.dataclass), made_by(dataclass)
for _name, _class in OURS.items():  # pickle finds classes by their names
    _class.__qualname__ = _name
    globals()[_name] = _class
for _name, _class in STANDARD.items():
    _class.__qualname__ = _name


@pytest.mark.parametrize("name", OURS)
def test_a_class_tells_the_same_of_itself(name: str) -> None:
    ours, standard = OURS[name], STANDARD[name]
    assert dataclasses.is_dataclass(ours)
    assert str(inspect.signature(ours)) == str(inspect.signature(standard))
    assert [repr(each) for each in fields(ours)] == [repr(each) for each in fields(standard)]
    assert repr(ours.__dataclass_params__) == repr(standard.__dataclass_params__)  # type: ignore[attr-defined]
    assert ours.__match_args__ == standard.__match_args__  # type: ignore[attr-defined]
    assert getattr(ours, "__slots__", None) == getattr(standard, "__slots__", None)
    assert ours.__doc__ == standard.__doc__
    assert repr(typing.get_type_hints(ours)) == repr(typing.get_type_hints(standard))
    hints, expected = (typing.get_type_hints(vars(each)["__init__"]) for each in (ours, standard))
    assert repr(hints) == repr(expected)


def test_values_are_taken_defaulted_and_shown() -> None:
    ours, standard = OURS["Several"]("x"), STANDARD["Several"]("x")
    assert (
        repr(ours) == repr(standard) == ours.shown == "Several(name='x', size=3, note=None, seed=1)"
    )
    assert ours.parts == []
    assert ours.parts is not OURS["Several"]("x").parts
    assert OURS["Several"]("x", 4, note="n").doubled() == 8
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'name'"):
        OURS["Several"]()
    with pytest.raises(ValueError, match="negative: -1"):
        OURS["Checked"](-1)
    assert repr(OURS["Checked"](2)) == "<2>"
    assert repr(OURS["Nothing"]()) == "Nothing()"


@pytest.mark.parametrize("classes", [OURS, STANDARD], ids=["ours", "standard"])
def test_equality_and_hash(classes: dict[str, type]) -> None:
    several, one = classes["Several"], classes["One"]
    assert several("x", parts=[]) == several("x", note="not compared")
    assert several("x") != several("y")
    assert several("x", seed=1) != several("x", seed=2)
    assert one(1.0) == one(1)
    assert hash(one(1.0)) == hash(one(1))
    assert one(NAN) == one(NAN)  # as in tuples, the same object is equal to itself
    assert one(1.0) != classes["Child"](1.0)
    assert one(1.0) != 1.0
    assert one(1.0).__eq__(1.0) is NotImplemented
    assert classes["Nothing"]() == classes["Nothing"]()
    assert len({one(1.0), one(1.0), one(2.0)}) == 2
    with pytest.raises(TypeError, match="unhashable type: 'list'"):
        hash(several("x"))
    kept = classes["ByIdentity"]()
    assert kept != classes["ByIdentity"]()
    assert {kept: 1}[kept] == 1
    assert hash(classes["Hashed"]([])) == 5
    assert classes["Hashed"]([1]) == classes["Hashed"]([1])
    assert classes["Ordered"](1) < classes["Ordered"](2)


@pytest.mark.parametrize("name", ["Several", "One", "Child", "WithoutSlots"])
def test_nothing_can_be_changed(name: str) -> None:
    value = OURS[name](1)
    attribute = fields(value)[0].name
    with pytest.raises(FrozenInstanceError, match=f"cannot assign to field '{attribute}'"):
        setattr(value, attribute, 2)
    with pytest.raises(FrozenInstanceError, match=f"cannot delete field '{attribute}'"):
        delattr(value, attribute)
    with pytest.raises((FrozenInstanceError, TypeError)):
        value.unknown = 1
    assert getattr(value, attribute) == 1


@pytest.mark.parametrize("name", sorted(OURS.keys() - {"ByIdentity", "Given"}))
def test_copies_are_equal(name: str) -> None:
    value = OURS[name](*([1] if fields(OURS[name]) else []))
    for protocol in (2, pickle.HIGHEST_PROTOCOL):
        again = pickle.loads(pickle.dumps(value, protocol))
        assert again == value
        assert type(again) is type(value)
    assert copy.copy(value) == copy.deepcopy(value) == replace(value) == value


@pytest.mark.parametrize("classes", [OURS, STANDARD], ids=["ours", "standard"])
def test_records_that_can_be_changed(classes: dict[str, type]) -> None:
    value = classes["Changing"](1)
    value.value, value.parts = 2, [3]
    assert value == classes["Changing"](2, [3])
    with pytest.raises(TypeError, match="unhashable type: 'Changing'"):
        hash(value)
    with pytest.raises(ValueError, match="value is not positive"):
        classes["Setting"](0)
    assert classes["WithoutSlots"](4).twice == 8
    assert hash(classes["WithoutSlots"](4)) == hash(classes["WithoutSlots"](4))


def test_a_changed_copy_and_a_match() -> None:
    value = replace(OURS["Several"]("x"), size=9)
    match value:
        case Several(name, size):  # type: ignore[name-defined]  # noqa: F821
            assert (name, size) == ("x", 9)
        case _:
            raise AssertionError(value)


def test_a_record_that_holds_itself_can_be_shown() -> None:
    held: list[object] = []
    value = OURS["One"](held)
    held.append(value)
    assert repr(value) == "One(value=[...])"


def test_unusual_fields_are_as_dataclasses_makes_them() -> None:
    assert OURS["Odd"](1, named=5).made == []
    assert OURS["OnlyByName"](1, named=3).named == 3
    assert OURS["Given"](4, twice=True).value == 8
