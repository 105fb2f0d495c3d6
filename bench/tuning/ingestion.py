"""Reading files that are taken in."""

from __future__ import annotations

from functools import cache, partial
from pathlib import Path

import eccodes
import numpy as np

from bench.tuning.storage import kept
from bench.tuning.sweep import KIB, Row, Work, folder
from frazil.ingestion.grib_messages import Window, messages


@cache
def grib(points: int, count: int) -> Path:
    """A file of so many messages."""
    made = Path(folder("grib"))
    with made.open("wb") as file:
        for number in range(count):
            handle = eccodes.codes_grib_new_from_samples("regular_ll_sfc_grib2")
            eccodes.codes_set(handle, "Ni", points)
            eccodes.codes_set(handle, "Nj", points)
            eccodes.codes_set_values(handle, np.arange(float(points**2)) % 997 + number)
            eccodes.codes_write(handle, file)
            eccodes.codes_release(handle)
    return made


def read_messages(points: int, count: int) -> Work:
    """The headers of all messages of a file."""
    path = grib(points, count)

    def work() -> None:
        with path.open("rb", 0) as file:

            def read(start: int, length: int) -> bytes:
                file.seek(start)
                return file.read(length)

            assert len([*messages(Window(read, path.stat().st_size), "grib")]) == count

    return work


def read_head(length: int) -> Work:
    """The first bytes of a file far away."""
    storage, keys = kept("far", 1024 * KIB, 1)
    return lambda: storage.get(keys[0], 0, length)


ROWS = [
    *(
        Row("ingestion.HEADER_BYTES", partial(read_head, n * KIB), (64 * KIB,), note=f"{n} KiB")
        for n in (8, 64, 512)
    ),
    *(
        Row("ingestion.GRIB_BLOCK", partial(read_messages, n, 500), note=f"{n}")
        for n in (20, 100, 400)
    ),
]
