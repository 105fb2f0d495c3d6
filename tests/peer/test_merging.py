"""After each kind of merge the official package reads every branch, and goes on from there."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from frazil.repository import Repository
from tests.peer.conftest import Case, PartyOf, meet
from tests.support.peer import assert_same

pytestmark = pytest.mark.peer

Values = dict[str, list[int]]
LENGTH = 6


@pytest.fixture
def shared(peer: tuple[int, int], party_of: PartyOf, tmp_path: Path) -> Case:
    """We act first, each peer and spec second."""
    number, spec = peer
    return Case(*meet(party_of, "to_peer", number), spec, tmp_path)


@dataclass
class Model:
    """What each branch should hold: arrays by branch, and the repository to change."""

    case: Case
    branches: dict[str, Values]

    @property
    def repository(self) -> Repository:
        """The repository as it is now."""
        return Repository.open(self.case.repo)

    def put(
        self, branch: str, index: int, value: int, array: str = "line", *, by_peer: bool
    ) -> str:
        """Set one element, here or by the peer, and commit."""
        party = self.case.reader if by_peer else self.case.writer
        made = party.call(
            "put",
            self.case.repo,
            array=array,
            index=index,
            value=value,
            message=f"{array}[{index}] = {value}",
            branch=branch,
        )
        self.branches[branch][array][index] = value
        return str(made)

    def check(self) -> None:
        """Both see the same; the peer reads the values, commits on every branch and reads those."""
        assert_same(*self.described())
        self.compare()
        for number, branch in enumerate(sorted(self.branches)):
            self.put(branch, LENGTH - 1, 90 + number, by_peer=True)
        self.compare()
        assert_same(*self.described())

    def described(self) -> tuple[Any, Any]:
        """What both parties say of the repository."""
        first, second = (
            party.call("describe", self.case.repo, self.case.data)
            for party in (self.case.writer, self.case.reader)
        )
        return first, second

    def compare(self) -> None:
        """The peer reads what the model has."""
        for branch, arrays in self.branches.items():
            for array, values in arrays.items():
                found = self.case.reader.call("values", self.case.repo, array=array, branch=branch)
                assert found == values, (branch, array)


@pytest.fixture
def model(shared: Case) -> Model:
    """A line that the peer made, with `dev` and `main` both gone on by both parties."""
    shared.create()
    start = shared.reader.call("new_array", shared.repo, array="line", length=LENGTH)
    shared.writer.call("branch", shared.repo, name="dev", snapshot=start)
    made = Model(shared, {name: {"line": [0] * LENGTH} for name in ("main", "dev")})
    made.put("main", 0, 10, by_peer=True)
    made.put("dev", 1, 21, by_peer=True)
    made.put("dev", 2, 22, by_peer=False)
    return made


def test_merge_commit(model: Model) -> None:
    model.repository.versions.merge("dev", "main")
    model.branches["main"] = {"line": [10, 21, 22, 0, 0, 0]}
    model.check()
    model.repository.versions.merge("main", "dev", policy={"/line": "theirs"})
    model.branches["dev"] = {"line": list(model.branches["main"]["line"])}
    model.check()


def test_merge_with_new_and_deleted_arrays(model: Model) -> None:
    case = model.case
    case.reader.call("new_array", case.repo, array="more", length=LENGTH, branch="dev")
    model.branches["dev"]["more"] = [0] * LENGTH
    model.put("dev", 3, 33, "more", by_peer=True)
    model.repository.versions.merge("dev", "main")
    model.branches["main"] = {"line": [10, 21, 22, 0, 0, 0], "more": [0, 0, 0, 33, 0, 0]}
    model.check()
    model.put("main", 1, 1, "more", by_peer=True)
    case.reader.call("delete_node", case.repo, node="line")
    del model.branches["main"]["line"]
    model.repository.versions.merge("main", "dev", policy="theirs")
    model.branches["dev"] = {"more": [0, 1, 0, 33, 0, 0]}
    assert_same(*model.described())
    model.compare()
    model.put("dev", 0, 7, "more", by_peer=True)
    model.compare()


def test_merge_of_shapes(model: Model) -> None:
    case = model.case
    case.reader.call("resize", case.repo, array="line", length=LENGTH + 2)
    model.branches["main"]["line"] += [0, 0]
    model.put("main", LENGTH + 1, 17, by_peer=True)
    model.repository.versions.merge("dev", "main")
    model.branches["main"] = {"line": [10, 21, 22, 0, 0, 0, 0, 17]}
    model.check()


def test_fast_forward(model: Model) -> None:
    model.repository.create_branch("behind", list(model.repository.ancestry(branch="dev"))[1].id)
    model.repository.versions.fast_forward("behind", "dev")
    model.branches["behind"] = {"line": list(model.branches["dev"]["line"])}
    model.check()


def test_cherry_pick(model: Model) -> None:
    model.repository.versions.cherry_pick("dev", "main")
    model.branches["main"]["line"][2] = 22
    model.check()


def test_revert(model: Model) -> None:
    wrong = list(model.repository.ancestry(branch="dev"))[1].id
    model.repository.versions.revert(wrong, "dev")
    model.branches["dev"]["line"][1] = 0
    model.check()


@pytest.mark.parametrize("later", [0, 1])
def test_squash(model: Model, later: int) -> None:
    model.put("dev", 3, 23, by_peer=True)
    history = list(model.repository.ancestry(branch="dev"))
    model.repository.versions.squash("dev", history[3].id, history[later].id)
    model.check()
    assert len(list(model.repository.ancestry(branch="dev"))) == len(history) - 2 + later + 1


def test_peer_diffs_and_rebases_over_a_merge(model: Model) -> None:
    """The log of a merge commit is what a session that began before it is compared with."""
    case = model.case
    before = model.repository.lookup_branch("main")
    case.reader.call("begin", case.repo, number=1)
    case.reader.call("change", number=1, array="line", index=4, value=44)
    made = model.repository.versions.merge("dev", "main").snapshot_id
    diff = case.reader.call("diff", case.repo, start=before, end=made)
    assert diff == case.writer.call("diff", case.repo, start=before, end=made)
    case.reader.call("finish", number=1, message="rebased", solver="detect")
    model.branches["main"] = {"line": [10, 21, 22, 0, 44, 0]}
    model.compare()


def test_peer_expires_and_collects_after_merges(model: Model) -> None:
    model.repository.versions.merge("dev", "main")
    model.branches["main"] = {"line": [10, 21, 22, 0, 0, 0]}
    later = "2999-01-01T00:00:00+00:00"
    model.case.reader.call("expire", model.case.repo, older_than=later)
    model.case.reader.call("collect", model.case.repo, older_than=later)
    model.check()


def test_moves_are_merged(party_of: PartyOf, tmp_path: Path) -> None:
    case = Case(*meet(party_of, "to_peer", 2), 2, tmp_path)
    case.create()
    start = case.reader.call("new_array", case.repo, array="line", length=LENGTH)
    case.writer.call("branch", case.repo, name="dev", snapshot=start)
    model = Model(case, {name: {"line": [0] * LENGTH} for name in ("main", "dev")})
    model.put("dev", 1, 21, by_peer=True)
    case.reader.call("move", case.repo, moves=[["/line", "/moved"]], message="move")
    model.repository.versions.merge("dev", "main")
    model.branches = {"main": {"moved": [0, 21, 0, 0, 0, 0]}, "dev": model.branches["dev"]}
    assert_same(*model.described())
    model.compare()
    model.put("main", 0, 5, "moved", by_peer=True)
    model.compare()
