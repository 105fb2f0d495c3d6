"""How objects show themselves: as lines, as source that rebuilds them, and as pages."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum

import pytest
from hypothesis import given
from hypothesis import strategies as st

from frazil.model.display import Field, HasRepr, Verbatim, field_text, quoted, source
from frazil.naming import OFFICIAL, shown_as

SECRET = "hush"


class Colour(Enum):
    red = 1


class Shown(HasRepr):
    """An object with any fields."""

    _shown_name = "config.Shown"

    def __init__(self, *fields: Field) -> None:
        self.fields = fields

    def _shown_fields(self) -> Iterable[Field]:
        return self.fields


class Rebuilt(Shown):
    _executable = True


class Theirs(Shown):
    _shown_package = OFFICIAL


@given(st.text(st.characters(codec="utf-8")))
def test_quoted_text_is_python_in_double_quotes(text: str) -> None:
    found = quoted(text)
    assert found[0] == found[-1] == '"'
    assert eval(found) == text


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("it's", '"it\'s"'),
        ('"', '"\\""'),
        (["a", 1, None], '["a", 1, None]'),
        ((), "()"),
        (("a",), '("a",)'),
        ((1, 2), "(1, 2)"),
        ({"a": [1.5]}, '{"a": [1.5]}'),
        (Colour.red, "frazil.Colour.red"),
        (f"s3://user:{SECRET}@host/x", '"s3://****@host/x"'),
    ],
)
def test_values_are_shown_as_source_without_secrets(value: object, expected: str) -> None:
    assert source(value) == expected


def test_a_default_is_marked_as_one() -> None:
    assert field_text(Field("a", None, 3)) == "3 (default)"
    assert field_text(Field("a", 3, 3)) == "3"
    assert field_text(Field("a", None)) == "None"
    assert field_text(Field("a", Colour.red)) == "red"
    assert field_text(Field("a", Verbatim("as it stands"))) == "as it stands"


def test_lines_of_objects_inside_are_indented() -> None:
    inner = Shown(Field("level", 3))
    outer = Shown(Field("name", "x"), Field("inner", inner), Field("each", {"k": inner}))
    assert str(outer) == "\n".join(
        [
            "<frazil.Shown>",
            'name: "x"',
            "inner:",
            "    <frazil.Shown>",
            "    level: 3",
            "each:",
            "    k:",
            "        <frazil.Shown>",
            "        level: 3",
        ]
    )
    assert repr(outer) == str(outer)


def test_an_object_that_can_be_rebuilt_shows_how() -> None:
    inner = Rebuilt(Field("level", 3))
    outer = Rebuilt(Field("name", "x"), Field("each", {"k": inner}), Field("none", None, 5))
    assert repr(outer) == "\n".join(
        [
            "frazil.Shown(",
            '    name="x",',
            "    each={",
            '        "k": frazil.Shown(',
            "            level=3,",
            "        ),",
            "    },",
            "    none=None,",
            ")",
        ]
    )
    assert repr(Rebuilt()) == "frazil.Shown()"


def test_names_are_those_of_the_package_of_the_class_or_of_the_view() -> None:
    assert repr(Theirs()) == f"<{OFFICIAL}.config.Shown>"
    assert f'class="{OFFICIAL}-repr"' in Theirs()._repr_html_()
    with shown_as(OFFICIAL):
        assert repr(Shown()) == f"<{OFFICIAL}.config.Shown>"
    assert repr(Shown()) == "<frazil.Shown>"


def test_pages_escape_what_lines_only_clean() -> None:
    evil = f"<b>\x1b[31m https://u:{SECRET}@h/"
    shown = Shown(Field(evil, Verbatim(evil)), Field("text", evil), Field("in", {evil: Shown()}))
    page, lines = shown._repr_html_(), str(shown)
    for text in (page, lines):
        assert SECRET not in text
        assert "\x1b" not in text
    assert "<b>" not in page
    assert "&lt;b&gt;" in page
    assert "<b>" in lines


def test_objects_inside_a_page_are_folded() -> None:
    page = Shown(Field("inner", Shown(Field("level", 3))), Field("n", 1))._repr_html_()
    assert page.count("<details>") == page.count("</details>") == 1
    assert page.count("<div") == page.count("</div>")
    assert page.count("<style>") == 1
