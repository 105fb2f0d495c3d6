"""The console switch for our log records, and warnings that are logged once."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Iterator

import pytest

from frazil.formats.config_codec import config_from_map
from frazil.logs import initialize_logs, set_logs_filter, warn_once


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


def test_a_warning_is_told_once_for_each_matter(caplog: pytest.LogCaptureFixture) -> None:
    logger = logging.getLogger("frazil.test")
    matter = uuid.uuid4()
    for _ in range(3):
        for place in ("a", "b"):
            warn_once(logger, (matter, place), "something odd in %s", place)
    assert [record.getMessage() for record in caplog.records] == [
        "something odd in a",
        "something odd in b",
    ]


def test_a_stored_container_is_told_to_be_ignored_once_for_each_repository(
    caplog: pytest.LogCaptureFixture,
) -> None:
    prefix = f"odd{uuid.uuid4().hex}:///"
    stored = {"virtual_chunk_containers": {prefix: {"url_prefix": prefix, "store": "in_memory"}}}
    for _ in range(4):
        for place in ("memory://a", "memory://b", ""):
            config_from_map(stored, repository=place)
    told = [r.getMessage() for r in caplog.records if "ignoring a stored" in r.getMessage()]
    assert ["memory://a" in each for each in told] == [True, False]
