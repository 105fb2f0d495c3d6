"""NetCDF 3 of all kinds and NetCDF 4, written and read by the library of NetCDF."""
# Arrays and options of other libraries have any type:
# ruff: noqa: ANN401

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import netCDF4
import numpy as np

from tests.support.odd.case import Case, Outcome, Values, nothing, ramp

CLASSIC = ("NETCDF3_CLASSIC", "NETCDF3_64BIT_OFFSET", "NETCDF3_64BIT_DATA", "NETCDF4_CLASSIC")
SHORT = ("i1", "i2", "i4", "f4", "f8")
WIDE = ("u1", "u2", "u4", "i8", "u8")


def write(kind: Any, put: Callable[[Any], None], folder: Path) -> Path:
    made = folder / "odd.nc"
    with netCDF4.Dataset(made, "w", format=kind) as file:
        file.createDimension("t", None)
        file.createDimension("x", 5)
        file.createDimension("n", 8)
        put(file)
    return made


def read(path: Path, group: str = "") -> Values:
    with netCDF4.Dataset(path) as file:
        file.set_auto_maskandscale(False)
        file.set_auto_chartostring(False)
        items = (file[group] if group else file).variables
        return {name: np.asarray(item[...]) for name, item in items.items()}


def fixed(dtype: str, file: Any) -> None:
    file.createVariable("v", dtype, ("x",))[:] = ramp((5,), dtype)


def records(dtypes: tuple[str, ...], file: Any) -> None:
    """Records of several variables take turns, each padded to four bytes."""
    for number, dtype in enumerate(dtypes):
        file.createVariable(f"v{number}", dtype, ("t", "x"))[:] = ramp((7, 5), dtype)


def scalar(dtype: str, file: Any) -> None:
    file.createVariable("v", "f4", ("x",))[:] = ramp((5,), "f4")
    crs = file.createVariable("crs", dtype, ())
    crs[...] = "x" if dtype == "S1" else 7
    crs.grid_mapping_name = "latitude_longitude"


def letters(file: Any) -> None:
    names = netCDF4.stringtochar(np.array(["Oslo", "Bergen", "Tromsoe", "", "A"], "S8"))
    file.createVariable("name", "S1", ("x", "n"))[:] = names
    value = file.createVariable("v", "f4", ("x",))
    value[:] = ramp((5,), "f4")
    value.coordinates = "name"


def no_records(file: Any) -> None:
    file.createVariable("v", "f4", ("t", "x"))
    file.createVariable("w", "f4", ("x",))[:] = ramp((5,), "f4")


def unwritten(file: Any) -> None:
    file.createVariable("v", "f4", ("x",))
    made = file.createVariable("w", "i2", ("t", "x"), fill_value=-9)
    made[3] = ramp((5,), "i2")


def packed(file: Any) -> None:
    made = file.createVariable("v", "i2", ("x",), fill_value=-999)
    made.set_auto_maskandscale(False)
    made.scale_factor, made.add_offset = 0.5, 10.0
    made[:] = [1, 2, -999, 4, 5]


def options(settings: dict[str, Any], file: Any) -> None:
    made = file.createVariable("v", "f4", ("t", "x"), chunksizes=(3, 2), **settings)
    made[:] = ramp((7, 5), "f4")


def texts(file: Any) -> None:
    made = file.createVariable("name", str, ("x",))
    made[:] = np.array(["a", "ä", "", "long text", "e"], object)


def of_group(file: Any) -> None:
    file.createVariable("v", "f4", ("x",))[:] = ramp((5,), "f4")
    file.createGroup("inner").createVariable("w", "f4", ("x",))[:] = 1


def records_of_types(file: Any) -> None:
    kind = file.createCompoundType(np.dtype([("u", "f4"), ("v", "i4")]), "pair")
    made = file.createVariable("v", kind, ("x",))
    made[:] = ramp((5,), np.dtype([("u", "f4"), ("v", "i4")]))


def ragged(file: Any) -> None:
    kind = file.createVLType(np.int32, "ragged")
    made = file.createVariable("v", kind, ("x",))
    for number in range(5):
        made[number] = np.arange(number + 1, dtype="i4")


def matrix(chunks: tuple[int, int], file: Any) -> None:
    """A dimension that is there twice, as in covariances and averaging kernels."""
    file.createDimension("day", None)
    file.createDimension("z", 6)
    file.createVariable("v", "f4", ("z", "z"), chunksizes=chunks)[:] = ramp((6, 6), "f4")
    made = file.createVariable("w", "f4", ("day", "z", "z"), chunksizes=(1, *chunks), zlib=True)
    made[:] = ramp((2, 6, 6), "f4")


def named_as_dimension(dims: tuple[str, ...], file: Any) -> None:
    """A variable that has the name of a dimension and is none of its labels."""
    file.createDimension("y", 2)
    shape = tuple(len(file.dimensions[dim]) for dim in dims)
    file.createVariable("x", "f4", dims)[...] = ramp(shape, "f4")
    file.createVariable("v", "f4", ("x",))[:] = ramp((5,), "f4")


def of_unequal_lengths(rows: int, settings: dict[str, Any], file: Any) -> None:
    """Variables along an unlimited dimension, one of which was written less often."""
    file.createVariable("v", "f4", ("t", "x"))[0:6] = ramp((6, 5), "f4")
    made = file.createVariable("w", "i2", ("t", "x"), **settings)
    made[0:rows] = ramp((rows, 5), "i2")


