"""The stored configuration: round trips, files of the official package, and damage."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from frazil.errors import ErrorKind, FormatError
from frazil.formats.config_codec import (
    config_from_map,
    config_from_yaml,
    config_map_from_yaml,
    config_map_to_yaml,
    config_to_map,
    config_to_yaml,
)
from frazil.model.config import (
    CachingConfig,
    ManifestPreloadCondition,
    ManifestSplitCondition,
    ManifestSplitDimCondition,
    ObjectStoreConfig,
    RepositoryConfig,
    S3Options,
    StorageRetriesSettings,
)
from tests.support.effort import at_most
from tests.unit.model.examples import configs

# As release 1.1.21 writes it: fewer keys, and text that only YAML 1.1 takes for a boolean.
OLD_FILE = b"""\
inline_chunk_threshold_bytes: 3
get_partial_values_concurrency: null
compression:
  algorithm: zstd
  level: 9
max_concurrent_requests: null
caching:
  num_snapshot_nodes: null
  num_chunk_refs: 3
  num_transaction_changes: null
  num_bytes_attributes: null
  num_bytes_chunks: null
storage: null
virtual_chunk_containers:
  s3://c/:
    name: null
    url_prefix: s3://c/
    store: !s3_compatible
      region: null
      endpoint_url: http://x
      anonymous: true
      allow_http: true
      force_path_style: true
      network_stream_timeout_seconds: 4
      requester_pays: false
  gs://h/:
    name: null
    url_prefix: gs://h/
    store: !gcs {}
  file:///g/:
    name: null
    url_prefix: file:///g/
    store: !local_file_system /g
manifest:
  preload:
    max_total_refs: 4
    preload_if: !or
    - !num_refs
      from: !Included 1
      to: Unbounded
    - !num_refs
      from: !Excluded 2
      to: !Included 8
    - 'true'
    - !and
      - !path_matches
        regex: ^/a\\d
      - 'false'
  splitting:
    split_sizes:
    - - any_array
      - - condition: !Axis 0
          num_chunks: 3
        - condition: !DimensionName yes
          num_chunks: 4
        - condition: Any
          num_chunks: 5
    - - !name_matches
        regex: no
      - []
