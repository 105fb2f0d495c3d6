"""A setting that is accepted has an effect, or is on the list of those that have none, with why.

The test looks for code that reads each setting by its name. It cannot see whether what was read is
used well, nor tell a setting from another thing of the same name; tests of single settings do.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import fields
from functools import cache
from pathlib import Path

import pytest

import frazil
from frazil.config import ProcessSettings
from frazil.model.config import RepositoryConfig
from frazil.model.settings import SettingsRecord
from frazil.spark.options.table import ReadRequest, WriteRequest

SOURCE = Path(frazil.__file__).parent

DEFINE = {"config.py", "formats/config_keys.py", "model/config.py", "model/stores.py"}
"""where settings are declared and encoded, which is no effect; methods of `RepositoryConfig` that
others call are read all the same"""

WITHOUT_EFFECT = {
    "CachingConfig.num_bytes_attributes": "attributes are part of snapshots",
    "CompressionConfig.algorithm": "there is only one",
    "RepositoryConfig.previous_file": "for the official package, which keeps it",
    "ReadRequest.query_name": "Spark passes it on to every source",
    "WriteRequest.query_name": "Spark passes it on to every source",
}


def records(base: type) -> Iterator[type]:
    kind: type
    for kind in base.__subclasses__():
        yield kind
        yield from records(kind)


@cache
def readers() -> dict[str, set[str]]:
    """Names that are read as attributes or asked for by name, and the modules that do."""
    found: dict[str, set[str]] = {}
    for path in SOURCE.rglob("*.py"):
        module = path.relative_to(SOURCE).as_posix()
        if module in DEFINE:
            continue
        for name in names_read(ast.parse(path.read_text())):
            found.setdefault(name, set()).add(module)
    whole = ast.parse((SOURCE / "model/config.py").read_text())
    config = next(n for n in whole.body if getattr(n, "name", "") == RepositoryConfig.__name__)
    for method in ast.walk(config):
        if isinstance(method, ast.FunctionDef) and found.get(method.name):
            for name in names_read(method):
                found.setdefault(name, set()).add(f"model/config.py:{method.name}")
    return found


def names_read(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
            yield node.attr
        elif isinstance(node, ast.Call):
            yield from (str(n.value) for n in node.args if isinstance(n, ast.Constant))
        elif isinstance(node, ast.AnnAssign) and isinstance(node.value, ast.Constant):
            yield str(node.value.value)


def settings() -> list[tuple[type, str]]:
    kinds = [*records(SettingsRecord), ProcessSettings, ReadRequest, WriteRequest]
    return [(kind, field.name) for kind in kinds for field in fields(kind)]


@pytest.mark.parametrize(("record", "name"), settings())
def test_a_setting_has_an_effect_or_is_listed(record: type, name: str) -> None:
    listed = f"{record.__name__}.{name}" in WITHOUT_EFFECT
    assert bool(readers().get(name)) is not listed
