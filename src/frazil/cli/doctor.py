"""`doctor`: checks the installation on this machine and access to one storage."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Final

import typer

from frazil.cli.answers import Answer, Exit, Screen, styled
from frazil.cli.commands import add_command
from frazil.errors import FrazilError

if TYPE_CHECKING:
    from frazil.storage.base import Storage

PACKAGES: Final = ("zarr", "numpy", "obstore", "xarray", "dask", "virtualizarr")
CREDENTIALS: Final = {
    "S3": ("AWS_ACCESS_KEY_ID", "AWS_PROFILE", "AWS_WEB_IDENTITY_TOKEN_FILE"),
    "Google Cloud": ("GOOGLE_APPLICATION_CREDENTIALS", "GOOGLE_SERVICE_ACCOUNT"),
    "Azure": ("AZURE_STORAGE_ACCOUNT_KEY", "AZURE_STORAGE_SAS_TOKEN", "AZURE_CLIENT_ID"),
}
FILES: Final = {
    "S3": "~/.aws/credentials",
    "Google Cloud": "~/.config/gcloud/application_default_credentials.json",
}


class Verdict(StrEnum):
    """What a check says."""

    OK = "ok"
    ABSENT = "absent"
    PROBLEM = "problem"


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was looked at."""

    name: str
    verdict: Verdict
    detail: str


def add_commands(app: typer.Typer) -> None:
    """Add the commands of this file."""
    add_command(app, "doctor", doctor, "Set up")


def doctor(
    url: Annotated[
        str | None,
        typer.Argument(metavar="URL", help="A storage to try, if any.", show_default=False),
    ] = None,
    write: Annotated[
        bool,
        typer.Option("--write", help="Also try writing: a few small files, deleted again."),
    ] = False,
) -> Answer:
    """Look for what Frazil needs: packages, Java, Spark, credentials, and what a storage can do.

    Of credentials it tells whether they are there, never what they are.
    """
    checks = [*_machine(), *_spark(), *_credentials()]
    if url is not None:
        checks += _storage(url, write=write)
    has_problem = any(check.verdict == Verdict.PROBLEM for check in checks)
    data = {"ok": not has_problem, "checks": [asdict(check) for check in checks]}
    code = Exit.FINDINGS if has_problem else Exit.OK
    return Answer(data, lambda screen: _show(screen, checks), code)


def _show(screen: Screen, checks: list[Check]) -> None:
    marks = {
        Verdict.OK: styled("ok", "green"),
        Verdict.ABSENT: styled("--", "dim"),
        Verdict.PROBLEM: styled("!!", "bold red"),
    }
    rows = [[marks[check.verdict], check.name, check.detail] for check in checks]
    screen.table(("", "", ""), rows, header=False)


# --- this machine ---


def _machine() -> Iterator[Check]:
    import platform
    from importlib import metadata

    import frazil

    system = f"{platform.python_version()} on {platform.system()} {platform.machine()}"
    yield Check("Frazil", Verdict.OK, frazil.__version__)
    yield Check("Python", Verdict.OK, system)
    for package in PACKAGES:
        try:
            yield Check(package, Verdict.OK, metadata.version(package))
        except metadata.PackageNotFoundError:
            yield Check(package, Verdict.ABSENT, "not installed")


def _spark() -> Iterator[Check]:
    from importlib import metadata

    from frazil.spark.sessions import OLDEST_SPARK

    try:
        version = metadata.version("pyspark")
    except metadata.PackageNotFoundError:
        yield Check("Spark", Verdict.ABSENT, "not installed: pip install 'frazil[spark]'")
        yield _java(is_needed=False)
        return
    found = tuple(int(part) for part in version.split(".")[:2] if part.isdigit())
    if found < OLDEST_SPARK:
        oldest = ".".join(map(str, OLDEST_SPARK))
        yield Check("Spark", Verdict.PROBLEM, f"{version}, but {oldest} or newer is needed")
    else:
        yield Check("Spark", Verdict.OK, version)
    yield _java(is_needed=True)


