"""Two changes of one configuration put together, setting by setting."""

from __future__ import annotations

from collections.abc import Mapping

from frazil.errors import ConflictError, ErrorKind
from frazil.model.history import JSON


def merged_config(
    base: Mapping[str, JSON], ours: Mapping[str, JSON], theirs: Mapping[str, JSON]
) -> dict[str, JSON]:
    """What is stored with our changes of it; all are plain maps, and unset is the same as None.

    Raises:
        ConflictError: both sides gave a setting different values.
    """
    return _merged_map(base, ours, theirs, "")


def _merged_map(
    base: Mapping[str, JSON], ours: Mapping[str, JSON], theirs: Mapping[str, JSON], where: str
) -> dict[str, JSON]:
    found: dict[str, JSON] = {}
    for name in {**theirs, **ours}:
        here = f"{where}.{name}" if where else name
        value = _merged(base.get(name), ours.get(name), theirs.get(name), here)
        if value is not None or (name in ours and name in theirs):
            found[name] = value
    return found


def _merged(base: JSON, ours: JSON, theirs: JSON, where: str) -> JSON:
    if ours in (base, theirs):
        return theirs
    if theirs == base:
        return ours
    if isinstance(ours, dict) and isinstance(theirs, dict):
        return _merged_map(base if isinstance(base, dict) else {}, ours, theirs, where)
    raise ConflictError(
        message=f"somebody else changed the setting {where!r} of the stored configuration "
        "meanwhile; open the repository again and decide which value it should have",
        kind=ErrorKind.CONFIG_UPDATED,
        setting=where,
    )
