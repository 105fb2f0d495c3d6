"""The SQL page: what it refuses, what it says where Spark is missing, and one query that runs."""

from __future__ import annotations

import time
from collections.abc import Iterator

import httpx
import pytest
from pyspark.sql import SparkSession

from frazil.errors import FrazilError, InvalidInputError, SessionStateError
from frazil.spark.query.run_query import run_query
from frazil.web import queries
from frazil.web.library import Library
from frazil.web.queries import checked_query
from frazil.web.settings import ServerSettings
from frazil.web.work import BusyError
from tests.web.conftest import Places, served
from tests.web.samples import HOSTILE
from tests.web.test_pages import get


@pytest.fixture(scope="module")
def asked(places: Places) -> Iterator[str]:
    """A server that allows queries."""
    library = Library([places.ocean, places.odd])
    with served(library, ServerSettings(port=0, sql=True)) as at:
        yield at


@pytest.mark.parametrize(
    "query",
    [
        "SELECT * FROM csv.`/etc/passwd`",
        "SELECT * FROM text.`file:///etc/passwd`",
        "SELECT * FROM frazil.`s3://other/place`",
        "SELECT * FROM a.b.c",
        "SELECT * FROM nodes JOIN parquet.`/x` ON true",
        "SELECT (SELECT max(value) FROM text.`/etc/passwd`)",
        "WITH t AS (SELECT * FROM json.`/x`) SELECT * FROM t",
        "SELECT * FROM IDENTIFIER('csv.`/etc/passwd`')",
        "SELECT * FROM range(10)",
        "SELECT reflect('java.lang.System', 'exit', 1)",
        "SELECT ReFlect('java.lang.System', 'exit', 1)",
        "SELECT `reflect`('java.lang.System', 'exit', 1)",
        "SELECT system.builtin.java_method('java.lang.System', 'getenv')",
        "SELECT try_reflect('java.lang.System', 'exit', 1)",
        "SELECT table_changes('/other', 0) FROM data",
        "SELECT `table_changes`('/other', 0) FROM data",
        "SELECT * FROM data LATERAL VIEW table_changes('/other', 0) t",
        "SELECT * FROM data, LATERAL table_changes('/other', 0) t",
        "SELECT * FROM data JOIN LATERAL frazil_create_tag('/other', 'x', 'main') t",
        "SELECT a_function_of_the_session(path) FROM nodes",
        "SELECT spark_catalog.default.f(path) FROM nodes",
        "SELECT TRANSFORM(path) USING 'cat /etc/passwd' AS (x STRING) FROM nodes",
        "INSERT INTO nodes VALUES (1)",
        "DROP TABLE nodes",
        "CREATE TABLE t AS SELECT 1",
        "SET spark.sql.runSQLOnFiles=true",
        "ADD JAR '/tmp/evil.jar'",
        "SELECT 1; SELECT 2",
        "SELECT 1; DROP TABLE x",
        "EXPLAIN DROP TABLE x",
        "EXPLAIN EXPLAIN SELECT 1",
        "FROM",
        "SELECT (((",
        "x" * 30_000,
    ],
)
def test_only_questions_about_this_repository_are_run(query: str) -> None:
    with pytest.raises(InvalidInputError, match="the query is not run"):
        checked_query(query)


@pytest.mark.parametrize(
    "query",
    [
        "SELECT avg(sst) FROM data WHERE lat > 10 GROUP BY lon ORDER BY 1 LIMIT 3",
        "WITH t AS (SELECT * FROM nodes) SELECT count(*) FROM t JOIN arrays USING (path)",
        "(SELECT path FROM nodes UNION ALL SELECT path FROM arrays)",
        "SELECT /* a comment */ 'it''s', 'reflect(1)' -- the end",
        "EXPLAIN SELECT * FROM data",
        "SELECT /*+ BROADCAST(data) */ percentile_approx(sst, 0.5), bigint(1), regr_slope(a, b)",
        "SELECT e FROM data LATERAL VIEW posexplode(array(1, 2)) t AS p, e",
    ],
)
def test_questions_are(query: str) -> None:
    is_explained, text = checked_query(query)
    assert is_explained == query.startswith("EXPLAIN")
    assert "comment" not in text


