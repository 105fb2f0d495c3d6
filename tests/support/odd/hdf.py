"""HDF5: each layout, filter and type, links, and attributes that JSON has no words for."""
# Arrays and options of other libraries have any type:
# ruff: noqa: ANN401

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from h5py import h5d, h5p, h5s, h5t, h5z

from tests.support.damage import summed
from tests.support.odd.case import Case, Outcome, Values, nothing, ramp

SHAPE = (7, 5)
CHUNKS = (3, 2)
PAIR = np.dtype([("u", "<f4"), ("v", "<i2")])
TYPES = ("i1", "u1", "<i2", ">i2", "<i4", ">i4", "<i8", ">u8", "<f4", ">f4", "<f8", ">f8")
ODD_TYPES: tuple[Any, ...] = ("<f2", "?", "S5", "<c8", ">c16", PAIR)
FILTERS: dict[str, dict[str, Any]] = {
    "gzip": {"compression": "gzip"},
    "shuffle": {"shuffle": True},
    "shuffle-gzip": {"shuffle": True, "compression": "gzip", "compression_opts": 9},
    "fletcher": {"fletcher32": True},
    "all-three": {"shuffle": True, "compression": "gzip", "fletcher32": True},
    "lzf": {"compression": "lzf"},
    "shuffle-lzf": {"shuffle": True, "compression": "lzf"},
}


def write(put: Callable[[h5py.File], None], folder: Path) -> Path:
    made = folder / "odd.h5"
    with h5py.File(made, "w") as file:
        put(file)
    return made


def read(path: Path, *, skip: tuple[str, ...] = ()) -> Values:
    with h5py.File(path) as file:
        return {
            name: item.asstr()[()] if item.dtype.kind == "O" else item[()]
            for name, item in file.items()
            if isinstance(item, h5py.Dataset) and name not in skip
        }


def case(name: str, put: Callable[[h5py.File], None], **more: Any) -> Case:
    return Case(f"hdf5/{name}", partial(write, put), more.pop("truth", read), **more)


def contiguous(dtype: Any, file: h5py.File) -> None:
    file["v"] = ramp(SHAPE, dtype)


def compact(dtype: Any, file: h5py.File) -> None:
    values = ramp(SHAPE, dtype)
    plist = h5p.create(h5p.DATASET_CREATE)
    plist.set_layout(h5d.COMPACT)
    made = h5d.create(
        file.id, b"v", h5t.py_create(values.dtype, logical=True), h5s.create_simple(SHAPE), plist
    )
    made.write(h5s.ALL, h5s.ALL, values)


def chunked(dtype: Any, options: dict[str, Any], file: h5py.File) -> None:
    file.create_dataset("v", data=ramp(SHAPE, dtype), chunks=CHUNKS, **options)


def scale_offset(dtype: str, digits: int, file: h5py.File) -> None:
    file.create_dataset("v", data=ramp(SHAPE, dtype), chunks=CHUNKS, scaleoffset=digits)


def narrow(file: h5py.File) -> None:
    """Numbers of 12 bits in two bytes, packed by a filter of HDF5."""
    kind = h5t.STD_I16LE.copy()
    kind.set_precision(12)
    plist = h5p.create(h5p.DATASET_CREATE)
    plist.set_chunk(CHUNKS)
    made = h5d.create(file.id, b"v", kind, h5s.create_simple(SHAPE), plist)
    made.write(h5s.ALL, h5s.ALL, ramp(SHAPE, "<i2"))


def shifted(file: h5py.File) -> None:
    """The same numbers four bits higher, without any filter."""
    kind = h5t.STD_I16LE.copy()
    kind.set_precision(12)
    kind.set_offset(4)
    made = h5d.create(file.id, b"v", kind, h5s.create_simple(SHAPE))
    made.write(h5s.ALL, h5s.ALL, ramp(SHAPE, "<i2"))


