"""TIFF and GeoTIFF: the full-resolution image, with coordinates where the file places it.

tifffile says what the image is. References come from virtual-tiff and name its codecs; the first,
the last and the longest chunk are decoded both ways, and what differs is only copied.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any, Final

import numpy as np

from frazil.cf.decoding import holds
from frazil.errors import FrazilError
from frazil.ingestion.encoding import (
    Meaning,
    coordinate,
    encoded_attributes,
    encoding_from,
    encoding_of,
    without_zarr_warnings,
)
from frazil.ingestion.geo_keys import GEO_TAGS, geo_keys
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
_NODATA: Final = 42113
_IS_POINT: Final = 2
"""the raster type of images whose tie points are at centres of pixels, not at corners"""
_OWN: Final = ("ChunkyCodec", "HorizontalDeltaCodec")
"""codecs that virtual-tiff announces by another name than it writes"""
_DIFFERENCES: Final = 2
"""the predictor that stores differences between neighbours"""
_IMAGES: Final = re.compile(r"^images=(\d{1,9})\b", re.MULTILINE)
"""as ImageJ tells how many there are"""
_JPEG: Final = frozenset([6, 7, 33007, 34892])
"""compressions of which segments share tables"""


def scan_tiff(source: InputFile) -> ParsedFile:
    """The first image of a TIFF file; overviews and further pages are left out, with a note."""
    with _opened(source) as file:
        page = file.pages[0]
        further = max(len(file.pages), _described(page)) - 1 + len(page.subifds or ())
        image, half = _image(source.url, page), _half_pixel(page)
        attributes = image.attributes
        try:
            found = _with_fill_of(image, _referred(source))
            attributes = found.attributes
            _require_same(found, image, page, source.options)
            image = found
        except ObstacleError as error:
            image = replace(image, attributes=attributes, obstacle=str(error))
        is_unheld = page.tags.get(_NODATA) is not None and _nodata(page) is None
    notes = {
        f"{further} further images are not taken": further > 0,
        "a value for no data that pixels cannot have is not taken": is_unheld,
    }
    shown = tuple(note for note, is_so in notes.items() if is_so)
    return ParsedFile([image, *_coordinates(image, half)], notes=shown)


def _described(page: Any) -> int:  # noqa: ANN401  (of tifffile)
    """How many images follow each other by the words of a writer that describes the first only.

    tifffile itself would look for them in other files, too, which nobody allowed.
    """
    try:
        if page.shaped_description is not None:
            shape = json.loads(page.shaped_description)["shape"]
            return math.prod(map(int, shape)) // max(1, int(page.size))
    except (ValueError, TypeError, KeyError):
        return 1
    found = _IMAGES.search(page.imagej_description or "")
    return int(found[1]) if found is not None else 1


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
    if page.shaped[1] != 1:
        raise bad_file("images with a depth (several planes in one image) are not supported", url)
    if page.dtype is None or page.dtype.kind not in "biufc":
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
    attrs |= _keys(page)
    dtype, fill = page.dtype.newbyteorder("<"), 0.0
    if (nodata := _nodata(page)) is not None:
        attrs |= encoded_attributes(nodata, dtype)
        fill = nodata
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


def _nodata(page: Any) -> float | None:  # noqa: ANN401  (of tifffile)
    """The value of pixels without data; None if there is none that a pixel could have."""
    tag = page.tags.get(_NODATA)
    try:
        text = str(tag.value).strip("\0 ") if tag is not None else ""
        value = int(text) if text.lstrip("-").isdecimal() else float(text)
    except ValueError:
        return None
    return value if holds(page.dtype, value) else None


def _half_pixel(page: Any) -> float:  # noqa: ANN401  (of tifffile)
    """How far the centre of a pixel is from where the file places the pixel."""
    return 0.0 if _keys(page).get("raster_type") == _IS_POINT else 0.5


def _keys(page: Any) -> dict[str, Any]:  # noqa: ANN401  (of tifffile)
    tags = {code: page.tags.get(code) for code in GEO_TAGS}
    return geo_keys({code: tag.value for code, tag in tags.items() if tag is not None})


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
        _nodata(page) or 0,
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
    attrs = _with_numbers(json.loads(json.dumps(dict(meta.attributes), default=str)))
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


def _with_numbers(attrs: dict[str, Any]) -> dict[str, Any]:
    """Attributes in which numbers that readers multiply with are none in letters, as in GDAL's."""
    for name in ("scale_factor", "add_offset"):
        with suppress(TypeError, ValueError):
            attrs |= {name: float(attrs[name])} if name in attrs else {}
    return attrs


def _with_fill_of(image: FileVariable, found: FileVariable) -> FileVariable:
    """An image by reference whose tiles without bytes are as the tag of GDAL says, or zeros.

    virtual-tiff takes the word of the metadata too, in which GDAL keeps what other formats said.
    """
    meaning = json.loads(found.encoding)
    meaning["fill_value"] = json.loads(image.encoding)["fill_value"]
    return replace(found, encoding=canonical(meaning))


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
    if page.predictor == _DIFFERENCES and page.parent.byteorder == ">" and page.dtype.itemsize > 1:
        # They are right as long as no difference needs more than a byte.
        raise ObstacleError("its codecs decode differences of numbers in big-endian order wrongly")
    if page.fillorder != 1:
        # Tiles without data, such as those at the corners of a scene, are right nevertheless.
        raise ObstacleError("the bits of its bytes are in reverse order")
    longest = [int(refs.index[np.argmax(refs.length)])] if len(refs) else []
    tried = {*refs.index[:1].tolist(), *refs.index[-1:].tolist(), *longest}
    require_same(found, tried, lambda region, _: _pixels(page, region), "tifffile", options)


def _coordinates(image: FileVariable, half: float) -> list[FileVariable]:
    """Centres of the pixels, where the image lies straight on its map."""
    attrs = image.attrs
    scale, tie = attrs.get("model_pixel_scale"), attrs.get("model_tiepoint")
    if not scale or not tie or len(tie) != 6 or attrs.get("model_transformation"):
        return []
    sizes = dict(zip(image.dims, image.shape, strict=True))
    column, row, _, left, top, _ = tie
    x = left + (np.arange(sizes["x"]) + half - column) * scale[0]
    y = top - (np.arange(sizes["y"]) + half - row) * scale[1]
    return [coordinate("y", ("y",), y, {}), coordinate("x", ("x",), x, {})]
