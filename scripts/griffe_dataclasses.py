"""For the API reference: read `frazil.records.dataclass` as the `dataclass` that it stands for.

griffe, which reads the source without running it, knows only that of `dataclasses`; without this
the pages would not show the parameters of records.
"""

from __future__ import annotations

from typing import Any

from griffe import Alias, Extension

OURS, STANDARD = "frazil.records.dataclass", "dataclasses.dataclass"


class Dataclasses(Extension):
    """Lets every import of our decorator lead to the standard one."""

    def on_alias_instance(self, *, alias: Alias, **_: Any) -> None:  # noqa: ANN401
        """Called for each imported name."""
        if alias.target_path == OURS:
            alias.target_path = STANDARD
