"""What is done to a repository at the same time: a new operation joins by one line of a table.

An actor does the steps of an operation one after the other, with a handle of its own, until one
is refused. Each step has happened or not for everybody else; `partly` marks steps of several
visible changes, of which some may stay when it is refused.

Public names are used wherever there is one. Deleting files with an expiry has none but SQL's
`CALL frazil.expire_snapshots`, and no user can make a session look old. What zarr's own thread
asks of a storage, as xarray reads for `map_blocks`, is no step: a process has one such thread, and
who stopped it would stop all actors. It reads a snapshot that the job holds.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import xarray as xr

from frazil import (
    ConflictDetector,
    FrazilError,
    GarbagePlan,
    ReadOnlyError,
    RefNotFoundError,
    RepoAvailability,
    Repository,
    RepoStatus,
    Session,
    Storage,
    VirtualChunkContainer,
    clean_upgrade,
    local_filesystem_store,
    undo_upgrade,
    upgrade_repository,
)
from frazil.distributed import merge_sessions
from frazil.fsck import Level, fsck, repair
from frazil.maintenance.expire import expire_with_files
from frazil.run import LocalRunner
from frazil.spark import import_zarr, ingest, map_blocks, rechunk, reduce_blocks
from frazil.statistics.files import list_files
from frazil.statistics.tuning import MANY_FILES
from frazil.storage.memory import MemoryStorage
from frazil.tip import require_writable
from frazil.transaction.opened import context_of
from frazil.transfer.cloning import clone
from frazil.transfer.zarr_export import export
from frazil.xarray import to_icechunk
from tests.races import files
from tests.races.jobs_here import HERE, rows, stream_rows, url_of, write_upon
from tests.races.worlds import AGE, CONFIG, Facts, Place, cells, commit, garbage_before, unsound
from tests.support.nodes import array_document, contents, delete_below, write_keys
from tests.support.spark import write_here
from tests.support.stepping import Step


@dataclass(slots=True)
class Actor:
    """Somebody at work."""

    number: int
    operation: Operation
    place: Place
    step: Step = lambda _operation, _key: None
    """is called before each storage call"""
    storage: Storage = field(init=False)
    done: int = 0
    """steps that were acknowledged"""
    refusal: Exception | None = None
    """why the next one was not"""
    promised: list[tuple[str, str]] = field(default_factory=list)
    """snapshots without a ref, and a key to be found there"""
    _repo: Repository | None = None
    session: Session | None = None
    """opened before anything happens"""
    plan: GarbagePlan | None = None
    url: str = field(init=False)
    """where jobs find the storage"""
    _thread: int = 0

    def __post_init__(self) -> None:
        self.storage = self.place.storage(self._asked)
        self.url = url_of(self.storage)

    def _asked(self, operation: str, key: str) -> None:
        if threading.get_ident() == self._thread:
            self.step(operation, key)

    @property
    def name(self) -> str:
        """For messages and names."""
        return f"{self.operation.name}-{self.number}"

    @property
    def repo(self) -> Repository:
        """The actor's own handle, opened when it is first needed."""
        if self._repo is None:
            self._repo = Repository.open(self.storage, CONFIG)
        return self._repo

    @property
    def facts(self) -> Facts:
        """What is known of the world."""
        return self.place.facts

    @property
    def value(self) -> bytes:
        """What this actor writes."""
        return cells(100 + self.number, 100 + self.number)

    def __str__(self) -> str:
        if self.refusal is None:
            return f"{self.name} ok"
        return f"{self.name} refused: {type(self.refusal).__name__}"

    def perform(self, noted: Callable[[], None] = lambda: None) -> None:
        """Do all steps, until one is refused; `noted` is called after each that is not."""
        self._thread = threading.get_ident()
        for step in self.operation.steps:
            try:
                step(self)
            except Exception as error:
                self.refusal = error
                return
            self.done += 1
            noted()

    def mend_again(self) -> None:
        """Do a first step that was refused once more, when nobody else is there.

        A repository that somebody has closed is opened for it, as its owner would.
        """
        if not self.operation.mends or self.refusal is None or self.done:
            return
        self.step = lambda _operation, _key: None
        is_closed = isinstance(self.refusal, ReadOnlyError)
        with suppress(FrazilError):
            if is_closed:
                set_status(self, RepoAvailability.online)
            self.operation.steps[0](self)
            if is_closed:
                set_status(self, RepoAvailability.read_only)

    def perform_one(self) -> bool:
        """Do the next step; tell whether it was acknowledged."""
        try:
            self.operation.steps[self.done](self)
        except FrazilError as error:
            self.refusal = error
            return False
        self.done += 1
        return True


