"""The xarray engine: `xr.open_dataset("s3://bucket/prefix@branch", engine="frazil")`."""

from __future__ import annotations

import inspect
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, ClassVar, Final, TypeAlias

import xarray as xr
from xarray.backends import BackendEntrypoint
from xarray.backends.zarr import ZarrBackendEntrypoint

from frazil.errors import ErrorKind, InvalidInputError
from frazil.formats.envelope import MAGIC
from frazil.ids import MAIN
from frazil.masking import MaskedRecord
from frazil.repository import Repository
from frazil.session import Session
from frazil.storage.by_url import storage_from_url
from frazil.storage.credentials import AnyCredential
from frazil.store import FrazilStore
from frazil.urls import is_marked, parse_url, resolve_version

Openable: TypeAlias = str | os.PathLike[str] | Repository | Session | FrazilStore

_REPO_OBJECT: Final = "repo"
_V1_BRANCH: Final = "refs/branch.main/ref.json"


@dataclass(frozen=True, slots=True, repr=False)
class VersionChoice(MaskedRecord):
    """Which version of a repository to read, and with what access."""

    branch: str | None = None
    tag: str | None = None
    snapshot_id: str | None = None
    as_of: datetime | None = None
    storage_options: Mapping[str, Any] | None = None
    authorize_virtual_chunk_access: Mapping[str, AnyCredential | None] | None = None

    def names_version(self) -> bool:
        """Tell whether a version was chosen by arguments."""
        chosen = (self.branch, self.tag, self.snapshot_id, self.as_of)
        return any(value is not None for value in chosen)

    def session(self, repository: Repository) -> Session:
        """Open the version; the newest of `main` when none was chosen."""
        is_default = self.branch is None and self.tag is None and self.snapshot_id is None
        return repository.readonly_session(
            MAIN if is_default else self.branch,
            tag=self.tag,
            snapshot_id=self.snapshot_id,
            as_of=self.as_of,
        )


def open_store(source: Openable, choice: VersionChoice | None = None) -> FrazilStore:
    """Open what a user may hand over: a URL, a path, a repository, a session or a store.

    Raises:
        InvalidInputError: a version is chosen twice, or arguments cannot take effect.
    """
    choice = choice or VersionChoice()
    match source:
        case FrazilStore() | Session():
            if choice != VersionChoice():
                raise _contradiction("a session already is one version of a repository")
            return source if isinstance(source, FrazilStore) else source.store
        case Repository():
            if choice.storage_options or choice.authorize_virtual_chunk_access is not None:
                raise _contradiction("an open repository has its storage and its access")
            return choice.session(source).store
        case _:
            return _open_text(os.fspath(source), choice).store


def _open_text(text: str, choice: VersionChoice) -> Session:
    place = parse_url(text)
    if place.ref is not None and choice.names_version():
        raise _contradiction(f"{text!r} already names a version")
    repository = Repository.open(
        storage_from_url(place.url, **(choice.storage_options or {})),
        authorize_virtual_chunk_access=choice.authorize_virtual_chunk_access,
    )
    if place.ref is None:
        return choice.session(repository)
    return repository.readonly_session(snapshot_id=resolve_version(place.ref, repository))


def _contradiction(reason: str) -> InvalidInputError:
    return InvalidInputError(
        f"{reason}; leave out branch, tag, snapshot_id, as_of and the like",
        kind=ErrorKind.INVALID_REF_TYPE,
    )


