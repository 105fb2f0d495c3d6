"""The table of verbs: each described once, with its effect, its report and help."""

from __future__ import annotations

import inspect
from datetime import UTC, datetime
from pathlib import Path

import pytest

import frazil
import frazil.icechunk as icechunk
from frazil.cli import garbage, rewriting, upkeep, versions
from frazil.cli.verbs import Command
from frazil.operations import VERBS, Effect
from frazil.repository import Repository
from frazil.transaction.opened import context_of
from tests.support.official import SIGNATURES

OURS = {
    "audit",
    "delete",
    "list_snapshots",
    "list_snapshots_async",
    "resolve",
    "space",
    "tip",
    "tip_async",
    "versions",
}
"""public names of `Repository` that the official package does not have"""
COMMANDS: tuple[Command, ...] = (
    *versions.COMMANDS,
    *garbage.TRASH,
    garbage.PURGE,
    upkeep.EXPIRE,
    upkeep.ANALYZE,
    *rewriting.COMMANDS,
)


def public(owner: type) -> set[str]:
    """The names that an editor offers."""
    return {name for name in dir(owner) if not name.startswith("_")}


@pytest.mark.parametrize("owner", [Repository, icechunk.Repository])
def test_a_repository_has_the_official_names_and_few_of_ours(owner: type) -> None:
    official = {name.partition(".")[2] for name in SIGNATURES if name.startswith("Repository.")}
    assert len(OURS) <= 15
    assert public(owner) == official | OURS


@pytest.mark.parametrize("name", VERBS)
def test_every_verb_tells_what_it_takes_and_gives(name: str) -> None:
    verb = VERBS[name]
    assert verb.run.__doc__
    assert verb.report not in ("", "None")
    is_dry = verb.parameters.get("dry_run")
    assert is_dry is None or (is_dry.by_name and is_dry.default is False)
    assert callable(verb.on(frazil.Repository.create(frazil.in_memory_storage())))


@pytest.mark.parametrize("name", [each for each in VERBS if each != "audit.staged"])
def test_every_verb_has_an_async_twin(name: str) -> None:
    namespace, _, method = name.partition(".")
    repository = frazil.Repository.create(frazil.in_memory_storage())
    assert hasattr(getattr(repository, namespace), f"{method}_async")


def test_help_comes_from_the_docstring() -> None:
    told = VERBS["space.purge"].parameters
    assert told["path"].help == "of an array or a group, now or at any time before."
    assert told["delete_backups"].help.endswith("One of the object as it is after all this stays.")
    assert told["region"].default is None
    assert not told["path"].by_name


@pytest.mark.parametrize("command", COMMANDS, ids=lambda each: each.name)
def test_commands_give_their_verbs_what_they_need(command: Command) -> None:
    name, _, branch = command.verb.rstrip(")").partition("(")
    parameters = VERBS[name].parameters
    needed = {each for each in parameters if parameters[each].default is inspect.Parameter.empty}
    given = {*command.takes.split()} | ({branch} if branch else set())
    assert needed <= given <= set(parameters)
    assert command.applies is not True or VERBS[name].effect is not Effect.DELETES


def test_what_changes_is_refused_where_nothing_can_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository = frazil.Repository.create(tmp_path / "repo")
    storage = type(context_of(repository).storage)
    monkeypatch.setattr(storage, "can_write", property(lambda _: False))
    with pytest.raises(frazil.ReadOnlyError):
        repository.space.expire(datetime.now(UTC))
    with pytest.raises(frazil.ReadOnlyError):
        repository.versions.fast_forward("main", "main")
    assert repository.versions.fast_forward("main", "main", dry_run=True).status == "up-to-date"