Act: TypeAlias = Callable[[Actor], object]
NEW: Final = ("v1", "v2", "v2-remote")
V2: Final = ("v2", "v2-remote")
OLD: Final = ("g1", "g2", "g3")
ALL: Final = (*NEW, *OLD)
DELETES_TAGS: Final = (*NEW, "g1", "g3")
EXPIRES: Final = (*NEW, "g1")


@dataclass(frozen=True, slots=True)
class Operation:
    """Steps that one actor does."""

    name: str
    steps: tuple[Act, ...]
    kinds: tuple[str, ...] = ALL
    """worlds where it can be done"""
    before: Act = lambda _: None
    """what was done long before others come"""
    partly: bool = False
    forgets: bool = False
    """whether it cuts old commits out of history; which ones may depend on the moment"""
    moves_refs: bool = False
    """whether it moves refs one by one, so that some may have moved when it is refused"""
    drops: tuple[str, ...] = ()
    """refs that it deletes or makes on their own, and may have when it is refused"""
    allows: bool = False
    """whether it stores a virtual chunk container first, which stays when it is refused"""
    optional: bool = False
    """whether it makes a commit only where there is something to do, and changes no values"""
    repeatable: bool = False
    """whether two who do the same at once may both be told that it is done"""
    mends: bool = False
    """whether it finds the repository damaged; if it is refused, it is to be done once more"""


# --- writing ---


def write(me: Actor, key: str, **how: object) -> None:
    """One chunk in a commit."""
    session = me.repo.writable_session("main")
    write_keys(session, {key: me.value})
    session.commit(me.name, **how)  # type: ignore[arg-type]


def append(me: Actor) -> None:
    """A chunk after the last one."""
    session = me.repo.writable_session("main")
    document = json.loads(contents(session)["t/zarr.json"])
    (length,) = document["shape"]
    document["shape"] = [length + 2]
    keys = {"t/zarr.json": json.dumps(document).encode(), f"t/c/{length // 2}": me.value}
    write_keys(session, keys)
    session.commit(me.name)


def write_new(me: Actor) -> None:
    """An array of the actor's own."""
    name = f"new-{me.number}"
    keys = {f"{name}/zarr.json": array_document(2, chunks=(2,)), f"{name}/c/0": me.value}
    session = me.repo.writable_session("main")
    write_keys(session, keys)
    session.commit(me.name, rebase_with=ConflictDetector())


def replace_array(me: Actor) -> None:
    """An array deleted and made again."""
    session = me.repo.writable_session("main")
    delete_below(session, "a")
    write_keys(session, {"a/zarr.json": array_document(8, chunks=(2,)), "a/c/0": me.value})
    session.commit(me.name)


def begin_writing(me: Actor) -> None:
    """A session with a chunk, left open for long."""
    me.session = me.repo.writable_session("main")
    write_keys(me.session, {"b/c/3": me.value})
    # As old as its chunks look to the store.
    me.session.state.changes.began -= AGE.total_seconds()


def end_writing(me: Actor) -> None:
    """Commit what was begun."""
    assert me.session is not None
    me.session.commit(me.name, rebase_with=ConflictDetector())


def amend(me: Actor) -> None:
    """The newest commit again, with one more chunk."""
    session = me.repo.writable_session("main")
    write_keys(session, {"a/c/0": me.value})
    session.amend(me.name)


def flush(me: Actor) -> None:
    """A snapshot that no branch has."""
    session = me.repo.writable_session("main")
    write_keys(session, {"a/c/0": me.value})
    me.promised.append((session.flush(me.name), "a/c/0"))


def move(me: Actor) -> None:
    """A node under another path."""
    session = me.repo.rearrange_session("main")
    session.move("/b", f"/moved-{me.number}")
    session.commit(me.name)


def shift(me: Actor) -> None:
    """All chunks of an array, one place further."""
    session = me.repo.writable_session("main")
    session.shift_array("/a", (1,))
    session.commit(me.name)


def fork(me: Actor, *, rebases: bool) -> None:
    """Written by a fork, as tasks do, and committed by the session it came from."""
    session = me.repo.writable_session("main")
    task = session.fork()
    write_keys(task, {"a/c/0": me.value})
    if rebases:
        session.rebase(ConflictDetector())
    session.merge(task)
    session.commit(me.name)


