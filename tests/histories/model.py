"""Checks a recorded history against what a repository promises.

- Refs behave as if operations happened one after the other (`registers`).
- Each acknowledged commit is in the history once, and nothing else is (`graph`).
- Each read gives what the commits of its history wrote (`contents`).
- Nothing that a ref points to is unreadable.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from tests.histories.contents import Contents
from tests.histories.field import Content
from tests.histories.graph import Graph
from tests.histories.records import THE_END, Operation
from tests.histories.registers import (
    ABSENT,
    GONE,
    PRESENT,
    State,
    Step,
    first_unexplained,
    is_at,
    is_there,
)


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a check has found, and how much it has looked at."""

    problems: tuple[str, ...]
    operations: Counter[str]
    """by kind and outcome"""
    snapshots: int
    compared: int
    """reads whose every value was known beforehand"""


def check(history: Sequence[Operation], empty: Content, *, takes_back: bool = False) -> Verdict:
    """Check everything that processes have recorded; `empty` is what there was at first.

    Where every ref is a file, a ref may be made, found to need what was collected meanwhile, and
    taken back with an error (`takes_back`): others may see it for that moment.
    """
    if takes_back:
        history = [_perhaps_for_a_moment(one) for one in history]
    graph = Graph(history)
    contents = Contents(graph, empty)
    problems = [*graph.problems, *_failures(history), *_ref_problems(history, graph)]
    compared, wrong = _compare_reads(history, contents)
    problems += [*_label_problems(history), *_config_problems(history), *wrong, *contents.problems]
    counts = Counter(f"{one.kind} {one.outcome}" for one in history)
    return Verdict(tuple(problems), counts, len(graph.snapshots), compared)


def _perhaps_for_a_moment(one: Operation) -> Operation:
    if one.outcome != "refused" or one.result.get("error") != "SnapshotNotFoundError":
        return one
    return replace(
        one, outcome="unknown", ended=None, latest=one.ended, notes={**one.notes, BACK: 1}
    )


def _failures(history: Iterable[Operation]) -> Iterator[str]:
    for one in history:
        if one.outcome in ("broken", "unreadable"):
            yield f"{one.outcome}: {one}"
        elif one.party == THE_END and not one.is_done:
            yield f"unreadable when all was over: {one}"


def _compare_reads(history: Iterable[Operation], contents: Contents) -> tuple[int, list[str]]:
    compared, wrong = 0, []
    for one in history:
        if one.kind != "read" or not one.is_done:
            continue
        snapshot, found = one.result["id"], one.result["content"]
        wanted = contents.of(snapshot)
        if wanted is None:
            contents.adopt(snapshot, found)
            continue
        compared += 1
        differing = {
            key: (wanted.get(key), found.get(key))
            for key in sorted(wanted.keys() | found.keys())
            if wanted.get(key) != found.get(key)
        }
        if differing:
            wrong.append(f"read: wanted and found differ in {differing}: {one}")
    return compared, wrong


# --- refs ---


def _ref_problems(history: Sequence[Operation], graph: Graph) -> Iterator[str]:
    steps: dict[tuple[str, str], list[Step]] = defaultdict(list)
    names = {("branch", one.args["branch"]) for one in history if "branch" in one.args}
    names |= {("tag", one.args["tag"]) for one in history if "tag" in one.args}
    start, stop = _upgrading(history)
    for one in history:
        for kind, name, step in [*_steps(one, graph), *_listed(one, names)]:
            if step.after is not None or one.began > stop or (one.ended or 0.0) < start:
                steps[kind, name].append(step)
    for (kind, name), found in sorted(steps.items()):
        initial = _first_of(graph) if (kind, name) in FIRST else ABSENT
        if problem := first_unexplained(found, initial):
            known = [
                graph.snapshots[each].token for each in problem.states if each in graph.snapshots
            ]
            yield (
                f"{kind} {name} cannot have been where this needs it; it was at one of "
                f"{problem.states} (made by {known}): {problem.step.operation}"
            )


def _upgrading(history: Sequence[Operation]) -> tuple[float, float]:
    """From when to when an upgrade was under way; reads may be a little behind meanwhile.

    The new object is there, to be read, before the old refs are taken over one by one.
    """
    tried = [
        one for one in history if one.kind == "upgrade" and one.result.get("done") is not False
    ]
    if not tried:
        return float("inf"), float("-inf")
    ends = [one.ended for one in tried if one.is_done and one.ended is not None]
    return min(one.began for one in tried), min(ends, default=float("inf"))


BACK = "taken back"
FIRST = frozenset({("branch", "main"), ("branch", "dev")})


def _first_of(graph: Graph) -> State:
    """Where all branches begin."""
    return next((id_ for id_, seen in graph.snapshots.items() if seen.token == 0), "unknown")


