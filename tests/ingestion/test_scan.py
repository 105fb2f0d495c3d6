"""Small files of every format: what xarray reads of the repository is what is in them."""
# Options of other libraries have any type:
# ruff: noqa: ANN401

from __future__ import annotations

import json
import struct
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import eccodes
import h5py
import netCDF4
import numcodecs
import numpy as np
import pytest
import tifffile
import xarray as xr
import zarr

from frazil.errors import InvalidInputError
from frazil.ingestion.fetching import fetch_values
from frazil.ingestion.grib_messages import Window, messages
from frazil.ingestion.isolation import ParserLimits
from frazil.ingestion.plans import TransferKind
from frazil.ingestion.records import FileScan, ScanTask
from frazil.ingestion.scan import scan, scan_file
from frazil.ingestion.sources import as_url
from frazil.ingestion.tuning import GRIB_BLOCK
from tests.support.archive import archive, as_kerchunk, decoded, part, seen, take
from tests.support.odd import kerchunk

COUNT = 3


def netcdf4(folder: Path) -> None:
    archive(folder, COUNT)


def contiguous(folder: Path) -> None:
    for number in range(COUNT):
        part(number).to_netcdf(folder / f"{number}.nc", engine="h5netcdf")


def by_the_c_library(folder: Path) -> None:
    for number in range(COUNT):
        settings: dict[str, Any] = {"t2m": {"zlib": True, "fletcher32": True}}
        part(number).to_netcdf(folder / f"{number}.nc", engine="netcdf4", encoding=settings)


def classic(folder: Path) -> None:
    for number in range(COUNT):
        part(number).to_netcdf(folder / f"{number}.nc", format="NETCDF3_CLASSIC", engine="netcdf4")


def classic_records(folder: Path) -> None:
    for number in range(COUNT):
        part(number).to_netcdf(
            folder / f"{number}.nc",
            format="NETCDF3_64BIT",
            engine="netcdf4",
            unlimited_dims=["time"],
        )


def classic_wide(folder: Path) -> None:
    for number in range(COUNT):
        part(number).to_netcdf(  # type: ignore[call-overload]  # it knows one format more
            folder / f"{number}.nc", format="NETCDF3_64BIT_DATA", engine="netcdf4"
        )


def as_zarr(folder: Path, **options: Any) -> None:
    for number in range(COUNT):
        whole = part(number).chunk(time=2, lat=3, lon=5)
        whole.to_zarr(folder / f"{number}.zarr", consolidated=False, **options)


def zarr_2(folder: Path) -> None:
    as_zarr(folder, zarr_format=2)


def zarr_3(folder: Path) -> None:
    as_zarr(folder, zarr_format=3)


def kerchunk_json(folder: Path) -> None:
    for number, file in enumerate(archive(folder.with_name("sources"), COUNT)):
        (folder / f"{number}.json").write_text(json.dumps(as_kerchunk(file)))


def kerchunk_parquet(folder: Path) -> None:
    from kerchunk.df import refs_to_dataframe

    for number, file in enumerate(archive(folder.with_name("sources"), COUNT)):
        refs_to_dataframe(as_kerchunk(file), str(folder / f"{number}.parq"), record_size=3)


FORMATS: tuple[Callable[[Path], None], ...] = (
    netcdf4,
    contiguous,
    by_the_c_library,
    classic,
    classic_records,
    classic_wide,
    zarr_2,
    zarr_3,
    kerchunk_json,
    kerchunk_parquet,
)


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
@pytest.mark.filterwarnings("ignore:Numcodecs codecs:UserWarning")
@pytest.mark.parametrize("mode", ["virtual", "native"])
@pytest.mark.parametrize("write", FORMATS, ids=lambda write: write.__name__)
def test_every_format_reads_as_what_was_written(
    tmp_path: Path, write: Callable[[Path], None], mode: str
) -> None:
    folder = tmp_path / "files"
    folder.mkdir()
    write(folder)
    allow = (str(tmp_path / "sources"),)
    report = take(tmp_path / "repo", f"{folder}/*", wanted={"mode": mode}, allow=allow)
    kinds = {array.name: array.kind for array in report.arrays}
    wanted = TransferKind.VIRTUAL if mode == "virtual" else TransferKind.NATIVE
    assert kinds == {
        "t2m": wanted,
        "rain": wanted,
        "mask": wanted,
        "time": TransferKind.LOADED,
        "lat": TransferKind.LOADED,
        "lon": TransferKind.LOADED,
    }
    found = seen(tmp_path / "repo")
    xr.testing.assert_equal(found, decoded(*range(COUNT)))
    assert found.t2m.attrs["units"] == "K"
    assert found.attrs["title"] == "weather"


