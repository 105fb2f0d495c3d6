"""The documents share the Spark session of the other tests."""

from __future__ import annotations

from tests.spark.conftest import spark as spark
