"""Configuration records: arguments, defaults, merging and display."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest
from hypothesis import given

from frazil.model.config import (
    Attribution,
    CachingConfig,
    ChecksumAlgorithm,
    CompressionAlgorithm,
    CompressionConfig,
    FeatureFlag,
    ManifestConfig,
    ManifestPreloadConfig,
    ManifestSplitCondition,
    ManifestSplitDimCondition,
    ManifestSplittingConfig,
    ObjectStoreConfig,
    RepositoryConfig,
    S3Options,
    StorageConcurrencySettings,
    StorageRetriesSettings,
    StorageSettings,
    VirtualChunkSpec,
)
from tests.unit.model.examples import configs, container_at, rebuilt

Split = ManifestSplitCondition
Dim = ManifestSplitDimCondition


@pytest.mark.parametrize(
    ("make", "arguments", "error"),
    [
        (RepositoryConfig, {"inline_chunk_threshold_bytes": 65_536}, OverflowError),
        (RepositoryConfig, {"inline_chunk_threshold_bytes": -1}, OverflowError),
        (RepositoryConfig, {"inline_chunk_threshold_bytes": "5"}, TypeError),
        (RepositoryConfig, {"inline_chunk_threshold_bytes": 1.0}, TypeError),
        (RepositoryConfig, {"caching": 3}, TypeError),
        (CompressionConfig, {"level": 256}, OverflowError),
        (CompressionConfig, {"algorithm": "zstd"}, TypeError),
        (StorageRetriesSettings, {"max_tries": 0}, ValueError),
        (StorageSettings, {"unsafe_use_metadata": 1}, TypeError),
        (StorageConcurrencySettings, {"ideal_concurrent_request_size": 0}, ValueError),
        (S3Options, {"network_stream_timeout_seconds": 2**32}, OverflowError),
        (Dim.Axis, {"axis": -1}, OverflowError),
        (
            ManifestSplittingConfig,
            {"split_sizes": [(Split.AnyArray(), [(Dim.Any(), 2**32)])]},
            OverflowError,
        ),
        (ManifestSplittingConfig, {"split_sizes": [("a", [])]}, TypeError),
        (ObjectStoreConfig, {}, TypeError),
        (
            VirtualChunkSpec,
            {"index": [0], "location": "s3://b/k", "offset": -1, "length": 1},
            OverflowError,
        ),
    ],
)
def test_wrong_arguments_are_refused(
    make: type[Any], arguments: dict[str, Any], error: type[Exception]
) -> None:
    with pytest.raises(error):
        make(**arguments)


def test_setting_an_attribute_is_checked_like_the_constructor() -> None:
    config = RepositoryConfig()
    with pytest.raises(OverflowError, match="inline_chunk_threshold_bytes"):
        config.inline_chunk_threshold_bytes = 70_000
    with pytest.raises(AttributeError, match="no attribute 'inline_chunk_treshold_bytes'"):
        config.inline_chunk_treshold_bytes = 5  # type: ignore[attr-defined]
    config.inline_chunk_threshold_bytes = 5
    assert config.inline_chunk_threshold() == 5


def test_unset_settings_have_the_documented_defaults() -> None:
    config = RepositoryConfig.default()
    retries = config.update_retries()
    assert config == RepositoryConfig()
    assert config.inline_chunk_threshold_bytes is None
    assert config.inline_chunk_threshold() == 512
    assert config.request_limit() == 256
    assert config.partial_values_limit() == 10
    assert config.compression_level() == 3
    assert config.updates_per_repo_info_file() == 1000
    assert config.manifest_fetch_limit() is None
    assert config.decode_limit() is None
    assert config.cache_sizes().num_snapshot_nodes == 500_000
    assert config.cache_sizes().num_chunk_refs == 15_000_000
    assert (retries.max_tries, retries.initial_backoff_ms, retries.max_backoff_ms) == (
        100,
        50,
        30_000,
    )
    assert config.location_compression().min_num_chunks == 1000
    assert config.preload().max_total_refs == 10_000


def test_zero_set_by_hand_is_not_taken_for_unset() -> None:
    config = RepositoryConfig(caching=CachingConfig(num_snapshot_nodes=0, num_chunk_refs=0))
    assert config.cache_sizes().num_chunk_refs == 0
    assert RepositoryConfig(inline_chunk_threshold_bytes=0).inline_chunk_threshold() == 0


def test_merge_goes_key_by_key_but_replaces_rules_and_containers() -> None:
    mine = RepositoryConfig(
        inline_chunk_threshold_bytes=1,
        compression=CompressionConfig(level=7),
        storage=StorageSettings(retries=StorageRetriesSettings(max_tries=2), storage_class="A"),
        manifest=ManifestConfig(preload=ManifestPreloadConfig(max_total_refs=1)),
    )
    mine.set_virtual_chunk_container(container_at("s3://mine/"))
    theirs = RepositoryConfig(
        max_concurrent_requests=9,
        compression=CompressionConfig(algorithm=CompressionAlgorithm.Zstd),
        storage=StorageSettings(retries=StorageRetriesSettings(max_backoff_ms=3)),
        manifest=ManifestConfig(preload=ManifestPreloadConfig(max_arrays_to_scan=2)),
    )
    theirs.set_virtual_chunk_container(container_at("s3://theirs/"))
    merged = mine.merge(theirs)

    assert merged.inline_chunk_threshold_bytes == 1
    assert merged.max_concurrent_requests == 9
    assert merged.compression == CompressionConfig(CompressionAlgorithm.Zstd, 7)
    assert merged.storage is not None
    assert merged.storage.retries == StorageRetriesSettings(max_tries=2, max_backoff_ms=3)
    assert merged.storage.storage_class == "A"
    assert merged.manifest is not None
    assert merged.manifest.preload == ManifestPreloadConfig(max_arrays_to_scan=2)
    assert list(merged.virtual_chunk_containers or ()) == ["s3://theirs/"]


def test_cleared_containers_win_over_stored_ones() -> None:
    stored = RepositoryConfig()
    stored.set_virtual_chunk_container(container_at("s3://bucket/"))
    cleared = RepositoryConfig()
    cleared.clear_virtual_chunk_containers()
    assert stored.merge(cleared).virtual_chunk_containers == {}
    assert list(stored.merge(RepositoryConfig()).virtual_chunk_containers or ()) == ["s3://bucket/"]


@given(configs, configs)
def test_merging_shares_nothing_and_changes_neither(
    mine: RepositoryConfig, theirs: RepositoryConfig
) -> None:
    before = copy.deepcopy((mine, theirs))
    merged = mine.merge(theirs)
    assert (mine, theirs) == before
    if merged.storage is not None:
        merged.storage.storage_class = "changed"
    merged.clear_virtual_chunk_containers()
    assert (mine, theirs) == before


@given(configs)
def test_merging_with_nothing_or_itself_changes_nothing(config: RepositoryConfig) -> None:
    assert config.merge(RepositoryConfig()) == config
    assert RepositoryConfig().merge(config) == config
    assert config.merge(config) == config


@given(configs)
def test_configs_survive_pickling_and_copying(config: RepositoryConfig) -> None:
    assert pickle.loads(pickle.dumps(config)) == config
    assert copy.deepcopy(config) == config


@given(configs)
def test_repr_rebuilds_the_config_but_for_headers(config: RepositoryConfig) -> None:
    made = rebuilt(config)
    for container in (config.virtual_chunk_containers or {}).values():
        if isinstance(container.store, ObjectStoreConfig.Http) and container.store.headers:
            hidden = dict.fromkeys(container.store.headers, "****")
            container.store = ObjectStoreConfig.Http(container.store.opts, hidden)
    assert made == config


def test_text_shows_what_counts_and_marks_defaults() -> None:
    config = RepositoryConfig(caching=CachingConfig(num_snapshot_nodes=42))
    text = str(config)
    assert "<frazil.RepositoryConfig>" in text
    assert "inline_chunk_threshold_bytes: 512 (default)" in text
    assert "    num_snapshot_nodes: 42\n" in text
    assert "    num_chunk_refs: 15000000 (default)" in text
    assert "Zstd (default)" in text
    assert "frazil.CachingConfig(" not in text


def test_notebook_view_escapes_and_folds() -> None:
    config = RepositoryConfig(storage=StorageSettings(storage_class="<b>"))
    html = config._repr_html_()
    assert "<details>" in html
    assert "&lt;b&gt;" in html
    assert "<b>" not in html
    assert html.count("<style>") == 1


def test_headers_are_shown_by_name_only() -> None:
    store = ObjectStoreConfig.Http(None, {"Authorization": "Bearer hush"})
    assert "Authorization" in str(store)
    assert "hush" not in str(store) + repr(store) + store._repr_html_()


# --- virtual chunk containers ---


# --- splitting ---


# --- preloading ---


# --- the rest ---


@pytest.mark.parametrize("client", ["", "a b", "a/", "a/1/2", "ä", "a" * 129])
def test_attribution_refuses_clients_that_no_header_can_carry(client: str) -> None:
    with pytest.raises(ValueError, match="client"):
        Attribution(client=client)


@pytest.mark.parametrize("label", ["a(b", 'a"b', "a;b", "a=b", "é", "a\n", "a" * 129])
def test_attribution_refuses_labels_that_no_header_can_carry(label: str) -> None:
    with pytest.raises(ValueError, match="principal"):
        Attribution(principal=label)


def test_attribution_is_a_value() -> None:
    labels = Attribution(client="tool/1.0", workload="nightly run")
    assert labels == Attribution(client="tool/1.0", workload="nightly run")
    assert rebuilt(labels) == labels
    assert pickle.loads(pickle.dumps(labels)) == labels
    with pytest.raises(AttributeError):
        labels.client = "other"  # type: ignore[misc]


def test_feature_flags_tell_whether_they_are_on() -> None:
    assert FeatureFlag(3, "move_node", True).enabled
    assert not FeatureFlag(3, "move_node", True, False).enabled
    assert "<frazil.FeatureFlag>" in repr(FeatureFlag(3, "move_node", True))


def test_enumerations_equal_their_numbers() -> None:
    assert CompressionAlgorithm() is CompressionAlgorithm.Zstd  # type: ignore[call-arg]
    assert CompressionAlgorithm.default() is CompressionAlgorithm.Zstd
    assert int(CompressionAlgorithm.Zstd) == 0
    assert repr(ChecksumAlgorithm.Sha256) == "ChecksumAlgorithm.Sha256"
    assert ChecksumAlgorithm(4) is ChecksumAlgorithm.Sha256
