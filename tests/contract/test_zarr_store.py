"""zarr's own store suite and its stateful hierarchy test, run on our store.

The suite writes to free-form keys such as `foo/c/0.0`. Our keys are those of Zarr v3
hierarchies, so tests about other keys are given such keys instead; what they assert stays.
"""

from __future__ import annotations

import json
import pickle
from collections.abc import AsyncIterator
from typing import Any

import pytest
from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test
from zarr.abc.store import ByteRequest, OffsetByteRequest, RangeByteRequest, SuffixByteRequest
from zarr.core.buffer import Buffer, cpu, default_buffer_prototype
from zarr.testing.stateful import ZarrHierarchyStateMachine
from zarr.testing.store import StoreTests
from zarr.testing.utils import assert_bytes_equal

from frazil.errors import FrazilError, InvalidInputError, ReadOnlyError
from frazil.formats.generation import G3
from frazil.repository import Repository
from frazil.storage.memory import MemoryStorage
from frazil.store import FrazilStore
from tests.support import nodes
from tests.support.generations import ALL, IDS, Spec

PROTOTYPE = default_buffer_prototype()
ROOT = "zarr.json"
DATA = b"\x01\x02\x03\x04"


def group_document(**attributes: object) -> bytes:
    """A document in the one form that every generation gives back byte for byte."""
    return G3.stored_form(nodes.group_document(**attributes))


def array_document(*shape: int) -> bytes:
    """The same for an array."""
    return G3.stored_form(nodes.array_document(*shape))


async def collected(items: AsyncIterator[str]) -> list[str]:
    return [item async for item in items]


def buffer(data: bytes) -> Buffer:
    return cpu.Buffer.from_bytes(data)


def new_store(*, read_only: bool = False, spec: Spec = 2) -> FrazilStore:
    repository = Repository.create(MemoryStorage(), spec_version=spec)
    session = repository.writable_session("main")
    store = session.store
    store.set_sync(ROOT, buffer(group_document()))
    store.set_sync("foo/zarr.json", buffer(array_document(10, 10)))
    session.commit("start")
    if read_only:
        return repository.readonly_session("main").store
    return repository.writable_session("main").store


