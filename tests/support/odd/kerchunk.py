"""kerchunk references in JSON and Parquet: inline, relative, by template, allowed and not."""
# Arrays and options of other libraries have any type:
# ruff: noqa: ANN401

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from tests.support.archive import as_kerchunk
from tests.support.odd.case import Case, Outcome, Values, nothing, ramp

VALUES = ramp((8,), "<i4")


def meta(*chunks: int, shape: tuple[int, ...] = (8,)) -> str:
    """The document of an array with the values."""
    made = {
        "shape": shape,
        "chunks": chunks,
        "dtype": "<i4",
        "compressor": None,
        "filters": None,
        "fill_value": None,
        "order": "C",
        "zarr_format": 2,
    }
    return json.dumps(made)


def write(refs: dict[str, Any], folder: Path, **document: Any) -> Path:
    """Write references to the values, which are in `others/data.bin`."""
    (folder / "others").mkdir(exist_ok=True)
    (folder / "others" / "data.bin").write_bytes(VALUES.tobytes())
    whole = {
        ".zgroup": '{"zarr_format": 2}',
        "v/.zarray": meta(4),
        "v/.zattrs": json.dumps({"_ARRAY_DIMENSIONS": ["x"]}),
        **{key: _filled(value, folder) for key, value in refs.items()},
    }
    made = folder / "odd.json"
    made.write_text(json.dumps({"version": 1, "refs": whole, **document}))
    return made


def _filled(value: Any, folder: Path) -> Any:
    if isinstance(value, list):
        return [value[0].replace("FOLDER", str(folder)), *value[1:]]
    return value


def read(_: Path) -> Values:
    return {"v": VALUES}


def beside(folder: Path) -> tuple[str, ...]:
    return (str(folder / "others"),)


def of_hdf(folder: Path, *, as_parquet: bool) -> Path:
    from kerchunk.df import refs_to_dataframe

    (folder / "others").mkdir()
    source = folder / "others" / "a.h5"
    with h5py.File(source, "w") as file:
        file.create_dataset("v", data=ramp((8, 5), "<f4"), chunks=(3, 5), compression="gzip")
        file["small"] = np.arange(3.0)
    found = as_kerchunk(source, inline=30)
    if as_parquet:
        refs_to_dataframe(found, str(folder / "odd.parq"), record_size=2)
        return folder / "odd.parq"
    (folder / "odd.json").write_text(json.dumps(found))
    return folder / "odd.json"


def read_hdf(_: Path) -> Values:
    return {"v": ramp((8, 5), "<f4"), "small": np.arange(3.0)}


HALVES = ["others/data.bin", 0, 16], ["others/data.bin", 16, 16]


