"""Cases: the same through the S3 protocol, as it is on loopback and 30 ms away."""

from __future__ import annotations

from functools import partial

from bench import arrays, reading, writing
from bench.arrays import same_values
from bench.model import Action, Case, Contestant, Dataset, Party, Place, Size, Target, Where
from bench.parties import pipeline
from bench.parties import reading as session_of
from bench.reading import BULK, PACKED, PEER, THROUGH_ZARR

KEYS = {Where.S3: "s3", Where.SLOW_S3: "slow-s3"}
THEMES = {
    Where.S3: "S3 protocol on loopback",
    Where.SLOW_S3: "S3 protocol, 30 ms away",
}


def _on_server(data: Dataset) -> Dataset:
    """The dataset under another name: shared by both distances, but not with the disk."""
    return Dataset(f"s3-{data.key}", data.party, data.prepare)


def _read(size: Size, where: Where, bounds: dict[str, tuple[float, float]]) -> Case:
    layout = arrays.small(size)
    single = _on_server(reading.repository(Party.FRAZIL, layout, "raw"))
    packed = _on_server(reading.repository(Party.FRAZIL, layout, "raw", packed=True))
    # The peers read what Frazil wrote: the same objects, and the server is slow to fill.
    plain = _on_server(reading.plain(layout, "raw"))
    zarr_alone = Contestant("zarr ObjectStore", Party.ZARR, reading.plain_zarr, plain)
    zarr = partial(reading.through_zarr, Party.FRAZIL)
    peer = partial(reading.through_zarr, Party.ICECHUNK2)
    return Case(
        key=f"{KEYS[where]}-read-16k",
        title=f"read {layout.title} raw",
        theme=THEMES[where],
        where=where,
        contestants=(
            Contestant(BULK, Party.FRAZIL, reading.in_bulk, single),
            Contestant(PACKED, Party.FRAZIL, reading.in_bulk, packed),
            Contestant(THROUGH_ZARR, Party.FRAZIL, zarr, single),
            Contestant(PEER, Party.ICECHUNK2, peer, single),
            # Far away it waits as long as the peer, for the same reason: one look is enough.
            *(() if where is Where.SLOW_S3 else (zarr_alone,)),
            Contestant("tensorstore", Party.TENSORSTORE, reading.with_tensorstore, plain),
        ),
        targets=tuple(
            Target(name, PEER, *bounds.get(name, ())) for name in (BULK, PACKED, THROUGH_ZARR)
        ),
        check=partial(same_values, layout),
        warm_up=False,
    )


def _write(size: Size, where: Where) -> Case:
    layout = arrays.small(size)
    packed, single = "frazil through zarr, packed", "frazil through zarr"
    work = partial(writing.through_zarr, Party.FRAZIL, layout, "raw", "none")
    peer = partial(writing.through_zarr, Party.ICECHUNK2, layout, "raw", "none", False)
    return Case(
        key=f"{KEYS[where]}-write-16k",
        title=f"write {layout.title} raw through zarr + commit",
        theme=THEMES[where],
        where=where,
        contestants=(
            Contestant(packed, Party.FRAZIL, partial(work, True)),
            Contestant(single, Party.FRAZIL, partial(work, False)),
            Contestant(PEER, Party.ICECHUNK2, peer),
            Contestant(
                "tensorstore", Party.TENSORSTORE, partial(writing.with_tensorstore, layout, "raw")
            ),
        ),
        targets=(Target(packed, PEER), Target(single, PEER)),
        warm_up=False,
    )


def _first_chunk(chunk: tuple[int, int], party: Party, place: Place, _: Place) -> Action:
    def work() -> None:
        import zarr

        with pipeline(party):
            array = zarr.open_array(session_of(party, place).store, path="a", mode="r")
        array[: chunk[0], : chunk[1]]

    return work


def _open(size: Size, where: Where) -> Case:
    """A process that starts far away: the repository, the array, one chunk."""
    layout = arrays.small(size)
    data = _on_server(reading.repository(Party.FRAZIL, layout, "raw"))
    make = partial(_first_chunk, layout.chunks)
    return Case(
        key=f"{KEYS[where]}-open",
        title="open, read one chunk",
        theme=THEMES[where],
        where=where,
        contestants=(
            Contestant("frazil", Party.FRAZIL, partial(make, Party.FRAZIL), data),
            Contestant(PEER, Party.ICECHUNK2, partial(make, Party.ICECHUNK2), data),
        ),
        targets=(Target("frazil", PEER, 1, 1.3),),
    )


def cases(size: Size) -> tuple[Case, ...]:
    """All cases of these themes."""
    return (
        _open(size, Where.S3),
        _read(size, Where.S3, {}),
        _write(size, Where.S3),
        _open(size, Where.SLOW_S3),
        _read(size, Where.SLOW_S3, {BULK: (1.2, 2), PACKED: (8, 15)}),
        _write(size, Where.SLOW_S3),
    )
