"""GRIB of both editions: grids, packings and bitmaps, written and read by eccodes."""
# Arrays and options of other libraries have any type:
# ruff: noqa: ANN401

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import eccodes
import numpy as np

from tests.support.odd.case import Case, Outcome, Values, nothing

SIZE = (4, 6)
MISSING = 9999.0
REGULAR = {
    "Ni": SIZE[1],
    "Nj": SIZE[0],
    "latitudeOfFirstGridPointInDegrees": 60,
    "latitudeOfLastGridPointInDegrees": 30,
    "longitudeOfFirstGridPointInDegrees": 0,
    "longitudeOfLastGridPointInDegrees": 50,
    "iDirectionIncrementInDegrees": 10,
    "jDirectionIncrementInDegrees": 10,
}


def write(sample: str, settings: dict[str, Any], hours: tuple[int, ...], folder: Path) -> Path:
    each = [{**settings, "dataDate": 20240101, "dataTime": hour * 100} for hour in hours]
    return write_all(sample, each, folder)


def write_all(sample: str, messages: Sequence[dict[str, Any]], folder: Path) -> Path:
    made = folder / "odd.grib"
    with made.open("wb") as file:
        for number, settings in enumerate(messages):
            handle = eccodes.codes_grib_new_from_samples(sample)
            for key, value in settings.items():
                eccodes.codes_set(handle, key, value)
            count = eccodes.codes_get(handle, "numberOfDataPoints")
            if "Ni" in settings:
                count = settings["Ni"] * settings["Nj"]
            values = np.arange(float(count)) % 97 + 12 * number
            if settings.get("bitmapPresent"):
                eccodes.codes_set(handle, "missingValue", MISSING)
                values[::5] = MISSING
            eccodes.codes_set_values(handle, values)
            eccodes.codes_write(handle, file)
            eccodes.codes_release(handle)
    return made


def read(path: Path) -> Values:
    """All fields of the one variable, in the order of the file."""
    fields = []
    with path.open("rb") as file:
        while (handle := eccodes.codes_grib_new_from_file(file)) is not None:
            eccodes.codes_set(handle, "missingValue", MISSING)
            values = eccodes.codes_get_values(handle)
            if eccodes.codes_get(handle, "bitmapPresent"):
                values = np.where(values == MISSING, np.nan, values)
            name = eccodes.codes_get(handle, "cfVarName")
            shape = (eccodes.codes_get(handle, "Nj"), eccodes.codes_get(handle, "Ni"))
            fields.append(values.reshape(shape).astype("f4"))
            eccodes.codes_release(handle)
    return {name: np.stack(fields)}


def case(
    name: str, edition: int, settings: dict[str, Any], hours: tuple[int, ...] = (0, 12), **more: Any
) -> Case:
    sample = more.pop("sample", f"regular_ll_pl_grib{edition}")
    made = partial(write, sample, settings, hours)
    known = {"outcome": Outcome.COPIED, "told": "first edition"} if edition == 1 else {}
    truth = more.pop("truth", read)
    return Case(f"grib{edition}/{name}", made, truth, is_close=True, **{**known, **more})


def radar(folder: Path) -> Path:
    """Fields half a minute apart."""
    seconds = [{**REGULAR, "dataDate": 20240101, "dataTime": 230, "second": n} for n in (8, 38)]
    return write_all("regular_ll_pl_grib2", seconds, folder)


def read_radar(path: Path) -> Values:
    first = np.datetime64("2024-01-01T02:30:08", "s").astype(np.int64)
    return {**read(path), "time": np.array([first, first + 30])}


def marked(folder: Path) -> Path:
    """Values that are left out without a bitmap: the packing has a number for them."""
    settings = {**REGULAR, "bitmapPresent": 1, "packingType": "grid_complex"}
    return write("regular_ll_pl_grib2", settings, (0, 12), folder)


def read_marked(path: Path) -> Values:
    (name, fields), *_ = read(path).items()
    return {name: np.where(fields == np.float32(MISSING), np.nan, fields)}


def surfaces(folder: Path) -> Path:
    """Two surfaces that no table has, at two times."""
    common = {**REGULAR, "dataDate": 20240101, "shortName": "t"}
    fields = [{**common, "dataTime": 100 * n, "typeOfFirstFixedSurface": 211 + n} for n in range(2)]
    return write_all("regular_ll_pl_grib2", fields, folder)


def read_surfaces(path: Path) -> Values:
    ((_, fields),) = read(path).items()
    return {f"t_surface_{211 + n}": fields[n][None] for n in range(2)}


