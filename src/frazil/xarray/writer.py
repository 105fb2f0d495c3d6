"""Writing xarray objects to a session: metadata and arrays in memory first, then dask arrays.

xarray's own Zarr store encodes the variables and checks chunks, regions and modes; only where
the values go is decided here.
"""

from __future__ import annotations

import contextlib
from collections.abc import Hashable, Iterator, Mapping, MutableMapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias

import numpy.typing as npt
import xarray as xr
from xarray.backends.zarr import ZarrStore

from frazil.distributed import in_session
from frazil.run import path_of, rely_on_lengths
from frazil.session import Session

try:
    from xarray.backends.writers import _validate_dataset_names, dump_to_store
except ImportError:  # xarray before 2025.10
    # Which of both there is depends on the release.
    from xarray.backends.api import (  # type: ignore[attr-defined,no-redef,unused-ignore]
        _validate_dataset_names,
        dump_to_store,
    )

RegionArgument: TypeAlias = Mapping[str, slice | Literal["auto"]] | Literal["auto"] | None
WriteMode: TypeAlias = Literal["w", "w-", "a", "a-", "r+"]

# What xarray calls the variable of an array without a name of its own.
_UNNAMED: Final = "__xarray_dataarray_variable__"
_NAME_ATTRIBUTE: Final = "__xarray_dataarray_name__"
_CHOSEN_HERE: Final = ("compute", "flush", "load_stored", "lock", "regions", "return_stored")


@dataclass(slots=True)
class PendingArrays:
    """Arrays on their way to a store; stands in for xarray's `ArrayWriter`."""

    eager: list[tuple[npt.ArrayLike, Any, Any]] = field(default_factory=list)
    lazy: list[tuple[Any, Any, Any]] = field(default_factory=list)

    def add(self, source: Any, target: Any, region: Any = None) -> None:  # noqa: ANN401 - arrays of numpy, dask or zarr
        """Take note of one array; called by xarray."""
        kind = self.lazy if hasattr(source, "__dask_graph__") else self.eager
        kind.append((source, target, region))


def to_icechunk(
    obj: xr.DataArray | xr.Dataset,
    session: Session,
    *,
    group: str | None = None,
    mode: WriteMode | None = None,
    safe_chunks: bool = True,
    align_chunks: bool = False,
    append_dim: Hashable | None = None,
    region: RegionArgument = None,
    encoding: Mapping[Any, Any] | None = None,
    chunkmanager_store_kwargs: MutableMapping[Any, Any] | None = None,
    split_every: int | None = None,
) -> None:
    """Write an xarray object to a group of a session; nothing is committed.

    Dask arrays are written through forks that are merged back, so any scheduler will do.

    Args:
        obj: a dataset, or an array, which is stored as a dataset of one variable.
        session: a writable session or a fork.
        group: path of the group; the root by default.
        mode: "w" replaces the group, "w-" refuses an existing one, "a" adds and overwrites
            variables, "a-" only appends to those that have `append_dim`, "r+" changes values
            only. By default "a" with `append_dim`, "r+" with `region`, else "w-".
        safe_chunks: refuse dask chunks and regions that do not fit the Zarr chunks.
        align_chunks: rechunk dask arrays to fit instead.
        append_dim: the dimension along which to append.
        region: where to write in existing arrays, as slices or "auto" by dimension; "auto"
            finds the place by comparing coordinates.
        encoding: settings by variable, such as `{"rain": {"dtype": "int16", "chunks": (1, 9)}}`.
        chunkmanager_store_kwargs: arguments of `dask.compute` for the dask arrays.
        split_every: how many forks one dask task merges.

    Raises:
        TypeError: the object or the session is of another kind.
        ValueError: the arguments do not go together, or the data do not fit what is there.
    """
    if not isinstance(session, Session):
        raise TypeError(f"to_icechunk writes to a Session, not to a {type(session).__name__}")
    dataset = _as_dataset(obj)
    options: dict[str, Any] = {
        "group": group,
        "mode": _checked_mode(mode, append_dim, region),
        "append_dim": append_dim,
        "write_region": region,
        "safe_chunks": safe_chunks,
        "align_chunks": align_chunks,
        "zarr_format": 3,
        "consolidated": False,
        "consolidate_on_close": False,
    }
    with _warned(session):
        _rely(session, dataset, options)
        store = ZarrStore.open_group(session.store, **options)
        pending = _write_metadata(dataset, store, encoding or {})
        for source, target, part in pending.eager:
            target[part or ...] = source
        if pending.lazy:
            _write_lazy(pending, session, dict(chunkmanager_store_kwargs or {}), split_every)


