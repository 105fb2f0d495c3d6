"""Small files that would take gigabytes or hours are refused, with the name of the file.

A process with all libraries has some 100 MiB; with what a bomb takes it must stay below 256 MiB.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from tests.hostile.bombs import CASES

ROOT: Final = Path(__file__).resolve().parents[2]
MOST: Final = (256 - 100) << 20
"""Bytes of memory beside the libraries."""
SECONDS: Final = 10.0
"""Of work, not of waiting. It takes two at most; a busy machine must not fail this."""

Answer = dict[str, Any]


@pytest.fixture(scope="module")
def answer() -> Iterator[Callable[[str], Answer]]:
    """Sets off a bomb in a child of a process that is kept for that."""
    command = [sys.executable, "-m", "tests.hostile.server"]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, cwd=ROOT, stdin=pipe, stdout=pipe, text=True) as server:
        asking, answers = server.stdin, server.stdout
        assert asking is not None
        assert answers is not None

        def ask(case: str) -> Answer:
            asking.write(json.dumps(case) + "\n")
            asking.flush()
            found: Answer = json.loads(answers.readline())
            return found

        yield ask
        asking.close()
        server.wait(30)


@pytest.mark.parametrize("case", CASES)
def test_a_bomb_is_refused_before_it_takes_memory(
    case: str, answer: Callable[[str], Answer]
) -> None:
    told = answer(case)
    bomb = CASES[case]
    assert told["outcome"] == bomb.error, told
    assert bomb.named in told["text"]
    assert told["grown"] < MOST, f"{told['grown'] >> 20} MiB: {told}"
    assert told["seconds"] < SECONDS, told
