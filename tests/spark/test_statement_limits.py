"""Statements that write: what must be refused, told or noticed, and never done silently."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import zarr

import frazil.spark
from frazil.cf.decoding import Rules
from frazil.errors import AlreadyExistsError, ConflictError, FrazilError, InvalidInputError
from frazil.spark.query import destinations
from frazil.spark.query.run_query import run_query
from frazil.spark.reading.variables import TableVariable
from frazil.spark.writing.encode import Encoder, encoder_of
from frazil.spark.writing.write import write_frame
from tests.spark.test_changing import DAY, commits
from tests.spark.test_statements import Place, sea

__all__ = ["sea"]


def add_array(sea: Place, name: str, values: Any, **options: Any) -> None:  # noqa: ANN401
    session = sea.repo.writable_session("main")
    zarr.open_group(session.store).create_array(
        name, data=np.asarray(values), dimension_names=["time", "lat"], **options
    )
    session.commit(name)


# --- versions and words ---


@pytest.mark.parametrize(
    "text",
    [
        "UPDATE frazil.sea VERSION AS OF '{}' SET sst = 1",
        "DELETE FROM frazil.sea VERSION AS OF '{}' WHERE lat = 50",
        "UPDATE frazil.sea TIMESTAMP AS OF '2030-01-01' SET sst = 1",
        "DELETE FROM frazil.sea FOR SYSTEM_VERSION AS OF '{}'",
        "UPDATE frazil.sea TABLESAMPLE (10 PERCENT) SET sst = 1",
        "UPDATE frazil.sea, frazil.sea.masks SET sst = 1",
        "UPDATE frazil.sea SET sst = 1 WHERE lat = 50 ORDER BY time LIMIT 1",
        "DELETE FROM frazil.sea WHERE lat = 50 LIMIT 1",
        "DELETE FROM frazil.sea a CROSS JOIN frazil.sea.masks b",
        "DELETE FROM frazil.sea WHERE lat = 50; DELETE FROM frazil.sea",
    ],
)
def test_what_is_not_of_a_statement_is_refused(sea: Place, text: str) -> None:
    before, tip = sea.data(), sea.repo.lookup_branch("main")
    sea.repo.create_tag("v1", tip)
    with pytest.raises(InvalidInputError):
        sea.sql(text.format("v1"))
    assert sea.repo.lookup_branch("main") == tip
    assert sea.data().equals(before)


def test_two_tables_of_one_name_are_an_error_of_ours(sea: Place) -> None:
    with pytest.raises(InvalidInputError, match="Alias already used"):
        sea.sql(
            "MERGE INTO frazil.sea USING frazil.sea ON sea.lat = sea.lat "
            "WHEN MATCHED THEN UPDATE SET sst = 1"
        )


def test_names_with_dots_blanks_and_quotes(sea: Place) -> None:
    session = sea.repo.writable_session("main")
    group = zarr.open_group(session.store).create_group("odd`group")
    for name in ("la`t", "wind.10m", "select me"):
        group.create_array(name, data=np.arange(3.0), dimension_names=["la`t"])
    session.commit("odd names")
    name = "frazil.sea.`odd``group`"
    sea.sql(f"UPDATE {name} t SET t.`wind.10m` = `la``t` * 10 WHERE `la``t` > 0")
    sea.sql(f"INSERT INTO {name} (`la``t`, `select me`) VALUES (0, length('a;b -- {{t0}} /*'))")
    sea.sql(
        f"""MERGE INTO {name} t USING (SELECT * FROM VALUES (1D, 8D), (7D, 9D) AS v(`la``t`, x)) s
        ON t.`la``t` = s.`la``t` WHEN MATCHED THEN UPDATE SET `wind.10m` = s.x
        WHEN NOT MATCHED THEN INSERT (`la``t`, `wind.10m`) VALUES (s.`la``t`, s.x)""",
        append_dim="la`t",
    )
    sea.sql(f"DELETE FROM {name}.`select me` WHERE `la``t` = 2")
    found = sea.rows(f"SELECT `la``t`, `wind.10m`, `select me` FROM {name} ORDER BY 1")
    assert [row[:2] for row in found] == [(0, 0), (1, 8), (2, 20), (7, 9)]
    assert found[0][2] == 14
    assert np.isnan(found[2][2])
    assert sea.rows(f"SELECT `wind.10m` FROM {name} WHERE `la``t` = 7") == [(9,)]
    sea.sql(
        "CREATE TABLE frazil.sea.`new.one` PARTITIONED BY (`x.y`) AS "
        f"SELECT `la``t` AS `x.y`, `wind.10m` AS `z``` FROM {name}"
    )
    assert sea.sql("SELECT * FROM frazil.sea.`new.one`").columns == ["x.y", "z`"]


# --- EXPLAIN ---


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("UPDATE frazil.sea SET sst = salt WHERE lat > 53", "time, lat, sst"),
        ("DELETE FROM frazil.sea.salt", "time, lat, salt"),
        ("INSERT INTO frazil.sea.masks SELECT lat, mask FROM frazil.sea.masks", "lat, mask"),
        (
            "CREATE TABLE frazil.sea.new PARTITIONED BY (lat) AS SELECT lat, max(sst) AS top "
            "FROM frazil.sea GROUP BY lat",
            "lat, top",
        ),
        (
            "MERGE INTO frazil.sea.masks t USING frazil.sea.masks s ON t.lat = s.lat "
            "WHEN MATCHED THEN UPDATE SET mask = s.mask + 1",
            "lat, mask",
        ),
    ],
)
def test_explaining_a_write_tells_and_does_not_write(sea: Place, text: str, written: str) -> None:
    count = commits(sea)
    for before in ("EXPLAIN ", "-- why\nEXPLAIN ", "/* so */ explain /* it */ "):
        told = sea.rows(before + text)[0][0]
        assert f"written: {written}; branch: main" in told
        assert "to read: " in told
    assert frazil.spark.explain(text, sea.spark) == told
    assert commits(sea) == count


def test_explaining_what_neither_reads_nor_writes_is_refused(sea: Place) -> None:
    for text in (
        "CALL frazil.system.create_branch('sea', 'x')",
        "ALTER TABLE frazil.sea DROP TAG x",
    ):
        with pytest.raises(InvalidInputError, match="EXPLAIN tells what queries read"):
            sea.sql(f"EXPLAIN {text}")
    assert sea.repo.list_branches() == {"main"}
    assert "to read" in sea.rows("EXPLAIN TABLE frazil.sea.masks")[0][0]


def test_views_of_a_repository_are_written_and_explained_like_tables(sea: Place) -> None:
    tip = sea.repo.lookup_branch("main")
    told = run_query("DELETE FROM sst WHERE lat = 50", sea.url, spark=sea.spark, explain=True)
    assert any("written: time, lat, sst; branch: main" in line for (line,) in told.rows)
    with pytest.raises(InvalidInputError, match="nope"):
        run_query("UPDATE sst SET sst = nope", sea.url, spark=sea.spark, explain=True)
    with pytest.raises(InvalidInputError, match="names another version"):
        run_query("UPDATE sst SET sst = 1", f"{sea.url}@{tip}", spark=sea.spark)
    assert sea.repo.lookup_branch("main") == tip
    sea.repo.create_branch("dev", tip)
    run_query("UPDATE sst SET sst = 1", f"{sea.url}@dev", spark=sea.spark)
    assert sea.repo.lookup_branch("main") == tip
    assert sea.rows("SELECT DISTINCT sst FROM frazil.sea.sst.branch_dev") == [(1.0,)]


# --- rows for one cell ---


def test_two_rows_of_a_source_for_one_cell_are_refused_whatever_they_say(sea: Place) -> None:
    count = commits(sea)
    for values in ("(0F), (5F)", "(5F), (0F)", "(0F), (0F)", "(5F), (6F)"):
        source = f"(SELECT {DAY.format(1)} AS time, 50D AS lat, x FROM VALUES {values} AS v(x))"
        merge = f"MERGE INTO frazil.sea t USING {source} s ON t.time = s.time AND t.lat = s.lat "
        with pytest.raises(InvalidInputError, match="several rows are for the cell"):
            sea.sql(merge + "WHEN MATCHED THEN UPDATE SET sst = s.x")
    assert commits(sea) == count
    # A row that no clause is for is none of them.
    sea.sql(merge + "WHEN MATCHED AND s.x > 5 THEN UPDATE SET sst = s.x")
    assert sea.data().sst[0, 0] == 6


def test_several_values_for_a_cell_of_fewer_dimensions_are_refused(sea: Place) -> None:
    # One of the values is what is there already.
    with pytest.raises(InvalidInputError, match="several rows are for the cell"):
        sea.sql("UPDATE frazil.sea SET mask = sst WHERE sst IN (0, 6)")
    assert sea.data().mask[0] == 0
    sea.sql("UPDATE frazil.sea SET mask = sst WHERE sst = 6")
    assert sea.data().mask[0] == 6


# --- values that do not fit ---


@pytest.mark.parametrize(
    ("value", "ansi"),
    [
        pytest.param(value, ansi, marks=[] if (row + column) % 2 == 0 else pytest.mark.soak)
        for row, value in enumerate(
            ["1e10", "5000000000L", "'abc'", "-3e9D", "DATE '2024-01-01'", "NULL"]
        )
        for column, ansi in enumerate(["true", "false"])
    ],
)
def test_what_an_array_cannot_hold_is_refused(sea: Place, ansi: str, value: str) -> None:
    add_array(sea, "number", np.arange(24, dtype="i4").reshape(4, 6))
    before = sea.data()
    sea.spark.conf.set("spark.sql.ansi.enabled", ansi)
    try:
        with pytest.raises((FrazilError, sea_errors())):
            sea.sql(f"UPDATE frazil.sea SET number = {value} WHERE lat = 52")
        with pytest.raises((FrazilError, sea_errors())):
            sea.sql(
                f"INSERT INTO frazil.sea (time, lat, number) VALUES ({DAY.format(1)}, 50, {value})"
            )
    finally:
        sea.spark.conf.unset("spark.sql.ansi.enabled")
    assert sea.data().equals(before)


def sea_errors() -> type[Exception]:
    from pyspark.errors import AnalysisException

    return AnalysisException


def test_infinity_is_not_made_of_a_number(sea: Place) -> None:
    with pytest.raises(InvalidInputError, match=r"'sst' has the value 1.0E300, .* fit float"):
        sea.sql("UPDATE frazil.sea SET sst = 1e300")
    sea.sql("UPDATE frazil.sea SET sst = double('-Infinity') WHERE lat = 50")
    assert np.isneginf(sea.data().sst[:, 0]).all()


def test_packed_values_that_would_be_missing_or_wrapped_are_refused(sea: Place) -> None:
    attributes = {"scale_factor": 0.5, "add_offset": 3.0, "_FillValue": 7}
    add_array(sea, "packed", np.zeros((4, 6), "i2"), attributes=attributes)
    before = sea.data()
    for value, said in (("6.5", "stands for missing values"), ("1e6", "does not fit")):
        with pytest.raises(InvalidInputError, match=said):
            sea.sql(f"UPDATE frazil.sea SET packed = {value} WHERE lat = 52")
    assert sea.data().equals(before)
    sea.sql("UPDATE frazil.sea SET packed = NULL WHERE lat = 52")
    assert np.isnan(sea.data().packed[:, 2]).all()


def encoder(dtype: str) -> Encoder:
    variable = TableVariable("x", "/x", ("a",), (1,), (1,), (1,), np.dtype(dtype), {})
    return encoder_of(variable, Rules(), None)


@pytest.mark.parametrize(
    ("dtype", "value"),
    [
        ("f2", pa.array([1e6])),
        ("f4", pa.array([1e300])),
        ("M8[ns]", pa.array([32503680000000000], pa.timestamp("us"))),
        ("M8[D]", pa.array([1], pa.timestamp("us"))),
    ],
)
def test_numbers_and_times_that_do_not_fit_are_refused(dtype: str, value: pa.Array) -> None:
    with pytest.raises(InvalidInputError, match="does not fit"):
        encoder(dtype).encode(value)
    assert len(encoder(dtype).encode(pa.nulls(1, value.type))) == 1


def test_deleting_twice_commits_once_where_nan_stands_for_null(sea: Place) -> None:
    add_array(sea, "plain", np.ones((4, 6)))
    assert sea.rows("DELETE FROM frazil.sea.plain WHERE lat = 50")[0][0] is not None
    assert np.isnan(sea.data().plain[:, 0]).all()
    assert sea.rows("DELETE FROM frazil.sea.plain WHERE lat = 50") == [(None, 0, 0)]
    assert sea.rows("UPDATE frazil.sea SET plain = NULL WHERE lat = 50") == [(None, 0, 0)]


# --- others who write ---


@pytest.mark.parametrize(
    ("text", "changed"),
    [
        ("UPDATE frazil.sea SET sst = 9 WHERE zone = 3", "zone"),
        ("UPDATE frazil.sea SET sst = avg(sst) OVER (PARTITION BY lat) WHERE lat = 50", "sst"),
        ("INSERT INTO frazil.sea (time, lat, sst) SELECT time, lat, salt FROM frazil.sea", "salt"),
        ("UPDATE frazil.sea SET sst = 9 WHERE lat = 50", "lat"),
    ],
)
def test_what_rows_were_chosen_by_must_not_change_meanwhile(
    sea: Place, monkeypatch: pytest.MonkeyPatch, text: str, changed: str
) -> None:
    session = sea.repo.writable_session("main")
    group = zarr.open_group(session.store)
    group.create_array("zone", data=np.arange(6), dimension_names=["lat"])
    group.attrs["coordinates"] = "zone"
    group["sst"].attrs["coordinates"] = "zone"
    session.commit("zones")
    real = write_frame

    def late(*args: object, **options: object) -> object:
        other = sea.repo.writable_session("main")
        array = zarr.open_array(other.store, path=changed)
        array[(-1,) * array.ndim] = 77  # in another chunk than the statement writes
        other.commit("meanwhile")
        return real(*args, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(destinations, "write_frame", late)
    before = sea.repo.lookup_branch("main")
    with pytest.raises(ConflictError):
        sea.sql(text)
    history = [each.id for each in sea.repo.ancestry(branch="main")]
    assert history[1] == before


def test_a_task_that_fails_leaves_nothing(sea: Place, tmp_path: Path) -> None:
    before, tip = sea.data(), sea.repo.lookup_branch("main")
    failing = "CASE WHEN lat > 54 THEN raise_error('no') ELSE 1 END"
    for text in (
        f"UPDATE frazil.sea SET sst = {failing}, salt = 2",
        f"INSERT INTO frazil.sea (time, lat, sst) SELECT time, lat, {failing} FROM frazil.sea.sst",
        f"CREATE TABLE frazil.sea.x PARTITIONED BY (lat) AS SELECT lat, {failing} AS v "
        "FROM frazil.sea.masks",
    ):
        with pytest.raises(Exception, match="no"):
            sea.sql(text)
    assert sea.repo.lookup_branch("main") == tip
    assert sea.data().equals(before)
    assert not sea.repo.audit.fsck(deep=True).findings


def meanwhile(monkeypatch: pytest.MonkeyPatch, act: Callable[[], object]) -> None:
    """Let something happen once, between the reading of a statement and its writing."""

    def late(*args: object, **options: object) -> object:
        monkeypatch.setattr(destinations, "write_frame", write_frame)
        act()
        return write_frame(*args, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(destinations, "write_frame", late)


def test_a_table_that_others_make_meanwhile_is_not_written_into(
    sea: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "CREATE TABLE frazil.sea.new PARTITIONED BY (lat) AS SELECT lat, {} AS x FROM {}"

    def other() -> None:
        sea.sql(text.format(7, "frazil.sea.masks"))

    meanwhile(monkeypatch, other)
    with pytest.raises((ConflictError, AlreadyExistsError)):
        sea.sql(text.format(1, "frazil.sea.masks"))
    assert sea.rows("SELECT DISTINCT x FROM frazil.sea.new") == [(7,)]


def test_what_a_new_table_is_made_from_must_not_change_meanwhile(
    sea: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    meanwhile(monkeypatch, lambda: sea.sql("UPDATE frazil.sea.masks SET mask = 1 WHERE lat = 53"))
    with pytest.raises(ConflictError):
        sea.sql(
            "CREATE TABLE frazil.sea.new PARTITIONED BY (lat) AS "
            "SELECT lat, mask FROM frazil.sea.masks"
        )


def test_the_same_numbered_write_of_two_is_done_once(
    sea: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    def again() -> Any:  # noqa: ANN401  (rows)
        return sea.rows("UPDATE frazil.sea SET salt = salt + 1", txnAppId="a", txnVersion=1)

    meanwhile(monkeypatch, again)
    assert again() == [(None, 0, 0)]
    assert (sea.data().salt == 36).all()


def test_days_that_others_append_meanwhile(sea: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    day = "INSERT INTO frazil.sea BY NAME SELECT {} AS time, lat, mask AS sst, mask AS salt "
    day += "FROM frazil.sea.masks"

    def append(number: int) -> None:
        sea.sql(day.format(DAY.format(number)), append_dim="time")

    for number, text in ((5, "UPDATE frazil.sea SET sst = 1"), (6, day.format(DAY.format(7)))):
        meanwhile(monkeypatch, partial(append, number))
        with pytest.raises(ConflictError):
            sea.sql(text, **({"append_dim": "time"} if "INSERT" in text else {}))
    assert sea.data().time.dt.day.values.tolist() == [1, 2, 3, 4, 5, 6]


# --- regions and feeds ---


def test_cells_are_not_replaced_by_nothing_where_nothing_stands_for_that(sea: Place) -> None:
    add_array(sea, "number", np.arange(1, 25, dtype="i4").reshape(4, 6), chunks=(2, 2))
    before = sea.data()
    head = "INSERT INTO frazil.sea (time, lat, number) REPLACE WHERE lat >= 54 "
    for rows in (f"VALUES ({DAY.format(1)}, 54, 9)", "SELECT time, lat, 1 FROM frazil.sea.sst "
                 "WHERE lat = 0"):  # fmt: skip
        with pytest.raises(InvalidInputError, match="have no row, and nothing stands for missing"):
            sea.sql(head + rows)
    assert sea.data().equals(before)
    sea.sql(head + "SELECT time, lat, number + 100 FROM frazil.sea WHERE lat >= 54")
    assert (sea.data().number.values - before.number.values).tolist() == [[0] * 4 + [100] * 2] * 4


def test_feeds_are_explained_and_their_versions_looked_up_at_once(sea: Place) -> None:
    told = sea.rows("EXPLAIN SELECT * FROM table_changes('sea', 0)", variables="sst")
    assert "_change_type" in told[0][0]
    for arguments in ("'nope'", "'main', 'nope'"):
        with pytest.raises(FrazilError, match="nope"):
            sea.sql(f"SELECT * FROM table_changes('sea', {arguments})", variables="sst")
