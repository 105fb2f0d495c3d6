"""Formats are told by content."""

from __future__ import annotations

from pathlib import Path

import pytest

from frazil.errors import InvalidInputError, StorageError
from frazil.ingestion.parsers import Format, detect_format, parse_format, tell_format
from frazil.ingestion.records import Identity
from frazil.ingestion.sources import as_url, display_url, look


@pytest.mark.parametrize(
    ("head", "expected"),
    [
        (b"\x89HDF\r\n\x1a\n....", Format.HDF5),
        (bytes(512) + b"\x89HDF\r\n\x1a\n", Format.HDF5),
        (b"CDF\x01", Format.NETCDF3),
        (b"CDF\x02", Format.NETCDF3),
        (b"CDF\x05", Format.NETCDF3),
        (b"GRIB\x00\x00\x00\x02", Format.GRIB),
        (b"II*\x00", Format.TIFF),
        (b"MM\x00*", Format.TIFF),
        (b"II+\x00", Format.TIFF),
        (b'  {"version": 1}', Format.KERCHUNK_JSON),
        (b"CDF\x03", None),
        (b"hello", None),
        (b"", None),
    ],
)
def test_first_bytes_tell_the_format(head: bytes, expected: Format | None) -> None:
    assert tell_format(head) is expected


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"", "empty"),
        (b"PK\x03\x04....", "zip"),
        (b"\x1f\x8b....", "gzip"),
        (b"<html>", "HTML"),
        (b"\x0e\x03\x13\x01", "HDF4"),
        (b"rubbish!", "rubbish!"),
    ],
)
def test_what_is_none_of_them_is_told(tmp_path: Path, content: bytes, told: str) -> None:
    file = tmp_path / "data.nc"
    file.write_bytes(content)
    url = as_url(file)
    with pytest.raises(InvalidInputError, match=told) as caught:
        detect_format(url, look(url))
    assert str(file) in str(caught.value)


def test_folders_are_zarr_or_references(tmp_path: Path) -> None:
    for name, key, text, expected in [
        ("three", "zarr.json", "{}", Format.ZARR),
        ("two", ".zgroup", "{}", Format.ZARR),
        ("old", ".zmetadata", '{"metadata": {}}', Format.ZARR),
        ("refs", ".zmetadata", '{"metadata": {}, "record_size": 10}', Format.KERCHUNK_PARQUET),
    ]:
        (tmp_path / name).mkdir()
        (tmp_path / name / key).write_text(text)
        assert detect_format(as_url(tmp_path / name), None) is expected
    (tmp_path / "empty").mkdir()
    with pytest.raises(InvalidInputError, match="this is a folder"):
        detect_format(as_url(tmp_path / "empty"), None)


def test_formats_have_short_names() -> None:
    assert parse_format("NetCDF4") is Format.HDF5
    with pytest.raises(InvalidInputError, match="there are hdf5"):
        parse_format("hdf6")


def test_strange_names_keep_their_letters(tmp_path: Path) -> None:
    file = tmp_path / "50% ünter#1.nc"
    file.write_bytes(b"CDF\x01")
    url = as_url(file)
    assert display_url(url) == str(file)
    assert detect_format(url, look(url)) is Format.NETCDF3


def test_a_file_that_may_not_be_read_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert look(as_url(tmp_path / "file" / "below")) is None
    with pytest.raises(StorageError):
        detect_format(as_url(tmp_path / "gone"), Identity(5, None, 0))
