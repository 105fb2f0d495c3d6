"""HTML of notebooks: foreign text stays text, long things stay short."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from frazil.drawing.markup import (
    GREEN,
    LONGEST,
    MOST_ROWS,
    Html,
    coloured,
    escaped,
    fields,
    first,
    folded,
    frame,
    joined_html,
    listing,
    note,
    table,
)
from tests.support.notebooks import EVIL, SECRET, Page


@pytest.mark.parametrize(
    "made",
    [
        escaped(EVIL),
        coloured(EVIL, GREEN),
        frame(EVIL, [escaped(EVIL)]),
        note(EVIL),
        fields([(EVIL, escaped(EVIL))]),
        table([EVIL], [[escaped(EVIL)]]),
        listing([escaped(EVIL)]),
        folded(EVIL, escaped(EVIL)),
    ],
)
def test_foreign_text_is_text_and_has_no_secrets(made: Html) -> None:
    page = Page(made)
    assert "script" not in page.tags
    assert "b" not in page.tags
    assert "<script>alert(1)</script>" in page.text
    assert SECRET not in made
    assert not {"\x1b", "\u202e"} & set(made)


def test_quotes_cannot_end_an_attribute() -> None:
    assert escaped("\" onclick='x'") == "&quot; onclick=&#x27;x&#x27;"


def test_long_values_are_cut() -> None:
    assert escaped("x" * LONGEST) == "x" * LONGEST
    assert escaped("x" * (LONGEST + 1)) == "x" * (LONGEST - 1) + "…"
    assert Page(escaped("<" * 1000)).text == "<" * (LONGEST - 1) + "…"


def test_a_secret_is_hidden_though_the_value_is_cut_behind_it() -> None:
    shown = escaped("x" * (LONGEST - 15) + f" https://u:{SECRET}@h/" + "y" * 100)
    assert SECRET not in shown
    assert len(shown) == LONGEST


@pytest.mark.parametrize("count", [0, 1, MOST_ROWS, MOST_ROWS + 1, MOST_ROWS + 1234])
def test_lists_and_tables_show_the_first_and_count_the_rest(count: int) -> None:
    lines = Page(listing(escaped(f"[{n}]") for n in range(count)))
    rows = Page(table(["n"], ([escaped(f"[{n}]")] for n in range(count))))
    for page in (lines, rows):
        assert page.text.count("[") == min(count, MOST_ROWS)
        more = count - MOST_ROWS
        assert ("more" in page.text) == (more > 0)
        assert more <= 0 or f"… {more:,} more" in page.text


def test_what_follows_is_counted_without_being_kept() -> None:
    def numbers() -> Iterator[int]:
        yield from range(10)

    assert first(numbers(), 3) == ([0, 1, 2], 7)
    assert first(iter(()), 3) == ([], 0)


def test_a_fold_is_closed_unless_asked_for() -> None:
    assert folded("t", note("x")).startswith("<details><summary")
    assert folded("t", note("x"), is_open=True).startswith("<details open><summary")


def test_pieces_are_joined_as_they_are() -> None:
    assert joined_html([escaped("<"), coloured("b", GREEN)], " ") == (
        f'&lt; <span style="color: {GREEN}">b</span>'
    )
    assert joined_html([]) == ""
