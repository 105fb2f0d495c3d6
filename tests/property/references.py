"""Strategies for chunk references and tables of them."""

from __future__ import annotations

from hypothesis import strategies as st

from frazil.ids import ChunkId, NodeId
from frazil.model.chunks import ChunkRef, ChunkTable, InlineRef, NativeRef, VirtualRef

U32 = st.integers(0, 2**32 - 1)
U64 = st.integers(0, 2**64 - 1)
LOCATIONS = st.one_of(
    st.sampled_from([f"s3://bucket/prefix/file-{i}.nc" for i in range(6)]),
    st.text(max_size=20),
    st.integers(1000, 1500).map(lambda n: "x" * n),
)

chunk_refs: st.SearchStrategy[ChunkRef] = st.one_of(
    st.builds(NativeRef, st.binary(min_size=12, max_size=12).map(ChunkId), offset=U64, length=U64),
    st.builds(
        VirtualRef,
        LOCATIONS,
        offset=U64,
        length=U64,
        checksum=st.one_of(st.none(), st.text(max_size=5), st.integers(1, 2**32 - 1)),
    ),
    st.binary(max_size=600).map(InlineRef),
)
node_ids = st.binary(min_size=8, max_size=8).map(NodeId)


@st.composite
def chunk_tables(draw: st.DrawFn) -> ChunkTable:
    """A table of any rank, dense or scattered."""
    ndim = draw(st.integers(0, 4))
    coords = st.tuples(*[draw(st.sampled_from([st.integers(0, 3), U32])) for _ in range(ndim)])
    refs = draw(st.dictionaries(coords, chunk_refs, max_size=30))
    return ChunkTable.from_refs(ndim, refs.items())
