"""HDF5 and NetCDF4: metadata, chunk addresses and small variables, straight from the library.

The filters are named as VirtualiZarr names them, so that what is written here is what its own
writers would write. Chunks that skipped a filter when they were written cannot be told by Zarr
metadata; they are found here and refused.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any, Final

import h5py
import numpy as np

from frazil.errors import ErrorKind, InvalidInputError
from frazil.ingest.encoding import Meaning, encoded_attributes, encoding_of
from frazil.ingest.loading import Wish
from frazil.ingest.plain_encoding import filter_configuration
from frazil.ingest.records import Array, References, Variable, canonical, plain
from frazil.ingest.sources import client_for, local_path, shown
from frazil.storage.locations import key_of

_HIDDEN: Final = frozenset(
    [
        "REFERENCE_LIST",
        "CLASS",
        "DIMENSION_LIST",
        "NAME",
        "_Netcdf4Dimid",
        "_Netcdf4Coordinates",
        "_nc3_strict",
        "_NCProperties",
        "_NCCOPY",
        "DIMENSION_LABELS",
    ]
)
_NO_VARIABLE: Final = b"This is a netCDF dimension but not a netCDF variable"


def open_hdf(url: str, options: Mapping[str, Any]) -> h5py.File:
    """Open an HDF5 file, here or elsewhere.

    Raises:
        InvalidInputError: it is damaged, or no such file.
    """
    path = local_path(url)
    try:
        if path is not None:
            return h5py.File(path, mode="r")
        from obspec_utils.readers import BlockStoreReader

        return h5py.File(BlockStoreReader(client_for(url, options), key_of(url)), mode="r")
    except OSError as error:
        raise InvalidInputError(
            f"not a readable HDF5 file: {error}", kind=ErrorKind.UNSUITABLE_DATA, file=shown(url)
        ) from None


def scan_hdf(
    url: str, options: Mapping[str, Any], group: str, wish: Wish
) -> tuple[list[Variable], str, tuple[str, ...]]:
    """The variables of a group, its attributes, and notes on what is left out.

    Raises:
        InvalidInputError: the file or a variable in it cannot be told in Zarr's terms.
    """
    with open_hdf(url, options) as file:
        found = file.get(group or "/")
        if not isinstance(found, h5py.Group):
            raise InvalidInputError(
                f"there is no group {group!r}", kind=ErrorKind.UNSUITABLE_DATA, file=shown(url)
            )
        items = dict(found.items())
        datasets = {
            name: item
            for name, item in items.items()
            if isinstance(item, h5py.Dataset) and name not in wish.drop and not _is_bare(item)
        }
        below = [name for name, item in items.items() if isinstance(item, h5py.Group)]
        described = {
            name: (_dims(dataset, found.name), dict(_attributes(dataset)), dataset.nbytes)
            for name, dataset in datasets.items()
        }
        names = wish.chosen(described)
        variables = [
            _variable(url, name, dataset, *described[name][:2], loads=name in names)
            for name, dataset in datasets.items()
        ]
        notes = (f"groups that are not taken: {', '.join(below)}",) if below else ()
        if not variables and below:
            raise InvalidInputError(
                f"the group {group or '/'!r} has no variables; choose one of its groups"
                f" ({', '.join(below)}) as the source group",
                kind=ErrorKind.UNSUITABLE_DATA,
                file=shown(url),
            )
        return variables, plain(dict(_attributes(found))), notes


def read_hdf(
    url: str, options: Mapping[str, Any], group: str, name: str, region: tuple[slice, ...]
) -> Array:
    """Values of a region of a variable, as stored."""
    with open_hdf(url, options) as file:
        return _values(file[f"{group or ''}/{name}"], region)


def _is_bare(dataset: h5py.Dataset) -> bool:
    """Whether this is a dimension of NetCDF4 that no variable belongs to."""
    if not h5py.h5ds.is_scale(dataset.id):
        return False
    name = dataset.attrs.get("NAME")
    return isinstance(name, bytes) and name.startswith(_NO_VARIABLE)


def _variable(
    url: str,
    name: str,
    dataset: h5py.Dataset,
    dims: tuple[str, ...],
    attributes: dict[str, Any],
    *,
    loads: bool,
) -> Variable:
    if dataset.dtype.kind == "O" and h5py.check_string_dtype(dataset.dtype) is None:
        raise _unsuitable(f"the variable {name!r} has a type that Zarr has not", url)
    dtype = np.dtype("O") if dataset.dtype.kind == "O" else _plain_dtype(dataset.dtype)
    if "_FillValue" in dataset.attrs:
        attributes |= encoded_attributes(dataset.attrs["_FillValue"], dtype)
    chunks = tuple(int(n) for n in (dataset.chunks or dataset.shape))
    is_text = dtype.kind == "O"
    return Variable(
        name=name,
        dims=dims,
        shape=tuple(map(int, dataset.shape)),
        chunks=tuple(max(1, n) for n in chunks),
        encoding=_encoding(url, name, dataset, dtype),
        attributes=plain(attributes),
        references=None if is_text else _references(url, name, dataset),
        # Strings of any length lie in a heap of the file, out of reach of references.
        values=_values(dataset, ()) if loads or is_text else None,
    )


def _encoding(url: str, name: str, dataset: h5py.Dataset, dtype: np.dtype[Any]) -> str:
    try:
        configs = [] if dtype.kind == "O" else _codecs(dataset)
    except (ValueError, KeyError, TypeError, AttributeError, ImportError) as error:
        filters = ", ".join(map(str, dataset._filters)) or "unknown"
        raise _unsuitable(
            f"the variable {name!r} has filters without a codec here ({filters}): {error}", url
        ) from None
    fill = dataset.fillvalue
    value = "" if dtype.kind == "O" else fill.item() if isinstance(fill, np.generic) else fill
    return encoding_of(Meaning(dtype, _frozen(value), canonical(configs)))


def _codecs(dataset: h5py.Dataset) -> list[dict[str, Any]]:
    """The codecs that stand for the filters of a dataset."""
    plain_ones = [filter_configuration(*each) for each in dataset._filters.items()]
    found = [each for each in plain_ones if each is not None]
    if len(found) == len(plain_ones):
        return found
    from virtualizarr.codecs import zarr_codec_config_to_v3
    from virtualizarr.parsers.hdf.filters import codecs_from_dataset

    return [zarr_codec_config_to_v3(c.get_config()) for c in codecs_from_dataset(dataset)]


def _frozen(value: object) -> Any:  # noqa: ANN401  (a scalar of any type)
    plain_value = value.item() if isinstance(value, np.ndarray) else value
    return math.nan if plain_value != plain_value else plain_value  # one NaN equals itself in keys


def _plain_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The type without what h5py notes on it, such as the names of an enumeration."""
    return np.dtype(dtype.str) if dtype.names is None else dtype