def _java(*, is_needed: bool) -> Check:
    import re
    import shutil
    import subprocess

    from frazil.spark.sessions import OLDEST_JAVA

    worst = Verdict.PROBLEM if is_needed else Verdict.ABSENT
    home = os.environ.get("JAVA_HOME")
    program = shutil.which("java", path=os.path.join(home, "bin") if home else None)  # noqa: PTH118 - `which` takes text
    if program is None:
        where = "JAVA_HOME has no bin/java" if home else "no java on the PATH"
        need = f"; Spark needs Java {OLDEST_JAVA} or newer" if is_needed else ""
        return Check("Java", worst, f"{where}{need}")
    try:
        said = subprocess.run(
            [program, "-version"], capture_output=True, text=True, timeout=20, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return Check("Java", worst, f"{program} does not run: {error}")
    version = re.search(r'version "(\d+)(?:\.(\d+))?[^"]*"', said.stderr + said.stdout)
    if version is None:
        return Check("Java", worst, f"{program} does not tell its version")
    number = int(version[2] or 0) if version[1] == "1" else int(version[1])
    if number < OLDEST_JAVA:
        return Check("Java", worst, f"{number}, but Spark needs {OLDEST_JAVA} or newer")
    return Check("Java", Verdict.OK, f"{number} ({program})")


def _credentials() -> Iterator[Check]:
    from pathlib import Path

    for store, variables in CREDENTIALS.items():
        seen = [name for name in variables if os.environ.get(name)]
        file = FILES.get(store)
        if file is not None and Path(file).expanduser().is_file():
            seen.append(file)
        name = f"credentials for {store}"
        detail = f"seen: {', '.join(seen)}" if seen else "none seen"
        yield Check(name, Verdict.OK if seen else Verdict.ABSENT, detail)


# --- a storage ---


def _storage(url: str, *, write: bool) -> Iterator[Check]:
    """What a storage can do; the first failure ends it, for the rest would fail alike."""
    from frazil.opening import detect_generation
    from frazil.storage.by_url import storage_from_url
    from frazil.urls import parse_url

    try:
        storage = storage_from_url(parse_url(url).url)
        found = detect_generation(storage)
        yield Check("storage", Verdict.OK, f"{storage.url} answers")
        if found is None:
            yield Check("repository", Verdict.ABSENT, "none here")
        else:
            yield Check("repository", Verdict.OK, found.generation.title)
        if not storage.can_write:
            yield Check("writing", Verdict.ABSENT, "this storage is read-only")
        elif write:
            yield from _probe(storage)
        else:
            yield Check("writing", Verdict.ABSENT, "not tried: --write does")
    except FrazilError as error:
        yield Check("storage", Verdict.PROBLEM, str(error))


def _probe(storage: Storage) -> Iterator[Check]:
    """Try what commits need, on files that are deleted again."""
    import secrets

    from frazil.storage.base import LostRace, Written

    key = f"doctor/{secrets.token_hex(8)}"
    try:
        made = storage.put_if(key, b"first", None)
        is_made = isinstance(made, Written)
        yield _ability("create if absent", is_made)
        again = storage.put_if(key, b"second", None)
        yield _ability("refuses a second creation", isinstance(again, LostRace))
        if isinstance(made, Written):
            swapped = storage.put_if(key, b"third", made.version)
            yield _ability("replace if unchanged", isinstance(swapped, Written))
            stale = storage.put_if(key, b"fourth", made.version)
            yield _ability("refuses a stale replacement", isinstance(stale, LostRace))
        yield _ability("reads what was written", storage.get(key) == b"third")
        yield _ability("reads a range", storage.get(key, 1, 3) == b"hi")
        yield _ability("lists", any(item.key == key for item in storage.list("doctor/")))
    finally:
        left = storage.delete_many([key]).failed
    yield _ability("deletes", not left and storage.head(key) is None)


def _ability(name: str, is_there: bool) -> Check:
    if is_there:
        return Check(name, Verdict.OK, "yes")
    return Check(name, Verdict.PROBLEM, "no: commits are not safe here")