def staged(me: Actor, **how: object) -> None:
    """Written aside, checked and then published."""
    with me.repo.audit.staged("main", message=me.name, **how) as session:  # type: ignore[arg-type]
        write_keys(session, {"b/c/2": me.value})


def take_file(me: Actor, number: int, group: str, mode: str = "native", **how: Any) -> None:  # noqa: ANN401
    """An ingest of one file, which a process of its own looks into."""
    ingest(files.netcdf(number), me.url, spark=HERE, group=group, mode=mode, message=me.name, **how)


def begin_series(me: Actor) -> None:
    """The first file of a series; who comes second finds it there."""
    if "series/zarr.json" not in contents(me.repo.readonly_session("main")):
        take_file(me, 0, "series")


def import_store(me: Actor) -> None:
    """A Zarr store under a name of the actor's own."""
    group = f"imported-{me.number}"
    import_zarr(files.zarr_store(), me.url, spark=HERE, group=group, message=me.name)


def import_beside(me: Actor) -> None:
    """A Zarr store whose array shares the dimension of a table, into the group of that."""
    store = files.zarr_store(f"beside-{me.number}", "time")
    import_zarr(store, me.url, spark=HERE, group="w", message=me.name)


def with_xarray_beside(me: Actor) -> None:
    """One more variable of a table, as long as the others are."""
    session = me.repo.writable_session("main")
    (length,) = json.loads(contents(session)["w/v/zarr.json"])["shape"]
    values = {f"beside-{me.number}": ("time", np.full(length, 100 + me.number, "u1"))}
    to_icechunk(xr.Dataset(values), session, group="w", mode="a")
    session.commit(me.name, rebase_with=ConflictDetector())


def elsewhere(me: Actor, job: Callable[[str], object], path: str) -> None:
    """A job into another repository, which gets what was in this one all the time, or nothing."""
    goal, document = MemoryStorage(), f"{path}/zarr.json"
    if document not in contents(me.repo.readonly_session("main")):
        return  # it was erased
    job(url_of(goal))
    made = contents(Repository.open(goal).readonly_session("main"))
    if not any("/c/" in key and any(value) for key, value in made.items()):
        raise AssertionError(f"there are only zeros elsewhere: {made}")
    # Nobody comes after the last look of the job: what is gone now was gone then.
    left = Repository.open(me.place.storage(lambda _operation, _key: None))
    if document not in contents(left.readonly_session("main")):
        raise AssertionError("what was erased is elsewhere")


def rechunk_elsewhere(me: Actor) -> None:
    """An array in larger chunks, in another repository."""
    elsewhere(me, lambda goal: rechunk(me.url, "b", [4], spark=HERE, target=goal), "b")


def double_elsewhere(me: Actor) -> None:
    """A variable made of the blocks of another, in another repository."""

    def twice(block: Any) -> Any:  # noqa: ANN401  (a dataset)
        return (block * 2).rename(v="twice")

    def job(goal: str) -> object:
        return map_blocks(twice, me.url, "v", group="w", spark=HERE, target=goal)

    elsewhere(me, job, "w/v")


def rechunk_array(me: Actor) -> None:
    """An array in larger chunks, which end in checksums."""
    rechunk(me.url, "a", [4], spark=HERE, checksum=True, message=me.name)


def double(me: Actor) -> None:
    """A variable made of the blocks of another."""

    def twice(block: Any) -> Any:  # noqa: ANN401  (a dataset)
        return (block * 2).rename(v=f"twice-{me.number}")

    map_blocks(twice, me.url, "v", group="w", spark=HERE, message=me.name)


def total(me: Actor) -> None:
    """A sum of the blocks of a variable."""

    def summed(block: Any) -> Any:  # noqa: ANN401  (a dataset)
        return block.sum("time").rename(v=f"total-{me.number}")

    reduce_blocks(summed, me.url, "v", "time", group="w", spark=HERE, message=me.name)


def sink(me: Actor, first: int, **how: Any) -> None:  # noqa: ANN401
    """What `df.write.format("frazil")`, and `frazil.spark.write`, do with rows for a table."""
    write_here(me.url, rows(first, 100 + me.number), message=me.name, **{"group": "w", **how})


