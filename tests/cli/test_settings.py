"""The stored configuration."""

from __future__ import annotations

from pathlib import Path

import pytest

import frazil
from tests.cli.conftest import Frazil, Ocean


def test_show_tells_what_is_set(frazil_command: Frazil, ocean: Ocean, tmp_path: Path) -> None:
    data = frazil_command("config", "show", ocean.url, "--json").data
    assert data == {"inline_chunk_threshold_bytes": 16}
    everything = frazil_command("config", "show", ocean.url, "--all", "--json").data
    assert everything["caching"]["num_chunk_refs"] is None
    frazil_command("init", str(tmp_path / "new"))
    assert "default" in frazil_command("config", "show", str(tmp_path / "new")).out


def test_set_is_for_everybody_and_keeps_the_rest(frazil_command: Frazil, ocean: Ocean) -> None:
    said = frazil_command(
        "config", "set", ocean.url, "caching.num_chunk_refs=5", "compression.level=9"
    )
    assert said.code == 0
    config = frazil.Repository.fetch_config(ocean.url)
    assert config is not None
    assert config.inline_chunk_threshold_bytes == 16
    assert config.caching is not None
    assert config.caching.num_chunk_refs == 5
    assert config.storage is None
    assert frazil_command("config", "get", ocean.url, "compression.level").out == "9\n"
    frazil_command("config", "set", ocean.url, "compression.level=null")
    assert frazil_command("config", "get", ocean.url, "compression.level").out == "3 (default)\n"


@pytest.mark.parametrize(
    ("change", "code", "told"),
    [
        ("inline_chunk_threshold=5", 3, "did you mean 'inline_chunk_threshold_bytes'?"),
        ("inline_chunk_threshold_bytes=-1", 2, "inline_chunk_threshold_bytes"),
        ("inline_chunk_threshold_bytes=many", 2, "inline_chunk_threshold_bytes"),
        ("inline_chunk_threshold_bytes", 2, "KEY=VALUE"),
        ("caching.num_chunk_refs.deeper=1", 3, "caching.num_chunk_refs.deeper"),
        ("manifest=[", 2, "YAML"),
    ],
)
def test_set_refuses_what_it_cannot_store(
    frazil_command: Frazil, ocean: Ocean, change: str, code: int, told: str
) -> None:
    said = frazil_command("config", "set", ocean.url, change)
    assert said.code == code
    assert told in said.err
    data = frazil_command("config", "show", ocean.url, "--json").data
    assert data == {"inline_chunk_threshold_bytes": 16}


def test_structured_values_are_yaml(frazil_command: Frazil, ocean: Ocean) -> None:
    rule = "[[any_array, [{condition: {DimensionName: time}, num_chunks: 2}]]]"
    said = frazil_command("config", "set", ocean.url, f"manifest.splitting={{split_sizes: {rule}}}")
    assert said.code == 0
    frazil_command("rewrite-manifests", ocean.url)
    manifests = frazil_command("stat", ocean.url, "sst", "--json").data["manifests"]
    assert len(manifests) == 1
    frazil_command("rewrite-manifests", f"{ocean.url}@dev")
    assert len(frazil_command("stat", f"{ocean.url}@dev", "sst", "--json").data["manifests"]) == 2
