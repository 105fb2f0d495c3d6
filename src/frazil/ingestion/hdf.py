"""HDF5 and NetCDF4: metadata, chunk addresses and small variables, straight from the library.

The filters are named as VirtualiZarr names them, so that what is written here is what its own
writers would write. Some data cannot be described by byte ranges and Zarr metadata: chunks that
skipped a filter, filters without a codec, virtual datasets. These get no references; the library
copies them if the user agrees.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import h5py
import numpy as np
from h5py import h5d, h5t, h5z

from frazil.cf.decoding import FILL
from frazil.ingestion.encoding import (
    Meaning,
    encoded_attributes,
    encoding_of,
    filter_configuration,
    is_plain,
)
from frazil.ingestion.hdf_chunks import ChunkIndex, chunk_references, read_chunk_index
from frazil.ingestion.hdf_files import HdfFiles, HdfItem, attributes_of
from frazil.ingestion.names import VariableChoice
from frazil.ingestion.netcdf4 import (
    by_shown_name,
    filled_up,
    find_variable,
    is_bare,
    outer_lengths,
    shown_shape,
    unlimited_lengths,
)
from frazil.ingestion.records import (
    PHONY,
    Array,
    FileReferences,
    FileVariable,
    InputFile,
    ObstacleError,
    ParsedFile,
    canonical,
    ordered_json,
)
from frazil.ingestion.sources import bad_file, display_url, look, read_range


def scan_hdf(source: InputFile, choice: VariableChoice) -> ParsedFile:
    """The variables of a group, its attributes, and notes on what is left out."""
    group, url = source.group, source.url
    with HdfFiles(source) as files:
        found = files.find(group)
        if found is None or not isinstance(found.item, h5py.Group):
            raise bad_file(f"there is no group {group!r}", url)
        stored = dict(files.members(found))
        members = by_shown_name(stored)
        items = {name: each for name, each in members.items() if not choice.drops(name, members)}
        below = [name for name, each in items.items() if isinstance(each.item, h5py.Group)]
        datasets = {
            name: each
            for name, each in items.items()
            if isinstance(each.item, h5py.Dataset) and not is_bare(each.item)
        }
        for name, each in datasets.items():
            _require_known_type(name, each)
            files.require_sources(each)
        bare = {name: each for name, each in stored.items() if is_bare(each.item)}
        for each in bare.values():
            files.require_sources(each)
        numbers = _dimension_numbers(stored)
        attributes = {name: attributes_of(each.item) for name, each in datasets.items()}
        described = {
            name: (
                _dims(each.item, found.item.name, numbers),
                attributes[name][0],
                0 if each.item.shape is None else int(each.item.nbytes),
            )
            for name, each in datasets.items()
        }
        names = choice.chosen(described)
        lengths = outer_lengths(files.root.item, found.item.name) | unlimited_lengths(
            {**datasets, **bare},
            ((described[name][0], each.item) for name, each in datasets.items()),
        )
        variables = [
            _variable(files, name, each, *described[name][:2], lengths, loads=name in names)
            for name, each in datasets.items()
        ]
        if not variables and below:
            raise bad_file(
                f"the group {group or '/'!r} has no variables; choose one of its groups"
                f" ({', '.join(below)}) as the source group",
                url,
            )
        own, left_out = attributes_of(found.item)
        odd = [*left_out, *(f"{name}:{key}" for name in datasets for key in attributes[name][1])]
        unheld = _unheld_fill_values(datasets, variables)
    notes = {
        "groups that are not taken": below,
        "attributes of types that Zarr has not are not taken": odd,
        "fill values that their type cannot hold are not taken": unheld,
    }
    remarks = tuple(f"{what}: {', '.join(each)}" for what, each in notes.items() if each)
    return ParsedFile(variables, ordered_json(own), remarks)


def _unheld_fill_values(
    datasets: Mapping[str, HdfItem], variables: Iterable[FileVariable]
) -> list[str]:
    """The datasets with a fill value that was not taken over, since their type cannot hold it."""
    taken = {made.name for made in variables if FILL in made.attrs}
    return [
        name for name, each in datasets.items() if FILL in each.item.attrs and name not in taken
    ]


def read_hdf(source: InputFile, name: str, region: tuple[slice, ...]) -> Array:
    """Values of a region of a variable, as stored."""
    path = f"{source.group}/{name}"
    with HdfFiles(source) as files:
        found = find_variable(files, source.group, name)
        if found is None or not isinstance(found.item, h5py.Dataset):
            raise bad_file(f"the file has no variable {path!r} any more", source.url)
        files.require_sources(found)
        values = _values(files, found, path, region)
        if not region:
            return values
        shape = tuple(part.stop - part.start for part in region)
        return filled_up(values, shape, _fill_of(found.item))


def _require_known_type(name: str, found: HdfItem) -> None:
    """Refuse data that can be neither referred to nor copied."""
    try:
        dtype = found.item.dtype
    except TypeError as error:  # numpy has nothing like it
        raise bad_file(
            f"Zarr does not support the type of {name!r} ({error}); leave it out with drop",
            found.url,
        ) from None
    is_text = h5py.check_string_dtype(dtype) is not None
    inner = [dtype.fields[field][0] for field in dtype.names] if dtype.names else [dtype]
    is_known = all(each.kind in "biufcSV" and each.subdtype is None for each in inner)
    is_number = all(each.itemsize <= 8 * (1 + (each.kind == "c")) for each in inner)
    if is_text or (is_known and (is_number or dtype.kind in "SV")):
        return
    raise bad_file(
        f"Zarr does not support the type of {name!r} ({dtype}); leave it out with drop",
        found.url,
    )


# --- variables ---


def _variable(
    files: HdfFiles,
    name: str,
    found: HdfItem,
    dims: tuple[str, ...],
    attributes: dict[str, Any],
    lengths: Mapping[str, int],
    *,
    loads: bool,
) -> FileVariable:
    dataset = found.item
    if dataset.shape is None:
        raise bad_file(f"the variable {name!r} has no values at all (a null dataspace)", found.url)
    is_text = dataset.dtype.kind == "O"
    dtype = np.dtype("O") if is_text else _plain_dtype(dataset.dtype)
    if FILL in dataset.attrs:
        attributes |= encoded_attributes(dataset.attrs[FILL], dtype)
    index = read_chunk_index(name, found)
    shape = shown_shape(dataset, dims, lengths)
    made = FileVariable(
        name=name,
        dims=dims,
        shape=shape,
        chunks=tuple(max(1, int(n)) for n in (dataset.chunks or dataset.shape)),
        encoding=_bare_encoding(name, found, dtype),
        attributes=ordered_json(attributes),
        references=None,
    )
    if loads or is_text:
        # Strings of any length lie in a heap of the file, out of reach of references.
        values = _values(files, found, name, ())
        return replace(made, values=filled_up(values, shape, _fill_of(dataset)))
    try:
        encoding, is_usual = _filtered_encoding(dataset, dtype)
        referred = replace(
            made, encoding=encoding, references=_references(files, made, found, index)
        )
        if not is_usual:
            _try_out(referred, files, found)
    except ObstacleError as error:
        _require_filters(name, found)
        return replace(made, obstacle=str(error))
    return referred


def _bare_encoding(name: str, found: HdfItem, dtype: np.dtype[Any]) -> str:
    """The encoding of values that went through no filter."""
    try:
        return _encoding(found.item, dtype, [])
    except Exception as error:  # of the libraries that know all types
        raise bad_file(
            f"Zarr does not support the type or the fill value of {name!r}"
            f" ({dtype}): {error}; leave it out with drop",
            found.url,
        ) from None


def _encoding(dataset: h5py.Dataset, dtype: np.dtype[Any], codecs: list[dict[str, Any]]) -> str:
    fill = dataset.fillvalue
    if dtype.kind == "O":
        fill = ""
    elif isinstance(fill, np.generic | np.ndarray):
        fill = fill.item()
    value = math.nan if fill != fill else fill  # one NaN equals itself in keys
    return encoding_of(Meaning(dtype, value, canonical(codecs)))


def _fill_of(dataset: h5py.Dataset) -> Any:  # noqa: ANN401  (a value of any type)
    fill = dataset.fillvalue
    if dataset.dtype.kind != "O":
        return fill
    return fill.decode("utf-8", "replace") if isinstance(fill, bytes) else str(fill or "")


def _filtered_encoding(dataset: h5py.Dataset, dtype: np.dtype[Any]) -> tuple[str, bool]:
    """The encoding of values that went through filters, and whether every reader has it."""
    _require_usual_order(dataset)
    try:
        codecs = _codecs(dataset)
        return _encoding(dataset, dtype, codecs), is_plain(dtype, codecs)
    except Exception as error:  # a codec that zarr has not raises anything
        filters = ", ".join(map(str, dataset._filters))
        raise ObstacleError(f"it has filters without a codec ({filters})") from error


def _require_usual_order(dataset: h5py.Dataset) -> None:
    """Refuse filters that codecs do not stand for, or that h5py does not tell all of."""
    plist = dataset.id.get_create_plist()
    codes = [plist.get_filter(number)[0] for number in range(plist.get_nfilters())]
    if len({*codes}) < len(codes):
        raise ObstacleError("it goes through a filter twice")
    before = codes[: codes.index(h5z.FILTER_SHUFFLE)] if h5z.FILTER_SHUFFLE in codes else []
    # NetCDF adds checksums of four bytes before it shuffles: that can be undone if all is even.
    is_even = (math.prod(dataset.chunks or ()) * dataset.dtype.itemsize + 4) % (
        dataset.dtype.itemsize
    ) == 0
    if before and (before != [h5z.FILTER_FLETCHER32] or not is_even):
        raise ObstacleError("it goes through the shuffle filter after another one")


def _codecs(dataset: h5py.Dataset) -> list[dict[str, Any]]:
    """The codecs that stand for the filters of a dataset."""
    plain_ones = [filter_configuration(*each) for each in dataset._filters.items()]
    found = [each for each in plain_ones if each is not None]
    if len(found) == len(plain_ones):
        return found
    from virtualizarr.codecs import zarr_codec_config_to_v3
    from virtualizarr.parsers.hdf.filters import codecs_from_dataset

    return [zarr_codec_config_to_v3(c.get_config()) for c in codecs_from_dataset(dataset)]


def _require_filters(name: str, found: HdfItem) -> None:
    """Refuse what the library cannot read either."""
    plist = found.item.id.get_create_plist()
    for number in range(plist.get_nfilters()):
        code, _, _, label = plist.get_filter(number)
        if not h5z.filter_avail(code):
            detail = label.decode("utf-8", "replace") or "of no name"
            raise bad_file(
                f"the variable {name!r} needs the HDF5 filter {code} ({detail}), which is not"
                " installed; leave it out with drop",
                found.url,
            )


def _try_out(variable: FileVariable, files: HdfFiles, found: HdfItem) -> None:
    """Decode a chunk both ways, where codecs are not those that everybody has."""
    from frazil.ingestion.fetching import require_same

    def read(region: tuple[slice, ...], dtype: np.dtype[Any]) -> Array:
        return _values(files, found, variable.name, region).astype(dtype, copy=False)

    assert variable.references is not None
    require_same(variable, variable.references.index[:1].tolist(), read, "HDF5", files.options)


def _plain_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The type without what h5py notes on it, such as the names of an enumeration."""
    return np.dtype(dtype.str) if dtype.names is None else dtype