"""


def test_a_file_of_the_official_package_is_understood() -> None:
    config = config_from_yaml(OLD_FILE)
    assert config.inline_chunk_threshold_bytes == 3
    assert config.caching == CachingConfig(num_chunk_refs=3)
    assert config.storage is None
    assert config.virtual_chunk_containers is not None
    store = config.virtual_chunk_containers["s3://c/"].store
    assert store == ObjectStoreConfig.S3Compatible(
        S3Options(
            endpoint_url="http://x",
            allow_http=True,
            anonymous=True,
            force_path_style=True,
            network_stream_timeout_seconds=4,
        )
    )
    assert config.virtual_chunk_containers["file:///g/"].store == ObjectStoreConfig.LocalFileSystem(
        "/g"
    )
    assert config.manifest is not None
    assert config.manifest.preload is not None
    preload = ManifestPreloadCondition
    assert config.manifest.preload.preload_if == preload.or_conditions(
        [
            preload.num_refs(1, None),
            preload.num_refs(3, 9),
            preload.true(),
            preload.path_matches(r"^/a\d") & preload.false(),
        ]
    )
    assert config.manifest.splitting is not None
    dim = ManifestSplitDimCondition
    assert config.manifest.splitting.to_dict() == {
        ManifestSplitCondition.AnyArray(): {
            dim.Axis(0): 3,
            dim.DimensionName("yes"): 4,
            dim.Any(): 5,
        },
        ManifestSplitCondition.name_matches("no"): {},
    }


def test_written_files_have_the_official_form() -> None:
    text = config_to_yaml(config_from_yaml(OLD_FILE)).decode()
    assert text.startswith(
        "inline_chunk_threshold_bytes: 3\nget_partial_values_concurrency: null\n"
    )
    assert "max_concurrent_requests: null\nmax_concurrent_decodes: null\ncaching:\n" in text
    assert text.endswith(
        "previous_file: null\nrepo_update_retries: null\nnum_updates_per_repo_info_file: null\n"
    )
    assert (
        "    preload_if: !or\n    - !num_refs\n      from: !Included 1\n      to: Unbounded\n"
        in text
    )
    assert "      - - condition: !Axis 0\n          num_chunks: 3\n" in text
    assert "    store: !local_file_system /g\n" in text
    assert "    store: !gcs {}\n" in text
    assert "    - 'true'\n" in text


def test_the_plain_map_has_all_keys_and_nulls() -> None:
    plain = config_to_map(RepositoryConfig(inline_chunk_threshold_bytes=123))
    assert list(plain) == [
        "inline_chunk_threshold_bytes",
        "get_partial_values_concurrency",
        "compression",
        "max_concurrent_requests",
        "max_concurrent_decodes",
        "caching",
        "storage",
        "virtual_chunk_containers",
        "manifest",
        "previous_file",
        "repo_update_retries",
        "num_updates_per_repo_info_file",
    ]
    assert [key for key, value in plain.items() if value is not None] == [
        "inline_chunk_threshold_bytes"
    ]


def test_a_map_as_the_official_package_stores_it_is_understood() -> None:
    stored = {
        "inline_chunk_threshold_bytes": 123,
        "storage": {
            "concurrency": {
                "max_concurrent_requests_for_object": 5,
                "ideal_concurrent_request_size": 4096,
            },
            "retries": {"max_tries": 1, "initial_backoff_ms": 0, "max_backoff_ms": 0},
            "timeouts": None,
            "unsafe_use_conditional_update": False,
        },
        "something_of_the_future": {"x": [1, 2]},
    }
    config = config_from_map(stored)
    assert config.inline_chunk_threshold_bytes == 123
    assert config.storage is not None
    assert config.storage.retries == StorageRetriesSettings(1, 0, 0)
    assert config.storage.unsafe_use_conditional_update is False
    assert config_from_map({}) == RepositoryConfig()
    assert config_from_map(None) == RepositoryConfig()


def test_very_old_containers_are_found_by_their_prefix() -> None:
    old = b"""\
virtual_chunk_containers:
  data:
    name: data
    url_prefix: s3://bucket/data
    store: !s3
      region: us-east-1
  s3:
    name: s3
    url_prefix: s3
    store: !s3
      region: us-east-1
"""
    containers = config_from_yaml(old).virtual_chunk_containers
    assert containers is not None
    assert list(containers) == ["s3://bucket/data/"]
    assert containers["s3://bucket/data/"].name == "data"
    assert list(config_map_from_yaml(old)["virtual_chunk_containers"]) == ["s3://bucket/data/"]


def test_names_from_before_the_first_release_are_understood() -> None:
    old = b"""\
inline_chunk_threshold_bytes: 12
unsafe_overwrite_refs: false
compression:
  algorithm: Zstd
  level: 1
virtual_chunk_containers:
  here:
    name: here
    url_prefix: s3://bucket/data/
    store: !S3Compatible
      region: us-east-1
      endpoint_url: http://localhost:9000
      anonymous: false
      allow_http: true
  file:
    name: file
    url_prefix: file
    store: !LocalFileSystem ''
  az:
    name: az
    url_prefix: az
    store: !Azure {}