def texts_of(padding: int, file: h5py.File) -> None:
    """Texts of six bytes, of which those of the first chunk are as numpy has them."""
    kind = h5t.C_S1.copy()
    kind.set_size(6)
    kind.set_strpad(padding)
    plist = h5p.create(h5p.DATASET_CREATE)
    plist.set_chunk((2,))
    made = h5d.create(file.id, b"v", kind, h5s.create_simple((4,)), plist)
    raw = np.array([b"abcdef", b"ghijkl", b"a     ", b"b\0cdef"], "S6")
    made.write(h5s.ALL, h5s.ALL, raw, kind)


def narrow_pairs(file: h5py.File) -> None:
    """Records with a number of 12 bits, four bits higher, which zeros do not show."""
    number = h5t.STD_I16LE.copy()
    number.set_precision(12)
    number.set_offset(4)
    kind = h5t.create(h5t.COMPOUND, 6)
    kind.insert(b"u", 0, h5t.IEEE_F32LE)
    kind.insert(b"v", 4, number)
    plist = h5p.create(h5p.DATASET_CREATE)
    plist.set_chunk((3,))
    made = h5d.create(file.id, b"v", kind, h5s.create_simple((7,)), plist)
    values = ramp((7,), PAIR)
    values[:3] = 0
    made.write(h5s.ALL, h5s.ALL, values)


def far_pairs(places: tuple[int, int], file: h5py.File) -> None:
    """Records of eight bytes whose fields are elsewhere than in arrays, which zeros do not show."""
    kind = h5t.create(h5t.COMPOUND, 8)
    kind.insert(b"u", places[0], h5t.IEEE_F32LE)
    kind.insert(b"v", places[1], h5t.STD_I16LE if places[0] == 0 else h5t.STD_I32LE)
    plist = h5p.create(h5p.DATASET_CREATE)
    plist.set_chunk((3,))
    made = h5d.create(file.id, b"v", kind, h5s.create_simple((7,)), plist)
    made.write(h5s.ALL, h5s.ALL, _far_values(kind.dtype))


def _far_values(kind: Any) -> Any:
    packed = np.dtype([(name, kind[name]) for name in kind.names])
    values = ramp((7,), packed)
    values[:3] = 0
    return values


def read_far(path: Path) -> Values:
    with h5py.File(path) as file:
        found = file["v"][()]
        packed = _far_values(found.dtype)
        for name in packed.dtype.names:
            packed[name] = found[name]
        return {"v": packed}


def bit_fields(file: h5py.File) -> None:
    """Bytes of which each bit means something."""
    made = h5d.create(file.id, b"v", h5t.STD_B8LE, h5s.create_simple((5,)))
    made.write(h5s.ALL, h5s.ALL, ramp((5,), "u1"), h5t.STD_B8LE)


def unheard_of(bytes_each: int, file: h5py.File) -> None:
    """Numbers of a width that no type of numpy has, beside usual ones."""
    file["w"] = ramp((5,), "<i4")
    kind = h5t.STD_I32LE.copy()
    kind.set_size(bytes_each)
    kind.set_precision(8 * bytes_each)
    made = h5d.create(file.id, b"v", kind, h5s.create_simple((5,)))
    made.write(h5s.ALL, h5s.ALL, ramp((5,), "<i4"))


def moments(file: h5py.File) -> None:
    """The type of HDF5 for times, which h5py does not know."""
    h5d.create(file.id, b"v", h5t.UNIX_D32LE, h5s.create_simple((5,)))


