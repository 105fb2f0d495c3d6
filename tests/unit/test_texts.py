"""The grammar of texts that people write."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from frazil.errors import InvalidInputError
from frazil.texts import (
    Compressor,
    age,
    backquoted,
    byte_count,
    chunk_lengths,
    compressor,
    lengths,
    moment,
    names,
    parse_as,
    region,
    settings,
    size,
    span,
)


def test_lengths_of_chunks() -> None:
    assert chunk_lengths("time=100, lat=-1") == {"time": 100, "lat": -1}
    assert chunk_lengths("100,90,-1") == [100, 90, -1]
    for text in ("", "time", "time=1,4", "time=x", "time=0", "time=-2"):
        with pytest.raises(ValueError, match=r"must|are positive"):
            chunk_lengths(text)
    assert lengths("24") == {"": 24}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("zstd", Compressor("zstd", 3)),
        ("ZSTD:9", Compressor("zstd", 9)),
        ("gzip", Compressor("gzip", 5)),
        ("zlib:1", Compressor("gzip", 1)),
        ("blosc", Compressor("blosc", 5, "zstd")),
        ("blosc:lz4", Compressor("blosc", 5, "lz4")),
        ("blosc:lz4:7", Compressor("blosc", 7, "lz4")),
        ("blosc:7", Compressor("blosc", 7, "zstd")),
        ("none", Compressor("none", 0)),
    ],
)
def test_compressors(text: str, expected: Compressor) -> None:
    assert compressor(text) == expected
    codec = compressor(text).codec()
    assert (codec is None) == (text == "none")


@pytest.mark.parametrize("text", ["zip", "zstd:lz4", "zstd:99", "blosc:lz5", "gzip:10", "zstd:"])
def test_other_compressors_are_refused(text: str) -> None:
    with pytest.raises(InvalidInputError, match=r"'compressor' is .*: there is no compressor"):
        parse_as("option 'compressor'", compressor, text)


def test_spans_count_from_both_ends() -> None:
    assert span("1:-1:2", 6) == slice(1, 5, 2)
    assert span("-1", 6) == slice(5, 6, 1)
    assert span(":", 6) == slice(0, 6, 1)
    assert region("[1, 2:]", (4, 6, 5)) == (slice(1, 2, 1), slice(2, 6, 1), slice(0, 5, 1))
    for text in ("6", "-7", "::0", "x", ""):
        with pytest.raises(ValueError, match=r"outside|step|expected"):
            span(text, 6)


def test_times_and_ages() -> None:
    assert moment("2024-05-01") == datetime(2024, 5, 1, tzinfo=UTC)
    assert moment("1714521600000") == datetime(2024, 5, 1, tzinfo=UTC)
    assert age("90s") == timedelta(seconds=90)
    for text in ("", "12", "h", "-1h"):
        with pytest.raises(ValueError, match="an age such as"):
            age(text)


def test_a_letter_is_a_power_of_1024_and_MB_one_of_1000() -> None:
    for text in ("64m", "64M", "64 MiB", "64mib", "64Mi"):
        assert byte_count(text) == size(text) == 64 << 20
    assert byte_count("64 MB") == size("64mb") == 64_000_000
    assert (byte_count("1.5k"), byte_count("3 B"), byte_count("0")) == (1536, 3, 0)
    for text in ("0", "-1", "MB", "1 XB"):
        with pytest.raises(ValueError, match="a positive number of bytes"):
            size(text)


def test_names_in_backquotes_may_have_any_characters() -> None:
    odd = "a `b`, c={0}"
    assert names(f"{backquoted(odd)}, plain ,`two words`") == (odd, "plain", "two words")
    assert settings(f"{backquoted(odd)}=3, time=4") == {odd: "3", "time": "4"}
