"""Which attributes say where on Earth values are: files that are joined must agree on them.

In files of the CF conventions these are the attributes of grid mappings, variables that others name
by `grid_mapping`; in images the keys of GeoTIFF.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from frazil.ingestion.records import FileScan, FileVariable

NAMING: Final = "grid_mapping"
PLACE: Final = "grid-mapping"
"""what a difference in where values are is called"""
_MAPPING: Final = ("grid_mapping_name", "crs_wkt", "spatial_ref")
"""what only grid mappings have, whoever names them"""
PLACING: Final = frozenset(
    ["GeoTransform", "model_pixel_scale", "model_tiepoint", "model_transformation", "raster_type"]
)
"""Attributes of one raster, which say no more than its coordinates do."""
_WORDS: Final = frozenset(["long_name", "comment", "history", "title"])
_GEO_STARTS: Final = ("geog", "proj", "vertical", "model_type")
_IMAGES: Final = "tiff"


@dataclass(frozen=True, slots=True)
class Georeference:
    """What places the variables of some files on Earth."""

    users: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """by name of a grid mapping, the last two dimensions of the variables that name it"""
    images: frozenset[str] = frozenset()
    """names of variables that have keys of GeoTIFF"""
    coordinates: frozenset[str] = frozenset()
    """names of dimensions that have coordinates"""

    @classmethod
    def of(cls, scans: Iterable[FileScan]) -> Georeference:
        """Look for it in files."""
        users: dict[str, set[str]] = {}
        images: set[str] = set()
        coordinates: set[str] = set()
        seen: set[tuple[str, str]] = set()
        for scan in scans:
            for variable in scan.variables:
                if scan.format == _IMAGES:
                    images.add(variable.name)
                if (variable.name, variable.attributes) in seen:
                    continue
                seen.add((variable.name, variable.attributes))
                if variable.dims == (variable.name,):
                    coordinates.add(variable.name)
                attrs = variable.attrs
                if any(key in attrs for key in _MAPPING):
                    users.setdefault(variable.name, set())
                for name in mapping_names(attrs.get(NAMING)):
                    users.setdefault(name, set()).update(variable.dims[-2:])
        named = {name: frozenset(dims) for name, dims in users.items()}
        return cls(named, frozenset(images), frozenset(coordinates))

    def matters(self, name: str, key: str) -> bool:
        """Whether an attribute of a variable says where values are."""
        if key == NAMING:
            return True
        if name in self.users:
            return key not in _WORDS
        is_key = key.startswith(_GEO_STARTS) and not key.endswith("citation")
        return name in self.images and (is_key or key in PLACING)

    def is_placed(self, variable: FileVariable) -> bool:
        """Whether coordinates say where the pixels are that a variable holds or describes."""
        dims = self.users.get(variable.name) or frozenset(variable.dims[-2:])
        return bool(dims) and dims <= self.coordinates


def mapping_names(attribute: Any) -> list[str]:  # noqa: ANN401  (of a file)
    """The grid mappings that an attribute names: one, or several with their coordinates."""
    if not isinstance(attribute, str):
        return []
    words = attribute.split()
    several = [word.rstrip(":") for word in words if word.endswith(":")]
    return several or words


NO_PLACES: Final = Georeference()