def bare_edges(options: dict[str, Any], folder: Path) -> Path:
    """Chunks that go beyond the shape have no filters, as a flag of the newest format says."""
    made = folder / "odd.h5"
    with h5py.File(made, "w", libver="latest") as file:
        data = file.create_dataset("v", shape=(7,), chunks=(3,), dtype="<i4", **options)
        data[:6] = ramp((6,), "<i4")
        data.id.write_direct_chunk((6,), np.array([700, 0, 0], "<i4").tobytes())
    # version, chunked, no flags, and as dimensions that of the chunk and that of a number
    layout = re.compile(rb"([\x04\x05]\x02)\x00(\x02\x01\x03\x04)")
    raw, count = layout.subn(b"\\1\x01\\2", made.read_bytes())
    assert count == 1
    made.write_bytes(summed(raw))
    return made


def reindexed(change: Callable[[bytearray, int], None], folder: Path) -> Path:
    """An index of nine chunks that was changed, given where the first of its keys is.

    A key has 32 bytes: 8 for lengths and filters, then the place. The address of the chunk follows.
    """
    made = write(partial(chunked, "<i4", {}), folder)
    raw = bytearray(made.read_bytes())
    change(raw, raw.find(b"TREE\x01") + 24)
    made.write_bytes(raw)
    return made


def misplaced(raw: bytearray, keys: int) -> None:
    """The second chunk is where the first one is."""
    raw[keys + 48 : keys + 64] = bytes(16)


def swapped(raw: bytearray, keys: int) -> None:
    """The third chunk stands in the place of the eighth: a search for others goes astray."""
    third, eighth = (slice(keys + 40 * n, keys + 40 * n + 40) for n in (2, 7))
    raw[third], raw[eighth] = raw[eighth], raw[third]


def far_off(raw: bytearray, keys: int) -> None:
    """The last chunk is beyond the shape, and the index ends behind it."""
    for key in (8, 9):
        raw[keys + key * 40 + 8 : keys + key * 40 + 16] = (3 * key).to_bytes(8, "little")


def cut_off(raw: bytearray, keys: int) -> None:
    """The last key says that the index ends before the last chunk."""
    raw[keys + 9 * 40 + 8 : keys + 9 * 40 + 32] = bytes(24)


def sparse(file: h5py.File) -> None:
    made = file.create_dataset(
        "v", shape=SHAPE, dtype="f4", chunks=CHUNKS, fillvalue=-7.5, compression="gzip"
    )
    made[3:6, 2:4] = ramp((3, 2), "f4")


def never_written(options: dict[str, Any], file: h5py.File) -> None:
    file.create_dataset("v", shape=SHAPE, dtype="i2", fillvalue=9, **options)


def growing(file: h5py.File) -> None:
    made = file.create_dataset("v", data=ramp(SHAPE, "i4"), chunks=CHUNKS, maxshape=(None, None))
    made.resize((8, 9))
    made[7] = 5
    made.resize((4, 9))


def skipped_filter(file: h5py.File) -> None:
    made = file.create_dataset("v", shape=(4,), chunks=(2,), dtype="i4", compression="gzip")
    made[:2] = [1, 2]
    made.id.write_direct_chunk((2,), np.array([3, 4], "<i4").tobytes(), filter_mask=1)


def unknown_filter(file: h5py.File) -> None:
    plist = h5p.create(h5p.DATASET_CREATE)
    plist.set_chunk((4,))
    plist.set_filter(32999, h5z.FLAG_OPTIONAL, (1, 2))
    made = h5d.create(file.id, b"v", h5t.NATIVE_INT32, h5s.create_simple((4,)), plist)
    h5py.Dataset(made).id.write_direct_chunk((0,), bytes(16), filter_mask=0)


def filters(names: tuple[str, ...], file: h5py.File) -> None:
    """Filters in any order, and more than once."""
    plist = h5p.create(h5p.DATASET_CREATE)
    plist.set_chunk(CHUNKS)
    for name in names:
        match name:
            case "gzip":
                plist.set_deflate(5)
            case "shuffle":
                plist.set_shuffle()
            case _:
                plist.set_fletcher32()
    made = h5d.create(file.id, b"v", h5t.NATIVE_INT32, h5s.create_simple(SHAPE), plist)
    made.write(h5s.ALL, h5s.ALL, ramp(SHAPE, "<i4"))


