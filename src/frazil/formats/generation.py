"""The one table of generations: what each writes and what it can represent.

A generation is named here and in its commit protocol; everything else asks for an ability. The
three generations before spec 1 come in dialects, byte layouts of one age; a repository is
continued in the one it uses.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from frazil.errors import ErrorKind, FormatError
from frazil.formats.legacy.dialects import SEED_DIALECT, Dialect, LegacyGeneration
from frazil.formats.legacy.header import SEED, Wrapping

_WRAPPED: Final = re.compile(r"(.+)-(0|27|39)(-plain)?")


class CommitProtocol(StrEnum):
    """How branches move."""

    REPO_OBJECT = "repo object"
    REF_FILES = "ref files"
    NUMBERED_FILES = "numbered files"
    STATE_FILE = "state file"


@dataclass(frozen=True, slots=True)
class Generation:
    """What a repository of one generation can hold, and the spec version of the files it writes."""

    name: str
    spec: int
    """before spec 1, that of the form in which sessions see its files"""
    protocol: CommitProtocol
    stores_parent: bool
    """snapshot files name their parent"""
    initial_log: bool
    """the first snapshot has a transaction log"""
    dialect: Dialect | None = None
    """how files from before spec 1 are written"""
    wrapping: Wrapping | None = None
    """the header and compression of these files, if unusual for the dialect"""
    keeps_config: bool = True
    """the configuration can be stored"""
    deletes_tags: bool = True
    """tags can be deleted"""
    expires_snapshots: bool = True
    """old snapshots can leave the history; elsewhere files that must not change would have to"""

    @property
    def is_legacy(self) -> bool:
        """Whether it is from before spec 1."""
        return self.dialect is not None

    @property
    def has_store_root(self) -> bool:
        """Whether a state file says where the other files are, which may be elsewhere."""
        return self.protocol is CommitProtocol.STATE_FILE

    @property
    def repo_object(self) -> bool:
        """One `repo` object holds refs, history, status, flags, attributes and operations log."""
        return self.protocol is CommitProtocol.REPO_OBJECT

    @property
    def keeps_documents(self) -> bool:
        """Whether metadata documents come back byte for byte."""
        return self.dialect is None

    @property
    def numbers_nodes(self) -> bool:
        """Whether nodes have small numbers, given at commit, instead of random ids."""
        return self.dialect is not None and self.dialect.has_numbered_nodes

    @property
    def keeps_checksums(self) -> bool:
        """Whether virtual references can tell how their source was."""
        return self.dialect is None or self.dialect.has_checksums

    @property
    def is_writable(self) -> bool:
        """Whether commits can be made in the layout that the repository uses."""
        return self.dialect is None or self.dialect.is_writable

    @property
    def number(self) -> int:
        """The spec version; below zero for what came before there were any, and ascending too."""
        return self.spec if self.dialect is None else self.dialect.generation - len(LEGACY) - 1

    @property
    def title(self) -> str:
        """What messages call it."""
        return f"spec version {self.spec}" if self.dialect is None else f"generation {self.name}"

    def __reduce__(self) -> tuple[object, ...]:
        return generation_named, (self.full_name,)

    @property
    def full_name(self) -> str:
        """The name with the dialect, and with what is around files if that is unusual."""
        if self.dialect is None:
            return self.name
        if self.wrapping is None:
            return str(self.dialect)
        packing = "" if self.wrapping.compressed else "-plain"
        return f"{self.dialect}-{self.wrapping.header}{packing}"

    def in_dialect(self, dialect: Dialect, wrapping: Wrapping | None = None) -> Generation:
        """The same generation as a repository with these files has it."""
        return replace(self, dialect=dialect, wrapping=wrapping)

    @property
    def keeps_extents(self) -> bool:
        """Whether an array can tell which of its manifests holds a chunk."""
        if self.dialect is None or self.dialect.generation is LegacyGeneration.G1:
            return True
        from frazil.formats.legacy.layouts import dialect_layout

        return dialect_layout(self.dialect).has_extents

    def stored_form(self, document: bytes) -> bytes:
        """A metadata document as it will come back: the same, unless it is stored in pieces.

        Raises:
            InvalidInputError: it has something that this generation has no place for.
        """
        if self.dialect is None:
            return document
        from frazil.formats.legacy.zarr_fields import build_document, parse_fields, plain_json

        fields = parse_fields(self.dialect.generation, document)
        if self.dialect.is_json:
            fields = replace(fields, attributes=plain_json(fields.attributes))
        return build_document(fields)

    def require_repo_object(self, operation: str) -> None:
        """Refuse an operation that needs the repo object."""
        if not self.repo_object:
            raise self.lacks(operation)

    @property
    def designed_headers(self) -> bool:
        """Whether files are as a design text says that no release followed: also in JSON."""
        wrapping = self.wrapping
        is_short = wrapping is not None and wrapping.header == SEED.header
        return is_short or (wrapping is None and self.dialect is Dialect.G3_SEED)

    @property
    def moves_nodes(self) -> bool:
        """Whether a node can get another path and stay the same node.

        Before spec 1 that is a node with the same id at another path; files of spec 1 would have
        to say so and cannot.
        """
        return self.repo_object or self.dialect is not None

    def require_lasting_ids(self, operation: str) -> None:
        """Refuse an operation that knows nodes of several branches by their ids.

        Raises:
            FormatError: node ids are numbers, which each branch assigns on its own.
        """
        if self.numbers_nodes:
            raise FormatError(
                f"{operation} needs nodes that have one id in all branches, and in repositories"
                f" of {self.title}, as this one is written, they are numbered; upgrade it first",
                kind=ErrorKind.UNSUPPORTED_OPERATION_FOR_VERSION,
            )

    def require_expiry(self) -> None:
        """Refuse to take snapshots out of the history where that would change the files of others.

        Raises:
            FormatError: snapshot files name those before them, and are not changed once written.
        """
        if not self.expires_snapshots:
            raise FormatError(
                f"snapshots of {self.title} cannot be expired, because the files of later ones"
                " name them and must not change; upgrade the repository first, then they can",
                kind=ErrorKind.UNSUPPORTED_OPERATION_FOR_VERSION,
            )

    def lacks(self, operation: str) -> FormatError:
        """The error for something that only spec 2 can do."""
        found = f"version {self.spec}" if self.dialect is None else self.title
        return FormatError(
            f"{operation} needs spec version 2, this repository has {found}; upgrade it first",
            kind=ErrorKind.UNSUPPORTED_SPEC_VERSION,
        )


G1: Final = Generation(
    "g1",
    1,
    CommitProtocol.STATE_FILE,
    stores_parent=True,
    initial_log=False,
    dialect=SEED_DIALECT[LegacyGeneration.G1],
    keeps_config=False,
)
G2: Final = Generation(
    "g2",
    1,
    CommitProtocol.NUMBERED_FILES,
    stores_parent=True,
    initial_log=False,
    dialect=SEED_DIALECT[LegacyGeneration.G2],
    keeps_config=False,
    deletes_tags=False,
    expires_snapshots=False,
)
G3: Final = Generation(
    "g3",
    1,
    CommitProtocol.NUMBERED_FILES,
    stores_parent=True,
    initial_log=False,
    dialect=SEED_DIALECT[LegacyGeneration.G3],
    wrapping=SEED,
    expires_snapshots=False,
)
V1: Final = Generation("v1", 1, CommitProtocol.REF_FILES, stores_parent=True, initial_log=False)
V2: Final = Generation("v2", 2, CommitProtocol.REPO_OBJECT, stores_parent=False, initial_log=True)
BY_NAME: Final = {each.name: each for each in (G1, G2, G3, V1, V2)}
LEGACY: Final = {LegacyGeneration.G1: G1, LegacyGeneration.G2: G2, LegacyGeneration.G3: G3}
BY_NUMBER: Final = {each.number: each for each in BY_NAME.values()}
BY_SPEC: Final = {each.spec: each for each in (V1, V2)}


def generation_of(spec: int) -> Generation:
    """The generation with this spec version."""
    if spec not in BY_SPEC:
        raise FormatError(f"unknown spec version {spec}", kind=ErrorKind.UNSUPPORTED_SPEC_VERSION)
    return BY_SPEC[spec]


def generation_named(name: str) -> Generation | None:
    """The generation of a name such as `v1` or `g3`, or of the name of a dialect.

    `3a-27` is dialect 3a behind a header of 27 bytes, `3a-39-plain` behind one of 39 bytes and
    not compressed.
    """
    if name in BY_NAME:
        return BY_NAME[name]
    if name in {*Dialect}:
        return LEGACY[Dialect(name).generation].in_dialect(Dialect(name))
    found = _WRAPPED.fullmatch(name)
    if found is None or found[1] not in {*Dialect}:
        return None
    wrapping = Wrapping(int(found[2]), compressed=found[3] is None)
    dialect = Dialect(found[1])
    return LEGACY[dialect.generation].in_dialect(dialect, wrapping)
