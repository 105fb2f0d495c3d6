"""Configuration records: arguments, defaults, merging, display and the rules behind them."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest
from hypothesis import given

import frazil
from frazil.errors import ErrorKind, InvalidInputError
from frazil.model.config import (
    Attribution,
    CachingConfig,
    ChecksumAlgorithm,
    CompressionAlgorithm,
    CompressionConfig,
    FeatureFlag,
    ManifestConfig,
    ManifestPreloadCondition,
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
    VirtualChunkContainer,
    VirtualChunkSpec,
    should_preload,
    split_sizes,
)
from frazil.model.manifest_config import UNSPLIT, SplitSizesDict
from tests.unit.model.examples import configs

Split = ManifestSplitCondition
Dim = ManifestSplitDimCondition
Preload = ManifestPreloadCondition


def rebuilt(thing: object) -> object:
    return eval(repr(thing), {"frazil": frazil})


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
    mine.set_virtual_chunk_container(_container("s3://mine/"))
    theirs = RepositoryConfig(
        max_concurrent_requests=9,
        compression=CompressionConfig(algorithm=CompressionAlgorithm.Zstd),
        storage=StorageSettings(retries=StorageRetriesSettings(max_backoff_ms=3)),
        manifest=ManifestConfig(preload=ManifestPreloadConfig(max_arrays_to_scan=2)),
    )
    theirs.set_virtual_chunk_container(_container("s3://theirs/"))
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
    stored.set_virtual_chunk_container(_container("s3://bucket/"))
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


def _container(prefix: str, name: str | None = None) -> VirtualChunkContainer:
    return VirtualChunkContainer(prefix, ObjectStoreConfig.S3(S3Options()), name)


@pytest.mark.parametrize(
    ("prefix", "store", "name"),
    [
        ("s3://bucket", ObjectStoreConfig.S3(S3Options()), None),
        ("s3:///", ObjectStoreConfig.S3(S3Options()), None),
        ("gs://bucket/", ObjectStoreConfig.S3(S3Options()), None),
        ("s3://bucket/", ObjectStoreConfig.InMemory(), None),
        ("tigris://bucket/", ObjectStoreConfig.S3(S3Options()), None),
        ("file:///", ObjectStoreConfig.LocalFileSystem("/"), None),
        ("file:///a/../b/", ObjectStoreConfig.LocalFileSystem("/b"), None),
        ("http:///x/", ObjectStoreConfig.Http(), None),
        ("no url/", ObjectStoreConfig.Http(), None),
        ("s3://bucket/", ObjectStoreConfig.S3(S3Options()), ""),
        ("s3://bucket/", ObjectStoreConfig.S3(S3Options()), "a/b"),
    ],
)
def test_useless_containers_are_refused(prefix: str, store: object, name: str | None) -> None:
    container = VirtualChunkContainer(prefix, store, name)  # type: ignore[arg-type]
    config = RepositoryConfig()
    with pytest.raises(ValueError, match="url_prefix") as caught:
        config.set_virtual_chunk_container(container)
    assert isinstance(caught.value, InvalidInputError)
    assert config.virtual_chunk_containers is None


@pytest.mark.parametrize(
    ("prefix", "store"),
    [
        ("s3://bucket/", ObjectStoreConfig.S3(S3Options())),
        ("s3://bucket/deep/", ObjectStoreConfig.S3Compatible(S3Options())),
        ("s3://bucket/", ObjectStoreConfig.Tigris(S3Options())),
        ("tigris://bucket/", ObjectStoreConfig.Tigris(S3Options())),
        ("gcs://bucket/", ObjectStoreConfig.Gcs()),
        ("gs://bucket/", ObjectStoreConfig.Gcs({"a": "b"})),
        ("az://container/", ObjectStoreConfig.Azure({"account": "a"})),
        ("abfs://container/", ObjectStoreConfig.Azure()),
        ("https://host:8000/x/", ObjectStoreConfig.Http()),
        ("file:///data/", ObjectStoreConfig.LocalFileSystem("/data")),
    ],
)
def test_containers_are_kept_by_prefix(prefix: str, store: object) -> None:
    container = VirtualChunkContainer(prefix, store)  # type: ignore[arg-type]
    config = RepositoryConfig()
    config.set_virtual_chunk_container(container)
    assert config.get_virtual_chunk_container(prefix) == container
    assert isinstance(container.store, ObjectStoreConfig)
    assert rebuilt(container) == container


def test_a_container_replaces_the_one_of_the_same_name() -> None:
    config = RepositoryConfig()
    config.set_virtual_chunk_container(_container("s3://old/", "data"))
    config.set_virtual_chunk_container(_container("s3://other/"))
    config.set_virtual_chunk_container(_container("s3://new/", "data"))
    assert set(config.virtual_chunk_containers or ()) == {"s3://other/", "s3://new/"}


# --- splitting ---


def _splitting(*rules: tuple[Split, list[tuple[object, int]]]) -> ManifestConfig:
    return ManifestConfig(splitting=ManifestSplittingConfig(rules))  # type: ignore[arg-type]


def test_arrays_are_not_split_by_default() -> None:
    assert split_sizes(None, "/a", None, (3, 4)) == (UNSPLIT, UNSPLIT)
    assert RepositoryConfig().split_sizes("/a", ["t", None], (3, 4)) == (UNSPLIT, UNSPLIT)


def test_the_first_rule_that_speaks_of_an_axis_wins() -> None:
    config = _splitting(
        (Split.name_matches("^temp"), [(Dim.DimensionName("time"), 12)]),
        (Split.AnyArray(), [(Dim.Axis(2), 7), (Dim.Any(), 5)]),
    )
    names = ["time", "lat", "lon"]
    assert split_sizes(config, "/g/temperature", names, (100, 9, 9)) == (12, 5, 7)
    assert split_sizes(config, "/temp/wind", names, (100, 9, 9)) == (5, 5, 7)
    assert split_sizes(config, "/g/temperature", None, (100, 9, 9)) == (5, 5, 7)


@pytest.mark.parametrize(
    ("condition", "path", "expected"),
    [
        (Split.path_matches("b/c"), "/a/b/c", True),
        (Split.path_matches("^b"), "/a/b", False),
        (Split.name_matches("a"), "/a/b", False),
        (Split.name_matches("^b$"), "/a/b", True),
        (Split.name_matches("("), "/(", False),
        (Split.path_matches("(?=a)"), "/a", False),
        (Split.path_matches(r"(.)\1"), "/aa", False),
        (Split.path_matches(r"a\z"), "/b/a", True),
        (Split.AnyArray() & Split.name_matches("x"), "/x", True),
        (Split.AnyArray() & Split.name_matches("x"), "/y", False),
        (Split.name_matches("x") | Split.name_matches("y"), "/y", True),
        (Split.or_conditions([]), "/a", False),
        (Split.and_conditions([]), "/a", True),
    ],
)
def test_conditions_search_like_the_official_package(
    condition: Split, path: str, expected: bool
) -> None:
    assert condition.matches(path) is expected


def test_a_split_size_of_zero_is_said_to_be_wrong() -> None:
    config = _splitting((Split.AnyArray(), [(Dim.Any(), 0)]))
    with pytest.raises(InvalidInputError) as caught:
        split_sizes(config, "/a", None, (3,))
    assert caught.value.kind is ErrorKind.INVALID_MANIFEST_SPLIT_INDEX


def test_splitting_goes_through_dictionaries_in_order() -> None:
    rules: SplitSizesDict = {
        Split.name_matches("a"): {Dim.Axis(0): 3, Dim.Any(): 4},
        Split.AnyArray(): {Dim.DimensionName("t"): 5},
    }
    config = ManifestSplittingConfig.from_dict(rules)
    assert config.to_dict() == rules
    assert list(config.to_dict()) == list(rules)
    assert rebuilt(config) == config


# --- preloading ---


@pytest.mark.parametrize(
    ("path", "num_refs", "expected"),
    [
        ("/time", 10, True),
        ("/g/latitude", 1000, True),
        ("/g/lon", 1001, False),
        ("/level", 1, True),
        ("/temperature", 10, False),
        ("/time/values", 10, False),
    ],
)
def test_small_coordinates_are_preloaded_by_default(
    path: str, num_refs: int, expected: bool
) -> None:
    assert should_preload(ManifestPreloadConfig(), path, num_refs) is expected


def test_preload_conditions_combine() -> None:
    condition = Preload.num_refs(5, 10) & (Preload.name_matches("a") | Preload.false())
    config = ManifestPreloadConfig(preload_if=condition)
    assert should_preload(config, "/a", 5)
    assert should_preload(config, "/a", 9)
    assert not should_preload(config, "/a", 10)
    assert not should_preload(config, "/a", 4)
    assert not should_preload(config, "/b", 7)
    assert Preload.num_refs(None, None).matches("/", 0)
    assert rebuilt(condition) == condition
    with pytest.raises(TypeError):
        condition & Split.path_matches("x")  # type: ignore[operator]


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
