"""The repo object: official files, every kind of update, sorting, and what is refused."""

from __future__ import annotations

import pickle
from dataclasses import replace

import pytest

from frazil.errors import ErrorKind, FormatError, SnapshotNotFoundError
from frazil.flatbuf.reader import I32, Buffer
from frazil.formats.envelope import FileKind, seal, unseal
from frazil.formats.repo_info import (
    decode_repo_info,
    encode_repo_info,
    snapshot_table,
)
from frazil.ids import INITIAL_SNAPSHOT_ID, SnapshotId
from frazil.model.history import (
    RepoAvailability,
    SnapshotEntry,
    StoredStatus,
    UpdateEntry,
    UpdateType,
)
from tests.support.official_history import INITIAL_REPO, REPO
from tests.unit.formats.repo_samples import (
    EVERY_KIND,
    FIRST,
    KEY,
    NOW,
    SAMPLE,
    SECOND,
    ZEROS,
    again,
    patched,
    root_of,
)


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


def test_flags_are_absent_until_set() -> None:
    plain = replace(SAMPLE, enabled_feature_flags=None, disabled_feature_flags=None)
    root = root_of(encode_repo_info(plain))
    assert root.at(10) is None
    assert root.at(11) is None
    assert again(plain).enabled_feature_flags is None
    assert again(SAMPLE).enabled_feature_flags == frozenset()


@pytest.mark.parametrize("spec", [0, 3])
def test_other_specs_are_refused(spec: int) -> None:
    body = bytearray(unseal(encode_repo_info(SAMPLE), FileKind.REPO_INFO, key=KEY).body)
    at = Buffer(bytes(body), KEY).root().at(0)
    assert at is not None
    body[at] = spec
    with pytest.raises(FormatError) as caught:
        decode_repo_info(seal(bytes(body), FileKind.REPO_INFO, spec=2), key=KEY)
    assert caught.value.kind == ErrorKind.UNSUPPORTED_SPEC_VERSION


def test_a_ref_to_a_snapshot_that_is_not_listed_is_refused() -> None:
    with pytest.raises(FormatError, match="not listed"):
        decode_repo_info(patched(1, 0, 1, I32.pack(3)), key=KEY)


def test_a_history_in_a_circle_ends_in_an_error() -> None:
    info = decode_repo_info(patched(4, 0, 1, I32.pack(2)), key=KEY)
    with pytest.raises(FormatError, match="circle"):
        list(info.snapshots.ancestry(SECOND))


def test_a_ref_without_snapshot_cannot_be_written() -> None:
    with pytest.raises(SnapshotNotFoundError):
        encode_repo_info(replace(SAMPLE, branches={"main": SnapshotId(b"x" * 12)}))


def test_a_decoded_repo_object_can_be_pickled() -> None:
    info = again(SAMPLE)
    assert pickle.loads(pickle.dumps(info)) == SAMPLE


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
