"""Damaged files of every format end in a failure with a name, or in what their library reads."""

from __future__ import annotations

import random
import resource
import shutil
from math import prod
from pathlib import Path

import numpy as np
import pytest

from frazil.errors import FrazilError
from frazil.ingestion.copying import read_safely
from frazil.ingestion.encoding import encoded_dtype
from frazil.ingestion.fetching import fetch_values
from frazil.ingestion.isolation import ParserLimits, isolated
from frazil.ingestion.parsers import Format
from frazil.ingestion.records import Array, FileScan, FileVariable, ScanFailure, ScanTask
from frazil.ingestion.scan import scan
from frazil.ingestion.sources import as_url
from tests.support.odd import CASES, Case
from tests.support.soaking import Soak

LIMITS = ParserLimits(seconds=5, memory=512 << 20)
MOST_MEMORY = 1 << 30
SMALL = 1 << 20
SAMPLE = 40
BY_LIBRARY = (Format.HDF5, Format.TIFF, Format.GRIB)
"""formats whose copies are not read through references"""
EDGES = (0, 1, 0x7F, 0x80, 0xFF)

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning", "ignore::DeprecationWarning")


def damaged(data: bytes, rng: random.Random) -> bytes:
    """The same with some bytes changed, taken away, repeated or moved."""
    made = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 4, 16))):
        at = rng.randrange(len(made)) if made else 0
        size = rng.choice((1, 2, 4, 8))
        match rng.randrange(6):
            case 0 if made:
                made[at] ^= 1 << rng.randrange(8)
            case 1 if made:
                made[at : at + size] = bytes(rng.choice(EDGES) for _ in range(size))
            case 2:
                del made[at:]
            case 3:
                del made[at : at + size]
            case 4:
                made[at:at] = made[at : at + size * 8]
            case _:
                made[at : at + size] = rng.randbytes(size)
    return bytes(made)


def prepared(case: Case, folder: Path, rng: random.Random) -> Path:
    """A file of the corpus, or one file of a folder of it, damaged."""
    folder.mkdir()
    file = case.make(folder)
    inner = sorted(path for path in file.rglob("*") if path.is_file()) if file.is_dir() else [file]
    for path in rng.sample(inner, min(len(inner), rng.choice((1, 1, 2)))):
        path.write_bytes(damaged(path.read_bytes(), rng))
    return file


def first_chunk(variable: FileVariable) -> tuple[slice, ...]:
    refs = variable.references
    assert refs is not None
    place = np.unravel_index(int(refs.index[0]), variable.grid) if variable.dims else ()
    pairs = zip(place, variable.chunks, variable.shape, strict=True)
    return tuple(slice(int(at) * n, min((int(at) + 1) * n, end)) for at, n, end in pairs)


def by_reference(variable: FileVariable, region: tuple[slice, ...]) -> Array | None:
    """Values through references, None where a codec refuses; anything else is a failure."""
    try:
        return fetch_values(variable, region, {})
    except FrazilError:
        return None


def most_memory() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10


def check_values(found: FileScan, variable: FileVariable) -> None:
    if variable.references is None or not len(variable.references):
        return
    if prod(variable.chunks) * max(1, encoded_dtype(variable.encoding).itemsize) > SMALL:
        return
    region = first_chunk(variable)
    try:
        referred = isolated(LIMITS, by_reference, variable, region)
        copied = read_safely(LIMITS, found.origin(variable.name), region, {})
    except FrazilError:
        return  # told by name
    if referred is None or found.format not in BY_LIBRARY:
        return
    if found.format == Format.GRIB:
        size = float(np.nanmax(np.abs(copied), initial=1.0))
        assert np.allclose(referred, copied, rtol=0, atol=1e-5 * size, equal_nan=True)
    else:
        assert referred.astype(copied.dtype).tobytes() == copied.tobytes(), variable.name


def check(seed: str, folder: Path) -> None:
    rng = random.Random(int(seed))
    case = rng.choice(CASES)
    where = folder / seed
    try:
        file = prepared(case, where, rng)
        allow = (f"{as_url(where)}/",) if case.allow(where) else ()
        found = scan({}, LIMITS, ScanTask(as_url(file), allowed=allow))
        if isinstance(found, ScanFailure):
            assert file.name in found.error, case.name
        else:
            assert isinstance(found, FileScan)
            for variable in found.variables:
                check_values(found, variable)
        assert isolated(ParserLimits(), most_memory) < MOST_MEMORY, case.name
    finally:
        shutil.rmtree(where, ignore_errors=True)


@pytest.mark.parametrize("seed", range(4))
def test_damaged_files_are_told_or_read_right(tmp_path: Path, seed: int) -> None:
    for number in range(seed * SAMPLE, (seed + 1) * SAMPLE):
        check(str(number), tmp_path)


@pytest.mark.soak
@pytest.mark.timeout(0)  # it keeps time itself
def test_damaged_files_without_end(soak: Soak, tmp_path: Path) -> None:
    def count(seed: str) -> None:
        soak.inputs += 1
        check(seed, tmp_path)

    soak.run(soak.seeds(), count)
