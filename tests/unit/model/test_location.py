"""A location means one thing, or nothing."""

from __future__ import annotations

import pytest

from frazil.errors import InvalidInputError
from frazil.model.location import ParsedLocation, parse_location


@pytest.mark.parametrize(
    ("url", "parts"),
    [
        ("s3://bucket/a/b", ("s3", "bucket", "a/b")),
        ("S3://Bucket/A", ("s3", "Bucket", "A")),
        ("s3://bucket/a//b/", ("s3", "bucket", "a//b/")),
        ("s3://bucket", ("s3", "bucket", "")),
        ("s3://b/x%20y%2Fz?query#fragment", ("s3", "b", "x y/z")),
        ("s3://b/caf%C3%A9", ("s3", "b", "café")),
        ("s3://b/a..b/...", ("s3", "b", "a..b/...")),
        ("HTTPS://Host.Example:8443/A", ("https", "host.example:8443", "A")),
        ("http://[::1]:80/a", ("http", "[::1]:80", "a")),
        ("file:///a/b", ("file", "", "a/b")),
        ("file://LocalHost/a", ("file", "", "a")),
        ("file://elsewhere/a", ("file", "elsewhere", "a")),
    ],
)
def test_what_a_location_means(url: str, parts: tuple[str, str, str]) -> None:
    assert parse_location(url) == ParsedLocation(*parts)


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("s3://bucket%2Fdata%2F@private/secret", "forbidden character '%'"),
        ("s3://user@bucket/a", "forbidden character '@'"),
        ("http://good.example\\@evil.example/a", "forbidden character"),
        ("http://good.example\t.evil.example/a", "forbidden character"),
        ("http://good example/a", "forbidden character ' '"),
        ("http://good\u200b.example/a", "forbidden character"),
        ("s3:///a", "names no bucket"),
        ("http:///a", "names no bucket"),
        ("s3://b/a/../c", "'.' or '..'"),
        ("s3://b/a/%2e%2E/c", "'.' or '..'"),
        ("s3://b/a%2F..%2Fc", "'.' or '..'"),
        ("s3://b/a/%252e%252e/c", "'.' or '..'"),
        ("s3://b/.", "'.' or '..'"),
        ("http://h/a/..%5Cc", "'.' or '..'"),
        ("http://h/a%0d%0aHost: x", "control characters"),
        ("file:///a%00b", "control characters"),
        ("s3://b/%ff", "does not decode"),
        ("bucket/a", "no URL"),
        ("", "no URL"),
    ],
)
def test_what_could_mean_two_things_is_refused(url: str, why: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        parse_location(url)
    assert why in str(caught.value)


def test_what_is_in_a_folder() -> None:
    folder = parse_location("s3://bucket/data/")
    inside = ("s3://bucket/data/x", "S3://bucket/da%74a/x", "s3://bucket/data%2Fx")
    outside = (
        "s3://bucket/data",
        "s3://bucket/data-2/x",
        "s3://Bucket/data/x",
        "gs://bucket/data/x",
    )
    assert all(parse_location(url).is_in(folder) for url in inside)
    assert not any(parse_location(url).is_in(folder) for url in outside)
