"""Changes to files as damage, careless writers and attackers make them, format by format.

Most random changes hit values. Those that matter hit what a reader trusts: lengths, counts,
offsets, types, dimensions and filters. So numbers are looked for where a format has them, and get
other values that such a number could have.
"""

from __future__ import annotations

import json
import random
import struct
from collections.abc import Iterator, Sequence
from typing import Any, Final

EDGES: Final = (0, 1, 0x7F, 0x80, 0xFF)
_FILTERS: Final = (1, 2, 3, 4, 5, 6, 32000, 32001, 32015)
_TIFF_TAGS: Final = {
    256: (1, 3, 8, 16, 17, 64), 257: (1, 3, 8, 16, 17, 64), 258: (1, 4, 8, 12, 16, 32, 64),
    259: (1, 2, 5, 7, 8, 32773, 32946, 34712, 34925, 50000, 50001), 262: (0, 1, 2, 3, 5, 6),
    266: (1, 2), 274: (1, 2, 3, 8), 277: (1, 2, 3, 4, 0), 278: (1, 2, 7, 16, 1 << 31),
    284: (1, 2), 317: (1, 2, 3, 34892), 322: (16, 32, 0, 7), 323: (16, 32, 0, 7),
    339: (1, 2, 3, 4, 5, 6),
}  # fmt: skip
"""what the tags of an image mean for its bytes, and values they may have"""
_WIDTHS: Final = {1: 1, 2: 1, 3: 2, 4: 4, 16: 8}
"""bytes of the types of TIFF tags that hold whole numbers"""


def damaged(data: bytes, chance: random.Random, others: Sequence[bytes] = ()) -> bytes:
    """A file with something wrong in it; `others` are files of its kind, to take pieces from."""
    ways: list[Any] = [_scattered, _renumbered, _renumbered]
    if others:
        ways.append(lambda given, by: _spliced(given, by.choice(others), by))
    if data[:3] == b"CDF":
        ways += [_classic] * 3
    elif data[:2] in (b"II", b"MM"):
        ways += [_tagged] * 3
    elif data[:4] == b"GRIB":
        ways += [_sectioned] * 3
    elif data[:8] == b"\x89HDF\r\n\x1a\n":
        ways += [_filtered, _renumbered]
    elif data.lstrip()[:1] in (b"{", b"["):
        ways += [changed_json] * 3 + [_swapped] * 2
    made = data
    for _ in range(chance.choice((1, 1, 1, 2, 3))):
        made = chance.choice(ways)(made, chance) or made
    return summed(made) if chance.random() < 0.8 else made


# --- any file ---


def changed_bytes(data: bytes, chance: random.Random) -> bytes:
    """Bytes changed, taken away, repeated or moved; numbers that might be lengths or offsets."""
    made = bytearray(data or b"\0")
    at, size = chance.randrange(len(made)), chance.choice((1, 2, 4, 8))
    match chance.choices(range(7), (7, 3, 4, 2, 2, 2, 1))[0]:
        case 0:
            for _ in range(chance.choice((1, 1, 1, 2, 4))):
                made[chance.randrange(len(made))] ^= 1 << chance.randrange(8)
        case 1:
            made[at : at + size] = bytes(chance.choice(EDGES) for _ in made[at : at + size])
        case 2:
            number = int.from_bytes(made[at : at + size], "little")
            made[at : at + size] = _like(number, size, len(made), chance).to_bytes(size, "little")
        case 3:
            del made[at:]
        case 4:
            piece = made[at : at + size * chance.choice((1, 8))]
            to = chance.randrange(len(made))
            made[to:to] = piece * chance.choice((1, 1, 2, 100))
        case 5:
            del made[at : at + size * chance.choice((1, 4))]
        case _:
            to = chance.randrange(len(made))
            made[to : to + 2 * size] = made[at : at + 2 * size]
    return bytes(made)


def _scattered(data: bytes, chance: random.Random) -> bytes:
    """One change or several."""
    for _ in range(chance.choice((1, 1, 2, 4, 16))):
        data = changed_bytes(data, chance)
    return data


def _like(number: int, width: int, size: int, chance: random.Random) -> int:
    """Another number that could be a length, a count or an offset in a file of some size."""
    most = (1 << 8 * width) - 1
    found = chance.choice(
        (
            number + 1, number - 1, number * 2, number // 2, number + 8, number - 8, number ^ 0x80,
            0, 1, 2, size, size - 1, size + 1, most, most >> 1, (most >> 1) + 1,
            1 << chance.randrange(8 * width), chance.randrange(64), chance.randrange(size + 1),
        )
    )  # fmt: skip
    return found & most


