"""Everything that holds what shall go is found, wherever it is."""

from __future__ import annotations

import numpy as np
import pytest
import zarr

from frazil.errors import FormatError, InvalidInputError, NodeNotFoundError
from frazil.flatbuf.tuning import KEPT_NODES
from frazil.formats.envelope import FileKind, unseal
from frazil.fsck import repair
from frazil.ids import INITIAL_SNAPSHOT_ID, NodeId, SnapshotId
from frazil.model.history import Move, TransactionLog
from frazil.model.nodes import ArrayNode, Dimension
from frazil.purging.finding import encoding_digest, find, known_history, mentions
from frazil.purging.records import PurgeTarget
from frazil.repository import Repository
from frazil.storage.base import Storage
from frazil.storage.memory import MemoryStorage
from frazil.transaction.opened import context_of
from tests.support.ages import AT_ONCE
from tests.support.generations import OLD, Spec
from tests.support.nodes import array_document, group_document, write_keys
from tests.unit.maintenance.samples import keys, later, written_at
from tests.unit.purging.samples import NEEDLE, assert_open_is_as_before, assert_whole, blobs, make


def test_arrays_that_were_deleted_or_moved_are_found(storage: MemoryStorage) -> None:
    repo = make(storage, 2)
    session = repo.rearrange_session("main")
    session.move("/group/secret", "/hidden")
    session.commit("move")
    session = repo.writable_session("main")
    zarr.open_group(session.store, mode="r+").__delitem__("hidden")
    session.commit("delete")
    report = repo.space.purge("/hidden", confirm="/hidden", unsafe_minimum_age=AT_ONCE)
    assert report.is_proved
    assert report.paths == ("/group/secret", "/hidden")
    for key, data in blobs(storage):
        assert NEEDLE not in data, key
    assert_open_is_as_before(repo)
    assert_whole(repo)


def test_expired_snapshots_and_what_was_put_aside_are_searched(
    storage: MemoryStorage, spec: int
) -> None:
    repo = make(storage, spec)
    last = repo.lookup_branch("main")
    gone = {"delete_expired_tags": True, "delete_expired_branches": True}
    repo.expire_snapshots(written_at(repo, last), **gone)
    plan = repo.space.plan_garbage(later(), unsafe_minimum_age=AT_ONCE)
    repo.space.collect_planned(plan, quarantine=True, unsafe_minimum_age=AT_ONCE)
    assert any(NEEDLE in data for key, data in blobs(storage) if key.startswith("trash/"))
    report = repo.space.purge("group/secret", confirm="group/secret", unsafe_minimum_age=AT_ONCE)
    assert report.is_proved
    for key, data in blobs(storage):
        assert NEEDLE not in data, key
    assert_whole(repo)


def test_snapshots_outside_of_history_go_with_it(storage: MemoryStorage, spec: int) -> None:
    repo = make(storage, spec)
    last = repo.lookup_branch("main")
    repo.expire_snapshots(written_at(repo, last), delete_expired_tags=True)
    report = repo.space.purge("group/secret", confirm="group/secret", unsafe_minimum_age=AT_ONCE)
    assert report.is_proved
    assert report.loose_snapshots > 0
    for key, data in blobs(storage):
        assert NEEDLE not in data, key
    assert_whole(repo)


def test_damaged_snapshots_that_repair_kept_go_too(storage: MemoryStorage) -> None:
    repo = make(storage, 2)
    key = f"snapshots/{repo.lookup_branch('main')}"
    storage.put(key, b"damaged")
    repair(storage, apply=True)
    (kept,) = (key for key in keys(storage, "overwritten/") if "damaged" in key)
    repo = Repository.open(storage)
    repo.garbage_collect(later(), unsafe_minimum_age=AT_ONCE)
    assert repo.space.purge(
        "group/secret", confirm="group/secret", unsafe_minimum_age=AT_ONCE
    ).is_proved
    assert kept not in keys(storage, "overwritten/")


TELLING = "whose name this is"


def make_large(spec: int) -> tuple[Repository, MemoryStorage]:
    """A snapshot with a telling attribute, and two without it whose files reuse its bytes."""
    storage = MemoryStorage()
    repo = Repository.create(storage, spec_version=spec)
    session = repo.writable_session("main")
    for number in range(KEPT_NODES + 10):
        zarr.create_group(session.store, path=f"g{number}")
    options = {"shape": (2,), "chunks": (2,), "dtype": "<i8"}
    zarr.create_array(session.store, name="s/x", attributes={"of": TELLING}, **options)  # type: ignore[arg-type]
    session.commit("made")
    for path in ("s/x", "g1"):
        session = repo.writable_session("main")
        del zarr.open_group(session.store, mode="r+")[path]
        session.commit(f"deleted {path}")
    assert len(telling(storage)) == 3
    return repo, storage


def telling(storage: Storage) -> list[str]:
    """Keys of snapshot files that have the attribute in them, listed or not."""
    found = ((key, blob) for key, blob in blobs(storage) if "snapshots/" in key)
    return [k for k, b in found if TELLING.encode() in unseal(b, FileKind.SNAPSHOT, key=k).body]


@pytest.mark.parametrize("path", ["s/x", "s"])
def test_bytes_that_a_later_snapshot_took_over_go_too(spec: int, path: str) -> None:
    repo, storage = make_large(spec)
    assert repo.space.purge(path, confirm=path, unsafe_minimum_age=AT_ONCE).is_proved
    assert not telling(storage)
    assert_whole(repo)
    with pytest.raises(NodeNotFoundError):
        repo.space.purge(path, dry_run=True)


