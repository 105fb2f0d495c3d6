"""Settings that all tests share."""

from __future__ import annotations

import os

import pytest
from hypothesis import settings

from frazil.naming import OURS, name_process
from tests.support.soaking import SoakPlugin

# Two busy cores make single examples slow; the number of examples bounds the time instead.
settings.register_profile("quick", deadline=None, max_examples=12)
settings.register_profile("thorough", deadline=None, max_examples=1000)
settings.load_profile(os.environ.get("FRAZIL_HYPOTHESIS", "quick"))

# Tests start many Java machines that live for seconds; the second compiler, which makes long
# jobs fast, takes half of their time, and to check Spark's own classes a second each.
os.environ.setdefault(
    "SPARK_SUBMIT_OPTS",
    "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:+IgnoreUnrecognizedVMOptions "
    "-XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote",
)


def pytest_configure(config: pytest.Config) -> None:
    """Tests marked `soak` share the time that `make soak` has."""
    config.pluginmanager.register(SoakPlugin(), "frazil-soak")


@pytest.fixture(autouse=True)
def _our_names() -> None:
    """Records show our own names, though some test of this process has imported the facade."""
    name_process(OURS)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Begin with what takes longest, and keep the tests that share a Spark session together.

    With `--dist worksteal` each worker gets an equal run of neighbours, and takes from the end of
    the longest queue when it has none left. Every worker that runs a test on Spark starts a Java
    machine, so the first worker begins with all of these, and the second with other long tests.
    """
    workers = int(getattr(config, "workerinput", {}).get("workercount", 1))
    on_spark = [item for item in items if "spark" in getattr(item, "fixturenames", ())]
    others = [item for item in items if "spark" not in getattr(item, "fixturenames", ())]
    long = [item for item in others if item.get_closest_marker("timeout") is not None]
    rest = [item for item in others if item.get_closest_marker("timeout") is None]
    second = max(0, len(items) // workers - len(on_spark)) if workers > 1 else 0
    items[:] = [*on_spark, *rest[:second], *long, *rest[second:]]