def _rely(session: Session, dataset: xr.Dataset, options: Mapping[str, Any]) -> None:
    """Name what decides where the values go: a change of it before the commit is a conflict."""
    group, region = options["group"] or "", options["write_region"]
    if options["append_dim"] is not None:
        session.rely_on_dimensions(group, str(options["append_dim"]), members=True)
    elif region is None and options["mode"] != "w":
        new = {
            str(dim)
            for name, variable in dataset.variables.items()
            if session.state.tree.get(path_of(group, str(name))) is None
            for dim in variable.dims
        }
        rely_on_lengths(session, path_of(group, ""), new)
    if region == "auto":
        region = dict.fromkeys(dataset.dims, "auto")
    found = [dim for dim, part in (region or {}).items() if isinstance(part, str)]
    session.rely_on(*(f"{group.strip('/')}/{dim}" for dim in found))


@contextlib.contextmanager
def _warned(session: Session) -> Iterator[None]:
    """Add a note to errors that the session may contain a part of the write.

    Undoing it here could take away what other threads wrote to the session meanwhile.
    """
    try:
        yield
    except BaseException as error:
        if session.has_uncommitted_changes:
            error.add_note(
                "The session may hold a part of this write: call discard_changes() before you "
                "try again, and do not commit it."
            )
        raise


def _write_metadata(
    dataset: xr.Dataset, store: ZarrStore, encoding: Mapping[Any, Any]
) -> PendingArrays:
    """Create or resize arrays, write attributes, and return the values yet to be written."""
    dataset = store._validate_and_autodetect_region(dataset)
    _validate_dataset_names(dataset)
    store._validate_encoding(encoding)
    pending = PendingArrays()
    # For mypy: xarray has no types for it.
    dump_to_store(dataset, store, pending, encoding=encoding)  # type: ignore[no-untyped-call]
    return pending


def _write_lazy(
    pending: PendingArrays, session: Session, arguments: dict[str, Any], split_every: int | None
) -> None:
    from frazil.dask import store_dask

    for name in _CHOSEN_HERE:
        arguments.pop(name, None)
    # A fork sees the arrays created above, and no commit is needed before it.
    fork = session.fork()
    sources, targets, regions = zip(*pending.lazy, strict=True)
    session.merge(
        store_dask(
            sources=sources,
            targets=[in_session(target, fork) for target in targets],
            regions=list(regions),
            split_every=split_every,
            **arguments,
        )
    )


def _checked_mode(
    mode: WriteMode | None, append_dim: Hashable | None, region: RegionArgument
) -> WriteMode:
    if mode is None:
        if append_dim is not None:
            return "a"
        return "w-" if region is None else "r+"
    if mode not in ("w", "w-", "a", "a-", "r+"):
        raise ValueError(
            f"The only supported options for mode are 'w', 'w-', 'a', 'a-' and 'r+', not {mode!r}"
        )
    if append_dim is not None and mode not in ("a", "a-"):
        raise ValueError("cannot set append_dim unless mode='a' or mode=None")
    if region is not None and mode in ("w", "w-"):
        raise ValueError("cannot set region unless mode='a', mode='a-', mode='r+' or mode=None")
    return mode


def _as_dataset(obj: xr.DataArray | xr.Dataset) -> xr.Dataset:
    """An array as a dataset of one variable, named as xarray's own writers do."""
    if isinstance(obj, xr.Dataset):
        return obj
    if not isinstance(obj, xr.DataArray):
        raise TypeError(f"to_icechunk writes a Dataset or DataArray, not a {type(obj).__name__}")
    if obj.name is None:
        return obj.to_dataset(name=_UNNAMED)
    if obj.name in obj.coords or obj.name in obj.dims:
        dataset = obj.to_dataset(name=_UNNAMED)
        dataset.attrs[_NAME_ATTRIBUTE] = obj.name
        return dataset
    return obj.to_dataset()
