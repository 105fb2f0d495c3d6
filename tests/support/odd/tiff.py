"""TIFF: strips and tiles, compressions, types and orders, written and read by tifffile."""
# Arrays and options of other libraries have any type:
# ruff: noqa: ANN401

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import tifffile

from tests.support.odd.case import Case, Outcome, Values, nothing, ramp

TILE = {"tile": (16, 16)}
TYPES = ("u1", "i1", "<u2", "<i2", "<u4", "<i4", "<f4", "<f8", "<f2")
COMPRESSIONS = ("deflate", "lzw", "packbits", "zstd", "lzma", "webp", "jpeg", "jpeg2000")


def write(shape: tuple[int, ...], dtype: str, options: dict[str, Any], folder: Path) -> Path:
    made = folder / "odd.tif"
    more = dict(options)
    order = more.pop("byteorder", "<")
    big = more.pop("bigtiff", False)
    pages = more.pop("pages", 1)
    with tifffile.TiffWriter(made, byteorder=order, bigtiff=big) as file:
        for number in range(pages):
            file.write(ramp(shape, dtype) + number, **more)
    return made


def read(path: Path) -> Values:
    with tifffile.TiffFile(path) as file:
        page = file.pages[0]
        values = page.asarray()
        if page.axes.endswith("S"):
            values = np.moveaxis(values, -1, 0)
    return {"band_data": values}


def case(name: str, shape: tuple[int, ...], dtype: str, /, **options: Any) -> Case:
    told = {key: options.pop(key) for key in ("outcome", "told") if key in options}
    return Case(f"tiff/{name}", partial(write, shape, dtype, options), read, **told)


def sparse(folder: Path) -> Path:
    """A file with tiles that were never written."""
    made = folder / "odd.tif"
    empty = (None if number % 2 else ramp((16, 16), "u2") for number in range(6))
    tifffile.imwrite(made, empty, shape=(32, 48), dtype="u2", tile=(16, 16))
    return made


def sparse_described(tag: int, text: str, folder: Path) -> Path:
    """The same of a file with words of GDAL about missing pixels."""
    made = folder / "odd.tif"
    empty = (None if number % 2 else ramp((16, 16), "i2") for number in range(6))
    words = [(tag, "s", len(text) + 1, text, True)]
    tifffile.imwrite(made, empty, shape=(32, 48), dtype="i2", tile=(16, 16), extratags=words)
    return made


def read_sparse(empty: int, path: Path) -> Values:
    """Tiles that were never written are as GDAL reads them."""
    values = np.full((32, 48), empty, "i2")
    for row, column in ((0, 0), (0, 32), (16, 16)):
        values[row : row + 16, column : column + 16] = ramp((16, 16), "i2")
    assert np.array_equal(values[values != empty], read(path)["band_data"][values != empty])
    return {"band_data": values}


def small_steps(folder: Path) -> Path:
    """Differences that need more than a byte in the second row of tiles only, and few bytes."""
    made = folder / "odd.tif"
    values = np.zeros((48, 16), ">i2")
    values[16:32] = np.arange(16) * -300
    tifffile.imwrite(made, values, byteorder=">", tile=(16, 16), compression="deflate", predictor=2)
    return made


def placed(is_point: bool, folder: Path) -> Path:
    """An image whose tie point is the corner of a pixel, or its centre."""
    keys = (1, 1, 0, 1, 1025, 0, 1, 2 if is_point else 1)
    tags = [
        (33550, "d", 3, (2.0, 2.0, 0.0), True),
        (33922, "d", 6, (0, 0, 0, 100.0, 200.0, 0), True),
        (34735, "H", len(keys), keys, True),
    ]
    made = folder / "odd.tif"
    tifffile.imwrite(made, ramp((32, 48), "<u2"), tile=(16, 16), extratags=tags)
    return made


def read_placed(half: float, path: Path) -> Values:
    x, y = 100 + 2.0 * (np.arange(48) + half), 200 - 2.0 * (np.arange(32) + half)
    return {**read(path), "x": x, "y": y}


def reversed_bits(folder: Path) -> Path:
    """Bytes that are to be read from the other end, of which zeros show nothing."""
    made = folder / "odd.tif"
    values = np.zeros((48, 16), "u1")
    values[16:32] = ramp((16, 16), "u1")
    tifffile.imwrite(made, values, tile=(16, 16), extratags=[(65000, "H", 1, 2, True)])
    data = made.read_bytes()
    tag = b"\xe8\xfd\x03\x00\x01\x00\x00\x00\x02\x00"
    assert data.count(tag) == 1
    made.write_bytes(data.replace(tag, b"\x0a\x01" + tag[2:]))
    return made


