"""The arrays that are written and read, and the ways to put them into a store."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.model import Party, Place, Size
from bench.parties import ACCESS, REGION, create, pipeline

Floats = NDArray[np.float64]

CODECS = ("raw", "zstd", "blosc")


@dataclass(frozen=True)
class Layout:
    """An array of doubles: how many chunks, of what shape."""

    name: str
    grid: tuple[int, int]
    chunks: tuple[int, int]

    @cached_property
    def shape(self) -> tuple[int, int]:
        """The whole array."""
        return self.grid[0] * self.chunks[0], self.grid[1] * self.chunks[1]

    @property
    def count(self) -> int:
        """How many chunks there are."""
        return self.grid[0] * self.grid[1]

    @property
    def nbytes(self) -> int:
        """Bytes of all values."""
        return self.shape[0] * self.shape[1] * 8

    @property
    def title(self) -> str:
        """How it is called in tables."""
        return f"{self.count:,} x {self.name}"

    @property
    def key(self) -> str:
        """How it is called in keys."""
        return self.name.replace(" ", "")


def small(size: Size) -> Layout:
    """Chunks of 16 KiB."""
    return Layout("16 KiB", size.small_chunks, (64, 32))


def tiny(size: Size) -> Layout:
    """Chunks of 1 KiB."""
    return Layout("1 KiB", size.tiny_chunks, (8, 16))


def large(size: Size) -> Layout:
    """Chunks of 4 MiB."""
    return Layout("4 MiB", size.large_chunks, (512, 1024))


@lru_cache(maxsize=2)
def values(layout: Layout) -> Floats:
    """Smooth rows with noise, so that compression has something to do."""
    rows = np.linspace(0, 40, layout.shape[0])[:, None]
    noise = np.random.default_rng(7).integers(0, 50, layout.shape)
    made: Floats = np.round(rows + noise / 100, 2)
    return made


def same_values(layout: Layout, got: object) -> None:
    """Refuse a wrong answer."""
    if not np.array_equal(np.asarray(got), values(layout)):
        raise ValueError(f"the values of {layout.title} are wrong")


def compressor(codec: str) -> Any:
    """zarr's name of a codec."""
    from zarr.codecs import BloscCodec, ZstdCodec

    match codec:
        case "zstd":
            return ZstdCodec(level=3)
        case "blosc":
            return BloscCodec(cname="lz4", clevel=5, shuffle="shuffle", typesize=8)
        case _:
            return None


def declare(store: Any, layout: Layout, codec: str) -> Any:
    """Create the array `a`, which xarray can open too."""
    import zarr

    return zarr.open_group(store, mode="a").create_array(
        "a",
        shape=layout.shape,
        chunks=layout.chunks,
        dtype="f8",
        filters=None,
        compressors=compressor(codec),
        fill_value=-1.0,
        dimension_names=("y", "x"),
    )


def write_repository(
    party: Party, layout: Layout, codec: str, place: Place, *, packed: bool = False, spec: int = 2
) -> None:
    """A repository with the array; small chunks share objects if `packed`."""
    session = create(party, place, spec=spec).writable_session("main")
    with pipeline(party):
        array = declare(session.store, layout, codec)
    if party is Party.FRAZIL:
        from frazil.bulk import write_region

        write_region(session, "a", ..., values(layout), packing=packed)
    else:
        array[...] = values(layout)
    session.commit("written")


def write_plain(layout: Layout, codec: str, place: Place) -> None:
    """A plain zarr group without versions; tensorstore is the quickest to fill it."""
    declare(plain_store(place), layout, codec)
    tensor(place).write(values(layout)).result()


def plain_store(place: Place) -> Any:
    """zarr-python's own store for a place."""
    from zarr.storage import LocalStore, ObjectStore

    if place.is_local:
        return LocalStore(place.path)
    from obstore.store import S3Store

    options: dict[str, Any] = {
        "virtual_hosted_style_request": False,
        "client_options": {"allow_http": True},
        **ACCESS,
    }
    remote = S3Store(
        place.bucket,
        prefix=place.path,
        endpoint=place.endpoint,
        region=REGION,
        **options,
    )
    return ObjectStore(remote)


def tensor(place: Place) -> Any:
    """The array as tensorstore opens it."""
    import tensorstore

    if place.is_local:
        kvstore: dict[str, Any] = {"driver": "file", "path": f"{place.path}/a/"}
    else:
        kvstore = {
            "driver": "s3",
            "bucket": place.bucket,
            "path": f"{place.path}/a/",
            "endpoint": place.endpoint,
            "aws_region": REGION,
            "aws_credentials": {"type": "anonymous"},
        }
    return tensorstore.open({"driver": "zarr3", "kvstore": kvstore}, open=True).result()
