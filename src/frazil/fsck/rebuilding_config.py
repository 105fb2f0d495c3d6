"""A stored configuration that cannot be read keeps a repository from being opened at all."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from frazil.commit.base import OVERWRITTEN
from frazil.commit.by_repo_object import REPO_KEY
from frazil.commit.config_file import CONFIG_KEY
from frazil.errors import FrazilError
from frazil.formats.config_codec import config_from_yaml
from frazil.fsck.plans import Action, Step
from frazil.fsck.repo_rules import check_config, read_repo
from frazil.model.history import JSON, RepoInfo
from frazil.storage.base import Storage

LOST: Final = "the configuration is lost: %s"


@dataclass(frozen=True, slots=True)
class ConfigFix:
    """What takes the place of a configuration that cannot be read."""

    step: Step
    loss: str
    blob: bytes | None = None
    """the file, for version 1; None for no configuration at all"""
    config: JSON | None = None
    """the same for the repo object"""


def fix_config_file(storage: Storage) -> ConfigFix | None:
    """Plan another `config.yaml`, if that of the repository cannot be read."""
    blob = storage.get(CONFIG_KEY)
    if blob is None or _is_readable(blob):
        return None
    for key in _backups(storage, CONFIG_KEY):
        older = storage.get(key)
        if older is not None and _is_readable(older):
            return ConfigFix(*_told(CONFIG_KEY, key), older)
    return ConfigFix(*_told(CONFIG_KEY, None))


def fix_config(storage: Storage, info: RepoInfo) -> ConfigFix | None:
    """Plan another configuration, if that of the repo object cannot be read."""
    if not [*check_config(info.config, REPO_KEY)]:
        return None
    for key in _backups(storage, REPO_KEY):
        blob = storage.get(key)
        older = None if blob is None else read_repo(blob, key)[0]
        if older is not None and not [*check_config(older.config, key)]:
            return ConfigFix(*_told(REPO_KEY, key), config=older.config)
    return ConfigFix(*_told(REPO_KEY, None))


def _backups(storage: Storage, key: str) -> list[str]:
    """Keys of the backups of an object, newest first."""
    start = f"{OVERWRITTEN}{key}."
    return sorted(item.key for item in storage.list(OVERWRITTEN) if item.key.startswith(start))


def _is_readable(blob: bytes) -> bool:
    try:
        config_from_yaml(blob, key=CONFIG_KEY)
    except FrazilError:
        return False
    return True


def _told(target: str, backup: str | None) -> tuple[Step, str]:
    told = "no configuration" if backup is None else f"the configuration of {backup}"
    lost = "there is no older one" if backup is None else f"that of {backup} takes its place"
    return Step(Action.RESTORE_CONFIG, target, told, {"backup": backup}), LOST % lost