def few_labels(file: Any) -> None:
    file.createVariable("t", "f8", ("t",))[0:2] = [1, 2]
    file.createVariable("v", "f4", ("t", "x"))[0:6] = ramp((6, 5), "f4")


def few_texts(file: Any) -> None:
    """Texts along an unlimited dimension, of which others have more."""
    file.createVariable("v", "f4", ("t",))[0:6] = ramp((6,), "f4")
    made = file.createVariable("name", str, ("t",), fill_value="none")
    made[0:2] = np.array(["a", "ä"], object)


def cut(kind: str, folder: Path) -> Path:
    made = write(kind, partial(records, ("f4", "i2")), folder)
    made.write_bytes(made.read_bytes()[:-9])
    return made


def being_written(folder: Path) -> Path:
    made = write("NETCDF3_CLASSIC", partial(records, ("f4",)), folder)
    data = made.read_bytes()
    made.write_bytes(data[:4] + b"\xff\xff\xff\xff" + data[8:])
    return made


def same_name(folder: Path) -> Path:
    """Two variables of one name, which libraries cannot write."""

    def put(file: Any) -> None:
        for name in ("va", "vb"):
            file.createVariable(name, "i4", ("x",))[:] = ramp((5,), "i4")

    made = write("NETCDF3_CLASSIC", put, folder)
    data = made.read_bytes()
    assert data.count(b"\x02vb\0\0") == 1
    made.write_bytes(data.replace(b"\x02vb\0\0", b"\x02va\0\0"))
    return made


def _cases() -> Iterator[Case]:
    plain: list[tuple[str, Callable[[Any], None]]] = [
        *((f"fixed-{dtype}", partial(fixed, dtype)) for dtype in SHORT),
        ("scalar", partial(scalar, "i4")),
        ("scalar-letter", partial(scalar, "S1")),
        ("letters", letters),
        ("one-record", partial(records, ("i1",))),
        ("records", partial(records, ("i1", "f8", "i2"))),
        ("no-records", no_records),
        ("unwritten", unwritten),
        ("packed", packed),
    ]
    for kind in CLASSIC:
        for label, put in plain:
            yield Case(f"{kind.lower()}/{label}", partial(write, kind, put), read)
    for dtype in WIDE:
        for kind in ("NETCDF3_64BIT_DATA", "NETCDF4"):
            yield Case(f"{kind.lower()}/{dtype}", partial(write, kind, partial(fixed, dtype)), read)
    settings: tuple[tuple[str, dict[str, Any]], ...] = (
        ("zlib", {"zlib": True, "complevel": 9}),
        ("zlib-only", {"zlib": True, "shuffle": False}),
        ("fletcher", {"fletcher32": True}),
        ("big", {"endian": "big"}),
        ("quantized", {"zlib": True, "significant_digits": 3}),
        ("no-fill", {"fill_value": False}),
    )
    for label, given in settings:
        yield Case(f"netcdf4/{label}", partial(write, "NETCDF4", partial(options, given)), read)
    for label, put in (("texts", texts), ("group", of_group), ("pair", records_of_types)):
        yield Case(f"netcdf4/{label}", partial(write, "NETCDF4", put), read)
    for label, dims in (("field", ("y", "x")), ("scalar", ())):
        for kind in ("NETCDF4", "NETCDF3_CLASSIC"):
            made = partial(write, kind, partial(named_as_dimension, dims))
            yield Case(f"{kind.lower()}/{label}-named-as-dimension", made, read)
    for kind in ("NETCDF4", "NETCDF3_CLASSIC"):
        for label, rows, more in (
            ("shorter", 3, {}),
            ("shorter-filled", 3, {"fill_value": -7}),
            ("shorter-never", 0, {}),
        ):
            put = partial(of_unequal_lengths, rows, more)
            yield Case(f"{kind.lower()}/{label}", partial(write, kind, put), read)
        yield Case(f"{kind.lower()}/few-labels", partial(write, kind, few_labels), read)
    for chunks in ((6, 6), (3, 6), (6, 3), (2, 3)):
        put = partial(matrix, chunks)
        label = f"netcdf4/matrix-{chunks[0]}-{chunks[1]}"
        yield Case(label, partial(write, "NETCDF4", put), read)
    yield Case("netcdf4/shorter-texts", partial(write, "NETCDF4", few_texts), read)
    halves = partial(of_unequal_lengths, 3, {"chunksizes": (2, 5), "zlib": True})
    yield Case(
        "netcdf4/shorter-chunks",
        partial(write, "NETCDF4", halves),
        read,
        Outcome.COPIED,
        "shorter than",
    )
    unfilled = partial(of_unequal_lengths, 3, {"fill_value": False})
    yield Case(
        "netcdf4/shorter-unfilled",
        partial(write, "NETCDF4", unfilled),
        nothing,
        Outcome.REFUSED,
        "has the lengths",
    )
    yield Case("netcdf4/ragged", partial(write, "NETCDF4", ragged), nothing, Outcome.REFUSED, "'v'")
    for kind, told in (("NETCDF3_CLASSIC", "shorter than its header"), ("NETCDF4", "HDF5")):
        yield Case(f"{kind.lower()}/cut", partial(cut, kind), nothing, Outcome.REFUSED, told)
    yield Case(
        "netcdf3_classic/same-name", same_name, nothing, Outcome.REFUSED, "two variables are called"
    )
    yield Case(
        "netcdf3_classic/being-written", being_written, nothing, Outcome.REFUSED, "being written"
    )


NETCDF = tuple(_cases())
