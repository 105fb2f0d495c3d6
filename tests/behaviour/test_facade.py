"""The drop-in facade: the official names, signatures and twins, and a light `import frazil`."""

from __future__ import annotations

import ast
import inspect
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import frazil
import frazil.icechunk as icechunk
from tests.support.official import NAMES, SIGNATURES

OPTIONAL = ("xarray", "dask")
OURS: list[str] = vars(frazil)["__all__"]
MADE: dict[str, dict[str, str]] = vars(icechunk)["_MADE"]
KINDS = {"pos": 0, "any": 1, "args": 2, "kw": 3, "kwargs": 4}


@pytest.mark.parametrize("module", NAMES)
def test_modules_have_the_official_names(module: str) -> None:
    found = import_module(f"frazil.icechunk.{module}".rstrip("."))
    missing = [name for name in NAMES[module] if not hasattr(found, name)]
    assert missing == []
    assert set(NAMES[module]) <= set(found.__all__)


def test_nothing_else_is_public() -> None:
    assert sorted(vars(icechunk)["__all__"]) == NAMES[""]


def resolve(dotted: str) -> object:
    """What a dotted name below the facade means."""
    head, _, rest = dotted.partition(".")
    if rest and head[0].islower():
        if head in OPTIONAL:
            pytest.importorskip(head)
        return getattr(import_module(f"frazil.icechunk.{head}"), rest)
    found: object = getattr(icechunk, head)
    return inspect.getattr_static(found, rest) if rest else found


@pytest.mark.parametrize("name", SIGNATURES)
def test_calls_written_for_the_official_package_fit(name: str) -> None:
    expected = SIGNATURES[name]
    found = resolve(name)
    if expected == "property":
        assert isinstance(found, property)
        return
    if isinstance(found, classmethod | staticmethod):
        found = found.__func__
    ours = {
        p.name: p
        for p in inspect.signature(found).parameters.values()  # type: ignore[arg-type]
        if p.name not in ("self", "cls")
    }
    by_position = [
        p.name for p in ours.values() if p.kind <= inspect.Parameter.POSITIONAL_OR_KEYWORD
    ]
    wanted_by_position = [n for n, kind, _ in expected if kind in ("pos", "any")]
    assert by_position[: len(wanted_by_position)] == wanted_by_position
    known = {n for n, _, _ in expected}
    for parameter, kind, has_default in expected:
        assert parameter in ours
        if kind in ("kw", "args", "kwargs"):
            assert ours[parameter].kind in (KINDS[kind], KINDS["any"])
        if has_default:
            assert ours[parameter].default is not inspect.Parameter.empty
    for parameter in ours.values():
        extra = parameter.name not in known and parameter.kind not in (
            KINDS["args"],
            KINDS["kwargs"],
        )
        assert not extra or parameter.default is not inspect.Parameter.empty


@pytest.mark.parametrize("name", [n for n in SIGNATURES if n.endswith("_async")])
def test_async_names_are_coroutines_or_async_iterators(name: str) -> None:
    found = resolve(name)
    if isinstance(found, classmethod | staticmethod):
        found = found.__func__
    assert inspect.iscoroutinefunction(found) or "Iterator" in str(
        inspect.signature(found).return_annotation  # type: ignore[arg-type]
    )


HANDLES = {"Repository", "Session", "ForkSession", "Storage"}
"""classes that the facade derives from ours, because they behave as the official ones do"""
CONSENTING = {"s3_storage", "r2_storage", "tigris_storage"}
"""functions that take a plain http endpoint without further ado"""


def test_our_names_are_the_facade_names() -> None:
    assert issubclass(frazil.FrazilError, icechunk.IcechunkError)
    assert issubclass(icechunk.IcechunkStore, frazil.FrazilStore)
    for name in set(NAMES[""]) & set(OURS) - {"__version__"} - HANDLES - CONSENTING:
        assert getattr(icechunk, name) is getattr(frazil, name)
    for name in HANDLES - {"Storage"}:
        assert issubclass(getattr(icechunk, name), getattr(frazil, name))


def test_every_storage_is_a_facade_storage() -> None:
    made = icechunk.Storage.new_in_memory()
    assert isinstance(made, icechunk.Storage)
    assert isinstance(made, frazil.Storage)
    assert not isinstance("memory://", icechunk.Storage)


def test_all_our_names_load() -> None:
    assert [name for name in OURS if getattr(frazil, name, None) is None] == []
    assert set(OURS) <= set(dir(frazil))
    with pytest.raises(AttributeError, match="no_such_thing"):
        frazil.no_such_thing  # type: ignore[attr-defined]  # noqa: B018


def test_type_checkers_see_the_same_names() -> None:
    stub = (Path(frazil.__file__).parent / "__init__.pyi").read_text()
    told = {line.rpartition(" as ")[2].rstrip(",") for line in stub.splitlines() if " as " in line}
    assert told | {"__version__"} == set(OURS)


@pytest.mark.parametrize("module", MADE)
def test_type_checkers_see_the_names_of_modules_made_from_the_table(module: str) -> None:
    stub = ast.parse((Path(icechunk.__file__).parent / f"{module}.pyi").read_text())
    told = {
        (each.module, name.name, name.asname)
        for each in stub.body
        if isinstance(each, ast.ImportFrom)
        for name in each.names
    }
    assert told == {
        (home, name, name) for home, names in MADE[module].items() for name in names.split()
    }


@pytest.mark.parametrize(
    ("module", "heavy"),
    [
        ("frazil", ["numpy", "zarr", "xarray", "pandas", "dask", "pyspark", "obstore", "yaml"]),
        ("frazil.icechunk", ["xarray", "pandas", "dask", "pyspark"]),
    ],
)
def test_imports_stay_light(module: str, heavy: list[str]) -> None:
    program = f"import {module}, sys; print([m for m in {heavy!r} if m in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


def test_module_functions_answer() -> None:
    assert icechunk.spec_version() == 2
    assert icechunk.supported_spec_versions() == [2, 1]
    assert icechunk.user_agent() == f"frazil-{frazil.__version__}"
    private = import_module("frazil.icechunk._icechunk_python")
    assert set(private._all_error_kinds()) == {kind.value for kind in icechunk.ErrorKind}


def test_debug_info_names_the_versions(capsys: pytest.CaptureFixture[str]) -> None:
    icechunk.print_debug_info()
    out = capsys.readouterr().out
    assert f"frazil:  {frazil.__version__}" in out
    assert "zarr:" in out