def behind(folder: Path) -> Path:
    """Images that follow the first one and have no words of their own."""
    made = folder / "odd.tif"
    tifffile.imwrite(made, ramp((3, 32, 24), "<u2"), truncate=True)
    return made


def _cases() -> Iterator[Case]:
    for dtype in TYPES:
        yield case(f"tiles-{dtype}", (40, 40), dtype, **TILE)
        yield case(f"strips-{dtype}", (40, 24), dtype, rowsperstrip=8)
    short = {"outcome": Outcome.COPIED, "told": "strip"}
    for compression in (None, "deflate", "lzw", "zstd"):
        yield case(
            f"short-strip-{compression}",
            (20, 24),
            "<u2",
            rowsperstrip=7,
            compression=compression,
            **short,
        )
    for compression in COMPRESSIONS:
        dtype = "u1" if compression in ("webp", "jpeg", "jpeg2000") else "<u2"
        shape = (48, 48, 3) if compression in ("webp",) else (48, 48)
        more = {"photometric": "rgb"} if len(shape) == 3 else {}
        yield case(
            f"compression-{compression}", shape, dtype, compression=compression, **TILE, **more
        )
    for dtype, predictor in (("u1", 2), ("<u2", 2), ("<i4", 2), ("<f4", 3), ("<f8", 3)):
        yield case(
            f"predictor-{predictor}-{dtype}",
            (48, 48),
            dtype,
            compression="deflate",
            predictor=predictor,
            **TILE,
        )
    for order in "<>":
        for big in (False, True):
            yield case(
                f"order-{order}-{'big' if big else 'small'}",
                (32, 32),
                f"{order}u2",
                byteorder=order,
                bigtiff=big,
                **TILE,
            )
    yield case("order->-deflate", (32, 32), ">f4", byteorder=">", compression="deflate", **TILE)
    rgb = {"photometric": "rgb"}
    yield case("rgb", (32, 32, 3), "u1", **TILE, **rgb)
    yield case("rgb-16-bits", (32, 32, 3), "<u2", compression="deflate", **TILE, **rgb)
    yield case(
        "rgb-predictor", (32, 32, 3), "u1", compression="deflate", predictor=2, **TILE, **rgb
    )
    yield case("planes", (3, 32, 32), "u1", planarconfig="separate", **TILE, **rgb)
    yield case("strips-rgb", (32, 32, 3), "u1", rowsperstrip=8, **rgb)
    yield case("bits", (32, 32), "?", rowsperstrip=8, outcome=Outcome.COPIED)
    yield case("pages", (32, 32), "<u2", pages=3, **TILE)
    yield case("one-pixel", (1, 1), "<u2")
    yield case("one-strip", (33, 21), "<f4")
    yield case("complex", (32, 32), "<c8", **TILE)
    yield Case("tiff/sparse", sparse, read)
    described = '<GDALMetadata><Item name="_FillValue">-7</Item></GDALMetadata>'
    for label, tag, text, empty in (
        ("nodata", 42113, "-9999", -9999),
        ("fill-in-metadata", 42112, described, 0),
    ):
        made = partial(sparse_described, tag, text)
        yield Case(f"tiff/sparse-{label}", made, partial(read_sparse, empty))
    yield Case("tiff/small-steps", small_steps, read, Outcome.COPIED, "differences")
    yield Case("tiff/by-corner", partial(placed, False), partial(read_placed, 0.5))
    yield Case("tiff/by-centre", partial(placed, True), partial(read_placed, 0.0))
    yield Case("tiff/reversed-bits", reversed_bits, read, Outcome.COPIED, "reverse order")
    yield Case("tiff/behind", behind, read)
    colours = {"compression": "jpeg", "outcome": Outcome.COPIED, "told": "YCbCr"}
    yield case("jpeg-rgb", (48, 48, 3), "u1", **colours, **TILE, **rgb)
    yield Case("tiff/cut", cut, nothing, Outcome.REFUSED, "TIFF")


def cut(folder: Path) -> Path:
    made = write((32, 32), "<u2", dict(TILE), folder)
    made.write_bytes(made.read_bytes()[:60])
    return made


TIFF = tuple(_cases())
