"""Whatever is written comes back; editing columns gives what editing records would."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from frazil.formats import flex
from frazil.formats.ref_files import branch_key, decode_segment, encode_segment, parse_ref_key
from frazil.formats.repo_info import decode_repo_info, encode_repo_info, snapshot_table
from frazil.formats.snapshot import decode_snapshot, encode_snapshot
from frazil.maintenance.lineage import mask_of
from frazil.model.history import RepoInfo, Snapshot, SnapshotEntry, UpdateEntry, UpdateLog
from tests.property.histories import (
    histories,
    json_values,
    repo_infos,
    snapshots,
    update_entries,
)

KEY = "file"


@given(json_values)
def test_flexbuffers_keep_every_json_value(value: Any) -> None:  # noqa: ANN401  # any JSON
    again = flex.loads(flex.dumps(value), key=KEY)
    assert again == value
    assert repr(ordered(again)) == repr(ordered(value))


@given(snapshots())
def test_snapshots_of_spec_1_come_back(snapshot: Snapshot) -> None:
    assert decode_snapshot(encode_snapshot(snapshot, spec=1), key=KEY) == snapshot


@given(snapshots())
def test_snapshots_of_spec_2_come_back_without_their_parent(snapshot: Snapshot) -> None:
    again = decode_snapshot(encode_snapshot(snapshot, spec=2), key=KEY)
    assert again == replace(snapshot, parent_id=None)


@given(repo_infos())
def test_repo_objects_come_back(info: RepoInfo) -> None:
    again = decode_repo_info(encode_repo_info(info), key=KEY)
    assert again == info
    assert decode_repo_info(encode_repo_info(again), key=KEY) == info


@given(histories(min_size=2), st.data())
def test_a_table_grown_one_by_one_equals_one_made_at_once(
    entries: list[SnapshotEntry], data: st.DataObject
) -> None:
    cut = data.draw(st.integers(1, len(entries)))
    table = snapshot_table(entries[:cut])
    for entry in entries[cut:]:
        table = table.with_entry(entry)
    assert table == snapshot_table(entries)
    assert table == {entry.id: entry for entry in entries}


@given(histories(min_size=2))
def test_leaves_can_be_taken_off_until_one_is_left(entries: list[SnapshotEntry]) -> None:
    table = snapshot_table(entries)
    while len(entries) > 1:
        table = table.without(mask_of(table, [entries.pop().id]))
        assert table == {entry.id: entry for entry in entries}


@given(st.lists(update_entries, max_size=6), update_entries, st.integers(1, 4))
def test_the_log_is_cut_as_a_list_would_be(
    lines: list[UpdateEntry], newest: UpdateEntry, limit: int
) -> None:
    log, dropped = UpdateLog.of(lines).with_newest(newest, backup_path="backup", limit=limit)
    expected = [newest, *lines]
    if lines:
        expected[1] = replace(lines[0], backup_path="backup")
    cut = next(
        (n for n, line in enumerate(expected) if n >= limit and line.backup_path is not None), None
    )
    assert dropped == (None if cut is None else expected[cut].backup_path)
    assert list(log) == expected[:cut]


@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="/")), st.booleans())
def test_ref_names_come_back_from_their_keys(name: str, encoded: bool) -> None:
    assert parse_ref_key(branch_key(name, encoded=encoded), encoded=encoded) == ("branch", name)


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_encoded_segments_are_plain_ascii_without_separators(name: str) -> None:
    segment = encode_segment(name)
    assert segment.isascii()
    assert "/" not in segment
    assert segment not in (".", "..")
    assert decode_segment(segment) == name


def ordered(value: Any) -> Any:  # noqa: ANN401  # any JSON
    """The same value with all keys in order."""
    if isinstance(value, dict):
        return {name: ordered(value[name]) for name in sorted(value)}
    return [ordered(item) for item in value] if isinstance(value, list) else value
