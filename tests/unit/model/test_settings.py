"""Records of settings: checked when they are set, unset until then, merged key by key."""

from __future__ import annotations

import pytest

from frazil.model.settings import (
    SettingsRecord,
    always_set,
    boolean,
    instance,
    record,
    required,
    setting,
    string,
    u8,
)


@record
class Inner(SettingsRecord):
    level: int | None = setting(u8, 3)
    name: str | None = setting(string)


@record
class Outer(SettingsRecord):
    url: str = required(string)
    inner: Inner | None = setting(instance(Inner), Inner)
    whole: Inner | None = setting(instance(Inner), replace=True)
    flag: bool = always_set(boolean, False)


def test_values_are_checked_whenever_they_are_set() -> None:
    made = Inner(7)
    for wrong, error in ((256, OverflowError), (-1, OverflowError), ("7", TypeError)):
        with pytest.raises(error, match="level"):
            made.level = wrong  # type: ignore[assignment]
    assert made.level == 7
    made.level = None
    with pytest.raises(TypeError, match="flag"):
        Outer("u").flag = None  # type: ignore[assignment]
    with pytest.raises(AttributeError, match="no attribute 'levle'"):
        made.levle = 1  # type: ignore[attr-defined]


def test_unset_settings_have_a_default_that_counts() -> None:
    made = Outer("u")
    assert made.inner is None
    assert made.effective("inner") == Inner()
    assert Inner().effective("level") == 3
    assert Inner(0).effective("level") == 0


def test_merging_takes_what_the_other_sets() -> None:
    mine = Outer("a", Inner(1, "mine"), Inner(1, "mine"))
    merged = mine.merge(Outer("b", Inner(2), Inner(2)))
    assert merged == Outer("b", Inner(2, "mine"), Inner(2))
    assert mine == Outer("a", Inner(1, "mine"), Inner(1, "mine"))
    assert mine.merge(Outer("a")).inner is not mine.inner
