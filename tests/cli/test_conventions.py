"""What all commands have in common: streams, exit codes, help, completion."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer import Typer
from typer.testing import CliRunner

from frazil.cli.answers import BY_CLASS, Exit, exit_code
from frazil.cli.app import COMMANDS, app_for, make_app
from frazil.cli.commands import COMMON
from frazil.errors import (
    ErrorKind,
    FormatError,
    FrazilError,
    InternalError,
    RepositoryNotFoundError,
    StorageError,
)
from tests.cli.conftest import Frazil, Ocean


def test_help_tells_commands_and_exit_codes() -> None:
    said = CliRunner().invoke(make_app(), ["--help"], env={"COLUMNS": "80", "TERMINAL_WIDTH": "80"})
    assert said.exit_code == 0
    assert "rewrite-manifests" in said.stdout
    assert "Exit codes: 0 done;" in said.stdout
    assert max(map(len, said.stdout.splitlines())) <= 80


def test_every_command_takes_json_and_debug() -> None:
    app = make_app()
    groups = [group.typer_instance for group in app.registered_groups]
    registered = [
        command for each in (app, *groups) if each for command in each.registered_commands
    ]
    assert len(registered) > 25
    for command in registered:
        assert command.callback is not None
        assert set(COMMON) < set(command.callback.__annotations__)


def names(app: Typer) -> set[str | None]:
    """The commands and groups that an app has."""
    commands = {command.name for command in app.registered_commands}
    return commands | {group.name for group in app.registered_groups}


@pytest.mark.parametrize("module", COMMANDS)
def test_the_table_names_the_commands_of_each_module(module: str) -> None:
    assert names(make_app([module])) == set(COMMANDS[module])


def test_a_call_has_the_commands_of_one_module_and_help_has_all() -> None:
    assert names(app_for(["log", "data"])) == set(COMMANDS["history"])
    for arguments in ([], ["--help"], ["lgo"], ["--version", "log"]):
        assert names(app_for(arguments)) == {name for each in COMMANDS.values() for name in each}


def test_errors_are_one_sentence_on_stderr(frazil_command: Frazil, still_ocean: Ocean) -> None:
    said = frazil_command("ls", f"{still_ocean.url}@nope")
    assert (said.code, said.out) == (3, "")
    assert said.err.startswith("frazil: no branch, tag or snapshot 'nope'")
    assert len(said.err.splitlines()) == 1


def test_errors_are_json_where_json_is_wanted(frazil_command: Frazil, still_ocean: Ocean) -> None:
    said = frazil_command("ls", f"{still_ocean.url}@nope", "--json")
    assert said.out == ""
    error = json.loads(said.err)["error"]
    assert (error["kind"], error["exit_code"]) == ("ref-not-found", 3)


def test_debug_raises_the_error(
    frazil_command: Frazil, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(RepositoryNotFoundError):
        frazil_command("ls", str(tmp_path), "--debug")
    monkeypatch.setenv("FRAZIL_DEBUG", "1")
    with pytest.raises(RepositoryNotFoundError):
        frazil_command("ls", str(tmp_path))


def test_wrong_usage_ends_with_two(frazil_command: Frazil) -> None:
    assert frazil_command("ls").code == 2
    assert frazil_command("lss").code == 2
    assert frazil_command("ls", "x", "--nope").code == 2
    assert frazil_command("ls", "strange://place").code == 2


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (StorageError("down"), Exit.FAILURE),
        (StorageError("gone", kind=ErrorKind.OBJECT_NOT_FOUND), Exit.NOT_FOUND),
        (FormatError("damaged"), Exit.FAILURE),
        (FormatError("old", kind=ErrorKind.UNSUPPORTED_SPEC_VERSION), Exit.REFUSED),
        (InternalError("bug"), Exit.FAILURE),
        *((cls(), code) for cls, code in BY_CLASS),
    ],
    ids=repr,
)
def test_every_kind_of_error_has_its_exit_code(error: FrazilError, code: Exit) -> None:
    assert exit_code(error) == code


def test_secrets_in_a_url_are_not_repeated(frazil_command: Frazil) -> None:
    for url in ("s3://key:s3cret@bucket/x", "ftp://user:s3cret@host/x"):
        said = frazil_command("ls", url)
        assert said.code == 2
        assert "s3cret" not in said.err + said.out


def test_version_is_told(frazil_command: Frazil) -> None:
    assert frazil_command("--version").out == "frazil 0.1.0\n"


def test_shells_can_complete_commands() -> None:
    asked = {"_FRAZIL_COMPLETE": "complete_bash", "COMP_WORDS": "frazil re", "COMP_CWORD": "1"}
    said = CliRunner().invoke(make_app(), [], env=asked, prog_name="frazil")
    found = said.stdout.split()
    assert {"reflog", "reset", "revert", "rewrite-manifests", "rechunk"} <= set(found)
    assert all(name.startswith("re") for name in found)
