"""Which runner a job gets, as far as that needs no Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from frazil.errors import ErrorKind, InvalidInputError, SessionStateError
from frazil.run import LocalRunner
from frazil.spark import engine
from frazil.spark.engine import AutoRunner, runner_for
from frazil.spark.runner import SparkRunner
from frazil.spark.tuning import FEW_BYTES, FEW_ITEMS


class Elsewhere:
    """Says where it ran instead of what the work gives."""

    def run(
        self, work: Callable[[Any], Any], items: Sequence[Any], *, size_bytes: int = 0
    ) -> Iterator[tuple[int, Any]]:
        return ((number, "elsewhere") for number, _ in enumerate(items))

    def facts(self) -> dict[str, object]:
        return {"spark.app.id": "x"}


@pytest.fixture
def auto(monkeypatch: pytest.MonkeyPatch) -> AutoRunner:
    """A runner that has a Spark, though no active session."""
    monkeypatch.setattr(engine, "_on_spark", lambda master: Elsewhere())
    monkeypatch.setattr(engine, "_can_start", lambda: True)
    monkeypatch.setattr(engine, "_has_session", lambda: False)
    return AutoRunner()


def ran(runner: AutoRunner, count: int, size_bytes: int = 0) -> str:
    """Where some items ran."""
    return str(dict(runner.run(lambda _: "here", range(count), size_bytes=size_bytes))[0])


def test_small_work_is_done_here(auto: AutoRunner) -> None:
    assert ran(auto, FEW_ITEMS, FEW_BYTES) == "here"
    assert auto.facts() == {}


@pytest.mark.parametrize(("count", "size_bytes"), [(FEW_ITEMS + 1, 0), (1, FEW_BYTES + 1)])
def test_more_work_goes_to_spark_and_so_does_what_follows(
    auto: AutoRunner, count: int, size_bytes: int
) -> None:
    assert ran(auto, count, size_bytes) == "elsewhere"
    assert ran(auto, 1) == "elsewhere"
    assert auto.facts() == {"spark.app.id": "x"}


def test_an_active_session_is_used(auto: AutoRunner, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "_has_session", lambda: True)
    assert ran(auto, 1) == "elsewhere"


def test_without_spark_all_work_is_done_here(
    auto: AutoRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "_can_start", lambda: False)
    assert ran(auto, FEW_ITEMS + 1) == "here"


def test_engines_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    assert isinstance(runner_for("local"), LocalRunner)
    assert isinstance(runner_for("spark"), SparkRunner)
    assert isinstance(runner_for("auto"), AutoRunner)
    assert isinstance(runner_for("auto", "local[1]"), SparkRunner)
    with pytest.raises(InvalidInputError, match="did you mean 'local'"):
        runner_for("lokal")
    with pytest.raises(InvalidInputError, match="leave out the master"):
        runner_for("local", "local[1]")

    def missing() -> None:
        raise SessionStateError("no PySpark", kind=ErrorKind.SPARK_UNAVAILABLE)

    monkeypatch.setattr(engine, "require_pyspark", missing)
    with pytest.raises(SessionStateError, match="no PySpark"):
        runner_for("spark")