def called(name: bytes, file: h5py.File) -> None:
    file[name] = ramp(SHAPE, "i4")


def scalars(file: h5py.File) -> None:
    file["number"] = 5
    file["flag"] = True
    file["text"] = "ä text"
    file["bytes"] = np.bytes_(b"abc")
    file["complex"] = np.complex64(1 + 2j)


def texts(file: h5py.File) -> None:
    file.create_dataset("names", data=["ä", "", "a long name"], dtype=h5py.string_dtype())
    file["v"] = ramp((3,), "f8")


def enumerated(file: h5py.File) -> None:
    kind = h5py.enum_dtype({"ice": 0, "sea": 1, "land": 2}, basetype="i1")
    file.create_dataset("v", data=ramp(SHAPE, "u1") % 3, dtype=kind)


def attributes(file: h5py.File) -> None:
    file["v"] = ramp((3,), "f4")
    file["w"] = ramp((3,), "f4")
    about = file["v"].attrs
    about["see"] = file["w"].ref
    about["all"] = np.array([file["w"].ref, file["v"].ref], dtype=h5py.ref_dtype)
    about["part"] = file["w"].regionref[0:2]
    about["complex"] = np.complex64(1 + 2j)
    about["record"] = np.array([(1, 2.0)], dtype=[("a", "i4"), ("b", "f8")])
    about["nothing"] = h5py.Empty("f4")
    about["not a number"] = np.float32(np.nan)
    about["large"] = np.uint64(2**63 + 5)
    about["texts"] = np.array(["a", "ü"], dtype=h5py.string_dtype())
    about["latin"] = np.bytes_(b"caf\xe9")
    file.attrs["root"] = file["v"].ref


def empty_axis(file: h5py.File) -> None:
    file["t"] = np.zeros(0)
    file["t"].make_scale("t")
    file["v"] = np.zeros((0, 3), "f4")
    file["v"].dims[0].attach_scale(file["t"])


def null_space(file: h5py.File) -> None:
    file["v"] = h5py.Empty("f4")
    file["w"] = ramp((3,), "f4")


def of_type(kind: Any, values: Any, file: h5py.File) -> None:
    made = file.create_dataset("v", shape=(len(values),), dtype=kind)
    for number, each in enumerate(values):
        made[number] = each


def pointers(file: h5py.File) -> None:
    file["w"] = ramp((3,), "f4")
    file.create_dataset("v", data=[file["w"].ref], dtype=h5py.ref_dtype)


def soft_links(file: h5py.File) -> None:
    file["inner/deep"] = ramp(SHAPE, "i4")
    file["v"] = h5py.SoftLink("inner/deep")
    file["gone"] = h5py.SoftLink("/nowhere")


def endless_links(file: h5py.File) -> None:
    file["v"] = h5py.SoftLink("w")
    file["w"] = h5py.SoftLink("v")


def with_user_block(folder: Path) -> Path:
    made = folder / "odd.h5"
    with h5py.File(made, "w", userblock_size=1024) as file:
        file["v"] = ramp(SHAPE, "i4")
        chunked_there = file.create_dataset("w", data=ramp(SHAPE, "i4"), chunks=CHUNKS)
        chunked_there.attrs["units"] = "K"
    return made


def newest_format(folder: Path) -> Path:
    made = folder / "odd.h5"
    with h5py.File(made, "w", libver="latest") as file:
        file["v"] = ramp(SHAPE, "i4")
        file.create_dataset("w", data=ramp(SHAPE, "i4"), chunks=CHUNKS, compression="gzip")
        file.create_dataset("x", data=ramp(SHAPE, "i4"), chunks=SHAPE)
        file.create_dataset("y", data=ramp(SHAPE, "i4"), chunks=CHUNKS, maxshape=(None, 5))
    return made


# --- values in other files ---