class TestFrazilStore(StoreTests[FrazilStore, cpu.Buffer]):
    store_cls = FrazilStore
    buffer_cls = cpu.Buffer

    @pytest.fixture(params=ALL, ids=IDS)
    def store_kwargs(self, request: pytest.FixtureRequest) -> dict[str, Any]:
        return {"session": new_store(spec=request.param).session}

    @pytest.fixture
    def open_kwargs(self, store_kwargs: dict[str, Any]) -> dict[str, Any]:
        return store_kwargs

    @pytest.fixture
    async def store(self, store_kwargs: dict[str, Any]) -> FrazilStore:
        return FrazilStore(**store_kwargs)

    @pytest.fixture
    async def store_not_open(self, store_kwargs: dict[str, Any]) -> FrazilStore:
        return FrazilStore(**store_kwargs).with_read_only(read_only=False)

    async def set(self, store: FrazilStore, key: str, value: Buffer) -> None:
        store.set_sync(key, value)

    async def get(self, store: FrazilStore, key: str) -> Buffer:
        found = store.get_sync(key, prototype=PROTOTYPE)
        assert found is not None
        return found

    def test_store_repr(self, store: FrazilStore) -> None:
        assert "read_only: False" in repr(store)
        assert "branch: main" in repr(store)

    def test_store_supports_writes(self, store: FrazilStore) -> None:
        assert store.supports_writes

    def test_store_supports_listing(self, store: FrazilStore) -> None:
        assert store.supports_listing

    async def test_serializable_store(self, store: FrazilStore) -> None:
        with pytest.raises(ValueError, match="fork"):
            pickle.dumps(store)
        store.set_sync("foo/c/0/0", buffer(DATA))
        fork = pickle.loads(pickle.dumps(store.session.fork().store))
        assert_bytes_equal(await fork.get("foo/c/0/0", PROTOTYPE), DATA)

    async def test_read_only_store_raises(self, open_kwargs: dict[str, Any]) -> None:
        store = await FrazilStore.open(**open_kwargs, read_only=True)
        for work in (
            store.set(ROOT, buffer(group_document())),
            store.delete(ROOT),
            store.delete_dir("foo"),
            store.clear(),
            store.set_if_not_exists("bar/zarr.json", buffer(group_document())),
        ):
            with pytest.raises(ReadOnlyError, match="read-only store"):
                await work
        assert await store.exists(ROOT)

    async def test_with_read_only_store(self, open_kwargs: dict[str, Any]) -> None:
        store = await FrazilStore.open(**open_kwargs, read_only=True)
        writer = store.with_read_only(read_only=False)
        assert not writer.read_only
        await writer.set("foo/c/0/0", buffer(DATA))
        assert_bytes_equal(await store.get("foo/c/0/0", PROTOTYPE), DATA)
        with pytest.raises(ReadOnlyError):
            await writer.with_read_only(read_only=True).delete("foo/c/0/0")

    @pytest.mark.parametrize("key", [ROOT, "foo/c/0/0"])
    @pytest.mark.parametrize(
        "byte_range",
        [None, RangeByteRequest(1, 3), OffsetByteRequest(1), SuffixByteRequest(2)],
    )
    async def test_get(  # type: ignore[override]
        self, store: FrazilStore, key: str, byte_range: ByteRequest | None
    ) -> None:
        value = group_document(x=1) if key == ROOT else DATA
        store.set_sync(key, buffer(value))
        expected = {
            type(None): value,
            RangeByteRequest: value[1:3],
            OffsetByteRequest: value[1:],
            SuffixByteRequest: value[-2:],
        }[type(byte_range)]
        assert_bytes_equal(await store.get(key, PROTOTYPE, byte_range), expected)

    async def test_get_not_open(self, store_not_open: FrazilStore) -> None:
        assert not store_not_open._is_open
        store_not_open.set_sync("foo/c/0/0", buffer(DATA))
        assert_bytes_equal(await store_not_open.get("foo/c/0/0", PROTOTYPE), DATA)

    async def test_get_raises(self, store: FrazilStore) -> None:
        store.set_sync("foo/c/0/0", buffer(DATA))
        with pytest.raises((ValueError, TypeError), match="byte_range"):
            await store.get("foo/c/0/0", PROTOTYPE, (0, 2))  # type: ignore[arg-type]
        for outside in (RangeByteRequest(2, 9), OffsetByteRequest(4), SuffixByteRequest(5)):
            with pytest.raises(InvalidInputError):
                await store.get("foo/c/0/0", PROTOTYPE, outside)

    async def test_get_many(self, store: FrazilStore) -> None:
        values = {f"foo/c/{i}/0": bytes([i + 1]) for i in range(10)}
        for key, value in values.items():
            store.set_sync(key, buffer(value))
        found = store._get_many([(key, PROTOTYPE, None) for key in values])
        assert {key: v.to_bytes() async for key, v in found if v is not None} == values

    @pytest.mark.parametrize("data", [b"\x01", DATA])
    async def test_getsize(  # type: ignore[override]
        self, store: FrazilStore, data: bytes
    ) -> None:
        store.set_sync("foo/c/0/0", buffer(data))
        assert await store.getsize("foo/c/0/0") == len(data)
        assert await store.getsize(ROOT) == len(group_document())

    async def test_getsize_prefix(self, store: FrazilStore) -> None:
        for i in range(10):
            store.set_sync(f"foo/c/{i}/0", buffer(b"\0" * 10))
        assert await store.getsize_prefix("foo") == 100 + len(array_document(10, 10))

    async def test_getsize_raises(self, store: FrazilStore) -> None:
        with pytest.raises(KeyError):
            await store.getsize("not-there/zarr.json")

    @pytest.mark.parametrize("data", [b"\x01", DATA])
    async def test_set(self, store: FrazilStore, data: bytes) -> None:  # type: ignore[override]
        await store.set("foo/c/1/1", buffer(data))
        assert_bytes_equal(await self.get(store, "foo/c/1/1"), data)

    # Newer suites have the following on keys such as `parity_set_get`, which are no keys of Zarr.

    @pytest.mark.parametrize("direction", ["set_async_get_sync", "set_sync_get_async"])
    async def test_sync_async_set_get_parity(self, store: FrazilStore, direction: str) -> None:
        if direction == "set_async_get_sync":
            await store.set("foo/c/1/1", buffer(DATA))
            found = store.get_sync("foo/c/1/1")
        else:
            store.set_sync("foo/c/1/1", buffer(DATA))
            found = await store.get("foo/c/1/1", PROTOTYPE)
        assert found is not None
        assert_bytes_equal(found, DATA)

    async def test_delete_sync_visible_to_async_get(self, store: FrazilStore) -> None:
        await store.set("foo/c/1/1", buffer(DATA))
        store.delete_sync("foo/c/1/1")
        assert await store.get("foo/c/1/1", PROTOTYPE) is None

    @pytest.mark.parametrize(
        "byte_range",
        [None, RangeByteRequest(1, 4), OffsetByteRequest(1), SuffixByteRequest(1)],
    )
    async def test_get_sync_byte_range_parity(
        self, store: FrazilStore, byte_range: ByteRequest | None
    ) -> None:
        await store.set("foo/c/1/1", buffer(DATA))
        found = await store.get("foo/c/1/1", PROTOTYPE, byte_range)
        at_once = store.get_sync("foo/c/1/1", byte_range=byte_range)
        assert found is not None
        assert at_once is not None
        assert_bytes_equal(at_once, found)

    async def test_set_not_open(self, store_not_open: FrazilStore) -> None:
        await store_not_open.set("foo/c/1/1", buffer(DATA))
        assert_bytes_equal(await self.get(store_not_open, "foo/c/1/1"), DATA)

    async def test_set_many(self, store: FrazilStore) -> None:
        values = {f"foo/c/{i}/0": bytes([i + 1]) for i in range(10)}
        await store._set_many((key, buffer(value)) for key, value in values.items())
        for key, value in values.items():
            assert (await self.get(store, key)).to_bytes() == value

    async def test_get_partial_values(self, store: FrazilStore) -> None:  # type: ignore[override]
        store.set_sync("foo/c/0/0", buffer(DATA))
        found = await store.get_partial_values(
            PROTOTYPE,
            [("foo/c/0/0", RangeByteRequest(1, 3)), ("foo/c/9/9", None), (ROOT, None)],
        )
        values = [None if one is None else one.to_bytes() for one in found]
        assert values == [DATA[1:3], None, group_document()]

    async def test_exists(self, store: FrazilStore) -> None:
        assert await store.exists(ROOT)
        assert not await store.exists("foo/c/0/0")
        store.set_sync("foo/c/0/0", buffer(DATA))
        assert await store.exists("foo/c/0/0")

    async def test_delete(self, store: FrazilStore) -> None:
        store.set_sync("foo/c/0/0", buffer(DATA))
        await store.delete("foo/c/0/0")
        assert not await store.exists("foo/c/0/0")
        await store.delete("foo/zarr.json")
        assert not await store.exists("foo/zarr.json")

    async def test_delete_dir(self, store: FrazilStore) -> None:
        for key in ("foo/c/0/0", "foo/c/0/1", "foo/c/1/0"):
            store.set_sync(key, buffer(DATA))
        store.set_sync("foo-bar/zarr.json", buffer(group_document()))
        await store.delete_dir("foo/c/0")
        assert not await store.exists("foo/c/0/1")
        assert await store.exists("foo/c/1/0")
        await store.delete_dir("foo")
        assert not await store.exists("foo/zarr.json")
        assert await store.exists("foo-bar/zarr.json")

    async def test_delete_nonexistent_key_does_not_raise(self, store: FrazilStore) -> None:
        before = await collected(store.list())
        for key in ("foo/c/5/5", "nope/zarr.json", "nope/c/0", "foo/c/99/99", ".zgroup"):
            await store.delete(key)
        assert await collected(store.list()) == before

    async def test_is_empty(self, store: FrazilStore) -> None:
        assert not await store.is_empty("")
        assert not await store.is_empty("foo")
        assert await store.is_empty("nope")

    async def test_clear(self, store: FrazilStore) -> None:
        await store.clear()
        assert await store.is_empty("")

    async def test_list(self, store: FrazilStore) -> None:
        store.set_sync("foo/c/0/3", buffer(DATA))
        found = await collected(store.list())
        assert sorted(found) == ["foo/c/0/3", "foo/zarr.json", "zarr.json"]

    async def test_list_prefix(self, store: FrazilStore) -> None:
        store.set_sync("foo/c/0/3", buffer(DATA))
        store.set_sync("foo-bar/zarr.json", buffer(group_document()))
        found = await collected(store.list_prefix("foo"))
        assert sorted(found) == ["foo/c/0/3", "foo/zarr.json"]
        assert sorted(await collected(store.list_prefix("foo/"))) == sorted(found)

    async def test_list_empty_path(self, store: FrazilStore) -> None:
        found = await collected(store.list_prefix(""))
        assert sorted(found) == ["foo/zarr.json", "zarr.json"]

    async def test_list_dir(self, store: FrazilStore) -> None:
        store.set_sync("foo/c/1/2", buffer(DATA))
        store.set_sync("foo/c/1/3", buffer(DATA))
        assert sorted(await collected(store.list_dir(""))) == ["foo", "zarr.json"]
        await store.set("bare/zarr.json", buffer(array_document(3)))
        assert await collected(store.list_dir("bare")) == ["zarr.json"]
        assert sorted(await collected(store.list_dir("foo"))) == ["c", "zarr.json"]
        assert await collected(store.list_dir("foo/c")) == ["1"]
        assert sorted(await collected(store.list_dir("foo/c/1/"))) == ["2", "3"]
        assert await collected(store.list_dir("nope")) == []

    async def test_set_if_not_exists(self, store: FrazilStore) -> None:
        await store.set_if_not_exists("foo/c/0/0", buffer(b"first"))
        await store.set_if_not_exists("foo/c/0/0", buffer(b"second"))
        assert (await self.get(store, "foo/c/0/0")).to_bytes() == b"first"

    async def test_get_bytes(self, store: FrazilStore) -> None:
        assert await store._get_bytes(ROOT, prototype=PROTOTYPE) == group_document()
        with pytest.raises(FileNotFoundError):
            await store._get_bytes("nope/zarr.json", prototype=PROTOTYPE)

    def test_get_bytes_sync(self, store: FrazilStore) -> None:
        assert store._get_bytes_sync(ROOT, prototype=PROTOTYPE) == group_document()

    async def test_get_json(self, store: FrazilStore) -> None:
        assert await store._get_json(ROOT, prototype=PROTOTYPE) == json.loads(group_document())

    def test_get_json_sync(self, store: FrazilStore) -> None:
        assert store._get_json_sync(ROOT, prototype=PROTOTYPE) == json.loads(group_document())

    def test_get_sync(self, store: FrazilStore) -> None:
        assert_bytes_equal(store.get_sync(ROOT, prototype=PROTOTYPE), group_document())

    def test_get_sync_missing(self, store: FrazilStore) -> None:
        assert store.get_sync("nope/zarr.json") is None

    def test_set_sync(self, store: FrazilStore) -> None:
        store.set_sync("foo/c/0/0", buffer(DATA))
        assert_bytes_equal(store.get_sync("foo/c/0/0"), DATA)

    def test_delete_sync(self, store: FrazilStore) -> None:
        store.delete_sync("foo/zarr.json")
        assert store.get_sync("foo/zarr.json") is None

    def test_delete_sync_missing(self, store: FrazilStore) -> None:
        store.delete_sync("nope/zarr.json")
        assert store.get_sync(ROOT) is not None


