"""Which snapshots are checked, how they follow each other, and what is asked of each commit."""

from __future__ import annotations

from dataclasses import replace

import pytest

from frazil.errors import RefNotFoundError
from frazil.formats.txlog import encode_log
from frazil.fsck.findings import Code
from frazil.fsck.history import (
    CheckedHistory,
    SnapshotNode,
    check_commit,
    check_history,
    circle_in,
    file_history,
    listed_history,
    lone_history,
)
from frazil.ids import SnapshotId
from frazil.model.history import TransactionLog
from frazil.model.marks import CARRIED
from frazil.storage.assets import log_key, snapshot_key
from tests.unit.fsck.repairs import v1, v2
from tests.unit.fsck.samples import Sick, files_of

A, B, C, D = (SnapshotId(bytes([number]) * 12) for number in range(1, 5))


def line(**fields: object) -> CheckedHistory:
    """A, then B, then C; D follows A too."""
    made = CheckedHistory(
        2,
        {"branch main": C, "tag v1": B, "branch dev": D},
        {A: None, B: A, C: B, D: A},
        times={A: 1, B: 2, C: 3, D: 4},
    )
    return replace(made, **fields)  # type: ignore[arg-type]


def told(history: CheckedHistory, *wanted: SnapshotId) -> list[tuple[Code, str]]:
    return [(each.code, each.target) for each in check_history(history, wanted)]


# --- which ones ---


def test_tips_lead_to_their_ancestors_and_end_in_a_circle() -> None:
    assert line().reached([C]) == {A, B, C}
    assert line().reached([B, D]) == {A, B, D}
    unknown = SnapshotId.random()
    assert line().reached([unknown]) == {unknown}
    assert line(parents={A: C, B: A, C: B}).reached([B]) == {A, B, C}


def test_snapshots_are_chosen_by_branch_tag_or_id() -> None:
    assert line().chosen(["main", "v1", str(D)]) == [C, B, D]
    for name in ("nope", str(SnapshotId.random()), "branch main"):
        with pytest.raises(RefNotFoundError, match=name):
            line().chosen([name])


def test_a_branch_comes_before_a_tag_of_the_same_name() -> None:
    assert line(refs={"tag x": A, "branch x": B}).chosen(["x"]) == [B]


def test_parents_are_checked_before_their_children() -> None:
    links = line().links([D, C, B, A])
    assert [link.id for link in links] == [A, B, C, D]
    root, second, *_ = links
    assert (root.is_root, root.has_log, root.parent) == (True, False, None)
    assert (second.is_root, second.has_log, second.parent_is_root) == (False, True, True)


def test_what_is_not_known_is_needed_and_need_not_have_logs() -> None:
    known, lost = (line(refs={"branch main": B}, is_known=is_known) for is_known in (True, False))
    assert [link.is_needed for link in known.links([B, C])] == [True, False]
    assert [link.is_needed for link in lost.links([B, C])] == [True, True]
    assert not any(link.has_log or link.is_root for link in lost.links([A, B, C]))


@v1
def test_files_tell_the_history_of_refs(sick: Sick) -> None:
    second = sick.find("second")
    history = file_history(files_of(sick.storage, 1), {"main": sick.tip}, {"v1": second})
    assert history.refs == {"branch main": sick.tip, "tag v1": second}
    assert history.reached([sick.tip]) == {*sick.history}
    assert history.times[sick.tip] == sick.snapshot().flushed_at


@v2
def test_a_repo_object_lists_the_history(sick: Sick) -> None:
    history = listed_history(sick.info())
    assert history.refs.keys() == {"branch main", "branch dev", "tag v1"}
    assert history.reached([sick.tip]) == {*sick.history}
    assert history.entries[sick.tip].message == "last"


def test_unreadable_files_count_only_where_refs_are_lost(sick: Sick) -> None:
    sick.storage.put(snapshot_key(A), b"garbage")
    sick.storage.put("snapshots/notes.txt", b"hello")
    for is_known in (True, False):
        history = file_history(files_of(sick.storage, sick.spec), {}, {}, is_known=is_known)
        assert (A in history.parents) == (not is_known)
        assert len(history.parents) == len(sick.history) + 1 + (not is_known)


def test_lone_snapshots_have_no_history() -> None:
    history = lone_history([B, C])
    assert history.reached(history.refs.values()) == {B, C}
    assert not any(link.has_log for link in history.links([B, C]))


