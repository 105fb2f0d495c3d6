"""Arbitrary configurations for property tests, and helpers of tests of settings."""

from __future__ import annotations

from hypothesis import strategies as st

import frazil
from frazil.model.config import (
    CachingConfig,
    ChecksumAlgorithm,
    CompressionAlgorithm,
    CompressionConfig,
    ManifestConfig,
    ManifestPreloadCondition,
    ManifestPreloadConfig,
    ManifestSplitCondition,
    ManifestSplitDimCondition,
    ManifestSplittingConfig,
    ManifestVirtualChunkLocationCompressionConfig,
    ObjectStoreConfig,
    RepositoryConfig,
    RepoUpdateRetryConfig,
    S3Options,
    StorageConcurrencySettings,
    StorageRetriesSettings,
    StorageSettings,
    StorageTimeoutSettings,
    VirtualChunkContainer,
)


def whole(high: int, low: int = 0) -> st.SearchStrategy[int | None]:
    return st.none() | st.integers(low, high)


U16, U32, U64 = 2**16 - 1, 2**32 - 1, 2**64 - 1
flags = st.none() | st.booleans()
# text that YAML could take for something else, and text that is hard to quote
awkward = st.sampled_from(
    [
        "",
        "yes",
        "null",
        "~",
        "1",
        "0o17",
        "1e3",
        "true",
        "a: b",
        "- x",
        "'\"",
        "!x",
        "#",
        "ü\n ",
        " ",
    ]
)
texts = awkward | st.text(st.characters(exclude_categories=("Cs", "Cc", "Co", "Cn")), max_size=12)
options = st.none() | st.dictionaries(
    texts.filter(lambda t: t != "headers"), texts, min_size=1, max_size=2
)

split_leaves = st.one_of(
    st.just(ManifestSplitCondition.AnyArray()),
    texts.map(ManifestSplitCondition.path_matches),
    texts.map(ManifestSplitCondition.name_matches),
)
split_conditions = st.recursive(
    split_leaves,
    lambda inner: st.one_of(
        st.lists(inner, max_size=2).map(ManifestSplitCondition.and_conditions),
        st.lists(inner, max_size=2).map(ManifestSplitCondition.or_conditions),
    ),
    max_leaves=4,
)
preload_conditions = st.recursive(
    st.one_of(
        st.just(ManifestPreloadCondition.true()),
        st.just(ManifestPreloadCondition.false()),
        texts.map(ManifestPreloadCondition.path_matches),
        st.builds(ManifestPreloadCondition.num_refs, whole(U32), whole(U32)),
    ),
    lambda inner: st.lists(inner, max_size=2).map(ManifestPreloadCondition.or_conditions),
    max_leaves=4,
)
dims = st.one_of(
    st.just(ManifestSplitDimCondition.Any()),
    st.integers(0, 40).map(ManifestSplitDimCondition.Axis),
    texts.map(ManifestSplitDimCondition.DimensionName),
)
sizes = st.lists(st.tuples(dims, st.integers(0, U32)), max_size=2)
s3_options = st.builds(
    S3Options,
    region=st.none() | texts,
    endpoint_url=st.none() | texts,
    allow_http=st.booleans(),
    network_stream_timeout_seconds=whole(U32),
    requester_pays=st.booleans(),
    checksum_algorithm=st.none() | st.sampled_from(ChecksumAlgorithm),
)
containers = st.one_of(
    st.tuples(st.just("s3://bucket/"), s3_options.map(ObjectStoreConfig.S3)),
    st.tuples(st.just("s3://other/"), s3_options.map(ObjectStoreConfig.S3Compatible)),
    st.tuples(st.just("tigris://bucket/"), s3_options.map(ObjectStoreConfig.Tigris)),
    st.tuples(st.just("gs://bucket/"), options.map(ObjectStoreConfig.Gcs)),
    st.tuples(st.just("az://box/"), options.map(ObjectStoreConfig.Azure)),
    st.tuples(st.just("https://host/"), st.builds(ObjectStoreConfig.Http, options, options)),
    st.tuples(st.just("file:///data/"), texts.map(ObjectStoreConfig.LocalFileSystem)),
).map(lambda pair: VirtualChunkContainer(pair[0], pair[1]))
container_maps = st.lists(containers, max_size=3).map(
    lambda many: {container.url_prefix: container for container in many}
)
retries = st.builds(StorageRetriesSettings, whole(U16, 1), whole(U32), whole(U32))

configs = st.builds(
    RepositoryConfig,
    inline_chunk_threshold_bytes=whole(U16),
    get_partial_values_concurrency=whole(U16),
    compression=st.none()
    | st.builds(CompressionConfig, st.none() | st.just(CompressionAlgorithm.Zstd), whole(255)),
    max_concurrent_requests=whole(U16),
    caching=st.none() | st.builds(CachingConfig, whole(U64), whole(U64), whole(U64)),
    storage=st.none()
    | st.builds(
        StorageSettings,
        concurrency=st.none() | st.builds(StorageConcurrencySettings, whole(U16, 1), whole(U64, 1)),
        retries=st.none() | retries,
        timeouts=st.none() | st.builds(StorageTimeoutSettings, whole(U32), whole(U32)),
        unsafe_use_conditional_create=flags,
        unsafe_use_metadata=flags,
        storage_class=st.none() | texts,
        minimum_size_for_multipart_upload=whole(U64),
    ),
    virtual_chunk_containers=st.none() | container_maps,
    manifest=st.none()
    | st.builds(
        ManifestConfig,
        preload=st.none()
        | st.builds(ManifestPreloadConfig, whole(U32), st.none() | preload_conditions, whole(U32)),
        splitting=st.none()
        | st.builds(
            ManifestSplittingConfig,
            st.none() | st.lists(st.tuples(split_conditions, sizes), max_size=2),
        ),
        virtual_chunk_location_compression=st.none()
        | st.builds(
            ManifestVirtualChunkLocationCompressionConfig,
            whole(U16),
            compression_level=whole(22, -5),
        ),
        max_concurrent_manifest_fetches_during_commit=whole(U16),
    ),
    repo_update_retries=st.none() | st.builds(RepoUpdateRetryConfig, st.none() | retries),
    num_updates_per_repo_info_file=whole(U16),
    max_concurrent_decodes=whole(U16),
)
"""Configurations with anything set that can be set."""


def container_at(prefix: str, name: str | None = None) -> VirtualChunkContainer:
    return VirtualChunkContainer(prefix, ObjectStoreConfig.S3(S3Options()), name)


def rebuilt(thing: object) -> object:
    return eval(repr(thing), {"frazil": frazil})
