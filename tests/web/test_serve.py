"""`frazil serve` as people start it: what it prints, what it refuses, how it stops."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import httpx
import pytest
from typer.testing import CliRunner

from frazil.cli.app import make_app
from tests.web.conftest import Places

SOURCE = str(Path(__file__).resolve().parents[2] / "src")


def said(*words: str) -> tuple[int, str]:
    result = CliRunner().invoke(make_app(), ["serve", *words])
    return result.exit_code, result.stdout + result.stderr


def test_it_prints_an_address_with_a_token_and_stops_when_asked(places: Places) -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join((SOURCE, *sys.path))}
    with subprocess.Popen(
        [sys.executable, "-m", "frazil.cli", "serve", places.ocean, "--port", "0", "--zarr"],
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    ) as process:
        try:
            assert process.stderr is not None
            lines = []
            for line in process.stderr:
                lines.append(line)
                if line.startswith("Ctrl+C"):
                    break
            told = "".join(lines)
            found = re.search(r"open (http://127\.0\.0\.1:\d+/)\?token=(\S+)", told)
            assert found is not None, told
            with httpx.Client(follow_redirects=True, timeout=30) as client:
                assert client.get(f"{found[1]}?token={found[2]}").status_code == 200
                assert client.get(f"{found[1]}r/ocean/").status_code == 200
            assert httpx.get(found[1], timeout=30).status_code == 403
            zarr = re.search(r"Zarr: (\S+)", told)
            assert zarr is not None
            assert httpx.get(f"{zarr[1]}zarr.json", timeout=30).status_code == 200
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(30)
        assert process.returncode in (0, 130)


def test_the_only_repository_must_be_there(tmp_path: Path) -> None:
    code, text = said(str(tmp_path / "nothing"), "--port", "0")
    assert code == 3
    assert "Traceback" not in text


def test_other_machines_need_the_token(places: Places) -> None:
    code, text = said(places.ocean, "--host", "0.0.0.0", "--no-token")
    assert code == 2
    assert "--no-token" in text


def test_cors_goes_with_zarr(places: Places) -> None:
    assert said(places.ocean, "--cors", "*") == (2, "frazil: --cors needs --zarr\n")


def test_a_port_in_use_is_told(places: Places) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        code, text = said(places.ocean, "--port", str(taken.getsockname()[1]))
    assert code == 2
    assert "--port 0" in text


def test_an_unknown_container_is_told(places: Places) -> None:
    code, text = said(places.ocean, "--port", "0", "--authorize", "s3://nobody/")
    assert code == 3
    assert "s3://nobody/" in text


@pytest.mark.parametrize("missing", ["starlette", "uvicorn", "jinja2"])
def test_what_is_not_installed_is_named_with_the_extra(
    monkeypatch: pytest.MonkeyPatch, missing: str, places: Places
) -> None:
    for name in [each for each in sys.modules if each.startswith(("frazil.web", f"{missing}."))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, missing, None)
    code, text = said(places.ocean)
    assert code == 2
    assert "pip install 'frazil[web]'" in text