def insert(me: Actor) -> None:
    """`INSERT INTO w SELECT 0 AS time, v FROM w WHERE time = 3`, with statistics."""

    def moved(cells: pa.Table) -> pa.Table:
        return pa.table({"time": pa.array([0], pa.int64()), "v": cells["v"][3:4]})

    write_upon(me.url, moved, ("/w/v",), message=me.name, statistics=True)


def update(me: Actor) -> None:
    """`UPDATE w SET v = v + 10 WHERE time < 2`."""

    def more(cells: pa.Table) -> pa.Table:
        first = cells.slice(0, 2)
        return pa.table({"time": first["time"], "v": pc.add(first["v"], 10)})

    write_upon(me.url, more, message=me.name)


def delete(me: Actor) -> None:
    """`DELETE FROM w WHERE time = 1`."""

    def none(cells: pa.Table) -> pa.Table:
        return pa.table({"time": cells["time"][1:2], "v": pa.array([None], cells["v"].type)})

    write_upon(me.url, none, message=me.name)


def merge_into(me: Actor) -> None:
    """`MERGE INTO w … WHEN MATCHED THEN UPDATE … WHEN NOT MATCHED THEN INSERT`."""

    def both(cells: pa.Table) -> pa.Table:
        last = cells["time"][-1].as_py()
        return pa.table({"time": [2, last + 1], "v": pa.array([70, 71], cells["v"].type)})

    write_upon(me.url, both, ("/w/v",), message=me.name, append_dim="time")


def copy_all(me: Actor) -> None:
    """A clone of everything, which must be as sound as what it was made from."""
    target = MemoryStorage()
    was_unsound = unsound(me.place)
    clone(me.repo, target)
    bad = [str(each) for each in fsck(Repository.open(target)).findings if each.level != Level.NOTE]
    if bad and not was_unsound and not unsound(me.place):
        raise AssertionError(f"the clone is not sound: {bad}")


def copy_version(me: Actor) -> None:
    """A clone of what is on a branch now, with its statistics."""
    target = MemoryStorage()
    session = me.repo.readonly_session("main")
    was = contents(session)
    clone(session, target)
    made = contents(Repository.open(target).readonly_session("main"))
    if {key for key in was if was[key] != made.get(key)}:
        raise AssertionError("the clone is another one than what was cloned")


def export_version(me: Actor) -> None:
    """What is on a branch now as a plain Zarr store."""
    target = MemoryStorage()
    session = me.repo.readonly_session("main")
    was = contents(session)
    export(session, target)
    if {key for key in was if was[key] != target.get(key)}:
        raise AssertionError("the store is another one than what was exported")


def read_all(me: Actor) -> None:
    """Everything that looks at a repository and changes nothing."""
    repo = me.repo
    was = contents(repo.readonly_session("main"))
    if was.keys() < {"a/zarr.json", "w/v/zarr.json"}:
        raise AssertionError(f"arrays are missing: {[*was]}")
    for branch in sorted(repo.list_branches()):
        for info in repo.ancestry(branch=branch):
            repo.lookup_snapshot(info.id)
    repo.diff(from_snapshot_id=me.facts.ids["one"], to_branch="main")
    repo.chunk_storage_stats()
    repo.space.shares()
    [*repo.space.growth()]
    repo.space.list_trash()
    repo.audit.verify("main")


def with_xarray(me: Actor, **how: Any) -> None:  # noqa: ANN401
    """A dataset put into a group of a session; all but the commit is asked by zarr's thread."""
    first = 10 * me.number
    values = {"v": ("time", np.full(2, 100 + me.number, "u1"))}
    dataset = xr.Dataset(values, {"time": ("time", np.arange(first, first + 2))})
    session = me.repo.writable_session("main")
    to_icechunk(dataset, session, **how)
    session.commit(me.name, rebase_with=ConflictDetector())


def in_transaction(me: Actor) -> None:
    """The way of the official package's documents."""
    me.repo.set_default_commit_metadata({"by": me.name})
    with me.repo.transaction("main", message=me.name) as store:
        write_keys(store.session, {"a/c/0": me.value})


def merged_forks(me: Actor) -> None:
    """Two forks, as workers of dask have them, put together and then into their session."""
    session = me.repo.writable_session("main")
    forks = [session.fork() for _ in range(2)]
    for number, each in enumerate(forks):
        write_keys(each, {f"a/c/{number}": me.value})
    session.merge(merge_sessions(*forks))
    session.commit(me.name)


