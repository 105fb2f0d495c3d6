"""Two changes of one stored configuration: what is united, and what is a conflict."""

from __future__ import annotations

import pytest

from frazil.errors import ConflictError, ErrorKind
from frazil.formats.config_keys import merged_config, setting_keys
from frazil.model.config import RepositoryConfig, VirtualChunkContainer

BASE = {"a": 1, "inner": {"x": 1, "y": 2}}


def test_changes_of_different_settings_are_united() -> None:
    ours = {"a": 5, "inner": {"x": 1, "y": 2}}
    theirs = {"a": 1, "inner": {"x": 1, "y": 7}, "new": True}
    assert merged_config(BASE, ours, theirs) == {
        "a": 5,
        "inner": {"x": 1, "y": 7},
        "new": True,
    }


def test_the_same_change_twice_is_one() -> None:
    same = {"a": 5, "inner": {"x": 1, "y": 2}}
    assert merged_config(BASE, same, same) == same


def test_what_one_side_took_out_is_gone() -> None:
    assert merged_config(BASE, {"a": None, "inner": BASE["inner"]}, BASE)["a"] is None
    assert merged_config(BASE, BASE, {"a": 1}) == {"a": 1}


def test_two_values_for_one_setting_are_a_conflict() -> None:
    with pytest.raises(ConflictError, match=r"'inner\.y'") as caught:
        merged_config(BASE, {"inner": {"y": 3}}, {"inner": {"y": 4}})
    assert caught.value.kind is ErrorKind.CONFIG_UPDATED


def test_keys_are_written_in_the_official_order() -> None:
    keys = setting_keys(RepositoryConfig)
    assert keys[:2] == ("inline_chunk_threshold_bytes", "get_partial_values_concurrency")
    assert set(keys) == set(RepositoryConfig.__dataclass_fields__)
    assert setting_keys(VirtualChunkContainer) == ("name", "url_prefix", "store")
