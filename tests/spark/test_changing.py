"""Statements that write: which cells they set, in which commits, and what they refuse."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import zarr

from frazil.errors import AlreadyExistsError, ConflictError, FrazilError, InvalidInputError
from frazil.spark.query import destinations
from frazil.spark.writing.write import write_frame
from tests.spark.test_statements import Place, sea

__all__ = ["sea"]

DAY = "TIMESTAMP_NTZ '2024-01-0{}'"


def commits(sea: Place) -> int:
    return len([*sea.repo.ancestry(branch="main")])


def test_insert_sets_cells(sea: Place) -> None:
    before, count = sea.data(), commits(sea)
    told = sea.rows(
        f"INSERT INTO frazil.sea (lat, time, sst) VALUES (50, {DAY.format(1)}, 7.5), "
        f"(55, {DAY.format(4)}, NULL)"
    )
    assert told[0][0] == sea.repo.lookup_branch("main")
    assert told[0][1] == 2
    after = sea.data()
    assert commits(sea) == count + 1
    assert after.sst[0, 0] == 7.5
    assert np.isnan(after.sst[3, 5])
    assert int((after.sst != before.sst).sum()) == 2
    np.testing.assert_array_equal(after.salt, before.salt)


def test_insert_by_name_and_by_place(sea: Place) -> None:
    sea.sql("INSERT INTO frazil.sea BY NAME SELECT sst + 1 AS sst, lat, time FROM frazil.sea")
    assert sea.data().sst[0, 0] == 1.0
    sea.sql("INSERT INTO frazil.sea.masks SELECT lat, 9 FROM frazil.sea.masks WHERE lat < 52")
    found = sea.rows("SELECT mask FROM frazil.sea.masks ORDER BY lat LIMIT 3")
    assert found == [(9.0,), (9.0,), (2.0,)]
    with pytest.raises(InvalidInputError, match=r"'mask' stands where 'lat' is"):
        sea.sql("INSERT INTO frazil.sea.masks SELECT mask, lat FROM frazil.sea.masks")
    with pytest.raises(InvalidInputError, match=r"has 5 columns .* and the query 1; name those"):
        sea.sql("INSERT INTO frazil.sea VALUES (1)")


def test_insert_appends_once(sea: Place) -> None:
    text = (
        "INSERT INTO frazil.sea WITH ('append-dim' = 'time', txnAppId = 'daily', txnVersion = 5) "
        f"(time, lat, sst, salt) SELECT {DAY.format(5)}, lat, mask, 35 FROM frazil.sea.masks"
    )
    assert sea.rows(text)[0][0] is not None
    assert sea.data().sst.shape == (5, 6)
    assert sea.data().sst[4].values.tolist() == [0, 1, 2, 3, 4, 5]
    count = commits(sea)
    assert sea.rows(text) == [(None, 0, 0)]
    assert commits(sea) == count
    with pytest.raises(FrazilError, match="append-dim=time"):
        sea.sql(f"INSERT INTO frazil.sea (time, lat, sst) VALUES ({DAY.format(7)}, 50, 1)")


def test_overwrite_replaces_all_or_a_part(sea: Place) -> None:
    sea.sql(
        "INSERT INTO frazil.sea (time, lat, sst) REPLACE WHERE lat >= 53 "
        "SELECT time, lat, CAST(1 AS FLOAT) FROM frazil.sea WHERE lat = 55 AND sst IS NOT NULL"
    )
    found = sea.data().sst.values
    assert np.isnan(found[:, 3:5]).all()
    assert (found[:, 5] == 1).all()
    assert found[0, 0] == 0
    with pytest.raises(InvalidInputError, match=r"would be lost"):
        sea.sql(
            "INSERT OVERWRITE frazil.sea (time, lat, sst) SELECT time, lat, sst FROM frazil.sea"
        )
    sea.sql("INSERT OVERWRITE TABLE frazil.sea.masks VALUES (1D, 2F), (3D, 4F)")
    assert sea.rows("SELECT * FROM frazil.sea.masks ORDER BY lat") == [(1.0, 2.0), (3.0, 4.0)]


def test_create_table_as_select(sea: Place, tmp_path: Path) -> None:
    query = "SELECT month(time) AS month, lat, avg(sst) AS sst FROM frazil.sea GROUP BY 1, 2"
    new = f"frazil.`{tmp_path / 'new'}`"
    made = f"TABLE {new} PARTITIONED BY (month, lat) OPTIONS (chunks 'lat=2') AS {query}"
    sea.sql(f"CREATE {made}")
    wanted = sea.data().sst.mean("time").values.tolist()
    assert [row[0] for row in sea.rows(f"SELECT sst FROM {new} ORDER BY lat")] == wanted
    with pytest.raises(AlreadyExistsError, match="CREATE OR REPLACE TABLE"):
        sea.sql(f"CREATE {made}")
    again = made.replace("TABLE ", "TABLE IF NOT EXISTS ", 1)
    assert sea.rows(f"CREATE {again}") == [(None, 0, 0)]
    sea.sql(f"CREATE OR REPLACE TABLE {new} PARTITIONED BY (lat) AS SELECT lat, 1 AS n FROM {new}")
    assert sea.rows(f"SELECT DISTINCT n FROM {new}") == [(1,)]
    group = "frazil.sea.means"
    sea.sql(f"CREATE TABLE {group} USING frazil PARTITIONED BY (month, lat) AS {query}")
    assert len(sea.rows(f"SELECT * FROM {group}")) == 6
    with pytest.raises(InvalidInputError, match="PARTITIONED BY"):
        sea.sql(f"CREATE TABLE frazil.sea.other AS {query}")
    sea.sql("CREATE OR REPLACE TEMP VIEW south AS SELECT * FROM frazil.sea.masks WHERE lat < 52")
    assert sea.spark.table("south").count() == 2


def test_update_sets_the_cells_that_a_condition_chooses(sea: Place) -> None:
    before = sea.data()
    sea.sql("UPDATE frazil.sea AS s SET sst = s.sst + mask, salt = 1 WHERE lat > 52 AND sst < 12")
    after = sea.data()
    chosen = (before.lat > 52) & (before.sst < 12)
    wanted = before.sst.where(~chosen, before.sst + before.mask)
    np.testing.assert_array_equal(after.sst, wanted.transpose(*after.sst.dims))
    assert float((after.salt == 1).sum()) == float(chosen.sum())
    sea.sql("UPDATE frazil.sea SET mask = 5 WHERE lat = 50")
    assert sea.data().mask.values.tolist() == [5, 1, 2, 3, 4, 5]
    count = commits(sea)
    assert sea.rows("UPDATE frazil.sea SET mask = 5 WHERE lat = 50") == [(None, 0, 0)]
    assert commits(sea) == count


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("UPDATE frazil.sea SET lat = 3", "'lat' labels cells"),
        ("UPDATE frazil.sea SET sts = 3", "no variable 'sts'.*'sst'"),
        ("UPDATE frazil.sea SET sst = 1, mask = 2", "do not have the same dimensions"),
        ("UPDATE frazil.sea SET sst = 1, sst = 2", "must be set once"),
        ("UPDATE frazil.sea WHERE 1 = 1", "SET is expected"),
        ("UPDATE frazil.sea.snapshots SET message = 'x'", "metadata table"),
        ("UPDATE frazil.sea.tag_v1 SET sst = 1", "tag"),
        ("DELETE frazil.sea", "FROM is expected"),
        ("INSERT INTO frazil.sea (a, b)", "a query or VALUES is expected"),
        ("INSERT INTO frazil.sea (lat, sst) VALUES (1, 2, 3)", "2 columns are named"),
        ("CREATE SCHEMA frazil.x", "CREATE makes a TABLE"),
        ("MERGE INTO frazil.sea t USING frazil.sea.masks s ON t.lat = s.lat WHEN NOT MATCHED BY "
         "SOURCE THEN UPDATE SET *", "has no row for these cells"),
    ],
)  # fmt: skip
def test_statements_that_cannot_be_meant(sea: Place, text: str, said: str) -> None:
    with pytest.raises(FrazilError, match=said):
        sea.sql(text)


def test_deleted_cells_are_missing(sea: Place) -> None:
    sea.sql("DELETE FROM frazil.sea WHERE time >= '2024-01-03' AND lat < 51")
    after = sea.data()
    assert np.isnan(after.sst[2:, 0]).all()
    assert np.isnan(after.salt[2:, 0]).all()
    assert int(np.isnan(after.sst).sum()) == 2
    assert after.mask[0] == 0
    sea.sql("DELETE FROM frazil.sea.sst")
    assert np.isnan(sea.data().sst).all()
    assert not np.isnan(sea.data().salt[0]).any()


def test_merge_sets_and_appends(sea: Place) -> None:
    days = ", ".join(
        f"({DAY.format(day)}, {lat}D, {value})"
        for day, lat, value in [(4, 50, -1.0), (4, 51, 99.0)] + [(5, 50 + n, n) for n in range(6)]
    )
    source = f"(SELECT * FROM VALUES {days} AS v(time, lat, sst))"
    sea.sql(
        f"""MERGE INTO frazil.sea t USING {source} s ON t.time = s.time AND t.lat = s.lat
        WHEN MATCHED AND s.sst < 0 THEN DELETE
        WHEN MATCHED THEN UPDATE SET sst = CASE WHEN s.sst > 50 THEN s.sst ELSE 0 END
        WHEN NOT MATCHED THEN INSERT *""",
        append_dim="time",
    )
    after = sea.data()
    assert after.sst.shape == (5, 6)
    assert np.isnan(after.sst[3, 0])
    assert np.isnan(after.salt[3, 0])
    assert after.sst[3, 1] == 99
    assert after.salt[3, 1] == 35
    assert after.sst[4].values.tolist() == [0, 1, 2, 3, 4, 5]
    sea.sql(
        "MERGE INTO frazil.sea.masks AS t USING frazil.sea.sst AS s "
        "ON t.lat = s.lat AND s.time = TIMESTAMP_NTZ '2024-01-02' "
        "WHEN MATCHED THEN UPDATE SET mask = s.sst"
    )
    found = sea.rows("SELECT mask FROM frazil.sea.masks ORDER BY lat")
    assert [row[0] for row in found] == after.sst[1].values.tolist()


def test_merge_changes_what_the_source_has_not(sea: Place) -> None:
    before, count = sea.data(), commits(sea)
    days = f"({DAY.format(2)}, 51D), ({DAY.format(2)}, 52D)"
    source = f"(SELECT * FROM VALUES {days} AS v(time, lat))"
    sea.sql(
        f"""MERGE INTO frazil.sea t USING {source} s ON t.time = s.time AND t.lat = s.lat
        WHEN MATCHED AND t.lat > 51 THEN UPDATE SET sst = -5
        WHEN NOT MATCHED BY SOURCE AND t.time > {DAY.format(3)} THEN DELETE
        WHEN NOT MATCHED BY SOURCE AND t.lat = 50 THEN UPDATE SET sst = t.sst + 100, salt = 1"""
    )
    after = sea.data()
    wanted, salt = before.sst.values.copy(), before.salt.values.copy()
    wanted[1, 2] = -5
    wanted[:3, 0] += 100
    salt[:3, 0] = 1
    wanted[3], salt[3] = np.nan, np.nan
    np.testing.assert_array_equal(after.sst, wanted)
    np.testing.assert_array_equal(after.salt, salt)
    assert commits(sea) == count + 1
    sea.sql(
        "MERGE INTO frazil.sea.masks t USING (SELECT 53D AS lat) s ON t.lat = s.lat "
        "WHEN NOT MATCHED BY SOURCE THEN UPDATE SET mask = 9"
    )
    found = sea.rows("SELECT mask FROM frazil.sea.masks ORDER BY lat")
    assert [row[0] for row in found] == [9, 9, 9, 3, 9, 9]


def test_statistics_of_what_is_written_are_kept_when_asked_for(sea: Place) -> None:
    sea.sql("UPDATE frazil.sea SET sst = sst + 1", statistics=True)
    assert sea.repo.audit.analyze("main", "/sst", dry_run=True).chunks == 0
    told = sea.rows("EXPLAIN SELECT sum(sst), max(sst) FROM frazil.sea")[0][0]
    assert "to read: 0 of" in told
    data = sea.data()
    assert sea.rows("SELECT max(sst), count(sst) FROM frazil.sea.sst") == [
        (float(data.sst.max()), int(data.sst.count()))
    ]
    sea.sql("UPDATE frazil.sea SET sst = 0")
    assert sea.repo.audit.analyze("main", "/sst", dry_run=True).chunks > 0


def test_what_others_changed_meanwhile_is_a_conflict(
    sea: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = write_frame

    def late(*args: object, **options: object) -> object:
        session = sea.repo.writable_session("main")
        zarr.open_array(session.store, path="salt")[...] = 30
        session.commit("meanwhile")
        return real(*args, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(destinations, "write_frame", late)
    with pytest.raises(ConflictError):
        sea.sql("UPDATE frazil.sea SET sst = salt")
    monkeypatch.undo()
    assert sea.data().sst[0, 1] == 1