@pytest.mark.parametrize(
    "key",
    ["foo", "foo/bar", "foo/c/0.0", "foo/../zarr.json", "c/x", "foo/c/-1", "foo/c/4294967296", ""],
)
async def test_other_keys_are_refused(key: str) -> None:
    store = new_store()
    with pytest.raises(InvalidInputError):
        await store.get(key, PROTOTYPE)
    with pytest.raises(InvalidInputError):
        await store.set(key, buffer(DATA))


@pytest.mark.parametrize("key", [".zgroup", "foo/.zarray", "foo/.zattrs", ".zmetadata"])
async def test_zarr_v2_keys_are_never_there(key: str) -> None:
    store = new_store()
    assert await store.get(key, PROTOTYPE) is None
    await store.delete(key)
    with pytest.raises(FrazilError, match="Zarr v2"):
        await store.set(key, buffer(b"{}"))


async def test_node_names_that_look_like_chunk_folders() -> None:
    store = new_store()
    await store.set("c/zarr.json", buffer(group_document()))
    await store.set("c/c/zarr.json", buffer(array_document(3)))
    await store.set("c/c/c/1", buffer(DATA))
    await store.set("arrc/zarr.json", buffer(array_document()))
    await store.set("arrc/c", buffer(b"scalar"))
    assert_bytes_equal(await store.get("c/c/c/1", PROTOTYPE), DATA)
    assert_bytes_equal(await store.get("arrc/c", PROTOTYPE), b"scalar")
    assert sorted(await collected(store.list_dir("c"))) == ["c", "zarr.json"]


class HierarchyMachine(ZarrHierarchyStateMachine):
    """zarr's machine; what it leaves is committed and compared."""

    store: FrazilStore

    def __init__(self) -> None:
        self.repository = Repository.create(MemoryStorage())
        super().__init__(self.repository.writable_session("main").store)

    def teardown(self) -> None:
        session = self.store.session
        before = {
            key: self.store.get_sync(key) for key in self._sync_iter(self.store.list_prefix(""))
        }
        session.commit("done", allow_empty=True)
        after = self.repository.readonly_session("main").store
        assert set(before) == set(self._sync_iter(after.list_prefix("")))
        for key, value in before.items():
            assert value is not None
            assert_bytes_equal(after.get_sync(key), value)
        super().teardown()


def test_zarr_hierarchy() -> None:
    run_state_machine_as_test(
        HierarchyMachine, settings=settings(max_examples=15, stateful_step_count=25, deadline=None)
    )
