"""Records as plain data: how times, updates and secrets are written."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from frazil.formats import flex
from frazil.formats.envelope import Envelope, FileKind
from frazil.ids import SnapshotId
from frazil.maintenance.descriptions import describe_repo, header_of, moment_of, rest_of_repo
from frazil.model.history import (
    RepoAvailability,
    RepoInfo,
    SnapshotEntry,
    StoredStatus,
    UnknownUpdate,
    UpdateEntry,
    UpdateKind,
    UpdateType,
)
from frazil.model.plain import JSON
from frazil.model.snapshots import SnapshotTable

SOME = SnapshotId(bytes(range(12)))
FILE = Envelope(2, FileKind.REPO_INFO, "ic-2.3.0", b"")


def info(*updates: UpdateKind, config: JSON = None) -> RepoInfo:
    """A repo object with one snapshot and some lines of its operations log."""
    entry = SnapshotEntry(SOME, None, 0, "first", {})
    return RepoInfo(
        spec_version=2,
        tags={"b": SOME, "a": SOME},
        branches={"main": SOME},
        deleted_tags=frozenset({"z", "é", "y"}),
        snapshots=SnapshotTable.of([entry], flex.codec("repo")),
        status=StoredStatus(RepoAvailability.read_only, 0, "moving"),
        metadata={},
        latest_updates=[UpdateEntry(each, 0) for each in updates],
        config=config,
        enabled_feature_flags=frozenset({3, 1}),
    )


@pytest.mark.parametrize(
    ("micros", "text"),
    [
        (0, "2024-05-01T12:00:00Z"),
        (120_000, "2024-05-01T12:00:00.120Z"),
        (120_001, "2024-05-01T12:00:00.120001Z"),
    ],
)
def test_times_have_as_many_digits_as_they_need(micros: int, text: str) -> None:
    assert moment_of(datetime(2024, 5, 1, 12, 0, 0, micros, UTC)) == text


@pytest.mark.parametrize(
    ("update", "shown"),
    [
        (UpdateType.GCRan(), {"type": "GCRanUpdate"}),
        (
            UpdateType.BranchReset("main", SOME),
            {"type": "BranchResetUpdate", "name": "main", "previous_snap_id": str(SOME)},
        ),
        (
            UpdateType.RepoMigrated(1, 2),
            {"type": "RepoMigratedUpdate", "from_version": "1.0", "to_version": "2.0"},
        ),
        (
            UpdateType.RepoStatusChanged(StoredStatus(RepoAvailability.offline, 0)),
            {
                "type": "RepoStatusChangedUpdate",
                "status": {
                    "availability": "Offline",
                    "set_at": "1970-01-01T00:00:00Z",
                    "limited_availability_reason": None,
                },
            },
        ),
        (
            UpdateType.FeatureFlagChanged(2, False),
            {"type": "FeatureFlagChanged", "id": 2, "new_value": False},
        ),
        (UnknownUpdate(99), {"type": "UnknownUpdate", "tag": 99}),
    ],
)
def test_updates_have_the_official_names(update: UpdateKind, shown: dict[str, object]) -> None:
    (found,) = describe_repo(info(update), FILE)["latest_updates"]
    assert found["update_type"] == shown
    assert "backup_path" not in found


def test_refs_are_sorted() -> None:
    found = describe_repo(info(), FILE)
    assert list(found["tags"]) == ["a", "b"]
    assert found["deleted_tags"] == ["y", "z", "é"]


def test_what_the_official_description_leaves_out_has_no_secrets() -> None:
    stored = {"virtual_chunk_containers": {"s3://b/": {"url_prefix": "https://me:word@host/b"}}}
    found = rest_of_repo(info(config=stored))
    assert "word" not in str(found["config"])
    assert "host/b" in str(found["config"])
    assert found["status"]["limited_availability_reason"] == "moving"
    assert found["enabled_feature_flags"] == [1, 3]


@pytest.mark.parametrize(
    ("writer", "app"),
    [
        ("ic-2.3.0", {"app_name": "ic", "app_version": "2.3.0"}),
        ("somebody", {"app_name": "somebody"}),
    ],
)
def test_a_writer_has_a_version_if_it_tells_one(writer: str, app: dict[str, str]) -> None:
    found = header_of(Envelope(2, FileKind.TRANSACTION_LOG, writer, b""))
    assert {name: found[name] for name in found if name.startswith("app_")} == app
    assert found["file_type"] == "transaction-log"
