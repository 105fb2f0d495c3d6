"""The pipeline of an array in a Frazil store: all chunks of a call in one step.

What is not made for it goes to the pipeline zarr would have used: other kinds of buffers,
codecs and chunk grids of others, keys of other forms, and everything once it is switched off.
"""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from math import prod
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
from zarr.abc.codec import Codec, CodecPipeline
from zarr.abc.store import Store
from zarr.core.array_spec import ArraySpec
from zarr.core.buffer import Buffer, NDBuffer, cpu
from zarr.core.metadata import ArrayV3Metadata
from zarr.storage import StorePath

from frazil import config
from frazil.arrays import Array
from frazil.bulk.chain import Chain
from frazil.bulk.compiling import compile_chain
from frazil.bulk.compose import WriteTarget
from frazil.bulk.engine import ArraySource, execute
from frazil.bulk.fetch import VIRTUAL, ChunkReferences, find_chunks
from frazil.bulk.plan import ListPlan
from frazil.bulk.read import read_chunks
from frazil.bulk.tuning import LARGE_VALUE, SMALL_BATCH
from frazil.bulk.write import write_chunks
from frazil.codec_pipeline.batches import Batch, BatchItem, batch_box, batch_of, covers_as_claimed
from frazil.codec_pipeline.bounded import unbounded
from frazil.errors import FormatError, StorageError
from frazil.model.chunks import ChunkRef, VirtualRef
from frazil.transaction.working import WorkingState


class BulkStore(Store):
    """A Zarr store over the working state of a session."""

    @property
    @abstractmethod
    def state(self) -> WorkingState:
        """The working state whose keys and values the store shows."""


Axes: TypeAlias = tuple[int, ...]
Statuses: TypeAlias = Any
"""What newer releases of zarr expect from a read: a status for each chunk."""
PRESENT: Final = {"status": "present"}
MISSING: Final = {"status": "missing"}
ORDER: Final = "morton"
"""The order of inner chunks in a shard that we write."""


