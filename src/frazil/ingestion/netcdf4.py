"""What the library of NetCDF4 shows otherwise than HDF5 stores it: names, and lengths.

A variable that has the name of a dimension without being its labels is stored under another name.
Variables along an unlimited dimension are as long as what was written of them; all are shown as
long as the longest, with fill values behind.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import h5py
import numpy as np
from h5py import h5d

from frazil.ingestion.hdf_files import HdfFiles, HdfItem
from frazil.ingestion.records import Array, Shape

_NO_VARIABLE: Final = b"This is a netCDF dimension but not a netCDF variable"
_OTHER_NAME: Final = "_nc4_non_coord_"


def is_bare(item: object) -> bool:
    """Whether this is a dimension that no variable belongs to."""
    if not isinstance(item, h5py.Dataset) or not h5py.h5ds.is_scale(item.id):
        return False
    name = item.attrs.get("NAME")
    return isinstance(name, bytes) and name.startswith(_NO_VARIABLE)


# --- names ---


def by_shown_name(members: Mapping[str, HdfItem]) -> dict[str, HdfItem]:
    """Members of a group by the names that their variables are known by."""
    found = {name: each for name, each in members.items() if not name.startswith(_OTHER_NAME)}
    for name, each in members.items():
        if name.startswith(_OTHER_NAME):
            shown = name.removeprefix(_OTHER_NAME)
            is_free = shown not in found or is_bare(found[shown].item)
            found[shown if shown and is_free else name] = each
    return found


def find_variable(files: HdfFiles, group: str, name: str) -> HdfItem | None:
    """The dataset of a variable, by the name that it is known by."""
    found = files.find(f"{group}/{name}")
    if found is None or is_bare(found.item):
        found = files.find(f"{group}/{_OTHER_NAME}{name}") or found
    return found


# --- lengths ---


def unlimited_lengths(
    members: Mapping[str, HdfItem], variables: Iterable[tuple[tuple[str, ...], h5py.Dataset]]
) -> dict[str, int]:
    """How long the unlimited dimensions of a group are: as the longest of their variables."""
    found = dict.fromkeys(_unlimited(members), 0)
    for dims, dataset in variables:
        for dim, length in zip(dims, dataset.shape or (), strict=False):
            if dim in found:
                found[dim] = max(found[dim], int(length))
    return found


def _unlimited(members: Mapping[str, HdfItem]) -> Iterator[str]:
    for name, each in members.items():
        item = each.item
        is_scale = isinstance(item, h5py.Dataset) and h5py.h5ds.is_scale(item.id)
        if is_scale and item.maxshape == (None,):
            yield name


def outer_lengths(root: h5py.Group, group: str) -> dict[str, int]:
    """The same for dimensions of the groups around a group, which variables of all groups have."""
    around = [group.rpartition("/")[0]] if group.strip("/") else []
    while around and around[-1]:
        around.append(around[-1].rpartition("/")[0])
    found: dict[str, int] = {}
    for path in around:
        outer = root[path or "/"]
        links = {name: outer.get(name, getclass=True, getlink=True) for name in outer}
        for item in (outer[name] for name, link in links.items() if link is h5py.HardLink):
            is_scale = isinstance(item, h5py.Dataset) and h5py.h5ds.is_scale(item.id)
            if is_scale and item.maxshape == (None,):
                found[str(item.name)] = 0 if is_bare(item) else int(item.shape[0])

    def look(_: str, item: object) -> None:
        if isinstance(item, h5py.Dataset) and _is_inside(item):
            for axis, length in enumerate(item.shape or ()):
                for scale in item.dims[axis].values():
                    if scale.name in found:
                        found[scale.name] = max(found[scale.name], int(length))

    if found:
        root.visititems(look)
    return {name.removeprefix("/"): length for name, length in found.items()}


def _is_inside(item: h5py.Dataset) -> bool:
    """Whether a dataset is stored in its own file, so that its shape can be asked for."""
    plist = item.id.get_create_plist()
    return not plist.get_external_count() and plist.get_layout() != h5d.VIRTUAL


def shown_shape(dataset: h5py.Dataset, dims: tuple[str, ...], lengths: Mapping[str, int]) -> Shape:
    """The shape of a variable with what is missing along unlimited dimensions.

    Where the file does not say what to fill it with, the shape is that of the dataset.
    """
    shape = tuple(map(int, dataset.shape))
    axes = zip(dims, shape, dataset.maxshape, strict=True)
    shown = tuple(lengths.get(dim, n) if most is None else n for dim, n, most in axes)
    if shown == shape:
        return shape
    has_fill = dataset.id.get_create_plist().fill_value_defined() == h5d.FILL_VALUE_USER_DEFINED
    return shown if has_fill else shape


def filled_up(values: Array, shape: Shape, fill: Any) -> Array:  # noqa: ANN401  (a value of any type)
    """Values of a dataset that is shorter than it is shown, with the fill value behind them."""
    if values.shape == shape:
        return values
    found: Array = np.full(shape, fill, values.dtype)
    found[tuple(map(slice, values.shape))] = values
    return found
