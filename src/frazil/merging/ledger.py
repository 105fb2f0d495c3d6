"""The conflicts of one merge, and what was decided about each."""

from __future__ import annotations

from collections.abc import Iterable

from frazil.merging.policies import Decide
from frazil.merging.records import ConflictKind, Contested, MergeConflict, Outcome


class Ledger:
    """Asks for decisions and keeps them; without anybody to ask, what clashes is contested."""

    def __init__(self, decide: Decide | None) -> None:
        self._decide = decide
        self.conflicts: list[MergeConflict] = []
        self.contested: set[int] = set()
        """nodes, by number, of which a base cannot say what is in them"""
        self.displaced: set[int] = set()
        """those of which it cannot say where they are"""

    def settle(self, conflict: MergeConflict, numbers: Iterable[int] = ()) -> Outcome:
        """Decide a conflict; `numbers` are of the nodes that it is about as a whole."""
        if self._decide is None:
            is_moved = conflict.kind == ConflictKind.MOVED
            (self.displaced if is_moved else self.contested).update(numbers)
            return Contested()
        side = self._decide(conflict)
        self.conflicts.append(conflict.resolved(side))
        return side

    def leave(self, conflict: MergeConflict) -> None:
        """Record a conflict that nobody can decide."""
        self.conflicts.append(conflict)