def empty_fields(packing: str, folder: Path) -> Path:
    """A field with some values, and one of the same packing with none."""
    made = folder / "odd.grib"
    with made.open("wb") as file:
        for hour, missing in ((0, slice(1, 3)), (12, slice(None))):
            handle = eccodes.codes_grib_new_from_samples("regular_ll_pl_grib2")
            settings = {**REGULAR, "dataDate": 20240101, "dataTime": hour * 100, "bitsPerValue": 12}
            for key, value in {**settings, "bitmapPresent": 1, "packingType": packing}.items():
                eccodes.codes_set(handle, key, value)
            eccodes.codes_set(handle, "missingValue", MISSING)
            # in steps of one, as an empty field has them
            values = 273.15 + np.linspace(0, (1 << 12) - 1, SIZE[0] * SIZE[1])
            values[missing] = MISSING
            eccodes.codes_set_values(handle, values)
            eccodes.codes_write(handle, file)
            eccodes.codes_release(handle)
    return made


def in_groups(
    packing: str, grid: dict[str, Any], fields: Sequence[Sequence[float]], folder: Path
) -> Path:
    """Fields of one packing that stores values in groups."""
    made = folder / "odd.grib"
    with made.open("wb") as file:
        for hour, field in enumerate(fields):
            handle = eccodes.codes_grib_new_from_samples("regular_ll_pl_grib2")
            settings = {**grid, "dataDate": 20240101, "dataTime": hour * 100, "bitsPerValue": 8}
            for key, value in settings.items():
                eccodes.codes_set(handle, key, value)
            eccodes.codes_set_values(handle, np.array(field) + 10)
            eccodes.codes_set(handle, "packingType", packing)
            if packing != "grid_complex":
                eccodes.codes_set(handle, "orderOfSpatialDifferencing", 1)
            eccodes.codes_set_values(handle, np.array(field) + 10)
            eccodes.codes_write(handle, file)
            eccodes.codes_release(handle)
    return made


def unnamed(folder: Path) -> Path:
    """Two parameters that no table has, at two times."""
    common = {**REGULAR, "dataDate": 20240101, "discipline": 0, "parameterCategory": 1}
    fields = [{**common, "dataTime": 100 * n, "parameterNumber": 200 + n} for n in (0, 6)]
    return write_all("regular_ll_pl_grib2", fields, folder)


def read_unnamed(path: Path) -> Values:
    ((_, fields),) = read(path).items()
    return {f"param_0_1_{200 + n}": fields[at][None] for at, n in enumerate((0, 6))}


def read_placed(path: Path) -> Values:
    """The fields, and where eccodes has their points."""
    with path.open("rb") as file:
        handle = eccodes.codes_grib_new_from_file(file)
        latitude, longitude = (
            eccodes.codes_get_array(handle, key).reshape(SIZE)
            for key in ("latitudes", "longitudes")
        )
        eccodes.codes_release(handle)
    return {**read(path), "latitude": latitude[:, 0], "longitude": longitude[0]}


def _cases() -> Iterator[Case]:
    for edition in (1, 2):
        yield case("plain", edition, REGULAR)
        yield case("one", edition, REGULAR, (6,))
        yield case("bitmap", edition, {**REGULAR, "bitmapPresent": 1})
        yield case("24-bits", edition, {**REGULAR, "bitsPerValue": 24})
        yield case("constant", edition, {**REGULAR, "bitsPerValue": 0})
        yield case(
            "upward",
            edition,
            {
                **REGULAR,
                "jScansPositively": 1,
                "latitudeOfFirstGridPointInDegrees": 30,
                "latitudeOfLastGridPointInDegrees": 60,
            },
            truth=read_placed,
        )
        yield case(
            "columns",
            edition,
            {**REGULAR, "jPointsAreConsecutive": 1},
            outcome=Outcome.REFUSED,
            told="jPointsAreConsecutive",
        )
        yield case(
            "westward",
            edition,
            {**REGULAR, "iScansNegatively": 1},
            outcome=Outcome.REFUSED,
            told="iScansNegatively",
        )
        across = {
            "longitudeOfFirstGridPointInDegrees": 350,
            "longitudeOfLastGridPointInDegrees": 40,
        }
        yield case("across-greenwich", edition, {**REGULAR, **across}, truth=read_placed)
        yield case("gaussian", edition, {}, sample=f"regular_gg_sfc_grib{edition}")
        yield case(
            "reduced",
            edition,
            {},
            sample=f"reduced_gg_sfc_grib{edition}",
            outcome=Outcome.REFUSED,
            told="reduced_gg",
        )
    for packing in ("grid_second_order", "grid_ieee"):
        yield case(f"{packing}", 1, {**REGULAR, "packingType": packing})
    for packing in ("grid_ccsds", "grid_ieee", "grid_complex", "grid_jpeg"):
        is_known = packing == "grid_jpeg"  # else gribberish decodes it otherwise, or not at all
        more: dict[str, Any] = {} if is_known else {"outcome": Outcome.COPIED, "told": "gribberish"}
        yield case(f"{packing}", 2, {**REGULAR, "packingType": packing}, **more)
    for label, tops in (("layers", (0, 7, 28)), ("one-layer", (7,))):
        yield Case(f"grib2/{label}", partial(soil, tops), read_soil, is_close=True)
    yield Case("grib2/seconds", radar, read_radar, is_close=True)
    yield Case("grib2/marked", marked, read_marked, Outcome.COPIED, "gribberish", is_close=True)
    for packing in ("grid_simple", "grid_jpeg"):
        empty = partial(empty_fields, packing)
        told = "it has no values"
        yield Case(
            f"grib2/empty-{packing}", empty, read_marked, Outcome.COPIED, told, is_close=True
        )
    yield from _groups()
    yield Case("grib2/surfaces", surfaces, read_surfaces, is_close=True)
    yield Case("grib2/unnamed", unnamed, read_unnamed, is_close=True)
    yield Case("grib2/cut", cut, nothing, Outcome.REFUSED, "cut off")
    yield Case("grib2/together", together, nothing, Outcome.REFUSED, "several fields")
    yield Case("grib2/twice", twice, nothing, Outcome.REFUSED, "same field")


