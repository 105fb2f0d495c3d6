"""TIFF and GeoTIFF: the full-resolution image, with coordinates where the file places it.

tifffile says what the image is. References come from virtual-tiff and name its codecs; the first
and the last chunk are decoded both ways, and what differs is not referred to, only copied.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Final

import numpy as np

from frazil.errors import FrazilError
from frazil.ingestion.encoding import (
    Meaning,
    coordinate,
    encoded_attributes,
    encoding_from,
    encoding_of,
    without_zarr_warnings,
)
from frazil.ingestion.records import (
    Array,
    FileReferences,
    FileVariable,
    InputFile,
    ObstacleError,
    ParsedFile,
    canonical,
    ordered_json,
)
from frazil.ingestion.sources import bad_file, client_for, local_path, registry_for
from frazil.storage.locations import key_of

IMAGE: Final = "band_data"
"""the name that rioxarray gives to the values of a raster"""
_TAGS: Final = {
    33550: "model_pixel_scale",
    33922: "model_tiepoint",
    34264: "model_transformation",
}
_OWN: Final = ("ChunkyCodec", "HorizontalDeltaCodec")
"""codecs that virtual-tiff announces by another name than it writes"""
_JPEG: Final = frozenset([6, 7, 33007, 34892])
"""compressions of which segments share tables"""


def scan_tiff(source: InputFile) -> ParsedFile:
    """The first image of a TIFF file; overviews and further pages are left out, and noted."""
    with _opened(source) as file:
        page = file.pages[0]
        count = len(file.pages)
        image = _image(source.url, page)
        attributes = image.attributes
        try:
            found = _referred(source)
            attributes = found.attributes
            _require_same(found, image, page, source.options)
            image = found
        except ObstacleError as error:
            image = replace(image, attributes=attributes, obstacle=str(error))
    notes = (f"{count - 1} further images are not taken",) if count > 1 else ()
    return ParsedFile([image, *_coordinates(image)], notes=notes)


def read_tiff(source: InputFile, name: str, region: tuple[slice, ...]) -> Array:
    """Values of a region of the image, decoded by tifffile."""
    assert name == IMAGE  # coordinates are always loaded
    with _opened(source) as file:
        return _pixels(file.pages[0], region)


@contextmanager
def _opened(source: InputFile) -> Iterator[Any]:
    import tifffile
    from obspec_utils.readers import BlockStoreReader

    url = source.url
    place: Any = local_path(url) or BlockStoreReader(client_for(url, source.options), key_of(url))
    try:
        with without_zarr_warnings(), tifffile.TiffFile(place) as file:
            yield file
    except FrazilError:
        raise
    except Exception as error:  # tifffile trusts tags to be of the right kind
        raise bad_file(f"the TIFF file cannot be read: {error}", url) from None


# --- as tifffile sees it ---


def _image(url: str, page: Any) -> FileVariable:  # noqa: ANN401  (of tifffile)
    """The image without references."""
    if page.dtype is None or page.dtype.kind not in "biufc" or page.shaped[1] != 1:
        detail = f"{page.bitspersample} bits of sample format {page.sampleformat}"
        raise bad_file(f"Zarr does not support the pixel type of the image ({detail})", url)
    planes, _, height, width, samples = page.shaped
    bands = planes * samples
    tile = (page.tilelength, page.tilewidth) if page.is_tiled else (page.rowsperstrip, width)
    size = (min(max(1, int(tile[0])), height), min(max(1, int(tile[1])), width))
    is_single = bands == 1
    attrs: dict[str, Any] = {
        label: [float(each) for each in np.ravel(page.tags[code].value)]
        for code, label in _TAGS.items()
        if code in page.tags
    }
    dtype, fill = page.dtype.newbyteorder("<"), 0
    if page.tags.get(42113) is not None:
        attrs |= encoded_attributes(page.nodata, dtype)
        fill = page.nodata
    value = np.asarray(fill).astype(dtype).item()
    return FileVariable(
        IMAGE,
        ("y", "x") if is_single else ("band", "y", "x"),
        (height, width) if is_single else (bands, height, width),
        size if is_single else (samples, *size),
        encoding_of(Meaning(dtype, value)),
        ordered_json(attrs),
        None,
    )


def _pixels(page: Any, region: tuple[slice, ...]) -> Array:  # noqa: ANN401  (of tifffile)
    """Values of a region, from the strips and tiles that it touches."""
    planes, _, height, width, samples = page.shaped
    whole = (planes * samples, height, width)
    parts = (slice(None),) * (3 - len(region)) + region if region else (slice(None),) * 3
    bands, rows, columns = (
        slice(*part.indices(n)[:2]) for part, n in zip(parts, whole, strict=True)
    )
    made = np.full(
        (planes, rows.stop - rows.start, columns.stop - columns.start, samples),
        page.nodata,
        page.dtype.newbyteorder("="),
    )
    more: dict[str, Any] = {}
    if page.compression in _JPEG:
        more = {"jpegtables": page.jpegtables, "jpegheader": page.jpegheader}
    source = page.parent.filehandle
    for number, (offset, size) in enumerate(
        zip(page.dataoffsets, page.databytecounts, strict=True)
    ):
        _, (plane, _, top, left, _), shape = page.decode(None, number)
        low, high = max(top, rows.start), min(top + shape[1], rows.stop)
        first, last = max(left, columns.start), min(left + shape[2], columns.stop)
        if low >= high or first >= last or not offset or not size:
            continue
        source.seek(offset)
        segment = page.decode(source.read(size), number, **more)[0]
        if segment is not None:
            made[
                plane,
                low - rows.start : high - rows.start,
                first - columns.start : last - columns.start,
            ] = segment[0, low - top : high - top, first - left : last - left]
    found = made.transpose(0, 3, 1, 2).reshape(planes * samples, *made.shape[1:3])[bands]
    return found if len(region or ()) == 3 or planes * samples > 1 else found[0]


# --- by reference ---


def _referred(source: InputFile) -> FileVariable:
    """The image by reference, as virtual-tiff sees it."""
    from virtual_tiff import VirtualTIFF

    url = source.url
    try:
        with without_zarr_warnings():
            store = VirtualTIFF(ifd=0)(url, registry_for(url, source.options))
            array = store._group.arrays["0"]
            encoding = _findable(encoding_from(array.metadata))
    except Exception as error:
        raise ObstacleError(" ".join(str(error).split())) from error
    meta, manifest = array.metadata, array.manifest
    attrs = json.loads(json.dumps(dict(meta.attributes), default=str))
    lengths = manifest._lengths.ravel()
    index = np.flatnonzero(np.asarray(manifest._paths.ravel() != "") & (lengths > 0))
    return FileVariable(
        IMAGE,
        tuple(str(name) for name in meta.dimension_names or ()),
        tuple(map(int, meta.shape)),
        tuple(map(int, array.chunks)),
        encoding,
        ordered_json(attrs),
        FileReferences.of_file(url, index, manifest._offsets.ravel()[index], lengths[index]),
    )


def _findable(encoding: str) -> str:
    """Codecs by the names under which other processes find them without an import."""
    meaning = json.loads(encoding)
    for codec in meaning["codecs"]:
        if codec["name"] in _OWN:
            codec["name"] = f"virtual_tiff.{codec['name']}"
    return canonical(meaning)


def _require_same(
    found: FileVariable,
    image: FileVariable,
    page: Any,  # noqa: ANN401  (of tifffile)
    options: Mapping[str, Any],
) -> None:
    from frazil.ingestion.fetching import require_same

    refs = found.references
    assert refs is not None
    if (found.dims, found.shape) != (image.dims, image.shape):
        raise ObstacleError("virtual-tiff sees an image of another shape in it")
    ends = {*refs.index[:1].tolist(), *refs.index[-1:].tolist()}
    require_same(found, ends, lambda region, _: _pixels(page, region), "tifffile", options)


def _coordinates(image: FileVariable) -> list[FileVariable]:
    """Centres of the pixels, where the image lies straight on its map."""
    attrs = image.attrs
    scale, tie = attrs.get("model_pixel_scale"), attrs.get("model_tiepoint")
    if not scale or not tie or len(tie) != 6 or attrs.get("model_transformation"):
        return []
    sizes = dict(zip(image.dims, image.shape, strict=True))
    column, row, _, left, top, _ = tie
    x = left + (np.arange(sizes["x"]) + 0.5 - column) * scale[0]
    y = top - (np.arange(sizes["y"]) + 0.5 - row) * scale[1]
    return [coordinate("y", ("y",), y, {}), coordinate("x", ("x",), x, {})]
