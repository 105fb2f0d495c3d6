"""References of files as tables and manifests of an array."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from frazil.errors import ErrorKind, InvalidInputError
from frazil.ingestion.manifests import (
    FilePart,
    cells,
    covered,
    merged_manifests,
    part_of,
    split_rows,
    table_of,
    write_cell,
)
from frazil.ingestion.plans import IngestPlan
from frazil.ingestion.records import FileReferences
from frazil.ingestion.target import add_missing
from frazil.ingestion.writing import make_array, make_groups
from frazil.model.chunks import InlineRef
from frazil.model.config import ManifestConfig, RepositoryConfig
from frazil.model.manifest_config import (
    ManifestSplitCondition,
    ManifestSplitDimCondition,
    ManifestSplittingConfig,
)
from frazil.repository import Repository
from frazil.session import Session
from frazil.storage.memory import MemoryStorage
from tests.support.scans import RAW, array_of, data, planned, scan


def part(refs: FileReferences, *start: int, **changes: object) -> FilePart:
    """A part of an array, along its first axis."""
    made = FilePart(refs, (len(refs),), (0,), start or (0,), "file:///data/a", "tag")
    return replace(made, **changes)  # type: ignore[arg-type]


# --- tables ---


def test_uncompressed_chunks_are_cut_into_fewer_rows() -> None:
    whole = data("file:///data/0.nc", {"time": 5, "lat": 2}, (4, 2), RAW)
    cut = split_rows(whole, 2)
    assert (cut.chunks, cut.grid) == ((2, 2), (3, 1))
    assert cut.references is not None
    assert cut.references.index.tolist() == [0, 1, 2]
    assert cut.references.offset.tolist() == [0, 16, 100]
    assert cut.references.length.tolist() == [16] * 3
    assert split_rows(whole, 4) is whole


def test_the_first_chunk_of_a_part_is_where_the_parts_before_it_end() -> None:
    plan, _ = planned(scan(0, time=[4, 5, 6, 7]), scan(1, time=[0, 1, 2, 3]))
    found = [part_of(plan, array_of(plan), file) for file in range(2)]
    assert [each.start for each in found] == [(2, 0), (0, 0)]
    assert [each.axes for each in found] == [(0, 1)] * 2
    assert [each.checksum for each in found] == ["tag"] * 2


def test_axes_that_a_file_lacks_have_one_chunk_of_it() -> None:
    refs = FileReferences.of_file("file:///data/a", [0, 1], [0, 8], [8, 8])
    table = table_of([part(refs, 7, 0, axes=(1,))], 2)
    assert table.coords.tolist() == [[7, 0], [7, 1]]


def test_bytes_that_came_along_stay_with_their_chunks() -> None:
    own = FileReferences.of_rows([(0, 0, 2, ""), (1, 5, 4, "file:///data/a")], b"ab")
    table = table_of([part(own, 2), part(FileReferences.of_bytes(b"xyz")), part(own, 4)], 1)
    assert table.coords[:, 0].tolist() == [0, 2, 3, 4, 5]
    inline = [ref.data for _, ref in table.refs() if isinstance(ref, InlineRef)]
    assert [bytes(each) for each in inline] == [b"xyz", b"ab", b"ab"]


def test_every_location_keeps_the_mark_of_its_state() -> None:
    rows = [(0, 0, 4, "file:///data/a"), (1, 0, 4, "file:///data/b"), (2, 0, 4, "file:///data/c")]
    refs = FileReferences.of_rows(rows, marks={"file:///data/b": 99})
    table = table_of([part(refs)], 1)
    marks = [ref.checksum for _, ref in table.refs()]  # type: ignore[union-attr]
    assert marks[0] == "tag"
    assert table.last_modified.tolist() == [0, 99, 0]
    assert marks[2] is None


def test_chunks_without_bytes_are_not_there() -> None:
    refs = FileReferences.of_file("file:///data/a", [0, 1, 2], [0, 8, 8], [8, 0, 8])
    assert table_of([part(refs)], 1).coords[:, 0].tolist() == [0, 2]
    assert len(table_of([], 3)) == 0


# --- manifests ---


def prepared(plan: IngestPlan, *prefixes: str) -> Session:
    """A session with the array of a plan, whose manifests have two chunks along the first axis."""
    splitting = ManifestSplittingConfig.from_dict(
        {ManifestSplitCondition.AnyArray(): {ManifestSplitDimCondition.Axis(0): 2}}
    )
    config = RepositoryConfig(manifest=ManifestConfig(splitting=splitting))
    add_missing(config, prefixes, {})
    session = Repository.create(MemoryStorage(), config).writable_session("main")
    make_groups(session, "", None)
    make_array(session, "/v", array_of(plan), plan)
    return session


def days(*numbers: int) -> IngestPlan:
    return planned(*(scan(n, time=[2 * n, 2 * n + 1], chunks=(1, 2)) for n in numbers))[0]


def test_tasks_write_one_manifest_for_each_part_of_the_grid() -> None:
    plan = days(0, 1, 2)
    session = prepared(plan, "file:///data/")
    state = session.state
    node = state.array("/v")
    found = [*cells(plan, array_of(plan), node, state.context)]
    assert [cell.box for cell in found] == [((0, 2), (0, 1)), ((2, 4), (0, 1)), ((4, 6), (0, 1))]
    assert [len(cell.parts) for cell in found] == [1, 1, 1]
    written = [each for cell in reversed(found) for each in write_cell(state.context, cell)]
    assert [each.coords for each in written] == [None] * 3
    assert {each.nbytes for each in written} == {200}
    ready = merged_manifests(written, 2)
    assert ready.coords.tolist() == [[n, 0] for n in range(6)]
    state.set_manifests(node, ready)
    session.commit("refer")
    kept = session.state.array("/v")
    assert [ref.extents[0] for ref in kept.manifests] == [(0, 2), (2, 4), (4, 6)]
    assert session.state.table(kept).coords[:, 0].tolist() == [*range(6)]


def test_a_manifest_that_lacks_chunks_tells_which_it_has() -> None:
    refs = FileReferences.of_file("file:///data/a", [0, 3], [0, 8], [8, 8])
    plan = days(0, 1)
    session = prepared(plan, "file:///data/")
    context, node = session.state.context, session.state.array("/v")
    (cell, *_) = cells(plan, array_of(plan), node, context)
    sparse = replace(cell, box=((0, 4), (0, 1)), parts=(part(refs, 0, 0, grid=(4,)),))
    (written,) = write_cell(context, sparse)
    assert written.coords is not None
    assert written.coords.tolist() == [[0, 0], [3, 0]]
    assert written.file.num_chunk_refs == 2
    assert write_cell(context, replace(sparse, parts=())) == []


def test_a_location_that_no_container_covers_is_named() -> None:
    plan = days(0)
    context = prepared(plan, "file:///elsewhere/").state.context
    table = table_of([part_of(plan, array_of(plan), 0)], 2)
    with pytest.raises(InvalidInputError, match="no virtual chunk container") as refusal:
        covered(context, table)
    assert refusal.value.kind == ErrorKind.NO_CONTAINER_FOR_VIRTUAL_CHUNK
    assert "/data/0.nc" in str(refusal.value)


def test_an_array_without_chunks_has_no_manifests() -> None:
    ready = merged_manifests([], 2)
    assert ready.coords.shape == (0, 2)
    assert ready.coords.dtype == np.uint32