# --- HDF5 in detail ---


def test_types_of_hdf5_that_zarr_has(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["big"] = np.arange(6, dtype=">f4").reshape(2, 3)
        file["flag"] = np.array([True, False])
        file["text"] = np.array([b"abc", b"de"])
        file.create_dataset("names", data=["ä", "long name"], dtype=h5py.string_dtype())
        file["scalar"] = 5
        file.create_dataset("empty", shape=(4,), dtype="i4", chunks=(2,), fillvalue=7)
        file["big"].attrs["list"] = [1.5, 2.5]
        file["big"].attrs["bytes"] = np.bytes_(b"text")
        file["big"].attrs["none"] = h5py.Empty("f4")
    take(tmp_path / "repo", tmp_path / "a.h5")
    found = seen(tmp_path / "repo")
    assert found.big.values.tolist() == [[0, 1, 2], [3, 4, 5]]
    assert found.big.attrs == {"list": [1.5, 2.5], "bytes": "text", "none": ""}
    assert found.names.values.tolist() == ["ä", "long name"]
    assert found.text.values.tolist() == [b"abc", b"de"]
    assert found["empty"].values.tolist() == [7, 7, 7, 7]
    assert int(found.scalar) == 5


def test_groups_are_chosen_by_name(tmp_path: Path) -> None:
    part(0).to_netcdf(tmp_path / "a.nc", group="inner", engine="h5netcdf")
    with pytest.raises(InvalidInputError, match="inner"):
        take(tmp_path / "repo", tmp_path / "a.nc")
    take(tmp_path / "repo", tmp_path / "a.nc", source_group="inner", group="weather/raw")
    xr.testing.assert_equal(seen(tmp_path / "repo", "weather/raw"), decoded(0))


def test_dimensions_of_groups_around_a_group_keep_names_and_lengths(tmp_path: Path) -> None:
    file = tmp_path / "odd.nc"
    with netCDF4.Dataset(file, "w") as made:
        made.createDimension("time", None)
        made.createDimension("x", 3)
        made.createVariable("time", "f8", ("time",))[:] = np.arange(6.0)
        # as the beginning of "time"
        inner = made.createGroup("t").createVariable("v", "f4", ("time", "x"), fill_value=-5)
        inner[0:4] = np.ones((4, 3))
    repo = tmp_path / "repo"
    take(repo, file, source_group="t")
    with xr.open_dataset(file, group="t", engine="netcdf4") as truth:
        xr.testing.assert_identical(seen(repo)["v"], truth["v"].load())


@pytest.mark.parametrize("engine", ["netcdf4", "netcdf3", "hdf5"])
@pytest.mark.parametrize("fill", [70000.0, np.nan, -2.5])
def test_fill_values_that_a_type_cannot_hold_mask_nothing(
    tmp_path: Path, engine: str, fill: float
) -> None:
    file = tmp_path / "odd.nc"
    values = np.array([0, -2, 4464, 1], "i2")  # what the fill values would be cast to
    if engine == "netcdf3":
        with netCDF4.Dataset(file, "w", format="NETCDF3_CLASSIC") as classic:
            classic.createDimension("x", 4)
            variable = classic.createVariable("v", "i2", ("x",), fill_value=-9)
            variable[:] = values
        raw = file.read_bytes()  # the library refuses to write an attribute of another type
        old = b"_FillValue\0\0" + struct.pack(">iihxx", 3, 1, -9)
        assert raw.count(old) == 1
        shift = len(struct.pack(">iid", 6, 1, fill)) - len(struct.pack(">iihxx", 3, 1, -9))
        raw = raw.replace(old, b"_FillValue\0\0" + struct.pack(">iid", 6, 1, fill))
        begin = len(raw) - 8
        raw = raw[: begin - 4] + struct.pack(">i", begin) + raw[begin:]
        assert shift == 4
        file.write_bytes(raw)
    else:
        with h5py.File(file, "w") as made:
            made["v"] = values
            made["v"].attrs["_FillValue"] = np.float64(fill)
    for mode in ("virtual", "native"):
        repo = tmp_path / mode
        report = take(repo, file, wanted={"mode": mode})
        assert np.array_equal(seen(repo)["v"].values, values)
        assert "cannot hold" in str(report)


@pytest.mark.parametrize("nodata", ["-9999", "nan", "300", "1e40", "none"])
def test_pixels_are_not_masked_by_a_value_they_cannot_have(tmp_path: Path, nodata: str) -> None:
    values = np.arange(20 * 24, dtype="u1").reshape(20, 24)
    file = tmp_path / "odd.tif"
    tifffile.imwrite(file, values, rowsperstrip=7, extratags=[(42113, "s", 0, nodata, True)])
    repo = tmp_path / "repo"
    report = take(repo, file, wanted={"mode": "native"})
    assert np.array_equal(seen(repo)["band_data"].values, values)
    assert "no data" in str(report)


def test_pixels_without_data_are_masked(tmp_path: Path) -> None:
    values = np.arange(20 * 24, dtype="f4").reshape(20, 24)
    values[3, 4] = np.float32("-3.4e38")
    file = tmp_path / "odd.tif"
    tifffile.imwrite(file, values, rowsperstrip=7, extratags=[(42113, "s", 0, "-3.4e38", True)])
    repo = tmp_path / "repo"
    take(repo, file, wanted={"mode": "native"})
    found = seen(repo)["band_data"].values
    assert np.isnan(found[3, 4])
    assert np.isnan(found).sum() == 1
    assert found[0, 0] == 0


def test_a_chunk_that_is_cut_off_is_not_filled_with_whatever_is_in_memory(tmp_path: Path) -> None:
    store = tmp_path / "odd.zarr"
    group = zarr.open_group(store, mode="w", zarr_format=2)
    made = group.create_array(
        "v", shape=(6,), chunks=(6,), dtype="<i8", compressors=numcodecs.Blosc("lz4")
    )
    made[...] = np.arange(6)
    chunk = store / "v" / "0"
    whole = chunk.read_bytes()
    for length in range(17, len(whole)):
        chunk.write_bytes(whole[:length])
        found = scan_file(ScanTask(as_url(store)), {})
        assert isinstance(found, FileScan)
        with pytest.raises(InvalidInputError, match=r"a chunk of 'v' cannot be decoded.*odd\.zarr"):
            fetch_values(found["v"], (), {})


def test_chunks_that_skipped_a_filter_are_refused(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        made = file.create_dataset("v", shape=(4,), chunks=(2,), dtype="i4", compression="gzip")
        made[:2] = [1, 2]
        made.id.write_direct_chunk((2,), np.array([3, 4], "<i4").tobytes(), filter_mask=1)
    with pytest.raises(InvalidInputError, match="skipped a filter"):
        take(tmp_path / "repo", tmp_path / "a.h5")


def test_damaged_files_are_told(tmp_path: Path) -> None:
    whole = archive(tmp_path, 1)[0].read_bytes()
    (tmp_path / "cut.nc").write_bytes(whole[: len(whole) // 3])
    found = scan({}, ParserLimits(), ScanTask(as_url(tmp_path / "cut.nc")))
    assert not isinstance(found, FileScan)
    assert "not a readable HDF5 file" in found.error  # type: ignore[union-attr]
    with pytest.raises(InvalidInputError, match="header"):
        scan_file(ScanTask(as_url(tmp_path / "cut.nc"), format="netcdf3"), {})


# --- NetCDF 3 in detail ---


def test_damaged_headers_of_netcdf3_are_told(tmp_path: Path) -> None:
    part(0).to_netcdf(tmp_path / "a.nc", format="NETCDF3_CLASSIC", engine="netcdf4")
    whole = (tmp_path / "a.nc").read_bytes()
    file = tmp_path / "b.nc"
    for size in (5, 40, 100, 300, len(whole) - 8):
        file.write_bytes(whole[:size])
        with pytest.raises(InvalidInputError):
            scan_file(ScanTask(as_url(file)), {})
    file.write_bytes(whole[:8] + b"\xff\xff\xff\xff" + whole[12:])
    with pytest.raises(InvalidInputError, match="damaged"):
        scan_file(ScanTask(as_url(file)), {})


def test_one_record_variable_is_not_padded(tmp_path: Path) -> None:
    values = np.arange(9, dtype="i1").reshape(3, 3)
    whole = xr.Dataset({"v": (("time", "x"), values)})
    whole.to_netcdf(
        tmp_path / "a.nc", format="NETCDF3_CLASSIC", engine="netcdf4", unlimited_dims=["time"]
    )
    take(tmp_path / "repo", tmp_path / "a.nc")
    assert seen(tmp_path / "repo").v.values.tolist() == values.tolist()


# --- kerchunk in detail ---


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("{", "not valid JSON"),
        ('{"a": 1}', "no kerchunk references"),
        ('{"version": 1, "gen": [1], "refs": {"v/.zarray": "{}"}}', "gen"),
        (
            '{"refs": {"v/.zarray": {"shape": [2], "chunks": [1], "dtype": "<i4"},'
            ' "v/7": ["file:///a", 0, 4]}}',
            "outside its array",
        ),
        ('{"refs": {"v/.zarray": "{}"}}', "damaged"),
        ('{"refs": {"v/.zarray": "base64:e30="}}', "'v/.zarray' are not valid JSON"),
        ('{"refs": {"zarr.json": "{}", "v/zarr.json": "{}"}}', "Zarr 3, which is not supported"),
        (
            '{"refs": {"g/v/.zarray": {"shape": [1], "chunks": [1], "dtype": "<i4"}}}',
            r"choose one of its groups \(g\)",
        ),
    ],
)
def test_references_that_are_none_are_told(tmp_path: Path, content: str, told: str) -> None:
    (tmp_path / "a.json").write_text(content)
    with pytest.raises(InvalidInputError, match=told):
        scan_file(ScanTask(as_url(tmp_path / "a.json")), {})


def test_a_damaged_chunk_inside_the_references_is_told_by_their_file(tmp_path: Path) -> None:
    file = kerchunk.write({"v/0": "abc", "v/1": "abc"}, tmp_path)
    told = rf"a chunk of 'v' cannot be decoded.*{file.name}"
    with pytest.raises(InvalidInputError, match=told):
        take(tmp_path / "repo", file, wanted={"mode": "native"})


def test_references_may_be_relative_and_use_templates(tmp_path: Path) -> None:
    refs = {"v/0": ["{{u}}", 0, 16], "v/1": ["others/data.bin", 16, 16]}
    file = kerchunk.write(refs, tmp_path, templates={"u": "others/data.bin"})
    report = take(tmp_path / "repo", file, allow=(str(tmp_path),))
    assert report.containers == (f"file://{tmp_path}/others/",)
    assert seen(tmp_path / "repo").v.values.tolist() == kerchunk.VALUES.tolist()


@pytest.mark.parametrize("kind", ["hdf5", "kerchunk"])
def test_a_huge_array_in_a_small_file_is_not_copied(tmp_path: Path, kind: str) -> None:
    file = tmp_path / f"huge.{kind}"
    if kind == "hdf5":
        with h5py.File(file, "w") as made:
            made.create_dataset("v", shape=(1 << 30, 1 << 30), dtype="f4")
    else:
        array = {"zarr_format": 2, "shape": [1 << 40] * 2, "chunks": [1 << 40] * 2, "dtype": "|u1",
                 "compressor": None, "fill_value": 0, "filters": None, "order": "C"}  # fmt: skip
        refs = {".zgroup": '{"zarr_format": 2}', "v/.zarray": json.dumps(array), "v/0.0": "x"}
        file.write_text(json.dumps({"version": 1, "refs": refs}))
    with pytest.raises(InvalidInputError, match=r"v: a copy would have .* \[.*huge") as refusal:
        take(tmp_path / "copy", file, wanted={"mode": "native"})
    assert "max_expansion" in str(refusal.value)
    assert take(tmp_path / "repo", file).status == "committed"


# --- TIFF ---


def image(path: Path, number: int, **options: Any) -> np.ndarray[Any, Any]:
    values = (np.arange(64 * 48).reshape(64, 48) + 1000 * number).astype("u2")
    place = (0.0, 0.0, 0.0, 500.0 + 480 * number, 1000.0, 0.0)
    tags = [(33550, "d", 3, (10.0, 10.0, 0.0), True), (33922, "d", 6, place, True)]
    tifffile.imwrite(path, values, tile=(16, 16), extratags=tags, **options)
    return values


@pytest.mark.parametrize("mode", ["virtual", "native"])
@pytest.mark.parametrize("options", [{}, {"compression": "deflate"}], ids=["raw", "deflate"])
def test_images_lie_where_their_tags_say(
    tmp_path: Path, options: dict[str, Any], mode: str
) -> None:
    parts = [image(tmp_path / f"{number}.tif", number, **options) for number in range(2)]
    take(tmp_path / "repo", f"{tmp_path}/*.tif", wanted={"mode": mode})
    found = seen(tmp_path / "repo").band_data
    assert np.array_equal(found.values, np.concatenate(parts, axis=1))
    assert found.x.values[[0, -1]].tolist() == [505.0, 1455.0]
    assert found.y.values[[0, -1]].tolist() == [995.0, 365.0]


def test_images_are_stacked_along_a_new_dimension(tmp_path: Path) -> None:
    for number in range(3):
        tifffile.imwrite(tmp_path / f"{number}.tif", np.full((32, 32), number, "f4"), tile=(16, 16))
    take(tmp_path / "repo", f"{tmp_path}/*.tif", wanted={"concat_dims": ("day",)})
    found = seen(tmp_path / "repo").band_data
    assert found.dims == ("day", "y", "x")
    assert found.values[:, 0, 0].tolist() == [0, 1, 2]


# --- GRIB ---


def message(file: Any, hour: int, level: int, edition: int, size: tuple[int, int]) -> None:
    handle = eccodes.codes_grib_new_from_samples(f"regular_ll_pl_grib{edition}")
    settings = {
        "shortName": "t",
        "dataDate": 20240101,
        "dataTime": hour * 100,
        "typeOfLevel": "isobaricInhPa",
        "level": level,
        "Ni": size[1],
        "Nj": size[0],
        "latitudeOfFirstGridPointInDegrees": 60,
        "latitudeOfLastGridPointInDegrees": 30,
        "longitudeOfFirstGridPointInDegrees": 0,
        "longitudeOfLastGridPointInDegrees": 50,
        "iDirectionIncrementInDegrees": 50 / (size[1] - 1),
        "jDirectionIncrementInDegrees": 30 / (size[0] - 1),
        "bitsPerValue": 16,
    }
    for key, value in settings.items():
        eccodes.codes_set(handle, key, value)
    eccodes.codes_set_values(handle, np.arange(float(size[0] * size[1])) + hour + level / 1000)
    eccodes.codes_write(handle, file)
    eccodes.codes_release(handle)


def fields(
    path: Path, hours: tuple[int, ...], edition: int = 2, size: tuple[int, int] = (4, 6)
) -> None:
    with path.open("wb") as file:
        for hour in hours:
            for level in (1000, 850):
                message(file, hour, level, edition, size)


@pytest.mark.parametrize("mode", ["virtual", "native"])
def test_grib_is_an_array_over_time_and_level(tmp_path: Path, mode: str) -> None:
    fields(tmp_path / "a.grib2", (0, 12))
    fields(tmp_path / "b.grib2", (18, 23))
    report = take(tmp_path / "repo", f"{tmp_path}/*.grib2", wanted={"mode": mode})
    assert (report.virtual_chunks, report.native_chunks) == (
        (8, 0) if mode == "virtual" else (0, 8)
    )
    found = seen(tmp_path / "repo")
    assert found.t.dims == ("time", "isobaricInhPa", "latitude", "longitude")
    assert found.time.values[2] == np.datetime64("2024-01-01T18")
    assert found.latitude.values.tolist() == [60, 50, 40, 30]
    expected = np.arange(24.0).reshape(4, 6) + 18 + 0.85
    picked = found.t.sel(time="2024-01-01T18", isobaricInhPa=850)
    assert np.allclose(picked.values, expected, atol=1e-3)


def test_grib_of_the_first_edition_is_copied_if_wanted(tmp_path: Path) -> None:
    fields(tmp_path / "a.grib", (0, 12), edition=1)
    with pytest.raises(InvalidInputError, match="cannot be referred to"):
        take(tmp_path / "repo", tmp_path / "a.grib")
    take(tmp_path / "repo", tmp_path / "a.grib", wanted={"mode": "auto"})
    found = seen(tmp_path / "repo").t.sel(time="2024-01-01T12", isobaricInhPa=1000)
    assert np.allclose(found.values, np.arange(24.0).reshape(4, 6) + 13, atol=1e-3)


def test_grib_that_is_cut_off_is_told(tmp_path: Path) -> None:
    fields(tmp_path / "a.grib2", (0,))
    whole = (tmp_path / "a.grib2").read_bytes()
    (tmp_path / "a.grib2").write_bytes(whole[:-10])
    with pytest.raises(InvalidInputError, match="cut off"):
        scan_file(ScanTask(as_url(tmp_path / "a.grib2")), {})


@pytest.mark.parametrize("edition", [1, 2])
def test_a_scan_of_grib_passes_over_values(tmp_path: Path, edition: int) -> None:
    """A file may be larger than the memory of a task, and a distant one takes long to read."""
    file, size = tmp_path / "large.grib", (400, 500)
    fields(file, (*range(0, 24, 2),), edition, size)
    whole = file.stat().st_size
    assert whole > 24 * 2 * 400 * 500
    tracemalloc.start()
    found = scan_file(ScanTask(as_url(file)), {})
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert isinstance(found, FileScan)
    assert found["t"].shape == (12, 2, *size)
    assert json.loads(found["t"].attributes)["GRIB_gridType"] == "regular_ll"
    assert found["t"].chunks == (1, 1, *size)
    assert peak < whole
    read: list[int] = []

    def part(start: int, length: int) -> bytes:
        read.append(length)
        with file.open("rb") as opened:
            opened.seek(start)
            return opened.read(length)

    spans = [*messages(Window(part, whole), "large.grib")]
    assert len(spans) == 24
    assert sum(length for _, length, _ in spans) == whole
    assert max(len(header) for _, _, header in spans) < 1000
    assert sum(read) < 0.25 * whole


def test_grib_between_other_bytes_is_found(tmp_path: Path) -> None:
    fields(tmp_path / "a.grib2", (0, 12))
    whole = (tmp_path / "a.grib2").read_bytes()
    spans = messages(Window(lambda a, n: whole[a : a + n], len(whole)), "a")
    parts = [whole[start : start + length] for start, length, _ in spans]
    noise = [b"", b"GRI", bytes(GRIB_BLOCK - 2), b"x" * (2 * GRIB_BLOCK + 5)]
    (tmp_path / "a.grib2").write_bytes(b"".join(n + p for n, p in zip(noise, parts, strict=True)))
    take(tmp_path / "repo", tmp_path / "a.grib2", wanted={"mode": "native"})
    found = seen(tmp_path / "repo").t
    assert np.allclose(found.values[:, :, 0, 0], [[1.0, 0.85], [13.0, 12.85]], atol=1e-3)


def test_a_grib_message_without_length_is_told(tmp_path: Path) -> None:
    (tmp_path / "a.grib2").write_bytes(b"7777GRIB\0\0\0\2" + bytes(8) + b"7777")
    with pytest.raises(InvalidInputError, match="damaged"):
        scan_file(ScanTask(as_url(tmp_path / "a.grib2"), format="grib"), {})
