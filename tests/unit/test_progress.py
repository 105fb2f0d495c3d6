"""How far a piece of work is."""

from __future__ import annotations

from frazil.progress import Progress, silent


def test_steps_add_up_and_leave_the_record_before_alone() -> None:
    begun = Progress("copy", total=5)
    later = begun.plus().plus(2, chunks=3, nbytes=40)
    assert later == Progress("copy", 3, 5, 3, 40)
    assert begun == Progress("copy", total=5)
    silent(later)
