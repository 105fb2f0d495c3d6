"""Histories with parts cut out, as pure rules."""

from __future__ import annotations

from dataclasses import replace

import pytest

from frazil.errors import FormatError
from frazil.formats.repo_info import snapshot_table
from frazil.ids import INITIAL_SNAPSHOT_ID, SnapshotId
from frazil.maintenance.expire import Expiration, plan_expiration
from frazil.maintenance.lineage import drop_snapshots, ids_where, mask_of, pruned_logs, reachable
from frazil.model.history import (
    RepoAvailability,
    RepoInfo,
    SnapshotEntry,
    SnapshotTable,
    StoredStatus,
    UpdateLog,
    UpdateType,
)
from tests.support.effort import at_most


def named(name: str) -> SnapshotId:
    """The snapshot with this name."""
    return INITIAL_SNAPSHOT_ID if name == "ROOT" else SnapshotId(name.encode().ljust(12, b"."))


def name_of(snapshot_id: SnapshotId) -> str:
    """The name of a snapshot."""
    if snapshot_id == INITIAL_SNAPSHOT_ID:
        return "ROOT"
    return bytes(snapshot_id).rstrip(b".").decode()


def history(*lines: str) -> RepoInfo:
    """A repository from lines like `ROOT-s1-s2`; times follow the order of appearance."""
    entries: dict[str, SnapshotEntry] = {}
    for line in lines:
        before: SnapshotId | None = None
        for name in line.split("-"):
            if name not in entries:
                entries[name] = SnapshotEntry(named(name), before, len(entries), name, {})
            before = named(name)
    return RepoInfo(
        spec_version=2,
        tags={},
        branches={},
        deleted_tags=frozenset(),
        snapshots=snapshot_table(entries.values()),
        status=StoredStatus(RepoAvailability.online, 0),
        metadata={},
        latest_updates=UpdateLog.of([]),
    )


def with_refs(info: RepoInfo, branches: str, tags: str = "") -> RepoInfo:
    """The repository with refs from text like `main=s5 dev=d2`."""

    def parsed(text: str) -> dict[str, SnapshotId]:
        return {name: named(to) for name, to in (ref.split("=") for ref in text.split())}

    return replace(info, branches=parsed(branches), tags=parsed(tags))


def links(table: SnapshotTable) -> dict[str, tuple[str | None, list[str]]]:
    """Parent and pruned ancestors of every snapshot."""
    return {
        name_of(entry.id): (
            None if entry.parent_id is None else name_of(entry.parent_id),
            [name_of(one) for one in entry.pruned_ancestor_tx_logs],
        )
        for entry in table.values()
    }


# The times of s1..s3, d1 are 1..4, those of the rest 5 and more.
FORKED = with_refs(
    history("ROOT-s1-s2-s3-d1", "ROOT-s1-s2-s3-s4-s5", "d1-d2"),
    "main=s5 dev=d2 old=s2",
    "t2=s2",
)


def expire(info: RepoInfo, cutoff: int, **options: bool) -> tuple[Expiration, RepoInfo]:
    plan = plan_expiration(
        info, cutoff, branches=options.get("branches", False), tags=options.get("tags", False)
    )
    return plan, replace(info, **plan.edit.fields)


def test_expiry_keeps_what_refs_point_to_and_adopts_the_rest_to_the_root() -> None:
    plan, after = expire(FORKED, 5)
    assert {name_of(one) for one in plan.released} == {"s1", "s3", "d1"}
    assert links(after.snapshots) == {
        "ROOT": (None, []),
        "s2": ("ROOT", ["s1"]),
        "s4": ("ROOT", ["s1", "s2", "s3"]),
        "s5": ("s4", []),
        "d2": ("ROOT", ["s1", "s2", "s3", "d1"]),
    }
    assert (after.branches, after.tags) == (FORKED.branches, FORKED.tags)
    assert plan.edit.kind == UpdateType.ExpirationRan()


