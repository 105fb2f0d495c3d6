"""The Zarr store: the async edge over a session's key space.

Memory and local storage answer in line; for everything else the work is handed to the pool.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from datetime import datetime
from typing import Any, ClassVar, Literal, Protocol, Self, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt
from zarr.abc.store import (
    ByteRequest,
    OffsetByteRequest,
    RangeByteRequest,
    Store,
    SuffixByteRequest,
)
from zarr.core.buffer import Buffer, BufferPrototype, default_buffer_prototype

from frazil.async_twins import AsyncItems, async_twin
from frazil.bulk.tuning import LARGE_VALUE, LISTED_PER_TURN
from frazil.codec_pipeline import install
from frazil.codec_pipeline.bulk_pipeline import BulkStore
from frazil.errors import (
    ErrorKind,
    InvalidInputError,
    NodeNotFoundError,
    ReadOnlyError,
    SessionStateError,
)
from frazil.model.chunks import VirtualRef
from frazil.model.config import VirtualChunkSpec
from frazil.model.display import Field, HasRepr, Verbatim
from frazil.naming import OURS
from frazil.storage.pool import thread_pool
from frazil.transaction.keys import ChunkKey, clean_path, invalid
from frazil.transaction.keyspace import (
    ByteRange,
    ByteSelection,
    BytesFrom,
    KeySpace,
    LastBytes,
    PendingChunk,
)
from frazil.transaction.virtual_refs import ChunkBatch, chunk_batches, set_virtual_columns
from frazil.transaction.working import WorkingState

R = TypeVar("R")
FailedChunks: TypeAlias = list[tuple[int, ...]] | None
Buffers: TypeAlias = list[Buffer | None]


class StoreOwner(Protocol):
    """What a store needs of the session it belongs to."""

    state: WorkingState

    @property
    def read_only(self) -> bool:
        """Whether the session refuses writes."""

    @property
    def branch(self) -> str | None:
        """The branch the session will commit to."""

    @property
    def snapshot_id(self) -> str:
        """The base of the session."""

    @property
    def has_uncommitted_changes(self) -> bool:
        """Whether there is something to commit."""

    def require_picklable(self) -> None:
        """Refuse pickling where a copy could not be merged back."""


def to_span(request: ByteRequest | None) -> ByteSelection | None:
    """Translate Zarr's byte requests."""
    match request:
        case None:
            return None
        case RangeByteRequest(start, end):
            return ByteRange(start, end)
        case OffsetByteRequest(offset):
            return BytesFrom(offset)
        case SuffixByteRequest(suffix):
            return LastBytes(suffix)
        case _:
            raise InvalidInputError(
                f"Unexpected byte_range, got {request!r}", kind=ErrorKind.INVALID_BYTE_RANGE
            )


