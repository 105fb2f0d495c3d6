"""Damaged files through the scanners, thousands at a time.

A child process with the limits of a scan runs what the child of a scan runs, for many files one
after the other, and notes which one it begins. If it does not survive one, that one goes through
the real thing, which has to tell it by name, and a new child goes on behind it; so does a share
of all files. Whatever is read must be what the library of the format reads.

`python -m tests.ingestion.scan_fuzzing SEED COUNT` tries files, and `… SEED COUNT NUMBER` one of
them through the real thing.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import multiprocessing
import os
import pickle
import random
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from math import prod
from pathlib import Path
from typing import Any, Final

import numpy as np

from frazil.errors import FrazilError
from frazil.ingestion import isolation
from frazil.ingestion.copying import read_part, read_safely
from frazil.ingestion.encoding import encoded_dtype
from frazil.ingestion.fetching import fetch_values
from frazil.ingestion.isolation import ParserEndedError, ParserLimits, isolated
from frazil.ingestion.parsers import Format
from frazil.ingestion.records import Array, FileScan, FileVariable, ScanFailure, ScanTask
from frazil.ingestion.scan import _scanned, scan
from frazil.ingestion.sources import as_url
from tests.support.damage import damaged
from tests.support.odd import CASES, Case

LIMITS: Final = ParserLimits(seconds=1, memory=512 << 20)
"""A sound file of this size takes some milliseconds."""
SMALL: Final = 1 << 20
"""Bytes of a chunk that is read."""
READ: Final = 3
"""Variables of a file that are read."""
BATCH: Final = 250
MEMORY: Final = Path("/dev/shm")
"""Where files take no disk."""
REAL: Final = 200
"""One file in so many goes through the real thing."""
REPLAYED: Final = 3
"""Files that a child did not survive go through the real thing, so many of each kind."""
PARSERS: Final = (
    "eccodes", "frazil.ingestion.grib", "frazil.ingestion.hdf", "frazil.ingestion.kerchunk",
    "frazil.ingestion.netcdf3", "frazil.ingestion.tiff", "frazil.ingestion.zarrs",
    "gribberish.zarr", "h5py._hl.dims", "imagecodecs.numcodecs", "netCDF4", "numcodecs.zarr3",
    "pyarrow.dataset", "pyarrow.parquet", "tifffile", "virtual_tiff", "virtualizarr.codecs",
    "virtualizarr.manifests.utils", "virtualizarr.parsers.hdf.filters", "zarr",
)  # fmt: skip
"""what reading files imports, before the first fork"""

Reader = Callable[[Path, FileVariable, "tuple[slice, ...]"], "Array | None"]


# --- files ---


@dataclass(frozen=True, slots=True)
class Original:
    """A file of the corpus and what lies beside it."""

    case: Case
    folder: Path
    file: Path
    parts: tuple[Path, ...]
    """all files of it"""
    own: tuple[Path, ...]
    """those that are, or are in, what is scanned"""
    kind: str
    """the same for formats that can lend each other pieces"""


@cache
def originals(home: Path) -> tuple[Original, ...]:
    """The corpus, made once below a folder."""
    found = []
    for number, case in enumerate(CASES):
        folder = home / "corpus" / str(number)
        note = folder.with_suffix(".made")
        if not note.exists():
            folder.mkdir(parents=True)
            note.write_text(str(case.make(folder)))
        file = Path(note.read_text())
        parts = sorted(p for p in folder.rglob("*") if p.is_file() and not p.is_symlink())
        kind = case.name.partition("/")[0].partition("_")[0].rstrip("1234")
        own = [each for each in parts if each == file or file in each.parents]
        found.append(Original(case, folder, file, tuple(parts), tuple(own), kind))
    return tuple(found)


@cache
def _kin(home: Path, kind: str) -> tuple[Original, ...]:
    return tuple(each for each in originals(home) if each.kind == kind and each.parts)


@cache
def _content(path: Path) -> bytes:
    return path.read_bytes()


def made_input(home: Path, seed: int, number: int) -> tuple[Original, Path, ScanTask]:
    """A damaged copy of a file of the corpus, in a folder of its own."""
    chance = random.Random(f"{seed}/{number}")
    known = originals(home)
    taken = chance.choice(known)
    where = home / f"{seed}-{number}"
    shutil.copytree(taken.folder, where, symlinks=True, copy_function=os.link)
    pool = taken.own if taken.own and chance.random() < 0.9 else taken.parts
    kin = _kin(home, taken.kind)
    for path in chance.sample(pool, min(len(pool), chance.choice((1, 1, 2)))):
        lender = chance.choice(kin)
        same = [each for each in lender.parts if each.name == path.name] or lender.parts
        new = damaged(_content(path), chance, [_content(chance.choice(same))])
        copy = where / path.relative_to(taken.folder)
        copy.unlink()
        copy.write_bytes(new)
    file = where / taken.file.relative_to(taken.folder)
    folders = (where, taken.folder) if taken.case.allow(where) else ()
    allow = tuple(f"{as_url(each)}/" for each in folders)
    return taken, file, ScanTask(as_url(file), allowed=allow)


# --- what the libraries read ---


def _by_netcdf(file: Path, variable: FileVariable, region: tuple[slice, ...]) -> Array | None:
    import netCDF4

    with netCDF4.Dataset(str(file)) as data:
        data.set_auto_mask(False)
        data.set_auto_scale(False)
        found = data.variables[variable.name]
        if found.shape != variable.shape:
            return None
        return np.asarray(found[region])


def _by_zarr(file: Path, variable: FileVariable, region: tuple[slice, ...]) -> Array | None:
    import zarr

    found: Any = zarr.open_group(str(file), mode="r", use_consolidated=False)[variable.name]
    return np.asarray(found[region])


LIBRARIES: Final[dict[str, Reader]] = {Format.NETCDF3: _by_netcdf, Format.ZARR: _by_zarr}
"""Readers of formats whose copies are read through references as well."""


def first_chunk(variable: FileVariable) -> tuple[slice, ...]:
    """The region of the first chunk that there is."""
    assert variable.references is not None
    return variable.region(int(variable.references.index[0]))


def difference(found: FileScan, name: str, referred: Array, copied: Array) -> str | None:
    """What two ways of reading do not agree on."""
    if found.format == Format.GRIB:
        size = float(np.nanmax(np.abs(copied), initial=1.0))
        is_same = np.allclose(referred, copied, rtol=0, atol=1e-5 * size, equal_nan=True)
    elif copied.dtype.kind in "TOU":
        is_same = referred.astype(object).tolist() == copied.astype(object).tolist()
    else:
        is_same = referred.astype(copied.dtype).tobytes() == copied.tobytes()
    return None if is_same else f"{name!r} is read otherwise than by its library"


def readable(found: FileScan) -> Iterator[FileVariable]:
    """Variables with references whose chunks are not large."""
    for variable in found.variables:
        if variable.references is not None and len(variable.references):
            width = max(1, encoded_dtype(variable.encoding).itemsize)
            if prod(variable.chunks) * width <= SMALL:
                yield variable


def by_reference(variable: FileVariable, region: tuple[slice, ...]) -> Array | None:
    """Values through references, None where a codec refuses; anything else is a failure."""
    try:
        return fetch_values(variable, region, {})
    except FrazilError:
        return None


# --- the real thing ---


def really_tried(home: Path, seed: int, number: int) -> str | None:
    """One file through `scan` and what follows it; what is wrong with how that ended."""
    taken, file, task = made_input(home, seed, number)
    found = scan({}, LIMITS, task)
    if isinstance(found, ScanFailure):
        return None if file.name in found.error else f"{taken.case.name}: unnamed: {found.error}"
    assert isinstance(found, FileScan)
    for variable in readable(found):
        region = first_chunk(variable)
        try:
            referred = isolated(LIMITS, by_reference, variable, region)
            copied = read_safely(LIMITS, found.origin(variable.name), region, {})
        except FrazilError as error:
            if isinstance(error, ParserEndedError) or file.name in str(error):
                continue  # told by name
            if any(part.name in str(error) for part in taken.parts):
                continue
            return f"{taken.case.name}: unnamed: {error}"
        if referred is not None and (told := difference(found, variable.name, referred, copied)):
            return f"{taken.case.name}: {told}"
    return None


# --- many in one child ---


def warm_up(home: Path) -> None:
    """Let eccodes read its definitions, which takes a second, before the first fork."""
    from frazil.ingestion.grib_messages import describe_message, grid_coordinates, open_message

    for each in originals(home):
        if each.kind == "grib":
            data = each.file.read_bytes()
            with contextlib.suppress(Exception), open_message(data) as handle:
                describe_message(handle, 0, len(data), "")
                grid_coordinates(handle, "")


class Notes:
    """What a child writes down at once, as it may not survive the next step."""

    def __init__(self, home: Path) -> None:
        self._step = (home / "step").open("wb", buffering=0)
        self._told = (home / "told").open("ab", buffering=0)

    def begin(self, number: int, kind: str, step: str) -> None:
        """A step of the work on a file begins."""
        os.pwrite(self._step.fileno(), f"{number:12d} {kind:10s} {step:8s}".encode(), 0)

    def tell(self, number: int, what: str, detail: str = "") -> None:
        """Something came of a file."""
        self._told.write(json.dumps([number, what, detail]).encode() + b"\n")


def _last_step(home: Path) -> tuple[int, str, str]:
    number, kind, step = (home / "step").read_text().split()
    return int(number), kind, step


def _tried(home: Path, seed: int, number: int, notes: Notes) -> None:
    notes.begin(number, "any", "make")
    taken, file, task = made_input(home, seed, number)

    def fail(why: str) -> None:
        notes.tell(number, "failed", f"{taken.case.name}: {why}")

    isolation._bound(LIMITS.memory)
    isolation._alarm(LIMITS.seconds)
    notes.begin(number, taken.kind, "scan")
    try:
        found = pickle.loads(pickle.dumps(_scanned({}, task)))
    except FrazilError:  # too much memory
        return notes.tell(number, "refused")
    except Exception as error:
        return fail(f"{type(error).__name__}: {error}")
    if isinstance(found, ScanFailure):
        notes.tell(number, "refused")
        return None if file.name in found.error else fail(f"unnamed: {found.error}")
    for variable in [*readable(found)][:READ]:
        region = first_chunk(variable)
        notes.begin(number, taken.kind, "read")
        try:
            referred = by_reference(variable, region)
        except Exception as error:
            return fail(repr(error))
        if referred is None:
            continue
        library = LIBRARIES.get(found.format)
        notes.begin(number, taken.kind, "copy" if library is None else "library")
        copied: Array | None
        try:
            if library is None:
                copied = read_part(found.origin(variable.name), region, {})
            else:
                copied = library(file, variable, region)
        except Exception:  # told by name, as the real thing shows
            continue
        if copied is not None:
            notes.tell(number, "compared")
            if wrong := difference(found, variable.name, referred, copied):
                fail(wrong)
    return None


def run_batch(home: Path, seed: int, first: int, end: int) -> None:
    """Try files in this process."""
    warnings.simplefilter("ignore")
    np.seterr(all="ignore")
    notes = Notes(home)
    for number in range(first, end):
        _tried(home, seed, number, notes)
        isolation._alarm(0)
        shutil.rmtree(home / f"{seed}-{number}", ignore_errors=True)


def forked(home: Path, seed: int, first: int, end: int) -> int:
    """The same in a child; how that ended. A fork needs no imports again."""
    child = os.fork()
    if not child:
        quiet = os.open(os.devnull, os.O_RDWR)
        os.dup2(quiet, 1)
        os.dup2(quiet, 2)
        try:
            run_batch(home, seed, first, end)
        except BaseException:
            (home / "why").write_text(traceback.format_exc())
            os._exit(1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def tried(home: Path, seed: int, count: int) -> dict[str, Any]:
    """Try so many files that follow from a seed."""
    ended, really, at = Counter[str](), [*range(0, count, REAL)], 0
    begun = time.monotonic(), _processor_time()
    while at < count:
        code = forked(home, seed, at, min(count, at + BATCH))
        if not code:
            at = min(count, at + BATCH)
            continue
        number, kind, step = _last_step(home)
        assert code < 0, f"file {number}: {(home / 'why').read_text()}"
        how = f"{kind} {step} {signal.Signals(-code).name}"
        ended[how] += 1
        shutil.rmtree(home / f"{seed}-{number}", ignore_errors=True)
        if step != "library" and ended[how] <= REPLAYED:  # a library is not ours to keep alive
            really.append(number)
        at = number + 1
    took, worked = time.monotonic() - begun[0], _processor_time() - begun[1]
    lines = [json.loads(line) for line in (home / "told").read_text().splitlines()]
    failures = [[number, why] for number, what, why in lines if what == "failed"]
    for number in really:
        wrong = really_tried(home, seed, number)
        shutil.rmtree(home / f"{seed}-{number}", ignore_errors=True)
        if wrong is not None:
            failures.append([number, wrong])
    return {
        "inputs": at,
        **Counter(what for _, what, _ in lines),
        "really": len(really),
        "ended": dict(ended),
        "failures": failures,
        "peak": resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss << 10,
        "per_second": round(at / took, 1),
        "per_second_of_work": round(at / worked, 1),
    }


def _processor_time() -> float:
    used = os.times()
    return used.user + used.system + used.children_user + used.children_system


def main() -> None:
    """Try files, and print what came of them."""
    # by the name that children know
    from tests.ingestion import scan_fuzzing as here

    warnings.simplefilter("ignore")
    seed, count, *one = map(int, sys.argv[1:])
    os.environ["RUST_BACKTRACE"] = "0"  # a library that panics would take longer to tell where
    with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.exists() else None) as folder:
        home = Path(folder)
        # Making files starts threads, which do not go with a fork.
        maker = multiprocessing.get_context("spawn").Process(target=here.originals, args=(home,))
        maker.start()
        for name in PARSERS:
            importlib.import_module(name)
        maker.join()
        here.warm_up(home)
        if one:
            print(here.really_tried(home, seed, one[0]))
        else:
            print(json.dumps(here.tried(home, seed, count)), flush=True)


if __name__ == "__main__":
    main()
