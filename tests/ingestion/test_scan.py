"""Small files of every format: what xarray reads of the repository is what is in them."""
# Options of other libraries have any type:
# ruff: noqa: ANN401

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import pytest
import xarray as xr

from frazil.errors import InvalidInputError
from frazil.ingestion.isolation import ParserLimits
from frazil.ingestion.plans import TransferKind
from frazil.ingestion.records import FileScan, ScanTask
from frazil.ingestion.scan import scan, scan_file
from frazil.ingestion.sources import as_url
from tests.support.archive import archive, as_kerchunk, decoded, part, seen, take

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


# --- damage ---


def test_damaged_files_are_told(tmp_path: Path) -> None:
    whole = archive(tmp_path, 1)[0].read_bytes()
    (tmp_path / "cut.nc").write_bytes(whole[: len(whole) // 3])
    found = scan({}, ParserLimits(), ScanTask(as_url(tmp_path / "cut.nc")))
    assert not isinstance(found, FileScan)
    assert "not a readable HDF5 file" in found.error  # type: ignore[union-attr]
    with pytest.raises(InvalidInputError, match="header"):
        scan_file(ScanTask(as_url(tmp_path / "cut.nc"), format="netcdf3"), {})


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
