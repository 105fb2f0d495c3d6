"""Tables of more rows than anybody can read cost what is chosen of them, or are refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import frazil.spark
from frazil.errors import InvalidInputError
from frazil.repository import Repository
from frazil.spark.reading import axis_masks
from tests.hostile.test_huge_grids import MIB, memory
from tests.support.nodes import array_document, group_document, write_keys
from tests.support.spark import partitions_of, read_here

FILL = 7


def table(
    path: Path, shape: tuple[int, ...], chunks: tuple[int, ...], *, names: str = "yx", **more: bytes
) -> Path:
    """An array of which nothing was written, whose axes have no labels unless `more` has some."""
    document = json.loads(array_document(*shape, chunks=chunks, fill_value=FILL))
    document["dimension_names"] = list(names[: len(shape)])
    session = Repository.create(str(path)).writable_session("main")
    keys = {f"{name}/zarr.json": text for name, text in more.items()}
    write_keys(session, {"zarr.json": group_document(), "a/zarr.json": _bytes(document), **keys})
    session.commit("a table")
    return path


def _bytes(document: Any) -> bytes:  # noqa: ANN401  (JSON)
    return json.dumps(document).encode()


HUGE = {
    "beyond 64 bits": ((1 << 40, 1 << 40), (1 << 39, 1 << 39)),
    "at 64 bits": ((1 << 32, 1 << 32), (1 << 32, 1 << 32)),
    "as long as can be": ((1 << 62, 2), (1 << 62, 2)),
}


@pytest.mark.parametrize("name", HUGE)
@pytest.mark.parametrize(
    "chosen",
    [
        {"isel": "y=5:7, x=0:1"},
        {"isel": "y=[5, 6], x=0"},
        {"where": "y >= 5 AND y < 7 AND x = 0"},
        {"where": "y > 4.5 AND y <= 6.5 AND x IN (0)"},
        {"where": "(y = 5 OR y = 6) AND x < 1"},
    ],
)
def test_rows_chosen_by_position_cost_what_they_are(
    name: str, chosen: dict[str, Any], tmp_path: Path
) -> None:
    place = table(tmp_path / "r", *HUGE[name])
    read_here(table(tmp_path / "warm", (9, 9), (3, 3)), **chosen)  # modules are loaded by then
    with memory(20 * MIB):
        found = read_here(place, **chosen)
    assert found.to_pylist() == [{"y": 5, "x": 0, "a": FILL}, {"y": 6, "x": 0, "a": FILL}]


@pytest.mark.parametrize("name", ["beyond 64 bits", "at 64 bits"])
@pytest.mark.parametrize("aggregates", [None, {"a": ["count", "sum"]}, {"a": ["min"]}])
def test_more_rows_than_can_be_counted_are_refused(
    name: str, aggregates: dict[str, list[str]] | None, tmp_path: Path
) -> None:
    place = table(tmp_path / "r", *HUGE[name])
    options: dict[str, Any] = {} if aggregates is None else {"aggregates": aggregates}
    with pytest.raises(InvalidInputError, match="rows, and at most"):
        read_here(place, layout="aggregates", variables=["a"], **options)


def test_rows_are_counted_without_looking_at_them(tmp_path: Path) -> None:
    place = table(tmp_path / "r", (1 << 30, 1 << 31), (1 << 20, 1 << 20))
    assert len(partitions_of(place, layout="aggregates")) == 1
    assert read_here(place, layout="aggregates").to_pylist() == [{"count(*)": 1 << 61}]


@pytest.mark.parametrize(
    "options", [{}, {"layout": "aggregates", "aggregates": {"a": ["max"]}}, {"layout": "chunks"}]
)
def test_chunks_without_room_in_memory_are_refused(options: Any, tmp_path: Path) -> None:  # noqa: ANN401
    place = table(tmp_path / "r", (1 << 30, 1 << 31), (1 << 30, 1 << 31))
    with pytest.raises(InvalidInputError, match="chunks are too large to be read as rows"):
        read_here(place, variables=["a"], **options)


def test_labels_of_an_endless_axis_are_not_looked_at(tmp_path: Path) -> None:
    labels = json.loads(array_document(1 << 40, chunks=(1 << 20,), fill_value=0))
    labels["dimension_names"] = ["y"]
    place = table(tmp_path / "r", (1 << 40, 2), (1 << 20, 2), y=_bytes(labels))
    with pytest.raises(InvalidInputError, match="places to be looked at"):
        read_here(place, where="y > 3")
    found = read_here(place, isel="y=0:1", where="y = 0", columns="x,a")
    assert found.to_pylist() == [{"x": n, "a": FILL} for n in range(2)]


def test_pieces_of_an_axis_are_put_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(axis_masks, "LABELS_AT_ONCE", 3)
    place = table(tmp_path / "r", (20, 1), (4, 1))
    for text, expected in {
        "y < 5 OR y > 17": [0, 1, 2, 3, 4, 18, 19],
        "y IN (3, 11) AND y > 2": [3, 11],
        "NOT y BETWEEN 2 AND 18": [0, 1, 19],
        "y != 4 AND y < 6": [0, 1, 2, 3, 5],
        "y < 0": [],
        "y > 100 OR y = 7": [7],
    }.items():
        assert read_here(place, where=text).to_pydict()["y"] == expected, text


ODD_RUNS = {
    "y >= 5 AND y < 7 AND x = 0": [(5, 0), (6, 0)],
    f"y IN (3, {(1 << 40) - 1}) AND x < 1": [(3, 0), ((1 << 40) - 1, 0)],
    f"(y < 2 OR y > {(1 << 40) - 2}) AND x = 1": [(0, 1), (1, 1), ((1 << 40) - 1, 1)],
    f"NOT y BETWEEN 1 AND {(1 << 40) - 2} AND x != 1": [(0, 0), ((1 << 40) - 1, 0)],
    "y != 0 AND y <= 1 AND NOT x IN (1)": [(1, 0)],
    "y IS NOT NULL AND y < 1 AND x IS NOT NULL": [(0, 0), (0, 1)],
    "y IS NULL": [],
    "y > 0.5 AND y < 1.5 AND x > -0.5 AND x < 0.5": [(1, 0)],
    f"(x = 0 AND y = 9) OR (x = 1 AND y = {1 << 39})": [(9, 0), (1 << 39, 1)],
}  # fmt: skip


@pytest.mark.parametrize("text", ODD_RUNS)
def test_comparisons_of_positions_cost_what_they_choose(text: str, tmp_path: Path) -> None:
    place = table(tmp_path / "r", (1 << 40, 2), (1 << 20, 2))
    read_here(table(tmp_path / "warm", (9, 9), (3, 3)), where="y < 2 AND x = 1")
    with memory(40 * MIB):
        found = read_here(place, where=text).to_pydict()
    assert [*zip(found["y"], found["x"], strict=True)] == ODD_RUNS[text]
    assert set(found["a"]) <= {FILL}


def test_steps_of_an_endless_axis(tmp_path: Path) -> None:
    place = table(tmp_path / "r", (1 << 40,), (1 << 20,))
    with memory(40 * MIB):
        found = read_here(place, isel=f"y=::{1 << 38}").to_pydict()
    assert found["y"] == [n << 38 for n in range(4)]
    with pytest.raises(InvalidInputError, match="choose fewer"):
        read_here(place, isel="y=::2")


ENDLESS_QUERIES = {
    "SELECT y, a FROM {} WHERE y < 3 AND x = 1 ORDER BY y": [(n, FILL) for n in range(3)],
    f"SELECT y FROM {{}} WHERE y IN (2, {1 << 39}) AND x = 0 ORDER BY y": [(2,), (1 << 39,)],
    f"SELECT sum(a), count(*) FROM {{}} WHERE y BETWEEN {1 << 39} AND {(1 << 39) + 4}": [
        (FILL * 10, 10)
    ],
    "SELECT y FROM {} WHERE y = 7 AND x = 0": [(7,)],
    f"SELECT max(y) FROM {{}} WHERE y >= {(1 << 40) - 10}": [((1 << 40) - 1,)],
    "SELECT a FROM {} LIMIT 2": [(FILL,), (FILL,)],
    f"SELECT y, x FROM {{}} WHERE y > {1 << 39} LIMIT 1": [((1 << 39) + 1, 0)],
    f"SELECT count(*) FROM {{}} WHERE y >= {1 << 39}": [(1 << 40,)],
}


def test_queries_of_an_endless_axis_cost_what_they_choose(
    tmp_path: Path, spark: SparkSession
) -> None:
    place = table(tmp_path / "r", (1 << 40, 2), (1 << 20, 2))
    frazil.spark.attach("endless", str(place), spark=spark)
    for query, expected in ENDLESS_QUERIES.items():
        with memory(100 * MIB):
            found = frazil.spark.sql(query.format("frazil.endless"), spark=spark).collect()
        assert [tuple(row) for row in found] == expected, query


def test_sums_that_64_bits_cannot_hold_are_not_told(tmp_path: Path) -> None:
    def document(length: int, chunk: int) -> bytes:
        made = json.loads(array_document(length, chunks=(chunk,), fill_value=2**30))
        codecs = [{"name": "bytes", "configuration": {"endian": "little"}}]
        return _bytes(made | {"data_type": "int32", "codecs": codecs, "dimension_names": ["y"]})

    repository = Repository.create(str(tmp_path / "r"))
    session = repository.writable_session("main")
    keys = {"zarr.json": group_document(), "a/zarr.json": document(2**34, 2**31)}
    small = document(2, 2).replace(b'"y"', b'"z"')
    write_keys(session, {**keys, "b/zarr.json": small, "b/c/0": bytes(8)})
    session.commit("a table, and an array whose statistics are kept beside those of the table")
    repository.audit.analyze()

    def asked(word: str) -> Any:  # noqa: ANN401  (a number)
        options: dict[str, Any] = {"variables": ["a"], "aggregates": {"a": [word]}}
        return read_here(tmp_path / "r", layout="aggregates", **options).to_pydict()[f"{word}(a)"]

    assert asked("max") == [2**30]
    with pytest.raises(InvalidInputError, match="chunks are too large to be read as rows"):
        asked("sum")
