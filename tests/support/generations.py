"""All generations for one fixture, and tests that ask what one of them can do."""

from __future__ import annotations

from typing import Final, TypeAlias

import pytest

from frazil.formats.generation import BY_NUMBER, Generation, generation_named
from frazil.formats.legacy.names import FOLDERS
from frazil.repository import Repository
from frazil.transaction.opened import context_of

Spec: TypeAlias = int | str
"""What `Repository.create` takes as `spec_version`."""

OLD: Final[tuple[Spec, ...]] = ("g1", "g2", "g3")
ALL: Final[tuple[Spec, ...]] = (*OLD, 1, 2)
SAME_KEYS: Final[tuple[Spec, ...]] = ("3e-27", 1, 2)
"""Generations whose objects have the keys of spec 1, for tests that touch them by key.

Of G3 it is a dialect that has transaction logs, checksums and sizes of manifests.
"""


WITH_TEXTS: Final[tuple[Spec, ...]] = ("g1", "g3", 1, 2)
"""Generations that have arrays of texts."""


def spec_id(spec: Spec) -> str:
    """How a test tells which generation it is about."""
    return spec if isinstance(spec, str) else f"v{spec}"


IDS: Final = [*map(spec_id, ALL)]


def generation_of(spec: Spec) -> Generation:
    """The generation that a spec names."""
    if not isinstance(spec, str):
        return BY_NUMBER[spec]
    found = generation_named(spec)
    assert found is not None
    return found


def needs_repo_object(repository: Repository) -> None:
    """Skip a test of what only the repo object can hold."""
    if not context_of(repository).generation.repo_object:
        pytest.skip(f"{context_of(repository).generation.title} has no repo object")


def needs_documents(repository: Repository) -> None:
    """Skip a test of documents that come back byte for byte."""
    if not context_of(repository).generation.keeps_documents:
        pytest.skip(f"{context_of(repository).generation.title} takes metadata documents apart")


def needs_expiry(repository: Repository) -> None:
    """Skip a test of snapshots that leave the history."""
    if not context_of(repository).generation.expires_snapshots:
        pytest.skip(f"snapshots of {context_of(repository).generation.title} cannot expire")


def needs_tag_deletion(repository: Repository) -> None:
    """Skip a test of deleted tags."""
    if not context_of(repository).generation.deletes_tags:
        pytest.skip(f"{context_of(repository).generation.title} cannot delete tags")


def keeps_config(spec: Spec) -> bool:
    """Whether repositories of a generation can keep a configuration."""
    return generation_of(spec).keeps_config


def has_logs(spec: Spec) -> bool:
    """Whether commits of a generation write transaction logs."""
    dialect = generation_of(spec).dialect
    return dialect is None or dialect.has_logs


def folder(spec: Spec, prefix: str) -> str:
    """Where a generation has what spec 1 has below a prefix."""
    dialect = generation_of(spec).dialect
    kinds = {} if dialect is None else dict(FOLDERS[dialect.generation].items())
    return next((at for kind, at in kinds.items() if f"{kind}/" == prefix), prefix)


EXPIRING: Final = tuple(spec for spec in ALL if generation_of(spec).expires_snapshots)
"""Generations whose snapshots can leave the history."""
