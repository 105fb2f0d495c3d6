"""Whatever references a manifest is given, it gives back."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from frazil.formats.manifest import decode_manifest, encode_manifest
from frazil.formats.txlog import decode_log, encode_log
from frazil.ids import ManifestId, NodeId, SnapshotId
from frazil.model.chunks import ChunkTable
from frazil.model.history import TransactionLog
from tests.property.references import U32, chunk_tables, node_ids
from tests.support.manifests import Compression, search_bytes

ID = ManifestId(range(12))


PACK = Compression(dictionary_max_training_samples=20, dictionary_max_size_bytes=512)


@given(
    st.dictionaries(node_ids, chunk_tables(), max_size=3),
    st.sampled_from([1, 2]),
    st.sampled_from([None, PACK]),
)
def test_manifests_give_back_what_they_were_given(
    arrays: dict[NodeId, ChunkTable], spec: int, compression: Compression | None
) -> None:
    blob = encode_manifest(ID, arrays, spec=spec, compress_locations=compression)
    manifest = decode_manifest(blob, key="m")
    assert manifest.nodes() == tuple(sorted(arrays))
    assert manifest.num_refs == sum(map(len, arrays.values()))
    for node, table in manifest.tables():
        assert list(table.refs()) == list(arrays[node].refs())


@given(chunk_tables(), st.sampled_from([None, PACK]))
def test_one_chunk_is_the_same_with_and_without_columns(
    table: ChunkTable, compression: Compression | None
) -> None:
    node = NodeId(8)
    blob = encode_manifest(ID, {node: table}, spec=2, compress_locations=compression)
    manifest = decode_manifest(blob, key="m")
    for coords, ref in table.refs():
        assert search_bytes(blob, node, coords, key="m") == ref
        assert manifest.find(node, coords) == ref


@given(st.integers(1, 5).flatmap(lambda n: st.lists(st.tuples(*[U32] * n), max_size=50)))
def test_logs_give_back_coordinates_in_order(coords: list[tuple[int, ...]]) -> None:
    node = NodeId(8)
    ndim = len(coords[0]) if coords else 0
    given_ = np.array(coords, np.uint32).reshape(len(coords), ndim)
    log = TransactionLog(SnapshotId(range(12)), updated_chunks={node: given_})
    found = decode_log(encode_log(log, spec=2), key="t").updated_chunks[node]
    assert [tuple(c) for c in found.tolist()] == sorted(set(coords))
