"""The command as a process of its own: what it imports, its streams, its end."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.cli.conftest import Ocean

pytestmark = pytest.mark.slow
HEAVY = (
    "pyspark",
    "pandas",
    "xarray",
    "dask",
    "pyarrow",
    "zarr",
    "numcodecs",
    "obstore",
    "yaml",
    "asyncio",
    "pydantic",
)
OTHERS = ("frazil.cli.serve", "frazil.cli.spark_jobs", "frazil.cli.ingest")


def command(*arguments: str) -> list[str]:
    """The command line of a process."""
    return [sys.executable, "-m", "frazil.cli", *arguments]


def environment(**changes: str) -> dict[str, str]:
    """The environment without what would change the output."""
    kept = {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "FORCE_COLOR", "COLUMNS")}
    return {**kept, "TERM": "xterm-256color", **changes}


@pytest.mark.parametrize(
    ("arguments", "unneeded"),
    [
        (["--help"], HEAVY),
        (["ls", "{url}"], HEAVY + OTHERS),
        (["log", "{url}"], HEAVY + OTHERS),
        (["log", "{url}", "--json"], (*HEAVY, *OTHERS, "rich.console")),
    ],
    ids=["help", "ls", "log", "json"],
)
def test_looking_imports_nothing_heavy(
    still_ocean: Ocean, arguments: list[str], unneeded: tuple[str, ...]
) -> None:
    filled = [each.format(url=still_ocean.url) for each in arguments]
    program = (
        "import sys, atexit\n"
        f"heavy = set({unneeded!r})\n"
        "atexit.register(lambda: print(sorted(heavy & sys.modules.keys()), file=sys.stderr))\n"
        f"sys.argv = ['frazil', *{filled!r}]\n"
        "from frazil.cli import main\n"
        "main()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stderr.strip() == "[]"
    assert done.stdout


def test_a_reader_that_has_seen_enough_is_no_error(still_ocean: Ocean) -> None:
    process = subprocess.Popen(
        command("tree", still_ocean.url, "--json"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(),
    )
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    assert process.stderr.read() == b""
    process.stderr.close()
    assert process.wait() == 0


def test_interruption_is_quiet(tmp_path: Path) -> None:
    # Opening a pipe for reading waits for a writer, as a slow store would.
    place = tmp_path / "slow"
    place.mkdir()
    os.mkfifo(place / "waiting")
    program = (
        "import signal, sys\n"
        # Who runs tests in the background of a shell has made them deaf to this signal.
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "from frazil.cli import places\n"
        f"def slow(url): print('ready', flush=True); open({str(place / 'waiting')!r})\n"
        "places.open_place = slow\n"
        "sys.argv = ['frazil', 'log', 'anything']\n"
        "from frazil.cli import main\n"
        "main()\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    time.sleep(0.2)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (130, "", "")


def on_terminal(*arguments: str, **changes: str) -> str:
    """What the command prints on a terminal of 80 columns."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        command(*arguments),
        stdin=subprocess.DEVNULL,
        stdout=theirs,
        stderr=subprocess.DEVNULL,
        env=environment(COLUMNS="80", **changes),
    )
    os.close(theirs)
    parts: list[bytes] = []
    while True:
        try:
            part = os.read(ours, 1 << 16)
        except OSError:  # how Linux tells the end of a terminal
            break
        if not part:
            break
        parts.append(part)
    os.close(ours)
    assert process.wait() == 0
    return b"".join(parts).decode()


def test_terminals_have_colour_and_are_not_overfull(still_ocean: Ocean) -> None:
    assert "\x1b[" in on_terminal("log", still_ocean.url)
    plain = on_terminal("reflog", still_ocean.url, NO_COLOR="1")
    assert "\x1b[" not in plain
    assert max(map(len, plain.splitlines())) <= 80


@pytest.mark.parametrize(
    "arguments",
    [["sql", "{url}", "SELECT 1"], ["rechunk", "{url}", "time=1", "t"]],
    ids=["sql", "rechunk"],
)
def test_no_java_is_told_calmly(still_ocean: Ocean, tmp_path: Path, arguments: list[str]) -> None:
    filled = [each.format(url=still_ocean.url) for each in arguments]
    done = subprocess.run(
        command(*filled),
        capture_output=True,
        text=True,
        check=False,
        env=environment(JAVA_HOME=str(tmp_path)),
    )
    assert done.returncode != 0
    assert "Spark needs Java 17 or newer" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["sql", "{nowhere}", "SELECT 1"], "the repository doesn't exist"),
        (["sql", "{url}@nope", "SELECT 1"], "nope"),
        (["sql", "{url}", "SELECT 1", "--group", "nope"], "no group '/nope'"),
        (["export", "{nowhere}", "{nowhere}.zarr"], "the repository doesn't exist"),
        (["clone", "{nowhere}", "{nowhere}2"], "the repository doesn't exist"),
        (["rechunk", "{url}@nope", "time=1"], "nope"),
        (["ingest", "{nowhere}/*.nc", "{nowhere}"], "no file matches"),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_what_is_not_there_is_told_before_spark_starts(
    still_ocean: Ocean, tmp_path: Path, arguments: list[str], said: str
) -> None:
    nowhere = str(tmp_path / "nowhere")
    filled = [each.format(url=still_ocean.url, nowhere=nowhere) for each in arguments]
    done = subprocess.run(
        command(*filled),
        capture_output=True,
        text=True,
        check=False,
        env=environment(JAVA_HOME=str(tmp_path)),  # there is no Java: Spark cannot start
    )
    assert done.returncode != 0
    assert said in done.stderr
    assert "Java" not in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.soak
def test_an_embedded_spark_says_nothing_of_its_own(still_ocean: Ocean) -> None:
    done = subprocess.run(
        command("sql", still_ocean.url, "SELECT count(*) AS n FROM data", "--json"),
        capture_output=True,
        text=True,
        check=True,
        env=environment(),
    )
    assert '"n": 60' in done.stdout
    assert done.stderr.splitlines() == []