def _renumbered(data: bytes, chance: random.Random) -> bytes:
    """Another number, where there is one that may be a length, a count, an offset or a type."""
    size = len(data)
    for _ in range(24):
        width = chance.choice((1, 2, 4, 4, 8, 8))
        if size < width:
            return data
        order = chance.choice(("little", "big"))
        at = chance.randrange(min(size, 4096) - width + 1 or 1)
        number = int.from_bytes(data[at : at + width], order)  # type: ignore[arg-type]
        if 0 < number <= 2 * size:
            new = _like(number, width, size, chance)
            return data[:at] + new.to_bytes(width, order) + data[at + width :]  # type: ignore[arg-type]
    return _scattered(data, chance)


def _spliced(data: bytes, other: bytes, chance: random.Random) -> bytes:
    """The beginning of one file and the end of another, or a piece of it in between."""
    at = chance.randrange(min(len(data), len(other)) + 1)
    if chance.random() < 0.5:
        return data[:at] + other[at:]
    end = at + chance.choice((8, 16, 32, 128, 512))
    return data[:at] + other[at:end] + data[end:]


# --- NetCDF 3, GRIB, TIFF ---


def _classic(data: bytes, chance: random.Random) -> bytes:
    """Another word in the header of a NetCDF 3 file."""
    words = max(1, min(len(data), 512) // 4)
    at = 4 * chance.randrange(words)
    number = int.from_bytes(data[at : at + 4], "big")
    return data[:at] + _like(number, 4, len(data), chance).to_bytes(4, "big") + data[at + 4 :]


def _sections(data: bytes) -> Iterator[tuple[int, int]]:
    """Where the sections of the first GRIB message begin, and how long they are."""
    at, first = (16, 4) if data[7:8] == b"\x02" else (8, 3)
    while at + first < len(data) and data[at : at + 4] != b"7777":
        length = int.from_bytes(data[at : at + first], "big")
        if length < first:
            return
        yield at, length
        at += length


def _sectioned(data: bytes, chance: random.Random) -> bytes:
    """Something else in a section of a GRIB message, or a section more or less."""
    found = [*_sections(data)]
    if not found:
        return _scattered(data, chance)
    at, length = chance.choice(found)
    if chance.random() < 0.15:
        piece = data[at : at + length]
        made = data[:at] + chance.choice((b"", piece + piece)) + data[at + length :]
    else:
        width = chance.choice((1, 1, 2, 4))
        place = min(at + chance.randrange(min(length, 96)), len(data) - width)
        number = int.from_bytes(data[place : place + width], "big")
        new = _like(number, width, length, chance).to_bytes(width, "big")
        made = data[:place] + new + data[place + width :]
    if chance.random() < 0.8 and data.count(b"GRIB") == 1:  # the message tells its length again
        start, width = (8, 8) if data[7:8] == b"\x02" else (4, 3)
        made = made[:start] + len(made).to_bytes(width, "big") + made[start + width :]
    return made


def _tagged(data: bytes, chance: random.Random) -> bytes:
    """Another value, count or type of a tag of the first image of a TIFF file."""
    order: Any = "little" if data[:2] == b"II" else "big"

    def number(at: int, width: int) -> int:
        return int.from_bytes(data[at : at + width], order)

    is_big = number(2, 2) == 43
    wide = 8 if is_big else 4
    start = number(8 if is_big else 4, wide)
    count = number(start, 8 if is_big else 2)
    first, step = start + (8 if is_big else 2), 20 if is_big else 12
    entries = [at for at in range(first, first + step * min(count, 64), step) if at < len(data)]
    if not entries:
        return _scattered(data, chance)
    at = chance.choice(entries)
    tag, kind = number(at, 2), number(at + 2, 2)
    width = _WIDTHS.get(kind, wide)
    place, size = chance.choice(((at + 4, wide), (at + 4 + wide, width), (at + 4 + wide, width)))
    new = _like(number(place, size), size, len(data), chance)
    if place > at + 4 and tag in _TIFF_TAGS and chance.random() < 0.7:
        new = chance.choice(_TIFF_TAGS[tag]) & ((1 << 8 * size) - 1)
    elif chance.random() < 0.1:
        place, size, new = at + 2, 2, chance.choice((1, 2, 3, 4, 5, 12, 16))
    return data[:place] + new.to_bytes(size, order) + data[place + size :]


# --- HDF5 ---


def _filtered(data: bytes, chance: random.Random) -> bytes:
    """Another filter, where a number may be the code of one."""
    codes = [code.to_bytes(2, "little") for code in _FILTERS]
    places = [
        at
        for at in range(0, min(len(data), 1 << 15) - 1, 2)
        if data[at : at + 2] in codes and data[at + 2 : at + 4] in (b"\0\0", b"\x08\0", b"\x01\0")
    ]
    if not places:
        return _renumbered(data, chance)
    at = chance.choice(places)
    return data[:at] + chance.choice(codes) + data[at + 2 :]


def summed(data: bytes) -> bytes:
    """The same with right checksums in the superblock and the object headers of HDF5."""
    if data[:8] != b"\x89HDF\r\n\x1a\n":
        return data
    made = bytearray(data)
    if data[8:9] in (b"\x02", b"\x03") and len(data) >= 48:
        made[44:48] = _lookup3(bytes(made[:44]))
    at = data.find(b"OHDR")
    while at >= 0:
        end = _end_of_header(data, at)
        if end is not None and end + 4 <= len(data):
            made[end : end + 4] = _lookup3(bytes(made[at:end]))
        at = data.find(b"OHDR", at + 4)
    return bytes(made)


def _end_of_header(data: bytes, at: int) -> int | None:
    """Where the checksum of an object header is."""
    if len(data) < at + 16 or data[at + 4] != 2:
        return None
    flags = data[at + 5]
    first = at + 6 + (16 if flags & 0x20 else 0) + (4 if flags & 0x10 else 0)
    width = 1 << (flags & 3)
    return first + width + int.from_bytes(data[first : first + width], "little")


def _lookup3(data: bytes) -> bytes:
    """The checksum of HDF5's metadata: Jenkins' lookup3, as four bytes."""
    mask = 0xFFFFFFFF

    def turned(value: int, by: int) -> int:
        return (value << by | value >> (32 - by)) & mask

    a = b = c = (0xDEADBEEF + len(data)) & mask
    at, left = 0, len(data)
    while left > 12:
        x, y, z = struct.unpack_from("<3I", data, at)
        a, b, c = (a + x) & mask, (b + y) & mask, (c + z) & mask
        for by in (4, 6, 8, 16, 19, 4):
            a = ((a - c) & mask) ^ turned(c, by)
            c = (c + b) & mask
            a, b, c = b, c, a
        at, left = at + 12, left - 12
    if left:
        x, y, z = struct.unpack("<3I", data[at:].ljust(12, b"\0"))
        a, b, c = (a + x) & mask, (b + y) & mask, (c + z) & mask
        for by in (14, 11, 25, 16, 4, 14, 24):
            c = ((c ^ b) - turned(b, by)) & mask
            a, b, c = b, c, a
        # seven turns leave the last result in b
        c = b
    return c.to_bytes(4, "little")


# --- documents ---

VALUES: Final[tuple[Any, ...]] = (
    None, True, -1, 0, 2**63, 2**64, 2**70, 1e308, float("nan"), 1.5, "", "x", "\ud800", "../../x",
    "\0", [], {}, [[]], {"": {}}, "9" * 5000, [0] * 50,
)  # fmt: skip


def changed_json(data: bytes, chance: random.Random) -> bytes | None:
    """A JSON document with another value somewhere; None if it is none."""
    try:
        document = json.loads(data)
    except ValueError:
        return None
    places = _places(document)
    if not places:
        return json.dumps(chance.choice(VALUES)).encode()
    holder, name = chance.choice(places)
    if chance.random() < 0.25:
        del holder[name]
    else:
        holder[name] = chance.choice(VALUES)
    return json.dumps(document).encode()


def _swapped(data: bytes, chance: random.Random) -> bytes | None:
    """A document in which a value stands where another one stood, perhaps as a text inside it."""
    try:
        document = json.loads(data)
    except ValueError:
        return None
    places = _places(document)
    texts = [(holder, key) for holder, key in places if _is_document(holder[key])]
    if texts and chance.random() < 0.6:
        holder, key = chance.choice(texts)
        inner = holder[key].encode()
        way = chance.choice((_swapped, changed_json))
        holder[key] = (way(inner, chance) or inner).decode("utf-8", "replace")
    elif len(places) > 1:
        (one, first), (other, second) = chance.sample(places, 2)
        one[first], other[second] = other[second], one[first]
    try:
        return json.dumps(document).encode()
    except (ValueError, RecursionError):  # a value was put into itself
        return None


def _places(value: Any) -> list[tuple[Any, Any]]:  # noqa: ANN401  (JSON)
    """All values inside a document: what holds each, and its key there."""
    found, holders = list[tuple[Any, Any]](), [value]
    for holder in holders:
        if isinstance(holder, dict):
            found += [(holder, key) for key in holder]
            holders += holder.values()
        elif isinstance(holder, list):
            found += [(holder, key) for key in range(len(holder))]
            holders += holder
    return found


def _is_document(value: object) -> bool:
    return isinstance(value, str) and value[:1] == "{"
