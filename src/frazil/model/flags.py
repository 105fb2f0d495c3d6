"""Feature flags of a v2 repository."""

from __future__ import annotations

from collections.abc import Set
from typing import Final

MOVE_NODE: Final = 3
CREATE_TAG: Final = 4
DELETE_TAG: Final = 5

FLAGS: Final = {MOVE_NODE: "move_node", CREATE_TAG: "create_tag", DELETE_TAG: "delete_tag"}
"""Known flags by id; all are on by default."""


def is_enabled(flag: int, enabled: Set[int] | None, disabled: Set[int] | None) -> bool:
    """Whether a flag is in force, given what was set on and off."""
    return flag in (enabled or ()) or flag not in (disabled or ())
