"""The state file of G1 and the changes it goes through."""

from __future__ import annotations

import json
from typing import Any

import pytest

from frazil.errors import (
    AlreadyExistsError,
    ErrorKind,
    FormatError,
    InvalidInputError,
    RefNotFoundError,
)
from frazil.formats.legacy.g1_state import (
    G1State,
    StateRef,
    StateSnapshot,
    add_snapshot,
    create_ref,
    decode_state,
    delete_ref,
    encode_state,
    first_state,
    move_away,
    move_branch,
    new_item,
    properties_of,
    without_expired,
    without_snapshots,
)
from frazil.ids import SnapshotId
from tests.unit.formats.legacy.samples import dumps

DOCUMENT: dict[str, Any] = {
    "id": "000G40R40M30E209185GR38E1W",
    "generation": 1,
    "snapshots": [
        {
            "snapshot-id": "208H44RM2MB1E60S38DHR78Y3W",
            "parent-snapshot-id": None,
            "timestamp-ms": 1723200000000,
            "structure-file": "208H44RM2MB1E60S38DHR78Y3W.parquet",
            "properties": {"message": "Repository initialized"},
        },
        {
            "snapshot-id": "40GJ48S44MK2EA1958NJRB9E5W",
            "parent-snapshot-id": "208H44RM2MB1E60S38DHR78Y3W",
            "timestamp-ms": 1723200060000,
            "structure-file": "40GJ48S44MK2EA1958NJRB9E5W.parquet",
        },
    ],
    "refs": {
        "main": {"name": "main", "snapshot-id": "40GJ48S44MK2EA1958NJRB9E5W", "type": "branch"}
    },
}
ROOT, TIP = SnapshotId(bytes(range(16, 28))), SnapshotId(bytes(range(32, 44)))


def state(**changes: Any) -> G1State:  # noqa: ANN401 - fields of a JSON document
    """The state of the document, with other fields."""
    return decode_state(dumps(DOCUMENT | changes), key="state.json")


def grown(count: int) -> G1State:
    """A state with a line of commits, one second apart."""
    root = new_item(SnapshotId(bytes(12)), None, timestamp_ms=1000, properties={})
    found, parent = first_state("x", root), root
    for number in range(1, count):
        id = SnapshotId(bytes([number] * 12))
        parent = new_item(id, parent, timestamp_ms=1000 * (number + 1), properties={})
        found = add_snapshot(found, parent, "main")
    return found


def test_the_sample_is_read_and_written() -> None:
    blob = dumps(DOCUMENT)
    found = decode_state(blob, key="state.json")
    assert [item.id for item in found.snapshots] == [ROOT, TIP]
    assert found.snapshots[0].message == "Repository initialized"
    assert found.snapshots[1].message == ""
    assert found.refs["main"].id == TIP
    assert [item.id for item in found.ancestry(TIP)] == [TIP, ROOT]
    assert encode_state(found) == blob


def test_unknown_keys_stay() -> None:
    document = json.loads(dumps(DOCUMENT))
    document["owner"] = {"a": [1]}
    document["snapshots"][0]["colour"] = "red"
    document["refs"]["main"]["since"] = 5
    document["store_root"] = "s3://bucket/x"
    found = decode_state(dumps(document), key="state.json")
    moved = move_branch(found, "main", found.snapshots[0].name)
    again = json.loads(encode_state(moved))
    assert again["owner"] == {"a": [1]}
    assert again["snapshots"][0]["colour"] == "red"
    assert again["refs"]["main"] == {
        "name": "main",
        "snapshot-id": "208H44RM2MB1E60S38DHR78Y3W",
        "type": "branch",
        "since": 5,
    }
    assert again["store_root"] == "s3://bucket/x"


def test_a_commit_adds_one_to_the_generation() -> None:
    found = grown(3)
    assert found.generation == 2
    assert len(found.snapshots) == 3
    assert found.refs["main"].snapshot == found.snapshots[-1].name
    assert decode_state(encode_state(found), key="state.json") == found


def test_times_ascend_even_if_clocks_do_not() -> None:
    root = new_item(SnapshotId(bytes(12)), None, timestamp_ms=5000, properties={})
    child = new_item(SnapshotId(bytes([1] * 12)), root, timestamp_ms=4000, properties={})
    assert child.timestamp_ms == 5001
    assert child.parent_id == root.id


