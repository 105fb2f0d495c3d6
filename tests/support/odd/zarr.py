"""Zarr 2 and 3: types, compressors, orders, shards, scalars and texts, by zarr-python."""
# Arrays and options of other libraries have any type:
# ruff: noqa: ANN401

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numcodecs
import numpy as np
import zarr
from zarr.codecs import BloscCodec, GzipCodec, TransposeCodec, ZstdCodec

from tests.support.odd.case import Case, Outcome, Values, nothing, ramp

SHAPE = (7, 5)
CHUNKS = (3, 2)
TYPES = ("?", "i1", "<i2", ">i2", "<u4", "<i8", "<f2", "<f4", ">f8", "<c8")


def write(version: Any, dtype: Any, options: dict[str, Any], folder: Path) -> Path:
    made = folder / "odd.zarr"
    group = zarr.open_group(made, mode="w", zarr_format=version)
    shape = options.get("shape", SHAPE)
    more = {key: value for key, value in options.items() if key != "shape"}
    if shape == SHAPE:
        more.setdefault("chunks", CHUNKS)
    is_text = isinstance(dtype, str) and dtype == "text"
    array = group.create_array("v", shape=shape, dtype=str if is_text else dtype, **more)
    if is_text:
        array[...] = np.array([f"tëxt {n}" * (n % 3) for n in range(35)], object).reshape(shape)
    else:
        array[...] = ramp(shape, dtype)
    return made


def bytes_of_any_length(is_label: bool, folder: Path) -> Path:
    """Bytes as they are, of data or of the labels of its dimension."""
    made = folder / "odd.zarr"
    group = zarr.open_group(made, mode="w", zarr_format=3)
    for name in ("v", "x") if is_label else ("v",):
        array = group.create_array(
            name, shape=(5,), chunks=(2,), dtype="variable_length_bytes", dimension_names=("x",)
        )
        array[...] = np.array([b"\xff" * n + b"\0" for n in range(5)], object)
    return made


def read(path: Path) -> Values:
    group = zarr.open_group(path, mode="r")
    return {name: np.asarray(array[...]) for name, array in group.arrays()}


def case(name: str, version: int, dtype: Any = "<i4", /, **options: Any) -> Case:
    told = {key: options.pop(key) for key in ("outcome", "told") if key in options}
    return Case(f"zarr{version}/{name}", partial(write, version, dtype, options), read, **told)


def sparse(version: int, folder: Path) -> Path:
    made = write(version, "<f4", {"fill_value": -7.5}, folder)
    for chunk in [*made.glob("v/1.*"), *made.glob("v/c/1/*")]:
        chunk.unlink()
    return made


def sparse_matrix(kept: tuple[str, ...], folder: Path) -> Path:
    """A dimension that is there twice, and some of the chunks."""
    options = {"shape": (6, 6), "chunks": (3, 3), "dimension_names": ("x", "x"), "fill_value": -7}
    made = write(3, "<i4", options, folder)
    for chunk in [*made.glob("v/c/*/*")]:
        if f"{chunk.parent.name}{chunk.name}" not in kept:
            chunk.unlink()
    return made


def leading_out(folder: Path) -> Path:
    """A chunk that is a link to somebody's file."""
    made = write(2, "<i4", {"compressors": None}, folder)
    chunk = made / "v" / "0.0"
    (folder / "secret").write_bytes(chunk.read_bytes())
    chunk.unlink()
    chunk.symlink_to(folder / "secret")
    return made


def damaged(text: str, folder: Path) -> Path:
    made = write(2, "<i4", {}, folder)
    about = json.loads((made / "v" / ".zarray").read_text())
    (made / "v" / ".zarray").write_text(json.dumps({**about, **json.loads(text)}))
    return made


def empty_chunk(version: int, folder: Path) -> Path:
    """A file that somebody was about to write."""
    made = write(version, "<f4", {"compressors": None}, folder)
    next(each for each in (made / "v/0.0", made / "v/c/0/0") if each.exists()).write_bytes(b"")
    return made


def document(change: dict[str, Any], folder: Path) -> Path:
    """An array of Zarr 3 with some other fields."""
    made = write(3, "<i4", {}, folder)
    about = json.loads((made / "v" / "zarr.json").read_text())
    (made / "v" / "zarr.json").write_text(json.dumps({**about, **change}))
    return made


def dimensions(names: Any, folder: Path) -> Path:
    made = write(2, "<i4", {}, folder)
    (made / "v" / ".zattrs").write_text(json.dumps({"_ARRAY_DIMENSIONS": names}))
    return made


def other_spelling(folder: Path) -> Path:
    """A file that is called almost as a chunk that was never written."""
    made = write(2, "<f4", {"fill_value": -7.5, "compressors": None}, folder)
    (made / "v" / "1.0").rename(made / "v" / "01.0")
    (made / "v" / "1.1").rename(made / "v" / "1.\u0661")  # a digit of another script
    return made


def times_without_fill(folder: Path) -> Path:
    made = write(2, "<M8[s]", {"compressors": None}, folder)
    about = json.loads((made / "v" / ".zarray").read_text())
    (made / "v" / ".zarray").write_text(json.dumps({**about, "fill_value": None}))
    (made / "v" / "1.0").unlink()
    return made


def sparse_texts(fill: Any, folder: Path) -> Path:
    """Texts of which some were never written."""
    made = write(2, "text", {}, folder)
    about = json.loads((made / "v" / ".zarray").read_text())
    (made / "v" / ".zarray").write_text(json.dumps({**about, "fill_value": fill}))
    (made / "v" / "1.0").unlink()
    return made


def attributes(text: str, folder: Path) -> Path:
    """Attributes as somebody who was killed may leave them."""
    made = write(2, "<i4", {}, folder)
    (made / "v" / ".zattrs").write_text(text)
    return made


