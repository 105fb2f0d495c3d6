"""Errors of Spark's workers, told on the driver as what they are: one sentence of ours."""

from __future__ import annotations

import base64
import contextlib
import json
import re
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from typing import Final

import frazil
from frazil import errors
from frazil.errors import FrazilError
from frazil.spark.sessions import NO_FRAZIL, no_frazil, require_version

_NOTE: Final = "frazil-error:"
_ERROR: Final = re.compile(_NOTE + r"([A-Za-z0-9+/=]+)")
_IN_PYTHON: Final = "by authorize_virtual_chunk_access when the repository is opened"
_IN_SPARK: Final = "by the option 'authorize-virtual-chunk-access'"
_NOT_FOUND: Final = "DATA_SOURCE_NOT_FOUND"
_RAISED: Final = re.compile(r"^(?:[\w.]*\.)?[A-Z]\w*(?:Error|Exception): .+", re.MULTILINE)
"""How the last line of a Python traceback looks."""


@contextlib.contextmanager
def noted(version: str = frazil.__version__) -> Iterator[None]:
    """Add to an error of ours what it takes to raise it again on the driver.

    Raises:
        SessionStateError: this task has another Frazil than the driver, whose version is given.
    """
    try:
        require_version(version)
        yield
    except FrazilError as error:
        message = str(error).replace(_IN_PYTHON, _IN_SPARK)
        facts = {"class": type(error).__name__, "kind": str(error.kind), "message": message}
        error.add_note(_NOTE + base64.b64encode(json.dumps(facts).encode()).decode())
        raise


@contextlib.contextmanager
def told() -> Iterator[None]:
    """Raise the error that a task ended with, instead of Spark's report about it."""
    try:
        yield
    except spark_errors() as error:
        text = str(error)
        found = _ERROR.findall(text)
        if found:
            raise _rebuilt(json.loads(base64.b64decode(found[-1]))) from error
        # Sources are looked for by the Python that Spark runs.
        if NO_FRAZIL in text or _NOT_FOUND in text:
            raise no_frazil() from error
        raise


def _rebuilt(facts: Mapping[str, str]) -> FrazilError:
    cls: type[FrazilError] = getattr(errors, facts["class"], FrazilError)
    error = cls.__new__(cls, facts["message"])
    FrazilError.__init__(error, facts["message"], facts["kind"])
    return error


def spark_errors() -> tuple[type[Exception], ...]:
    """What Spark raises; over Connect there may be no bridge to Java."""
    if find_spec("pyspark") is None:
        return ()
    from pyspark.errors import PySparkException

    if find_spec("py4j") is None:
        return (PySparkException,)
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]  # it has none

    return (PySparkException, Py4JError)


def in_one_sentence(error: BaseException) -> str:
    """The part of Spark's report that is for people: no stack traces, no codes."""
    text = str(error)
    raised = _RAISED.findall(text)
    if "Traceback (most recent call last)" in text and raised:
        return " ".join(raised[-1].split())
    said = text.partition("JVM stacktrace:")[0].split("\n\tat ")[0].strip()
    return " ".join(said.split("SQLSTATE")[0].split()).rstrip(" .;")