def test_branches_and_tags() -> None:
    found = state()
    tip = found.snapshots[-1].name
    found = create_ref(found, "dev", "branch", tip)
    found = create_ref(found, "v1", "tag", tip)
    assert found.generation == 3
    assert found.refs["v1"] == StateRef(tip, "tag")
    with pytest.raises(AlreadyExistsError) as caught:
        create_ref(found, "v1", "branch", tip)
    assert caught.value.kind is ErrorKind.TAG_ALREADY_EXISTS
    with pytest.raises(RefNotFoundError):
        move_branch(found, "v1", tip)
    with pytest.raises(RefNotFoundError):
        delete_ref(found, "dev", "tag")
    found = delete_ref(delete_ref(found, "dev", "branch"), "v1", "tag")
    assert set(found.refs) == {"main"}
    with pytest.raises(AlreadyExistsError) as caught:
        create_ref(found, "v1", "tag", tip)
    assert caught.value.kind is ErrorKind.TAG_PREVIOUSLY_DELETED
    assert decode_state(encode_state(found), key="k").deleted_tags == ("v1",)


def test_a_commit_needs_its_branch() -> None:
    found = state()
    with pytest.raises(RefNotFoundError):
        add_snapshot(found, found.snapshots[0], "dev")


def test_expiry_keeps_what_refs_point_to() -> None:
    found = grown(5)
    found = create_ref(found, "v1", "tag", found.snapshots[1].name)
    left, gone = without_expired(found, 4000)
    assert gone == {found.snapshots[0].id, found.snapshots[2].id}
    assert left.generation == found.generation + 1
    kept = {item.name: item.parent for item in left.snapshots}
    names = [item.name for item in found.snapshots]
    assert kept == {names[1]: None, names[3]: names[1], names[4]: names[3]}


def test_everything_but_the_tip_may_go() -> None:
    found = grown(4)
    left, gone = without_expired(found, 10**9)
    assert len(gone) == 3
    assert [item.parent for item in left.snapshots] == [None]
    assert without_snapshots(left, gone).snapshots == left.snapshots


def test_a_repository_that_moved_away() -> None:
    found = decode_state(encode_state(move_away(state(), "spec-v2")), key="k")
    assert found.moved_to == "spec-v2"


def test_messages_are_properties() -> None:
    assert properties_of("hello", {"a": 1}) == {"message": "hello", "a": 1}
    item = StateSnapshot("x", None, 0, "x", properties_of("hello", {"a": 1}))
    assert (item.message, item.metadata) == ("hello", {"a": 1})
    with pytest.raises(InvalidInputError) as caught:
        properties_of("hello", {"message": "mine"})
    assert caught.value.kind is ErrorKind.NOT_REPRESENTABLE
    odd = StateSnapshot("x", None, 0, "x", {"message": 5})
    assert (odd.message, odd.metadata) == ("", {"message": 5})


def snapshot(**changes: Any) -> dict[str, Any]:  # noqa: ANN401 - fields of a JSON document
    """An entry of the list of snapshots."""
    found: dict[str, Any] = DOCUMENT["snapshots"][0] | changes
    return found


@pytest.mark.parametrize(
    "changes",
    [
        {"id": 5},
        {"generation": -1},
        {"generation": "1"},
        {"snapshots": None},
        {"snapshots": [5]},
        {"snapshots": [snapshot(), snapshot()]},
        {"snapshots": [snapshot(**{"snapshot-id": None})]},
        {"snapshots": [snapshot(**{"timestamp-ms": 10**18})]},
        {"snapshots": [snapshot(**{"structure-file": "../x"})]},
        {"snapshots": [snapshot(properties=[])]},
        {"refs": []},
        {"refs": {"main": {"name": "dev", "snapshot-id": "x", "type": "branch"}}},
        {"refs": {"main": {"name": "main", "snapshot-id": "x", "type": "note"}}},
        {"refs": {"main": {"name": "main", "type": "tag"}}},
        {"deleted-tags": [5]},
        {"store_root": 5},
    ],
)
def test_damage_is_told(changes: dict[str, Any]) -> None:
    if changes == {"refs": []}:
        assert state(**changes).refs == {}
        return
    with pytest.raises(FormatError) as caught:
        state(**changes)
    assert caught.value.facts["key"] == "state.json"


@pytest.mark.parametrize("raw", [b"", b"[]", b"{", b"[" * 100_000])
def test_other_files_are_no_state(raw: bytes) -> None:
    with pytest.raises(FormatError):
        decode_state(raw, key="state.json")


def test_circles_are_told() -> None:
    items = [snapshot(**{"parent-snapshot-id": "208H44RM2MB1E60S38DHR78Y3W"})]
    found = state(snapshots=items)
    with pytest.raises(FormatError, match="own ancestor"):
        list(found.ancestry(ROOT))
    assert without_snapshots(found, {ROOT}).snapshots == ()