def test_bytes_of_a_node_that_only_expired_snapshots_had_go_too() -> None:
    repo, storage = make_large(2)
    repo.expire_snapshots(later())
    repo.garbage_collect(later(), unsafe_minimum_age=AT_ONCE)
    assert len(telling(storage)) == 1
    before = dict(blobs(storage))
    assert len(repo.space.purge("s/x", dry_run=True).snapshots) == 1
    assert dict(blobs(storage)) == before
    assert repo.space.purge("s/x", confirm="s/x", unsafe_minimum_age=AT_ONCE).is_proved
    assert not telling(storage)
    assert_whole(repo)


# --- single rules ---


def target(path: str, **fields: object) -> PurgeTarget:
    return PurgeTarget(path, **fields)  # type: ignore[arg-type]


def test_a_path_that_no_snapshot_ever_had_is_named(storage: MemoryStorage, spec: int) -> None:
    repo = make(storage, spec)
    with pytest.raises(NodeNotFoundError, match="'/secret'"):
        find(context_of(repo), target("/secret"))


def test_what_holds_it_is_told_apart(storage: MemoryStorage, spec: int) -> None:
    repo = make(storage, spec)
    found = find(context_of(repo), target("/group/secret"))
    assert found.paths == {"/group/secret"}
    assert (found.loose, found.sources, found.logs) == (set(), set(), set())
    assert len(found.affected) == 5
    assert INITIAL_SNAPSHOT_ID not in found.affected
    assert found.chunks == 4 + 4  # of the manifests of two commits
    assert len(found.ranges.rows()) == 6  # two chunks were written twice
    assert found.tainted <= keys(storage, "manifests/")
    assert found.seen == keys(storage, "snapshots/")


def test_a_region_touches_only_snapshots_with_chunks_of_it(
    storage: MemoryStorage, spec: int
) -> None:
    repo = make(storage, spec)
    tip = SnapshotId.parse(repo.lookup_branch("main"))
    found = find(context_of(repo), target("/open", region=((6, 8),)))
    assert tip in found.affected
    first = [info.id for info in repo.ancestry(branch="main")][-2]
    assert SnapshotId.parse(first) in found.affected
    nothing = find(context_of(repo), target("/open", region=((100, 200),)))
    assert (nothing.affected, nothing.tainted, nothing.chunks) == (set(), set(), 0)


def test_files_that_an_erasure_wrote_are_passed_over(storage: MemoryStorage, spec: int) -> None:
    context = context_of(make(storage, spec))
    own = [*keys(storage, "manifests/"), *keys(storage, "snapshots/")]
    found = find(context, target("/group/secret"), own)
    assert (found.seen, found.tainted, found.chunks) == (set(), set(), 0)


def test_a_region_must_fit_the_array(storage: MemoryStorage) -> None:
    context = context_of(make(storage, 2))
    with pytest.raises(InvalidInputError, match="'/open' has 1 axes, the region 2"):
        find(context, target("/open", region=((0, 1), (0, 1))))
    secret = array_document(2, codecs=[{"name": "secret"}])
    session = Repository.open(storage).writable_session("main")
    write_keys(session, {"odd/zarr.json": secret})
    session.commit("unknown codecs")
    with pytest.raises(InvalidInputError, match="purge the whole array"):
        find(context_of(Repository.open(storage)), target("/odd", region=((0, 1),)))


@pytest.mark.parametrize("place", [None, [], {"a": ["x", {"b": 1}]}])
def test_metadata_that_names_a_rewritten_snapshot_makes_its_own_one_too(
    storage: MemoryStorage, place: object
) -> None:
    repo = make(storage, 2)
    first = [info.id for info in repo.ancestry(branch="main")][-2]
    repo.create_branch("aside", str(INITIAL_SNAPSHOT_ID))
    session = repo.writable_session("aside")
    write_keys(session, {"zarr.json": group_document()})
    named = {"deep": {"list": [place, first]}}
    made = session.commit("names another", named)
    session = repo.writable_session("aside")
    write_keys(session, {"x/zarr.json": group_document()})
    other = session.commit("names nothing", {"deep": place})
    affected = find(context_of(repo), target("/group/secret")).affected
    assert SnapshotId.parse(made) in affected
    assert SnapshotId.parse(other) not in affected  # nor are descendants, which spec 2 leaves


def test_the_encoding_is_what_the_bytes_of_chunks_mean() -> None:
    def digest(**fields: object) -> bytes:
        document = array_document(4, **fields)  # type: ignore[arg-type]
        node = ArrayNode(NodeId.random(), "/a", document, (Dimension(4, 4),), None, ())
        return encoding_digest(node)

    assert digest() == digest(attributes={"title": "x"}) == digest(shape=[9])
    others = [digest(data_type="int8"), digest(fill_value=1), digest(chunks=(2,))]
    assert len({digest(), *others}) == 4


def test_a_log_mentions_nodes_in_any_of_its_lists() -> None:
    one, other = NodeId(b"one....."), NodeId(b"other...")
    moved = (Move("/a", "/b", one, True),)
    chunks = {one: np.zeros((1, 1), np.uint32)}
    for fields in (
        {"new_arrays": (one,)},
        {"deleted_groups": (one,)},
        {"updated_groups": (other, one)},
        {"updated_chunks": chunks},
        {"moved_nodes": moved},
    ):
        log = TransactionLog(SnapshotId.random(), **fields)
        assert mentions(log, frozenset({one}))
        assert not mentions(log, frozenset({NodeId(b"nobody..")}))
    assert not mentions(TransactionLog(SnapshotId.random()), frozenset({one}))


@pytest.mark.parametrize("old", OLD)
def test_older_generations_must_be_upgraded_first(storage: MemoryStorage, old: Spec) -> None:
    repo = Repository.create(storage, spec_version=old)
    with pytest.raises(FormatError, match="must be upgraded"):
        known_history(context_of(repo))