def _steps(one: Operation, graph: Graph) -> Iterator[tuple[str, str, Step]]:
    """What an operation asks of the one ref that it names."""
    for kind in ("branch", "tag"):
        name = one.args.get(kind)
        if name is None:
            continue
        step = _refused(one) if one.outcome == "refused" else _step(one, graph)
        if step is not None:
            yield kind, name, step
            if BACK in one.notes and step.after is not None:
                before = one.args.get("from") or graph.parent(step.after)
                is_new = one.kind in ("tag", "branch")
                back = ABSENT if is_new or before is None else before
                yield kind, name, Step(one, is_at(step.after), back)


def _refused(one: Operation) -> Step | None:
    """Some refusals say where a ref was."""
    if one.result.get("error") == "RefNotFoundError":
        return Step(one, is_at(ABSENT, GONE))
    if one.kind == "branch" and one.result.get("error") == "AlreadyExistsError":
        return Step(one, is_there)
    return None


def _step(one: Operation, graph: Graph) -> Step | None:
    match one.kind:
        case "look" if one.is_done:
            return Step(one, is_at(one.result["entries"][0][0]))
        case "read" if one.is_done:
            return Step(one, is_at(one.result["id"]))
        case "tag":
            return Step(one, is_at(ABSENT), one.args["target"])
        case "untag":
            return Step(one, is_there, GONE)
        case "branch":
            return Step(one, is_at(ABSENT), one.args["target"])
        case "drop":
            return Step(one, is_there, ABSENT)
        case "reset":
            return Step(one, is_at(one.args["from"]), one.args["target"])
        case _ if one.may_be_done:
            return _commit_step(one, graph)
    return None


def _commit_step(one: Operation, graph: Graph) -> Step | None:
    """A commit moves a branch from its parent, and from nowhere else."""
    status = one.result.get("status")
    if status in ("up-to-date", "conflicts"):
        return None
    if one.kind == "merge" and one.args["ff"] and status != "committed":
        made = graph.id_of(one)
        if one.is_done or made is None:
            allowed = frozenset(graph.ancestors(one.args["source"]))
            before = one.result.get("previous")
            fits = is_at(before) if before else allowed.__contains__
            return Step(one, fits, one.args["source"])
    made = graph.id_of(one)
    if made is None:
        return None  # nobody has ever seen it
    if one.kind == "amend":
        return Step(one, is_at(one.notes["base"]), made)
    before = one.result.get("previous") or (None if one.kind == "squash" else graph.parent(made))
    return Step(one, is_there if before is None else is_at(before), made)


def _listed(one: Operation, names: Iterable[tuple[str, str]]) -> Iterator[tuple[str, str, Step]]:
    """A list of names says of each ref whether it was there."""
    if one.kind != "refs" or not one.is_done:
        return
    for kind, name in names:
        listed = one.result["branches" if kind == "branch" else "tags"]
        yield kind, name, Step(one, is_there if name in listed else is_at(ABSENT, GONE))


# --- metadata of the repository ---


def _label_problems(history: Sequence[Operation]) -> Iterator[str]:
    names = {one.args["name"] for one in history if one.kind == "label"}
    read = {str(value) for one in history for value in one.result.get("labels", {}).values()}
    for name in sorted(names):
        steps = []
        for one in history:
            if one.kind == "label" and one.args["name"] == name and one.may_be_done:
                # What nobody has read need not have happened, if it was not acknowledged.
                if one.is_done or str(one.token) in read:
                    steps.append(Step(one, lambda _: True, str(one.token)))
            elif one.is_done and "labels" in one.result:
                steps.append(Step(one, is_at(str(one.result["labels"].get(name)))))
        if problem := first_unexplained(steps, str(None)):
            yield f"label {name} was one of {problem.states}: {problem.step.operation}"


# --- the stored configuration ---


def _config_problems(history: Sequence[Operation]) -> Iterator[str]:
    """What somebody has added stays, whoever adds something else."""
    reads = [one for one in history if one.kind == "containers" and one.is_done]
    added = {one.token: one for one in history if one.kind == "config"}
    for token in sorted({token for one in reads for token in one.result["containers"]}):
        if token not in added or not added[token].may_be_done:
            yield f"phantom in the configuration: {added.get(token, token)}"
    for one in added.values():
        if not one.may_be_done:
            continue
        steps = [Step(one, is_at(ABSENT), PRESENT)]
        steps += [
            Step(read, is_at(PRESENT if one.token in read.result["containers"] else ABSENT))
            for read in reads
        ]
        if problem := first_unexplained(steps, ABSENT):
            yield f"the configuration lost or doubled {one}: {problem.step.operation}"
