"""A whole file in the place of another of its kind: its values are never taken for the other's."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

from frazil.errors import FormatError
from frazil.fsck import Code, repair, verify
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


def misplaced(spec: int, kind: str, place: int) -> tuple[MemoryStorage, list[str], str]:
    """Two commits, a file of the other in the place of the same one of one of them; its key."""
    while True:
        storage, made = sample(spec)
        names = made
        if kind == "manifests":
            opened = Repository.open(storage)
            names = [str(opened.list_manifest_files(snapshot)[0].id) for snapshot in made]
        keys = [f"{kind}/{name}" for name in names]
        files = [storage.get(key) or b"" for key in keys]
        # Of a manifest that is longer than its snapshot says, readers see the beginning only.
        if len(files[1 - place]) <= len(files[place]):
            storage.put(keys[place], files[1 - place])
            return storage, made, keys[place]


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
    whole, ids = sample(spec)
    use(Repository.open(whole), ids)
    storage, made, key = misplaced(spec, kind, 0)
    with pytest.raises(FormatError, match=f"not the one of its name.*{key}"):
        use(Repository.open(storage), made)


@pytest.mark.parametrize("spec", [1, 2])
@pytest.mark.parametrize(
    ("kind", "code"), [("snapshots", Code.SNAPSHOT_ID), ("manifests", Code.MANIFEST_ID)]
)
def test_what_readers_refuse_is_found_by_verify(spec: int, kind: str, code: Code) -> None:
    storage, _, _ = misplaced(spec, kind, 1)
    assert code in verify(storage).codes()


@pytest.mark.parametrize("spec", [1, 2])
def test_a_branch_whose_tip_is_another_snapshot_goes_back_to_its_parent(spec: int) -> None:
    storage, made, _ = misplaced(spec, "snapshots", 1)
    repair(storage, apply=True)
    repository = Repository.open(storage)
    assert repository.lookup_branch("main") == made[0]
    assert repository.readonly_session("main").array("a")[0] == 1


@pytest.mark.parametrize("spec", [1, 2])
def test_an_array_whose_manifest_is_another_can_be_read_after_a_repair(spec: int) -> None:
    storage, _, _ = misplaced(spec, "manifests", 1)
    plan = repair(storage, apply=True)
    assert any("lost with a manifest" in loss for loss in plan.losses)
    array = Repository.open(storage).readonly_session("main").array("a")
    assert not array[:].any(), "the chunk is lost, and that of the first commit is not its"
