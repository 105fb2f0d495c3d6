"""Merging one array: whose structure, chunks and names of axes it has in the end."""

from __future__ import annotations

import json

import pytest

from frazil.errors import MergeConflictError
from frazil.merging.records import ConflictKind
from tests.support.branches import Branches
from tests.support.nodes import array_document, group_document

ATTRIBUTES = {"units": "K", "old": 1}
WIDER = array_document(6, data_type="uint16", attributes=ATTRIBUTES)


def merge(repo: Branches, policy: str = "fail") -> None:
    repo.repository.versions.merge("dev", "main", policy=policy)


def test_our_structure_goes_with_attributes_of_theirs(repo: Branches) -> None:
    repo.commit("main", {"a/zarr.json": WIDER, "a/c/0": b"wide"})
    described = array_document(6, attributes={"units": "C", "old": 1})
    repo.commit("dev", {"a/zarr.json": described})
    merge(repo)
    found = repo.document("main", "a")
    assert (found["data_type"], found["attributes"]["units"]) == ("uint16", "C")
    assert repo.chunks("main", "a")["0"] == b"wide"


def test_ours_is_taken_whole_although_theirs_was_made_anew(repo: Branches) -> None:
    repo.commit("main", {"a/c/0": b"ours"})
    repo.commit("dev", {"a/zarr.json": None})
    repo.commit("dev", {"a/zarr.json": WIDER, "a/c/0": b"theirs"})
    merge(repo, "ours")
    assert repo.document("main", "a")["data_type"] == "uint8"
    assert repo.chunks("main", "a") == {"0": b"ours", "1": b"a1"}


def test_axes_of_theirs_do_not_get_names_of_ours(repo: Branches) -> None:
    named = array_document(6, attributes=ATTRIBUTES, dimension_names=["x"])
    repo.commit("main", {"a/zarr.json": named})
    repo.commit("dev", {"a/zarr.json": None})
    repo.commit("dev", {"a/zarr.json": array_document(2, 2), "a/c/1/1": b"flat"})
    merge(repo, "theirs")
    assert "dimension_names" not in repo.document("main", "a")
    assert repo.chunks("main", "a") == {"1/1": b"flat"}


def test_a_document_that_is_only_spelled_anew_is_not_changed(repo: Branches) -> None:
    plain = json.loads(array_document(6, attributes=ATTRIBUTES))
    spelled = json.dumps(dict(reversed(plain.items())), indent=7).encode()
    repo.commit("main", {"a/zarr.json": None})
    repo.commit("dev", {"a/zarr.json": spelled})
    merge(repo)
    assert repo.nodes("main") == {"g", "g/b"}


def test_nothing_is_taken_for_what_crossed_branches_disagreed_about(repo: Branches) -> None:
    """Null is a value of an attribute like any other, and no sign of a clash."""
    repo.commit("main", {"zarr.json": group_document(title="m", old=1)})
    repo.commit("dev", {"zarr.json": group_document(title="d", old=1)})
    repo.branch("main-then", "main")
    repo.branch("dev-then", "dev")
    repo.repository.versions.merge("dev-then", "main", policy="ours")
    repo.repository.versions.merge("main-then", "dev", policy="ours")
    repo.commit("main", {"zarr.json": group_document(title=None, old=1)})
    with pytest.raises(MergeConflictError) as raised:
        merge(repo)
    (found,) = raised.value.report.conflicts
    assert (found.kind, found.ours, found.theirs) == (ConflictKind.ATTRIBUTE, None, "d")


def test_our_new_axes_stay_where_theirs_were_only_described_anew(repo: Branches) -> None:
    repo.commit("main", {"a/zarr.json": None})
    repo.commit(
        "main", {"a/zarr.json": array_document(2, 2, attributes=ATTRIBUTES), "a/c/1/1": b"flat"}
    )
    described = array_document(6, attributes={"units": "C", "old": 1})
    repo.commit("dev", {"a/zarr.json": described})
    merge(repo)
    assert repo.document("main", "a")["shape"] == [2, 2]
    assert repo.document("main", "a")["attributes"]["units"] == "C"
    assert repo.chunks("main", "a") == {"1/1": b"flat"}
