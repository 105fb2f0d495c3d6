"""Sample contents for interop tests, written alike through any icechunk module.

Runs inside every peer environment, so it imports only numpy and zarr and takes the
icechunk module as an argument. Each sample writes into an open session's store.
"""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import zarr
from zarr.codecs import BloscCodec, BytesCodec, Crc32cCodec, GzipCodec, ZstdCodec
from zarr.core.buffer import cpu
from zarr.core.sync import sync

VIRTUAL_FILE: Final = "source.bin"
VIRTUAL_BYTES: Final = 64 * 1024
NUMBER_TYPES: Final = (
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "float32", "float64", "complex64", "complex128"),
)


def put(store: Any, key: str, data: bytes) -> None:
    """Set one key of a store to bytes, past zarr's own array machinery."""
    sync(store.set(key, cpu.Buffer.from_bytes(data)))


def write_groups(icechunk: Any, store: Any, data: Path) -> None:
    """Write nested groups with attributes, names that sort oddly, and an array at each depth."""
    root = zarr.create_group(
        store, attributes={"title": "nested", "deep": {"list": [1, 2.5, None, "x"], "flag": True}}
    )
    parent = root
    for depth, name in enumerate(("model", "surface", "daily mean", "données")):
        parent = parent.create_group(name, attributes={"depth": depth})
        array = parent.create_array(
            "t2m",
            shape=(6, 4),
            chunks=(4, 4),
            dtype="float32",
            dimension_names=["time", None],
            attributes={"units": "K"},
        )
        array[:] = np.arange(24, dtype="float32").reshape(6, 4) + depth
    # "a-b" sorts before "a/b" by bytes although "a" is the shorter path.
    for name in ("a", "a-b", "a.b", "a/b", "a0", "Z"):
        root.create_group(name)
    root.create_array("c", shape=(3,), chunks=(1,), dtype="int16")[:] = [1, 2, 3]


def write_dtypes(icechunk: Any, store: Any, data: Path) -> None:
    """Write one array for each data type and codec that zarr offers in all supported releases."""
    root = zarr.create_group(store)
    source = np.arange(-20, 20)
    for name in NUMBER_TYPES:
        array = root.create_array(name, shape=(40,), chunks=(16,), dtype=name)
        array[:] = source.astype(name)
    times = root.create_array("times", shape=(5,), chunks=(2,), dtype="datetime64[ns]")
    times[:] = np.array(["2024-05-01", "NaT", "1970-01-01", "1899-12-31", "2262-01-01"], "M8[ns]")
    words = np.array(["ice", "", "frazil ❄", "x" * 700])
    root.create_array("words", shape=(4,), chunks=(2,), dtype=str)[:] = words
    root.create_array("fixed", shape=(2,), chunks=(2,), dtype="<U5")[:] = np.array(["abc", "dé"])
    codecs: dict[str, dict[str, Any]] = {
        "raw": {"compressors": None},
        "big_endian": {"compressors": None, "serializer": BytesCodec(endian="big")},
        "gzip": {"compressors": GzipCodec(level=1)},
        "zstd": {"compressors": ZstdCodec(level=5, checksum=True)},
        "blosc": {"compressors": BloscCodec(cname="lz4", typesize=8)},
        "sharded": {"shards": (30, 20)},
        "not_a_number": {"fill_value": math.nan},
        "infinite": {"fill_value": -math.inf},
        "slashless": {"chunk_key_encoding": {"name": "default", "separator": "/"}},
    }
    for name, options in codecs.items():
        array = root.create_array(
            f"as/{name}", shape=(50, 33), chunks=(10, 10), dtype="f8", **options
        )
        array[:20] = np.arange(20 * 33, dtype="f8").reshape(20, 33)


def write_empty(icechunk: Any, store: Any, data: Path) -> None:
    """Write arrays with nothing inside: no extent, no dimension, no chunk."""
    root = zarr.create_group(store)
    root.create_array("no_extent", shape=(0,), chunks=(4,), dtype="i4")
    root.create_array("no_rows", shape=(0, 5), chunks=(2, 5), dtype="i4")
    root.create_array("no_columns", shape=(5, 0), chunks=(2, 1), dtype="i4")
    root.create_array("scalar", shape=(), dtype="f8")[()] = 1.5
    root.create_array("scalar_unset", shape=(), dtype="f8", fill_value=-1.0)
    root.create_array("never_written", shape=(10,), chunks=(3,), dtype="i4", fill_value=9)
    only_fill = root.create_array("only_fill", shape=(10,), chunks=(3,), dtype="i4", fill_value=9)
    only_fill[:] = 9
    root.create_group("empty_group")


def write_chunks(icechunk: Any, store: Any, data: Path) -> None:
    """Write inline, native, virtual and missing chunks, also mixed in one array."""
    root = zarr.create_group(store)
    noise = np.random.default_rng(7).integers(1, 1 << 30, size=(8, 256), dtype="int32")
    # 512 bytes is the last size that stays inline, 513 the first that does not.
    for size in (1, 511, 512, 513, 5000):
        array = root.create_array(
            f"bytes_{size}", shape=(2 * size,), chunks=(size,), dtype="uint8", compressors=None
        )
        array[:] = np.arange(2 * size).astype("uint8") | 1
    some = root.create_array("some", shape=(8, 256), chunks=(1, 256), dtype="int32")
    some[2] = noise[2]  # incompressible, native
    some[5] = 1  # compressible, inline
    mixed = root.create_array(
        "mixed", shape=(8, 256), chunks=(1, 256), dtype="int32", compressors=None
    )
    mixed[:4] = noise[:4]
    set_virtual(icechunk, store, "/mixed", [(5, 0), (7, 0)], data, 1024)
    virtual = root.create_array(
        "virtual", shape=(10, 8), chunks=(2, 4), dtype="int32", compressors=None
    )
    set_virtual(icechunk, store, "/virtual", list(np.ndindex(5, 2))[:-1], data, 32)
    assert (some.shape, virtual.shape) == ((8, 256), (10, 8))


