"""HDF5 files, what is in them and its attributes; other files are opened only where the caller
allowed them.

The library follows links, and opens the files of external and virtual datasets, whenever a path or
a value is asked for. So paths are walked here, one link at a time, and the storage of a dataset is
looked at before its shape or values are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Self, TypeAlias

import h5py
import numpy as np
from h5py import h5d, h5l

from frazil.errors import InvalidInputError
from frazil.ingestion.records import InputFile
from frazil.ingestion.sources import Allowed, bad_file, client_for, display_url, local_path
from frazil.masking import MaskedRecord
from frazil.storage.locations import key_of

Item: TypeAlias = "h5py.Group | h5py.Dataset | h5py.Datatype"

DEPTH: Final = 16
"""Links that lead to links, and virtual datasets of virtual ones, are followed so far."""


def open_hdf(url: str, options: Mapping[str, Any]) -> h5py.File:
    """Open an HDF5 file, here or elsewhere."""
    path = local_path(url)
    try:
        if path is not None:
            return h5py.File(path, mode="r")
        from obspec_utils.readers import BlockStoreReader

        return h5py.File(BlockStoreReader(client_for(url, options), key_of(url)), mode="r")
    except OSError as error:
        raise bad_file(f"not a readable HDF5 file: {error}", url) from None


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class HdfItem(MaskedRecord):
    """A group or dataset, and the file that it is really in."""

    url: str
    item: Item


class HdfFiles:
    """A file and those it may lead to, open until the end of a `with` block."""

    def __init__(self, source: InputFile) -> None:
        self.options = source.options
        self._allowed = Allowed(source.allowed)
        self._open = {source.url: open_hdf(source.url, source.options)}
        self.root = self._root(source.url)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for file in self._open.values():
            file.close()

    # --- paths ---

    def find(self, path: str, start: HdfItem | None = None, depth: int = DEPTH) -> HdfItem | None:
        """What a path leads to; None for nothing."""
        at = self._root(start.url) if start is not None and path.startswith("/") else start
        found: HdfItem | None = at or self.root
        for name in path.split("/"):
            if found is None or not isinstance(found.item, h5py.Group):
                return None
            if name not in ("", "."):
                found = self._member(found, name, depth)
        return found

    def members(self, group: HdfItem) -> Iterator[tuple[str, HdfItem]]:
        """What a group has; links that lead nowhere are left out."""
        assert isinstance(group.item, h5py.Group)
        for name in group.item:
            if isinstance(name, bytes):
                raise bad_file(f"something is called {name!r}, which is no text", group.url)
            found = self._member(group, name, DEPTH)
            if found is not None:
                yield name, found

    def _root(self, url: str) -> HdfItem:
        return HdfItem(url, self._open[url]["/"])

    def _member(self, group: HdfItem, name: str, depth: int) -> HdfItem | None:
        if not depth:
            raise bad_file(
                f"the link {name!r} leads to too many other links, or to itself", group.url
            )
        links, key = group.item.id.links, name.encode("utf-8", "surrogateescape")
        if not links.exists(key):
            return None
        kind = links.get_info(key).type
        if kind == h5l.TYPE_HARD:
            return HdfItem(group.url, group.item[name])
        if kind == h5l.TYPE_SOFT:
            return self.find(links.get_val(key).decode(), group, depth - 1)
        if kind != h5l.TYPE_EXTERNAL:
            raise bad_file(f"the link {name!r} is of an unknown kind", group.url)
        file, path = (part.decode() for part in links.get_val(key))
        url = self._file(file, group.url)
        return self.find(path, self._root(url), depth - 1)

    def _file(self, name: str, by: str) -> str:
        """Open a file that another one names."""
        url = self._allowed.require(name, by)
        if url not in self._open:
            try:
                self._open[url] = open_hdf(url, self.options)
            except InvalidInputError as error:
                raise bad_file(f"it leads to another file: {error}", by) from error
        return url

    # --- other files ---

    def raw_segments(self, found: HdfItem) -> list[tuple[str, int, int]]:
        """Where the values of a dataset with external storage are: files, offsets and lengths.

        They are read without the library, which would look for them where the program was started
        and take zeros for what a file lacks.
        """
        plist = found.item.id.get_create_plist()
        named = [plist.get_external(number) for number in range(plist.get_external_count())]
        return [
            (self._allowed.require(name.decode(), found.url), int(offset), int(size))
            for name, offset, size in named
        ]

    def require_sources(self, found: HdfItem, depth: int = DEPTH) -> None:
        """Make sure that the library may read a dataset, and finds all that it consists of."""
        if self.raw_segments(found) and depth < DEPTH:
            raise bad_file("a virtual dataset of external datasets is not supported", found.url)
        plist = found.item.id.get_create_plist()
        if plist.get_layout() != h5d.VIRTUAL:
            return
        if local_path(found.url) is None:
            raise bad_file("virtual datasets can be read from local disk only", found.url)
        if not depth:
            raise bad_file("a virtual dataset is nested too deeply in others", found.url)
        for number in range(plist.get_virtual_count()):
            file, name = plist.get_virtual_filename(number), plist.get_virtual_dsetname(number)
            if "%" in file.replace("%%", "") or "%" in name.replace("%%", ""):
                raise bad_file(
                    f"virtual datasets with patterns ({file!r}) are not supported", found.url
                )
            url = found.url if file == "." else self._file(file.replace("%%", "%"), found.url)
            source = self.find(name.replace("%%", "%"), self._root(url), depth - 1)
            if source is None or not isinstance(source.item, h5py.Dataset):
                raise bad_file(
                    f"{name!r} of a virtual dataset is not in {display_url(url)}", found.url
                )
            self.require_sources(source, depth - 1)


# --- attributes ---

_HIDDEN: Final = frozenset([
    "REFERENCE_LIST", "CLASS", "DIMENSION_LIST", "NAME", "DIMENSION_LABELS", "_FillValue",
    "_Netcdf4Dimid", "_Netcdf4Coordinates", "_nc3_strict", "_NCProperties", "_NCCOPY",
])  # fmt: skip
"""attributes that only NetCDF needs; what they say is in the metadata of Zarr"""


class _NoWordsError(Exception):
    """A value that JSON cannot hold: a reference, a complex number, a record."""


def attributes_of(item: h5py.Dataset | h5py.Group) -> tuple[dict[str, Any], list[str]]:
    """Attributes as JSON, and the names of those that JSON has no words for."""
    found: dict[str, Any] = {}
    left_out: list[str] = []
    for name in item.attrs:
        if name in _HIDDEN:
            continue
        try:
            found[name] = _plain(item.attrs[name])
        except (_NoWordsError, TypeError, OSError, ValueError):
            left_out.append(name)
    return found, left_out


def _plain(value: Any) -> Any:  # noqa: ANN401  (whatever a file holds, to JSON)
    match value:
        case str() | bool() | int() | float():
            return value
        case bytes():
            return value.decode("utf-8", "replace")
        case h5py.Empty():
            return ""
        case np.ndarray() if value.dtype.kind in "SOU":
            texts = [_plain(each) for each in value.ravel().tolist()]
            return texts[0] if len(texts) == 1 else texts
        case np.ndarray() | np.generic() if value.dtype.kind == "f" and value.dtype.itemsize > 8:
            raise _NoWordsError
        case np.ndarray() if value.dtype.kind in "biuf" and value.size == 1:
            return value.ravel()[0].item()
        case np.ndarray() | np.generic() if value.dtype.kind in "biufSU":
            found = value.tolist()
            return _plain(found) if isinstance(found, bytes) else found
        case _:
            raise _NoWordsError