@pytest.mark.parametrize(
    "query",
    [
        "SELECT * FROM spark_table",
        "SELECT * FROM __frazil_changes_0123",
        "WITH secret AS (SELECT * FROM secret) SELECT * FROM secret",
        "WITH a AS (SELECT * FROM b), b AS (SELECT 1) SELECT * FROM a JOIN b",
        "SELECT * FROM nodes WHERE path IN (SELECT path FROM elsewhere)",
        "SELECT (SELECT max(x) FROM elsewhere) FROM nodes",
        "SELECT * FROM nodes, LATERAL (SELECT * FROM elsewhere)",
        "SELECT path FROM nodes UNION SELECT path FROM elsewhere",
        "SELECT a FROM nodes AS table_changes('/other', 0) JOIN elsewhere",
    ],
)
@pytest.mark.parametrize("explain", [False, True])
def test_tables_of_the_session_are_not_the_repositorys(
    places: Places, query: str, explain: bool
) -> None:
    _, text = checked_query(query)
    with pytest.raises(InvalidInputError, match=r"no table '\w+' in the repository.*; there are "):
        run_query(text, places.ocean, explain=explain, is_closed=True)


def test_queries_are_off_unless_allowed(site: str, asked: str) -> None:
    found = get(f"{site}/r/ocean/sql", q="SELECT 1")
    assert found.status_code == 403
    assert "--sql" in found.text
    assert ">SQL</a>" not in get(f"{site}/r/ocean/history").text
    assert ">SQL</a>" in get(f"{asked}/r/ocean/history").text


def test_the_form_refusals_and_links_of_other_sites_run_nothing(
    asked: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queries, "_run", lambda *_, **__: pytest.fail("it ran"))
    assert "<textarea" in get(f"{asked}/r/ocean/sql").text
    refused = get(f"{asked}/r/ocean/sql", q="SELECT * FROM csv.`/etc/passwd`")
    assert refused.status_code == 400
    assert "the query is not run" in refused.text
    assert "/etc/passwd`</textarea>" in refused.text  # to be mended
    foreign = httpx.get(
        f"{asked}/r/ocean/sql?q=SELECT+1+AS+%3Cb%3E",
        headers={
            "sec-fetch-site": "cross-site",
            "sec-fetch-mode": "navigate",
            "sec-fetch-dest": "document",
        },
        timeout=30,
    )
    assert "Another site" in foreign.text
    assert "<b>" not in foreign.text


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (SessionStateError("Spark needs Java 17 or newer, but no java found"), 403),
        (BusyError("another query is running; one is run at a time"), 503),
    ],
)
def test_what_is_missing_or_busy_is_told(
    asked: str, monkeypatch: pytest.MonkeyPatch, error: FrazilError, status: int
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(queries, "_run", fail)
    found = get(f"{asked}/r/ocean/sql", q="SELECT 1")
    assert found.status_code == status
    assert str(error) in found.text


def answered(url: str, query: str) -> httpx.Response:
    """The page of a query, once it has run; it loads again by itself until then."""
    until = time.monotonic() + 200
    while (found := get(url, q=query)).status_code == 202:
        assert "Running the query" in found.text
        assert time.monotonic() < until
        time.sleep(0.2)
    return found


@pytest.fixture
def shared(spark: SparkSession) -> Iterator[SparkSession]:
    """The session of the other tests, with the settings that it had."""
    yield spark
    spark.conf.unset("spark.sql.runSQLOnFiles")


@pytest.mark.slow
@pytest.mark.usefixtures("shared")
def test_a_query_runs_and_its_rows_stay_text(asked: str) -> None:
    found = answered(f"{asked}/r/ocean/sql", "SELECT count(*) AS n FROM snapshots")
    assert found.status_code == 200, found.text
    assert '<td class="number">11</td>' in found.text
    hostile = answered(f"{asked}/r/odd-place/sql", "SELECT message FROM snapshots")
    assert hostile.status_code == 200, hostile.text
    assert HOSTILE not in hostile.text
    assert "&lt;script&gt;" in hostile.text
    unknown = answered(f"{asked}/r/ocean/sql", "SELECT * FROM nowhere")
    assert unknown.status_code == 400
    assert "Traceback" not in unknown.text
