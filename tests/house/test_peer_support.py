"""The comparison of descriptions notices what it should and forgives only what it must."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from tests.support.peer import assert_same, differences, without_ids


def description(snapshot: str, node: str, manifest: str, size: int) -> dict[str, Any]:
    """A repository with one array, under the ids given."""
    return {
        "branches": {"main": snapshot},
        "history": {
            "branch main": [{"id": snapshot, "written_at": f"time {size}", "metadata": {"k": 1}}]
        },
        "snapshots": {
            snapshot: {
                "keys": {"a/zarr.json": "5:abc"},
                "nodes": {"/a": {"id": node, "manifests": [[manifest, [[0, 2]]]], "values": [1]}},
                "manifests": {manifest: [size, 2]},
            }
        },
    }


def test_equal_values_have_no_differences() -> None:
    left = description("S", "N", "M", 1)
    assert differences(left, copy.deepcopy(left)) == []


@pytest.mark.parametrize(
    ("left", "right", "found"),
    [
        ({"a": {"b": 1}}, {"a": {"b": 2}}, ["/a/b: 1 != 2"]),
        ({"a": 1}, {}, ["/a: 1 != 'absent'"]),
        ([1, 2], [1, 3], ["[1]: 2 != 3"]),
        ([1], [1, 2], [": [1] != [1, 2]"]),
        ({"a": None}, {"a": 0}, ["/a: None != 0"]),
    ],
)
def test_differences_are_named_by_place(left: object, right: object, found: list[str]) -> None:
    assert differences(left, right) == found
    with pytest.raises(pytest.fail.Exception, match="descriptions differ"):
        assert_same(left, right)


def test_ids_times_and_sizes_are_forgiven() -> None:
    ours = without_ids(description("S", "N", "M", 1))
    theirs = without_ids(description("X", "Y", "Z", 2))
    assert differences(ours, theirs) == []


@pytest.mark.parametrize(("field", "value"), [("values", [2]), ("manifests", [["M", [[0, 3]]]])])
def test_contents_are_not_forgiven(field: str, value: object) -> None:
    ours, theirs = description("S", "N", "M", 1), description("S", "N", "M", 1)
    theirs["snapshots"]["S"]["nodes"]["/a"][field] = value
    assert differences(without_ids(ours), without_ids(theirs))
