"""Plans become groups, arrays and values of a session."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import zarr

from frazil.errors import AlreadyExistsError, InvalidInputError
from frazil.ingestion.encoding import Meaning, encoding_of
from frazil.ingestion.plans import IngestPlan, PlannedArray
from frazil.ingestion.records import FileVariable
from frazil.ingestion.writing import (
    loaded_values,
    make_array,
    make_groups,
    read_base,
    settle_array,
    write_loaded,
    write_values,
)
from frazil.repository import Repository
from frazil.session import Session
from frazil.storage.memory import MemoryStorage
from tests.support.scans import array_of, base, coordinate, planned, scan


@pytest.fixture
def session() -> Session:
    return Repository.create(MemoryStorage()).writable_session("main")


def values(session: Session, path: str) -> list[Any]:
    array = zarr.open_array(session.store, path=path, mode="r")
    return np.asarray(array[...]).tolist()  # type: ignore[no-any-return]


def attributes(session: Session, path: str) -> dict[str, Any]:
    node = session.state.tree.get(path)
    assert node is not None
    return json.loads(node.user_data)["attributes"]  # type: ignore[no-any-return]


def written(session: Session, plan: IngestPlan, name: str) -> PlannedArray:
    make_groups(session, "", None)
    array = array_of(plan, name)
    make_array(session, f"/{name}", array, plan)
    write_loaded(session, f"/{name}", array, plan)
    return array


# --- what is there ---


def test_a_group_without_arrays_is_no_base(session: Session) -> None:
    assert read_base(session, "") is None
    assert read_base(session, "/nowhere") is None
    zarr.create_group(session.store, path="g/inner").create_array("v", shape=(2,), dtype="i4")
    assert read_base(session, "/g") is None  # what is in groups of it does not count


def test_an_array_where_the_group_should_be_is_told(session: Session) -> None:
    zarr.create_group(session.store).create_array("v", shape=(2,), dtype="i4")
    with pytest.raises(InvalidInputError, match="an array where the group should be") as refusal:
        read_base(session, "/v")
    assert "/v" in str(refusal.value)


def test_coordinates_of_what_is_there_come_with_their_values(session: Session) -> None:
    group = zarr.create_group(session.store, path="g", attributes={"title": "here"})
    for name, dims in (("time", ("time",)), ("v", ("time",))):
        array = group.create_array(name, shape=(3,), dtype="f8", dimension_names=dims)
        array[:] = np.arange(3.0)
    found = read_base(session, "/g")
    assert found is not None
    scanned, native = found
    assert json.loads(scanned.attributes) == {"title": "here"}
    assert native == {"time", "v"}
    labels = scanned["time"].values
    assert labels is not None
    assert labels.tolist() == [0, 1, 2]
    assert scanned["v"].values is None


# --- groups and arrays ---


def test_groups_above_are_made_and_keep_their_attributes(session: Session) -> None:
    make_groups(session, "a/b", '{"title":"ä"}')
    assert attributes(session, "/a/b") == {"title": "ä"}
    assert attributes(session, "/a") == attributes(session, "/") == {}
    make_groups(session, "a", '{"title":"above"}')
    make_groups(session, "a/b", "{}")
    make_groups(session, "a/b", None)
    assert attributes(session, "/a") == {"title": "above"}
    assert attributes(session, "/a/b") == {"title": "ä"}


def test_an_array_that_is_there_is_not_made_anew(session: Session) -> None:
    plan, _ = planned(scan(0, time=[0, 1]))
    array = written(session, plan, "lat")
    with pytest.raises(AlreadyExistsError, match="append to it, or choose another group"):
        make_array(session, "/lat", array, plan)
    make_array(session, "/lat", replace(array, shape=(5,), base_shape=(2,)), plan)
    assert session.array("/lat").shape == (5,)


@pytest.mark.parametrize(
    ("count", "chunk"), [(1, 1024), (1024, 1024), (1025, 2048), (70_000, 65_536)]
)
def test_labels_that_can_grow_have_chunks_of_a_power_of_two(count: int, chunk: int) -> None:
    plan, _ = planned(scan(0, time=[*range(count)]), concat_dims=("time",))
    assert settle_array(array_of(plan, "time"), plan)[0] == (chunk,)
    assert settle_array(array_of(plan, "lat"), plan)[0] == (2,)


# --- values ---


def test_labels_of_all_files_are_written_in_order(session: Session) -> None:
    plan, _ = planned(scan(0, time=[2, 3]), scan(1, time=[0, 1]))
    written(session, plan, "time")
    assert values(session, "time") == [0, 1, 2, 3]


def test_labels_are_appended_behind_those_that_are_there(session: Session) -> None:
    first, _ = planned(scan(0, time=[0, 1]), concat_dims=("time",))
    written(session, first, "time")
    more, _ = planned(scan(0, time=[2, 3, 4]), base=base(time=[0, 1]))
    array = written(session, more, "time")
    assert array.base_shape == (2,)
    assert values(session, "time") == [0, 1, 2, 3, 4]
    still = replace(array_of(more, "time"), base_shape=(5,))
    assert write_loaded(session, "/time", still, more) == 0


def test_what_the_type_that_is_there_cannot_hold_is_refused(session: Session) -> None:
    more, _ = planned(scan(0, time=[2.0, 3.5]), base=base(time=[0, 1]))
    whole = replace(array_of(more, "time"), encoding=encoding_of(Meaning(np.dtype("<i4"), 0)))
    with pytest.raises(InvalidInputError, match="'time' cannot be stored as int32"):
        write_loaded(session, "/time", whole, more)


def test_values_that_no_file_has_are_the_fill_value() -> None:
    def labels(number: int) -> FileVariable:
        return replace(coordinate("name", [5, 6], _FillValue=-1), dims=("time",))

    plan, _ = planned(
        scan(0, time=[0, 1], more={"name": labels(0)}),
        scan(1, time=[2, 3], more={"name": labels(1)}),
    )
    array = array_of(plan, "name")
    assert loaded_values(plan, array).tolist() == [5, 6, 5, 6]
    assert loaded_values(plan, replace(array, files=(1,))).tolist() == [-1, -1, 5, 6]


def test_bounds_are_counted_from_where_their_times_are() -> None:
    def part(number: int, units: str) -> dict[str, FileVariable]:
        edges = np.array([[0.0, 1.0], [1.0, 2.0]])
        bounds = replace(coordinate("edges", edges, units=units), dims=("time", "nv"))
        return {"time": coordinate("time", [0, 1], units=units, bounds="edges"), "edges": bounds}

    units = ("days since 2000-01-01", "days since 2000-01-03")
    plan, findings = planned(
        *(scan(n, time=[0, 1], more=part(n, each)) for n, each in enumerate(units))
    )
    assert not findings.errors
    found = loaded_values(plan, array_of(plan, "edges"))
    assert found.tolist() == [[0, 1], [1, 2], [2, 3], [3, 4]]


@pytest.mark.filterwarnings("ignore::zarr.errors.ZarrUserWarning")
def test_texts_and_scalars_are_written_too(session: Session) -> None:
    group = zarr.create_group(session.store)
    group.create_array("s", shape=(), dtype="i4")
    group.create_array("t", shape=(3,), dtype=str)
    group.create_array("v", shape=(3,), dtype="i4")
    write_values(session, "/s", (), np.array(7, "i4"))
    write_values(session, "/t", (slice(1, 3),), np.array(["ä", "b"], np.dtypes.StringDType()))
    write_values(session, "/v", (slice(0, 2),), np.array([1, 2], "i4"))
    found = [values(session, name) for name in "stv"]
    assert found == [7, ["", "ä", "b"], [1, 2, 0]]