def beside(folder: Path) -> tuple[str, ...]:
    return (str(folder / "others"),)


def raw_file(parts: int, folder: Path) -> Path:
    (folder / "others").mkdir()
    data = ramp(SHAPE, "<i4").tobytes()
    size = -(-len(data) // parts)
    places = []
    for number in range(parts):
        raw = folder / "others" / f"{number}.raw"
        piece = data[number * size : (number + 1) * size]
        raw.write_bytes(b"head" + piece)
        places.append((str(raw), 4, len(piece)))
    with h5py.File(folder / "odd.h5", "w") as file:
        file.create_dataset("v", shape=SHAPE, dtype="<i4", external=places)
    return folder / "odd.h5"


def relative_raw_file(folder: Path) -> Path:
    made = raw_file(1, folder)
    made.unlink()
    with h5py.File(made, "w") as file:
        places = [("others/0.raw", 4, h5py.h5f.UNLIMITED)]
        file.create_dataset(
            "v", shape=SHAPE, dtype="<i4", external=places, efile_prefix="${ORIGIN}"
        )
    return made


def short_raw_file(folder: Path) -> Path:
    made = raw_file(1, folder)
    raw = folder / "others" / "0.raw"
    raw.write_bytes(raw.read_bytes()[:-10])
    return made


def read_raw(path: Path) -> Values:
    return {"v": ramp(SHAPE, "<i4")}


def linked(folder: Path) -> Path:
    (folder / "others").mkdir()
    with h5py.File(folder / "others" / "b.h5", "w") as file:
        file.create_dataset("inner/v", data=ramp(SHAPE, "f4"), chunks=CHUNKS, compression="gzip")
    with h5py.File(folder / "odd.h5", "w") as file:
        file["v"] = h5py.ExternalLink("others/b.h5", "/inner/v")
        file["w"] = ramp(SHAPE, "i4")
    return folder / "odd.h5"


def linked_to_damage(folder: Path) -> Path:
    """A sound file that leads to one with a damaged index."""
    (folder / "others").mkdir()
    reindexed(misplaced, folder / "others").rename(folder / "others" / "b.h5")
    with h5py.File(folder / "odd.h5", "w") as file:
        file["v"] = h5py.ExternalLink("others/b.h5", "/v")
    return folder / "odd.h5"


def virtual(folder: Path) -> Path:
    (folder / "others").mkdir()
    layout = h5py.VirtualLayout(shape=SHAPE, dtype="<i4")
    for row in range(SHAPE[0]):
        with h5py.File(folder / "others" / f"{row}.h5", "w") as file:
            file["row"] = ramp(SHAPE, "<i4")[row]
        layout[row] = h5py.VirtualSource(f"others/{row}.h5", "row", shape=SHAPE[1:])
    with h5py.File(folder / "odd.h5", "w") as file:
        file.create_virtual_dataset("v", layout, fillvalue=-1)
    return folder / "odd.h5"


def virtual_inside(folder: Path) -> Path:
    with h5py.File(folder / "odd.h5", "w") as file:
        file["rows"] = ramp(SHAPE, "<i4")
        layout = h5py.VirtualLayout(shape=(SHAPE[1],), dtype="<i4")
        layout[:] = h5py.VirtualSource(file["rows"])[2]
        file.create_virtual_dataset("v", layout)
    return folder / "odd.h5"


def incomplete(folder: Path) -> Path:
    made = virtual(folder)
    (folder / "others" / "3.h5").unlink()
    return made


def chained(folder: Path) -> Path:
    """An allowed file that leads on to one that is not."""
    made = linked(folder)
    (folder / "secret").mkdir()
    os.rename(folder / "others" / "b.h5", folder / "secret" / "b.h5")  # noqa: PTH104
    with h5py.File(folder / "others" / "b.h5", "w") as file:
        file["inner"] = h5py.ExternalLink("../secret/b.h5", "/inner")
    return made


def by_symlink(folder: Path) -> Path:
    """A file of raw values that is below the prefix by name only."""
    made = raw_file(1, folder)
    raw = folder / "others" / "0.raw"
    os.rename(raw, folder / "secret.raw")  # noqa: PTH104
    raw.symlink_to(folder / "secret.raw")
    return made


def _cases() -> Iterator[Case]:
    for dtype in (*TYPES, *ODD_TYPES):
        name = np.dtype(dtype).str if np.dtype(dtype).names is None else "pair"
        yield case(f"contiguous-{name}", partial(contiguous, dtype))
        yield case(f"compact-{name}", partial(compact, dtype))
        yield case(f"chunked-{name}", partial(chunked, dtype, {}))
    for label, options in FILTERS.items():
        for dtype in ("i1", ">i2", "<f4", "<f8", "S5"):
            made = partial(chunked, dtype, options)
            is_lzf = "lzf" in label  # which no codec of Zarr decodes
            known = {"outcome": Outcome.COPIED, "told": "lzf"} if is_lzf else {}
            yield case(f"{label}-{np.dtype(dtype).str}", made, **known)
    for dtype, digits in (("<i2", 0), ("<i4", 0), (">u4", 0), ("<f4", 2), ("<f8", 3)):
        yield case(
            f"scaleoffset-{dtype}",
            partial(scale_offset, dtype, digits),
            outcome=Outcome.COPIED,
            told="scaleoffset",
        )
    yield case("12-bits", narrow, outcome=Outcome.COPIED, told="only HDF5 knows")
    yield case("12-bits-higher", shifted, outcome=Outcome.COPIED, told="only HDF5 knows")
    yield case("12-bits-in-pairs", narrow_pairs, outcome=Outcome.COPIED, told="only HDF5 knows")
    for label, places in (("out-of-order", (4, 0)), ("with-gaps", (0, 6))):
        far = partial(far_pairs, places)
        odd: dict[str, Any] = {"outcome": Outcome.COPIED, "told": "only HDF5 knows"}
        yield case(f"pairs-{label}", far, truth=read_far, **odd)
    yield case("bit-fields", bit_fields, outcome=Outcome.COPIED, told="only HDF5 knows")
    for label, padding in (("blanks", h5t.STR_SPACEPAD), ("an-end", h5t.STR_NULLTERM)):
        put = partial(texts_of, padding)
        yield case(f"texts-with-{label}", put, outcome=Outcome.COPIED, told="only HDF5 knows")
    for label, options in (("gzip", {"compression": "gzip"}), ("shuffle", {"shuffle": True})):
        bare = partial(bare_edges, options)
        yield Case(f"hdf5/bare-edges-{label}", bare, read, Outcome.COPIED, "at the edges")
    for label, change, told in (
        ("two-at-one-place", misplaced, "the same place"),
        ("index-beyond-the-shape", far_off, "beyond the shape"),
        ("index-out-of-order", swapped, "does not find all chunks"),
        ("index-cut-off", cut_off, "does not find all chunks"),
    ):
        index = partial(reindexed, change)
        yield Case(f"hdf5/{label}", index, nothing, Outcome.REFUSED, told)
    yield case("sparse", sparse)
    yield case("never-written", partial(never_written, {}))
    yield case("never-written-chunks", partial(never_written, {"chunks": CHUNKS}))
    yield case("resized", growing)
    yield case("skipped-filter", skipped_filter, outcome=Outcome.COPIED, told="skipped a filter")
    yield case(
        "unknown-filter", unknown_filter, outcome=Outcome.REFUSED, told="32999", truth=nothing
    )
    yield case("sum-then-gzip", partial(filters, ("sum", "gzip")))
    yield case("sum-then-shuffle", partial(filters, ("sum", "shuffle")))
    for order, told in (
        (("gzip", "shuffle"), "shuffle"),
        (("gzip", "gzip"), "twice"),
        (("shuffle", "shuffle"), "twice"),
        (("shuffle", "sum", "gzip", "sum"), "twice"),
    ):
        label = "-then-".join(order)
        yield case(label, partial(filters, order), outcome=Outcome.COPIED, told=told)
    for name in (b"zarr.json", b"back\\slash", b"no text \xff"):
        put = partial(called, name)
        label = f"called-{name.decode('ascii', 'replace')}"
        yield case(label, put, outcome=Outcome.REFUSED, told="called", truth=nothing)
    yield case("scalars", scalars)
    yield case("texts", texts)
    yield case("enumerated", enumerated)
    yield case("attributes", attributes)
    yield case("empty-axis", empty_axis)
    yield case("null-space", null_space, outcome=Outcome.REFUSED, told="'v'", truth=nothing)
    for label, kind, values in (
        ("vlen", h5py.vlen_dtype("i4"), [[1, 2], [3]]),
        ("array", np.dtype(("i4", (3,))), [[1, 2, 3]]),
    ):
        yield case(
            f"type-{label}",
            partial(of_type, kind, values),
            outcome=Outcome.REFUSED,
            told="'v'",
            truth=nothing,
        )
    for label, unknown in (
        ("3-bytes", partial(unheard_of, 3)),
        ("16-bytes", partial(unheard_of, 16)),
        ("time", partial(moments)),
    ):
        told = "does not support the type of 'v'"
        yield case(f"type-{label}", unknown, outcome=Outcome.REFUSED, told=told, truth=nothing)
    opaque = h5py.opaque_dtype(np.dtype("V5"))
    yield case("type-opaque", partial(of_type, opaque, [np.void(b"abcde")] * 3))
    yield case("type-reference", pointers, outcome=Outcome.REFUSED, told="'v'", truth=nothing)
    yield case("soft-links", soft_links, truth=lambda path: {"v": ramp(SHAPE, "i4")})
    yield case(
        "endless-links", endless_links, outcome=Outcome.REFUSED, told="or to itself", truth=nothing
    )
    for label, make, truth, outcome, told in (
        ("user-block", with_user_block, read, Outcome.REFERRED, ""),
        ("newest", newest_format, read, Outcome.REFERRED, ""),
        ("virtual-inside", virtual_inside, read, Outcome.COPIED, "virtual dataset"),
    ):
        yield Case(f"hdf5/{label}", make, truth, outcome, told)
    yield from _elsewhere()


def _elsewhere() -> Iterator[Case]:
    far: tuple[tuple[str, Callable[[Path], Path], Callable[[Path], Values], Outcome, str], ...] = (
        ("raw", partial(raw_file, 1), read_raw, Outcome.REFERRED, ""),
        ("raw-relative", relative_raw_file, read_raw, Outcome.REFERRED, ""),
        ("raw-two", partial(raw_file, 2), read_raw, Outcome.COPIED, "several files"),
        ("linked", linked, read, Outcome.REFERRED, ""),
        ("virtual", virtual, read, Outcome.COPIED, "virtual dataset"),
    )
    for label, make, truth, outcome, told in far:
        yield Case(f"hdf5/{label}", make, truth, outcome, told, allow=beside)
        yield Case(f"hdf5/{label}-not-allowed", make, truth, Outcome.REFUSED, "was not allowed")
    wrong: tuple[tuple[str, Callable[[Path], Path], str], ...] = (
        ("raw-short", short_raw_file, "too short"),
        ("virtual-incomplete", incomplete, "3.h5"),
        ("link-leads-on", chained, "was not allowed"),
        ("linked-to-damage", linked_to_damage, "leads to another file: the index of the chunks"),
        ("raw-symlink", by_symlink, "was not allowed"),
    )
    for label, make, told in wrong:
        yield Case(f"hdf5/{label}", make, nothing, Outcome.REFUSED, told, allow=beside)


HDF = tuple(_cases())
