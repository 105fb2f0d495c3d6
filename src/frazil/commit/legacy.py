"""Refs and objects of a G1, G2 or G3 repository, over one view of its files."""

from __future__ import annotations

from dataclasses import dataclass

from frazil.commit.by_numbered_files import NumberedRefs
from frazil.commit.by_state_file import StateFileRefs
from frazil.commit.file_refs import FileRefs
from frazil.formats.generation import Generation
from frazil.model.config import RepositoryConfig
from frazil.storage.assets import Assets
from frazil.storage.base import Storage
from frazil.storage.legacy.g1 import StateFile
from frazil.storage.legacy.objects import LegacyAssets, LegacyObjects
from frazil.storage.legacy.opening import LegacyRepository, files_of


@dataclass(frozen=True, slots=True)
class LegacyParts:
    """What is needed to make the refs and the assets of one repository."""

    storage: Storage
    generation: Generation
    config: RepositoryConfig
    found: LegacyRepository
    state: StateFile
    objects: LegacyObjects

    def assets(self, near: Storage) -> Assets:
        """Its snapshots, manifests and logs; `near` may have a disk cache."""
        made = LegacyAssets(self.objects, self.generation, self.config, near)
        if self.found.tip is not None:
            made.keep(self.found.tip)
        return made

    def refs(self, assets: Assets) -> FileRefs:
        """Its branches and tags, and how they move."""
        if self.generation.has_store_root:
            return StateFileRefs(self.storage, assets, self.config, self.generation, self.state)
        names, layout = self.found.names, self.found.layout
        return NumberedRefs(self.storage, assets, self.config, self.generation, names, layout)


def legacy_parts(
    storage: Storage,
    generation: Generation,
    config: RepositoryConfig,
    found: LegacyRepository | None = None,
    store_root: Storage | str | None = None,
) -> LegacyParts:
    """The parts of a repository at a place; `storage` has the settings of `config`.

    `found` is what was just read of it.
    """
    found = found or LegacyRepository(generation)
    # What a backend says by default is for the official package, whose disks replace nothing
    # conditionally; ours do.
    asked = None if config.storage is None else config.storage.unsafe_use_conditional_update
    state = StateFile(storage, replaces=asked is not False, known=found.state)
    files = files_of(storage, generation, found, state, store_root)
    objects = LegacyObjects(files.storage, files)
    return LegacyParts(storage, generation, config, found, state, objects)
