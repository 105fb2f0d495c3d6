"""A hypothesis machine drives a repository against a plain model of snapshots.

The model is a dict from snapshot id to the keys and values of its store, the parent of each
snapshot, and where the refs point. Two writers share the repository, so that conflicts happen.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from frazil.errors import ConflictError, FrazilError
from frazil.fsck import Code, fsck
from frazil.model.config import (
    ManifestConfig,
    ManifestSplitCondition,
    ManifestSplitDimCondition,
    ManifestSplittingConfig,
    RepositoryConfig,
)
from frazil.model.values import BasicConflictSolver, ConflictDetector, VersionSelection
from frazil.repository import Repository
from frazil.session import Session
from frazil.storage.memory import MemoryStorage
from frazil.transaction.keyspace import KeySpace
from tests.support.ages import AT_ONCE
from tests.support.nodes import array_document, contents, group_document
from tests.support.soaking import Soak, run_seeded

WRITERS = ("one", "two")
GROUPS = ("g", "g/h", "k")
ARRAYS = ("a", "g/a", "g/h/b")
CHUNKS = 6
Keys = dict[str, bytes]

node_names = st.sampled_from(GROUPS + ARRAYS)
array_names = st.sampled_from(ARRAYS)
indices = st.integers(0, CHUNKS - 1)
values = st.binary(min_size=1, max_size=40)
writers = st.sampled_from(WRITERS)
solvers = st.sampled_from(
    [
        ConflictDetector(),
        BasicConflictSolver(),
        BasicConflictSolver(on_chunk_conflict=VersionSelection.UseTheirs),
        BasicConflictSolver(on_chunk_conflict=VersionSelection.Fail),
    ]
)


@dataclass
class Writer:
    """A session with what the model expects it to see."""

    session: Session
    keys: Keys
    base: str
    edits: dict[str, bytes | None] = field(default_factory=dict)


class RepositoryMachine(RuleBasedStateMachine):
    spec = 2

    @initialize(split=st.integers(1, 4), inline=st.sampled_from([0, 8, 512]))
    def create(self, split: int, inline: int) -> None:
        self.storage = MemoryStorage()
        self.config = RepositoryConfig(
            inline_chunk_threshold_bytes=inline,
            manifest=ManifestConfig(
                splitting=ManifestSplittingConfig.from_dict(
                    {ManifestSplitCondition.AnyArray(): {ManifestSplitDimCondition.Any(): split}}
                )
            ),
        )
        self.repository = Repository.create(
            self.storage, config=self.config, spec_version=self.spec
        )
        first = self.repository.lookup_branch("main")
        self.snapshots: dict[str, Keys] = {first: {}}
        self.parents: dict[str, str | None] = {first: None}
        self.branches = {"main": first}
        self.tags: dict[str, str] = {}
        self.deleted_tags: set[str] = set()
        self.writers: dict[str, Writer] = {}

    # --- editing ---

    def writer(self, name: str) -> Writer:
        if name not in self.writers:
            session = self.repository.writable_session("main")
            base = self.branches["main"]
            assert session.snapshot_id == base
            self.writers[name] = Writer(session, dict(self.snapshots[base]), base)
        return self.writers[name]

    @rule(name=writers, node=node_names, note=st.integers(0, 3))
    def write_node(self, name: str, node: str, note: int) -> None:
        writer = self.writer(name)
        document = (
            array_document(CHUNKS, attributes={"note": note})
            if node in ARRAYS
            else group_document(note=note)
        )
        KeySpace(writer.session.state).set(f"{node}/zarr.json", document)
        writer.keys[f"{node}/zarr.json"] = document

    @rule(name=writers, node=array_names, index=indices, value=values)
    def write_chunk(self, name: str, node: str, index: int, value: bytes) -> None:
        writer = self.writer(name)
        space = KeySpace(writer.session.state)
        if f"{node}/zarr.json" not in writer.keys:
            with pytest.raises(FrazilError):
                space.set(f"{node}/c/{index}", value)
            return
        space.set(f"{node}/c/{index}", value)
        writer.keys[f"{node}/c/{index}"] = value

    @rule(name=writers, node=array_names, index=indices)
    def delete_chunk(self, name: str, node: str, index: int) -> None:
        writer = self.writer(name)
        KeySpace(writer.session.state).delete(f"{node}/c/{index}")
        writer.keys.pop(f"{node}/c/{index}", None)

    @rule(name=writers, node=node_names)
    def delete_node(self, name: str, node: str) -> None:
        writer = self.writer(name)
        KeySpace(writer.session.state).delete(f"{node}/zarr.json")
        if f"{node}/zarr.json" in writer.keys:
            for key in [key for key in writer.keys if key.startswith(f"{node}/")]:
                del writer.keys[key]

    @rule(name=writers)
    def discard(self, name: str) -> None:
        self.writers.pop(name, None)

    @rule(name=writers)
    def through_a_fork(self, name: str) -> None:
        """Write through a fork and merge it; the session must see what the fork wrote."""
        writer = self.writer(name)
        target = next((a for a in ARRAYS if f"{a}/zarr.json" in writer.keys), None)
        if target is None:
            return
        fork = writer.session.fork()
        assert contents(fork) == writer.keys
        KeySpace(fork.state).set(f"{target}/c/0", b"from the fork")
        writer.session.merge(fork)
        writer.keys[f"{target}/c/0"] = b"from the fork"

    # --- committing ---

    @rule(name=writers)
    def commit(self, name: str) -> None:
        writer = self.writers.get(name)
        if writer is None:
            return
        if not writer.session.has_uncommitted_changes:
            with pytest.raises(FrazilError):
                writer.session.commit("nothing")
            return
        if self.branches["main"] != writer.base:
            with pytest.raises(ConflictError):
                writer.session.commit("too late")
            assert contents(writer.session) == writer.keys, "a failed commit loses nothing"
            return
        self.landed(name, writer, writer.session.commit("change"), writer.base)

    @rule(name=writers, solver=solvers)
    def commit_with_rebase(self, name: str, solver: ConflictDetector) -> None:
        writer = self.writers.get(name)
        if writer is None or not writer.session.has_uncommitted_changes:
            return
        moved = self.branches["main"] != writer.base
        base = self.branches["main"]
        try:
            new = writer.session.commit("rebased", rebase_with=solver)
        except ConflictError:
            # a real conflict, or the branch was reset below the base of the session
            assert moved, "nothing to conflict with"
            self.writers.pop(name)
            return
        if moved:
            # What exactly is kept is the solver's business; it must at least be consistent.
            writer.keys = contents(self.repository.readonly_session(snapshot_id=new))
        self.landed(name, writer, new, base)

    def landed(self, name: str, writer: Writer, new: str, parent: str) -> None:
        self.snapshots[new] = writer.keys
        self.parents[new] = parent
        self.branches["main"] = new
        self.writers.pop(name)
        assert writer.session.read_only

    # --- refs ---

    @rule(data=st.data())
    def create_branch(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(["dev", "x y", "é"]))
        target = data.draw(st.sampled_from(list(self.snapshots)))
        if name in self.branches:
            with pytest.raises(FrazilError):
                self.repository.create_branch(name, target)
            return
        self.repository.create_branch(name, target)
        self.branches[name] = target

    @rule(data=st.data())
    def reset_branch(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.branches)))
        target = data.draw(st.sampled_from(list(self.snapshots)))
        self.repository.reset_branch(name, target)
        self.branches[name] = target

    @rule(data=st.data())
    def delete_branch(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(["dev", "x y", "é", "main"]))
        if name == "main" or name not in self.branches:
            with pytest.raises(FrazilError):
                self.repository.delete_branch(name)
            return
        self.repository.delete_branch(name)
        del self.branches[name]

    @rule(data=st.data())
    def create_tag(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(["v1", "v2", "v3"]))
        target = data.draw(st.sampled_from(list(self.snapshots)))
        if name in self.tags or name in self.deleted_tags:
            with pytest.raises(FrazilError):
                self.repository.create_tag(name, target)
            return
        self.repository.create_tag(name, target)
        self.tags[name] = target

    @precondition(lambda self: self.tags)
    @rule(data=st.data())
    def delete_tag(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.tags)))
        self.repository.delete_tag(name)
        del self.tags[name]
        self.deleted_tags.add(name)

    # --- maintenance ---

    @rule()
    def reopen(self) -> None:
        self.repository = Repository.open(self.storage)
        self.writers = {}

    @rule()
    def collect_garbage(self) -> None:
        """With a cutoff in the future everything unreachable goes; nothing reachable may."""
        self.writers = {}
        self.repository.garbage_collect(
            datetime.now(UTC) + timedelta(days=1), unsafe_minimum_age=AT_ONCE
        )
        reachable = set()
        for tip in [*self.branches.values(), *self.tags.values()]:
            at: str | None = tip
            while at is not None:
                reachable.add(at)
                at = self.parents[at]
        self.snapshots = {k: v for k, v in self.snapshots.items() if k in reachable}
        self.parents = {k: v for k, v in self.parents.items() if k in reachable}

    @rule()
    def rewrite_manifests(self) -> None:
        self.writers = {}
        tip = self.branches["main"]
        new = self.repository.rewrite_manifests("rewritten", branch="main")
        self.snapshots[new] = dict(self.snapshots[tip])
        self.parents[new] = tip
        self.branches["main"] = new

    # --- what must always hold ---

    @invariant()
    def refs_are_where_the_model_says(self) -> None:
        if not hasattr(self, "repository"):
            return
        assert self.repository.list_branches() == set(self.branches)
        assert self.repository.list_tags() == set(self.tags)
        for name, tip in self.branches.items():
            assert self.repository.lookup_branch(name) == tip
        for name, target in self.tags.items():
            assert self.repository.lookup_tag(name) == target

    @invariant()
    def the_tip_holds_what_was_committed(self) -> None:
        if not hasattr(self, "repository"):
            return
        tip = self.branches["main"]
        assert contents(self.repository.readonly_session("main")) == self.snapshots[tip]
        chain = [info.id for info in self.repository.ancestry(branch="main")]
        expected = []
        at: str | None = tip
        while at is not None:
            expected.append(at)
            at = self.parents[at]
        assert chain == expected

    @invariant()
    def sessions_see_their_own_changes(self) -> None:
        for writer in getattr(self, "writers", {}).values():
            assert contents(writer.session) == writer.keys

    def teardown(self) -> None:
        for snapshot_id, keys in getattr(self, "snapshots", {}).items():
            session = self.repository.readonly_session(snapshot_id=snapshot_id)
            assert contents(session) == keys, "time travel shows every snapshot unchanged"
        if hasattr(self, "repository"):
            # Nodes come and go here without regard to the groups they lie in.
            allowed = {Code.NODE_ORPHAN, Code.UNREFERENCED}
            report = fsck(self.repository)
            assert report.codes() <= allowed, report.findings


class OldRepositoryMachine(RepositoryMachine):
    spec = 1


@pytest.mark.parametrize("machine", [RepositoryMachine, OldRepositoryMachine])
def test_repository_behaves_like_its_model(machine: type[RepositoryMachine]) -> None:
    run_state_machine_as_test(
        machine, settings=settings(max_examples=20, stateful_step_count=40, deadline=None)
    )


@pytest.mark.soak
@pytest.mark.timeout(0)
@pytest.mark.parametrize("machine", [RepositoryMachine, OldRepositoryMachine])
def test_and_does_so_as_long_as_there_is_time(machine: type[RepositoryMachine], soak: Soak) -> None:
    soak.run(soak.seeds(), lambda seed: run_seeded(machine, int(seed), steps=80))
