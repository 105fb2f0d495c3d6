"""A hypothesis machine merges, picks, reverts, squashes, expires and collects against a model.

The model keeps every commit as a plain dictionary and merges those (`merge_model`). Where
history was expired or collected the repository may refuse to merge, or find more conflicts;
where it merges, it must do what the model does with the whole history.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from frazil.errors import ErrorKind, FrazilError, MergeConflictError, NotFoundError
from frazil.fsck import Level, fsck
from frazil.merging.records import MergeReport, MergeStatus
from frazil.model.config import RepositoryConfig
from frazil.repository import Repository
from frazil.storage.memory import MemoryStorage
from frazil.transaction.keyspace import KeySpace
from tests.property.merge_model import Clash, History, ModelNode, State, merge
from tests.support.ages import AT_ONCE
from tests.support.nodes import array_document, contents
from tests.support.soaking import Soak, run_seeded

BRANCHES = ("main", "one", "two")
GROUPS = ("g", "g/h")
ARRAYS = ("a", "g/b", "g/h/c")
LONGEST = 5
ACTIONS = (
    *("make", "make", "chunk", "chunk", "chunk", "drop"),
    *("attribute", "resize", "type", "delete", "anew"),
)
LATER = timedelta(days=1)

branch_names = st.sampled_from(BRANCHES)
pairs = st.permutations(BRANCHES).map(lambda names: (names[0], names[1]))
policies = st.sampled_from(["fail", "fail", "ours", "theirs"])
edits = st.lists(
    st.tuples(
        st.sampled_from(ACTIONS),
        st.sampled_from(GROUPS + ARRAYS + ARRAYS),
        st.integers(0, LONGEST - 1),
    ),
    min_size=1,
    max_size=4,
)


def document(node: ModelNode) -> bytes:
    """The metadata of a node."""
    if node.length is None:
        text = {"zarr_format": 3, "node_type": "group", "attributes": node.attributes}
        return json.dumps(text).encode()
    return array_document(node.length, data_type=node.kind, attributes=node.attributes)


def as_state(keys: dict[str, bytes]) -> State:
    """What a branch holds, as the model would keep it."""
    state: State = {}
    for key, value in keys.items():
        if not key.endswith("/zarr.json"):
            continue
        path, text = key.removesuffix("/zarr.json"), json.loads(value)
        if text["node_type"] == "group":
            state[path] = ModelNode(text["attributes"])
            continue
        start = f"{path}/c/"
        chunks = {int(k[len(start) :]): v for k, v in keys.items() if k.startswith(start)}
        state[path] = ModelNode(text["attributes"], text["shape"][0], text["data_type"], chunks)
    return state


class MergeMachine(RuleBasedStateMachine):
    spec = 2

    @initialize(inline=st.sampled_from([0, 512]))
    def create(self, inline: int) -> None:
        self.storage = MemoryStorage()
        config = RepositoryConfig(inline_chunk_threshold_bytes=inline)
        self.repository = Repository.create(self.storage, config=config, spec_version=self.spec)
        self.history = History()
        first = self.repository.lookup_branch("main")
        self.history.add(first, {})
        self.first = first
        self.tips = {"main": first}
        self.written = 0
        self.has_gaps = False
        session = self.repository.writable_session("main")
        KeySpace(session.state).set("zarr.json", document(ModelNode()))
        self.landed("main", session.commit("root"), {}, first)
        self.commit_edits("main", [("make", name, 3) for name in (*GROUPS, *ARRAYS)])
        for branch in BRANCHES[1:]:
            self.repository.create_branch(branch, self.tips["main"])
            self.tips[branch] = self.tips["main"]

    def state(self, branch: str) -> State:
        return self.history.commits[self.tips[branch]].state

    # --- editing ---

    @rule(branch=branch_names, wanted=edits)
    def commit(self, branch: str, wanted: list[tuple[str, str, int]]) -> None:
        self.commit_edits(branch, wanted)

    @rule(pair=pairs, wanted=edits, others=edits)
    def commit_on_two(
        self,
        pair: tuple[str, str],
        wanted: list[tuple[str, str, int]],
        others: list[tuple[str, str, int]],
    ) -> None:
        self.commit_edits(pair[0], wanted)
        self.commit_edits(pair[1], others)

    def commit_edits(self, branch: str, wanted: list[tuple[str, str, int]]) -> None:
        session = self.repository.writable_session(branch)
        space, state = KeySpace(session.state), dict(self.state(branch))
        for action, path, number in wanted:
            self.edit(space, state, action, path, number)
        if not session.has_uncommitted_changes:
            return
        for path, node in state.items():
            if node.length is not None:
                inside = {n: value for n, value in node.chunks.items() if n < node.length}
                state[path] = ModelNode(node.attributes, node.length, node.kind, inside)
        self.landed(branch, session.commit("edit"), state, self.tips[branch])

    def edit(self, space: KeySpace, state: State, action: str, path: str, number: int) -> None:
        node = state.get(path)
        parent = path.rpartition("/")[0]
        if action == "make":
            if node is not None or (parent and parent not in state):
                return
            length = None if path in GROUPS else number + 1
            self.put(space, state, path, ModelNode(length=length))
            return
        if node is None:
            return
        if action == "delete":
            space.delete(f"{path}/zarr.json")
            for each in [each for each in state if each == path or each.startswith(f"{path}/")]:
                del state[each]
        elif action == "attribute":
            attributes = {**node.attributes, "xy"[number % 2]: number}
            self.put(space, state, path, self.like(node, attributes=attributes))
        elif node.length is not None:
            self.edit_array(space, state, action, path, number)

    def edit_array(
        self, space: KeySpace, state: State, action: str, path: str, number: int
    ) -> None:
        node = state[path]
        assert node.length is not None
        if action == "anew":
            space.delete(f"{path}/zarr.json")
            self.put(space, state, path, ModelNode(length=number + 1, kind=node.kind))
        elif action == "resize":
            self.put(space, state, path, self.like(node, length=number + 1))
        elif action == "type":
            self.put(space, state, path, self.like(node, kind=("uint8", "int8")[number % 2]))
        elif number < node.length:
            chunks = dict(node.chunks)
            if action == "chunk":
                self.written += 1
                chunks[number] = b"value %d" % self.written
                space.set(f"{path}/c/{number}", chunks[number])
            else:
                chunks.pop(number, None)
                space.delete(f"{path}/c/{number}")
            state[path] = self.like(node, chunks=chunks)

    def like(self, node: ModelNode, **changes: Any) -> ModelNode:  # noqa: ANN401
        return ModelNode(**{**node.__dict__, **changes})

    def put(self, space: KeySpace, state: State, path: str, node: ModelNode) -> None:
        space.set(f"{path}/zarr.json", document(node))
        state[path] = node

    def landed(self, branch: str, new: str, state: State, *parents: str) -> None:
        self.history.add(new, state, *parents)
        self.tips[branch] = new
        self.log_tells_the_difference(parents[0], new)

    # --- merging ---

    @rule(pair=pairs, policy=policies, ff=st.booleans())
    def merge_branch(self, pair: tuple[str, str], policy: str, ff: bool) -> None:
        self.merge_version(self.tips[pair[0]], pair[1], policy, ff)

    @rule(pair=pairs, ours=policies, theirs=policies, wanted=edits, others=edits)
    def cross(
        self,
        pair: tuple[str, str],
        ours: str,
        theirs: str,
        wanted: list[tuple[str, str, int]],
        others: list[tuple[str, str, int]],
    ) -> None:
        """Merge two branches, as they are, into each other."""
        one, two = pair
        self.commit_on_two(pair, wanted, others)
        before = self.tips[one]
        self.merge_version(self.tips[two], one, ours, ff=False)
        self.merge_version(before, two, theirs, ff=False)

    @rule(data=st.data(), into=branch_names, policy=policies)
    def merge_old_version(self, data: st.DataObject, into: str, policy: str) -> None:
        self.merge_version(self.draw_commit(data), into, policy, ff=True)

    def draw_commit(self, data: st.DataObject) -> str:
        """A commit of some branch, as its history tells now."""
        branch = data.draw(st.sampled_from(sorted(self.tips)))
        known = [info.id for info in self.repository.ancestry(branch=branch)]
        return data.draw(st.sampled_from(known))

    def merge_version(self, source: str, into: str, policy: str, ff: bool) -> None:
        ours = self.tips[into]
        try:
            expected: State | None = self.history.merged(ours, source, policy)
        except Clash:
            expected = None
        is_known = source in self.history.commits[ours].contains
        report = self.tried(
            lambda: self.repository.versions.merge(source, into, policy=policy, ff=ff),
            into,
            None if is_known else expected,
            is_known,
        )
        if report is None:
            return
        if report.status == MergeStatus.FAST_FORWARD:
            assert ours in self.history.commits[source].contains
            self.tips[into] = source
        elif report.status == MergeStatus.COMMITTED:
            assert expected is not None
            assert report.snapshot_id is not None
            self.landed(into, report.snapshot_id, expected, ours, source)
        else:
            assert is_known

    def tried(
        self,
        work: Callable[[], MergeReport],
        branch: str,
        expected: State | None,
        is_known: bool = False,
    ) -> MergeReport | None:
        """Do something; None if it was rightly refused."""
        try:
            report = work()
        except MergeConflictError:
            # Where merged branches were collected an older base may do, with more conflicts.
            assert self.has_gaps or (expected is None and not is_known)
            return None
        except FrazilError as error:
            is_expected = error.kind == ErrorKind.MERGE_BASE_EXPIRED or isinstance(
                error, NotFoundError
            )
            if self.has_gaps and is_expected:
                return None
            raise
        assert isinstance(report, MergeReport)
        assert report.branch == branch
        assert is_known or expected is not None, "a clash was not noticed"
        return report

    # --- picking, reverting ---

    @rule(data=st.data(), onto=branch_names, policy=policies, back=st.booleans())
    def replay(self, data: st.DataObject, onto: str, policy: str, back: bool) -> None:
        wanted = self.draw_commit(data)
        commit = self.history.commits[wanted]
        if not commit.parents or commit.parents[0] == self.first:
            return  # the root group, which the model does not have, is made there
        before = self.history.commits[commit.parents[0]].state
        change = (commit.state, before) if back else (before, commit.state)
        try:
            expected: State | None = merge(change[0], self.state(onto), change[1], policy)
        except Clash:
            expected = None
        work = self.repository.versions.revert if back else self.repository.versions.cherry_pick
        report = self.tried(lambda: work(wanted, onto, policy=policy), onto, expected)
        if report is None:
            return
        assert expected is not None
        if report.status == MergeStatus.UP_TO_DATE:
            assert expected == self.state(onto)
            return
        assert report.snapshot_id is not None
        self.landed(onto, report.snapshot_id, expected, self.tips[onto])

    # --- squashing ---

    @rule(data=st.data(), branch=branch_names)
    def squash(self, data: st.DataObject, branch: str) -> None:
        lineage = [info.id for info in self.repository.ancestry(branch=branch)]
        first = data.draw(st.integers(0, len(lineage) - 1))
        last = data.draw(st.integers(0, first))
        after, to = lineage[first], lineage[last]
        report = self.repository.versions.squash(branch, after, to)
        if report.status == MergeStatus.UP_TO_DATE:
            assert first - last < 2
            return
        made = [info.id for info in self.repository.ancestry(branch=branch)]
        parent = after
        for number, new in enumerate(reversed(made[: last + 1])):
            old = lineage[last - number]
            self.history.add(new, self.history.commits[old].state, parent, old)
            self.log_tells_the_difference(parent, new)
            parent = new
        self.tips[branch] = parent

    # --- maintenance ---

    @rule(data=st.data(), branch=branch_names)
    def keep_up(self, data: st.DataObject, branch: str) -> None:
        """One of the rarer things: fewer histories are cut short than are merged."""
        work = data.draw(st.sampled_from(["expire", "collect", "reopen", "rewrite", "start"]))
        if work == "expire":
            self.expire(data)
        elif work == "collect":
            self.collect()
        elif work == "reopen":
            self.repository = Repository.open(self.storage)
        elif work == "rewrite":
            self.rewrite_manifests(branch)
        elif branch != "main":
            self.start_anew(branch, data.draw(branch_names))

    def expire(self, data: st.DataObject) -> None:
        branch = data.draw(st.sampled_from(sorted(self.tips)))
        times = [info.written_at for info in self.repository.ancestry(branch=branch)]
        when = data.draw(st.sampled_from(times))
        if self.repository.expire_snapshots(when):
            self.has_gaps = True

    def collect(self) -> None:
        done = self.repository.garbage_collect(
            datetime.now(UTC) + LATER, unsafe_minimum_age=AT_ONCE
        )
        self.has_gaps |= bool(done.snapshots_deleted)

    def rewrite_manifests(self, branch: str) -> None:
        state = self.state(branch)
        new = self.repository.rewrite_manifests("rewritten", branch=branch)
        self.landed(branch, new, state, self.tips[branch])

    def start_anew(self, branch: str, at: str) -> None:
        self.repository.delete_branch(branch)
        self.repository.create_branch(branch, self.tips[at])
        self.tips[branch] = self.tips[at]

    # --- what must always hold ---

    @invariant()
    def branches_hold_what_the_model_says(self) -> None:
        for branch, tip in getattr(self, "tips", {}).items():
            assert self.repository.lookup_branch(branch) == tip
            found = contents(self.repository.readonly_session(branch))
            assert as_state(found) == self.state(branch)

    def log_tells_the_difference(self, parent: str, new: str) -> None:
        """The transaction log of a commit names what changed, and no chunk that did not."""
        if self.has_gaps:
            return
        before, after = (self.history.commits[each].state for each in (parent, new))
        diff = self.repository.diff(from_snapshot_id=parent, to_snapshot_id=new)
        gone = {path.lstrip("/") for path in diff.deleted_groups | diff.deleted_arrays}
        made = {path.lstrip("/") for path in diff.new_groups | diff.new_arrays}
        assert gone >= before.keys() - after.keys()
        assert made >= after.keys() - before.keys()
        assert gone - made <= before.keys() - after.keys()
        for path, node in after.items():
            if node.length is None or path in made:
                continue
            old = before[path].chunks
            changed = {
                n
                for n in {*old, *node.chunks}
                if n < node.length and old.get(n) != node.chunks.get(n)
            }
            told = {n for (n,) in diff.updated_chunks.get(f"/{path}", []) if n < node.length}
            assert told >= changed
            updated = diff.updated_groups | diff.updated_arrays
            document_changed = self.like(before[path], chunks={}) != self.like(node, chunks={})
            assert not document_changed or f"/{path}" in updated

    def teardown(self) -> None:
        """Whatever was done, every rule of the format is kept."""
        if hasattr(self, "repository"):
            found = fsck(self.repository).findings
            bad = [str(each) for each in found if each.level != Level.NOTE]
            assert not bad, bad


class OldMergeMachine(MergeMachine):
    spec = 1


@pytest.mark.parametrize("machine", [MergeMachine, OldMergeMachine], ids=["v2", "v1"])
def test_branches_behave_like_dictionaries(machine: type[MergeMachine]) -> None:
    run_state_machine_as_test(
        machine,
        settings=settings(max_examples=10, stateful_step_count=20, deadline=None, derandomize=True),
    )


@pytest.mark.soak
@pytest.mark.timeout(0)
@pytest.mark.parametrize("machine", [MergeMachine, OldMergeMachine], ids=["v2", "v1"])
def test_and_do_so_as_long_as_there_is_time(machine: type[MergeMachine], soak: Soak) -> None:
    soak.run(soak.seeds(), lambda seed: run_seeded(machine, int(seed), steps=60))