# --- references ---


def _references(
    files: HdfFiles, made: FileVariable, found: HdfItem, index: ChunkIndex | None
) -> FileReferences:
    dataset = found.item
    _require_plain_bytes(dataset)
    plist = dataset.id.get_create_plist()
    layout = plist.get_layout()
    if layout == h5d.COMPACT:
        # The values are in the header of the dataset, which may move: they come along.
        raw = np.ascontiguousarray(dataset[()]).astype(_plain_dtype(dataset.dtype)).tobytes()
        return FileReferences.of_bytes(raw)
    if layout == h5d.VIRTUAL:
        raise ObstacleError("it is a virtual dataset, whose values are in other datasets")
    if layout == h5d.CHUNKED:
        assert index is not None
        return chunk_references(made, found, index)
    if plist.get_external_count():
        segments, size = _filled(files, found)
        if len(segments) > 1:
            raise ObstacleError("its values are spread over several files")
        return FileReferences.of_file(segments[0][0], [0], [segments[0][1]], [size])
    offset = dataset.id.get_offset()
    if offset is None:
        return FileReferences.of_file(found.url, [], [], [])
    return FileReferences.of_file(found.url, [0], [offset], [dataset.id.get_storage_size()])


def _require_plain_bytes(dataset: h5py.Dataset) -> None:
    """Refuse bytes that mean something else to other readers than to HDF5."""
    if not _is_as_in_memory(dataset.id.get_type(), dataset.dtype):
        what = "texts" if dataset.dtype.kind == "S" else "numbers"
        raise ObstacleError(f"its {what} are stored in a way that only HDF5 knows")


