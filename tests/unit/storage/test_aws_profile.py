"""Keys of AWS profiles are found where the AWS tools find them."""

from __future__ import annotations

from pathlib import Path

import pytest

from frazil.storage.aws_profile import profile_key, profile_region
from frazil.storage.constructors import s3_storage
from frazil.storage.credentials import S3StaticCredentials
from tests.support.web import WebServer

SHARED = """
[default]
aws_access_key_id = AKDEFAULT
aws_secret_access_key = s1

[work]
aws_access_key_id = AKWORK
aws_secret_access_key = s2
aws_session_token = t2
"""
CONFIG = """
[default]
region = eu-west-1

[profile work]
region = us-west-2

[profile sso]
sso_session = company
"""


@pytest.fixture
def home(tmp_path: Path) -> dict[str, str]:
    folder = tmp_path / ".aws"
    folder.mkdir()
    (folder / "credentials").write_text(SHARED)
    (folder / "config").write_text(CONFIG)
    return {"HOME": str(tmp_path)}


def test_the_profile_is_chosen_by_name(home: dict[str, str]) -> None:
    assert profile_key(home) == S3StaticCredentials("AKDEFAULT", "s1")
    assert profile_region(home) == "eu-west-1"
    work = home | {"AWS_PROFILE": "work"}
    assert profile_key(work) == S3StaticCredentials("AKWORK", "s2", "t2")
    assert profile_region(work) == "us-west-2"


def test_other_sources_are_left_alone(home: dict[str, str], tmp_path: Path) -> None:
    assert profile_key(home | {"AWS_ACCESS_KEY_ID": "AK"}) is None
    assert profile_key(home | {"AWS_WEB_IDENTITY_TOKEN_FILE": "/t"}) is None
    assert profile_region(home | {"AWS_REGION": "r"}) is None
    assert profile_key(home | {"AWS_PROFILE": "sso"}) is None
    assert profile_key({"HOME": str(tmp_path / "nobody")}) is None


def test_files_may_lie_elsewhere_or_be_damaged(home: dict[str, str], tmp_path: Path) -> None:
    other = tmp_path / "keys"
    other.write_text("[default]\naws_access_key_id=AKOTHER\naws_secret_access_key=s%3\n")
    found = profile_key(home | {"AWS_SHARED_CREDENTIALS_FILE": str(other)})
    assert found == S3StaticCredentials("AKOTHER", "s%3")
    other.write_bytes(b"\xff\xfe not an ini file")
    assert profile_key({"AWS_SHARED_CREDENTIALS_FILE": str(other), "HOME": "/nowhere"}) is None


def test_requests_are_signed_with_the_key_of_the_profile(
    web_server: WebServer, home: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_REGION", "AWS_DEFAULT_REGION", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", home["HOME"])
    s3_storage(bucket="b", prefix="p", endpoint_url=web_server.url, allow_http=True).get("k")
    signed = web_server.headers_of("GET")[0]["authorization"]
    assert "Credential=AKDEFAULT/" in signed
    assert "/eu-west-1/s3/" in signed
