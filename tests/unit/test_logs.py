"""The console switch for our log records."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from frazil.logs import initialize_logs, set_logs_filter


@pytest.fixture(autouse=True)
def _quiet(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in ("FRAZIL_LOG", "ICECHUNK_LOG", "ICECHUNK_LOG_TO_STDOUT"):
        monkeypatch.delenv(name, raising=False)
    initialize_logs()
    yield
    monkeypatch.undo()
    initialize_logs()


def say() -> None:
    logging.getLogger("frazil.repository").debug("details")
    logging.getLogger("frazil.storage").warning("trouble")


def printed(capfd: pytest.CaptureFixture[str]) -> str:
    say()
    out, err = capfd.readouterr()
    assert out == ""
    return err


def test_nothing_is_printed_unless_asked(capfd: pytest.CaptureFixture[str]) -> None:
    assert printed(capfd) == ""


@pytest.mark.parametrize(
    ("text", "details", "trouble"),
    [
        ("debug", True, True),
        ("trace", True, True),
        ("warn", False, True),
        ("false", False, False),
        ("off", False, False),
        ("", False, False),
        ("icechunk=debug", True, True),
        ("frazil.repository:debug,error", True, False),
        ("icechunk::repository=debug,error", True, False),
        ("other_program=debug", False, False),
    ],
)
def test_the_filter_chooses(
    text: str, details: bool, trouble: bool, capfd: pytest.CaptureFixture[str]
) -> None:
    set_logs_filter(text)
    err = printed(capfd)
    assert ("details" in err) is details
    assert ("trouble" in err) is trouble


@pytest.mark.parametrize("variable", ["FRAZIL_LOG", "ICECHUNK_LOG"])
def test_the_environment_is_asked(
    variable: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(variable, "debug")
    set_logs_filter(None)
    assert "details" in printed(capfd)
    monkeypatch.delenv(variable)
    set_logs_filter(None)
    assert printed(capfd) == ""


def test_records_can_go_to_standard_output(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ICECHUNK_LOG", "debug")
    monkeypatch.setenv("ICECHUNK_LOG_TO_STDOUT", "1")
    initialize_logs()
    say()
    out, err = capfd.readouterr()
    assert "details" in out
    assert err == ""


def test_misspelled_names_are_pointed_out(capfd: pytest.CaptureFixture[str]) -> None:
    set_logs_filter("icehunk::repository:trace,debug,tokio::io:warn")
    err = capfd.readouterr().err
    assert "WARNING" in err
    assert "icehunk" in err
    assert "tokio" not in err


def test_programs_with_their_own_logging_see_our_records(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, logger="frazil"):
        say()
    assert [record.message for record in caplog.records] == ["details", "trouble"]
