"""A whole file in the place of another of its kind: its values are never taken for the other's."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

from frazil.errors import FormatError
from frazil.repository import Repository
from frazil.storage.memory import MemoryStorage
from tests.support.nodes import array_document, group_document, write_keys

Use = Callable[[Repository, list[str]], object]


def sample(spec: int) -> tuple[MemoryStorage, list[str]]:
    """Two commits that write the same chunk."""
    storage = MemoryStorage()
    repository = Repository.create(storage, spec_version=spec)
    made = []
    for number in (1, 2):
        session = repository.writable_session("main")
        document = array_document(2000, chunks=(2000,))
        write_keys(session, {"zarr.json": group_document(), "a/zarr.json": document})
        write_keys(session, {"a/c/0": bytes([number]) * 2000})
        made.append(session.commit(str(number)))
    return storage, made


def read(repository: Repository, made: list[str]) -> object:
    return repository.readonly_session(snapshot_id=made[0]).array("a")[:]


def collect(repository: Repository, made: list[str]) -> object:
    return repository.garbage_collect(
        datetime.now(UTC), dry_run=True, unsafe_minimum_age=timedelta(0)
    )


def compare(repository: Repository, made: list[str]) -> object:
    return repository.diff(from_snapshot_id="1CECHNKREP0F1RSTCMT0", to_snapshot_id=made[0])


@pytest.mark.parametrize("spec", [1, 2])
@pytest.mark.parametrize(
    ("kind", "use"),
    [
        ("snapshots", read),
        ("manifests", read),
        ("snapshots", collect),
        ("manifests", collect),
        ("transactions", compare),
    ],
)
def test_a_file_in_the_place_of_another_is_refused_by_name(spec: int, kind: str, use: Use) -> None:
    storage, made = sample(spec)
    if kind == "manifests":
        opened = Repository.open(storage)
        names = [str(opened.list_manifest_files(snapshot)[0].id) for snapshot in made]
    else:
        names = made
    one, other = (f"{kind}/{name}" for name in names)
    use(Repository.open(storage), made)
    storage.put(one, storage.get(other) or b"")
    with pytest.raises(FormatError, match=f"not the one of its name.*{one}"):
        use(Repository.open(storage), made)