class FrazilBackend(BackendEntrypoint):
    """Opens repositories by URL or path; repositories, sessions and stores as they are."""

    description: ClassVar[str] = "Open Icechunk repositories (any URL or path) with Frazil"
    url: ClassVar[str] = ""
    supports_groups: ClassVar[bool] = True

    def guess_can_open(self, filename_or_obj: Any) -> bool:  # noqa: ANN401  (whatever a user gives)
        """Claim our objects, marked URLs such as `icechunk+s3://…`, and local repositories."""
        if isinstance(filename_or_obj, Repository | Session | FrazilStore):
            return True
        if not isinstance(filename_or_obj, str | os.PathLike):
            return False
        text = os.fspath(filename_or_obj)
        return isinstance(text, str) and (is_marked(text) or _is_local_repository(text))

    def open_dataset(  # type: ignore[override]  # xarray reads the engine's own options here
        self,
        filename_or_obj: Openable,
        *,
        mask_and_scale: bool = True,
        decode_times: Any = True,  # noqa: ANN401  (xarray's; a bool or a coder)
        concat_characters: bool = True,
        decode_coords: Any = True,  # noqa: ANN401 - what xarray takes
        drop_variables: str | Iterable[str] | None = None,
        use_cftime: bool | None = None,
        decode_timedelta: Any = None,  # noqa: ANN401 - what xarray takes
        group: str | None = None,
        branch: str | None = None,
        tag: str | None = None,
        snapshot_id: str | None = None,
        as_of: datetime | None = None,
        storage_options: Mapping[str, Any] | None = None,
        authorize_virtual_chunk_access: Mapping[str, AnyCredential | None] | None = None,
    ) -> xr.Dataset:
        """Open one group; see `xarray.open_dataset` for the decoding.

        Args:
            filename_or_obj: a URL or path, which may name a version (`…@dev`), or an open
                repository, session or store.
            group: path of the group; the root by default.
            branch: the branch to read; `main` when nothing else is chosen.
            tag: the tag to read.
            snapshot_id: the snapshot to read.
            as_of: what the branch was at this time.
            storage_options: arguments of the storage, such as `region` or `anonymous`.
            authorize_virtual_chunk_access: credentials by prefix of virtual chunk containers.
        """
        choice = VersionChoice(
            branch, tag, snapshot_id, as_of, storage_options, authorize_virtual_chunk_access
        )
        return ZarrBackendEntrypoint().open_dataset(
            open_store(filename_or_obj, choice),  # type: ignore[arg-type]  # a Zarr store will do
            group=group,
            consolidated=False,
            zarr_format=3,
            mask_and_scale=mask_and_scale,
            decode_times=decode_times,
            concat_characters=concat_characters,
            decode_coords=decode_coords,
            drop_variables=drop_variables,
            use_cftime=use_cftime,
            decode_timedelta=decode_timedelta,
        )

    # xarray reads the names off registered engines only, not off a class given as engine.
    open_dataset_parameters: ClassVar[tuple[str, ...]] = tuple(
        inspect.signature(open_dataset).parameters
    )[1:]

    def open_datatree(  # type: ignore[override]  # as above
        self,
        filename_or_obj: Openable,
        **options: Any,  # noqa: ANN401  (those of open_dataset)
    ) -> xr.DataTree:
        """Open a group with all groups below it as a tree."""
        return xr.DataTree.from_dict(self.open_groups_as_dict(filename_or_obj, **options))

    def open_groups_as_dict(  # type: ignore[override]  # as above
        self,
        filename_or_obj: Openable,
        **options: Any,  # noqa: ANN401  (those of open_dataset)
    ) -> dict[str, xr.Dataset]:
        """Open a group and all groups below it, by path."""
        names = VersionChoice.__dataclass_fields__
        chosen = {name: options.pop(name) for name in names if name in options}
        return ZarrBackendEntrypoint().open_groups_as_dict(
            # For mypy: a Zarr store will do.
            open_store(filename_or_obj, VersionChoice(**chosen)),  # type: ignore[arg-type]
            consolidated=False,
            zarr_format=3,
            **options,
        )


def _is_local_repository(text: str) -> bool:
    """Look for the files that only a repository has."""
    try:
        place = parse_url(text)
    except InvalidInputError:
        return False
    if "://" in place.url:
        return False
    folder = Path(place.url).expanduser()
    try:
        if (folder / _V1_BRANCH).is_file() or _is_old_repository(folder):
            return True
        with (folder / _REPO_OBJECT).open("rb") as file:
            return file.read(len(MAGIC)) == MAGIC
    except OSError:
        return False


def _is_old_repository(folder: Path) -> bool:
    """Look for the files that only a repository from before spec 1 has."""
    if not folder.is_dir():
        return False
    from frazil.formats.legacy.dialects import STATE_FILES
    from frazil.formats.legacy.refs import LAYOUTS

    branches = (layout.branch_key(MAIN, 0) for layout in LAYOUTS)
    if any((folder / key).is_file() for key in branches):
        return True
    states = (folder / name for name in STATE_FILES)
    return any(b'"structure-file"' in each.read_bytes() for each in states if each.is_file())
