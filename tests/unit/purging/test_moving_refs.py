"""Refs go over to the rewritten history, whatever others do meanwhile."""

from __future__ import annotations

import contextlib
from dataclasses import replace

import pytest

from frazil.bulk.write import write_region
from frazil.commit.by_ref_file import RefFileRefs
from frazil.errors import NodeNotFoundError, SnapshotNotFoundError
from frazil.ids import SnapshotId
from frazil.model.config import RepositoryConfig
from frazil.purging.finding import PurgeMatches, find
from frazil.purging.moving_refs import is_known, move_refs, ref_targets
from frazil.purging.records import PurgeTarget
from frazil.purging.rewriting import Rewriter
from frazil.repository import Repository
from frazil.storage.base import Storage
from frazil.storage.memory import MemoryStorage
from frazil.transaction.context import Context
from frazil.transaction.opened import context_of
from tests.support.ages import AT_ONCE
from tests.support.checks import check_repository
from tests.support.nodes import array_document, contents, write_keys
from tests.support.stepping import InterruptedStorage, Moment
from tests.unit.maintenance.samples import keys, written_at
from tests.unit.purging.samples import NEEDLE, SECRET, assert_whole, blobs, make, read


def test_a_commit_upon_what_was_just_erased_shares_its_chunks(storage: MemoryStorage) -> None:
    make(storage, 1)

    def commit() -> None:
        session = Repository.open(storage).writable_session("dev")
        write_region(session, "group/secret", slice(0, 2), SECRET)
        session.commit("meanwhile")

    # By then dev has moved already, and main has not.
    moments = [Moment("put_if", "refs/branch.main", commit)]
    slow = Repository.open(InterruptedStorage(storage, moments))
    assert slow.space.purge(
        "group/secret", [slice(1, 7)], confirm="group/secret", unsafe_minimum_age=AT_ONCE
    ).is_proved
    repo = Repository.open(storage)
    assert read(repo, "group/secret", branch="dev").tolist() == [SECRET, *[0] * 6, SECRET]
    assert next(iter(repo.ancestry(branch="dev"))).message == "meanwhile"
    assert_whole(repo)


def test_commits_made_meanwhile_are_looked_through_too(storage: MemoryStorage, spec: int) -> None:
    make(storage, spec)

    def commit() -> None:
        session = Repository.open(storage).writable_session("main")
        write_region(session, "group/secret", slice(0, 2), SECRET)
        session.commit("meanwhile")

    operation, prefix = ("copy_if", "repo") if spec == 2 else ("put_if", "refs/branch.main")
    moments = [Moment(operation, prefix, commit)]
    repo = Repository.open(InterruptedStorage(storage, moments))
    report = repo.space.purge("group/secret", confirm="group/secret", unsafe_minimum_age=AT_ONCE)
    assert report.is_proved
    after = Repository.open(storage)
    assert next(iter(after.ancestry(branch="main"))).message == "meanwhile"
    for key, data in blobs(storage):
        assert NEEDLE not in data, key
    assert_whole(after)


def made_in_four(place: Storage, spec: int) -> tuple[Repository, str]:
    """A repository with an array and a chunk more in each of three commits; the last of them."""
    repo = Repository.create(
        place, config=RepositoryConfig(inline_chunk_threshold_bytes=0), spec_version=spec
    )
    write_keys(session := repo.writable_session("main"), {"a/zarr.json": array_document(4)})
    session.commit("made")
    for number in range(3):
        session = repo.writable_session("main")
        write_keys(session, {f"a/c/{number}": bytes([number]) * 8})
        last = session.commit(f"chunk {number}")
    repo.create_tag("newest", last)
    return repo, last


@pytest.mark.parametrize(
    ("spec", "operation", "prefix"),
    [
        (1, "put", "snapshots/"),
        (1, "put_if", "refs/branch."),
        (1, "put_if", "refs/tag."),
        (2, "put", "snapshots/"),
        (2, "put_if", "repo"),
    ],
)
def test_what_expires_during_an_erasure_stays_expired(
    spec: int, operation: str, prefix: str
) -> None:
    place = MemoryStorage()
    _, last = made_in_four(place, spec)

    def expire() -> None:
        other = Repository.open(place)
        assert other.expire_snapshots(written_at(other, last))

    meddled = InterruptedStorage(place, [Moment(operation, prefix, expire)])
    Repository.open(meddled).space.purge(
        "/a", [slice(0, 1)], confirm="/a", unsafe_minimum_age=AT_ONCE
    )
    assert meddled.is_over
    found = Repository.open(place)
    for ref in ({"branch": "main"}, {"tag": "newest"}):
        left = [entry.message for entry in found.ancestry(**ref)]
        assert left == ["chunk 2", "Repository initialized"]
    assert "a/c/0" not in contents(found.readonly_session("main"))
    check_repository(found)


