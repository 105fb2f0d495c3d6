"""Switches of the process: their values, where they come from and what is refused."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from frazil import config
from frazil.errors import ErrorKind, InvalidInputError


@pytest.fixture(autouse=True)
def _as_before(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for key in config.KEYS:
        monkeypatch.delenv(config.variable(key), raising=False)
    before = config.values()
    config.reset()
    yield
    config.set(before)


def test_defaults_are_fast_and_small() -> None:
    assert config.get("fast_zarr") is True
    assert config.get("pack_zarr_writes") is False
    assert config.get("pack_object_bytes") == 64 << 20
    assert config.get("disk_cache_path") is None


def test_a_value_holds_until_it_is_set_again() -> None:
    config.set(fast_zarr=False, pack_chunk_bytes="2 MiB")
    assert config.get("fast_zarr") is False
    assert config.current().pack_chunk_bytes == 2 << 20


def test_with_puts_back_what_was_there_and_nothing_else() -> None:
    config.set(threads=3)
    with config.set({"threads": 5}) as settings:
        assert settings.workers == config.get("threads") == 5
        config.set(pack_zarr_writes=True)
    assert config.get("threads") == 3
    assert config.get("pack_zarr_writes") is True


def test_values_come_back_after_an_error_too() -> None:
    with pytest.raises(KeyError), config.set(fast_zarr=False):
        raise KeyError
    assert config.get("fast_zarr") is True


def test_an_unknown_key_is_refused_with_the_keys_there_are() -> None:
    said = r"no key 'fast'; did you mean 'fast_zarr'\? \(there are fast_zarr, pack_"
    with pytest.raises(InvalidInputError, match=said) as e:
        config.get("fast")
    assert e.value.kind is ErrorKind.INVALID_SETTING
    with pytest.raises(InvalidInputError, match="disk_cache_bytes"):
        config.set(fast_zarr=False, quick=True)
    assert config.get("fast_zarr") is True  # nothing was changed


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("fast_zarr", "maybe"),
        ("fast_zarr", 2),
        ("pack_object_bytes", 0),
        ("pack_object_bytes", "64 parsecs"),
        ("pack_chunk_bytes", -1),
        ("pack_chunk_bytes", True),
        ("threads", "many"),
        ("disk_cache_path", 7),
    ],
)
def test_values_that_make_no_sense_are_refused(key: str, value: object) -> None:
    with pytest.raises(InvalidInputError, match=f"{key} must be .*, got") as error:
        config.set({key: value})
    assert error.value.kind is ErrorKind.INVALID_SETTING


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("0", 0),
        ("17", 17),
        ("1 kB", 1000),
        ("1KiB", 1024),
        ("1.5 GiB", 3 << 29),
        ("2M", 2 << 20),
        ("2 MB", 2000000),
    ],
)
def test_sizes_are_written_with_units(text: str, size: int) -> None:
    config.set(disk_cache_bytes=text)
    assert config.get("disk_cache_bytes") == size


def test_the_environment_sets_defaults(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FRAZIL_FAST_ZARR", "off")
    monkeypatch.setenv("FRAZIL_DISK_CACHE_PATH", "~/cache")
    monkeypatch.setenv("FRAZIL_CHUNK_CACHE_BYTES", "1 GB")
    settings = config.reset()
    assert not settings.fast_zarr
    assert settings.disk_cache_path == str(Path("~/cache").expanduser())
    assert settings.chunk_cache_bytes == 10**9


def test_a_bad_variable_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FRAZIL_THREADS", "lots")
    with pytest.raises(InvalidInputError, match="environment variable FRAZIL_THREADS"):
        config.reset()


def test_a_misspelled_variable_is_told_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("FRAZIL_FASTZARR", "off")
    monkeypatch.setenv("FRAZIL_SOMETHING_ELSE", "1")
    config.reset()
    config.reset()
    told = [each.getMessage() for each in caplog.records]
    assert told == [
        "environment variable FRAZIL_FASTZARR has no meaning; did you mean FRAZIL_FAST_ZARR?"
    ]


def test_looking_at_it_loads_nothing_heavy() -> None:
    code = (
        "import sys, frazil; frazil.config.set(fast_zarr=False);"
        "print([m for m in ('numpy', 'zarr', 'obstore') if m in sys.modules])"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"
