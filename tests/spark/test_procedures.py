"""Procedures: what they do to a repository, and the rows they answer with."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr

import frazil
from frazil.errors import ConflictError, FormatError, InvalidInputError, NotFoundError
from frazil.fsck import verify
from frazil.spark.upkeep.calls import call, call_by_sql
from frazil.spark.upkeep.procedure import PROCEDURES

Made = tuple[str, frazil.Repository, list[str]]
YOUNG: dict[str, Any] = {"unsafe_minimum_age": "0h"}


@pytest.fixture
def made(tmp_path: Path) -> Made:
    """A repository with three commits, `dev` ahead of `main`."""
    repository = frazil.Repository.create(tmp_path / "repo")
    session = repository.writable_session("main")
    zarr.create_array(
        session.store,
        name="v",
        shape=(1024,),
        chunks=(128,),
        dtype="f8",
        compressors=None,
        filters=None,
    )[...] = 0
    ids = [session.commit("zero")]
    repository.create_branch("dev", ids[0])
    for number in (1, 2):
        session = repository.writable_session("dev")
        zarr.open_array(session.store, path="v", mode="a")[...] = np.random.rand(1024) + number
        ids.append(session.commit(f"number {number}"))
    return str(tmp_path / "repo"), repository, ids


def run(name: str, table: str, **arguments: Any) -> list[dict[str, Any]]:  # noqa: ANN401
    names = PROCEDURES[name].returns.fieldNames()
    rows = call(name, table, None, **arguments)
    return [dict(zip(names, row, strict=True)) for row in rows]


def test_fast_forward_publishes_a_branch(made: Made) -> None:
    url, repository, ids = made
    found = run("fast_forward", url, branch="main", to="dev")
    assert found == [{"branch_updated": "main", "previous_ref": ids[0], "updated_ref": ids[2]}]
    assert repository.lookup_branch("main") == ids[2]
    repository.create_branch("old", ids[0])
    with pytest.raises(ConflictError, match="commits of its own"):
        run("fast_forward", url, branch="main", to="old")


def test_rollback_and_its_limits(made: Made) -> None:
    url, repository, ids = made
    found = run("rollback_to_snapshot", f"{url}@dev", snapshot_id=ids[1][:8])
    assert found == [{"previous_snapshot_id": ids[2], "current_snapshot_id": ids[1]}]
    assert repository.lookup_branch("dev") == ids[1]
    with pytest.raises(InvalidInputError, match="no ancestor of branch 'main'"):
        run("rollback_to_snapshot", url, snapshot_id=ids[1])
    assert run("set_current_snapshot", url, ref="dev")[0]["current_snapshot_id"] == ids[1]
    with pytest.raises(InvalidInputError, match="one of snapshot_id and ref"):
        run("set_current_snapshot", url)


def test_rollback_to_a_time(made: Made) -> None:
    url, repository, ids = made
    when = repository.lookup_snapshot(ids[1]).written_at
    for given in (when, when.isoformat()):
        repository.reset_branch("dev", ids[2])
        found = run("rollback_to_timestamp", f"{url}@dev", timestamp=given)
        assert found[0]["current_snapshot_id"] == ids[1]
    with pytest.raises(NotFoundError, match="no snapshot as early"):
        run("rollback_to_timestamp", url, timestamp="1999-01-01")
    with pytest.raises(InvalidInputError, match="is no time"):
        run("rollback_to_timestamp", url, timestamp="soon")


def test_branches_and_tags(made: Made) -> None:
    url, repository, ids = made
    assert run("create_branch", f"{url}@dev", branch="b") == [
        {"name": "b", "type": "BRANCH", "snapshot_id": ids[2]}
    ]
    run("create_tag", url, tag="t", snapshot_id=ids[1])
    assert repository.lookup_tag("t") == ids[1]
    run("drop_branch", url, branch="b")
    run("drop_tag", url, tag="t")
    assert (repository.list_branches(), repository.list_tags()) == ({"main", "dev"}, set())


def test_expire_then_remove_orphans(made: Made) -> None:
    url, repository, ids = made
    run("fast_forward", url, branch="main", to="dev")
    run("drop_branch", url, branch="dev")
    now = datetime.now(UTC) + timedelta(hours=1)
    kept = run("expire_snapshots", url, older_than=now, retain_last=3, dry_run=True)
    assert kept[0]["expired_snapshots_count"] == 0
    dry = run("expire_snapshots", url, older_than=now, dry_run=True)
    assert dry[0]["expired_snapshots_count"] == 2
    assert len(list(repository.ancestry(branch="main"))) == 4
    released = run("expire_snapshots", url, older_than=now, delete_files=False)
    assert released[0]["expired_snapshots_count"] == 2
    assert released[0]["deleted_data_files_count"] == 0
    listed = run("remove_orphan_files", url, older_than=now, dry_run=True, **YOUNG)
    assert any("/chunks/" in row["orphan_file_location"] for row in listed)
    assert all(
        Path(row["orphan_file_location"].removeprefix("file://")).is_file() for row in listed
    )
    assert run("remove_orphan_files", url, older_than=now) == []
    removed = run("remove_orphan_files", url, older_than=now, **YOUNG)
    assert removed == listed
    assert not any(
        Path(row["orphan_file_location"].removeprefix("file://")).exists() for row in removed
    )
    assert run("remove_orphan_files", url) == []
    session = repository.readonly_session("main")
    assert session.snapshot_id == ids[2]
    values = np.asarray(zarr.open_array(session.store, path="v", mode="r")[...])
    assert values.min() > 1


def test_expiry_deletes_what_only_old_snapshots_need(made: Made) -> None:
    url, repository, ids = made
    run("fast_forward", url, branch="main", to="dev")
    run("drop_branch", url, branch="dev")
    now = datetime.now(UTC) + timedelta(hours=1)
    before = files_below(url)
    (dry,) = run("expire_snapshots", url, older_than=now, dry_run=True, **YOUNG)
    assert files_below(url) == before
    (done,) = run("expire_snapshots", url, older_than=now, **YOUNG)
    assert dry == done
    gone = before - files_below(url)
    assert {
        "deleted_data_files_count": sum(name.startswith("chunks/") for name in gone),
        "deleted_manifest_files_count": sum(name.startswith("manifests/") for name in gone),
        "deleted_manifest_lists_count": sum(name.startswith("snapshots/") for name in gone),
        "expired_snapshots_count": 2,
    }.items() <= done.items()
    assert done["deleted_data_files_count"] > 0
    assert done["deleted_manifest_lists_count"] == 2
    assert run("remove_orphan_files", url, older_than=now, dry_run=True, **YOUNG) == []
    assert verify(repository).is_clean
    session = repository.readonly_session("main")
    assert session.snapshot_id == ids[2]
    assert np.asarray(zarr.open_array(session.store, path="v", mode="r")[...]).min() > 1


def test_expiry_spares_what_tags_need(made: Made) -> None:
    url, repository, ids = made
    run("fast_forward", url, branch="main", to="dev")
    run("create_tag", url, tag="old", snapshot_id=ids[0])
    now = datetime.now(UTC) + timedelta(hours=1)
    (done,) = run("expire_snapshots", url, older_than=now, **YOUNG)
    assert done["expired_snapshots_count"] == 1
    assert verify(repository).is_clean
    store = frazil.Repository.open(url).readonly_session(tag="old").store
    assert np.isfinite(np.asarray(zarr.open_array(store, path="v", mode="r")[...])).all()


def files_below(url: str) -> set[str]:
    """Names of all files of a repository."""
    place = Path(url)
    return {str(path.relative_to(place)) for path in place.rglob("*") if path.is_file()}


def test_rewriting_manifests_and_chunks_keeps_values(made: Made) -> None:
    url, repository, _ = made
    before = zarr.open_array(repository.readonly_session("dev").store, path="v", mode="r")[...]
    found = run("rewrite_manifests", f"{url}@dev")
    assert found == [{"rewritten_manifests_count": 1, "added_manifests_count": 1}]
    run("rewrite_data_files", f"{url}@dev", dry_run=True)
    (row,) = run("rewrite_data_files", f"{url}@dev")
    assert row["failed_data_files_count"] == 0
    after = zarr.open_array(repository.readonly_session("dev").store, path="v", mode="r")[...]
    np.testing.assert_array_equal(after, before)


def test_looking(made: Made) -> None:
    url, _, ids = made
    found = run("ancestors_of", f"{url}@dev")
    assert [row["snapshot_id"] for row in found][:3] == ids[::-1]
    assert len(run("ancestors_of", url, snapshot_id=ids[0])) == 2
    changed = run("changes", f"{url}@dev", start_snapshot_id=ids[1])
    assert {row["_commit_snapshot_id"] for row in changed} == {ids[2]}
    (detail,) = run("detail", f"{url}@dev")
    assert (detail["format"], detail["id"], detail["numSnapshots"]) == ("icechunk", ids[2], 4)


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({"older_then": "2024-01-01"}, "no argument 'older_then'; did you mean 'older_than'"),
        ({"older_than": "soon"}, "no time"),
        ({"retain_last": 0}, "at least 1"),
    ],
)
def test_wrong_arguments(made: Made, arguments: dict[str, Any], problem: str) -> None:
    with pytest.raises(InvalidInputError, match=problem):
        run("expire_snapshots", made[0], **arguments)


def test_arguments_from_sql(made: Made) -> None:
    url, _, ids = made
    with pytest.raises(InvalidInputError, match=r"run CALL frazil\.system\.fast_forward"):
        call_by_sql("fast_forward", (url, "main", "dev"), {})
    assert [row[0] for row in call_by_sql("ancestors_of", (url, ids[0]), {})][:1] == [ids[0]]
    with pytest.raises(InvalidInputError, match="needs the argument 'table'"):
        call_by_sql("detail", (), {})
    with pytest.raises(InvalidInputError, match="needs the argument 'branch'"):
        run("drop_branch", url)
    with pytest.raises(InvalidInputError, match="takes 1 arguments"):
        call_by_sql("detail", (url, "x"), {})


def test_only_branches_can_be_moved(made: Made) -> None:
    url, repository, ids = made
    repository.create_tag("t", ids[0])
    with pytest.raises(NotFoundError):
        run("rollback_to_snapshot", f"{url}@t", snapshot_id=ids[0])
    with pytest.raises(InvalidInputError, match="only a branch can be changed"):
        run("rollback_to_snapshot", f"{url}@{{2099-01-01}}", snapshot_id=ids[0])


@pytest.mark.parametrize(
    "how", [{}, {"dry_run": True}, {"delete_files": False}, {"retain_last": 2}]
)
def test_expiry_of_files_that_must_not_change_is_refused(tmp_path: Path, how: Any) -> None:  # noqa: ANN401
    url = str(tmp_path / "old")
    frazil.Repository.create(url, spec_version="g3")
    before = files_below(url)
    given = {"dry_run": True, "delete_files": False, "retain_last": 2}
    arguments = {name: value for name, value in given.items() if name == how}
    with pytest.raises(FormatError, match=r"cannot be expired.*upgrade the repository first"):
        run("expire_snapshots", url, older_than=datetime.now(UTC), **arguments)
    assert files_below(url) == before
