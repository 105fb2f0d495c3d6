"""Expiry, garbage collection, manifest rewrites and upgrades give what the peers give.

Both parties do the same to copies of one repository; the copies must end up alike.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.peer.conftest import PEERS, Case, PartyOf
from tests.support.peer import Party, assert_same, official, ours, without_ids

pytestmark = pytest.mark.peer


def soon() -> str:
    """A moment after every file that exists now."""
    return (datetime.now(UTC) + timedelta(seconds=2)).isoformat()


def grow(case: Case) -> list[list[str]]:
    """Make the history ROOT-s0-...-s5 on main, a branch and a tag on the way; oldest first.

    A side branch leaves from s2, the tag `old` and the branch `still` stay at s1.
    """
    case.create()
    case.writer.call("new_array", case.repo, array="line", length=6)
    commits = [case.writer.call("history", case.repo)[0]]
    for number in range(5):
        party = (case.reader, case.writer)[number % 2]
        party.call(
            "put", case.repo, array="line", index=number, value=number + 1, message=f"s{number + 1}"
        )
        commits.append(case.writer.call("history", case.repo)[0])
        if number == 1:
            case.writer.call("branch", case.repo, name="side", snapshot=commits[2][0])
        if number == 2:
            party.call(
                "put", case.repo, array="line", index=5, value=9, message="side", branch="side"
            )
    case.reader.call("tag", case.repo, name="old", snapshot=commits[1][0])
    case.writer.call("branch", case.repo, name="still", snapshot=commits[1][0])
    return commits


def files(repo: Path) -> set[str]:
    """The objects of a repository, without backups, whose names are random."""
    return {
        str(path.relative_to(repo))
        for path in repo.rglob("*")
        if path.is_file() and "overwritten" not in path.parts and not path.name.startswith(".")
    }


def on_copies(
    case: Case, command: str, **arguments: object
) -> list[tuple[Any, dict[str, Any], Path]]:
    """Have each party do the same to its own copy; give result, description and place."""
    outcomes = []
    for name, party in (("by_writer", case.writer), ("by_reader", case.reader)):
        place = case.copy(name)
        result = party.call(command, place, **arguments)
        views = [p.call("describe", place, case.data) for p in (case.writer, case.reader)]
        assert_same(*views)
        outcomes.append((result, views[0], place))
    return outcomes


class TestExpiry:
    @pytest.mark.parametrize("drop_refs", [False, True])
    def test_same_snapshots_are_released(self, case: Case, drop_refs: bool) -> None:
        commits = grow(case)
        (released, view, _), (other, other_view, _) = on_copies(
            case, "expire", older_than=commits[4][2], tags=drop_refs, branches=drop_refs
        )
        assert released == other
        assert_same(without_ids(view), without_ids(other_view))
        assert len(view["history"]["branch main"]) == 3
        assert ("old" in view["tags"]) is not drop_refs

    def test_commits_and_rebases_go_on_after_expiry_by_the_other(self, case: Case) -> None:
        commits = grow(case)
        case.reader.call("begin", case.repo, number=21)
        case.reader.call("change", number=21, array="line", index=5, value=50)
        case.writer.call("put", case.repo, array="line", index=4, value=40, message="between")
        case.writer.call("expire", case.repo, older_than=commits[3][2])
        case.reader.call("finish", number=21, message="late", solver="detect")
        case.seen_alike()
        assert case.writer.call("values", case.repo, array="line") == [1, 2, 3, 4, 40, 50]


class TestGarbage:
    def test_same_files_are_collected(self, case: Case) -> None:
        commits = grow(case)
        case.writer.call("begin", case.repo, number=31)
        case.writer.call("change", number=31, array="line", index=0, value=77)
        case.writer.call("expire", case.repo, older_than=commits[4][2], tags=True, branches=True)
        cutoff = soon()
        dry = [
            party.call("collect", case.repo, older_than=cutoff, dry_run=True)
            for party in (case.writer, case.reader)
        ]
        assert dry[0] == dry[1]
        before = files(case.repo)
        (summary, view, place), (other, other_view, other_place) = on_copies(
            case, "collect", older_than=cutoff
        )
        assert summary == other == dry[0]
        assert summary["snapshots"] > 0
        assert_same(without_ids(view), without_ids(other_view))
        assert files(place) == files(other_place) < before

    def test_nothing_young_is_collected(self, case: Case) -> None:
        grow(case)
        case.writer.call("reset", case.repo, name="main", snapshot="1CECHNKREP0F1RSTCMT0")
        before = files(case.repo)
        yesterday = (datetime.now(UTC) - timedelta(days=1)).isoformat()
        for party in (case.writer, case.reader):
            assert party.call("collect", case.repo, older_than=yesterday)["snapshots"] == 0
        assert files(case.repo) == before


class TestRewrite:
    def test_manifests_are_rebuilt_alike(self, case: Case) -> None:
        case.create(split=True)
        case.writer.call("write", case.repo, case.data, sample="split")
        (_, view, _), (_, other, _) = on_copies(case, "rewrite", message="rebuilt")
        assert_same(without_ids(view), without_ids(other))
        assert view["history"]["branch main"][0]["message"] == "rebuilt"


class TestUpgrade:
    """Version 1 repositories of either party become version 2 by either party."""

    @pytest.mark.parametrize("creator", ["p1", "p2v1", "frazil"])
    def test_upgraded_alike_and_usable(
        self, creator: str, party_of: PartyOf, tmp_path: Path
    ) -> None:
        frazil, newer = party_of(ours()), party_of(official(2))
        made_by: Party = frazil if creator == "frazil" else party_of(official(PEERS[creator][0]))
        made = Case(made_by, newer, 1, tmp_path)
        commits = grow(made)
        made.writer.call("tag", made.repo, name="dropped", snapshot=commits[0][0])
        made.writer.call("delete_tag", made.repo, name="dropped")
        case = Case(frazil, newer, 2, tmp_path)
        (_, view, place), (_, other, other_place) = on_copies(case, "upgrade")
        assert_same(without_ids(view), without_ids(other))
        assert view["repo"]["operations"][0]["kind"] == "RepoMigrated"
        assert view["repo"]["deleted_tags"] == ["dropped"]
        assert files(place) == files(other_place)
        for here, party in ((place, newer), (other_place, frazil)):
            party.call("put", here, array="line", index=0, value=99, message="after")
            views = [p.call("describe", here, case.data) for p in (frazil, newer)]
            assert_same(*views)