def stream(me: Actor, name: str) -> None:
    """A micro-batch put behind a table, in the name of a stream."""
    new = rows(10, 100)
    stream_rows(me.url, new, group="w", message=me.name, checkpointLocation=name)


# --- refs and settings ---


def own_branch(me: Actor, at: str) -> None:
    """A branch at a snapshot, with a commit."""
    name = f"branch-{me.number}"
    me.repo.create_branch(name, me.facts.ids[at])


def keep_flushed(me: Actor) -> None:
    """A branch at the snapshot that was promised last."""
    me.repo.create_branch(f"flushed-{me.number}", me.promised[-1][0])


def keep_restored(me: Actor) -> None:
    """A branch at a snapshot that was in the trash."""
    me.repo.create_branch(f"restored-{me.number}", me.facts.ids["trashed"])


def keep_garbage(me: Actor) -> None:
    """A branch at a snapshot that a collection under way may have put aside for a while."""
    me.repo.create_branch(f"kept-{me.number}", me.facts.ids["gone"])


def clear_branch(me: Actor) -> None:
    """The branch `dev` away, if there is one."""
    with suppress(RefNotFoundError):
        me.repo.delete_branch("dev")


def save_config(me: Actor) -> None:
    """A virtual chunk container more."""
    url = f"file:///data-{me.number}/"
    config = me.repo.config
    config.set_virtual_chunk_container(VirtualChunkContainer(url, local_filesystem_store("/")))
    me.repo.reopen(config).save_config()


# --- upkeep ---


def collect(me: Actor) -> None:
    """Delete garbage."""
    me.repo.garbage_collect(garbage_before())


def collect_planned(me: Actor, *, incremental: bool = False, quarantine: bool = False) -> None:
    """Delete garbage, or put it aside, by a plan."""
    plan = me.plan or me.repo.space.plan_garbage(garbage_before(), incremental=incremental)
    me.repo.space.collect_planned(plan, quarantine=quarantine)


def plan(me: Actor) -> None:
    """A plan of what is garbage now."""
    me.plan = me.repo.space.plan_garbage(garbage_before())


def expire_refs(me: Actor) -> None:
    """Old snapshots, and branches and tags that point to such."""
    me.repo.expire_snapshots(me.facts.cut, delete_expired_branches=True, delete_expired_tags=True)


def expire_files(me: Actor) -> None:
    """Old snapshots and what only they need."""
    require_writable(context_of(me.repo))
    expire_with_files(context_of(me.repo), me.facts.cut)


def expire_but(me: Actor, number: int, **how: Any) -> None:  # noqa: ANN401
    """Old snapshots but for the last ones of each branch."""
    me.repo.space.expire(me.facts.cut, retain_last=number, **how)


def analyze_often(me: Actor) -> None:
    """So many files of statistics that the next analysis puts them together."""
    me.repo.audit.analyze()
    here = me.place.memory
    for item in list_files(here):
        for number in range(MANY_FILES):
            here.put(f"{item.key[:-4]}{me.number}{number:03}", here.get(item.key) or b"")


def purge(me: Actor, path: str, *region: slice) -> None:
    """Erase from all history, also from what was committed a moment ago."""
    me.repo.space.purge(path, region or None, confirm=path, unsafe_minimum_age=timedelta(0))


def upgrade(me: Actor, to: int = 2) -> None:
    """To a newer generation."""
    upgrade_repository(me.repo, to=to)


def damage(me: Actor) -> None:
    """A log away that a commit had."""
    me.storage.delete_many([f"transactions/{me.facts.ids['three']}"])


def break_ref(me: Actor) -> None:
    """The file of a branch with half of its bytes."""
    me.place.memory.put("refs/branch.dev/ref.json", b'{"snapsh')


def lose_tip(me: Actor) -> None:
    """The newest snapshot of a branch away."""
    me.storage.delete_many([f"snapshots/{me.facts.ids['dev']}"])


def mend(me: Actor) -> None:
    """Whatever fsck finds."""
    repair(me.storage, apply=True, tips={"dev": me.facts.ids["dev"]})


def mend_tip(me: Actor) -> None:
    """The same; nobody knows where a branch was."""
    repair(me.storage, apply=True)


def set_status(me: Actor, availability: RepoAvailability) -> None:
    """Whether the repository takes changes."""
    me.repo.set_status(RepoStatus(availability))


def be_upgraded(me: Actor) -> None:
    """The same long before, by whoever comes first."""
    if Repository.open(me.storage).spec_version not in (1, 2):
        upgrade(me)


