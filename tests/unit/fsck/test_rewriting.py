"""The commit of a repair: what it says of itself, and what it carries on."""

from __future__ import annotations

import numpy as np
import pytest

from frazil.errors import ConflictError
from frazil.fsck import Code, fsck
from frazil.fsck.plans import RepairState
from frazil.fsck.rebuilding_arrays import Rewrite, plan_rewrite
from frazil.fsck.rewriting import MESSAGE, METADATA, commit_rewrite
from frazil.ids import SnapshotId
from frazil.model.marks import CARRIED, INGEST, TXN_APP, TXN_VERSION, marks_of, packed
from frazil.storage.assets import manifest_key
from frazil.transaction.opened import context_of
from tests.support.nodes import array_document, write_keys
from tests.unit.fsck.defects import chunk_of, manifest_recorded_too_short
from tests.unit.fsck.samples import CHUNK, Sick, commit, files_of


def planned(sick: Sick) -> Rewrite:
    """What brings main back."""
    context = context_of(sick.repository)
    branches = {"main": sick.tip}
    entries = {one: sick.snapshot(one).entry(None) for one in sick.history}
    files = files_of(sick.storage, sick.spec)
    state = RepairState(files, context.generation, branches, {}, entries)
    rewrite = plan_rewrite(state, "main", "drop")
    assert rewrite is not None
    assert rewrite.is_needed
    return rewrite


def repaired(sick: Sick) -> SnapshotId:
    """The commit that brings main back."""
    return commit_rewrite(context_of(sick.repository), planned(sick))


def test_a_repair_is_a_commit_upon_the_damaged_one(sick: Sick) -> None:
    before = sick.history
    sick.delete(chunk_of(sick, 1))
    made = repaired(sick)
    assert sick.history == [made, *before]
    snapshot = sick.snapshot()
    assert (snapshot.message, snapshot.flushed_at > sick.snapshot(before[0]).flushed_at) == (
        MESSAGE,
        True,
    )
    facts = snapshot.metadata[METADATA]
    assert isinstance(facts, dict)
    assert (facts["branch"], facts["base"]) == ("main", str(before[0]))
    assert sick.repository.lookup_branch("main") == str(made)


def test_its_log_lists_the_chunks_that_are_gone(sick: Sick) -> None:
    for index in (3, 1):
        sick.delete(chunk_of(sick, index))
    repaired(sick)
    log = sick.log()
    assert {one: rows.tolist() for one, rows in log.updated_chunks.items()} == {
        sick.node("/a").id: [[1], [3]]
    }
    assert not log.updated_arrays
    assert fsck(sick.storage, refs=["main"], ancestors=False).is_clean


def test_manifests_that_are_whole_stay_and_others_are_written_anew(sick: Sick) -> None:
    first, last = sorted(sick.node("/a").manifests, key=lambda ref: ref.extents)
    others = {path: sick.node(path).manifests for path in ("/v",)}
    sick.delete(chunk_of(sick, 1))
    repaired(sick)
    kept, new = sorted(sick.node("/a").manifests, key=lambda ref: ref.id != last.id)
    assert kept == last
    assert (new.id != first.id, new.extents) == (True, ((0, 4),))
    assert {path: sick.node(path).manifests for path in others} == others
    listed = {file.id: file for file in sick.snapshot().manifest_files}
    assert first.id not in listed
    assert listed[new.id].num_chunk_refs == 3
    assert listed[new.id].size_bytes == len(sick.get(manifest_key(new.id)))


def test_sizes_are_recorded_as_they_are(sick: Sick) -> None:
    manifest_recorded_too_short(sick)
    assert Code.MANIFEST_SIZE in fsck(sick.storage).codes()
    repaired(sick)
    [file] = [each for each in sick.snapshot().manifest_files if each.id == sick.manifest_id()]
    assert file.size_bytes == len(sick.get(sick.manifest_key()))
    assert not sick.log().updated_chunks


def test_a_scalar_that_is_lost_is_one_chunk(sick: Sick) -> None:
    commit(sick.repository, "scalar", {"s/zarr.json": array_document(), "s/c": CHUNK})
    ref = sick.manifest("/s").table(sick.node("/s").id)
    assert ref is not None
    sick.delete(f"chunks/{ref.ref(0).chunk_id}")  # type: ignore[union-attr]
    repaired(sick)
    np.testing.assert_array_equal(
        sick.log().updated_chunks[sick.node("/s").id], np.zeros((1, 0), np.uint32)
    )
    assert sick.node("/s").manifests == ()


def test_a_repair_carries_on_the_numbers_of_series_and_not_files(sick: Sick) -> None:
    session = sick.repository.writable_session("main")
    write_keys(session, {"a/c/0": CHUNK[::-1]})
    ingested = {"group": "", "files": 1, "marks": packed({b"file----": b"done"})}
    session.commit("batch", {TXN_APP: "stream", TXN_VERSION: 7, INGEST: ingested})
    sick.delete(chunk_of(sick, 1))
    repaired(sick)
    metadata = sick.snapshot().metadata
    assert metadata.keys() == {METADATA, CARRIED}
    # The work is not repeated, though programs that know nothing of marks drop the older commit.
    assert (marks_of(metadata).series, marks_of(metadata).files) == ({"stream": 7}, {})


def test_a_repair_of_a_branch_that_has_moved_on_is_refused(sick: Sick) -> None:
    sick.delete(chunk_of(sick, 1))
    rewrite = planned(sick)
    tip = commit(sick.repository, "between", a__c__7=CHUNK[::-1])
    with pytest.raises(ConflictError):
        commit_rewrite(context_of(sick.repository), rewrite)
    assert sick.repository.lookup_branch("main") == tip
