"""The repo object: official files, every kind of update, sorting, and what is refused."""

from __future__ import annotations

import pickle
from dataclasses import replace

import pytest

from frazil.errors import ErrorKind, FormatError, SnapshotNotFoundError
from frazil.flatbuf.reader import I32, U16, U64, Buffer, Table
from frazil.formats.envelope import FileKind, seal, unseal
from frazil.formats.repo_info import (
    decode_repo_info,
    encode_repo_info,
    snapshot_table,
    write_repo_info,
)
from frazil.ids import INITIAL_SNAPSHOT_ID, SnapshotId
from frazil.maintenance.lineage import mask_of
from frazil.model.history import (
    RepoAvailability,
    RepoInfo,
    SnapshotEntry,
    StoredStatus,
    UnknownUpdate,
    UpdateEntry,
    UpdateKind,
    UpdateLog,
    UpdateType,
    with_update,
)
from tests.support.official_history import INITIAL_REPO, REPO

KEY = "repo"
NOW = 1_794_767_965_853_027
FIRST, SECOND, ZEROS = SnapshotId(b"a" * 12), SnapshotId(b"b" * 12), SnapshotId(b"b" + bytes(11))
EVERY_KIND: tuple[UpdateKind, ...] = (
    UpdateType.RepoInitialized(),
    UpdateType.RepoMigrated(1, 2),
    UpdateType.ConfigChanged(),
    UpdateType.MetadataChanged(),
    UpdateType.TagCreated("t"),
    UpdateType.TagDeleted("täg", FIRST),
    UpdateType.BranchCreated("b/c"),
    UpdateType.BranchDeleted("", SECOND),
    UpdateType.BranchReset("main", ZEROS),
    UpdateType.NewCommit("main", FIRST),
    UpdateType.CommitAmended("main", FIRST, SECOND),
    UpdateType.NewDetachedSnapshot(ZEROS),
    UpdateType.GCRan(),
    UpdateType.ExpirationRan(),
    UpdateType.FeatureFlagChanged(3, True),
    UpdateType.FeatureFlagChanged(65535, False),
    UpdateType.FeatureFlagChanged(4, None),
    UpdateType.RepoStatusChanged(StoredStatus(RepoAvailability.read_only, NOW, "wörk")),
    UpdateType.RepoStatusChanged(StoredStatus(RepoAvailability.online, NOW)),
)
SAMPLE = RepoInfo(
    spec_version=2,
    tags={"z": FIRST, "a": ZEROS, "é": SECOND},
    branches={"main": SECOND, "a/b": FIRST, "": FIRST},
    deleted_tags=frozenset({"x", "old"}),
    snapshots=snapshot_table(
        [
            SnapshotEntry(SECOND, FIRST, NOW, "second", {"k": [1, {"é": None}], "a": "b"}),
            SnapshotEntry(FIRST, None, 1, "", {}),
            SnapshotEntry(ZEROS, SECOND, NOW + 1, "drïtte" * 100, {"n": 1}, (FIRST, SECOND)),
        ]
    ),
    status=StoredStatus(RepoAvailability.read_only, NOW, "for a reason"),
    metadata={"owner": {"name": "x"}, "n": 1.5},
    latest_updates=UpdateLog.of(
        UpdateEntry(kind, NOW - n, None if n == 0 else f"repo.{n}")
        for n, kind in enumerate(EVERY_KIND)
    ),
    repo_before_updates="repo.before",
    config={"inline_chunk_threshold_bytes": 5, "manifest": None},
    enabled_feature_flags=frozenset(),
    disabled_feature_flags=frozenset({5, 3}),
)


def again(info: RepoInfo) -> RepoInfo:
    return decode_repo_info(encode_repo_info(info), key=KEY)


def root_of(blob: bytes) -> Table:
    return Buffer(unseal(blob, FileKind.REPO_INFO, key=KEY).body, KEY).root()


def test_the_first_official_repo_object_is_read() -> None:
    info = decode_repo_info(INITIAL_REPO, key=KEY)
    assert info.spec_version == 2
    assert info.branches == {"main": INITIAL_SNAPSHOT_ID}
    assert (info.tags, info.deleted_tags, info.metadata) == ({}, frozenset(), {})
    assert info.status == StoredStatus(RepoAvailability.online, 1794767063152543)
    assert list(info.latest_updates) == [
        UpdateEntry(UpdateType.RepoInitialized(), 1794767063152572)
    ]
    assert (info.config, info.repo_before_updates) == (None, None)
    assert (info.enabled_feature_flags, info.disabled_feature_flags) == (None, None)
    entry = info.snapshots[INITIAL_SNAPSHOT_ID]
    assert (entry.parent_id, entry.message) == (None, "Repository initialized")
    assert entry.metadata == {"__icechunk": {"is_root": True}}


