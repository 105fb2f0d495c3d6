"""The order of the layers, as code: imports point down, whether eager, lazy or for types only."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Final

import pytest

SOURCE: Final = Path(__file__).resolve().parents[2] / "src" / "frazil"

# Foundations first. Names on one line are one layer; a dotted name is a room with its own place.
LAYERS: Final = (
    ("naming", "masking", "arrays"),
    ("errors", "logs", "config", "spelling", "texts", "progress"),
    ("cf",),
    ("ids",),
    ("async_twins",),
    ("drawing",),
    ("model",),
    ("urls",),
    ("flatbuf",),
    ("formats",),
    ("storage",),
    ("commit",),
    ("transaction",),
    ("bulk",),
    ("codec_pipeline",),
    ("store",),
    ("session",),  # what users hold; it hands out a store over the parts below
    ("tip",),
    ("run",),  # one function over many items, and the commit of what it stored
    ("statistics",),  # what is known of chunks without reading them
    ("maintenance",),
    ("merging",),
    ("comparing", "purging"),
    ("opening",),
    ("upgrading",),
    ("fsck",),
    ("operations",),
    ("repository",),
    ("transfer",),
    ("upgrade",),
    ("xarray", "dask", "distributed", "testing"),
    ("ingestion",),
    ("",),  # the package itself: what `import frazil` offers
    ("icechunk",),
    ("spark",),
    ("cli", "web"),  # the edges: `frazil serve` starts the explorer, which says what commands say
)
RANK: Final = {name: rank for rank, names in enumerate(LAYERS) for name in names}


@dataclass(frozen=True, slots=True)
class Import:
    """One import of a module of ours by another."""

    importer: str
    imported: str
    line: int

    def __str__(self) -> str:
        return f"{self.importer} line {self.line} imports {self.imported}"


def module_name(path: Path) -> str:
    """The dotted name of a source file, without the package's own name."""
    parts = path.relative_to(SOURCE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES: Final = {module_name(path): path for path in sorted(SOURCE.rglob("*.py"))}


def layer(module: str) -> str:
    """The longest name in the list of layers that a module is, or lives in."""
    while module and module not in RANK:
        module = module.rpartition(".")[0]
    return module


def imports_of(module: str, path: Path) -> Iterator[Import]:
    """Find every import in a file, wherever it stands."""
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    for node in ast.walk(ast.parse(path.read_text(), str(path))):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.split(".")[0] == "frazil":
                    yield Import(module, alias.name.partition(".")[2], node.lineno)
        elif isinstance(node, ast.ImportFrom):
            base = absolute(node, package)
            if base is None:
                continue
            for alias in node.names:
                # `from frazil.model import nodes` names a module, other names live inside one.
                inner = f"{base}.{alias.name}".lstrip(".")
                yield Import(module, inner if inner in MODULES else base, node.lineno)


def absolute(node: ast.ImportFrom, package: str) -> str | None:
    """The module that a `from` import names, without the package's name; None for others."""
    if node.level:
        parts = package.split(".")[: len(package.split(".")) - node.level + 1]
        return ".".join([*parts, *(node.module or "").split(".")]).strip(".")
    head, _, rest = (node.module or "").partition(".")
    return rest if head == "frazil" else None


@cache
def all_imports() -> tuple[Import, ...]:
    """Every import of a module of ours by another; found when asked for, as it takes seconds."""
    return tuple(found for module, path in MODULES.items() for found in imports_of(module, path))


def test_every_module_has_a_layer() -> None:
    unknown = sorted(module for module in MODULES if module and not layer(module))
    assert not unknown, f"put these into LAYERS: {unknown}"


def test_imports_point_down() -> None:
    upward = [
        str(found)
        for found in all_imports()
        # The package's front door imports from everywhere and is imported by edges only.
        if found.importer != "" and RANK[layer(found.imported)] > RANK[layer(found.importer)]
    ]
    assert not upward, "imports going up:\n" + "\n".join(upward)


def test_modules_do_not_import_each_other_in_circles() -> None:
    graph: dict[str, set[str]] = {module: set() for module in MODULES}
    for found in all_imports():
        # A package's `__init__` is imported with each of its modules; it may re-export them.
        is_own_package = found.importer.startswith(f"{found.imported}.") or found.importer == ""
        if found.imported in graph and not is_own_package and found.imported != found.importer:
            graph[found.importer].add(found.imported)
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as circle:
        pytest.fail("modules import each other: " + " <- ".join(circle.args[1]))


def test_no_module_reaches_for_private_names_of_another() -> None:
    private = [
        f"{module} line {node.lineno} imports {alias.name} from {node.module}"
        for module, path in MODULES.items()
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("frazil")
        for alias in node.names
        if alias.name.startswith("_") and not alias.name.endswith("__")
    ]
    assert not private, "\n".join(private)
