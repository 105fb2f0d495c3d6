"""Errors of Spark's workers, raised on the driver as our own exceptions with one sentence."""

from __future__ import annotations

import contextlib
import re
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from typing import Final

import frazil
from frazil import errors
from frazil.errors import FrazilError, InternalError
from frazil.spark.sessions import NO_FRAZIL, no_frazil, require_version

_NOTE: Final = "kind of error: frazil/"
_KIND: Final = re.compile(_NOTE + r"([a-z-]+)")
_CLASS: Final = re.compile(r"^(?:frazil|icechunk)\.(?:\w+\.)*(\w+): ", re.MULTILINE)
"""How the sentence of an error begins where a Python traceback ends."""
_IN_PYTHON: Final = "by authorize_virtual_chunk_access when the repository is opened"
_IN_SPARK: Final = "by the option 'authorize-virtual-chunk-access'"
_NOT_FOUND: Final = "DATA_SOURCE_NOT_FOUND"
_PYSPARK_LOGGER: Final = "SQLQueryContextLogger"
_RAISED: Final = re.compile(r"^(?:[\w.]*\.)?[A-Z]\w*(?:Error|Exception): .+", re.MULTILINE)
"""How the last line of a Python traceback looks."""


class mark_task_errors:  # a block as those of contextlib, which would restore the traceback
    """Let an error of ours be one sentence in Spark's report, and be raised again on the driver.

    Raises:
        SessionStateError: this task has another Frazil than the driver, whose version is given.
    """

    def __init__(self, version: str = frazil.__version__) -> None:
        self._version = version

    def __enter__(self) -> None:
        try:
            require_version(self._version)
        except FrazilError as error:
            raise _with_note(error) from None

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if isinstance(error, FrazilError):
            _with_note(error)
            # Spark prints tracebacks. This one is short and ends in the sentence, whatever led to
            # it; only where a mistake of ours was made is worth reading.
            if not isinstance(error, InternalError):
                raise error.with_traceback(None) from None


def _with_note(error: FrazilError) -> FrazilError:
    _name_option(error)
    note = f"{_NOTE}{error.kind}"
    if note not in getattr(error, "__notes__", ()):
        error.add_note(note)
    return error


def _name_option(error: FrazilError) -> None:
    """Let an error advise the option of the source instead of an argument in Python."""
    error.args = (str(error.args[0]).replace(_IN_PYTHON, _IN_SPARK), *error.args[1:])


def error_texts(error: FrazilError) -> tuple[str, str]:
    """What must stand before and after the sentence of an error that Spark's own code raises."""
    return f"\nfrazil.errors.{type(error).__name__}: ", f"\n{_NOTE}{error.kind}\n"


@contextlib.contextmanager
def raise_task_errors() -> Iterator[None]:
    """Raise the error that a task ended with, instead of Spark's report about it."""
    try:
        yield
    except FrazilError as error:  # of work that was done here instead of by tasks
        _name_option(error)
        raise
    except spark_errors() as error:
        text = str(error)
        found = _found(text)
        if found is not None:
            raise found from error
        # Sources are looked for by the Python that Spark runs.
        if NO_FRAZIL in text or _NOT_FOUND in text:
            raise no_frazil() from error
        raise


def _found(text: str) -> FrazilError | None:
    """The last error of ours in a report of Spark."""
    kinds = [*_KIND.finditer(text)]
    classes = [*_CLASS.finditer(text, 0, kinds[-1].start())] if kinds else []
    if not classes:
        return None
    cls = getattr(errors, classes[-1].group(1), FrazilError)
    message = text[classes[-1].end() : kinds[-1].start()].rstrip().removesuffix(cls.hint or "")
    error: FrazilError = cls.__new__(cls, message)
    FrazilError.__init__(error, message.rstrip(), kinds[-1].group(1))
    return error


def spark_errors() -> tuple[type[Exception], ...]:
    """What Spark raises, if it was used; over Connect there may be no bridge to Java."""
    if "pyspark" not in sys.modules:
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


@contextlib.contextmanager
def without_pyspark_logging() -> Iterator[None]:
    """Keep PySpark from writing an error to stderr that is raised in a better form."""
    from pyspark.logger import PySparkLogger  # it makes the logger, of a class of its own

    logger = PySparkLogger.getLogger(_PYSPARK_LOGGER)
    before = logger.disabled
    logger.disabled = True
    try:
        yield
    finally:
        logger.disabled = before
