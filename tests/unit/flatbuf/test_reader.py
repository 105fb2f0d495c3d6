"""FlatBuffers of others are read within bounds: whatever the offsets say, the error says so."""

from __future__ import annotations

import struct

import numpy as np
import pytest

from frazil.errors import FormatError
from frazil.flatbuf import reader
from frazil.flatbuf.reader import Buffer

FORM = struct.Struct("<I")


def body() -> bytes:
    """A table of one number: root offset, vtable (size, table size, field at 4), table."""
    return struct.pack("<IHHHHiI", 12, 6, 8, 4, 0, 8, 77)


def test_a_table_is_read() -> None:
    table = Buffer(body(), "f").root()
    assert table.number(0, FORM) == 77
    assert table.number(1, FORM, 5) == 5
    assert table.at(9) is None


@pytest.mark.parametrize(
    ("at", "packed"),
    [
        (0, struct.pack("<I", 9999)),  # the root lies outside
        (4, struct.pack("<H", 5)),  # a vtable of half a field
        (4, struct.pack("<H", 60000)),  # and one beyond the end
        (6, struct.pack("<H", 500)),  # a table beyond the end
        (12, struct.pack("<i", 5000)),  # a vtable before the beginning
    ],
)
def test_offsets_that_lead_outside_are_damage(at: int, packed: bytes) -> None:
    damaged = body()[:at] + packed + body()[at + len(packed) :]
    with pytest.raises(FormatError, match="damaged file") as caught:
        Buffer(damaged, "manifests/X").root().number(0, FORM)
    assert "manifests/X" in str(caught.value)


def test_bytes_are_not_taken_again_and_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "SHARED", 4)
    buffer = Buffer(bytes(8), "f")
    with buffer.once():
        buffer.slice(0, 8)
        buffer.slice(0, 4)
        with pytest.raises(FormatError, match="too often"):
            buffer.slice(0, 1)
    buffer.slice(0, 8)


def test_long_lists_of_the_same_item_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "REPEATS_FROM", 3)
    buffer = Buffer(b"", "f")
    buffer.few_repeats(np.array([b"a", b"a", b"a"], "V1"))
    buffer.few_repeats(np.array([b"a", b"a", b"b", b"b"], "V1"))
    with pytest.raises(FormatError, match="too often"):
        buffer.few_repeats(np.array([b"a", b"a", b"a", b"b", b"a"], "V1"))


def test_text_is_utf8() -> None:
    assert Buffer(b"\x02\0\0\0\xc3\xbc", "f").text(0) == "ü"
    with pytest.raises(FormatError, match="UTF-8"):
        Buffer(b"\x01\0\0\0\xff", "f").text(0)
