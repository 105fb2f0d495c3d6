"""The two headers of G3, byte by byte, and what else is around a body."""

from __future__ import annotations

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from frazil.errors import FormatError
from frazil.formats.envelope import FileKind, seal
from frazil.formats.legacy.header import (
    BARE,
    LONG,
    SHORT,
    Encoding,
    Wrapping,
    header_size,
    refuse_flat,
    sniff,
    unwrap,
    wrap,
)

MAGIC = bytes.fromhex("494345f09fa78a4348554e4b")
SEED_HEADER = MAGIC + bytes.fromhex("69632d312e302e3020202020 010101")
LONG_HEADER = MAGIC + bytes.fromhex("69632d302e312e302d616c7068612e3135" + "20" * 7 + "010101")


def test_short_header_byte_by_byte() -> None:
    made = wrap(b"x", FileKind.SNAPSHOT, Wrapping(SHORT, compressed=True), writer="ic-1.0.0")
    assert made[:SHORT] == SEED_HEADER
    assert len(SEED_HEADER) == 27
    assert made[24:27] == b"\1\1\1"


def test_long_header_byte_by_byte() -> None:
    wrapping = Wrapping(LONG, compressed=True)
    made = wrap(b"x", FileKind.SNAPSHOT, wrapping, writer="ic-0.1.0-alpha.15")
    assert made[:LONG] == LONG_HEADER
    assert len(LONG_HEADER) == 39


@pytest.mark.parametrize("kind", [1, 2, 3, 4])
@pytest.mark.parametrize("size", [SHORT, LONG])
@pytest.mark.parametrize("compressed", [True, False])
@pytest.mark.parametrize("writer", ["ic-1.0.0", "", "eiskalt-ÄÖÜ-ÄÖÜ-ÄÖÜ-ÄÖÜ", "x" * 80])
def test_headers_are_told_apart(kind: int, size: int, compressed: bool, writer: str) -> None:
    made = wrap(b"body", FileKind(kind), Wrapping(size, compressed=compressed), writer=writer)
    wrapping, body = unwrap(made, FileKind(kind), key="k")
    assert body == b"body"
    assert (wrapping.header, wrapping.compressed, wrapping.kind) == (size, compressed, kind)
    assert wrapping.spec == 1
    assert writer.startswith(wrapping.writer)


def test_bodies_without_header() -> None:
    assert unwrap(b"\x93\x00\x80\x80", None, key="k") == (BARE, b"\x93\x00\x80\x80")
    packed = zstandard.ZstdCompressor(write_content_size=False).compress(b"\x93\x00\x80\x80")
    assert unwrap(packed, None, key="k") == (Wrapping(compressed=True), b"\x93\x00\x80\x80")


@pytest.mark.parametrize(
    "blob",
    [
        MAGIC,
        SEED_HEADER[:26],
        MAGIC + b"ic-1.0.0".ljust(12) + b"\0\1\1",
        MAGIC + b"ic-1.0.0".ljust(24) + b"\1\x09\1",
        MAGIC + b"ic-1.0.0".ljust(24) + b"\1\1\2",
        SEED_HEADER + b"not zstd",
    ],
)
def test_damaged_headers_are_told(blob: bytes) -> None:
    with pytest.raises(FormatError) as caught:
        unwrap(blob, None, key="snapshots/x")
    assert caught.value.facts["key"] == "snapshots/x"


def test_another_kind_of_file_is_refused() -> None:
    made = wrap(b"x", FileKind.MANIFEST, Wrapping(SHORT))
    with pytest.raises(FormatError, match="another kind"):
        unwrap(made, FileKind.SNAPSHOT, key="k")


def test_bombs_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("frazil.formats.legacy.header.MAX_MESSAGE", 1000)
    for size in (True, False):
        bomb = zstandard.ZstdCompressor(write_content_size=size).compress(bytes(100_000))
        with pytest.raises(FormatError, match="more than is allowed"):
            unwrap(bomb, None, key="k")


def test_newer_files_are_not_taken_for_old_ones() -> None:
    flat = b"\x10\0\0\0Ichk" + bytes(20)
    blob = seal(flat, FileKind.SNAPSHOT, spec=1)
    with pytest.raises(FormatError, match="newer generation"):
        refuse_flat(unwrap(blob, None, key="k")[1], key="k")
    assert sniff(blob) is Encoding.FLATBUFFERS


@pytest.mark.parametrize(
    ("blob", "encoding"),
    [
        (b"PAR1....PAR1", Encoding.PARQUET),
        (b'{"chunks":{}}', Encoding.JSON),
        (b"\x91\x80", Encoding.MSGPACK),
        (b"\x9b\x00", Encoding.MSGPACK),
        (b"\xdc\x00\x10", Encoding.MSGPACK),
        (zstandard.compress(b"\x93\x00\x80\x80"), Encoding.MSGPACK),
        (wrap(b"\x98", FileKind.SNAPSHOT, Wrapping(SHORT, compressed=True)), Encoding.MSGPACK),
        (b"", Encoding.UNKNOWN),
        (b"CDF\x01", Encoding.UNKNOWN),
        (MAGIC, Encoding.UNKNOWN),
        (SEED_HEADER + b"junk", Encoding.UNKNOWN),
    ],
)
def test_files_are_told_by_content(blob: bytes, encoding: Encoding) -> None:
    assert sniff(blob) is encoding


@given(st.binary(max_size=60))
def test_any_bytes_can_be_looked_at(tail: bytes) -> None:
    for blob in (tail, MAGIC + tail):
        assert sniff(blob) in Encoding
        assert header_size(blob) in (0, SHORT, LONG)
