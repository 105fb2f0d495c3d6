"""Keys and region from the AWS configuration files, which obstore does not read.

Only what stands in the files: profiles that need a login or another role are left to obstore's
own sources (environment, web identity, container, instance).
"""

from __future__ import annotations

import configparser
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from frazil.storage.credentials import S3StaticCredentials

_ELSEWHERE: Final = (
    "AWS_ACCESS_KEY_ID",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
)
_REGION: Final = ("AWS_REGION", "AWS_DEFAULT_REGION")


def profile_key(env: Mapping[str, str] = os.environ) -> S3StaticCredentials | None:
    """The key of the chosen profile, unless the environment names another source."""
    if any(env.get(name) for name in _ELSEWHERE):
        return None
    found = _section(env)
    key, secret = found.get("aws_access_key_id"), found.get("aws_secret_access_key")
    if not key or not secret:
        return None
    return S3StaticCredentials(key, secret, found.get("aws_session_token"))


def profile_region(env: Mapping[str, str] = os.environ) -> str | None:
    """The region of the chosen profile, unless the environment names one."""
    if any(env.get(name) for name in _REGION):
        return None
    return _section(env).get("region")


def _section(env: Mapping[str, str]) -> dict[str, str]:
    """What both files say of the profile; the credentials file counts more."""
    home = Path(env.get("HOME") or "~").expanduser() / ".aws"
    profile = env.get("AWS_PROFILE") or "default"
    named = profile if profile == "default" else f"profile {profile}"
    config = env.get("AWS_CONFIG_FILE") or home / "config"
    shared = env.get("AWS_SHARED_CREDENTIALS_FILE") or home / "credentials"
    return _read(Path(config), named) | _read(Path(shared), profile)


def _read(path: Path, section: str) -> dict[str, str]:
    parser = configparser.RawConfigParser()
    try:
        parser.read_string(path.read_text())
    except (OSError, UnicodeDecodeError, configparser.Error):
        return {}  # a missing or foreign file is as good as none; the store will tell
    return dict(parser[section]) if parser.has_section(section) else {}
