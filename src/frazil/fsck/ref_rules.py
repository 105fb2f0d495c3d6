"""The rules of the ref files and the configuration of v1."""

from __future__ import annotations

from dataclasses import dataclass, field

from frazil.commit.base import MAIN
from frazil.commit.config_file import CONFIG_KEY, read_config
from frazil.errors import FormatError, FrazilError, InvalidInputError
from frazil.formats.ref_files import (
    FILE,
    REFS,
    TOMBSTONE,
    branch_key,
    decode_fence,
    decode_ref,
    parse_ref_key,
)
from frazil.fsck.findings import Code, Finding
from frazil.fsck.repo_rules import check_config
from frazil.ids import SnapshotId
from frazil.storage.base import Listed, Storage


@dataclass(slots=True)
class RefFiles:
    """The refs of a v1 repository as far as they can be read."""

    branches: dict[str, SnapshotId] = field(default_factory=dict)
    tags: dict[str, SnapshotId] = field(default_factory=dict)
    damaged: dict[str, str] = field(default_factory=dict)
    """branches whose files name no snapshot, with their keys"""
    findings: list[Finding] = field(default_factory=list)


def read_ref_files(storage: Storage) -> RefFiles:
    """Read all refs, and tell what is wrong with them."""
    refs = RefFiles()
    folders: dict[tuple[str, str], dict[str, Listed]] = {}
    encoded = storage.percent_encodes_names
    for item in storage.list(REFS):
        try:
            ref = parse_ref_key(item.key, encoded=encoded)
        except InvalidInputError as error:
            refs.findings.append(Finding(Code.REF_UNKNOWN, item.key, str(error)))
            continue
        folders.setdefault(ref, {})[item.key.rpartition("/")[2]] = item
    for (kind, name), files in sorted(folders.items()):
        _read_ref(storage, refs, kind, name, files)
    if MAIN not in refs.branches and MAIN not in refs.damaged:
        refs.findings.append(Finding(Code.MAIN_MISSING, branch_key(MAIN, encoded=encoded)))
    return refs


def _read_ref(
    storage: Storage, refs: RefFiles, kind: str, name: str, files: dict[str, Listed]
) -> None:
    file, tombstone = files.get(FILE), files.get(TOMBSTONE)
    for stray in sorted(files.keys() - {FILE, TOMBSTONE}):
        refs.findings.append(Finding(Code.STRAY_NAME, files[stray].key))
    if tombstone is not None and (kind == "branch" or file is None or tombstone.size_bytes):
        refs.findings.append(Finding(Code.TOMBSTONE, tombstone.key))
    if file is None or (kind == "tag" and tombstone is not None):
        return
    blob = storage.get(file.key)
    if blob is None:
        return  # deleted since it was listed
    if decode_fence(blob) is not None:
        return  # what a killed deletion left of a branch
    try:
        found = decode_ref(blob, key=file.key)
    except FormatError as error:
        refs.findings.append(Finding(Code.REF_DAMAGED, file.key, str(error)))
        if kind == "branch":
            refs.damaged[name] = file.key
        return
    (refs.branches if kind == "branch" else refs.tags)[name] = found


def check_config_file(storage: Storage) -> list[Finding]:
    """Check the stored configuration."""
    try:
        return [*check_config(read_config(storage), CONFIG_KEY)]
    except FrazilError as error:
        return [Finding(Code.CONFIG_DAMAGED, CONFIG_KEY, str(error))]
