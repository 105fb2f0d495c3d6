"""Run one function over many items, here or on a cluster, and commit what it stored.

A job plans, hands items to a `Runner`, and commits once. Work writes objects under fresh names and
returns where they are; nothing refers to them before the commit, so that a job that fails leaves
garbage and an untouched branch.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeVar

from frazil import config
from frazil.drawing.reports import ReportView
from frazil.formats.zarr_meta import ArrayMeta, parse_node
from frazil.ids import INITIAL_SNAPSHOT_ID, NodeId, parent_path
from frazil.model.nodes import ArrayNode
from frazil.model.values import ConflictDetector
from frazil.progress import Progress, Tell, silent
from frazil.session import Session
from frazil.transaction.changeset import ArrayData
from frazil.transaction.context import Context
from frazil.transaction.tree import array_node
from frazil.transaction.working import WorkingState

T = TypeVar("T")
R = TypeVar("R")

EMPTY_GROUP: Final = b'{"zarr_format":3,"node_type":"group","attributes":{}}'
AHEAD: Final = 2
"""Items for each thread that are begun before the first answer is taken."""


class Runner(Protocol):
    """Runs one picklable function over many items."""

    def run(
        self, work: Callable[[T], R], items: Sequence[T], *, size_bytes: int = 0
    ) -> Iterator[tuple[int, R]]:
        """Answers with the numbers of their items, in any order.

        The first error of an item ends the run: no further item is begun. `size_bytes` is about
        how many bytes the items read or write in all, where that is known.
        """

    def facts(self) -> dict[str, object]:
        """What the commit should tell of where the work was done."""


@dataclass(frozen=True, slots=True)
class LocalRunner:
    """Runs work in threads of this process, and gives answers in the order of the items."""

    threads: int = 0
    """0 for as many as the setting `threads` says; 1 for the thread of the caller"""

    def run(
        self, work: Callable[[T], R], items: Sequence[T], *, size_bytes: int = 0
    ) -> Iterator[tuple[int, R]]:
        """Answers in order, at most a few of them ahead of the caller."""
        threads = min(len(items), self.threads or config.current().workers)
        if threads <= 1:
            yield from ((number, work(item)) for number, item in enumerate(items))
            return
        begun: deque[Future[R]] = deque()
        with ThreadPoolExecutor(threads, thread_name_prefix="frazil-run") as pool:
            try:
                for number, item in enumerate(items):
                    begun.append(pool.submit(work, item))
                    if len(begun) >= AHEAD * threads:
                        yield number - len(begun) + 1, begun.popleft().result()
                while begun:
                    yield len(items) - len(begun), begun.popleft().result()
            finally:
                for future in begun:
                    future.cancel()

    def facts(self) -> dict[str, object]:
        """Nothing that a commit should tell."""
        return {}


@dataclass(frozen=True, slots=True, repr=False)
class JobReport(ReportView):
    """What a job did."""

    snapshot_id: str | None
    """the commit; None when there was nothing to commit"""
    arrays: tuple[str, ...]
    """paths of the arrays that it made or changed"""
    chunks: int = 0
    bytes: int = 0
    """as they are stored"""
    tasks: int = 0
    shuffled: tuple[str, ...] = ()
    """arrays whose cells went through Spark's shuffle"""


def run_with_progress(
    runner: Runner,
    work: Callable[[T], R],
    items: Sequence[T],
    progress: Tell | None,
    what: str,
    *,
    counts: Sequence[int] | None = None,
    size_bytes: int = 0,
) -> Iterator[tuple[int, R]]:
    """Run work and tell how far it is, after each item by its count (1 by default)."""
    tell = progress or silent
    now = Progress(what, 0, len(items) if counts is None else sum(counts))
    tell(now)
    for number, answer in runner.run(work, items, size_bytes=size_bytes):
        yield number, answer
        now = now.plus(1 if counts is None else counts[number])
        tell(now)


def in_order(answers: Iterable[tuple[int, R]]) -> Iterator[R]:
    """Answers in the order of their items, whatever order a runner gives them in."""
    early: dict[int, R] = {}
    due = 0
    for number, answer in answers:
        early[number] = answer
        while due in early:
            yield early.pop(due)
            due += 1


def by_size(sizes: Iterable[int], limit: int, most: int = 1 << 16) -> Iterator[range]:
    """Neighbouring items in groups of at most some bytes, and at most so many."""
    first = number = total = 0
    for number, size in enumerate(sizes, 1):
        if number - 1 > first and (total + size > limit or number - 1 - first >= most):
            yield range(first, number - 1)
            first, total = number - 1, 0
        total += size
    if number > first:
        yield range(first, number)


def commit_job(session: Session, job: str, message: str, facts: Mapping[str, Any]) -> str:
    """Commit the work of a job, with facts about it as metadata; rebase if others committed."""
    return session.commit(message, {"frazil.job": job, **facts}, rebase_with=ConflictDetector())


# --- nodes that jobs write ---


def path_of(group: str | None, name: str) -> str:
    """The path of an array of a group; names may be paths below it."""
    parts = [part for part in f"{group or ''}/{name}".split("/") if part]
    return "/" + "/".join(parts)


def copy_groups(source: WorkingState, target: WorkingState, path: str) -> None:
    """Make the group at a path, and those above it, as they are elsewhere."""
    above = [path]
    while above[-1] != "/":
        above.append(parent_path(above[-1]))
    for each in reversed(above):
        if target.tree.get(each) is None:
            found = source.tree.get(each)
            target.set_metadata(each, EMPTY_GROUP if found is None else found.user_data)


def rely_on_lengths(session: Session, group: str, dims: Iterable[str]) -> None:
    """Note, before arrays are added to a group, which dimensions they share with those there.

    It is then a conflict if another commit makes these longer or shorter before ours.
    """
    tree = session.state.tree
    nodes = [tree.get(path_of(group, name)) for name in tree.children(group)]
    arrays = [node for node in nodes if isinstance(node, ArrayNode)]
    known = {dim for node in arrays for dim in node.dimension_names or ()}
    session.rely_on_dimensions(group, *(dim for dim in {*dims} if dim in known))


def scratch_array(context: Context, path: str, document: bytes) -> tuple[WorkingState, ArrayNode]:
    """A state and an array to store chunks with; the hierarchy is never looked at."""
    state = WorkingState(context, INITIAL_SNAPSHOT_ID)
    state.editable = True
    meta = parse_node(document, spec=context.generation.spec)
    assert isinstance(meta, ArrayMeta)
    data = ArrayData(NodeId.random(), document, meta.shape, meta.dimension_names)
    return state, array_node(path, data)