def _cases() -> Iterator[Case]:
    first, second = HALVES
    good: tuple[tuple[str, dict[str, Any]], ...] = (
        ("relative", {"v/0": first, "v/1": second}),
        ("absolute", {"v/0": ["FOLDER/others/data.bin", 0, 16], "v/1": second}),
        ("url", {"v/0": ["file://FOLDER/others/data.bin", 0, 16], "v/1": second}),
        ("dots", {"v/0": ["others/../others/data.bin", 0, 16], "v/1": second}),
        ("inline", {"v/0": _inline(VALUES[:4]), "v/1": second}),
    )
    halves = {
        "dimension": {"_ARRAY_DIMENSIONS": ["\ud800"]},
        "attribute": {"_ARRAY_DIMENSIONS": ["x"], "units": "\udc00"},
    }
    for name, attributes in halves.items():
        refs: dict[str, Any] = {"v/0": first, "v/1": second, "v/.zattrs": json.dumps(attributes)}
        yield Case(
            f"kerchunk/half-a-character-in-{name}",
            partial(write, refs),
            nothing,
            Outcome.REFUSED,
            "half of a character",
            allow=beside,
        )
    for name, refs in good:
        yield Case(f"kerchunk/{name}", partial(write, refs), read, allow=beside)
        if name != "inline":
            yield Case(
                f"kerchunk/{name}-not-allowed",
                partial(write, refs),
                nothing,
                Outcome.REFUSED,
                "was not allowed",
            )
    template = partial(
        write,
        {"v/0": ["{{u}}", 0, 16], "v/1": ["{{ u }}", 16, 16]},
        templates={"u": "others/data.bin"},
    )
    yield Case("kerchunk/template", template, read, allow=beside)
    for name, text, templates in (
        ("unknown", "{{nope}}", {"u": "others/data.bin"}),
        ("nested", "{{u}}", {"u": "{{folder}}/data.bin", "folder": "others"}),
        ("called", "{{u(n='data')}}", {"u": "others/{{n}}.bin"}),
    ):
        refs = {"v/0": [text, 0, 16], "v/1": second}
        yield Case(
            f"kerchunk/template-{name}",
            partial(write, refs, templates=templates),
            nothing,
            Outcome.REFUSED,
            "cannot be filled in",
            allow=lambda folder: (str(folder),),
        )
    whole = {"v/.zarray": meta(8), "v/0": ["others/data.bin"]}
    yield Case("kerchunk/whole-file", partial(write, whole), read, allow=beside)
    far: tuple[tuple[str, list[Any]], ...] = (
        ("up", ["others/../../secret", 0, 16]),
        ("etc", ["/etc/hostname", 0, 4]),
        ("loopback", ["http://127.0.0.1:9/latest/meta-data", 0, 16]),
        ("loopback-whole", ["http://127.0.0.1:9/latest/meta-data"]),
        ("bucket", ["s3://somebody/elses", 0, 16]),
        ("escaped", ["file://FOLDER/others/%2e%2e/secret", 0, 16]),
        ("whole-etc", ["/etc/hostname"]),
    )
    for name, reference in far:
        yield Case(
            f"kerchunk/{name}",
            partial(write, {"v/0": reference, "v/1": second}),
            nothing,
            Outcome.REFUSED,
            "was not allowed",
            allow=beside,
        )
    for name, value, told in (
        ("no-base64", "base64:!!!!", "base64"),
        ("cut-base64", _inline(VALUES[:4])[:-1], "base64"),
        ("empty", "", "is empty"),
        ("empty-base64", "base64:", "is empty"),
        ("empty-range", ["others/data.bin", 4, 0], "is empty"),
        ("past-the-end", ["others/data.bin", 20, 16], "which has 32 bytes"),
        ("behind-the-end", ["others/data.bin", 1 << 40, 16], "which has 32 bytes"),
        ("missing", ["others/none.bin", 0, 16], "is missing"),
    ):
        refs = {"v/0": value, "v/1": second}
        yield Case(
            f"kerchunk/{name}",
            partial(write, refs),
            nothing,
            Outcome.REFUSED,
            told,
            allow=beside,
        )
    for name, about in (("elsewhere", ["others/data.bin"]), ("list", "[]"), ("nothing", None)):
        refs = {"v/0": first, "v/1": second, "v/.zattrs": about}
        yield Case(
            f"kerchunk/attributes-{name}",
            partial(write, refs),
            nothing,
            Outcome.REFUSED,
            "no document",
            allow=beside,
        )
    for name, shape in (("axis", (1 << 33,)), ("grid", (1 << 31,) * 3)):
        huge = {
            "v/.zarray": meta(*(1 for _ in shape), shape=shape),
            "v/.zattrs": json.dumps({"_ARRAY_DIMENSIONS": [*"xyz"[: len(shape)]]}),
            f"v/{'.'.join('0' for _ in shape)}": _inline(VALUES[:1]),
        }
        yield Case(
            f"kerchunk/huge-{name}", partial(write, huge), nothing, Outcome.REFUSED, "more chunks"
        )
    for as_parquet in (False, True):
        name = "parquet" if as_parquet else "json"
        make = partial(of_hdf, as_parquet=as_parquet)
        yield Case(f"kerchunk/hdf-{name}", make, read_hdf, allow=beside)
        yield Case(
            f"kerchunk/hdf-{name}-not-allowed", make, nothing, Outcome.REFUSED, "not allowed"
        )


def _inline(values: Any) -> str:
    return "base64:" + base64.b64encode(values.tobytes()).decode()


KERCHUNK = tuple(_cases())
