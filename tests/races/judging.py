"""Whether what several actors did together can be explained by some order of their steps.

The order is not known, only which steps were acknowledged. So the same steps are done one after
the other upon another copy of the world, in each order that keeps every actor's own; what all
can see in the end must be the same as after one of these. Steps that were refused are left out.

Where the judge is lenient, it is for what no user was told:

- an operation of several visible changes that was refused may have made some of them (`orders`),
  among them the deletion of refs one by one (`explains`), or their moving (`is_explained`)
- an upgrade of spec 1 and a change by somebody else are two requests, as are one of G3 and a
  change of settings (`orders`)
- of two who do the same that can be done once, both are told that it is done (`orders`)
- which old commits an expiry leaves depends on what was a tip just then; those that are left must
  be as they were (`seen_by_all`, `explains`)
- a compaction makes no commit where nothing is to be done; if it makes one, values stay the same
  (`seen_by_all`)
- a repair that was refused is done once more, and must be of use then (`judge`)
- a snapshot without a ref may be gone; it may not be damaged (`_promised`)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from typing import Final, TypeAlias

from frazil import FormatError, FrazilError, InternalError, Repository, SnapshotNotFoundError
from frazil.errors import ErrorKind
from tests.races.actors import OPERATIONS, Actor, damage
from tests.races.files import folder
from tests.races.telling import told_wrongly
from tests.races.worlds import Commit, Place, State, known_ids, state_of, unsound, world
from tests.support.nodes import contents

INITIAL: Final = "Repository initialized"
OLD: Final = "old history"
Order: TypeAlias = tuple[int, ...]
"""Whose step comes next: positions of actors."""


@dataclass(frozen=True, slots=True)
class Scene:
    """Who meets where."""

    kind: str
    operations: tuple[str, ...]

    def __str__(self) -> str:
        return "/".join((self.kind, *self.operations))

    def begin(self) -> tuple[Place, list[Actor]]:
        """A new copy of the world with actors that have made their preparations."""
        place = world(self.kind).copy()
        actors = [
            Actor(number, OPERATIONS[name], place) for number, name in enumerate(self.operations, 1)
        ]
        # Others cannot prepare anything in a repository that is damaged already.
        for actor in sorted(actors, key=lambda one: one.operation.mends):
            actor.operation.before(actor)
        place.settle()  # what was prepared long before is old, too
        return place, actors


@lru_cache(maxsize=20_000)
def in_order(scene: Scene, order: Order) -> State | None:
    """What all see after steps done one after the other; None if one of them is refused."""
    with known_ids(f"{scene} {order}"):
        place, actors = scene.begin()
        for position in order:
            if not actors[position].perform_one():
                return None
    try:
        return seen_by_all(place, actors)
    except FrazilError as error:
        return {"one after the other": repr(error)}


def judge(scene: Scene, place: Place, actors: Sequence[Actor], noted: Order) -> list[str]:
    """What is wrong after actors have done what they could; `noted` is in which order."""
    bad = [
        f"{actor.name}: {type(actor.refusal).__name__}: {actor.refusal}"
        for actor in actors
        if actor.refusal is not None and not is_clear(actor.refusal)
    ]
    for actor in actors:
        actor.mend_again()
    try:
        seen = seen_by_all(place, actors)
    except Exception as error:
        bad.append(f"unreadable: {type(error).__name__}: {error}")
    else:
        if not is_explained(scene, actors, noted, seen):
            bad.append(f"not explained: {difference(in_order(scene, noted), seen)}")
    try:
        bad += [one for one in unsound(place) if not is_damage(one, actors)]
        bad += told_wrongly(place, actors)
    except Exception as error:
        bad.append(f"cannot be checked: {type(error).__name__}: {error}")
    return bad


def is_damage(finding: str, actors: Sequence[Actor]) -> bool:
    """Whether a log was missing before, and whoever was to write it may have come too late.

    Who cuts or rewrites history takes a missing log over as it is.
    """
    return "log-" in finding and any(one.operation.before is damage for one in actors)


def is_explained(scene: Scene, actors: Sequence[Actor], noted: Order, seen: State) -> bool:
    """Whether some order of the steps that may have happened leads to what is seen."""
    refused = [one.operation for one in actors if one.refusal is not None]
    loose = {ref for operation in refused for ref in operation.drops}
    moves = any(operation.moves_refs for operation in refused)
    allowed = {folder().as_uri() + "/"} if any(one.allows for one in refused) else set()
    found = (in_order(scene, order) for order in orders(actors, noted))
    states: list[State] = []
    for wanted in found:
        if wanted is None or OLD not in wanted:
            continue  # a step is refused, or it cannot be read one after the other either
        states.append(wanted)
        spare = allowed - {*wanted["containers"]}
        left = [url for url in seen["containers"] if url not in spare]
        if (
            explains(wanted, {**seen, "containers": left}, loose)
            and _is_old_known(scene, wanted, seen)
            and _are_loose_known(scene, wanted, seen, loose)
        ):
            return True
    return moves and any(
        explains(_with_refs_of(wanted, states, seen), seen, loose)
        and _is_old_known(scene, wanted, seen)
        for wanted in states
    )


def explains(wanted: State, seen: State, loose: set[str]) -> bool:
    """Whether this is what was wanted, but for old history.

    Args:
        wanted: what there is after some order of steps.
        seen: what there is.
        loose: refs that somebody was deleting who was refused; each is there as wanted, or gone.
    """
    return _but(wanted, seen, loose) == _but(seen, wanted, loose)


def _is_old_known(scene: Scene, wanted: State, seen: State) -> bool:
    """Whether what is left of old history is as it was, or as it was to become."""
    strange = [commit for commit in seen[OLD] if commit not in wanted[OLD]]
    before = in_order(scene, ()) if strange else None
    return before is None or all(commit in before.get(OLD, ()) for commit in strange)


def _are_loose_known(scene: Scene, wanted: State, seen: State, loose: set[str]) -> bool:
    """Whether refs of somebody who was refused lead to what somebody else was told of."""
    left = [
        seen[kind][ref][0]
        for kind in ("branches", "tags")
        for ref in loose & {*seen[kind]} - {*wanted[kind]}
    ]
    known = [wanted, in_order(scene, ()) or {}] if left else []
    logs = [log for one in known for kind in ("branches", "tags") for log in one[kind].values()]
    return all(any(tip in log for log in logs) for tip in left)


def _with_refs_of(wanted: State, states: Sequence[State], seen: State) -> State:
    """A state with those refs as they are seen that are so in another one."""
    kept = {
        kind: {
            ref: seen[kind][ref]
            if ref in seen[kind] and any(one[kind].get(ref) == seen[kind][ref] for one in states)
            else at
            for ref, at in wanted[kind].items()
        }
        for kind in ("branches", "tags")
    }
    return {**wanted, **kept}


def _but(state: State, other: State, loose: set[str]) -> State:
    """A state without old history, and without those loose refs that another has not."""
    kept = {
        kind: {ref: at for ref, at in state[kind].items() if ref not in loose - {*other[kind]}}
        for kind in ("branches", "tags")
    }
    return {**state, **kept, OLD: ()}


def is_clear(refusal: Exception) -> bool:
    """Whether an error tells a user what happened, rather than that something broke."""
    return isinstance(refusal, FrazilError) and not isinstance(refusal, InternalError)


def seen_by_all(place: Place, actors: Sequence[Actor]) -> State:
    """All that users can see, also in snapshots without a ref that actors were told of."""
    seen = state_of(place)
    # Whether a commit was old history or a tip when somebody cut history is up to chance.
    is_cut = any(actor.operation.forgets for actor in actors)
    old = {*place.facts.ids, INITIAL} if is_cut else set()
    needless = {actor.name for actor in actors if actor.operation.optional}
    left: list[Commit] = []

    def shortened(log: list[Commit]) -> list[Commit]:
        log = [
            commit
            for commit, parent in zip(log, [*log[1:], None], strict=True)
            if commit[0] not in needless or parent is None or commit[1] != parent[1]
        ]
        left.extend(commit for commit in log if commit[0] in old and commit not in left)
        return log[:1] + [commit for commit in log[1:] if commit[0] not in old]

    for kind in ("branches", "tags"):
        seen[kind] = {ref: shortened(log) for ref, log in seen[kind].items()}
    return {**seen, OLD: left, "promised": {one.name: _promised(place, one) for one in actors}}


def _promised(place: Place, actor: Actor) -> list[bytes | None]:
    found: list[bytes | None] = []
    if not actor.promised:
        return found
    repo = Repository.open(place.memory)
    for snapshot_id, key in actor.promised:
        try:
            found.append(contents(repo.readonly_session(snapshot_id=snapshot_id)).get(key))
        except SnapshotNotFoundError:
            found.append(None)  # as after an upgrade or a purge, which keep what refs need
        except FormatError as error:
            if error.kind != ErrorKind.UNSUPPORTED_SPEC_VERSION:
                raise
            found.append(None)  # as after an upgrade, which leaves the files of before
    return found


def orders(actors: Sequence[Actor], noted: Order) -> Iterator[Order]:
    """All orders of the steps that may have happened, the likeliest first."""
    yield noted
    # In spec 1 a change and the look whether somebody has upgraded are two requests: who is told
    # of the upgrade may have been in time. So are they for the configuration of G3, and for its
    # tombstones of tags.
    is_upgraded = any(actor.operation.name.startswith("upgrade") for actor in actors)

    def may_be_in_time(actor: Actor) -> bool:
        is_apart = actor.place.kind == "v1" or actor.operation.name in ("save-config", "delete-tag")
        return is_upgraded and is_apart

    def counts_of(actor: Actor) -> Iterator[int]:
        yield actor.done
        if actor.refusal is not None and (actor.operation.partly or may_be_in_time(actor)):
            yield actor.done + 1
        others = [one.operation.name.split("+") for one in actors if one is not actor]
        what = actor.operation.name.split("+")[0]
        if actor.operation.repeatable and any(what in other for other in others):
            yield from range(actor.done)

    may_have = [[*counts_of(actor)] for actor in actors]
    for counts in product(*may_have):
        yield from _mixed(counts)


def _mixed(counts: tuple[int, ...]) -> Iterator[Order]:
    if not any(counts):
        yield ()
        return
    for position, count in enumerate(counts):
        if count:
            rest = (*counts[:position], count - 1, *counts[position + 1 :])
            for order in _mixed(rest):
                yield (*order, position)


def difference(wanted: State | None, seen: State) -> str:
    """Where two states differ, in a line."""
    if wanted is None:
        return f"and in the noted order a step is refused; seen {told(seen)}"
    if wanted.keys() != seen.keys():
        return f"{wanted} became {told(seen)}"
    return "; ".join(
        f"{kind} {told(before)} became {told(after)}"
        for kind in wanted
        for before, after in [_differing(wanted[kind], seen[kind])]
        if before != after
    )


def _differing(wanted: object, seen: object) -> tuple[object, object]:
    """The parts of two states that differ, where they have parts."""
    if not (isinstance(wanted, dict) and isinstance(seen, dict)):
        return wanted, seen
    names = [name for name in {**wanted, **seen} if wanted.get(name) != seen.get(name)]
    return tuple({name: one.get(name) for name in names} for one in (wanted, seen))  # type: ignore[return-value]


def told(value: object) -> str:
    """A state in few words: contents of the tip, and messages."""
    if isinstance(value, dict) and "branches" in value:
        return "; ".join(f"{name} {told(each)}" for name, each in value.items())
    if isinstance(value, dict):
        return ", ".join(f"{name}: {told(each)}" for name, each in value.items())
    if isinstance(value, list) and value and isinstance(value[0], tuple):
        messages = " < ".join(str(message) for message, _ in value)
        return f"[{messages}] {_chunks(value[0][1])}"
    return repr(value)


def _chunks(keys: object) -> str:
    assert isinstance(keys, dict)
    return " ".join(
        f"{key}={value[0] if value else '-'}"
        for key, value in sorted(keys.items())
        if not key.endswith("zarr.json")
    )
