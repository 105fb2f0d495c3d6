"""The doctor tells what is there, and never a secret."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import Frazil, Ocean


def verdicts(said: object) -> dict[str, str]:
    """Verdict of each check."""
    assert isinstance(said, dict)
    return {check["name"]: check["verdict"] for check in said["checks"]}


def test_credentials_are_seen_but_not_shown(
    frazil_command: Frazil, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIA-very-s3cret")
    monkeypatch.delenv("GOOGLE_APPLICATION_CREDENTIALS", raising=False)
    monkeypatch.delenv("GOOGLE_SERVICE_ACCOUNT", raising=False)
    said = frazil_command("doctor", "--json")
    assert verdicts(said.data)["credentials for S3"] == "ok"
    assert verdicts(said.data)["credentials for Google Cloud"] == "absent"
    assert "AWS_ACCESS_KEY_ID" in said.out
    assert "s3cret" not in said.out + said.err


def test_storage_abilities_are_tried_and_leave_nothing(
    frazil_command: Frazil, ocean: Ocean
) -> None:
    before = sorted(path for path in ocean.path.rglob("*") if path.is_file())
    said = frazil_command("doctor", f"{ocean.url}@dev", "--write", "--json")
    found = verdicts(said.data)
    assert found["repository"] == "ok"
    assert found["refuses a stale replacement"] == "ok"
    assert found["deletes"] == "ok"
    assert sorted(path for path in ocean.path.rglob("*") if path.is_file()) == before


def test_writing_is_not_tried_unasked(frazil_command: Frazil, tmp_path: Path) -> None:
    said = frazil_command("doctor", str(tmp_path / "nothing"), "--json")
    assert verdicts(said.data)["repository"] == "absent"
    assert not (tmp_path / "nothing").exists()


@pytest.mark.parametrize(
    ("script", "told"),
    [
        ("#!/bin/sh\necho 'openjdk version \"1.8.0_402\"' >&2\n", "8, but Spark needs 17"),
        ("#!/bin/sh\necho 'openjdk version \"21.0.1\" 2023-10-17' >&2\n", "21 ("),
        ("#!/bin/sh\nexit 1\n", "does not tell its version"),
        (None, "JAVA_HOME has no bin/java"),
    ],
)
def test_java_is_found_by_its_version(
    frazil_command: Frazil,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    script: str | None,
    told: str,
) -> None:
    (tmp_path / "bin").mkdir()
    if script is not None:
        (tmp_path / "bin" / "java").write_text(script)
        (tmp_path / "bin" / "java").chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    [java] = [c for c in frazil_command("doctor", "--json").data["checks"] if c["name"] == "Java"]
    assert told in java["detail"]
    assert (java["verdict"] == "ok") == told.startswith("21")


def test_an_unreachable_storage_is_a_problem(frazil_command: Frazil) -> None:
    said = frazil_command("doctor", "nonsense://bucket/x")
    assert said.code == 6
    assert "!!" in said.out
