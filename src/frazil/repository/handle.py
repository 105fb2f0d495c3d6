"""What every part of an open repository shares: its context, settings and checks."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import timedelta
from typing import Any, ClassVar

from frazil.async_twins import async_twin
from frazil.formats.config_codec import config_from_map, config_to_map
from frazil.formats.config_keys import merged_config
from frazil.ids import SnapshotId
from frazil.model.config import Attribution, RepositoryConfig
from frazil.model.display import Field, HasRepr, Verbatim
from frazil.model.history import JSON
from frazil.model.values import SpecVersion
from frazil.naming import OURS, dotted
from frazil.storage.base import Storage
from frazil.tip import require_writable
from frazil.transaction.context import Context


class RepositoryHandle(HasRepr):
    """An open repository."""

    _shown_name = "Repository"
    _shown_package = OURS
    _minimum_age: ClassVar[timedelta | None] = None
    """how old something must be to be deleted, unless a call says otherwise; None: a day"""

    def __init__(
        self, context: Context, storage: Storage, attribution: Attribution | None = None
    ) -> None:
        self._open_context: Context | None = context
        self._storage = storage
        self._attribution = attribution or Attribution()

    @property
    def _context(self) -> Context:
        """The parts this handle is made of; other layers get them by `context_of`.

        Raises:
            RuntimeError: the repository was upgraded through this handle.
        """
        if self._open_context is None:
            raise RuntimeError(
                "This handle was invalidated by upgrade_icechunk_repository; "
                "use the repository that function returned."
            )
        return self._open_context

    @property
    def config(self) -> RepositoryConfig:
        """A copy of the configuration in force."""
        return RepositoryConfig().merge(self._context.config)

    @property
    def storage(self) -> Storage:
        """Where the repository is."""
        return self._storage

    @property
    def attribution(self) -> Attribution:
        """The labels that requests carry in their User-Agent."""
        return self._attribution

    @property
    def spec_version(self) -> SpecVersion:
        """The version of the format this repository is written in."""
        return SpecVersion(self._context.generation.number)

    @property
    def authorized_virtual_container_prefixes(self) -> set[str]:
        """Virtual chunk containers this handle may read."""
        return set(self._context.containers.authorized_prefixes())

    def _shown_title(self) -> str:
        """The first line of `repr`; it never fails, so that a debugger can show it."""
        if self._open_context is None:
            return dotted(f"{self._shown_name} (invalidated by an upgrade)")
        return dotted(f"{self._shown_name} ({self._context.generation.name})")

    def _shown_fields(self) -> Iterable[Field]:
        """What `repr` shows."""
        yield Field("storage", self._storage)
        yield Field("config", Verbatim("<RepositoryConfig ...>"))

    def save_config(self) -> None:
        """Store the configuration in force, for all later openings of the repository.

        What this handle changed since it was opened is changed in what is stored now, so that
        settings that others saved meanwhile stay.

        Raises:
            ConflictError: others have given another value to the same setting.
        """
        loaded, ours = self._context.loaded_config, config_to_map(self._context.config)

        def change(stored: JSON | None) -> JSON:
            return merged_config(loaded, ours, config_to_map(config_from_map(stored)))

        edit_stored_config(self._context, change)

    def set_default_commit_metadata(self, metadata: dict[str, Any]) -> None:
        """Set metadata that each commit of this handle carries."""
        self._context.default_commit_metadata.clear()
        self._context.default_commit_metadata.update(metadata)

    def default_commit_metadata(self) -> dict[str, Any]:
        """Metadata that each commit of this handle carries."""
        return dict(self._context.default_commit_metadata)

    # --- rules ---

    def _selected(self, branch: str | None, tag: str | None, snapshot_id: str | None) -> SnapshotId:
        """The snapshot named by exactly one of three ways."""
        if sum(choice is not None for choice in (branch, tag, snapshot_id)) != 1:
            raise ValueError("give exactly one of branch, tag and snapshot_id")
        if branch is not None:
            return self._context.refs.branch_tip(branch)
        if tag is not None:
            return self._context.refs.tag_target(tag)
        assert snapshot_id is not None
        return self._id_of(snapshot_id)

    def _id_of(self, text: str) -> SnapshotId:
        """The snapshot id that a text means."""
        return self._context.refs.snapshot_id(text)

    save_config_async = async_twin(save_config)


def retire(handle: RepositoryHandle) -> None:
    """Make a handle unusable, because the repository behind it has changed its format."""
    handle._open_context = None


def edit_stored_config(context: Context, change: Callable[[JSON | None], JSON]) -> None:
    """Replace the stored configuration by what a pure function of the stored one gives.

    The function may be asked several times, when others change the configuration meanwhile.
    """
    require_writable(context)
    saved: list[JSON] = []

    def remember(stored: JSON | None) -> JSON:
        saved[:] = [change(stored)]
        return saved[0]

    context.refs.edit_config(remember)
    context.loaded_config.clear()
    context.loaded_config.update(saved[0])