# --- the table ---


def _all() -> Iterator[Operation]:
    def one(name: str, *steps: Act, **how: object) -> Operation:
        return Operation(name, steps, **how)  # type: ignore[arg-type]

    detector = ConflictDetector()
    yield one("commit", lambda me: write(me, "a/c/0"))
    yield one("commit-rebasing", lambda me: write(me, f"a/c/{me.number}", rebase_with=detector))
    yield one("commit-elsewhere", write_new)
    yield one("commit-late", end_writing, before=begin_writing)
    yield one("append", append)
    yield one("replace", replace_array)
    yield one("amend", amend, kinds=V2)
    yield one("flush", flush)
    yield one("move", move, kinds=V2)
    yield one("shift", shift)
    yield one("fork", lambda me: fork(me, rebases=False))
    yield one("fork-rebasing", lambda me: fork(me, rebases=True))
    yield one("staged", staged, partly=True)
    yield one("staged-rebasing", lambda me: staged(me, rebase_with=detector), partly=True)

    yield one("transaction", in_transaction)
    yield one("merged-forks", merged_forks)
    yield one("flush+branch", flush, keep_flushed)
    yield one("xarray", lambda me: with_xarray(me, group=f"x-{me.number}"))
    yield one("xarray-beside", with_xarray_beside)
    yield one("xarray-append", lambda me: with_xarray(me, group="w", append_dim="time"))

    yield one("ingest", lambda me: take_file(
        me, me.number, f"w-{me.number}", checksum=True), kinds=NEW)  # fmt: skip
    yield one("ingest-append", lambda me: take_file(me, me.number, "series", append=True),
              kinds=NEW, before=begin_series)  # fmt: skip
    yield one("ingest-virtual", lambda me: take_file(
        me, me.number, f"w-{me.number}", mode="virtual"), kinds=NEW, allows=True)  # fmt: skip
    yield one("ingest-branch", lambda me: take_file(
        me, me.number, f"w-{me.number}", branch="fresh"), kinds=NEW,
        drops=("fresh",))  # fmt: skip
    yield one("ingest-statistics", lambda me: take_file(
        me, me.number, f"w-{me.number}", statistics=True), kinds=NEW)  # fmt: skip
    yield one("import", import_store, kinds=NEW)
    yield one("import-beside", import_beside, kinds=NEW)
    yield one("rechunk-elsewhere", rechunk_elsewhere, kinds=NEW, repeatable=True)
    yield one("map-blocks-elsewhere", double_elsewhere, kinds=NEW, repeatable=True)
    yield one("rechunk", rechunk_array, kinds=NEW)
    yield one("map-blocks", double, kinds=NEW)
    yield one("reduce-blocks", total, kinds=NEW)
    yield one("sink", lambda me: sink(me, 0), kinds=NEW)
    yield one("sink-statistics", lambda me: sink(me, 0, statistics=True), kinds=NEW)
    yield one("sink-append", lambda me: sink(me, 10 * me.number, append_dim="time"), kinds=NEW)
    yield one("sink-like", lambda me: sink(me, 0, like=f"{me.url}#/w", dims="time", checksum=True,
              group=f"like-{me.number}"), kinds=NEW)  # fmt: skip
    yield one("sink-overwrite", lambda me: sink(me, 0, mode="overwrite", replace_where="time < 2"),
              kinds=NEW)  # fmt: skip
    yield one("sink-once", lambda me: sink(me, 10, append_dim="time", txnAppId="series",
              txnVersion=1), kinds=NEW, repeatable=True)  # fmt: skip
    yield one("insert", insert, kinds=NEW)
    yield one("update", update, kinds=NEW)
    yield one("delete", delete, kinds=NEW)
    yield one("merge-into", merge_into, kinds=NEW)
    yield one("clone", copy_all, repeatable=True)
    yield one("clone-version", copy_version, repeatable=True)
    yield one("export-version", export_version, repeatable=True)
    yield one("analyzed+clone-version", copy_version, before=lambda me: me.repo.audit.analyze(),
              repeatable=True)  # fmt: skip
    yield one("read", read_all, repeatable=True)
    yield one("stream", lambda me: stream(me, "/stream"), kinds=NEW, repeatable=True)

    yield one("merge", lambda me: me.repo.versions.merge("dev", "main"), kinds=NEW)
    yield one(
        "cherry-pick",
        lambda me: me.repo.versions.cherry_pick(me.facts.ids["dev"], "main"),
        kinds=NEW,
    )
    yield one(
        "revert", lambda me: me.repo.versions.revert(me.facts.ids["three"], "main"), kinds=NEW
    )
    yield one(
        "squash",
        lambda me: me.repo.versions.squash("main", me.facts.ids["one"], me.facts.ids["three"]),
        kinds=NEW,
    )
    yield one("fast-forward", lambda me: me.repo.versions.fast_forward("behind", "main"))

    yield one("create-branch", lambda me: own_branch(me, "four"))
    yield one("create-branch-old", lambda me: own_branch(me, "gone"))
    yield one("create-tag", lambda me: me.repo.create_tag(f"tag-{me.number}", me.facts.ids["four"]))
    yield one(
        "create-tag-old", lambda me: me.repo.create_tag(f"tag-{me.number}", me.facts.ids["gone"])
    )
    yield one("reset", lambda me: me.repo.reset_branch("main", me.facts.ids["two"]))
    yield one("reset-from", lambda me: me.repo.reset_branch(
        "main", me.facts.ids["two"], from_snapshot_id=me.facts.ids["four"]),
        repeatable=True)  # fmt: skip
    yield one("reset-old", lambda me: me.repo.reset_branch("dev", me.facts.ids["gone"]))
    yield one("delete-branch", lambda me: me.repo.delete_branch("dev"), repeatable=True)
    yield one(
        "delete-tag", lambda me: me.repo.delete_tag("t1"), kinds=DELETES_TAGS, repeatable=True
    )
    yield one("save-config", save_config, kinds=(*NEW, "g3"))
    yield one("set-metadata", lambda me: me.repo.set_metadata({me.name: 1}), kinds=V2)
    yield one("metadata", lambda me: me.repo.update_metadata({me.name: 1}), kinds=V2)

    yield one("expire", lambda me: me.repo.expire_snapshots(me.facts.cut), kinds=EXPIRES,
              partly=True, forgets=True)  # fmt: skip
    yield one("expire-refs", expire_refs, kinds=EXPIRES, partly=True, forgets=True,
              drops=("behind", "dev", "t1"))  # fmt: skip
    yield one("expire-files", expire_files, kinds=EXPIRES, partly=True, forgets=True)
    yield one("expire-retaining", lambda me: expire_but(me, 2), kinds=EXPIRES, partly=True,
              forgets=True)  # fmt: skip
    yield one("expire-all", lambda me: expire_but(me, 1, delete_branches=True, delete_tags=True,
              delete_files=True), kinds=EXPIRES, partly=True, forgets=True,
              drops=("behind", "dev", "t1"))  # fmt: skip
    yield one("collect", collect)
    yield one("collect-incremental", lambda me: collect_planned(me, incremental=True))
    yield one("put-aside", lambda me: collect_planned(me, quarantine=True))
    yield one("collect-planned", collect_planned, before=plan)
    yield one("restore", lambda me: me.repo.space.restore_trash())
    yield one("restore+branch", lambda me: me.repo.space.restore_trash(), keep_restored,
              kinds=("v1", *OLD))  # fmt: skip
    yield one("restore+keep", lambda me: me.repo.space.restore_trash(), keep_garbage,
              kinds=("v1", *OLD))  # fmt: skip
    yield one("put-aside+restore", lambda me: collect_planned(me, quarantine=True),
              lambda me: me.repo.space.restore_trash())  # fmt: skip
    yield one("delete-branch+aside+restore", lambda me: me.repo.delete_branch("dev"),
              lambda me: collect_planned(me, quarantine=True),
              lambda me: me.repo.space.restore_trash())  # fmt: skip
    yield one("empty-trash", lambda me: me.repo.space.empty_trash(garbage_before()))
    yield one("purge", lambda me: purge(me, "/b"), kinds=NEW, partly=True, repeatable=True,
              moves_refs=True)  # fmt: skip
    yield one(
        "purge-region",
        lambda me: purge(me, "/a", slice(0, 3)),
        kinds=NEW,
        partly=True,
        repeatable=True,
        moves_refs=True,
    )
    yield one("analyzed+purge", lambda me: purge(me, "/b"), kinds=NEW, partly=True,
              before=lambda me: me.repo.audit.analyze(), repeatable=True,
              moves_refs=True)  # fmt: skip
    yield one("rewrite", lambda me: me.repo.rewrite_manifests(me.name, branch="main"))
    yield one("rewrite-amend", lambda me: me.repo.rewrite_manifests(
        me.name, branch="main", commit_method="amend"), kinds=V2)  # fmt: skip
    yield one("compact-by-tasks", lambda me: me.repo.space.compact(
        "main", message=me.name, runner=LocalRunner(1)), optional=True)  # fmt: skip
    yield one("collect-by-tasks", lambda me: me.repo.space.collect_garbage(
        garbage_before(), runner=LocalRunner(1)))  # fmt: skip
    yield one("compact", lambda me: me.repo.space.compact("main", message=me.name), optional=True)
    yield one("analyze", lambda me: me.repo.audit.analyze(), repeatable=True)
    yield one("analyze-by-tasks", lambda me: me.repo.audit.analyze(
        "main", runner=LocalRunner(1)), repeatable=True)  # fmt: skip
    yield one("analyzed+commit+analyze", lambda me: write(me, "a/c/0"),
              lambda me: me.repo.audit.analyze("main"),
              before=lambda me: me.repo.audit.analyze())  # fmt: skip
    yield one("analyze-often", lambda me: me.repo.audit.analyze("dev"), before=analyze_often,
              repeatable=True)  # fmt: skip
    yield one("analyzed+collect", collect, before=lambda me: me.repo.audit.analyze())
    yield one("upgrade", upgrade, kinds=("v1", *OLD), partly=True, repeatable=True)
    yield one("upgrade-to-v1", lambda me: upgrade(me, 1), kinds=OLD, partly=True, repeatable=True)

    yield one("undo-upgrade", lambda me: undo_upgrade(me.storage), kinds=OLD, before=be_upgraded)

    yield one("clean-upgrade", lambda me: clean_upgrade(me.storage), kinds=OLD, before=be_upgraded,
              repeatable=True)  # fmt: skip
    yield one("repair", mend, kinds=NEW, before=damage, repeatable=True, mends=True)
    yield one("repair-ref", mend, kinds=("v1",), before=break_ref, repeatable=True, mends=True,
              partly=True)  # fmt: skip
    yield one("repair-ref+commit", mend, lambda me: commit(
        me.repo, "dev", me.name, {"b/c/3": me.value}), kinds=("v1",), before=break_ref,
        mends=True, partly=True)  # fmt: skip
    yield one("repair-tip", mend_tip, kinds=V2, before=lose_tip, repeatable=True, mends=True,
              partly=True)  # fmt: skip
    yield one("close", lambda me: set_status(me, RepoAvailability.read_only), kinds=V2)
    yield one("close+open", lambda me: set_status(me, RepoAvailability.read_only),
              lambda me: set_status(me, RepoAvailability.online), kinds=V2)  # fmt: skip
    yield one("set-flag", lambda me: me.repo.set_feature_flag(
        "create_tag" if me.number == 1 else "move_node", setting=False), kinds=V2)  # fmt: skip

    yield one("delete-branch+collect", lambda me: me.repo.delete_branch("dev"), collect,
              repeatable=True)  # fmt: skip
    yield one(
        "expire+collect",
        lambda me: me.repo.expire_snapshots(me.facts.cut),
        collect,
        kinds=EXPIRES,
        partly=True,
        forgets=True,
    )
    yield one("rebuild-branch", clear_branch,
              lambda me: me.repo.create_branch("dev", me.facts.ids["four"]),
              lambda me: commit(me.repo, "dev", me.name, {"a/c/0": me.value}))  # fmt: skip
    yield one("create-branch+commit", lambda me: own_branch(me, "two"), lambda me: commit(
        me.repo, f"branch-{me.number}", me.name, {"a/c/0": me.value}))  # fmt: skip


OPERATIONS: Final = {operation.name: operation for operation in _all()}
COMPETITORS: Final = {
    "the same array": ("commit", "commit-rebasing", "append", "replace"),
    "elsewhere": (
        "reset",
        "commit-elsewhere",
        "create-branch-old",
        "create-tag-old",
        "create-branch+commit",
        "rebuild-branch",
        "flush",
    ),
    "collection": ("expire+collect", "delete-branch+collect"),
    "upgrade": ("upgrade",),
    "erasure": ("purge",),
    "tidying": ("undo-upgrade", "clean-upgrade"),
    "settings": ("close+open",),
    "trash": ("restore+keep",),
}
"""By kind, besides the operation itself."""
