"""The parts of a repository from before spec 1, which share what they learn of its files."""

from __future__ import annotations

from dataclasses import dataclass

from frazil.commit.by_numbered_files import NumberedRefs
from frazil.commit.by_state_file import StateFileRefs
from frazil.commit.file_refs import FileRefs
from frazil.formats.generation import Generation, Protocol
from frazil.model.config import RepositoryConfig
from frazil.storage.assets import Assets
from frazil.storage.base import Storage
from frazil.storage.legacy.name_book import NameBook
from frazil.storage.legacy.opening import objects_of
from frazil.storage.legacy.state_file import StateFile


@dataclass(frozen=True, slots=True)
class LegacyParts:
    """What the refs and the objects of one repository have in common."""

    storage: Storage
    generation: Generation
    config: RepositoryConfig
    names: NameBook
    state: StateFile
    store_root: Storage | str | None = None

    def objects(self) -> Storage:
        """The objects of the repository in the form of a spec."""
        return objects_of(self.storage, self.generation, self.names, self.state, self.store_root)

    def refs(self, assets: Assets) -> FileRefs:
        """Its branches and tags, and how they move."""
        if self.generation.protocol is Protocol.STATE_FILE:
            return StateFileRefs(self.storage, assets, self.config, self.generation, self.state)
        return NumberedRefs(self.storage, assets, self.config, self.generation, self.names)


def legacy_parts(
    storage: Storage,
    generation: Generation,
    config: RepositoryConfig,
    store_root: Storage | str | None = None,
) -> LegacyParts:
    """The parts of a repository at a place; `storage` has the settings of `config`."""
    # What a backend says by default is for the official package, whose disks replace nothing
    # conditionally; ours do.
    asked = None if config.storage is None else config.storage.unsafe_use_conditional_update
    replaces = asked is not False
    state = StateFile(storage, replaces=replaces)
    return LegacyParts(storage, generation, config, NameBook(), state, store_root)
