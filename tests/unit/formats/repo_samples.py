"""A repo object with a line of every kind, and ways into the bytes of its file."""

from __future__ import annotations

from frazil.flatbuf.reader import Buffer, Table
from frazil.formats.envelope import FileKind, seal, unseal
from frazil.formats.repo_info import decode_repo_info, encode_repo_info, snapshot_table
from frazil.ids import SnapshotId
from frazil.model.history import (
    RepoAvailability,
    RepoInfo,
    SnapshotEntry,
    StoredStatus,
    UpdateEntry,
    UpdateKind,
    UpdateLog,
    UpdateType,
)

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


def patched(slot: int, row: int, field: int, raw: bytes) -> bytes:
    """The sample with one inline field of one table of a vector overwritten."""
    body = bytearray(unseal(encode_repo_info(SAMPLE), FileKind.REPO_INFO, key=KEY).body)
    at = list(Buffer(bytes(body), KEY).root().tables(slot))[row].at(field)
    assert at is not None
    body[at : at + len(raw)] = raw
    return seal(bytes(body), FileKind.REPO_INFO, spec=2)
