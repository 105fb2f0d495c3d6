"""Branches and tags of G2 and G3: the keys of their files, and their content.

Three layouts exist. G2 as specified has `r/BRANCH/` and `r/TAG.json`; the libraries of that age
put `branch:` and `tag:` before the names, and G3 came to `branch.` and `tag.`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from frazil.errors import ErrorKind, InvalidInputError
from frazil.formats.legacy.dialects import ROOTS, Dialect, LegacyGeneration
from frazil.formats.legacy.layouts import IdForm, dialect_layout
from frazil.formats.legacy.names import (
    OLD_SEQUENCE_LENGTH,
    SEQUENCE_LENGTH,
    parse_sequence,
    sequence_name,
    stored_name,
)
from frazil.formats.legacy.nodes import write_id
from frazil.formats.legacy.records import RefRecord
from frazil.formats.legacy.structs import LegacyDocument, format_time
from frazil.formats.legacy.zarr_fields import dump_json
from frazil.formats.ref_files import (
    FILE,
    TOMBSTONE,
    RefKind,
    decode_segment,
    encode_segment,
    read_ref,
)
from frazil.ids import SnapshotId

MOVED: Final = "moved_to"
DELETED: Final = "deleted"


def decode_ref(blob: bytes, *, key: str, generation: LegacyGeneration) -> RefRecord:
    """Read a ref file.

    Raises:
        FormatError: it does not name a snapshot.
    """
    document = LegacyDocument(key, generation)
    value = read_ref(blob, key=key)
    snapshot = document.snapshot_id(value["snapshot"], "snapshot")
    when, properties, moved_to = (value.get(name) for name in ("timestamp", "properties", MOVED))
    return RefRecord(
        snapshot=snapshot,
        name=document.snapshots.get(snapshot),
        timestamp=None if when is None else document.time(when, "timestamp"),
        properties={} if properties is None else document.metadata(properties, "properties"),
        moved_to=None if moved_to is None else document.text(moved_to, MOVED),
        is_deleted=value.get(DELETED) is True,
    )


def encode_ref(record: RefRecord, dialect: Dialect) -> bytes:
    """Write a ref file: in one line, with keys in order."""
    names: dict[SnapshotId, str] = {record.snapshot: record.name} if record.name else {}
    name = stored_name(dialect.generation, "snapshots", record.snapshot, names)
    # Refs kept the text when ids in other files became byte strings.
    form = IdForm.NUMBERS if dialect_layout(dialect).ids is IdForm.NUMBERS else IdForm.TEXT
    value: dict[str, object] = {"snapshot": write_id(form, record.snapshot, name)}
    if record.moved_to is not None:
        value[MOVED] = record.moved_to
    if record.is_deleted:
        value[DELETED] = True
    if dialect_layout(dialect).is_named:  # as the schema wants it
        value["properties"] = dict(record.properties)
        value["timestamp"] = format_time(record.timestamp or 0)
    return dump_json(dict(sorted(value.items())))


# --- where they are ---

JSON: Final = ".json"
MOST_STEPS: Final = 2**32
"""A file of a folder in G2 that has a higher number is no step of a branch."""


class RefPrefix(StrEnum):
    """What stands between the kind of a ref and its name."""

    NONE = ""
    COLON = ":"
    DOT = "."


@dataclass(frozen=True, slots=True)
class RefLayout:
    """How a repository names the files of its refs."""

    generation: LegacyGeneration
    prefix: RefPrefix
    sequence_length: int = SEQUENCE_LENGTH
    encoded: bool = False
    """names are percent-encoded, as generic object stores do"""

    @property
    def root(self) -> str:
        """The folder of all refs."""
        return ROOTS[self.generation]

    def branch_folder(self, name: str) -> str:
        """The prefix of the files of a branch, with its final slash."""
        check_ref_name("branch", name)
        if self.prefix is RefPrefix.NONE and name.endswith(JSON):
            raise InvalidInputError(
                f"a branch cannot be named {name!r}: here names that end in .json are tags",
                kind=ErrorKind.INVALID_REF_NAME,
            )
        return f"{self._folder('branch', name)}/"

    def branch_key(self, name: str, number: int) -> str:
        """The key of one step of a branch."""
        sequence = sequence_name(number, length=self.sequence_length)
        return f"{self.branch_folder(name)}{sequence}{JSON}"

    def tag_key(self, name: str) -> str:
        """The key of a tag."""
        if self.prefix is not RefPrefix.NONE:
            check_ref_name("tag", name)
            return f"{self._folder('tag', name)}/{FILE}"
        # Only here nothing forbids slashes, as long as no step of a branch is called so.
        for part in name.split("/"):
            check_ref_name("tag", part)
        key = "/".join(encode_segment(part) if self.encoded else part for part in name.split("/"))
        found = parse_ref_key(self.generation, f"{self.root}{key}{JSON}", encoded=self.encoded)
        if found is None or (found.kind, found.name) != ("tag", name):
            raise InvalidInputError(
                f"a tag cannot be named {name!r}: here that is a file of a branch",
                kind=ErrorKind.INVALID_REF_NAME,
            )
        return f"{self.root}{key}{JSON}"

    def tombstone_key(self, name: str) -> str:
        """The key whose presence says that a tag is deleted."""
        if self.generation is not LegacyGeneration.G3:
            raise InvalidInputError(
                "tags of this generation cannot be deleted",
                kind=ErrorKind.NOT_REPRESENTABLE,
                generation=self.generation.name,
                field="deleted tag",
            )
        check_ref_name("tag", name)
        return f"{self._folder('tag', name)}/{TOMBSTONE}"

    def _folder(self, kind: RefKind, name: str) -> str:
        segment = f"{kind}{self.prefix}{name}" if self.prefix else name
        return self.root + (encode_segment(segment) if self.encoded else segment)


G2_SEED: Final = RefLayout(LegacyGeneration.G2, RefPrefix.NONE)
G2_LIBRARY: Final = RefLayout(LegacyGeneration.G2, RefPrefix.COLON, OLD_SEQUENCE_LENGTH)
G3_DOT: Final = RefLayout(LegacyGeneration.G3, RefPrefix.DOT)
G3_COLON: Final = RefLayout(LegacyGeneration.G3, RefPrefix.COLON)
G3_COLON_OLD: Final = RefLayout(LegacyGeneration.G3, RefPrefix.COLON, OLD_SEQUENCE_LENGTH)
LAYOUTS: Final = (G3_DOT, G3_COLON, G3_COLON_OLD, G2_SEED, G2_LIBRARY)


@dataclass(frozen=True, slots=True)
class RefKey:
    """What a key below the folder of refs is of."""

    kind: RefKind
    name: str
    prefix: RefPrefix
    number: int | None = None
    """of a branch: the step"""
    sequence_length: int = SEQUENCE_LENGTH
    is_tombstone: bool = False


def check_ref_name(kind: RefKind, name: str) -> None:
    """Refuse names that no file can have."""
    if name in ("", ".", "..") or "/" in name or any(ord(c) < 32 or ord(c) == 127 for c in name):
        raise InvalidInputError(
            f"a {kind} cannot be named {name!r}", kind=ErrorKind.INVALID_REF_NAME
        )


def parse_ref_key(generation: LegacyGeneration, key: str, *, encoded: bool) -> RefKey | None:
    """Tell from a key whose ref it belongs to; None for files that are no part of one."""
    root = ROOTS[generation]
    if not key.startswith(root):
        return None
    folder, slash, file = key.removeprefix(root).partition("/")
    name = decode_segment(folder) if encoded else folder
    for prefix in (RefPrefix.COLON, RefPrefix.DOT):
        if slash and name.startswith(f"tag{prefix}"):
            tag = name.removeprefix(f"tag{prefix}")
            if file == FILE:
                return RefKey("tag", tag, prefix)
            if file == TOMBSTONE:
                return RefKey("tag", tag, prefix, is_tombstone=True)
        if slash and name.startswith(f"branch{prefix}"):
            found = _step(name.removeprefix(f"branch{prefix}"), prefix, file)
            if found is not None:
                return found
    if generation is not LegacyGeneration.G2:
        return None
    step = _step(name, RefPrefix.NONE, file) if slash else None
    # No branch has so many commits: a tag may be called `releases/20240901`.
    if step is not None and step.number is not None and step.number <= MOST_STEPS:
        return step
    whole = key.removeprefix(root)
    text = "/".join(map(decode_segment, whole.split("/"))) if encoded else whole
    tag = text.removesuffix(JSON)
    is_tag = text.endswith(JSON) and all(tag.split("/"))
    return RefKey("tag", tag, RefPrefix.NONE) if is_tag else None


def _step(name: str, prefix: RefPrefix, file: str) -> RefKey | None:
    stem = file.removesuffix(JSON)
    number = parse_sequence(stem) if file.endswith(JSON) else None
    if number is None or not name:
        return None
    return RefKey("branch", name, prefix, number, len(stem))
