"""The official packages leave statistics alone, and they hold afterwards."""

from __future__ import annotations

import pytest

from frazil.repository import Repository
from frazil.storage.local import LocalStorage
from tests.peer.conftest import Case
from tests.peer.test_interop_maintenance import files, grow, soon
from tests.support.peer import ours

pytestmark = pytest.mark.peer


def test_they_are_left_alone_by_expiry_and_collection(case: Case) -> None:
    if case.writer.environment == ours():
        pytest.skip("the other cases have an official package do the work")
    grow(case)
    repo = Repository.open(LocalStorage(str(case.repo)))
    done = repo.audit.analyze()
    assert not done.failed
    before = {name for name in files(case.repo) if name.startswith("frazil/")}
    case.writer.call("expire", case.repo, older_than=soon())
    case.writer.call("collect", case.repo, older_than=soon())
    assert {name for name in files(case.repo) if name.startswith("frazil/")} == before
    case.writer.call("put", case.repo, array="line", index=0, value=7, message="after")
    again = Repository.open(LocalStorage(str(case.repo))).audit.analyze()
    assert not again.failed
    assert again.chunks <= 1
