"""The Spark session: the active one, an embedded one, or one at a cluster."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import frazil
from frazil.errors import ErrorKind, SessionStateError
from frazil.spark.class_archive import archived_classes

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OLDEST_JAVA: Final = 17
"""of Spark 4"""
OLDEST_SPARK: Final = (4, 1)
REMOTE: Final = "sc://"
_VERSION: Final = re.compile(r'version "(\d+)(?:\.(\d+))?')
_JAVA_TIMEOUT_S: Final = 60
_LOCAL: Final = "local"
_PATH: Final = "PYTHONPATH"
_WORKER_PYTHON: Final = "PYSPARK_PYTHON"
_SUBMITTED: Final = "PYSPARK_GATEWAY_PORT"
"""Set by `spark-submit` for the program that it starts."""
NO_FRAZIL: Final = "No module named 'frazil"
"""What Python says where it is not installed."""
_DAEMON: Final = "frazil.spark.daemon"
_NOTICE: Final = b"WARNING: Using incubator modules"
"""What Java says of an option that Spark always gives it."""
_STDERR: Final = 2

_LOGGING: Final = Path(__file__).with_name("log4j2.properties")
JAVA_OPTIONS: Final = "spark.driver.extraJavaOptions"
QUICK_START: Final = (
    # Only the first of Java's compilers. The second takes a third of the processor time in which
    # Spark starts and answers `SELECT 1` (16 s without this option, 10 s with it); then it makes a
    # scan of 20 million rows take 6 s instead of 15 s.
    "-XX:TieredStopAtLevel=1",
    # Spark's classes are not proved to be well formed, for a second or two: they come with PySpark
    # and are run in any case. A Java that does not know the option any more leaves it out.
    "-XX:+IgnoreUnrecognizedVMOptions",
    "-XX:+UnlockDiagnosticVMOptions",
    "-XX:-BytecodeVerificationRemote",
)
"""options of a Java that is to answer one small question soon"""

SETTINGS: Final = {
    # One meaning of a time on every machine.
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    # Rows come in Arrow batches, and larger ones cost less each.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
}
"""for every session that we make"""

LOCAL_SETTINGS: Final = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.sql.shuffle.partitions": str(2 * (os.cpu_count() or 2)),
}
"""for the embedded session"""


def session(
    master: str | None = None,
    *,
    app_name: str = "frazil",
    config: Mapping[str, Any] | None = None,
    short_lived: bool = False,
) -> SparkSession:
    """The active Spark session, or a new one.

    Args:
        master: `local[N]` (embedded; `local[*]` by default), the URL of a cluster, or
            `sc://host:port` of a Spark Connect server. Without it an active session is used, and in
            a program that `spark-submit` has started, the cluster that it was given.
        app_name: the name of a new session.
        config: further settings of Spark.
        short_lived: let an embedded session start sooner at the cost of how fast it computes in the
            long run: for one small question.

    Raises:
        SessionStateError: PySpark or Java is missing or too old.
    """
    require_pyspark()
    from pyspark.sql import SparkSession

    active = active_session()
    if active is not None and master is None:
        return active
    if active is not None and not str(master).startswith(REMOTE):
        _require_same(active, str(master))
    settings: dict[str, Any] = {
        **SETTINGS,
        **{name: _text(value) for name, value in (config or {}).items()},
    }
    builder = SparkSession.builder.appName(app_name)
    if master is not None and master.startswith(REMOTE):
        return builder.config(map=settings).remote(master).getOrCreate()
    if master is None and _SUBMITTED in os.environ:
        return builder.config(map=settings).getOrCreate()
    require_java()
    place = master or os.environ.get("MASTER") or "local[*]"
    if place.startswith(_LOCAL):
        settings = {**LOCAL_SETTINGS, **embedded_settings(short_lived=short_lived), **settings}
    with _environment(place), _without_notice(place):
        return builder.config(map=settings).master(place).getOrCreate()


def active_session() -> SparkSession | None:
    """The Spark session of this thread or, where the thread has none, of the process.

    Spark knows the active session of a thread only. To ask it for a new one elsewhere would give
    the session that exists, with its settings replaced by ours.
    """
    from pyspark.errors import PySparkRuntimeError
    from pyspark.sql import SparkSession

    try:
        found = SparkSession.active()
    except PySparkRuntimeError:
        return None
    # A session whose context was stopped stays known; one of Spark Connect has no context.
    context = getattr(found, "_sc", None)
    return None if context is not None and context._jsc is None else found


def require_pyspark() -> None:
    """Check that PySpark is there and new enough."""
    if find_spec("pyspark") is None or find_spec("pyarrow") is None:
        raise _unavailable("PySpark is not installed: pip install 'frazil[spark]'")
    from pyspark import __version__

    found = tuple(int(part) for part in re.findall(r"\d+", __version__)[:2])
    if found < OLDEST_SPARK:
        oldest = ".".join(map(str, OLDEST_SPARK))
        raise _unavailable(f"PySpark {__version__} is too old, Frazil needs {oldest} or newer")


def require_java() -> int:
    """Check that there is a Java that Spark can run on, and return its version."""
    home = os.environ.get("JAVA_HOME")
    program = find_java()
    needed = f"Spark needs Java {OLDEST_JAVA} or newer"
    if program is None:
        where = f"JAVA_HOME is {home}, and there is no bin/java in it" if home else "no java found"
        raise _unavailable(f"{needed}, but {where}; install it, or set JAVA_HOME to where it is")
    version = java_version(program)
    if version is None:
        raise _unavailable(f"{needed}, but {program} does not tell its version; is it a Java?")
    if version < OLDEST_JAVA:
        raise _unavailable(f"{needed}, but {program} is Java {version}; set JAVA_HOME to a newer")
    return version


def find_java() -> str | None:
    """The Java that Spark will run."""
    home = os.environ.get("JAVA_HOME")
    return shutil.which(str(Path(home) / "bin" / "java") if home else "java")


def java_version(program: str) -> int | None:
    """The major version of a Java; None when it does not tell."""
    try:
        output = subprocess.run(
            [program, "-version"],
            capture_output=True,
            text=True,
            timeout=_JAVA_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = _VERSION.search(output.stderr + output.stdout)
    if found is None:
        return None
    # Until 8 Java called itself 1.8.
    return int(found[2]) if found[1] == "1" and found[2] else int(found[1])


def require_version(wanted: str) -> None:
    """Check in a task that it has the Frazil of the driver."""
    if frazil.__version__ != wanted:
        raise _unavailable(
            f"Spark's workers run {sys.executable}, whose Frazil is {frazil.__version__}, and the "
            f"driver's is {wanted}: install the same Frazil there, or set {_WORKER_PYTHON}"
        )


def no_frazil() -> SessionStateError:
    """The error for workers that have no Frazil at all."""
    return _unavailable(
        f"the Python of Spark's workers has no Frazil: install Frazil {frazil.__version__} "
        f"there, or set {_WORKER_PYTHON} to a Python that has it"
    )


def _require_same(active: SparkSession, master: str) -> None:
    """Refuse another master than that of the active session: a process has one."""
    found = active.conf.get("spark.master", master)
    if found != master:
        raise _unavailable(
            f"a Spark session at {found} is active; stop it before starting one at {master}"
        )


def _unavailable(message: str) -> SessionStateError:
    return SessionStateError(message, kind=ErrorKind.SPARK_UNAVAILABLE)


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def embedded_settings(*, short_lived: bool) -> dict[str, str]:
    """Workers of the embedded session run our Python, unless a setting says otherwise."""
    python = os.environ.get(_WORKER_PYTHON, sys.executable)
    made = {
        "spark.pyspark.python": python,
        "spark.pyspark.driver.python": sys.executable,
        JAVA_OPTIONS: " ".join((java_options(), *(QUICK_START if short_lived else ()))),
    }
    # Another Python may lack Frazil. With our daemon module it would not start, and could not say
    # why.
    return {**made, "spark.python.daemon.module": _DAEMON} if python == sys.executable else made


def java_options(*more: str) -> str:
    """Options of Java for the embedded session, as Spark takes them: in one text."""
    # With a log4j configuration the JVM prints no warnings about having none. Failures are raised
    # here in one sentence, without Java's stack traces.
    logging = f"-Dlog4j2.configurationFile={_LOGGING.as_uri()}"
    return " ".join(f'"{each}"' for each in (logging, *(more or archived_classes(find_java()))))


@contextlib.contextmanager
def _environment(place: str) -> Iterator[None]:
    """Let the JVM that is started here hand its workers our Python and a path to Frazil."""
    if not place.startswith(_LOCAL):
        yield
        return
    home = str(Path(frazil.__file__).resolve().parents[1])
    before = {name: os.environ.get(name) for name in (_PATH, _WORKER_PYTHON)}
    parts = [part for part in (before[_PATH] or "").split(os.pathsep) if part]
    if home not in parts:
        os.environ[_PATH] = os.pathsep.join([*parts, home])
    os.environ.setdefault(_WORKER_PYTHON, sys.executable)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


@contextlib.contextmanager
def _without_notice(place: str) -> Iterator[None]:
    """Let a JVM that is started here say on standard error what it has to say, and no more."""
    try:
        ours = os.dup(_STDERR) if place.startswith(_LOCAL) else None
    except OSError:  # there is none
        ours = None
    if ours is None:
        yield
        return
    reading, writing = os.pipe()
    os.dup2(writing, _STDERR)
    os.close(writing)
    threading.Thread(target=_pass_on, args=(reading, ours), daemon=True).start()
    try:
        yield
    finally:
        # The JVM alone has the pipe then, as long as it lives.
        os.dup2(ours, _STDERR)


def _pass_on(reading: int, to: int) -> None:
    with os.fdopen(reading, "rb") as said, os.fdopen(to, "wb", buffering=0) as out:
        for line in said:
            if not line.startswith(_NOTICE):
                with contextlib.suppress(OSError):  # the reader has gone
                    out.write(line)
