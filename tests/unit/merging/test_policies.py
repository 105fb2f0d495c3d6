"""Who decides conflicts: a side, rules by path, or a function."""

from __future__ import annotations

import pytest

from frazil.errors import MergeConflictError
from frazil.merging.records import MergeConflict
from tests.support.branches import Branches, Edits
from tests.unit.merging.test_three_way import merged


class TestPolicies:
    OURS: Edits = {"a/c/0": b"x", "g/b/c/0/0": b"ours"}  # noqa: RUF012
    THEIRS: Edits = {"a/c/0": b"y", "g/b/c/0/0": b"theirs", "a/c/2": b"2"}  # noqa: RUF012

    def values(self, repo: Branches) -> tuple[bytes, bytes]:
        return repo.chunks("main", "a")["0"], repo.chunks("main", "g/b")["0/0"]

    def test_ours(self, repo: Branches) -> None:
        report = merged(repo, self.OURS, self.THEIRS, policy="ours")
        assert self.values(repo) == (b"x", b"ours")
        assert [each.resolution for each in report.conflicts] == ["ours", "ours"]
        assert repo.chunks("main", "a")["2"] == b"2"

    def test_theirs(self, repo: Branches) -> None:
        merged(repo, self.OURS, self.THEIRS, policy="theirs")
        assert self.values(repo) == (b"y", b"theirs")

    def test_rules_by_path(self, repo: Branches) -> None:
        merged(repo, self.OURS, self.THEIRS, policy={"/g": "theirs", "/*": "ours"})
        assert self.values(repo) == (b"x", b"theirs")

    def test_rules_that_do_not_fit_leave_conflicts(self, repo: Branches) -> None:
        with pytest.raises(MergeConflictError) as caught:
            merged(repo, self.OURS, self.THEIRS, policy={"/a": "ours"})
        assert [each.path for each in caught.value.report.unresolved] == ["/g/b"]

    def test_a_function_is_asked(self, repo: Branches) -> None:
        asked: list[str] = []

        def choose(found: MergeConflict) -> str:
            asked.append(found.path)
            return "ours" if found.path == "/a" else "theirs"

        merged(repo, self.OURS, self.THEIRS, policy=choose)
        assert self.values(repo) == (b"x", b"theirs")
        assert sorted(asked) == ["/a", "/g/b"]

    def test_nonsense_is_refused(self, repo: Branches) -> None:
        for wrong in ("mine", {"/a": "mine"}, 7, lambda _: "mine"):
            with pytest.raises(ValueError, match="no merge policy"):
                merged(repo, {"a/c/0": b"x"}, {"a/c/0": b"y"}, policy=wrong)
