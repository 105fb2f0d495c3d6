"""The checker itself: it accepts what a repository may do, and sees each kind of loss."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from tests.histories.field import Content, Field
from tests.histories.model import check
from tests.histories.records import STEP, Operation, Outcome

ROOT = "root"
FIRST = "first"
EMPTY = Field({}, 2, 4).empty()


class Script:
    """A repository that one hand writes down, operation after operation."""

    def __init__(self) -> None:
        self.history: list[Operation] = []
        self.chain: dict[str, list[list[Any]]] = {
            FIRST: [[FIRST, ROOT, "#0 field", 0.0], [ROOT, None, "Repository initialized", -1.0]]
        }
        self.content: dict[str, Content] = {FIRST: dict(EMPTY)}
        self.tips = {"main": FIRST, "dev": FIRST}
        self.now = 1.0

    def add(
        self,
        kind: str,
        args: Mapping[str, Any],
        result: Mapping[str, Any] | None = None,
        notes: Mapping[str, Any] | None = None,
        outcome: Outcome = "ok",
    ) -> int:
        """One operation after all others; returns its place."""
        began, ended = self.now, self.now + 0.5
        self.now += 1.0
        token = STEP + len(self.history) + 1
        known = outcome != "unknown"
        self.history.append(
            Operation(
                token,
                kind,
                "test",
                began,
                dict(args),
                dict(notes or {}),
                outcome,
                ended if known else None,
                dict(result or {}),
            )
        )
        return len(self.history) - 1

    @property
    def token(self) -> int:
        """That of the next operation."""
        return STEP + len(self.history) + 1

    def made(self, id_: str, parent: str, content: Content, kind: str = "write") -> None:
        """A snapshot that the next operation makes."""
        text = f"#{self.token} {kind}"
        self.chain[id_] = [[id_, parent, text, self.now], *self.chain[parent]]
        self.content[id_] = content

    def write(
        self, id_: str, cells: list[str], branch: str = "main", outcome: Outcome = "ok"
    ) -> int:
        """A commit of some cells."""
        base = self.tips[branch]
        self.made(id_, base, self.content[base] | dict.fromkeys(cells, self.token))
        if outcome != "refused":
            self.tips[branch] = id_
        args = {"branch": branch, "cells": cells, "solver": None}
        result = {"id": id_} if outcome == "ok" else {}
        return self.add("write", args, result, {"base": base}, outcome)

    def look(self, branch: str = "main", at: str | None = None) -> int:
        """The history of a branch."""
        chain = self.chain[at or self.tips[branch]]
        return self.add("look", {"branch": branch}, {"entries": chain})

    def read(
        self, branch: str = "main", at: str | None = None, other: Content | None = None
    ) -> int:
        """The values of a branch."""
        id_ = at or self.tips[branch]
        content = self.content[id_] | (other or {})
        return self.add("read", {"branch": branch}, {"id": id_, "content": content})

    def problems(self) -> str:
        """What the checker says."""
        return "\n".join(check(sorted(self.history, key=lambda one: one.began), EMPTY).problems)


@pytest.fixture
def script() -> Script:
    """Two commits that were seen."""
    made = Script()
    made.look()
    made.write("one", ["shared/0"])
    made.read()
    made.write("two", ["shared/0", "own1/1"])
    made.look()
    return made


def test_what_happened_in_order_is_fine(script: Script) -> None:
    script.read()
    script.read(at="two")
    assert script.problems() == ""


def test_a_lost_commit_is_seen(script: Script) -> None:
    # Somebody else has committed upon `one` as well, and was told so.
    script.tips["main"] = "one"
    script.write("other", ["shared/1"])
    script.look()
    assert "branch main cannot have been" in script.problems()


def test_an_acknowledged_commit_that_never_shows_is_seen(script: Script) -> None:
    script.write("three", ["shared/2"])
    script.look(at="two")
    assert "branch main cannot have been" in script.problems()


def test_a_stale_read_is_seen(script: Script) -> None:
    script.read(at="one")
    assert "branch main cannot have been" in script.problems()


def test_a_read_during_the_commit_may_see_either(script: Script) -> None:
    number = script.write("three", ["shared/2"])
    slow = script.history[number]
    script.read(at="two")
    script.read(at="three")
    script.history[number] = replace(slow, ended=script.now)
    assert script.problems() == ""


def test_but_not_first_the_new_and_then_the_old(script: Script) -> None:
    number = script.write("three", ["shared/2"])
    slow = script.history[number]
    script.read(at="three")
    script.read(at="two")
    script.history[number] = replace(slow, ended=script.now)
    assert "branch main cannot have been" in script.problems()


def test_a_duplicate_commit_is_seen(script: Script) -> None:
    again = [["twice", "two", script.chain["two"][0][2], 9.0], *script.chain["two"]]
    script.chain["twice"] = again
    script.look(at="twice")
    assert "duplicate" in script.problems()


def test_a_phantom_is_seen(script: Script) -> None:
    script.write("three", ["shared/2"], outcome="refused")
    script.look(at="three")
    assert "phantom" in script.problems()


@pytest.mark.parametrize("happened", [True, False])
def test_an_unknown_commit_may_have_happened_or_not(script: Script, happened: bool) -> None:
    script.write("three", ["shared/2"], outcome="unknown")
    if not happened:
        script.tips["main"] = "two"
    script.look()
    script.write("four", ["shared/3"])
    script.look()
    script.read()
    assert script.problems() == ""


def test_an_unknown_commit_may_happen_late_but_not_twice(script: Script) -> None:
    script.write("three", ["shared/2"], outcome="unknown")
    script.read(at="two")
    script.look(at="three")
    assert script.problems() == ""
    script.read(at="two")
    assert "branch main cannot have been" in script.problems()


def test_an_unknown_commit_does_not_happen_after_its_last_moment(script: Script) -> None:
    number = script.write("three", ["shared/2"], outcome="unknown")
    script.history[number] = replace(script.history[number], latest=script.now)
    script.now += 1
    script.look()
    assert script.problems() == ""
    script.history[-1:] = []
    script.read(at="two")
    script.look()
    assert "branch main cannot have been" in script.problems()


def test_wrong_values_are_seen(script: Script) -> None:
    script.read(other={"own1/1": -1})
    assert "wanted and found differ in {'own1/1'" in script.problems()


def test_a_commit_that_undoes_its_parent_is_seen(script: Script) -> None:
    script.write("three", ["shared/2"])
    script.look()
    script.read(other={"shared/0": script.history[1].token})
    assert "wanted and found differ in {'shared/0'" in script.problems()


def test_what_is_unreadable_or_broken_is_told(script: Script) -> None:
    script.add("read", {"branch": "main"}, {"error": "gone"}, outcome="unreadable")
    script.add("write", {"branch": "main"}, {"error": "KeyError"}, outcome="broken")
    assert "unreadable: " in script.problems()
    assert "broken: " in script.problems()


def test_a_reset_explains_what_has_gone(script: Script) -> None:
    script.tips["main"] = "one"
    script.look()
    assert "branch main cannot have been" in script.problems()
    script.history.pop()
    script.add("reset", {"branch": "main", "target": "one", "from": "two"})
    script.look()
    script.write("three", ["shared/2"])
    script.look()
    script.read()
    assert script.problems() == ""


def test_history_may_leave_out_only_what_has_expired(script: Script) -> None:
    short = [["two", ROOT, *script.chain["two"][0][2:]], script.chain["two"][-1]]
    script.add("expire", {"cutoff": 1.5})
    script.add("look", {"branch": "main"}, {"entries": short})
    assert "the history of two has lost ['one']" in script.problems()
    script.history[-2] = replace(script.history[-2], args={"cutoff": 2.5})
    assert script.problems() == ""


def test_an_amendment_keeps_what_it_replaces(script: Script) -> None:
    content = script.content["two"] | {"shared/4": script.token}
    script.made("better", "one", content, "amend")
    args = {"branch": "main", "cells": ["shared/4"]}
    script.add("amend", args, {"id": "better"}, {"base": "two"})
    script.tips["main"] = "better"
    script.look()
    script.read()
    assert script.problems() == ""
    script.read(other={"own1/1": -1})
    assert "wanted and found differ in {'own1/1'" in script.problems()


@pytest.mark.parametrize("complete", [True, False])
def test_a_merge_has_what_both_sides_wrote(script: Script, complete: bool) -> None:
    script.write("side", ["shared/5"], branch="dev")
    script.look("dev")
    theirs = script.content["side"]["shared/5"]
    content = script.content["two"] | ({"shared/5": theirs} if complete else {})
    script.made("merged", "two", content, "merge")
    script.add(
        "merge",
        {"source": "side", "branch": "main", "ff": False},
        {"status": "committed", "previous": "two", "id": "merged", "bases": [FIRST]},
    )
    script.tips["main"] = "merged"
    script.look()
    script.read()
    found = script.problems()
    assert found == "" if complete else "wanted and found differ in {'shared/5'" in found


def test_two_appends_at_the_same_place_are_seen(script: Script) -> None:
    base = script.tips["main"]
    for id_ in ("p", "q"):
        content = script.content[base] | {"log": [script.token]}
        script.made(id_, script.tips["main"], content, "append")
        args = {"branch": "main", "solver": "detect"}
        script.add("append", args, {"id": id_}, {"base": base})
        script.tips["main"] = id_
    script.look()
    script.read()
    assert "wanted and found differ in {'log'" in script.problems()


def test_a_tag_stays_where_it_is(script: Script) -> None:
    script.add("tag", {"tag": "t", "target": "one"})
    script.add("read", {"tag": "t"}, {"id": "one", "content": script.content["one"]})
    script.add("refs", {}, {"branches": ["dev", "main"], "tags": ["t"]})
    assert script.problems() == ""
    script.add("tag", {"tag": "t", "target": "two"})
    assert "tag t cannot have been" in script.problems()


def test_a_tag_that_vanishes_is_seen(script: Script) -> None:
    script.add("tag", {"tag": "t", "target": "one"})
    script.add("refs", {}, {"branches": ["dev", "main"], "tags": []})
    assert "tag t cannot have been" in script.problems()


def test_a_deleted_branch_that_comes_back_is_seen(script: Script) -> None:
    script.add("branch", {"branch": "b", "target": "one"})
    script.add("drop", {"branch": "b"})
    script.add("refs", {}, {"branches": ["dev", "main"], "tags": []})
    assert script.problems() == ""
    script.add("refs", {}, {"branches": ["b", "dev", "main"], "tags": []})
    assert "branch b cannot have been" in script.problems()


def test_lost_metadata_of_the_repository_is_seen(script: Script) -> None:
    first = script.token
    script.add("label", {"name": "x"}, {"labels": {"x": first}})
    script.add("label", {"name": "y"}, {"labels": {"x": first, "y": first + 1}})
    script.add("labels", {}, {"labels": {"x": first, "y": first + 1}})
    assert script.problems() == ""
    script.add("labels", {}, {"labels": {"y": first + 1}})
    assert "label x was one of" in script.problems()


def test_a_lost_part_of_the_configuration_is_seen(script: Script) -> None:
    tokens = [script.token, script.token + 1]
    script.add("config", {})
    script.add("config", {})
    script.add("containers", {}, {"containers": tokens})
    assert script.problems() == ""
    script.add("containers", {}, {"containers": tokens[1:]})
    assert "the configuration lost" in script.problems()


def test_where_refs_are_files_one_may_be_seen_until_it_is_taken_back(script: Script) -> None:
    lost = {"error": "SnapshotNotFoundError"}
    number = script.add("tag", {"tag": "t", "target": "one"}, lost, outcome="refused")
    script.add("refs", {}, {"branches": ["dev", "main"], "tags": ["t"]})
    script.history[number] = replace(script.history[number], ended=script.now)
    script.now += 1
    script.add("refs", {}, {"branches": ["dev", "main"], "tags": []})
    assert "tag t cannot have been" in script.problems()
    assert check(script.history, EMPTY, takes_back=True).problems == ()
    script.add("refs", {}, {"branches": ["dev", "main"], "tags": ["t"]})
    assert check(script.history, EMPTY, takes_back=True).problems != ()
