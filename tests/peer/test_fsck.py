"""Repositories of the peers have no findings, and the peers go on in repaired ones.

That nothing is found in what the peers write, every test that uses a `case` checks at its end.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from frazil.formats.repo_info import decode_repo_info, encode_repo_info
from frazil.fsck import RepairPlan, fsck, repair
from frazil.storage.constructors import local_filesystem_storage
from tests.peer.conftest import PEERS, Case

pytestmark = pytest.mark.peer


def grow(case: Case) -> None:
    """A short history by both parties, with a tag on the way and a branch at its end."""
    case.create()
    case.writer.call("new_array", case.repo, array="line", length=6)
    for number, party in enumerate((case.reader, case.writer, case.reader)):
        party.call(
            "put", case.repo, array="line", index=number, value=number + 1, message=f"s{number}"
        )
        if number == 0:
            (first, *_), *_ = case.writer.call("history", case.repo)
            case.writer.call("branch", case.repo, name="side", snapshot=first)
            case.writer.call("tag", case.repo, name="old", snapshot=first)


def untimed(view: dict[str, Any]) -> dict[str, Any]:
    """A view without times and backups of operations: nobody knows when the last one was."""
    done = [(each["kind"], each["fields"]) for each in view["repo"]["operations"]]
    return {**view, "repo": {**view["repo"], "operations": done}}


def mend(repo: Path) -> RepairPlan:
    """Repair a repository."""
    return repair(local_filesystem_storage(str(repo)), apply=True)


def test_the_peers_go_on_after_the_repo_object_was_garbage(v2_case: Case) -> None:
    grow(v2_case)
    before = v2_case.seen_alike()
    (v2_case.repo / "repo").write_bytes(b"garbage")
    assert not fsck(local_filesystem_storage(str(v2_case.repo))).is_sound
    mend(v2_case.repo)
    after = v2_case.seen_alike()
    assert untimed(after) == untimed(before)
    for party in (v2_case.writer, v2_case.reader):
        party.call("put", v2_case.repo, array="line", index=5, value=9, message="after")
    assert v2_case.reader.call("values", v2_case.repo, array="line") == [1, 2, 3, 0, 0, 9]


def test_the_peers_go_on_without_any_backup(v2_case: Case) -> None:
    grow(v2_case)
    for file in [v2_case.repo / "repo", *(v2_case.repo / "overwritten").iterdir()]:
        file.unlink()
    mend(v2_case.repo)
    v2_case.reader.call("put", v2_case.repo, array="line", index=5, value=9, message="after")
    assert v2_case.writer.call("values", v2_case.repo, array="line") == [1, 2, 3, 0, 0, 9]
    v2_case.seen_alike()


def test_the_peers_go_on_after_the_newest_snapshot_was_lost(case: Case) -> None:
    grow(case)
    (newest, *_), (parent, *_), *_ = case.writer.call("history", case.repo)
    (case.repo / "snapshots" / newest).unlink()
    mend(case.repo)
    assert case.reader.call("history", case.repo)[0][0] == parent
    case.seen_alike()
    for party in (case.reader, case.writer):
        party.call("put", case.repo, array="line", index=4, value=5, message="after")
    assert case.writer.call("values", case.repo, array="line") == [1, 2, 0, 0, 5, 0]


def test_the_peers_go_on_after_a_snapshot_in_between_was_lost(v2_case: Case) -> None:
    grow(v2_case)
    _, (lost, *_), *_ = v2_case.writer.call("history", v2_case.repo)
    (v2_case.repo / "snapshots" / lost).unlink()
    mend(v2_case.repo)
    v2_case.seen_alike()
    v2_case.reader.call("put", v2_case.repo, array="line", index=4, value=5, message="after")
    assert v2_case.writer.call("values", v2_case.repo, array="line") == [1, 2, 3, 0, 5, 0]


def test_the_peers_go_on_after_the_operations_log_was_lost(v2_case: Case) -> None:
    grow(v2_case)
    file = v2_case.repo / "repo"
    info = decode_repo_info(file.read_bytes(), key="repo")
    file.write_bytes(encode_repo_info(replace(info, latest_updates=())))
    mend(v2_case.repo)
    v2_case.reader.call("put", v2_case.repo, array="line", index=4, value=5, message="after")
    assert v2_case.writer.call("values", v2_case.repo, array="line") == [1, 2, 3, 0, 5, 0]
    v2_case.seen_alike()


@pytest.mark.parametrize("peer", [PEERS["p1"], PEERS["p2v1"]])
def test_the_peers_go_on_after_a_branch_file_was_garbage(case: Case) -> None:
    grow(case)
    before = case.seen_alike()
    (case.repo / "refs" / "branch.main" / "ref.json").write_bytes(b"\0" * 35)
    mend(case.repo)
    assert case.seen_alike() == before
    case.reader.call("put", case.repo, array="line", index=4, value=5, message="after")
    assert case.writer.call("values", case.repo, array="line") == [1, 2, 3, 0, 5, 0]


def test_the_peers_go_on_after_a_manifest_was_rebuilt(case: Case) -> None:
    grow(case)
    report = fsck(local_filesystem_storage(str(case.repo)))
    assert report.manifests == 3
    newest = max((case.repo / "manifests").iterdir(), key=lambda file: file.stat().st_mtime_ns)
    kept = newest.read_bytes()
    newest.unlink()
    plan = mend(case.repo)
    assert len(plan.snapshots) == 1
    (array,) = plan.steps[0].facts["arrays"]
    assert (array["path"], array["chunks"]) == ("/line", [[2]])
    for party in (case.reader, case.writer):
        assert party.call("values", case.repo, array="line") == [1, 2, 0, 0, 0, 0]
    case.reader.call("put", case.repo, array="line", index=2, value=5, message="after")
    assert case.writer.call("values", case.repo, array="line") == [1, 2, 5, 0, 0, 0]
    newest.write_bytes(kept)  # what the past still needs
    case.seen_alike()
