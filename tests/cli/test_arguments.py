"""How arguments are read."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from frazil.cli.arguments import parse_index, parse_region, parse_time
from frazil.cli.text import size
from frazil.cli.values import shortened_region
from frazil.errors import InvalidInputError
from frazil.masking import clean

NOW = datetime(2024, 5, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("30d", NOW - timedelta(days=30)),
        ("2 w", NOW - timedelta(weeks=2)),
        ("90m", NOW - timedelta(minutes=90)),
        ("2024-04-01", datetime(2024, 4, 1, tzinfo=UTC)),
        ("2024-04-01T06:00Z", datetime(2024, 4, 1, 6, tzinfo=UTC)),
        ("2024-04-01T06:00+02:00", datetime(2024, 4, 1, 6, tzinfo=timezone(timedelta(hours=2)))),
    ],
)
def test_times_are_dates_or_ages(text: str, expected: datetime) -> None:
    assert parse_time(text, NOW) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", (slice(0, 4, 1), slice(0, 6, 1))),
        ("1", (slice(1, 2, 1), slice(0, 6, 1))),
        ("[-1, 1:-1:2]", (slice(3, 4, 1), slice(1, 5, 2))),
        (":, 9:", (slice(0, 4, 1), slice(6, 6, 1))),
    ],
)
def test_regions_are_written_as_in_numpy(text: str, expected: tuple[slice, ...]) -> None:
    assert parse_region(text, (4, 6)) == expected


@pytest.mark.parametrize("text", ["a", "1,2,3", "4", "::-1", "1.5"])
def test_other_regions_are_refused(text: str) -> None:
    with pytest.raises(InvalidInputError):
        parse_region(text, (4, 6))


@pytest.mark.parametrize("limit", [1, 2, 5, 6, 7, 13, 23, 24, 100])
def test_a_cut_region_keeps_to_its_limit(limit: int) -> None:
    region = parse_region("0:10:3, :", (10, 6))
    shape = [len(range(*part.indices(10))) for part in shortened_region(region, limit)]
    assert 1 <= shape[0] * shape[1] <= limit
    assert shortened_region(region, 24) == region


def test_chunk_indices() -> None:
    assert parse_index("c/0/3") == (0, 3)
    assert parse_index("[0, 3]") == (0, 3)
    assert parse_index("c") == ()
    with pytest.raises(InvalidInputError):
        parse_index("0,x")


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 B"), (1023, "1023 B"), (1024, "1 KiB"), (1_023_999, "0.977 MiB"), (3 << 40, "3 TiB")],
)
def test_sizes_have_three_digits(count: int, text: str) -> None:
    assert size(count) == text


def test_control_characters_are_shown_not_obeyed() -> None:
    assert clean("a\x1b]0;x\x07\u202e\n\tb") == "a\\x1b]0;x\\x07\\x202e\n\tb"
