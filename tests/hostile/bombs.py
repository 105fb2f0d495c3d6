"""Small files that would take much memory or time: kinds of files times kinds of bombs."""

from __future__ import annotations

import bz2
import io
import json
import lzma
import struct
import tempfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Any, Final, TypeAlias

import msgpack
import numpy as np
import zarr
import zstandard

from frazil import config
from frazil.flatbuf.writer import OFFSET, FlatWriter, TableLayout
from frazil.formats.envelope import FileKind, seal_table
from frazil.formats.snapshot import (
    MANIFEST_FILE_V1,
    NODE,
    SNAPSHOT,
    decode_snapshot,
    encode_snapshot,
)
from frazil.model.config import ObjectStoreConfig, RepositoryConfig, VirtualChunkContainer
from frazil.repository import Repository
from frazil.statistics import files as statistics
from frazil.statistics.lookup import lookup
from frazil.statistics.records import blank_rows, decoding_of
from frazil.storage.memory import MemoryStorage
from frazil.transaction.opened import context_of
from tests.support.nodes import array_document, group_document, write_keys

Work: TypeAlias = Callable[[], Any]
Spec: TypeAlias = int | str
GIB: Final = 1 << 30
ZSTD: Final = b"\x28\xb5\x2f\xfd"


@dataclass(frozen=True, slots=True)
class Case:
    """One bomb: `make` prepares it and returns what sets it off."""

    make: Callable[[], Work]
    named: str
    """part of the error: the file, or the array"""
    error: str = "FormatError"


# --- packed bytes ---


@cache
def zeros(size: int, *, declared: bool = True) -> bytes:
    """A zstd frame of zeros."""
    packer = zstandard.ZstdCompressor(write_content_size=declared)
    stream = packer.compressobj(size=size if declared else -1)
    parts = [stream.compress(bytes(1 << 20)) for _ in range(size >> 20)]
    return b"".join([*parts, stream.compress(bytes(size & (1 << 20) - 1)), stream.flush()])


