"""A browser in continuous integration: installed where that is possible, else done without."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.web.browser import find_browser

ROOT = Path(__file__).resolve().parents[2]
MAKE = '#!/bin/sh\necho "make $1 without=${FRAZIL_NO_BROWSER:-}"\n'


def ran(folder: Path, **programs: str) -> subprocess.CompletedProcess[str]:
    """`.ci/run` of a copy of the project, where only some programs are there."""
    bin_folder, home = folder / "bin", folder / "home" / ".ci"
    bin_folder.mkdir(parents=True)
    home.mkdir(parents=True)
    shutil.copy(ROOT / ".ci" / "run", home / "run")
    for name in ("sh", "dirname", "env", "chmod", "touch"):
        found = shutil.which(name)
        assert found is not None
        (bin_folder / name).symlink_to(found)
    for name, text in {"make": MAKE, **programs}.items():
        (bin_folder / name.replace("_", "-")).write_text(text)
        (bin_folder / name.replace("_", "-")).chmod(0o755)
    return subprocess.run(
        [home / "run"], env={"PATH": str(bin_folder)}, capture_output=True, text=True, check=False
    )


def test_where_no_browser_can_be_installed_this_is_told_and_handed_on(tmp_path: Path) -> None:
    done = ran(tmp_path / "no-apt", id="#!/bin/sh\necho 0\n")
    assert done.stdout == "make test without=1\n"
    assert "cannot be installed" in done.stderr
    done = ran(tmp_path / "no-root", id="#!/bin/sh\necho 1000\n", apt_get="#!/bin/sh\nexit 0\n")
    assert done.stdout == "make test without=1\n"


def test_a_browser_is_installed_after_the_lists_of_packages_are_fresh(tmp_path: Path) -> None:
    folder = tmp_path / "bin"
    apt = f"#!/bin/sh\necho apt $1\nif [ $1 = install ]; then touch {folder}/chromium; "
    apt += f"chmod 755 {folder}/chromium; fi\n"
    done = ran(tmp_path, id="#!/bin/sh\necho 0\n", apt_get=apt)
    assert done.stdout == "make test without=\n"
    assert "apt update\napt install" in done.stderr
    assert "cannot" not in done.stderr


def test_a_browser_that_is_there_is_taken(tmp_path: Path) -> None:
    done = ran(tmp_path, chromium="#!/bin/sh\n")
    assert (done.stdout, done.stderr) == ("make test without=\n", "")


def test_ci_fails_without_a_browser_unless_it_is_told_to_do_without(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.setenv("CI", "true")
    monkeypatch.delenv("FRAZIL_NO_BROWSER", raising=False)
    with pytest.raises(pytest.fail.Exception, match="apt-get"):
        find_browser()
    monkeypatch.setenv("FRAZIL_NO_BROWSER", "1")
    with pytest.raises(pytest.skip.Exception, match="FRAZIL_NO_BROWSER"):
        find_browser()