def test_an_official_repo_object_after_a_commit_is_read() -> None:
    info = decode_repo_info(REPO, key=KEY)
    commit = SnapshotId.parse("4RVH1XD2RC4ZMT33B910")
    assert info.branches == {"main": commit}
    assert info.snapshots.parent_of(commit) == INITIAL_SNAPSHOT_ID
    assert info.snapshots[commit].metadata == {"k": 1}
    assert list(info.latest_updates) == [
        UpdateEntry(UpdateType.NewCommit("main", commit), 1794767965853027),
        UpdateEntry(
            UpdateType.RepoInitialized(),
            1794767965836780,
            "repo.30708912034148.K4YDXP5V4ZYEV4PCYQX0",
        ),
    ]


@pytest.mark.parametrize("official", [INITIAL_REPO, REPO])
def test_official_repo_objects_survive_being_written_again(official: bytes) -> None:
    info = decode_repo_info(official, key=KEY)
    assert again(info) == info
    assert again(again(info)) == info


def test_everything_comes_back() -> None:
    found = again(SAMPLE)
    assert found == SAMPLE
    assert tuple(entry.kind for entry in found.latest_updates) == EVERY_KIND
    assert dict(found.snapshots) == dict(SAMPLE.snapshots)


def test_lists_are_sorted_by_bytes() -> None:
    root = root_of(encode_repo_info(SAMPLE))
    assert [ref.text(0) for ref in root.tables(1)] == ["a", "z", "é"]
    assert [ref.text(0) for ref in root.tables(2)] == ["", "a/b", "main"]
    ids = [table.struct_bytes(0, 12) for table in root.tables(4)]
    assert ids == [FIRST, ZEROS, SECOND]


def test_parents_are_row_numbers_and_none_is_minus_one() -> None:
    first, zeros, second = root_of(encode_repo_info(SAMPLE)).tables(4)
    assert first.number(1, I32) == -1
    assert second.number(1, I32) == 0
    assert zeros.number(1, I32) == 2


def test_a_list_of_pruned_ancestors_is_there_only_when_it_has_something() -> None:
    tables = list(root_of(encode_repo_info(SAMPLE)).tables(4))
    assert [table.at(5) is not None for table in tables] == [False, True, False]
    assert tables[1].structs(5, 12) == [FIRST, SECOND]


def test_everything_in_the_file_is_aligned() -> None:
    assert_aligned(root_of(encode_repo_info(SAMPLE)))


def assert_aligned(root: Table) -> None:
    for slot, wide in ((4, 2), (7, 2)):
        for table in root.tables(slot):
            at = table.at(wide)
            assert at is not None
            assert at % 8 == 0
            assert table.position % 4 == 0


def test_flags_are_absent_until_set() -> None:
    plain = replace(SAMPLE, enabled_feature_flags=None, disabled_feature_flags=None)
    root = root_of(encode_repo_info(plain))
    assert root.at(10) is None
    assert root.at(11) is None
    assert again(plain).enabled_feature_flags is None
    assert again(SAMPLE).enabled_feature_flags == frozenset()


@pytest.mark.parametrize("stored", [2, 3, 255])
def test_unknown_availability_counts_as_online(stored: int) -> None:
    body = bytearray(unseal(encode_repo_info(SAMPLE), FileKind.REPO_INFO, key=KEY).body)
    status = Buffer(bytes(body), KEY).root().table(5)
    assert status is not None
    at = status.at(0)
    assert at is not None
    body[at] = stored
    info = decode_repo_info(seal(bytes(body), FileKind.REPO_INFO, spec=2), key=KEY)
    assert info.status == replace(SAMPLE.status, availability=RepoAvailability.online)


def with_unknown_update() -> bytes:
    """The sample, whose newest update has a tag nobody has defined."""
    body = bytearray(unseal(encode_repo_info(SAMPLE), FileKind.REPO_INFO, key=KEY).body)
    newest = next(Buffer(bytes(body), KEY).root().tables(7))
    at = newest.at(0)
    assert at is not None
    body[at] = 99
    return seal(bytes(body), FileKind.REPO_INFO, spec=2)


def test_an_update_of_a_newer_library_can_be_read_but_not_written() -> None:
    info = decode_repo_info(with_unknown_update(), key=KEY)
    assert info.latest_updates[0] == UpdateEntry(UnknownUpdate(99), NOW)
    assert info.branches == SAMPLE.branches
    with pytest.raises(FormatError, match="newer library"):
        encode_repo_info(info)


@pytest.mark.parametrize("spec", [0, 3])
def test_other_specs_are_refused(spec: int) -> None:
    body = bytearray(unseal(encode_repo_info(SAMPLE), FileKind.REPO_INFO, key=KEY).body)
    at = Buffer(bytes(body), KEY).root().at(0)
    assert at is not None
    body[at] = spec
    with pytest.raises(FormatError) as caught:
        decode_repo_info(seal(bytes(body), FileKind.REPO_INFO, spec=2), key=KEY)
    assert caught.value.kind == ErrorKind.UNSUPPORTED_SPEC_VERSION


