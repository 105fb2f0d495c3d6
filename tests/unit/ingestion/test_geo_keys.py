"""Keys of GeoTIFF are read by name, and those that make no sense are left out."""

from __future__ import annotations

from frazil.ingestion.geo_keys import geo_keys


def test_keys_are_read_by_name() -> None:
    directory = (
        1, 1, 0, 4,
        1024, 0, 1, 1,
        2057, 34736, 1, 1,
        2049, 34737, 6, 0,
        9999, 0, 1, 3,
    )  # fmt: skip
    tags = {34735: directory, 34736: (0.5, 6378137.0), 34737: "WGS84|more|"}
    expected = {"model_type": 1, "geog_semi_major_axis": 6378137.0, "geog_citation": "WGS84"}
    assert geo_keys(tags) == expected
    assert geo_keys({34735: directory, 34736: 0.5}) == {"model_type": 1}
    assert geo_keys({34735: (1.5, 1, 0, 1, 1024.0, 0, 1, 1)}) == geo_keys({34735: 7}) == {}


def directory(*entries: tuple[int, int, int, int]) -> tuple[int, ...]:
    return (1, 1, 0, len(entries), *(number for entry in entries for number in entry))


def test_names_are_those_of_the_numbers_in_the_standard() -> None:
    first = ((1026, "citation"), (2061, "geog_prime_meridian_long"), (3088, "proj_center_long"))
    last = ((3095, "proj_straight_vert_pole_long"), (4099, "vertical_units"))
    keys = (*first, *last)
    found = geo_keys({34735: directory(*((key, 0, 1, n) for n, (key, _) in enumerate(keys)))})
    assert found == {name: n for n, (_, name) in enumerate(keys)}


def test_a_single_number_is_no_sequence() -> None:
    keys = directory((2057, 34736, 1, 0))
    assert geo_keys({34735: keys, 34736: 6378137.0}) == {"geog_semi_major_axis": 6378137.0}


def test_each_text_is_its_own_part_of_all_texts() -> None:
    keys = directory((1026, 34737, 4, 0), (2049, 34737, 7, 4))
    found = geo_keys({34735: keys, 34737: "UTM|WGS 84|\0"})
    assert found == {"citation": "UTM", "geog_citation": "WGS 84"}


def test_an_entry_that_is_cut_off_is_left_out() -> None:
    whole = directory((1024, 0, 1, 1), (1025, 0, 1, 2))
    assert geo_keys({34735: whole[:-1]}) == {"model_type": 1}
    assert geo_keys({34735: whole[:4]}) == geo_keys({}) == {}