def test_expired_refs_are_deleted_when_asked_for() -> None:
    plan, after = expire(FORKED, 5, branches=True, tags=True)
    assert {name_of(one) for one in plan.released} == {"s1", "s2", "s3", "d1"}
    assert set(after.branches) == {"main", "dev"}
    assert after.tags == {}
    assert after.deleted_tags == {"t2"}
    assert links(after.snapshots)["s4"] == ("ROOT", ["s1", "s2", "s3"])


def test_an_expired_ref_goes_even_if_another_one_protects_its_snapshot() -> None:
    plan, after = expire(FORKED, 5, tags=True)
    assert named("s2") not in plan.released
    assert after.deleted_tags == {"t2"}
    assert "old" in after.branches


def test_the_tip_of_main_and_the_root_always_stay() -> None:
    info = with_refs(history("ROOT-s1-s2"), "main=s2 other=s2 first=ROOT", "zero=ROOT")
    plan, after = expire(info, 100, branches=True, tags=True)
    assert {name_of(one) for one in plan.released} == {"s1"}
    assert set(after.branches) == {"main", "first"}
    assert set(after.tags) == {"zero"}


def test_logs_taken_over_before_are_taken_over_again() -> None:
    info = with_refs(history("ROOT-s1-s2-s3-s4-s5"), "main=s5")
    _, once = expire(info, 3)  # s3 now follows the root
    assert links(once.snapshots)["s3"] == ("ROOT", ["s1", "s2"])
    plan, twice = expire(once, 5)
    assert {name_of(one) for one in plan.released} == {"s3", "s4"}
    assert links(twice.snapshots)["s5"] == ("ROOT", ["s1", "s2", "s3", "s4"])


def test_expiry_of_nothing_changes_nothing() -> None:
    plan, after = expire(FORKED, 0)
    assert not plan.released
    assert links(after.snapshots) == links(FORKED.snapshots)


def test_ten_thousand_snapshots_expire_quickly() -> None:
    line = "-".join(["ROOT", *(f"{n:x}" for n in range(10_000))])
    info = with_refs(history(line), f"main={9_999:x}", f"half={5_000:x}")
    with at_most(2_000_000):
        plan, after = expire(info, 9_000)
    assert len(plan.released) + len(after.snapshots) == 10_001
    assert len(links(after.snapshots)[f"{8_999:x}"][1]) == 8_999


def test_reachable_is_all_that_tips_descend_from() -> None:
    table = FORKED.snapshots
    found = ids_where(table, reachable(table, [named("d1"), named("s1")]))
    assert {name_of(one) for one in found} == {"ROOT", "s1", "s2", "s3", "d1"}


@pytest.mark.parametrize(
    ("gone", "expected"),
    [("s2", ("s1", ["s2"])), ("s2 s1", ("ROOT", ["s1", "s2"])), ("s2 s1 ROOT", (None, []))],
)
def test_the_nearest_ancestor_adopts(gone: str, expected: tuple[str | None, list[str]]) -> None:
    table = history("ROOT-s1-s2-s3").snapshots
    after = drop_snapshots(table, mask_of(table, map(named, gone.split())), to_root=False)
    pruned = expected[1] if expected[0] else ["ROOT", "s1", "s2"]
    assert links(after)["s3"] == (expected[0], pruned)
    assert [name_of(one) for one in pruned_logs(after)] == pruned


def test_the_initial_snapshot_adopts_when_no_ancestor_stays() -> None:
    table = history("ROOT-s1", "other-o1-o2").snapshots
    after = drop_snapshots(table, mask_of(table, [named("other"), named("o1")]), to_root=False)
    assert links(after)["o2"] == ("ROOT", ["other", "o1"])


def test_a_history_in_a_circle_is_damage() -> None:
    table = history("ROOT-s1-s2-s3").snapshots
    table = table.reparent({named("s1"): (named("s2"), [])})
    with pytest.raises(FormatError):
        drop_snapshots(table, mask_of(table, [named("s2")]), to_root=True)