def _references(url: str, name: str, dataset: h5py.Dataset) -> References:
    low = dataset.id
    if dataset.chunks is None:
        offset = low.get_offset()
        if offset is None:
            return References.of_file(url, [], [], [])
        return References.of_file(url, [0], [offset], [low.get_storage_size()])
    count = low.get_num_chunks()
    rows: list[tuple[int, int, int]] = []
    steps = np.array(_strides(dataset.shape, dataset.chunks), np.int64)
    places: list[tuple[int, ...]] = []

    def take(stored: Any) -> None:  # noqa: ANN401  (h5py's own record)
        places.append(stored.chunk_offset)
        rows.append((stored.byte_offset, stored.size, stored.filter_mask))

    low.chunk_iter(take)
    if len(rows) != count:
        raise _unsuitable(f"the index of the chunks of {name!r} cannot be read", url)
    if not rows:
        return References.of_file(url, [], [], [])
    columns = np.array(rows, np.uint64)
    if columns[:, 2].any():
        raise _unsuitable(
            f"some chunks of {name!r} skipped a filter when they were written, which references"
            " cannot tell",
            url,
        )
    index = (np.array(places, np.int64) // np.array(dataset.chunks)) @ steps
    return References.of_file(url, index, columns[:, 0], columns[:, 1])


def _strides(shape: tuple[int, ...], chunks: tuple[int, ...]) -> list[int]:
    """Steps of each axis in the C order of the chunk grid."""
    steps = [1] * len(shape)
    for axis in range(len(shape) - 2, -1, -1):
        steps[axis] = steps[axis + 1] * -(-shape[axis + 1] // chunks[axis + 1])
    return steps


def _dims(dataset: h5py.Dataset, group: str) -> tuple[str, ...]:
    """Names of the dimensions, as NetCDF4 gives them; made-up ones where there are none."""
    is_scale = h5py.h5ds.is_scale(dataset.id)
    ndim = dataset.ndim
    numbers = dataset.attrs.get("_Netcdf4Coordinates") if is_scale and ndim != 1 else None
    if is_scale and ndim == 1:
        names = [str(dataset.name)]
    elif numbers is not None:
        # A coordinate with several dimensions cannot have scales of its own.
        known = _dimension_numbers(dataset.parent)
        names = [known.get(int(number), f"phony_dim_{axis}") for axis, number in enumerate(numbers)]
    else:
        scales = dataset.dims
        names = [
            str(found[0].name) if len(found := scales[axis]) else f"phony_dim_{axis}"
            for axis in range(ndim)
        ]
    return tuple(name.removeprefix(group).removeprefix("/") for name in names)


def _dimension_numbers(group: h5py.Group) -> dict[int, str]:
    """Names of NetCDF4 dimensions by the numbers that variables with two dimensions or more use."""
    items = [item for item in group.values() if isinstance(item, h5py.Dataset)]
    return {
        int(item.attrs["_Netcdf4Dimid"]): str(item.name)
        for item in items
        if "_Netcdf4Dimid" in item.attrs and h5py.h5ds.is_scale(item.id)
    }


def _attributes(item: h5py.Dataset | h5py.Group) -> Iterator[tuple[str, Any]]:
    for name in item.attrs:
        if name in _HIDDEN or name == "_FillValue":
            continue
        yield name, _attribute(item.attrs[name])


def _attribute(value: Any) -> Any:  # noqa: ANN401  (whatever a file holds, to JSON)
    match value:
        case bytes():
            return value.decode("utf-8", "replace")
        case h5py.Empty():
            return ""
        case np.ndarray() if value.dtype.kind in "SO":
            texts = [_attribute(each) for each in value.ravel().tolist()]
            return texts[0] if len(texts) == 1 else texts
        case np.ndarray() if value.size == 1:
            return value.ravel()[0].item()
        case np.ndarray() | np.generic():
            return value.tolist()
        case _:
            return value


def _values(dataset: h5py.Dataset, region: tuple[slice, ...]) -> Array:
    text = h5py.check_string_dtype(dataset.dtype)
    if text is not None and text.length is None:
        found = dataset.asstr()[region if dataset.ndim else ()]
        return np.asarray(found, dtype=np.dtypes.StringDType())
    values = dataset[region if dataset.ndim else ()]
    return np.asarray(values).astype(_plain_dtype(dataset.dtype), copy=False)


def _unsuitable(message: str, url: str) -> InvalidInputError:
    return InvalidInputError(message, kind=ErrorKind.UNSUITABLE_DATA, file=shown(url))