# --- how they follow each other ---


def test_a_line_in_order_has_no_findings() -> None:
    assert told(line(), A, B, C, D) == []


def test_a_snapshot_as_old_as_its_parent_is_told_if_it_is_wanted() -> None:
    late = line(times={A: 1, B: 3, C: 3, D: 4})
    assert told(late, A, B, C) == [(Code.SNAPSHOT_TIME, snapshot_key(C))]
    assert told(late, A, B, D) == []
    assert told(line(times={B: 3, C: 4}), A, B, C) == []  # of A nothing is known


def test_a_circle_is_told_once() -> None:
    circle = line(parents={A: C, B: A, C: B, D: A}, times={})
    assert told(circle, A, B, C, D) == [(Code.HISTORY_CIRCLE, snapshot_key(A))]
    assert circle_in(circle.parents, [D]) == [A, C, B]  # without what only leads into it
    assert circle_in(line().parents, [A, B, C, D]) == []


def test_histories_that_begin_twice_are_told_where_refs_are_known() -> None:
    twice = line(parents={A: None, B: A, C: B, D: None})
    [finding] = check_history(twice, [A, B, C, D])
    assert (finding.code, finding.references) == (Code.HISTORY_ROOTS, 2)
    assert finding.detail == f"{A}, {D}"
    assert told(replace(twice, is_known=False), A, B, C, D) == []
    assert told(twice, A, B, C) == []


# --- one commit ---


def link_of(sick: Sick, one: SnapshotId, **fields: object) -> SnapshotNode:
    """The newest commit of main as a history has it."""
    at = sick.history.index(one)
    parent = sick.history[at + 1] if at + 1 < len(sick.history) else None
    made = SnapshotNode(one, parent, parent is None, is_needed=True, has_log=parent is not None)
    return replace(made, **fields)  # type: ignore[arg-type]


def found(sick: Sick, link: SnapshotNode, *, whole: bool = True) -> list[Code]:
    checked = check_commit(files_of(sick.storage, sick.spec), link, whole=whole)
    return [each.code for each in checked.findings]


def test_a_missing_snapshot_is_an_error_if_a_ref_needs_it(sick: Sick) -> None:
    link = link_of(sick, sick.tip)
    assert found(sick, link) == []
    sick.delete(snapshot_key(link.id))
    assert found(sick, link) == [Code.SNAPSHOT_MISSING]
    assert found(sick, replace(link, is_needed=False)) == [Code.SNAPSHOT_GONE]


def test_of_a_log_nothing_is_asked_unless_all_is_checked(sick: Sick) -> None:
    link = link_of(sick, sick.tip)
    sick.delete(log_key(link.id))
    assert found(sick, link) == [Code.LOG_MISSING]
    assert found(sick, link, whole=False) == []
    assert found(sick, replace(link, has_log=False)) == []


def test_the_log_of_a_first_snapshot_is_empty(sick: Sick) -> None:
    link = link_of(sick, sick.history[-1])
    assert found(sick, link) == []
    log = TransactionLog(link.id, new_groups=(sick.node("/a").id,))
    sick.storage.put(log_key(link.id), encode_log(log, spec=sick.spec))
    assert found(sick, link) == [Code.LOG_ROOT]


@v2
def test_an_entry_says_the_same_as_the_file_but_for_marks(sick: Sick) -> None:
    entry = sick.snapshot().entry(sick.history[1])
    link = link_of(sick, sick.tip)
    marked = {**entry.metadata, CARRIED: {"txn": [["stream", 3]]}}
    assert found(sick, replace(link, entry=replace(entry, metadata=marked))) == []
    for other in (
        replace(entry, message="another"),
        replace(entry, flushed_at=entry.flushed_at + 1),
        replace(entry, metadata={}),
    ):
        assert found(sick, replace(link, entry=other)) == [Code.SNAPSHOT_ENTRY]


@v2
def test_logs_of_ancestors_that_were_cut_out_count(sick: Sick) -> None:
    third, second, first = map(sick.find, ("third", "second", "first"))
    link = link_of(sick, third, parent=first)
    assert set(found(sick, link)) == {Code.LOG_CHUNKS, Code.LOG_UPDATED}
    taken = replace(link, pruned=(second,))
    assert found(sick, taken) == []
    sick.delete(log_key(second))
    assert found(sick, taken) == [Code.LOG_PRUNED_MISSING]