def write_many_virtual(icechunk: Any, store: Any, data: Path) -> None:
    """Write enough virtual references for the location dictionary of spec v2."""
    root = zarr.create_group(store)
    root.create_array("many", shape=(1500,), chunks=(1,), dtype="int32", compressors=None)
    set_virtual(icechunk, store, "/many", [(i,) for i in range(1500)], data, 4)


def write_split(icechunk: Any, store: Any, data: Path) -> None:
    """Write arrays whose manifests the repository's configuration splits."""
    root = zarr.create_group(store)
    for name, names in (("plain", ["y", "x"]), ("named", ["time", "x"])):
        array = root.create_array(
            name, shape=(10, 7), chunks=(1, 1), dtype="int32", dimension_names=names
        )
        array[:] = np.arange(70).reshape(10, 7) + 1
    root.create_array("line", shape=(20,), chunks=(2,), dtype="int8")[3:15] = 5


def write_rectilinear(icechunk: Any, store: Any, data: Path) -> None:
    """Write an array with uneven chunks by its keys, since not every zarr release makes one."""
    zarr.create_group(store)
    grid = {
        "name": "rectilinear",
        "configuration": {"kind": "inline", "chunk_shapes": [[[2, 3], 4], [3]]},
    }
    metadata = {
        "zarr_format": 3,
        "node_type": "array",
        "shape": [10, 3],
        "data_type": "uint8",
        "chunk_grid": grid,
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
        "fill_value": 0,
        "codecs": [{"name": "bytes"}],
        "attributes": {"kind": "uneven"},
    }
    put(store, "uneven/zarr.json", json.dumps(metadata).encode())
    for row, height in enumerate((2, 2, 2, 4)):
        put(store, f"uneven/c/{row}/0", bytes(range(1, 3 * height + 1)))


def write_checked(icechunk: Any, store: Any, data: Path) -> None:
    """Write arrays whose chunks end in a CRC-32C, whole and in shards."""
    root = zarr.create_group(store)
    for name, codecs in (("raw", [Crc32cCodec()]), ("zstd", [ZstdCodec(), Crc32cCodec()])):
        array = root.create_array(
            name, shape=(600,), chunks=(200,), dtype="float32", compressors=codecs
        )
        array[:] = np.arange(600, dtype="float32")
    sharded = root.create_array(
        "shards", shape=(600,), chunks=(50,), shards=(300,), dtype="int32",
        compressors=[Crc32cCodec()],
    )  # fmt: skip
    sharded[:] = np.arange(600)


def write_compressible(icechunk: Any, store: Any, data: Path) -> None:
    """Write what packs better than nearly all that people have."""
    root = zarr.create_group(store)
    for number in range(40):
        history = "made by somebody, at some time; " * 1500
        root.create_group(f"g{number}", attributes={"history": history, "n": number})
    root.create_array("same", shape=(1000,), chunks=(1,), dtype="int32", compressors=None)
    set_virtual(icechunk, store, "/same", [(i,) for i in range(1000)], data, 4)
    inline = root.create_array(
        "inline", shape=(100 * 128,), chunks=(128,), dtype="int32", compressors=None
    )
    inline[:] = 7


SAMPLES: Final[dict[str, Callable[[Any, Any, Path], None]]] = {
    "groups": write_groups,
    "dtypes": write_dtypes,
    "empty": write_empty,
    "chunks": write_chunks,
    "many_virtual": write_many_virtual,
    "split": write_split,
    "rectilinear": write_rectilinear,
    "checked": write_checked,
    "compressible": write_compressible,
}


def write_sample(icechunk: Any, store: Any, name: str, data: Path) -> None:
    """Write one of the named samples into a session's store."""
    with warnings.catch_warnings():
        # Times and fixed text have no numbered specification yet; zarr says so each time.
        warnings.simplefilter("ignore")
        SAMPLES[name](icechunk, store, data)


def virtual_source(data: Path) -> Path:
    """Make the file that virtual references point into, the same bytes on every side."""
    path = data / VIRTUAL_FILE
    if not path.exists():
        content: npt.NDArray[np.uint8] = np.arange(VIRTUAL_BYTES).astype("uint8")
        path.write_bytes(content.tobytes())
    return path


def set_virtual(
    icechunk: Any, store: Any, array: str, where: list[tuple[int, ...]], data: Path, length: int
) -> None:
    """Point chunks of an array into the virtual source, each at its own offset.

    Every third one carries the time of the source as checksum.
    """
    source = virtual_source(data)
    # The stored time has whole seconds, so it must be the next full one.
    changed = datetime.fromtimestamp(math.ceil(source.stat().st_mtime), UTC)
    chunks = [
        icechunk.VirtualChunkSpec(
            index=[int(axis) for axis in index],
            location=source.as_uri(),
            offset=number * length,
            length=length,
            last_updated_at_checksum=changed if number % 3 == 0 else None,
        )
        for number, index in enumerate(where)
    ]
    failed = store.set_virtual_refs(array, chunks, validate_containers=True)
    if failed:
        raise ValueError(f"{array}: no container for {failed}")