@cache
def repeated(piece: bytes, size: int) -> bytes:
    """A zstd frame of one piece again and again."""
    stream = zstandard.ZstdCompressor().compressobj(size=size // len(piece) * len(piece))
    block = piece * max(1, (1 << 20) // len(piece))
    left, parts = size // len(piece) * len(piece), []
    while left > 0:
        parts.append(stream.compress(block[:left]))
        left -= len(block)
    return b"".join([*parts, stream.flush()])


# --- whole repositories ---


@cache
def sample(spec: Spec) -> tuple[dict[str, bytes], str]:
    """The objects of a small repository, and its snapshot."""
    storage = MemoryStorage()
    repository = Repository.create(storage, spec_version=spec)
    session = repository.writable_session("main")
    group = zarr.group(session.store)
    group.create_array("a", shape=(8,), chunks=(2,), dtype="f4")[:] = 1
    made = session.commit("one")
    return {item.key: storage.get(item.key) or b"" for item in storage.list("")}, made


def with_file(spec: Spec, prefix: str, change: Callable[[bytes], bytes]) -> MemoryStorage:
    """That repository with another content of one file."""
    objects, made = sample(spec)
    names = [key for key in objects if key.startswith(prefix) and "1CECHNK" not in key]
    chosen = next((key for key in names if made in key), names[-1])
    storage = MemoryStorage()
    for key, data in objects.items():
        storage.put(key, change(data) if key == chosen else data)
    return storage


def use(storage: MemoryStorage, made: str) -> None:
    """Look at everything."""
    repository = Repository.open(storage)
    list(repository.ancestry(branch="main"))
    if context_of(repository).generation.repo_object:
        list(repository.ops_log())
    session = repository.readonly_session("main")
    zarr.open_group(session.store, mode="r")["a"][:]  # type: ignore[index]
    tuple(session.state.arrays())
    repository.diff(from_snapshot_id="1CECHNKREP0F1RSTCMT0", to_snapshot_id=made)


def of_file(
    spec: Spec, prefix: str, change: Callable[[bytes], bytes], named: str | None = None
) -> Case:
    """A bomb in the place of one file."""

    def make() -> Work:
        return partial(use, with_file(spec, prefix, change), sample(spec)[1])

    return Case(make, prefix.rstrip("/") if named is None else named)


def in_envelope(pack: Callable[[], bytes]) -> Callable[[bytes], bytes]:
    """Another body in the same header."""
    return lambda old: old[: old.find(ZSTD)] + pack()


# --- FlatBuffers that refer to one thing again and again ---

MANY: Final = 200_000


def _sealed(kind: FileKind, build: Callable[[FlatWriter], int], spec: int) -> bytes:
    writer = FlatWriter()
    root = build(writer)
    return seal_table(writer, root, kind, spec=spec)


def _snapshot(writer: FlatWriter, nodes: int, spec: int, files: int | None = None) -> int:
    none = writer.structs(b"", 0, 8)
    old = none if files is None else files
    new = None if spec == 1 else writer.offsets([])
    texts = writer.text("m"), writer.offsets([])
    return writer.table(SNAPSHOT, bytes(range(12)), None, nodes, 1, *texts, old, new)


def same_node(writer: FlatWriter, spec: int) -> int:
    """A snapshot whose nodes are all the same table, with a long document."""
    group = writer.table(TableLayout())
    document = writer.blob(b" " * 5000)
    node = writer.table(NODE, b"12345678", writer.text("/"), document, 2, group)
    return _snapshot(writer, writer.offsets([node] * MANY), spec)


def same_manifest(writer: FlatWriter, spec: int) -> int:
    """A snapshot that lists one manifest again and again."""
    entry = MANIFEST_FILE_V1.pack(bytes(12), 1, 1)
    files = writer.structs(entry * MANY, MANY, 8)
    return _snapshot(writer, writer.offsets([]), spec, files)


def same_metadata(writer: FlatWriter, spec: int) -> int:
    """A snapshot whose metadata are one long value again and again."""
    item = writer.table(
        TableLayout(OFFSET, OFFSET), writer.text("x"), writer.blob(b"\xc4\xff" + b"x" * 9999)
    )
    metadata = writer.offsets([item] * MANY)
    none = writer.structs(b"", 0, 8)
    return writer.table(
        SNAPSHOT, bytes(range(12)), None, writer.offsets([]), 1, writer.text("m"), metadata, none,
        None if spec == 1 else writer.offsets([]),
    )  # fmt: skip


def same_id(writer: FlatWriter, spec: int) -> int:
    """A transaction log that lists one node again and again."""
    ids = writer.structs(bytes(8) * 4 * MANY, 4 * MANY, 1)
    none, empty = writer.structs(b"", 0, 1), writer.offsets([])
    log = TableLayout("id12", *[OFFSET] * 8)
    return writer.table(log, bytes(range(12)), ids, *[none] * 5, empty, empty)


def same_reference(writer: FlatWriter, spec: int) -> int:
    """A manifest whose references are all the same table, with many bytes inline."""
    index = writer.structs(bytes(4), 1, 4)
    ref = writer.table(TableLayout(OFFSET, OFFSET), index, writer.blob(bytes(100_000)))
    refs = writer.offsets([ref] * MANY)
    array = writer.table(TableLayout("id8", OFFSET), b"12345678", refs)
    return writer.table(TableLayout("id12", OFFSET), bytes(range(12)), writer.offsets([array]))


def same_ref(writer: FlatWriter, spec: int) -> int:
    """A repo object whose tags are all the same table, with a long name."""
    snapshot = writer.table(
        TableLayout("id12", "i32!", "u64", OFFSET, OFFSET), bytes(range(12)), b"\xff" * 4, 1,
        writer.text("m"), writer.offsets([]),
    )  # fmt: skip
    snapshots = writer.offsets([snapshot])
    tag = writer.table(TableLayout(OFFSET, "u32"), writer.text("t" * 100_000), 0)
    tags, main = (
        writer.offsets([tag] * MANY),
        writer.table(TableLayout(OFFSET, "u32"), writer.text("main"), 0),
    )
    status = writer.table(TableLayout("u8", "u64", OFFSET), 0, 1, None)
    empty = writer.offsets([])
    repo = TableLayout("u8", *[OFFSET] * 11)
    fields = (tags, writer.offsets([main]), empty, snapshots, status, None, empty, *[None] * 4)
    return writer.table(repo, 2, *fields)


def same_snapshot(writer: FlatWriter, spec: int) -> int:
    """A repo object whose snapshots are all the same table, with a long message."""
    snapshot = writer.table(
        TableLayout("id12", "i32!", "u64", OFFSET, OFFSET), bytes(range(12)), b"\xff" * 4, 1,
        writer.text("m" * 100_000), writer.offsets([]),
    )  # fmt: skip
    main = writer.table(TableLayout(OFFSET, "u32"), writer.text("main"), 0)
    status = writer.table(TableLayout("u8", "u64", OFFSET), 0, 1, None)
    empty = writer.offsets([])
    snapshots = writer.offsets([snapshot] * MANY)
    repo = TableLayout("u8", *[OFFSET] * 11)
    fields = (empty, writer.offsets([main]), empty, snapshots, status, None, empty, *[None] * 4)
    return writer.table(repo, 2, *fields)


def flat(kind: FileKind, build: Callable[[FlatWriter, int], int], spec: int) -> Any:  # noqa: ANN401 - a change
    """A change of a file to one that is built so."""
    return lambda _: _sealed(kind, lambda writer: build(writer, spec), spec)


# --- documents and configuration ---


def in_document(spec: int, attributes: Callable[[], str]) -> Case:
    """A `zarr.json` with such attributes in a snapshot."""

    def make() -> Work:
        storage = MemoryStorage()
        repository = Repository.create(storage, spec_version=spec)
        session = repository.writable_session("main")
        write_keys(session, {"zarr.json": group_document(), "a/zarr.json": array_document(2)})
        made = session.commit("x")
        key = f"snapshots/{made}"
        old = decode_snapshot(storage.get(key) or b"", key=key)
        bad = old.nodes[1].user_data.rstrip()[:-1] + f',"attributes":{attributes()}}}'.encode()
        nodes = (old.nodes[0], replace(old.nodes[1], user_data=bad))
        storage.put(key, encode_snapshot(replace(old, nodes=nodes), spec=spec))

        def work() -> None:
            session = Repository.open(storage).readonly_session("main")
            session.array("a")[:]

        return work

    return Case(make, "/a")


def _plain(spec: Spec, key: str, data: bytes, named: str) -> Case:
    def make() -> Work:
        def work() -> None:
            repository = Repository.open(with_plain())
            _ = repository.config
            use_quietly(repository)

        def with_plain() -> MemoryStorage:
            objects, _ = sample(spec)
            storage = MemoryStorage()
            for name, old in objects.items():
                storage.put(name, old)
            storage.put(key, data)
            return storage

        return work

    return Case(make, named)


def use_quietly(repository: Repository) -> None:
    """Ask for what refs and configuration tell."""
    repository.lookup_branch("main")
    repository.readonly_session("main")


# --- chunks ---


def document(
    shape: list[int], chunk: list[int], data_type: str, codecs: list[Any], fill: object = 0
) -> bytes:
    """A `zarr.json`."""
    return json.dumps(
        {
            "zarr_format": 3,
            "node_type": "array",
            "shape": shape,
            "data_type": data_type,
            "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": chunk}},
            "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
            "fill_value": fill,
            "codecs": codecs,
            "attributes": {},
        }
    ).encode()