def filtered(dtype: str, filters: list[Any], order: str, folder: Path) -> Path:
    """Filters that zarr writes only by the hand of numcodecs: each chunk is encoded here."""
    made = write(2, dtype, {"compressors": None, "order": order}, folder)
    about = json.loads((made / "v" / ".zarray").read_text())
    configs = [each.get_config() for each in filters]
    (made / "v" / ".zarray").write_text(json.dumps({**about, "filters": configs}))
    for chunk in (each for each in (made / "v").iterdir() if not each.name.startswith(".")):
        data: Any = np.frombuffer(chunk.read_bytes(), dtype)
        for each in filters:
            data = each.encode(data)
        chunk.write_bytes(bytes(np.ascontiguousarray(data).view("u1")))
    return made


def _cases() -> Iterator[Case]:
    for version in (2, 3):
        empty = partial(empty_chunk, version)
        yield Case(f"zarr{version}/empty-chunk", empty, nothing, Outcome.REFUSED, "is empty")
        for dtype in TYPES:
            yield case(f"type-{dtype}", version, dtype)
        yield case("bare", version, compressors=None)
        yield case("scalar", version, "<f8", shape=())
        yield case("scalar-bare", version, "<f8", shape=(), compressors=None)
        yield case("texts", version, "text")
        yield case("empty", version, "<f8", shape=(0, 3))
        yield case("order-f", version, **_order(version))
        yield Case(f"zarr{version}/sparse", partial(sparse, version), read)
    for kept in (("01",), ("01", "10"), ("00", "11")):
        matrix = partial(sparse_matrix, kept)
        yield Case(f"zarr3/sparse-matrix-{'-'.join(kept)}", matrix, read)
    for name, codec in (
        ("zlib", numcodecs.Zlib(3)),
        ("blosc", numcodecs.Blosc("lz4", shuffle=2)),
        ("lz4", numcodecs.LZ4()),
        ("bz2", numcodecs.BZ2()),
        ("zstd", numcodecs.Zstd(3)),
    ):
        yield case(f"compressor-{name}", 2, compressors=codec)
    yield case("delta", 2, filters=[numcodecs.Delta(dtype="<i4")])
    yield case("slashes", 2, chunk_key_encoding={"name": "v2", "separator": "/"})
    yield case("letters", 2, "S5")
    yield case("wide-letters", 2, "<U5")
    yield case("wide-letters-big", 2, ">U5", compressors=None)
    yield case("wide-letters", 3, "<U5")
    transformed = partial(document, {"storage_transformers": [{"name": "x"}]})
    yield Case("zarr3/transformed", transformed, nothing, Outcome.REFUSED, "transformers")
    for label, names in (("few", ["x"]), ("many", ["x", "y", "z"])):
        made = partial(dimensions, names)
        told = "names of dimensions"
        yield Case(f"zarr2/dimensions-{label}", made, nothing, Outcome.REFUSED, told)
    yield case(
        "pair", 2, np.dtype([("u", "<f4"), ("v", "<i2")]), outcome=Outcome.REFUSED, told="'v'"
    )
    for name, codec in (("gzip", GzipCodec()), ("zstd", ZstdCodec()), ("blosc", BloscCodec())):
        yield case(f"compressor-{name}", 3, compressors=codec)
    for label, is_label in (("bytes", False), ("bytes-as-labels", True)):
        yield Case(f"zarr3/{label}", partial(bytes_of_any_length, is_label), read)
    yield case("shards", 3, shards=(6, 4))
    yield case("dots", 3, chunk_key_encoding={"name": "default", "separator": "."})
    yield case("old-keys", 3, chunk_key_encoding={"name": "v2", "separator": "."})
    for label, fill in (("named", "n/a"), ("unnamed", None)):
        yield Case(f"zarr2/sparse-texts-{label}", partial(sparse_texts, fill), read)
    for label, text in (("empty", ""), ("list", "[]")):
        made = partial(attributes, text)
        yield Case(f"zarr2/attributes-{label}", made, nothing, Outcome.REFUSED, "damaged metadata")
    steps, tenths = numcodecs.Delta("<i4"), numcodecs.FixedScaleOffset(0, 10, ">f4", "<i2")
    yield Case("zarr2/delta-f", partial(filtered, "<i4", [steps], "F"), read)
    yield Case("zarr2/scaled", partial(filtered, ">f4", [tenths], "C"), read)
    mixed = partial(filtered, "<i4", [numcodecs.Shuffle(4), numcodecs.Delta("u1")], "C")
    told = "a filter of values follows one of bytes"
    yield Case("zarr2/shuffle-then-delta", mixed, nothing, Outcome.REFUSED, told)
    yield Case("zarr2/leading-out", leading_out, nothing, Outcome.REFUSED, "was not allowed")
    yield Case("zarr2/leading-allowed", leading_out, read, allow=lambda folder: (str(folder),))
    yield Case("zarr2/other-spelling", other_spelling, read)
    yield Case("zarr2/times-without-fill", times_without_fill, read)
    for name, text in (
        ("shape", '{"shape": "no"}'),
        ("codec", '{"compressor": {"id": "nope"}}'),
        ("chunks", '{"chunks": [0, 2]}'),
        ("fill", '{"fill_value": 5000000000}'),
        ("half-fill", '{"fill_value": 1.5}'),
    ):
        yield Case(
            f"zarr2/bad-{name}", partial(damaged, text), nothing, Outcome.REFUSED, "odd.zarr"
        )


def _order(version: int) -> dict[str, Any]:
    return {"order": "F"} if version == 2 else {"filters": [TransposeCodec(order=(1, 0))]}


ZARR = tuple(_cases())
