"""Statistics go where their chunks go: collected, cloned, erased, and used by a deep check."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr

import frazil
from frazil.model.config import RepositoryConfig
from frazil.repository import Repository
from frazil.run import LocalRunner
from frazil.storage.memory import MemoryStorage
from tests.support.ages import AT_ONCE
from tests.unit.statistics.samples import (
    all_coords,
    files,
    known,
    make,
    require_true,
    row_count,
    write,
)

VALUES = np.arange(1.0, 50.0).reshape(7, 7)
COORDS = all_coords((7, 7), (3, 3))


@pytest.fixture(params=[1, 2], ids=["v1", "v2"])
def spec(request: pytest.FixtureRequest) -> int:
    """Both generations."""
    number: int = request.param
    return number


@pytest.fixture
def storage() -> MemoryStorage:
    """An empty place."""
    return MemoryStorage()


def later() -> datetime:
    """A time after everything."""
    return datetime.now(UTC) + timedelta(days=1)


def test_a_deep_check_names_chunks_whose_bytes_have_changed(storage: MemoryStorage) -> None:
    repo = make(storage)
    write(repo, "a", VALUES, compressors=None)
    assert repo.audit.fsck(deep=True).is_clean
    uncovered = repo.audit.fsck(deep=True).unchecked["chunks of /a"]
    repo.audit.analyze()
    report = repo.audit.fsck(deep=True)
    assert report.is_clean
    assert uncovered == 9 * 72
    assert not report.unchecked.get("chunks of /a")
    key = next(iter(storage.list("chunks/"))).key
    blob = storage.get(key)
    assert blob is not None
    storage.put(key, blob[:-1] + b"\x01")
    [finding] = Repository.open(storage).audit.fsck(deep=True).findings
    assert (str(finding.code), finding.target, finding.path) == ("chunk-changed", key, "/a")
    assert len(finding.chunks) == 1
    assert "crc32c" in finding.detail
    assert Repository.open(storage).audit.fsck().is_clean


def test_a_damaged_file_of_statistics_is_a_warning(storage: MemoryStorage) -> None:
    repo = make(storage)
    write(repo, "a", VALUES)
    repo.audit.analyze()
    [key] = files(storage)
    storage.put(key, b"nonsense")
    report = repo.audit.fsck(deep=True)
    assert report.is_sound
    assert [str(each.code) for each in report.findings] == ["statistics-damaged"]
    assert repo.audit.fsck().is_clean


def test_collection_takes_statistics_of_chunks_that_are_gone(
    storage: MemoryStorage, spec: int
) -> None:
    repo = make(storage, spec)
    write(repo, "a", VALUES)
    repo.audit.analyze()
    write(repo, "a", VALUES + 1)
    repo.audit.analyze()
    assert row_count(storage) == 18
    repo.space.expire(datetime.now(UTC))
    repo.space.collect_garbage(later())
    assert row_count(storage) == 18  # too young
    repo.space.collect_garbage(later(), unsafe_minimum_age=AT_ONCE)
    assert row_count(storage) == 9
    assert known(repo, "a", COORDS).known.all()
    require_true(known(repo, "a", COORDS), VALUES + 1, COORDS, (3, 3))
    assert repo.audit.fsck(deep=True).is_clean


def test_an_incremental_collection_does_too(storage: MemoryStorage) -> None:
    repo = make(storage)
    write(repo, "a", VALUES)
    repo.audit.analyze()
    write(repo, "a", VALUES + 1)
    repo.space.expire(datetime.now(UTC))
    repo.space.collect_garbage(later(), incremental=True, unsafe_minimum_age=AT_ONCE)
    assert row_count(storage) == 0
    assert not files(storage)


def test_purging_erases_what_they_tell(storage: MemoryStorage, spec: int) -> None:
    repo = make(storage, spec, inline=8)
    write(repo, "secret", VALUES)
    write(repo, "other", VALUES)
    write(repo, "tiny", np.arange(1.0, 3.0), chunks=(1,), compressors=None)
    repo.audit.analyze()
    assert row_count(storage) == 20
    report = repo.space.purge("secret", confirm="secret", unsafe_minimum_age=AT_ONCE)
    assert report.is_proved
    assert row_count(storage) == 9  # only a digest tells of which bytes in manifests they were
    assert known(repo, "other", COORDS).known.all()
    assert repo.audit.analyze().chunks == 2


def test_a_purge_that_leaves_something_says_so(
    storage: MemoryStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("frazil.purging.purge.forget_erased", lambda *_, **__: None)
    repo = make(storage)
    write(repo, "secret", VALUES)
    repo.audit.analyze()
    report = repo.space.purge("secret", confirm="secret", unsafe_minimum_age=AT_ONCE)
    assert not report.is_proved
    assert report.verification is not None
    assert any("tells of erased values" in each for each in report.verification.leftovers)


def test_merges_and_compaction_never_make_them_wrong(storage: MemoryStorage) -> None:
    repo = make(storage)
    base = write(repo, "a", VALUES)
    repo.audit.analyze()
    repo.create_branch("dev", base)
    now = VALUES.copy()
    for branch, place, value in (("main", (0, 0), -1.0), ("dev", (6, 6), 99.0)):
        session = repo.writable_session(branch)
        session.array("a")[place] = value
        now[place] = value
        session.commit(branch)
    repo.audit.analyze("dev")
    repo.versions.merge("dev")
    found = known(repo, "a", COORDS)
    assert found.known.sum() == 8  # all but the chunk that only main has written
    require_true(found, now, COORDS, (3, 3))
    repo.space.compact()
    require_true(known(repo, "a", COORDS), now, COORDS, (3, 3))
    repo.audit.analyze()
    found = known(repo, "a", COORDS)
    assert found.known.all()
    require_true(found, now, COORDS, (3, 3))


class Between:
    """A runner after whose work, and before whose answers, something else happens."""

    def __init__(self, act: Callable[[], object]) -> None:
        self._act = act

    def run(
        self, work: Callable[[Any], Any], items: Sequence[Any], **_: object
    ) -> Iterator[tuple[int, Any]]:
        """All answers, when it is too late."""
        done = [*LocalRunner().run(work, items)]
        self._act()
        yield from done

    def facts(self) -> dict[str, object]:
        """Nothing."""
        return {}


def test_an_analysis_during_a_purge_does_not_tell_what_was_erased(
    storage: MemoryStorage, spec: int
) -> None:
    repo = make(storage, spec)
    write(repo, "secret", VALUES)
    write(repo, "other", VALUES)
    other = Repository.open(storage)

    def erase() -> None:
        other.space.purge("secret", confirm="secret", unsafe_minimum_age=AT_ONCE)

    repo.audit.analyze(runner=Between(erase))
    assert row_count(storage) == 0
    # The next one begins with what is there.
    assert Repository.open(storage).audit.analyze().chunks == 9
    assert row_count(storage) == 9


def test_collection_takes_rows_of_virtual_chunks_that_no_manifest_has(
    tmp_path: Path, spec: int
) -> None:
    source = tmp_path / "source"
    source.write_bytes(np.arange(8, dtype="<i8").tobytes())
    prefix = f"file://{tmp_path}/"
    config = RepositoryConfig(inline_chunk_threshold_bytes=8)
    config.set_virtual_chunk_container(
        frazil.VirtualChunkContainer(prefix, frazil.local_filesystem_store(str(tmp_path)))
    )
    storage = MemoryStorage()
    repo = Repository.create(
        storage,
        config,
        authorize_virtual_chunk_access={prefix: frazil.LocalFileSystemAccess},
        spec_version=spec,
    )
    since = datetime.now(UTC) + timedelta(hours=1)
    for name in ("kept", "gone"):
        session = repo.writable_session("main")
        zarr.create_array(session.store, name=name, shape=(4,), chunks=(2,), dtype="<i8",
                          compressors=None)  # fmt: skip
        for chunk in range(2):
            at = 16 * chunk + (32 if name == "gone" else 0)
            session.store.set_virtual_ref(
                f"{name}/c/{chunk}", f"{prefix}source", offset=at, length=16, checksum=since
            )
        session.commit(name)
    write(repo, "tiny", np.arange(1.0, 3.0), chunks=(1,), compressors=None)
    repo.audit.analyze()
    assert row_count(storage) == 6
    session = repo.writable_session("main")
    for name in ("gone", "tiny"):
        session.state.delete_node(f"/{name}")
    session.commit("two less")
    repo.space.collect_garbage(later(), unsafe_minimum_age=AT_ONCE)
    assert row_count(storage) == 6  # history has them
    repo.space.expire(datetime.now(UTC))
    repo.space.collect_garbage(later(), unsafe_minimum_age=AT_ONCE)
    assert row_count(storage) == 2
    assert known(repo, "kept", all_coords((4,), (2,))).known.all()
