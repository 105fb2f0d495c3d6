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
