"""Snapshots are found by the ids that their files spell, and listed where no ref leads to them."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from frazil.cli.app import make_app
from frazil.errors import FrazilError, InvalidInputError, NotFoundError
from frazil.maintenance.garbage_plan import GarbagePlan
from frazil.repository import Repository
from frazil.storage.base import Storage
from frazil.storage.local import LocalStorage
from frazil.storage.memory import MemoryStorage
from tests.support.ages import AT_ONCE
from tests.support.nodes import contents
from tests.support.seed_files import G1, G2, Array, crockford

Spell = Callable[[bytes], str]
SPELLINGS: dict[str, Spell] = {
    "crockford": crockford,
    "lower": lambda raw: crockford(raw).lower(),
    "hex": lambda raw: raw.hex(),
    "uuid": lambda raw: str(uuid.UUID(bytes=raw)),
}


def arrays(number: int) -> list[Array]:
    return [Array("/line", np.arange(6, dtype=np.int32) + number, (2,))]


def check_selectors(storage: Storage, text: str, wanted: str) -> None:
    """Everything that takes an id takes this text for it."""
    repository = Repository.open(storage)
    expected = contents(repository.readonly_session(snapshot_id=wanted))
    repository = Repository.open(storage)
    assert contents(repository.readonly_session(snapshot_id=text)) == expected
    assert repository.lookup_snapshot(text).id == wanted
    assert repository.resolve(text) == wanted
    assert next(info.id for info in repository.ancestry(snapshot_id=text)) == wanted
    repository.create_branch("dev", text)
    repository.create_tag("tagged", text)
    assert repository.lookup_branch("dev") == repository.lookup_tag("tagged") == wanted
    repository.reset_branch("main", text)
    assert repository.lookup_branch("main") == wanted


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_ids_of_g2_are_selectors_in_every_spelling(spelling: str) -> None:
    storage = MemoryStorage()
    raw = G2().write(storage, arrays(0), arrays(1))
    wanted = [*Repository.open(storage).ancestry(branch="main")][1].id
    check_selectors(storage, SPELLINGS[spelling](raw[1]), wanted)


@pytest.mark.parametrize(
    "name",
    [
        lambda raw: str(uuid.UUID(bytes=raw)),
        lambda raw: raw.hex(),
        crockford,
        lambda raw: f"snapshot number {raw[0]}",
    ],
)
def test_ids_of_g1_are_selectors(name: Spell) -> None:
    storage = MemoryStorage()
    ids = G1(name=name).write(storage, arrays(0), arrays(1))
    wanted = [*Repository.open(storage).ancestry(branch="main")][1].id
    check_selectors(storage, ids[1], wanted)


@pytest.mark.parametrize("spelling", ["crockford", "hex", "uuid"])
def test_an_id_that_only_begins_alike_is_another(spelling: str) -> None:
    storage = MemoryStorage()
    raw = G2().write(storage, arrays(0))[1]
    other = raw[:12] + bytes(4)
    repository = Repository.open(storage)
    for use in (repository.lookup_snapshot, repository.resolve):
        with pytest.raises(NotFoundError):
            use(SPELLINGS[spelling](other))
    first = MemoryStorage()
    G1(name=SPELLINGS[spelling]).write(first, arrays(0))
    state = json.loads(first.get("state.json") or b"")
    last = state["snapshots"][-1]["snapshot-id"]
    other_end = "0000" if not last.endswith("0000") else "1110"
    with pytest.raises(FrazilError):
        Repository.open(first).lookup_snapshot(last[:-4] + other_end)


def test_texts_that_are_no_ids_are_refused() -> None:
    storage = MemoryStorage()
    G2().write(storage, arrays(0))
    with pytest.raises(InvalidInputError):
        Repository.open(storage).lookup_snapshot("not an id")


def test_a_state_without_refs_still_lists_its_snapshots(tmp_path: Path) -> None:
    storage = LocalStorage(str(tmp_path))
    ids = G1(refs=False).write(storage, arrays(0), arrays(1))
    repository = Repository.open(storage)
    assert repository.list_branches() == set()
    listed = repository.list_snapshots()
    assert [info.id for info in listed] == [repository.lookup_snapshot(one).id for one in ids[::-1]]
    assert all(info.id[:8] in str(repository.ancestry_graph(plain=True)) for info in listed)
    told = CliRunner().invoke(make_app(), ["log", str(tmp_path), "--json"])
    assert [each["id"] for each in json.loads(told.stdout)["snapshots"]] == [i.id for i in listed]
    session = repository.readonly_session(snapshot_id=ids[1])
    assert "line/zarr.json" in contents(session)
    repository.create_branch("main", ids[-1])
    assert Repository.open(storage).lookup_branch("main") == listed[0].id


@pytest.mark.parametrize("quarantine", [False, True])
@pytest.mark.parametrize("by_plan", [False, True])
def test_what_a_collection_reports_is_gone_whatever_files_are_called(
    tmp_path: Path, *, by_plan: bool, quarantine: bool
) -> None:
    """Also by a plan that another process has made and saved, which knew the names."""
    storage = MemoryStorage()
    G1(suffix=".parquet", name=lambda raw: f"n{raw.hex()[:6]}").write(
        storage, arrays(0), arrays(1), arrays(2)
    )
    repository = Repository.open(storage)
    times = [info.written_at for info in repository.ancestry(branch="main")]
    assert len(repository.expire_snapshots(times[0])) == 3
    before = {item.key for item in storage.list("")}
    soon = datetime.now(UTC) + timedelta(days=1)
    plan = repository.space.plan_garbage(soon, unsafe_minimum_age=AT_ONCE)
    if by_plan:
        plan.save(tmp_path / "plan")
        plan = GarbagePlan.load(tmp_path / "plan")
        repository = Repository.open(storage)
    report = repository.space.collect_planned(
        plan, quarantine=quarantine, unsafe_minimum_age=AT_ONCE
    )
    gone = before - {item.key for item in storage.list("")}
    aside = {item.key.split("/", 2)[2] for item in storage.list("trash/")}
    assert gone & aside == (gone if quarantine else set())
    counted = {folder: sum(key.startswith(folder) for key in gone) for folder in ("s/", "i/", "c/")}
    assert counted == {
        "s/": report.snapshots_deleted,
        "i/": report.manifests_deleted,
        "c/": report.chunks_deleted,
    }
    assert report.snapshots_deleted == 3
    assert np.frombuffer(contents(repository.readonly_session("main"))["line/c/0"], "<i4")[0] == 2
