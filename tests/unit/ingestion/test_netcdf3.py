"""Headers of NetCDF 3: where values are, and what is damaged."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import netCDF4
import numpy as np
import pytest
import xarray as xr

from frazil.errors import InvalidInputError
from frazil.ingestion.fetching import fetch_values
from frazil.ingestion.netcdf3 import scan_netcdf3
from frazil.ingestion.records import InputFile, ParsedFile, ScanTask
from frazil.ingestion.scan import scan_file
from frazil.ingestion.sources import as_url, look
from frazil.ingestion.tuning import HEADER_BYTES
from tests.support.archive import part, seen, take


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


@pytest.mark.parametrize("fill", [70000.0, np.nan, -2.5])
def test_fill_values_that_a_type_cannot_hold_mask_nothing(tmp_path: Path, fill: float) -> None:
    file = tmp_path / "odd.nc"
    values = np.array([0, -2, 4464, 1], "i2")  # what the fill values would be cast to
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
    for mode in ("virtual", "native"):
        repo = tmp_path / mode
        report = take(repo, file, wanted={"mode": mode})
        assert np.array_equal(seen(repo)["v"].values, values)
        assert "cannot hold" in str(report)


# --- headers by hand ---


def header(*, records: int = 2, begin: int = 0, kind: int = 3, pad: int = 0) -> bytes:
    """A file with two record variables, a byte and three of a kind, and then the values."""

    def name(text: bytes) -> bytes:
        return struct.pack(">i", len(text)) + text + bytes(-len(text) % 4)

    dims = struct.pack(">ii", 0x0A, 2) + name(b"t") + struct.pack(">i", 0)
    dims += name(b"x") + struct.pack(">i", 3)
    text = struct.pack(">ii", 0x0C, 1) + name(b"note") + struct.pack(">ii", 2, pad) + b"x" * pad
    attrs = text + bytes(-pad % 4) if pad else bytes(8)
    first = name(b"flag") + struct.pack(">ii", 1, 0) + bytes(8) + struct.pack(">iii", 1, 4, begin)
    second = name(b"v") + struct.pack(">iii", 2, 0, 1) + bytes(8)
    second += struct.pack(">iii", kind, 8, begin + 4)
    entries = struct.pack(">ii", 0x0B, 2) + first + second
    made = b"CDF\x01" + struct.pack(">i", records) + dims + attrs + entries
    return made if begin else header(records=records, begin=len(made), kind=kind, pad=pad)


def scanned(path: Path, data: bytes) -> ParsedFile:
    path.write_bytes(data)
    return scan_netcdf3(InputFile(as_url(path), identity=look(as_url(path))))


def test_records_of_several_variables_take_turns_and_are_padded(tmp_path: Path) -> None:
    head = header()
    record = b"\x07\0\0\0" + np.array([1, 2, 3], ">i2").tobytes() + b"\0\0"
    flag, values = scanned(tmp_path / "a.nc", head + record * 2).variables
    assert (flag.shape, values.shape, values.chunks) == ((2,), (2, 3), (1, 3))
    assert flag.references is not None
    assert values.references is not None
    start = len(head)
    assert flag.references.offset.tolist() == [start, start + 12]
    assert values.references.offset.tolist() == [start + 4, start + 16]
    assert values.references.length.tolist() == [6, 6]
    assert fetch_values(values, (), {}).tolist() == [[1, 2, 3]] * 2


def test_the_last_record_needs_no_padding(tmp_path: Path) -> None:
    assert scanned(tmp_path / "a.nc", header() + bytes(22)).variables[1].shape == (2, 3)


def test_a_file_without_records_has_no_chunks(tmp_path: Path) -> None:
    flag, values = scanned(tmp_path / "a.nc", header(records=0)).variables
    assert (flag.shape, values.shape) == ((0,), (0, 3))
    assert values.references is not None
    assert len(values.references) == 0


def test_a_header_longer_than_what_is_read_of_it_first_is_read_on(tmp_path: Path) -> None:
    found = scanned(tmp_path / "a.nc", header(pad=HEADER_BYTES) + bytes(24))
    assert len(json.loads(found.attributes)["note"]) == HEADER_BYTES
    assert [each.name for each in found.variables] == ["flag", "v"]


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (header() + bytes(21), "shorter than its header says"),
        (header(records=-1) + bytes(24), "as in a file being written"),
        (header(kind=77) + bytes(24), "'v' has no known type or place"),
        (header(begin=-40) + bytes(24), "'flag' has no known type or place"),
        (header()[:50], "cut off"),
    ],
    ids=["short", "being written", "type", "place", "cut"],
)
def test_headers_that_do_not_go_with_the_file_are_told(
    tmp_path: Path, data: bytes, told: str
) -> None:
    with pytest.raises(InvalidInputError, match=told) as refusal:
        scanned(tmp_path / "a.nc", data)
    assert "a.nc" in str(refusal.value)
