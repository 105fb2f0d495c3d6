"""The parts behind a repository: the same for all who ask, and none once it was upgraded."""

from __future__ import annotations

import pytest

from frazil.repository import Repository
from frazil.storage.memory import MemoryStorage
from frazil.transaction.opened import context_of
from frazil.upgrade import upgrade_repository


def test_the_parts_are_those_that_sessions_work_with() -> None:
    repository = Repository.create(MemoryStorage())
    parts = context_of(repository)
    assert context_of(repository) is parts
    assert repository.writable_session("main").state.context is parts
    assert parts.refs.branches().keys() == {"main"}


def test_a_handle_that_upgraded_its_repository_has_no_parts_any_more() -> None:
    storage = MemoryStorage()
    repository = Repository.create(storage, spec_version=1)
    upgrade_repository(repository, delete_unused_v1_files=False)
    with pytest.raises(RuntimeError, match="invalidated"):
        context_of(repository)
    assert context_of(Repository.open(storage)).generation.number == 2
