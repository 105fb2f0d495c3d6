"""Named values and times in files: what JSON can hold comes back, anything else is refused."""

from __future__ import annotations

import msgpack
import pytest

from frazil.errors import ErrorKind, FormatError, InvalidInputError
from frazil.flatbuf.reader import Buffer, Table
from frazil.flatbuf.writer import OFFSET, FlatWriter, TableLayout
from frazil.formats import flex
from frazil.formats.metadata import (
    LONG_VALUE,
    codec_of,
    read_metadata,
    read_time,
    write_metadata,
)
from frazil.model.plain import JSON, MAX_MICROS, Metadata

KEY = "snapshots/TEST"
SPECS = pytest.mark.parametrize("spec", [1, 2])
SAMPLE: Metadata = {
    "é": [None, True, -1, 2**40, 1.5, "ü"],
    "a": {"b": {"c": []}},
    "": "",
    "Z": 0,
}


def root_of(writer: FlatWriter, root: int) -> Table:
    return Buffer(writer.finish(root, b"Ichk").joined(), KEY).root()


def stored(metadata: Metadata, spec: int) -> Table:
    """A table with nothing but a vector of named values."""
    writer = FlatWriter()
    items = write_metadata(writer, metadata, codec_of(spec, KEY))
    return root_of(writer, writer.table(TableLayout(OFFSET), items))


@SPECS
def test_values_come_back_under_their_names(spec: int) -> None:
    assert read_metadata(stored(SAMPLE, spec), 0, codec_of(spec, KEY)) == SAMPLE
    assert read_metadata(stored({}, spec), 0, codec_of(spec, KEY)) == {}


@SPECS
def test_names_ascend_by_their_bytes(spec: int) -> None:
    names = [item.text(0) for item in stored(SAMPLE, spec).tables(0)]
    assert names == ["", "Z", "a", "é"]


@SPECS
def test_a_missing_list_is_empty_unless_it_is_required(spec: int) -> None:
    writer = FlatWriter()
    bare = root_of(writer, writer.table(TableLayout(OFFSET), None))
    assert read_metadata(bare, 0, codec_of(spec, KEY)) == {}
    with pytest.raises(FormatError, match="metadata"):
        read_metadata(bare, 0, codec_of(spec, KEY), "metadata")


@SPECS
@pytest.mark.parametrize("value", [object(), {1, 2}, 2**64, -(2**63) - 1])
def test_values_that_no_file_can_hold_are_refused(spec: int, value: object) -> None:
    with pytest.raises(InvalidInputError) as caught:
        codec_of(spec, KEY).pack({"x": [value]})
    assert caught.value.kind is ErrorKind.BAD_METADATA


def nested(depth: int) -> JSON:
    value: JSON = 0
    for _ in range(depth):
        value = [value]
    return value


class TestMessagePack:
    """As files of spec 1 have values."""

    @pytest.mark.parametrize(
        "raw",
        [
            b"",
            b"\xc1",
            b"\x92\x01",
            b"\x01\x01",
            msgpack.packb(msgpack.ExtType(5, b"x")),
            msgpack.packb([msgpack.Timestamp(1)]),
            msgpack.packb({1: 2}),
            b"\xa2\xff\xff",
            b"\xdd\xff\xff\xff\xff",
        ],
        ids=bytes.hex,
    )
    def test_damage_is_told_with_the_file(self, raw: bytes) -> None:
        with pytest.raises(FormatError) as caught:
            codec_of(1, KEY).unpack(raw)
        assert caught.value.facts["key"] == KEY

    def test_bytes_become_numbers_wherever_they_are(self) -> None:
        raw = msgpack.packb({"a": b"\x01\xff", "b": [b""]}, use_bin_type=True)
        assert codec_of(1, KEY).unpack(raw) == {"a": [1, 255], "b": [[]]}

    def test_values_may_be_nested_as_deep_as_in_newer_files(self) -> None:
        deepest = nested(flex.MAX_DEPTH)
        assert codec_of(1, KEY).unpack(msgpack.packb(deepest)) == deepest
        for depth in (flex.MAX_DEPTH + 1, 5000):
            raw = b"\x91" * depth + b"\x00"
            with pytest.raises(FormatError):
                codec_of(1, KEY).unpack(raw)

    def test_long_values_are_read_like_short_ones(self) -> None:
        long: JSON = {"text": "x" * LONG_VALUE, "list": [1, None, {"a": -1}]}
        assert codec_of(1, KEY).unpack(codec_of(1, KEY).pack(long)) == long
        padding = msgpack.packb("x" * LONG_VALUE)
        for bad in (msgpack.packb(msgpack.ExtType(5, b"x")), msgpack.packb({1: 2})):
            with pytest.raises(FormatError) as caught:
                codec_of(1, KEY).unpack(b"\x92" + padding + bad)
            assert caught.value.facts["key"] == KEY

    def test_a_long_value_of_very_many_items_is_refused(self) -> None:
        """Each takes a byte in the file, and a hundred times as much in memory."""
        count = 16 * LONG_VALUE
        raw = b"\xdd" + count.to_bytes(4, "big") + bytes(LONG_VALUE)
        with pytest.raises(FormatError):
            codec_of(1, KEY).unpack(raw)


@pytest.mark.parametrize("when", [0, 1, MAX_MICROS])
def test_times_that_a_date_can_be_made_of_are_read(when: int) -> None:
    writer = FlatWriter()
    assert read_time(root_of(writer, writer.table(TableLayout("u64"), when)), 0) == when


@pytest.mark.parametrize("when", [MAX_MICROS + 1, 2**64 - 1])
def test_later_times_are_refused(when: int) -> None:
    writer = FlatWriter()
    with pytest.raises(FormatError, match="impossible time") as caught:
        read_time(root_of(writer, writer.table(TableLayout("u64"), when)), 0)
    assert caught.value.facts["key"] == KEY