class FrazilStore(HasRepr, BulkStore):
    """A Zarr v3 store over a session; get one from `Session.store`.

    Making one puts a pipeline into zarr's configuration, for Frazil stores only. It reads and
    writes many chunks at once; with `frazil.config.set(fast_zarr=False)` or
    `frazil.disable_fast_zarr()` it only keeps zarr's codecs within the memory of a chunk.
    """

    _shown_name = "FrazilStore"
    _shown_package = OURS
    keys_of: ClassVar[type[KeySpace]] = KeySpace
    """how keys and values are made of a session"""

    def __init__(self, session: StoreOwner, *, read_only: bool | None = None) -> None:
        Store.__init__(self, read_only=session.read_only if read_only is None else read_only)
        self._session = session
        self._is_open = True
        self._bind()

    def _bind(self) -> None:
        install()
        self._keys = self.keys_of(self._session.state)
        self._inline = self._session.state.context.storage.answers_inline

    @property
    def state(self) -> WorkingState:
        """The working state of the session."""
        return self._session.state

    @property
    def session(self) -> Any:  # noqa: ANN401 - sessions are made above this layer
        """The session this store reads and writes."""
        return self._session

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FrazilStore) and self._session is other._session

    def __hash__(self) -> int:
        return hash(id(self._session))

    def __getstate__(self) -> dict[str, object]:
        self._session.require_picklable()
        return {"session": self._session, "read_only": self._read_only, "open": self._is_open}

    def __setstate__(self, state: dict[str, Any]) -> None:
        Store.__init__(self, read_only=state["read_only"])
        self._session = state["session"]
        self._is_open = state["open"]
        self._bind()

    def _shown_fields(self) -> Iterable[Field]:
        """What `repr` shows."""
        yield Field("read_only", not self._may_write)
        yield Field("snapshot_id", Verbatim(self._session.snapshot_id))
        if not self._session.read_only:
            yield Field("branch", Verbatim(self._session.branch or ""))
            yield Field("has_uncommitted_changes", self._session.has_uncommitted_changes)

    def with_read_only(self, read_only: bool = False) -> Self:
        """The same session through a store that may or may not write."""
        store = type(self)(self._session, read_only=read_only)
        store._is_open = False
        return store

    @classmethod
    async def open(cls, *args: Any, **kwargs: Any) -> Self:  # noqa: ANN401 - zarr's signature
        """Make a store; those of a session are open from the start."""
        return cls(*args, **kwargs)

    @property
    def _may_write(self) -> bool:
        """Whether both this store and its session take writes."""
        return not (self._read_only or self._session.read_only)

    def require_writable(self) -> None:
        """Refuse writes through a store, or to a session, that takes none."""
        if not self._may_write:
            raise ReadOnlyError("cannot write to a read-only store", kind=ErrorKind.READ_ONLY_STORE)

    def _check_writable(self) -> None:  # zarr's own name for it
        self.require_writable()

    @property
    def _store(self) -> RawStore:
        """Plain bytes instead of Zarr buffers, under the name older programs know."""
        return RawStore(self)

    async def _do(self, work: Callable[..., R], *args: object) -> R:
        if self._inline:
            return work(*args)
        return await asyncio.get_running_loop().run_in_executor(thread_pool(), work, *args)

    def _iterate(self, start: Callable[[], Iterable[R]]) -> AsyncIterator[R]:
        """Items one by one; unless storage answers at once, the event loop does not wait."""
        return _in_line(start) if self._inline else AsyncItems(start)

    # --- abilities ---

    @property
    def supports_writes(self) -> bool:
        """Always: a session decides for itself."""
        return True

    @property
    def supports_deletes(self) -> bool:
        """Always."""
        return True

    @property
    def supports_partial_writes(self) -> Literal[False]:
        """Never: chunks are written whole."""
        return False

    @property
    def supports_listing(self) -> bool:
        """Always."""
        return True

    @property
    def supports_consolidated_metadata(self) -> bool:
        """Never: the snapshot is consolidated already."""
        return False

    # --- reading ---

    async def get(
        self,
        key: str,
        prototype: BufferPrototype | None = None,
        byte_range: ByteRequest | None = None,
    ) -> Buffer | None:
        """The value of a key, or None."""
        return _as_buffer(await self._value(key, to_span(byte_range)), prototype)

    async def _value(self, key: str, span: ByteSelection | None) -> bytes | None:
        if not self._inline:
            return await self._do(self._keys.get, key, span)
        found = self._keys.find(key, span)
        if not isinstance(found, PendingChunk):
            return found
        context = self._session.state.context
        if isinstance(found.ref, VirtualRef) or found.end - found.start >= LARGE_VALUE:
            return await asyncio.get_running_loop().run_in_executor(
                thread_pool(), found.read, context
            )
        return found.read(context)

    def get_sync(
        self,
        key: str,
        *,
        prototype: BufferPrototype | None = None,
        byte_range: ByteRequest | None = None,
    ) -> Buffer | None:
        """The value of a key, without an event loop."""
        return _as_buffer(self._keys.get(key, to_span(byte_range)), prototype)

    async def get_partial_values(
        self,
        prototype: BufferPrototype,
        key_ranges: Iterable[tuple[str, ByteRequest | None]],
    ) -> Buffers:
        """Many values or parts of values, in order."""
        limit = asyncio.Semaphore(self._session.state.context.config.partial_values_limit())

        async def one(key: str, byte_range: ByteRequest | None) -> Buffer | None:
            async with limit:
                return await self.get(key, prototype, byte_range)

        return list(await asyncio.gather(*(one(key, part) for key, part in key_ranges)))

    async def exists(self, key: str) -> bool:
        """Whether a key has a value."""
        return await self._do(self._keys.exists, key)

    async def getsize(self, key: str) -> int:
        """Size of a value in bytes."""
        return await self._do(self._keys.size, key)

    async def getsize_prefix(self, prefix: str) -> int:
        """Summed size of the values of a node and of all below it."""
        return await self._do(self._keys.prefix_size, prefix)

    async def is_empty(self, prefix: str) -> bool:
        """Whether nothing is below a prefix."""
        return not await self._do(self._keys.list_dir, prefix)

    def list(self) -> AsyncIterator[str]:
        """All keys."""
        return self.list_prefix("")

    def list_prefix(self, prefix: str) -> AsyncIterator[str]:
        """All keys of a node and of the nodes below it."""
        return self._iterate(lambda: self._keys.list_prefix(prefix))

    def list_dir(self, prefix: str) -> AsyncIterator[str]:
        """Names directly below a prefix."""
        return self._iterate(lambda: self._keys.list_dir(prefix))

    # --- writing ---

    async def set(self, key: str, value: Buffer) -> None:
        """Store metadata or a chunk."""
        self._check_writable()
        data = _bytes_of(value)
        if self._inline and len(data) < LARGE_VALUE:
            self._keys.set(key, data)
            return
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(thread_pool(), self._keys.set, key, data)

    def set_sync(self, key: str, value: Buffer) -> None:
        """Store metadata or a chunk, without an event loop."""
        self._check_writable()
        self._keys.set(key, _bytes_of(value))

    async def set_if_not_exists(self, key: str, value: Buffer) -> None:
        """Store a value unless the key has one."""
        self._check_writable()
        await self._do(self._keys.set_if_absent, key, _bytes_of(value))

    async def set_partial_values(
        self, key_start_values: Iterable[tuple[str, int, bytes | bytearray | memoryview]]
    ) -> None:
        """Not supported: chunks are written whole."""
        raise SessionStateError(
            "partial writes are not supported: chunks are written whole",
            kind=ErrorKind.UNIMPLEMENTED,
        )

    async def delete(self, key: str) -> None:
        """Delete a node or a chunk."""
        self._check_writable()
        await self._do(self._keys.delete, key)

    def delete_sync(self, key: str) -> None:
        """Delete a node or a chunk, without an event loop."""
        self._check_writable()
        self._keys.delete(key)

    async def delete_dir(self, prefix: str) -> None:
        """Delete a node with all below it, or the chunks below a part of a chunk key."""
        self._check_writable()
        await self._do(self._keys.delete_dir, prefix)

    async def clear(self) -> None:
        """Delete every node; the history stays."""
        self._check_writable()
        await self._do(self._keys.clear)

    def sync_clear(self) -> None:
        """Delete every node, without an event loop."""
        self._check_writable()
        self._keys.clear()

    # --- virtual references ---

    def set_virtual_ref(
        self,
        key: str,
        location: str,
        *,
        offset: int,
        length: int,
        checksum: str | datetime | None = None,
        validate_container: bool = True,
    ) -> None:
        """Make a chunk refer to a range of an object outside the repository."""
        parsed = self._keys.parse(key)
        if not isinstance(parsed, ChunkKey):
            raise invalid(key)
        state = self._session.state
        state.require_editable()
        node = state.array(parsed.path)
        ref = state.context.containers.make_ref(
            location, offset, length, checksum, validate=validate_container
        )
        state.set_chunk(node, parsed.coords, ref)

    def set_virtual_refs(
        self,
        array_path: str,
        chunks: Sequence[VirtualChunkSpec],
        *,
        validate_containers: bool = True,
    ) -> FailedChunks:
        """Set many virtual references; returns the chunks whose location no container covers."""
        state = self._session.state
        state.require_editable()
        node = state.array(clean_path(array_path))
        failed: list[tuple[int, ...]] = []
        made: list[tuple[tuple[int, ...], VirtualRef]] = []
        for spec in chunks:
            coords = tuple(spec.index)
            checksum = spec.etag_checksum or spec.last_updated_at_checksum
            try:
                ref = state.context.containers.make_ref(
                    spec.location,
                    spec.offset,
                    spec.length,
                    checksum,
                    validate=validate_containers,
                )
            except InvalidInputError as error:
                if error.kind != ErrorKind.NO_CONTAINER_FOR_VIRTUAL_CHUNK:
                    raise
                failed.append(coords)
                continue
            made.append((coords, ref))
        for coords, ref in made:
            state.set_chunk(node, coords, ref)
        return failed or None

    def set_virtual_refs_arr(
        self,
        array_path: str,
        chunk_grid_shape: Sequence[int],
        locations: Sequence[str],
        offsets: npt.ArrayLike,
        lengths: npt.ArrayLike,
        *,
        validate_containers: bool = True,
        arr_offset: Sequence[int] | None = None,
        checksum: str | datetime | None = None,
    ) -> FailedChunks:
        """Set a whole box of virtual references from columns in C order; "" skips a chunk."""
        return set_virtual_columns(
            self._session.state,
            clean_path(array_path),
            tuple(chunk_grid_shape),
            locations,
            np.asarray(offsets, np.uint64),
            np.asarray(lengths, np.uint64),
            validate=validate_containers,
            first=None if arr_offset is None else tuple(arr_offset),
            checksum=checksum,
        )

    def array_chunk_iterator(
        self, array_path: str, batch_size: int = 100_000
    ) -> AsyncIterator[ChunkBatch]:
        """Columns of all references of an array, in batches."""
        state = self._session.state
        return self._iterate(
            lambda: chunk_batches(state, state.array(clean_path(array_path)), batch_size)
        )

    set_virtual_ref_async = async_twin(set_virtual_ref)
    set_virtual_refs_async = async_twin(set_virtual_refs)
    set_virtual_refs_arr_async = async_twin(set_virtual_refs_arr)


