"""The command on an S3 server: options in the URL, credentials from the environment."""

from __future__ import annotations

import secrets

import pytest

from tests.cli.conftest import Frazil
from tests.support.fixtures import s3_server
from tests.support.servers import S3Server

__all__ = ["s3_server"]

pytestmark = pytest.mark.slow


@pytest.fixture
def query(s3_server: S3Server, monkeypatch: pytest.MonkeyPatch) -> str:
    """The end of URLs of the server, whose keys are in the environment."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", s3_server.access_key_id)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", s3_server.secret_access_key)
    return f"?endpoint_url={s3_server.endpoint}&region=us-east-1&allow_http&force_path_style"


def test_commands_work_on_an_object_store(
    frazil_command: Frazil, s3_server: S3Server, query: str
) -> None:
    place = f"s3://{s3_server.bucket}/{secrets.token_hex(4)}"
    assert frazil_command("init", place + query).code == 0
    assert frazil_command("tag", "create", place + query, "v1").code == 0
    data = frazil_command("log", f"{place}@v1{query}", "--json").data
    assert [each["message"] for each in data["snapshots"]] == ["Repository initialized"]
    # An active Spark session of other tests would take these over, without our environment.
    assert frazil_command("verify", place + query, "--all", "--engine", "local").code == 0
    assert frazil_command("gc", place + query, "--engine", "local").code == 0
    assert frazil_command("ls", f"{place}-not{query}").code == 3


def test_doctor_tries_an_object_store_and_tells_no_secret(
    frazil_command: Frazil, s3_server: S3Server, query: str
) -> None:
    place = f"s3://{s3_server.bucket}/{secrets.token_hex(4)}{query}"
    said = frazil_command("doctor", place, "--write", "--json")
    found = {check["name"]: check["verdict"] for check in said.data["checks"]}
    assert found["refuses a stale replacement"] == "ok"
    assert found["deletes"] == "ok"
    assert s3_server.secret_access_key not in said.out