"""
    config = config_from_yaml(old)
    assert config.inline_chunk_threshold_bytes == 12
    assert config.compression is not None
    assert config.compression.level == 1
    assert config.virtual_chunk_containers is not None
    assert list(config.virtual_chunk_containers) == ["s3://bucket/data/"]


@given(configs)
def test_configs_survive_the_plain_map(config: RepositoryConfig) -> None:
    plain = json.loads(json.dumps(config_to_map(config)))
    assert config_from_map(plain) == config


@given(configs)
def test_configs_survive_yaml(config: RepositoryConfig) -> None:
    blob = config_to_yaml(config)
    assert config_from_yaml(blob) == config
    assert config_map_to_yaml(config_map_from_yaml(blob)) == blob


# --- damage ---


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("inline_chunk_threshold_bytes: 70000", "inline_chunk_threshold_bytes"),
        ("inline_chunk_threshold_bytes: soon", "inline_chunk_threshold_bytes"),
        ("compression: {algorithm: lzma}", "compression.algorithm"),
        ("caching: []", "caching"),
        ("storage: {retries: {max_tries: 0}}", "storage.retries.max_tries"),
        ("manifest: {preload: {preload_if: !sometimes {}}}", "manifest.preload.preload_if"),
        ("manifest: {preload: {preload_if: !num_refs {from: !Included x}}}", "manifest.preload"),
        ("manifest: {splitting: {split_sizes: [[any_array]]}}", "manifest.splitting.split_sizes.0"),
        (
            "manifest: {splitting: {split_sizes: [[any_array, [{condition: !Axis x}]]]}}",
            "split_sizes",
        ),
        ("virtual_chunk_containers: {a: {url_prefix: 's3://a/', store: !floppy 1}}", "store"),
        ("virtual_chunk_containers: {a: {store: in_memory}}", "virtual_chunk_containers.a"),
        ("virtual_chunk_containers: {a: {url_prefix: 'gs://a/', store: !gcs {x: 1}}}", "store"),
        ("- 1", "top"),
    ],
)
def test_wrong_values_are_named(text: str, where: str) -> None:
    with pytest.raises(FormatError) as caught:
        config_from_yaml(text.encode(), key="config.yaml")
    assert caught.value.kind is ErrorKind.CONFIG_DESERIALIZATION
    assert caught.value.facts["key"] == "config.yaml"
    assert where in str(caught.value.facts["where"])


@pytest.mark.parametrize(
    "blob",
    [
        b"\xff\xfe\x00",
        b"a: [1",
        b"a: 1\na: 2",
        b"a: &x [1]\nb: *x",
        b"a: &x [*x]",
        b"? [1, 2]\n: 3",
        b"!!python/object/apply:os.getcwd []",
        b"a: " + b"[" * 5_000,
        b"{" * 1_500 + b"}" * 1_500,
        b"#" * (1 << 21),
        b"manifest: {preload: {preload_if: " + b"!and [" * 90 + b"]" * 90 + b"}}",
    ],
    ids=range(11),
)
def test_damaged_yaml_is_refused_quickly(blob: bytes) -> None:
    with at_most(500_000), pytest.raises(FormatError) as caught:
        config_from_yaml(blob, key="config.yaml")
    assert caught.value.kind is ErrorKind.CONFIG_DESERIALIZATION
    assert caught.value.facts["key"] == "config.yaml"


def outcome(read: Callable[[], RepositoryConfig]) -> RepositoryConfig | FormatError:
    """A configuration or a refusal; any other error fails the test."""
    try:
        return read()
    except FormatError as error:
        return error


@given(st.data())
def test_flipped_and_cut_files_never_crash(data: st.DataObject) -> None:
    blob = bytearray(OLD_FILE)
    for _ in range(data.draw(st.integers(1, 4))):
        blob[data.draw(st.integers(0, len(blob) - 1))] = data.draw(st.integers(0, 255))
    del blob[data.draw(st.integers(0, len(blob))) :]
    config = outcome(lambda: config_from_yaml(bytes(blob)))
    if isinstance(config, RepositoryConfig):
        assert config_from_yaml(config_to_yaml(config)) == config
    else:
        assert config.kind is ErrorKind.CONFIG_DESERIALIZATION


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(configs, st.data())
def test_maps_with_foreign_values_never_crash(
    config: RepositoryConfig, data: st.DataObject
) -> None:
    plain = config_to_map(config)
    place: object = plain
    while isinstance(place, dict) and place:
        key = data.draw(st.sampled_from(sorted(place)))
        if not isinstance(place[key], dict) or data.draw(st.booleans()):
            place[key] = data.draw(json_values)
            break
        place = place[key]
    found = outcome(lambda: config_from_map(plain))
    if isinstance(found, FormatError):
        assert found.kind is ErrorKind.CONFIG_DESERIALIZATION
