"""One Spark session for all tests, and sample repositories that nobody changes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import xarray as xr
from pyspark.sql import SparkSession

from frazil.spark.class_archive import archived_classes
from frazil.spark.sessions import JAVA_OPTIONS, QUICK_START, find_java, java_options, session
from tests.support.spark import WEATHER_ENCODING, make_repository, weather

QUICK_JAVA = (*QUICK_START, "-XX:+UseSerialGC")
"""Much code runs a few times only in tests: to compile it well takes longer than to run it."""


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """An embedded Spark with two workers."""
    made = session(
        "local[2]",
        app_name="frazil tests",
        config={
            "spark.sql.shuffle.partitions": 2,
            "spark.driver.memory": "1g",
            JAVA_OPTIONS: java_options(*archived_classes(find_java()), *QUICK_JAVA),
            "spark.sql.warehouse.dir": tmp_path_factory.mktemp("warehouse"),
        },
    )
    yield made
    made.stop()


@pytest.fixture(scope="session")
def dataset() -> xr.Dataset:
    """The dataset behind `weather_repo`."""
    return weather()


@pytest.fixture(scope="session")
def weather_repo(tmp_path_factory: pytest.TempPathFactory, dataset: xr.Dataset) -> Path:
    """A repository on disk with daily fields, in chunks that do not fit the shape."""
    path = tmp_path_factory.mktemp("weather") / "repo"
    make_repository(path, dataset, **WEATHER_ENCODING)
    return path
