"""A repository with a secret in its history, and ways to look for it."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import zarr

from frazil.bulk.write import write_region
from frazil.fsck import fsck
from frazil.model.config import RepositoryConfig
from frazil.repository import Repository
from frazil.storage.base import Storage
from tests.support.checks import check_repository

SECRET = 0x5EC2E75EC2E7
"""A number that is found again wherever its bytes are."""
NEEDLE = np.array([SECRET], "<i8").tobytes()


def make(storage: Storage, spec: int, *, packing: bool = False, inline: int = 0) -> Repository:
    """Two branches, a tag and five commits, two of which hold the secret."""
    config = RepositoryConfig(inline_chunk_threshold_bytes=inline)
    repo = Repository.create(storage, config=config, spec_version=spec)
    session = repo.writable_session("main")
    for name in ("open", "group/secret"):
        options = {"shape": (8,), "chunks": (2,), "dtype": "<i8", "compressors": None}
        zarr.create_array(session.store, name=name, **options)  # type: ignore[arg-type]
    write_region(session, "open", ..., np.arange(1, 9), packing=packing)
    first = session.commit("open only")
    session = repo.writable_session("main")
    write_region(session, "group/secret", ..., SECRET, packing=packing)
    second = session.commit("the secret", {"about": first})
    repo.create_tag("v1", second)
    repo.create_branch("dev", second)
    session = repo.writable_session("dev")
    write_region(session, "open", slice(0, 2), 77, packing=packing)
    session.commit("on a branch", {"from": second})
    session = repo.writable_session("main")
    write_region(session, "group/secret", slice(0, 4), SECRET, packing=packing)
    session.commit("more of it")
    session = repo.writable_session("main")
    write_region(session, "open", slice(6, 8), 88, packing=packing)
    session.commit("the end")
    return repo


def blobs(storage: Storage) -> Iterator[tuple[str, bytes]]:
    for item in storage.list(""):
        data = storage.get(item.key)
        assert data is not None
        yield item.key, data


def read(repo: Repository, name: str, **where: str) -> npt.NDArray[np.int64]:
    if not where:
        where = {"branch": "main"}
    return np.asarray(repo.readonly_session(**where).array(name)[:])  # type: ignore[arg-type]


def assert_whole(repo: Repository) -> None:
    """Fail if a rule of the format is broken."""
    check_repository(repo)
    report = fsck(repo.storage)
    assert report.is_clean, [*map(str, report.findings)]


def assert_open_is_as_before(repo: Repository) -> None:
    assert read(repo, "open").tolist() == [1, 2, 3, 4, 5, 6, 88, 88]
    assert read(repo, "open", tag="v1").tolist() == [1, 2, 3, 4, 5, 6, 7, 8]
    assert read(repo, "open", branch="dev").tolist() == [77, 77, 3, 4, 5, 6, 7, 8]