class BulkPipeline(CodecPipeline):
    """Reads and writes the chunks of one array of a Frazil store."""

    def __init__(self, metadata: ArrayV3Metadata, plain: CodecPipeline, chain: Chain) -> None:
        self.metadata = metadata
        self.plain = plain
        """what zarr would have used"""
        self.chain = chain

    def __reduce__(self) -> tuple[object, ...]:
        return bulk_or_plain, (self.metadata, self.plain)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, BulkPipeline) and self.plain == other.plain

    def __hash__(self) -> int:
        return hash(self.plain)

    # --- reading ---

    async def read(
        self, batch_info: Iterable[BatchItem], out: NDBuffer, drop_axes: Axes = ()
    ) -> Statuses:
        """Read chunks into `out`, and tell of each whether it was there."""
        items = batch_info if isinstance(batch_info, list) else [*batch_info]
        if not items:
            return ()
        target = _memory(out)
        batch = None if target is None else self._batch(items)
        if batch is None or target is None:
            return await self.plain.read(items, out, drop_axes)
        try:
            return await self._read(batch, target, drop_axes)
        except (FormatError, StorageError) as error:
            error.during(f"get {batch.node.path}")
            raise

    async def _read(self, batch: Batch, target: Array, drop_axes: Axes) -> Statuses:
        if not self._is_small(batch):
            return await asyncio.to_thread(self._read_many, batch, target, drop_axes)
        refs = self._few_refs(batch) if len(batch.items) <= SMALL_BATCH else None
        if refs is not None:
            return self._read_few(batch, refs, target, drop_axes)
        found = self._find(batch, batch.coords)
        if (found.kind == VIRTUAL).any():
            return await asyncio.to_thread(self._read_many, batch, target, drop_axes)
        return self._read_many(batch, target, drop_axes, found)

    def _is_small(self, batch: Batch) -> bool:
        """Whether chunks are read or written in less time than it takes to wake a thread."""
        size = len(batch.items) * self._chunk_bytes(batch)
        return size <= LARGE_VALUE and batch.state.context.storage.answers_inline

    def _find(self, batch: Batch, coords: npt.NDArray[np.int64]) -> ChunkReferences:
        return find_chunks(batch.state, batch.node, coords, batch.changes)

    def _few_refs(self, batch: Batch) -> list[ChunkRef | None] | None:
        """The references of a few chunks; None if they are remote, or must be refused."""
        limit = self.chain.encoded_limit(batch.spec.shape)
        refs = [
            batch.state.chunk_ref(batch.node, tuple(coords), batch.changes)
            for coords in batch.coords.tolist()
        ]
        # Virtual chunks may be slow, and chunks that are too long are refused by the bulk read.
        slow = [ref for ref in refs if isinstance(ref, VirtualRef) or (ref and ref.length > limit)]
        return None if slow else refs

    def _read_few(
        self, batch: Batch, refs: Sequence[ChunkRef | None], out: Array, drop_axes: Axes
    ) -> Statuses:
        context, chain = batch.state.context, self.chain
        statuses = []
        for ref, (_, spec, in_chunk, in_out, _) in zip(refs, batch.items, strict=True):
            if ref is None:
                out[in_out] = spec.fill_value
                statuses.append(MISSING)
                continue
            try:
                chunk = chain.decode(context.read_chunk(ref), spec.shape)[in_chunk]
            except (FormatError, StorageError) as error:
                error.of_chunk(batch.node.path, batch.coords[len(statuses)])
                raise
            out[in_out] = np.squeeze(chunk, axis=drop_axes) if drop_axes else chunk
            statuses.append(PRESENT)
        return tuple(statuses)

    def _read_many(
        self, batch: Batch, out: Array, drop_axes: Axes, found: ChunkReferences | None = None
    ) -> Statuses:
        """All at once; `found` is where they are, if that is known."""
        exists = self._read_box(batch, out, found) if self._is_boxed(drop_axes) else None
        if exists is None:
            _, _, in_chunk, in_out, is_whole = batch.columns
            exists = read_chunks(
                batch.state,
                batch.node,
                self.chain,
                batch.coords,
                batch.spec.shape,
                in_chunk,
                in_out,
                out,
                is_whole=is_whole,
                drop_axes=drop_axes,
                changes=batch.changes,
            )
        if exists.all():
            return (PRESENT,) * len(exists)
        return tuple([PRESENT if found else MISSING for found in exists.tolist()])

    def _read_box(
        self, batch: Batch, out: Array, found: ChunkReferences | None
    ) -> npt.NDArray[np.bool_] | None:
        box = batch_box(batch, out.shape)
        if box is None:
            return None
        plan, dropped = box
        find = partial(self._find, batch) if found is None else lambda _: found
        source = ArraySource(batch.state, batch.node, self.chain, find)
        return execute(source, plan, np.expand_dims(out, dropped))

    def _is_boxed(self, drop_axes: Axes) -> bool:
        """Whether a selection of slices may be handled as one."""
        return not drop_axes and self.chain.shards is None

    # --- writing ---

    async def write(
        self, batch_info: Iterable[BatchItem], value: NDBuffer, drop_axes: Axes = ()
    ) -> None:
        """Write chunks, or parts of chunks, from `value`."""
        items = batch_info if isinstance(batch_info, list) else [*batch_info]
        if not items:
            return
        source = _memory(value)
        batch = None if source is None else self._batch(items)
        if (
            batch is None
            or source is None
            or (self.chain.shards and not self._are_whole_shards(batch))
        ):
            await self.plain.write(items, value, drop_axes)
            return
        items[0][0].store.require_writable()
        if len(items) <= SMALL_BATCH and self._is_small(batch):
            self._write(batch, source, drop_axes)
        else:
            await asyncio.to_thread(self._write, batch, source, drop_axes)

    def _are_whole_shards(self, batch: Batch) -> bool:
        """Whether shards are written up to their ends, also beyond the end of the array.

        Of others zarr's codec keeps the inner chunks that are not written, as they are.
        """
        if getattr(self.metadata.codecs[0], "subchunk_write_order", ORDER) != ORDER:
            return False
        ends = [(0, n, 1) for n in batch.spec.shape]
        return all(
            isinstance(part, slice) and part.indices(end[1]) == end
            for item in batch.items
            for part, end in zip(item[2], ends, strict=True)
        )

    def _write(self, batch: Batch, value: Array, drop_axes: Axes) -> None:
        target = WriteTarget(
            batch.state, batch.node, self.chain, batch.spec.config.write_empty_chunks
        )
        wanted = batch.state.pack_writes
        packing = config.current().pack_zarr_writes if wanted is None else wanted
        box = batch_box(batch, value.shape) if len(batch.items) > 1 and not drop_axes else None
        if box is not None and covers_as_claimed(box[0], batch):
            plan, dropped = box
            value = np.expand_dims(value, dropped)
            write_chunks(target, plan, value, packing=packing)
            return
        _, _, in_chunk, in_value, is_whole = batch.columns
        shape = batch.spec.shape
        pieces = ListPlan(batch.coords, shape, in_chunk, in_value, is_whole, drop_axes)
        write_chunks(target, pieces, value, packing=packing)

    # --- both ---

    def _batch(self, items: list[BatchItem]) -> Batch | None:
        """The chunks of a call, or None if zarr's own pipeline must handle it."""
        if not config.current().fast_zarr:
            return None
        place, spec = items[0][:2]
        store = place.store if isinstance(place, StorePath) else None
        # Mocks of our store have no session to read from.
        if not isinstance(store, BulkStore) or not issubclass(type(store), BulkStore):
            return None
        if spec.prototype != cpu.buffer_prototype:
            return None
        return batch_of(items, store.state, len(spec.shape))

    def _chunk_bytes(self, batch: Batch) -> int:
        return prod(batch.spec.shape) * self.chain.dtype.itemsize

    # --- as the pipeline zarr would have used ---

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever that pipeline has
        if name.startswith("__") or name == "plain":
            raise AttributeError(name)
        return getattr(self.plain, name)

    def __iter__(self) -> Iterator[Codec]:
        return map(unbounded, self.plain)  # type: ignore[call-overload,no-any-return]  # as all can

    # For mypy: zarr says Self, and takes any pipeline.
    def evolve_from_array_spec(self, array_spec: ArraySpec) -> CodecPipeline:  # type: ignore[override]
        return self.plain.evolve_from_array_spec(array_spec)

    @classmethod
    # For mypy: zarr says Self, and takes any pipeline.
    def from_codecs(cls, codecs: Iterable[Codec]) -> CodecPipeline:  # type: ignore[override]
        """Refuse: codecs alone do not say which store they are for."""
        raise TypeError("a bulk pipeline is made for an array in a store")

    @property
    def supports_partial_decode(self) -> bool:
        return self.plain.supports_partial_decode

    @property
    def supports_partial_encode(self) -> bool:
        return self.plain.supports_partial_encode

    def validate(self, **about: Any) -> None:  # noqa: ANN401 - differs between releases
        self.plain.validate(**about)

    def compute_encoded_size(self, byte_length: int, array_spec: ArraySpec) -> int:
        return self.plain.compute_encoded_size(byte_length, array_spec)

    async def decode(
        self, chunk_bytes_and_specs: Iterable[tuple[Buffer | None, ArraySpec]]
    ) -> Iterable[NDBuffer | None]:
        return await self.plain.decode(chunk_bytes_and_specs)

    async def encode(
        self, chunk_arrays_and_specs: Iterable[tuple[NDBuffer | None, ArraySpec]]
    ) -> Iterable[Buffer | None]:
        return await self.plain.encode(chunk_arrays_and_specs)


def _memory(buffer: NDBuffer) -> Array | None:
    """The array behind a buffer, unless it is of a special kind."""
    found: Any = buffer.as_ndarray_like()
    return found if type(found) is np.ndarray else None


def bulk_or_plain(metadata: object, plain: CodecPipeline) -> CodecPipeline:
    """The pipeline for an array, given zarr's own: that one, if we do not know all of its parts."""
    if not isinstance(metadata, ArrayV3Metadata):
        return plain
    keys = metadata.chunk_key_encoding.to_dict()
    has_our_keys = keys == {"name": "default", "configuration": {"separator": "/"}}
    if not has_our_keys or metadata.chunk_grid.to_dict().get("name") != "regular":
        return plain
    chain = compile_chain(metadata)
    return plain if chain is None else BulkPipeline(metadata, plain, chain)