def of_chunk(make_chunk: Callable[[], bytes], meta: bytes, *, door: str) -> Case:
    """A chunk read through one of the doors."""

    def make() -> Work:
        storage = MemoryStorage()
        repository = Repository.create(storage)
        session = repository.writable_session("main")
        keys = {"zarr.json": group_document(), "a/zarr.json": meta, "a/c/0": make_chunk()}
        write_keys(session, keys)
        session.commit("x")

        return partial(read_chunk, storage, door)

    return Case(make, "/a" if door in NAMING else "")


DOORS: Final = ("bulk", "zarr", "zarr-alone")
"""Through Frazil's own arrays, zarr's with our pipeline, and with the one zarr would have used."""
NAMING: Final = DOORS[:2]
"""What tells the array's name; zarr does not tell its codecs."""


def read_chunk(storage: MemoryStorage, door: str) -> None:
    """Read a few values of one chunk."""
    config.set(fast_zarr=door != "zarr-alone")
    session = Repository.open(storage).readonly_session("main")
    if door == "bulk":
        session.array("a")[:5]
    else:
        zarr.open_array(session.store, path="a", mode="r")[:5]


BYTES: Final[dict[str, Any]] = {"name": "bytes"}


def packer(name: str, **given: object) -> list[Any]:
    """Codecs with one compressor."""
    return [BYTES, {"name": name, "configuration": given}]