def _groups() -> Iterator[Case]:
    differences = "grid_complex_spatial_differencing"
    ramp, halves = range(24), [0.0] * 12 + [1.0] * 12
    # gribberish decodes the first field right and the second wrong
    for packing, fields in (
        (differences, ([n % 2 for n in ramp], ramp)),
        ("grid_complex", (ramp, halves)),
    ):
        groups = partial(in_groups, packing, REGULAR, fields)
        told = "decodes some fields"
        yield Case(f"grib2/{packing}-later", groups, read, Outcome.COPIED, told, is_close=True)
    large = {
        **REGULAR,
        "Ni": 51,
        "Nj": 31,
        "iDirectionIncrementInDegrees": 1,
        "jDirectionIncrementInDegrees": 1,
    }
    rough = [n // 300 * (n * n * 7 % 97) for n in range(51 * 31)]
    uneven = partial(in_groups, differences, large, (rough, rough[::-1]))
    yield Case("grib2/differences", uneven, read, is_close=True)


def cut(folder: Path) -> Path:
    made = write("regular_ll_pl_grib2", REGULAR, (0, 12), folder)
    made.write_bytes(made.read_bytes()[:-10])
    return made


def together(folder: Path) -> Path:
    """Two fields in one message, as winds often are."""
    parts = eccodes.codes_grib_multi_new()
    for level in (500, 850):
        handle = eccodes.codes_grib_new_from_samples("regular_ll_pl_grib2")
        for key, value in {**REGULAR, "level": level}.items():
            eccodes.codes_set(handle, key, value)
        eccodes.codes_set_values(handle, np.arange(24.0) + level)
        eccodes.codes_grib_multi_append(handle, 4, parts)
        eccodes.codes_release(handle)
    with (folder / "odd.grib").open("wb") as file:
        eccodes.codes_grib_multi_write(parts, file)
    eccodes.codes_grib_multi_release(parts)
    return folder / "odd.grib"


def twice(folder: Path) -> Path:
    return write("regular_ll_pl_grib2", REGULAR, (6, 6), folder)


def soil(tops: tuple[int, ...], folder: Path) -> Path:
    """Layers that begin so many centimetres below the ground; GRIB tells metres."""
    field = {**REGULAR, "discipline": 2, "parameterCategory": 0, "parameterNumber": 2}
    surfaces = {"typeOfFirstFixedSurface": 106, "typeOfSecondFixedSurface": 106}
    scales = {"scaleFactorOfFirstFixedSurface": 2, "scaleFactorOfSecondFixedSurface": 2}
    ends = ("scaledValueOfFirstFixedSurface", "scaledValueOfSecondFixedSurface")
    layers = [
        field | surfaces | scales | dict(zip(ends, (top, top + 5), strict=True)) for top in tops
    ]
    return write_all("regular_ll_pl_grib2", layers, folder)


def read_soil(path: Path) -> Values:
    """The fields, and the depths as numbers with a fraction."""
    depths = []
    with path.open("rb") as file:
        while (handle := eccodes.codes_grib_new_from_file(file)) is not None:
            depths.append(eccodes.codes_get(handle, "level", float))
            eccodes.codes_release(handle)
    (name, fields), *_ = read(path).items()
    depth = np.array(depths) if len(depths) > 1 else np.array(depths[0])
    return {name: fields[None] if len(depths) > 1 else fields, "depthBelowLandLayer": depth}


GRIB = tuple(_cases())
