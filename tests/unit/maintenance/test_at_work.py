"""Kinds of work that exclude each other, and how long a note keeps others away."""

from __future__ import annotations

import os
from itertools import product
from pathlib import Path

import pytest

from frazil.errors import ConflictError
from frazil.maintenance import at_work as notes
from frazil.maintenance.at_work import AT_WORK, TrashWork, at_work
from frazil.storage.local import LocalStorage
from frazil.storage.memory import MemoryStorage
from tests.unit.maintenance.samples import keys

HOUR = 3600


def age(place: LocalStorage, hours: int) -> None:
    """Let all notes look older."""
    for key in keys(place, AT_WORK):
        path = Path(place.path, key)
        os.utime(path, (path.stat().st_mtime - hours * HOUR,) * 2)


@pytest.mark.parametrize(("first", "second"), [*product(TrashWork, TrashWork)])
def test_only_work_of_one_kind_goes_together(first: TrashWork, second: TrashWork) -> None:
    place = MemoryStorage()
    with at_work(place, first):
        if first is second:
            with at_work(place, second):
                assert len(keys(place, AT_WORK)) == 2
        else:
            with pytest.raises(ConflictError, match=str(first)), at_work(place, second):
                pass
        assert len(keys(place, AT_WORK)) == 1, "who was refused leaves no note"
    assert keys(place) == set()


def test_work_that_fails_leaves_no_note() -> None:
    place = MemoryStorage()
    with pytest.raises(RuntimeError), at_work(place, TrashWork.ERASING):
        raise RuntimeError
    assert keys(place) == set()


@pytest.mark.parametrize(("hours", "counts"), [(23, True), (25, False)])
def test_the_note_of_dead_work_counts_for_a_day(tmp_path: Path, hours: int, counts: bool) -> None:
    place = LocalStorage(tmp_path)
    place.put(f"{TrashWork.MOVING.folder}dead", b"")
    age(place, hours)
    if counts:
        with pytest.raises(ConflictError, match="dead"), at_work(place, TrashWork.ERASING):
            pass
    else:
        with at_work(place, TrashWork.ERASING):
            pass


class TestHolding:
    @pytest.fixture(autouse=True)
    def at_once(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Every note is due for renewal, and no thread renews it."""
        monkeypatch.setattr(notes, "RENEWED_AFTER_S", 0.0)
        monkeypatch.setattr(notes.WorkNote, "keep", lambda *_: None)

    def test_a_note_is_young_again(self, tmp_path: Path) -> None:
        place = LocalStorage(tmp_path)
        with at_work(place, TrashWork.ERASING) as note:
            for _ in range(3):
                age(place, 20)
                note.hold()
            with pytest.raises(ConflictError), at_work(place, TrashWork.MOVING):
                pass

    def test_work_that_stood_still_for_a_day_ends(self, tmp_path: Path) -> None:
        place = LocalStorage(tmp_path)
        with at_work(place, TrashWork.ERASING) as note:
            age(place, 25)
            with pytest.raises(ConflictError, match="stood still for a day"):
                note.hold()
            with pytest.raises(ConflictError):  # though the note is young now
                note.hold()

    def test_work_whose_note_was_deleted_ends(self) -> None:
        place = MemoryStorage()
        with at_work(place, TrashWork.ERASING) as note:
            place.delete_many([note.key])
            with pytest.raises(ConflictError):
                note.hold()
            assert keys(place) == set(), "it does not come back"


def test_a_young_note_costs_no_request() -> None:
    place = MemoryStorage()
    with at_work(place, TrashWork.ERASING) as note:
        place.delete_many([note.key])
        note.hold()
        assert keys(place) == set(), "it neither looks nor writes"
