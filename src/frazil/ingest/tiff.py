"""TIFF and GeoTIFF: the full-resolution image, with coordinates where the file places it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from frazil.errors import ErrorKind, InvalidInputError
from frazil.ingest.encoding import Meaning, encoding_from, encoding_of, quiet
from frazil.ingest.parsed import Parsed
from frazil.ingest.records import Array, References, Variable, plain
from frazil.ingest.sources import registry_for, shown

IMAGE: Final = "band_data"
"""the name that rioxarray gives to the values of a raster"""


def scan_tiff(url: str, options: Mapping[str, Any]) -> Parsed:
    """The first image of a TIFF file; overviews and further pages are left out, and noted.

    Raises:
        InvalidInputError: the file is damaged, or stores its pixels in a way that cannot be told.
    """
    from virtual_tiff import VirtualTIFF

    try:
        with quiet():
            store = VirtualTIFF(ifd=0)(url, registry_for([url], options))
    except (ValueError, NotImplementedError, OSError, KeyError, IndexError, TypeError) as error:
        raise InvalidInputError(
            f"the TIFF file cannot be referred to: {error}",
            kind=ErrorKind.UNSUITABLE_DATA,
            file=shown(url),
        ) from None
    array = store._group.arrays["0"]
    meta, manifest = array.metadata, array.manifest
    attrs = json.loads(json.dumps(dict(meta.attributes), default=str))
    paths = manifest._paths.ravel()
    index = np.flatnonzero(np.asarray(paths != ""))
    with quiet():
        encoding = encoding_from(meta)
    shape = tuple(map(int, meta.shape))
    dims = tuple(str(name) for name in meta.dimension_names or ())
    image = Variable(
        IMAGE,
        dims,
        shape,
        tuple(map(int, array.chunks)),
        encoding,
        plain(attrs),
        References.of_file(
            url, index, manifest._offsets.ravel()[index], manifest._lengths.ravel()[index]
        ),
    )
    return Parsed([image, *_coordinates(attrs, dims, shape)])


def _coordinates(
    attrs: Mapping[str, Any], dims: tuple[str, ...], shape: tuple[int, ...]
) -> list[Variable]:
    """Centres of the pixels, where the image lies straight on its map."""
    scale, tie = attrs.get("model_pixel_scale"), attrs.get("model_tiepoint")
    if not scale or not tie or len(tie) != 6 or attrs.get("model_transformation"):
        return []
    sizes = dict(zip(dims, shape, strict=True))
    column, row, _, left, top, _ = tie
    x = left + (np.arange(sizes["x"]) + 0.5 - column) * scale[0]
    y = top - (np.arange(sizes["y"]) + 0.5 - row) * scale[1]
    return [_coordinate("y", y), _coordinate("x", x)]


def _coordinate(name: str, values: Array) -> Variable:
    length = len(values)
    encoding = encoding_of(Meaning(np.dtype("<f8"), 0.0))
    return Variable(name, (name,), (length,), (length,), encoding, "{}", None, values)