def _is_as_in_memory(stored: h5t.TypeID, dtype: np.dtype[Any]) -> bool:
    """Whether values have the same bytes in a file and in arrays of numpy.

    Numbers may have fewer bits than bytes, or another order. Texts may be padded with blanks, or
    end before the bytes that stand behind them, where numpy takes all but zeros at the end.
    """
    if dtype.names is not None and isinstance(stored, h5t.TypeCompoundID):
        inner = [stored.get_member_type(number) for number in range(stored.get_nmembers())]
        kinds = [dtype[number] for number in range(len(dtype.names))]
        if dtype != np.dtype([*zip(dtype.names, kinds, strict=True)]):
            return False  # with gaps, or in another order: Zarr has one field after the other
        return all(_is_as_in_memory(*each) for each in zip(inner, kinds, strict=True))
    if dtype.kind == "S":
        padding = stored.get_strpad()
        return padding == h5t.STR_NULLPAD or (padding == h5t.STR_NULLTERM and dtype.itemsize == 1)
    if dtype.kind not in "biufc":
        return True
    plain = _plain_dtype(dtype)
    if isinstance(stored, h5t.TypeEnumID):
        stored = stored.get_super()
    return bool(stored.equal(h5t.py_create(np.dtype("i1") if plain.kind == "b" else plain)))