def test_an_expiry_brings_nothing_back_that_was_erased_meanwhile() -> None:
    template = MemoryStorage()
    _, last = made_in_four(template, 1)
    for call in range(1, 200):
        place = MemoryStorage()
        for key in keys(template):
            place.put(key, template.get(key) or b"")
        meddled = InterruptedStorage(place)
        expiring = Repository.open(meddled)
        when = written_at(expiring, last)

        def erase(place: Storage = place) -> None:
            Repository.open(place).space.purge("/a", confirm="/a", unsafe_minimum_age=AT_ONCE)

        meddled.before(call, erase)
        with contextlib.suppress(SnapshotNotFoundError):
            expiring.expire_snapshots(when)
        if not meddled.is_over:
            break
        with pytest.raises(NodeNotFoundError):
            Repository.open(place).space.purge("/a", dry_run=True)
    assert call > 10


# --- single rules ---


def rewritten(repo: Repository) -> tuple[Context, PurgeMatches, Rewriter]:
    """A history without the secret, to which no ref has gone over yet."""
    context = context_of(repo)
    found = find(context, PurgeTarget("/group/secret"))
    rewriter = Rewriter.of(context, found)
    rewriter.write(found)
    return context, found, rewriter


def test_all_refs_and_all_of_history_go_over(storage: MemoryStorage, spec: int) -> None:
    repo = make(storage, spec)
    repo.create_tag("deleted", repo.lookup_branch("dev"))
    repo.delete_tag("deleted")
    before = {name: repo.lookup_branch(name) for name in ("main", "dev")}
    messages = [info.message for info in repo.ancestry(branch="main")]
    context, found, rewriter = rewritten(repo)
    assert is_known(context, found, rewriter)
    assert move_refs(context, found, rewriter)
    new = {str(old): str(one) for old, one in rewriter.ids.items()}
    for name, tip in before.items():
        assert repo.lookup_branch(name) == new[tip]
    assert [info.message for info in repo.ancestry(branch="main")] == messages
    if isinstance(context.refs, RefFileRefs):
        assert ref_targets(context.refs).isdisjoint(rewriter.ids)
    assert move_refs(context, found, rewriter)  # once more changes nothing
    assert {info.id for info in repo.ancestry(branch="main")}.isdisjoint(new)


def test_a_commit_that_was_not_looked_at_is_noticed(storage: MemoryStorage, spec: int) -> None:
    repo = make(storage, spec)
    context, found, rewriter = rewritten(repo)
    session = Repository.open(storage).writable_session("main")
    write_region(session, "open", slice(0, 2), 5)
    tip = session.commit("meanwhile")
    assert not is_known(context, found, rewriter)
    assert not move_refs(context, found, rewriter)
    assert repo.lookup_branch("main") == tip


def test_with_a_repo_object_nothing_moves_unless_all_does(storage: MemoryStorage) -> None:
    repo = make(storage, 2)
    context, found, rewriter = rewritten(repo)
    session = Repository.open(storage).writable_session("dev")
    write_region(session, "open", slice(0, 2), 5)
    session.commit("meanwhile")
    before = storage.get("repo")
    assert not move_refs(context, found, rewriter)
    assert storage.get("repo") == before


def test_a_snapshot_file_that_no_ref_leads_to_counts_where_refs_are_files(
    storage: MemoryStorage,
) -> None:
    repo = make(storage, 1)
    context, found, rewriter = rewritten(repo)
    one = context.assets.snapshot(SnapshotId.parse(repo.lookup_branch("main")))
    context.assets.save_snapshot(replace(one, id=SnapshotId.random()))
    assert not is_known(context, found, rewriter)  # somebody may just make a ref to it


def test_targets_of_deleted_tags_count(storage: MemoryStorage) -> None:
    repo = make(storage, 1)
    other = repo.lookup_branch("dev")
    repo.create_tag("gone", other)
    repo.delete_tag("gone")
    repo.delete_branch("dev")
    refs = context_of(repo).refs
    assert isinstance(refs, RefFileRefs)
    assert ref_targets(refs) == {
        SnapshotId.parse(one) for one in (other, repo.lookup_branch("main"), repo.lookup_tag("v1"))
    }
