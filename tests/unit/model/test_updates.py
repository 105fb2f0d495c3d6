"""Kinds of updates, and flags that are on unless they were set off."""

from __future__ import annotations

import pytest

from frazil.model.updates import (
    CREATE_TAG,
    DELETE_TAG,
    MOVE_NODE,
    UnknownUpdate,
    UpdateEntry,
    UpdateType,
    is_enabled,
)
from frazil.naming import OFFICIAL, shown_as


def test_updates_show_their_facts() -> None:
    kind = UpdateType.NewCommit(branch="main", new_snap_id="X")
    assert repr(kind) == 'frazil.UpdateType.NewCommit(branch="main", new_snap_id="X")'
    with pytest.raises(TypeError):
        UpdateType()


def test_names_are_those_of_the_package_that_shows_them() -> None:
    with shown_as(OFFICIAL):
        assert repr(UpdateType.TagCreated("t")) == f'{OFFICIAL}.ops.UpdateType.TagCreated(name="t")'
    assert repr(UpdateType.GCRan()) == "frazil.UpdateType.GCRan()"


def test_each_kind_is_an_update_and_none_is_another() -> None:
    for kind in (UpdateType.GCRan(), UpdateType.TagCreated("t"), UnknownUpdate(99)):
        assert isinstance(kind, UpdateType)
    assert not isinstance(UpdateType.TagCreated("t"), UpdateType.BranchCreated)
    assert not isinstance(UpdateEntry(UpdateType.GCRan(), 1), UpdateType)


@pytest.mark.parametrize(
    ("enabled", "disabled", "expected"),
    [
        (None, None, True),
        (frozenset(), frozenset(), True),
        (None, {MOVE_NODE}, False),
        ({CREATE_TAG}, {MOVE_NODE}, False),
        ({MOVE_NODE}, {MOVE_NODE}, True),
        (None, {CREATE_TAG, DELETE_TAG}, True),
    ],
)
def test_flags_are_on_unless_they_are_off(
    enabled: frozenset[int] | None, disabled: frozenset[int] | None, expected: bool
) -> None:
    assert is_enabled(MOVE_NODE, enabled, disabled) is expected
