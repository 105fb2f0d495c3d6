"""The file `config.yaml`, the stored configuration where there is no repo object."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Final

from frazil.commit.base import OVERWRITTEN, attempts, backup_name, now_micros
from frazil.formats.config_codec import config_map_from_yaml, config_map_to_yaml
from frazil.model.config import StorageRetriesSettings
from frazil.model.history import JSON
from frazil.storage.base import Attributes, Fetched, LostRace, Storage

CONFIG_KEY: Final = "config.yaml"
YAML_FILE: Final = Attributes(content_type="application/yaml")


def read_config(storage: Storage) -> JSON | None:
    """The stored configuration as a plain map."""
    blob = storage.get(CONFIG_KEY)
    return None if blob is None else config_map_from_yaml(blob, key=CONFIG_KEY)


def edit_config_file(
    storage: Storage,
    change: Callable[[JSON | None], JSON],
    retries: StorageRetriesSettings,
    *,
    require: Callable[[], None],
    keeps_backup: bool,
    as_json: bool = False,
) -> None:
    """Replace the file by what `change` makes of it, if it still is what `change` has seen.

    `require` is asked before each attempt, and after the last, whether the repository takes changes
    at all. JSON is YAML too, so readers of YAML can read it.
    """
    for _ in attempts(retries):
        require()
        found = storage.fetch(CONFIG_KEY)
        version, old = None, None
        if isinstance(found, Fetched):
            version, old = found.version, config_map_from_yaml(found.data, key=CONFIG_KEY)
        new = change(old)
        assert isinstance(new, dict)
        blob = json.dumps(new).encode() if as_json else config_map_to_yaml(new)
        if version is not None and keeps_backup:
            backup = OVERWRITTEN + backup_name(CONFIG_KEY, now_micros())
            if isinstance(storage.copy_if(CONFIG_KEY, backup, version), LostRace):
                continue
        if not isinstance(storage.put_if(CONFIG_KEY, blob, version, YAML_FILE), LostRace):
            require()  # an upgrade may have copied the configuration before this write
            return
