"""The keys of GeoTIFF: which part of the Earth an image shows, by the names of virtual-tiff."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

GEO_TAGS: Final = (34735, 34736, 34737)
"""the directory, and numbers and texts that do not fit into it"""
_DIRECTORY, _NUMBERS, _TEXTS = GEO_TAGS
_GROUPS: Final = {
    1024: "model_type raster_type citation",
    2048: "geographic_type geog_citation geog_geodetic_datum geog_prime_meridian"
    " geog_linear_units geog_linear_unit_size geog_angular_units geog_angular_unit_size"
    " geog_ellipsoid geog_semi_major_axis geog_semi_minor_axis geog_inv_flattening"
    " geog_azimuth_units geog_prime_meridian_long",
    3072: "projected_type proj_citation projection proj_coord_trans proj_linear_units"
    " proj_linear_unit_size proj_std_parallel1 proj_std_parallel2 proj_nat_origin_long"
    " proj_nat_origin_lat proj_false_easting proj_false_northing proj_false_origin_long"
    " proj_false_origin_lat proj_false_origin_easting proj_false_origin_northing proj_center_long"
    " proj_center_lat proj_center_easting proj_center_northing proj_scale_at_nat_origin"
    " proj_scale_at_center proj_azimuth_angle proj_straight_vert_pole_long",
    4096: "vertical vertical_citation vertical_datum vertical_units",
}
_NAMES: Final = {
    first + number: name
    for first, names in _GROUPS.items()
    for number, name in enumerate(names.split())
}


def geo_keys(tags: Mapping[int, Any]) -> dict[str, Any]:
    """The keys in some tags by name; those that make no sense are left out."""
    directory = _sequence(tags.get(_DIRECTORY))[4:]
    numbers, text = _sequence(tags.get(_NUMBERS)), tags.get(_TEXTS)
    found: dict[str, Any] = {}
    for at in range(0, len(directory) - 3, 4):
        entry = directory[at : at + 4]
        if not all(isinstance(each, int) for each in entry):
            continue
        key, place, count, value = entry
        name = _NAMES.get(key)
        if name is None:
            continue
        if place == 0:
            found[name] = int(value)
        elif place == _NUMBERS and count == 1 and value < len(numbers):
            found[name] = float(numbers[value])
        elif place == _TEXTS and isinstance(text, str):
            found[name] = text[value : value + count].rstrip("|\0")
    return found


def _sequence(value: object) -> Sequence[Any]:
    if isinstance(value, float):
        return (value,)
    return value if isinstance(value, tuple) else ()