class RawStore:
    """Values of a store as plain bytes."""

    def __init__(self, store: FrazilStore) -> None:
        self._outer = store

    async def get(self, key: str) -> bytes:
        """The value of a key.

        Raises:
            NodeNotFoundError: there is none.
        """
        found = await self._outer.get(key)
        if found is None:
            raise NodeNotFoundError(f"key not found: {key!r}", kind=ErrorKind.KEY_NOT_FOUND)
        return found.to_bytes()

    async def set(self, key: str, value: bytes) -> None:
        """Store metadata or a chunk."""
        await self._outer.set(key, default_buffer_prototype().buffer.from_bytes(value))


def _as_buffer(found: bytes | None, prototype: BufferPrototype | None) -> Buffer | None:
    kind = (prototype or default_buffer_prototype()).buffer
    return None if found is None else kind.from_bytes(found)


def _bytes_of(value: Buffer) -> memoryview:
    if not isinstance(value, Buffer):
        raise TypeError(
            "FrazilStore.set(): `value` must be a Buffer instance. "
            f"Got an instance of {type(value)} instead."
        )
    return memoryview(value.as_buffer_like()).cast("B")


async def _in_line(start: Callable[[], Iterable[R]]) -> AsyncIterator[R]:
    for number, item in enumerate(start(), 1):
        yield item
        if not number % LISTED_PER_TURN:
            await asyncio.sleep(0)  # others may take their turn