def patched(slot: int, row: int, field: int, raw: bytes) -> bytes:
    """The sample with one inline field of one table of a vector overwritten."""
    body = bytearray(unseal(encode_repo_info(SAMPLE), FileKind.REPO_INFO, key=KEY).body)
    at = list(Buffer(bytes(body), KEY).root().tables(slot))[row].at(field)
    assert at is not None
    body[at : at + len(raw)] = raw
    return seal(bytes(body), FileKind.REPO_INFO, spec=2)


@pytest.mark.parametrize(
    ("blob", "problem"),
    [
        (patched(4, 0, 0, b"c" * 12), "order"),
        (patched(4, 0, 0, bytes(SECOND)), "order"),
        (patched(4, 0, 1, I32.pack(-2)), "parent"),
        (patched(4, 0, 1, I32.pack(3)), "parent"),
        (patched(4, 0, 2, U64.pack(2**64 - 1)), "time"),
        (patched(1, 0, 1, I32.pack(3)), "not listed"),
    ],
)
def test_impossible_histories_are_refused(blob: bytes, problem: str) -> None:
    with pytest.raises(FormatError, match=problem):
        decode_repo_info(blob, key=KEY)


def test_a_history_in_a_circle_ends_in_an_error() -> None:
    info = decode_repo_info(patched(4, 0, 1, I32.pack(2)), key=KEY)
    with pytest.raises(FormatError, match="circle"):
        list(info.snapshots.ancestry(SECOND))


def test_a_ref_without_snapshot_cannot_be_written() -> None:
    with pytest.raises(SnapshotNotFoundError):
        encode_repo_info(replace(SAMPLE, branches={"main": SnapshotId(b"x" * 12)}))


def test_the_log_is_written_with_one_vtable_for_each_kind() -> None:
    newest, *_ = root_of(encode_repo_info(SAMPLE)).tables(7)
    kind = newest.table(1)
    assert newest.at(3) is None
    assert kind is not None
    assert kind.buffer.read(U16, kind.position - kind.buffer.read(I32, kind.position)) == 4


def test_a_decoded_repo_object_can_be_pickled() -> None:
    info = again(SAMPLE)
    assert pickle.loads(pickle.dumps(info)) == SAMPLE


@pytest.mark.parametrize("limit", [5, 100])
def test_an_object_that_grows_is_written_like_one_made_at_once(limit: int) -> None:
    grown = again(SAMPLE)
    parent = SECOND
    for n in range(60):
        entry = SnapshotEntry(
            SnapshotId.random(),
            parent,
            NOW + n,
            f"commit {n}",
            {"n": n, "é": [None]} if n % 3 == 0 else {},
            (FIRST,) if n % 7 == 0 else (),
        )
        grown = with_update(
            grown,
            EVERY_KIND[n % len(EVERY_KIND)],
            NOW + 1 + n,
            f"repo.{n}.backup",
            limit,
            snapshots=grown.snapshots.with_entry(entry),
            branches={**grown.branches, "main": entry.id},
        )
        blob, grown = write_repo_info(grown)
        fresh = replace(
            grown,
            snapshots=snapshot_table(grown.snapshots.entries()),
            latest_updates=UpdateLog.of(list(grown.latest_updates)),
        )
        assert decode_repo_info(blob, key=KEY) == grown == fresh == again(fresh)
        assert_aligned(root_of(blob))
        parent = entry.id
    assert len(grown.latest_updates) == min(limit, len(EVERY_KIND) + 60)
    # Some lines may be there that nothing points to any more, but only some.
    assert len(blob) < 1.2 * len(encode_repo_info(fresh))


def test_an_object_that_shrinks_is_written_anew() -> None:
    _, written = write_repo_info(SAMPLE)
    old = written.snapshots
    smaller = old.reparent({ZEROS: (None, [])}).without(mask_of(old, [SECOND]))
    info = replace(SAMPLE, snapshots=smaller, tags={}, branches={"main": ZEROS})
    assert again(info) == info
    assert b"second" not in unseal(encode_repo_info(info), FileKind.REPO_INFO, key=KEY).body


def test_a_long_history_stays_small() -> None:
    ids = [SnapshotId.random() for _ in range(3000)]
    parents = [None, *ids]
    entries = [
        SnapshotEntry(i, parent, NOW + n, f"commit {n}", {})
        for n, (i, parent) in enumerate(zip(ids, parents, strict=False))
    ]
    long = replace(SAMPLE, tags={}, branches={"main": ids[-1]}, snapshots=snapshot_table(entries))
    blob = encode_repo_info(long)
    found = decode_repo_info(blob, key=KEY)
    assert list(found.snapshots.ancestry(ids[-1])) == ids[::-1]
    assert [entry.message for entry in found.snapshots.history(ids[9])] == [
        f"commit {n}" for n in range(9, -1, -1)
    ]
    assert len(blob) < 50 * len(ids)
