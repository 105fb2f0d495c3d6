"""Whose names a fresh process shows: Frazil says `frazil`, only the facade says `icechunk`."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

PROGRAM = """
import json
import {package} as package
repo = package.Repository.create(package.in_memory_storage())
try:
    repo.lookup_branch("nope")
except package.RefNotFoundError as error:
    shown = [repr(error), str(error)]
things = [repo, repo.config, repo.storage, repo.readonly_session("main").store, *repo.ops_log()]
print(json.dumps([*map(repr, things), *shown]))
"""


@pytest.mark.parametrize(
    ("package", "said", "unsaid"),
    [("frazil", "frazil", "icechunk"), ("frazil.icechunk", "icechunk", "frazil")],
)
def test_repr_and_errors_say_the_package_that_is_used(package: str, said: str, unsaid: str) -> None:
    program = PROGRAM.format(package=package)
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    *things, error, message = json.loads(done.stdout)
    assert all(said in text.lower() for text in [*things, error])
    assert not any(unsaid in text.lower() for text in [*things, error, message])