@cache
def inflated(size: int, wbits: int) -> bytes:
    """Zeros as gzip or zlib."""
    stream = zlib.compressobj(9, zlib.DEFLATED, wbits)
    return b"".join([*(stream.compress(bytes(1 << 20)) for _ in range(size >> 20)), stream.flush()])


@cache
def xz(size: int) -> bytes:
    """Zeros as xz."""
    stream = lzma.LZMACompressor(preset=1)
    return b"".join([*(stream.compress(bytes(1 << 20)) for _ in range(size >> 20)), stream.flush()])


@cache
def bz(size: int) -> bytes:
    """Zeros as bzip2."""
    stream = bz2.BZ2Compressor()
    return b"".join([*(stream.compress(bytes(1 << 20)) for _ in range(size >> 20)), stream.flush()])


BLOSC: Final = {"cname": "lz4", "clevel": 5, "shuffle": "noshuffle", "typesize": 1, "blocksize": 0}
XZ: Final = {"format": 1, "check": -1, "preset": 1, "filters": None}
CHUNKS: Final[dict[str, tuple[Callable[[], bytes], list[Any]]]] = {
    "zstd": (partial(zeros, 2 * GIB - 1), packer("zstd", level=0, checksum=False)),
    "zstd-undeclared": (
        partial(zeros, 2 * GIB - 1, declared=False),
        packer("zstd", level=0, checksum=False),
    ),
    "zstd-frames": (lambda: zeros(64 << 20) * 30, packer("zstd", level=0, checksum=False)),
    "imagecodecs-zstd": (partial(zeros, 2 * GIB - 1), packer("imagecodecs_zstd", level=None)),
    "gzip": (partial(inflated, GIB // 16, 31), packer("gzip", level=5)),
    "zlib": (partial(inflated, GIB // 16, 15), packer("numcodecs.zlib", level=1)),
    "bz2": (partial(bz, GIB // 64), packer("numcodecs.bz2", level=9)),
    "lzma": (partial(xz, GIB // 64), packer("numcodecs.lzma", **XZ)),
    "lz4": (
        lambda: struct.pack("<I", 0x7FFFFFFF) + b"\x1f" + b"\xff" * 100_000,
        packer("numcodecs.lz4", acceleration=1),
    ),
    "blosc": (
        lambda: struct.pack("<4B3I", 2, 1, 0x21, 1, 0x7FFFFFF0, 0x7FFFFFF0, 20) + bytes(4),
        packer("blosc", **BLOSC),
    ),
    "zstd-in-gzip": (
        lambda: zlib.compress(zeros(2 * GIB - 1), wbits=31),
        [*packer("zstd", level=0, checksum=False), {"name": "gzip", "configuration": {"level": 5}}],
    ),
}
PLAIN: Final = {"name": "zstd", "configuration": {"level": 0, "checksum": False}}
TEXTS: Final = [{"name": "vlen-utf8"}]


def chunk_cases() -> Iterator[tuple[str, Case]]:
    """Chunks, each through all doors."""
    for door in DOORS:
        of = partial(of_chunk, door=door)
        for name, (make_chunk, codecs) in CHUNKS.items():
            meta = document([1000], [1000], "uint8", codecs)
            yield f"chunk-{name}-{door}", of(make_chunk, meta)
        texts = document([10], [10], "string", TEXTS, "")
        packed = document([10], [10], "string", [*TEXTS, PLAIN], "")
        count = struct.pack("<I", 0x7FFFFFFF) + bytes(64)
        item = struct.pack("<II", 10, 0x7FFFFFFF) + b"x" * 100
        yield f"texts-count-{door}", of(partial(bytes, count), texts)
        yield f"texts-item-{door}", of(partial(bytes, item), texts)
        yield f"texts-zstd-{door}", of(partial(zeros, 2 * GIB - 1), packed)
        large = document([1 << 31], [1 << 31], "uint8", [BYTES, PLAIN])
        yield f"chunk-large-{door}", of(partial(zeros, 2 * GIB - 1), large)
        # Names of chunks of another form are read by zarr's own pipeline.
        other = json.loads(document([1000], [1000], "uint8", [BYTES, PLAIN]))
        other["chunk_key_encoding"]["configuration"]["separator"] = "."
        yield f"chunk-other-keys-{door}", _other_keys(json.dumps(other).encode(), door)


def _other_keys(meta: bytes, door: str) -> Case:
    def make() -> Work:
        storage = MemoryStorage()
        session = Repository.create(storage).writable_session("main")
        write_keys(session, {"zarr.json": group_document(), "a/zarr.json": meta})
        write_keys(session, {"a/c.0": zeros(2 * GIB - 1)})
        session.commit("x")

        return partial(read_chunk, storage, door)

    return Case(make, "/a" if door == "bulk" else "")


def virtual(length: int, shape: int, *, raw: bool) -> Case:
    """A reference to more bytes than a file has."""

    def make() -> Work:
        folder = tempfile.mkdtemp()
        Path(folder, "f.bin").write_bytes(b"x" * 100)
        prefix = f"file://{folder}/"
        container = VirtualChunkContainer(prefix, ObjectStoreConfig.LocalFileSystem(folder))
        config = RepositoryConfig(virtual_chunk_containers={prefix: container})
        repository = Repository.create(
            MemoryStorage(), config=config, authorize_virtual_chunk_access={prefix: None}
        )
        session = repository.writable_session("main")
        meta = document([shape], [shape], "uint8", [BYTES])
        write_keys(session, {"zarr.json": group_document(), "a/zarr.json": meta})
        session.store.set_virtual_ref("a/c/0", f"{prefix}f.bin", offset=0, length=length)

        def work() -> None:
            if raw:
                ref = session.state.chunk_ref(session.state.array("/a"), (0,))
                assert ref is not None
                session.state.context.read_chunk(ref)
            else:
                session.array("a")[:5]

        return work

    if raw or length <= shape:
        return Case(make, "f.bin", "StorageError")
    return Case(make, "/a")


# --- statistics beside a repository ---


def of_statistics(use_them: Callable[[Any, Any], object]) -> Case:
    """Many short files of many rows, which are passed over: nobody relies on them."""

    def make() -> Work:
        storage = MemoryStorage()
        for key, data in sample(2)[0].items():
            storage.put(key, data)
        state = Repository.open(storage).readonly_session("main").state
        decoding = decoding_of(state.array("/a"))
        assert decoding is not None
        rows = blank_rows(statistics.FILE_ROWS)
        rows["offset"] = np.arange(len(rows))
        blob = statistics.encode(decoding.id, rows)
        for number in range(40):
            storage.put(f"{statistics.PREFIX}{decoding.id.hex()}/{number:024x}", blob)
        return lambda: use_them(state, decoding)

    return Case(make, "", "done")


STATISTICS: Final[dict[str, Callable[[Any, Any], object]]] = {
    "lookup": lambda state, _: lookup(state, state.array("/a"), np.array([[0]])),
    "together": lambda state, decoding: statistics.put_together(state.context.place, decoding.id),
    "checksums": lambda state, _: statistics.read_checksums(state.context.place),
}


# --- older generations ---


def g3_lists(old: bytes) -> bytes:
    """A body of empty lists."""
    count = (30 << 20) - 5
    return in_envelope(partial(repeated, b"\x90", count))(old)


def g3_entries(old: bytes) -> bytes:
    """A manifest with one entry again and again."""
    at = old.find(ZSTD)
    body = zstandard.ZstdDecompressor().decompress(old[at:], max_output_size=1 << 24)
    reader = msgpack.Unpacker(strict_map_key=False, use_list=False)
    reader.feed(body)
    for _ in range(reader.read_array_header() - 1):
        reader.skip()
    head = body[: reader.tell()]
    reader.read_map_header()
    start = reader.tell()
    reader.skip()
    reader.skip()
    entry, count = body[start : reader.tell()], 400_000
    whole = head + b"\xdf" + count.to_bytes(4, "big") + entry * count
    return old[:at] + zstandard.ZstdCompressor(level=3).compress(whole)


def g1_rows(old: bytes) -> bytes:
    """One row of a Parquet file again and again."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pq.read_table(io.BytesIO(old))
    out = io.BytesIO()
    pq.write_table(table.take(pa.array(np.zeros(1_000_000, "i4"))), out, compression="zstd")
    return out.getvalue()


def g1_texts(old: bytes) -> bytes:
    """One long text in many rows of a Parquet file, stored once."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pq.read_table(io.BytesIO(old)).slice(0, 1)
    field = next(f for f in table.schema if pa.types.is_string(f.type))
    at = table.schema.get_field_index(field.name)
    long = table.set_column(at, field, pa.array(["x" * (4 << 20)], field.type))
    out = io.BytesIO()
    pq.write_table(pa.concat_tables([long] * 120), out, compression="zstd", use_dictionary=True)
    return out.getvalue()


def _cases() -> Iterator[tuple[str, Case]]:
    kinds = {
        "repo": (FileKind.REPO_INFO, (same_ref, same_snapshot)),
        "snapshots/": (FileKind.SNAPSHOT, (same_node, same_manifest, same_metadata)),
        "manifests/": (FileKind.MANIFEST, (same_reference,)),
        "transactions/": (FileKind.TRANSACTION_LOG, (same_id,)),
    }
    for spec in (1, 2):
        for prefix, (kind, builds) in kinds.items():
            if spec == 1 and prefix == "repo":
                continue
            name = f"v{spec}-{prefix.rstrip('/')}"
            for declared in (True, False):
                frame = partial(zeros, 2 * GIB - 1, declared=declared)
                told = "zeros" if declared else "zeros-undeclared"
                yield f"{name}-{told}", of_file(spec, prefix, in_envelope(frame))
            for build in builds:
                yield f"{name}-{build.__name__}", of_file(spec, prefix, flat(kind, build, spec))
        yield f"v{spec}-document-lists", in_document(spec, lambda: "[" + "[]," * 10_000_000 + "0]")
        yield f"v{spec}-document-deep", in_document(spec, lambda: "[" * 200_000)
    deep, long = b"[" * 200_000, b"a: [" + b"x," * 400_000 + b"x]"
    for name, piece in {"lists": b"[", "maps": b"{a: ", "dashes": b"- ", "keys": b"? "}.items():
        nested = piece * ((250 << 10) // len(piece))
        yield f"v1-config-deep-{name}", _plain(1, "config.yaml", nested, "config.yaml")
    yield "v1-config-long", _plain(1, "config.yaml", long, "config.yaml")
    longest = _plain(1, "config.yaml", long[: 250 << 10] + b"]", "")
    yield "v1-config-longest", replace(longest, error="done")
    yield "v1-config-anchors", _plain(1, "config.yaml", b"a: &a [x]\nb: [*a, *a]\n", "config.yaml")
    ref = "refs/branch.main/ref.json"
    yield "v1-ref-deep", _plain(1, ref, deep, ref)
    yield "v1-ref-long", _plain(1, ref, b'{"snapshot":"' + b"A" * (1 << 20) + b'"}', ref)
    yield "g1-state-deep", _plain("g1", "state.json", b'{"snapshots":' + deep, "state.json")
    yield "g1-structure-rows", of_file("g1", "s/", g1_rows)
    yield "g1-structure-texts", of_file("g1", "s/", g1_texts)
    yield "g1-inventory-rows", of_file("g1", "i/", g1_rows)
    yield "g1-inventory-texts", of_file("g1", "i/", g1_texts)
    yield "g2-snapshot-deep", of_file("g2", "s/", lambda _: b'{"nodes":' + deep)
    for prefix in ("snapshots/", "manifests/"):
        name = f"g3-{prefix.rstrip('/')}"
        yield f"{name}-zeros", of_file("g3", prefix, in_envelope(partial(zeros, 2 * GIB - 1)))
        yield f"{name}-lists", of_file("g3", prefix, g3_lists)
    yield "g3-manifests-entries", of_file("g3", "manifests/", g3_entries)
    yield from chunk_cases()
    for name, use_them in STATISTICS.items():
        yield f"statistics-{name}", of_statistics(use_them)
    yield "virtual-longer", virtual(1 << 40, 1000, raw=False)
    yield "virtual-as-told", virtual(3 << 30, 3 << 30, raw=False)
    yield "virtual-raw", virtual(1 << 40, 1000, raw=True)


CASES: Final = dict(_cases())
