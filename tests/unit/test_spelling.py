"""Names as people write them: which one is meant, and which are suggested."""

from __future__ import annotations

from typing import TypedDict

import pytest

from frazil.spelling import SHOWN, listed, meant, near, nearest, require_known, unknown


@pytest.mark.parametrize(
    ("name", "known", "expected"),
    [
        ("t2m", ["t2m", "T2M"], "t2m"),
        ("T2m", ["t2m", "lat"], "t2m"),
        ("T2m", ["t2m", "T2M"], None),
        ("tas", ["t2m"], None),
    ],
)
def test_case_counts_only_where_it_must(name: str, known: list[str], expected: str | None) -> None:
    assert meant(name, known) == expected


def test_the_nearest_name_is_suggested_as_it_is_spelled() -> None:
    assert near("latitud", ["Latitude", "longitude"]) == "Latitude"
    assert nearest("latitud", ["Latitude"]) == "; did you mean 'Latitude'?"
    assert nearest("xyz", ["Latitude"]) == ""


def test_messages_list_names_up_to_a_limit() -> None:
    assert listed([]) == "none"
    assert listed("cab") == "a, b, c"
    many = [f"n{number:03}" for number in range(SHOWN + 3)]
    assert listed(many).endswith(f"n{SHOWN - 1:03} and 3 more")
    text = unknown("array", "x", ["y"], " in /g")
    assert text == "there is no array 'x' in /g (there are y)"


def test_keyword_arguments_are_those_of_the_record() -> None:
    class Options(TypedDict, total=False):
        compressor: str

    require_known({"compressor": "zstd"}, Options)
    with pytest.raises(TypeError, match=r"'compresor'; did you mean 'compressor'\?"):
        require_known({"compresor": "zstd"}, Options)
