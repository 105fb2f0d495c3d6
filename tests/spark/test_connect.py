"""The same over Spark Connect, where there is no SparkContext to lean on."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import frazil

pytest.importorskip("grpc_status", reason="Spark Connect needs pyspark[connect]")
pytestmark = pytest.mark.slow

SCRIPT = """
import sys
from pyspark.sql import SparkSession
import frazil.spark

url = sys.argv[1]
config = {"spark.ui.enabled": "false", "spark.log.level": "ERROR"}
builder = SparkSession.builder.remote("local[2]")
for name, value in config.items():
    builder = builder.config(name, value)
spark = builder.getOrCreate()
assert "connect" in type(spark).__module__
assert frazil.spark.session() is not None
cells = frazil.spark.read(url, spark=spark, where="lat > 0", variables="wind")
table = frazil.spark.FrazilTable.forPath(spark, url)
frazil.spark.register(spark)
called = spark.sql(f"SELECT * FROM frazil_ancestors_of(table => '{url}')")
print("ANSWER", cells.count(), table.detail().count(), table.refs().count(), called.count())
spark.stop()
"""


def test_reading_tables_and_procedures_over_connect(weather_repo: Path) -> None:
    home = str(Path(frazil.__file__).resolve().parents[1])
    told = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(weather_repo)],
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
        env={**os.environ, "PYTHONPATH": home, "PYSPARK_PYTHON": sys.executable},
    )
    assert told.returncode == 0, told.stderr[-2000:]
    answer = next(line for line in told.stdout.splitlines() if "ANSWER" in line)
    assert answer.split("ANSWER")[1].split() == ["150", "1", "1", "2"]