def _filled(files: HdfFiles, found: HdfItem) -> tuple[list[tuple[str, int, int]], int]:
    """The files that hold all values one after the other, and how many bytes that are."""
    size = int(found.item.nbytes)
    left, kept = size, []
    for url, offset, length in files.raw_segments(found):
        if left:
            part = min(left, length)
            identity = look(url, files.options)
            if identity is None or identity.size < offset + part:
                raise bad_file(
                    f"a file of raw values is missing or too short: {display_url(url)}", found.url
                )
            kept.append((url, offset, part))
            left -= part
    if left:
        raise bad_file("the files of raw values are too short", found.url)
    return kept, size


def _raw_values(files: HdfFiles, found: HdfItem, region: tuple[slice, ...]) -> Array:
    """Values from files of their own; of them only the rows that a region is in."""
    dataset, dtype = found.item, _plain_dtype(found.item.dtype)
    segments, size = _filled(files, found)
    rows = slice(*region[0].indices(dataset.shape[0])[:2]) if region else slice(0, None)
    row = size // max(1, dataset.shape[0]) if dataset.ndim else size
    first, last = row * rows.start, size if rows.stop is None else row * rows.stop
    parts, at = [], 0
    for url, offset, length in segments:
        low, high = max(first, at), min(last, at + length)
        if low < high:
            parts.append(read_range(url, offset + low - at, high - low, files.options))
        at += length
    values = np.frombuffer(b"".join(parts), dtype)
    shape = (-1, *dataset.shape[1:]) if dataset.ndim else ()
    return values.reshape(shape)[(slice(None), *region[1:])] if region else values.reshape(shape)


# --- dimensions ---


def _dims(dataset: h5py.Dataset, group: str, numbered: Mapping[int, str]) -> tuple[str, ...]:
    """Names of the dimensions, as NetCDF4 gives them; made-up ones where there are none."""
    is_scale = h5py.h5ds.is_scale(dataset.id)
    ndim = dataset.ndim if dataset.shape is not None else 0
    numbers = dataset.attrs.get("_Netcdf4Coordinates") if is_scale and ndim != 1 else None
    if is_scale and ndim == 1:
        names = [str(dataset.name)]
    elif numbers is not None:
        # A coordinate with several dimensions cannot have scales of its own.
        names = [numbered.get(int(number), f"{PHONY}{axis}") for axis, number in enumerate(numbers)]
    else:
        scales = dataset.dims
        names = [
            str(found[0].name) if len(found := scales[axis]) else f"{PHONY}{axis}"
            for axis in range(ndim)
        ]
    inside = f"{group.rstrip('/')}/"
    return tuple(name.removeprefix(inside).removeprefix("/") for name in names)


def _dimension_numbers(items: Mapping[str, HdfItem]) -> dict[int, str]:
    """Names of NetCDF4 dimensions by the numbers that variables with two dimensions or more use."""
    datasets = [each.item for each in items.values() if isinstance(each.item, h5py.Dataset)]
    return {
        int(item.attrs["_Netcdf4Dimid"]): str(item.name)
        for item in datasets
        if "_Netcdf4Dimid" in item.attrs and h5py.h5ds.is_scale(item.id)
    }


def _values(files: HdfFiles, found: HdfItem, name: str, region: tuple[slice, ...]) -> Array:
    dataset = found.item
    if dataset.id.get_create_plist().get_external_count():
        return _raw_values(files, found, region)
    text = h5py.check_string_dtype(dataset.dtype)
    try:
        if text is not None and text.length is None:
            texts = dataset.asstr()[region if dataset.ndim else ()]
            return np.asarray(texts, dtype=np.dtypes.StringDType())
        values = dataset[region if dataset.ndim else ()]
    except (OSError, UnicodeDecodeError) as error:
        raise bad_file(f"the values of {name!r} cannot be read: {error}", found.url) from None
    return np.asarray(values).astype(_plain_dtype(dataset.dtype), copy=False)
