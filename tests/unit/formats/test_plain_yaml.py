"""The subset of YAML that configurations are stored in."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from frazil.errors import FormatError
from frazil.formats.config_keys import Variant
from frazil.formats.plain_yaml import MAX_BYTES, MAX_DEPTH, dump_yaml, load_yaml

SCALARS = st.none() | st.booleans() | st.integers(-(2**64), 2**64) | st.text(max_size=8)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner) | st.dictionaries(st.text(max_size=5), inner)
)


@given(VALUES)
@example({"\x85": None, "\u2028": "\n", "a\rb": ["\u2029 "]})
def test_values_come_back(value: object) -> None:
    assert load_yaml(dump_yaml(value), key="config") == value


@pytest.mark.parametrize("text", ["yes", "no", "1:30", "on", "2024-05-01", "<<", "0b1"])
def test_words_of_an_older_yaml_are_text(text: str) -> None:
    assert load_yaml(text.encode(), key="config") == text


@pytest.mark.parametrize(
    ("text", "value"),
    [("~", None), ("True", True), ("0x1F", 31), ("0o17", 15), ("1e3", 1000.0), ("'1'", "1")],
)
def test_plain_words_have_a_type(text: str, value: object) -> None:
    assert load_yaml(text.encode(), key="config") == value


def test_tags_are_names_of_variants() -> None:
    spelled = dump_yaml({"store": Variant("s3", {"region": "x"})})
    assert b"!s3" in spelled
    assert load_yaml(spelled, key="config") == {"store": {"s3": {"region": "x"}}}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("a: 1\na: 2", "repeated key .a."),
        ("a: &x 1\nb: *x", "anchors"),
        ("a\n---\nb", "more than one document"),
        ("[", "not YAML"),
        ("[" * (MAX_DEPTH + 2) + "]" * (MAX_DEPTH + 2), "nested too deeply"),
        ("x" * (MAX_BYTES + 1), "larger than"),
    ],
)
def test_what_no_configuration_needs_is_refused(text: str, why: str) -> None:
    with pytest.raises(FormatError, match=why) as caught:
        load_yaml(text.encode(), key="config.yaml")
    assert "config.yaml" in str(caught.value)
