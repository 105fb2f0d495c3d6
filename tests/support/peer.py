"""Parties for interop tests: an icechunk module in its own process, asked in JSON.

`make peer` runs the tests; the environments are `.venv-peer1` (official 1.1.21, spec v1) and
`.venv-peer2` (official 2.3.0, spec v1 and v2). FRAZIL_PEER1 and FRAZIL_PEER2 may name other
interpreters. With FRAZIL_PEER_CONTROL=1 the second peer plays our part as well: a run that
proves the tests themselves.
"""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Final

import pytest

ROOT: Final = Path(__file__).resolve().parents[2]


class PeerError(Exception):
    """An error that a party reported, with the name of its class and its kind code."""

    def __init__(self, reply: dict[str, Any], party: str) -> None:
        super().__init__(f"{party}: {reply['error']} [{reply['kind']}] {reply['message']}")
        self.name: str = reply["error"]
        self.kind: str | None = reply["kind"]
        self.add_note(reply["trace"])


@dataclass(frozen=True, slots=True)
class Environment:
    """Where one party lives: its interpreter, the module that plays icechunk, extra path."""

    name: str
    python: Path
    module: str
    path: tuple[Path, ...] = ()


@dataclass(slots=True)
class Party:
    """A running worker; `call` sends one command and gives its result."""

    environment: Environment
    _process: subprocess.Popen[str] | None = field(default=None, repr=False)
    _stderr: IO[bytes] | None = field(default=None, repr=False)

    def call(self, command: str, *arguments: str | Path, **named: object) -> Any:
        """Run a command; paths go first, as `path` and then `data`."""
        places = dict(zip(("path", "data"), map(str, arguments), strict=False))
        request = {"command": command, "arguments": {**places, **named}}
        process = self._running()
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps(request) + "\n")
        process.stdin.flush()
        line = process.stdout.readline()
        if not line:
            process.wait()
            raise ConnectionError(f"{self.environment.name} died in {command}: {self._said()}")
        reply = json.loads(line)
        if "error" in reply:
            raise PeerError(reply, self.environment.name)
        return reply["result"]

    def _running(self) -> subprocess.Popen[str]:
        if self._process is None or self._process.poll() is not None:
            inherited = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
            found = os.pathsep.join(map(str, self.environment.path))
            # A file and not a pipe: nobody reads a pipe while a command runs.
            self._stderr = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the party
            self._process = subprocess.Popen(
                [
                    self.environment.python,
                    *("-m", "tests.peer.peer_worker"),
                    self.environment.module,
                ],
                cwd=ROOT,
                env=inherited | {"PYTHONPATH": found, "ICECHUNK_LOG": "error"},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._stderr,
                text=True,
            )
        return self._process

    def _said(self) -> str:
        assert self._stderr is not None
        self._stderr.seek(0)
        return self._stderr.read()[-3000:].decode(errors="replace")

    def close(self) -> None:
        """End the worker by closing its input."""
        if self._process is not None:
            for pipe in (self._process.stdin, self._process.stdout):
                assert pipe is not None
                pipe.close()
            self._process.wait(timeout=30)
        if self._stderr is not None:
            self._stderr.close()


def official(number: int) -> Environment:
    """The environment of an official package; absent ones skip the test, and fail it in CI."""
    python = Path(os.environ.get(f"FRAZIL_PEER{number}") or ROOT / f".venv-peer{number}/bin/python")
    if not python.exists():
        note = ROOT / f".venv-peer{number}.missing"
        reason = note.read_text().strip() if note.exists() else "run `make peer` to install it"
        text = f"peer {number} (official icechunk) is not installed: {reason}"
        if os.environ.get("CI", "").lower() in ("1", "true"):
            pytest.fail(text)
        pytest.skip(text)
    return Environment(f"p{number}", python, "icechunk")


def ours() -> Environment:
    """This source tree in the interpreter that runs the tests, or the control of the tests."""
    if os.environ.get("FRAZIL_PEER_CONTROL"):
        return official(2)
    return Environment("frazil", Path(sys.executable), "frazil.icechunk", (ROOT / "src",))


def differences(left: Any, right: Any, where: str = "") -> list[str]:
    """Name every place where two descriptions differ, with both values."""
    if isinstance(left, dict) and isinstance(right, dict):
        return [
            line
            for key in sorted(left.keys() | right.keys())
            for line in differences(
                left.get(key, "absent"), right.get(key, "absent"), f"{where}/{key}"
            )
        ]
    if isinstance(left, list) and isinstance(right, list) and len(left) == len(right):
        return [
            line
            for number, pair in enumerate(zip(left, right, strict=True))
            for line in differences(*pair, f"{where}[{number}]")
        ]
    return [] if left == right else [f"{where}: {left!r} != {right!r}"]


def assert_same(left: Any, right: Any) -> None:
    """Fail with the list of differences, and nothing else, when two descriptions differ."""
    found = differences(left, right)
    if found:
        pytest.fail("descriptions differ:\n" + "\n".join(found[:40]), pytrace=False)


def without_ids(description: dict[str, Any]) -> dict[str, Any]:
    """The same description with ids replaced by their order and without times and file sizes.

    Two repositories made by the same steps then have equal descriptions, whoever made them.
    """
    names: dict[str, str] = {}
    for infos in description["history"].values():
        for info in reversed(infos):
            names.setdefault(info["id"], f"snapshot {len(names)}")
    for snapshot in [description["snapshots"][name] for name in names]:
        for path, node in snapshot["nodes"].items():
            names.setdefault(node["id"], f"node {path}")
            for manifest, extents in sorted(node.get("manifests", ()), key=lambda m: str(m[1])):
                names.setdefault(manifest, f"manifest {len(names)} of {path} {extents}")
    renamed = _renamed(description, names)
    for snapshot in renamed["snapshots"].values():
        # Sizes of manifests are the writer's own, and gzip puts the time into each chunk.
        snapshot["manifests"] = {k: count for k, (_, count) in snapshot["manifests"].items()}
        snapshot["keys"] = sorted(snapshot["keys"])
        for node in snapshot["nodes"].values():
            node.get("manifests", []).sort()
    for info in itertools.chain.from_iterable(renamed["history"].values()):
        info["metadata"] = _modern(info["metadata"])
    return dict(renamed)


_UNSTABLE: Final = frozenset({"written_at", "at", "backup"})


def _modern(metadata: dict[str, Any]) -> dict[str, Any]:
    """Spell reserved metadata as 2.x does; 1.x keeps it beside the user's own."""
    old = {"__root": "is_root", "splitting_config": "splitting_config"}
    reserved = {old[key]: value for key, value in metadata.items() if key in old}
    own = {key: value for key, value in metadata.items() if key not in old}
    return own | ({"__icechunk": reserved} if reserved else {})


def _renamed(value: Any, names: dict[str, str]) -> Any:
    if isinstance(value, dict):
        kept = {key: inner for key, inner in value.items() if key not in _UNSTABLE}
        return {names.get(key, key): _renamed(inner, names) for key, inner in kept.items()}
    if isinstance(value, list):
        return [_renamed(inner, names) for inner in value]
    return names.get(value, value) if isinstance(value, str) else value
