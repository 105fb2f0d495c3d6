"""Repository URLs: what is location, what is version, and which snapshot that is."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from frazil.errors import (
    ErrorKind,
    InvalidInputError,
    RefNotFoundError,
    SnapshotNotFoundError,
)
from frazil.model.values import SnapshotInfo
from frazil.urls import AsOf, NamedVersion, RepoUrl, is_marked, parse_url, resolve_version

MAY = datetime(2024, 5, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "url", "ref"),
    [
        ("s3://bucket/prefix", "s3://bucket/prefix", None),
        ("s3://bucket/prefix@main", "s3://bucket/prefix", NamedVersion("main")),
        ("s3://bucket/a/b@v1.0", "s3://bucket/a/b", NamedVersion("v1.0")),
        ("s3://bucket/@main", "s3://bucket/", NamedVersion("main")),
        ("gs://bucket@main", "gs://bucket", NamedVersion("main")),
        ("memory://weather", "memory://weather", None),
        ("memory://weather@dev", "memory://weather", NamedVersion("dev")),
        ("file:///data/repo@X7QK", "file:///data/repo", NamedVersion("X7QK")),
        ("/data/repo@dev", "/data/repo", NamedVersion("dev")),
        ("repo@dev", "repo", NamedVersion("dev")),
        ("repo@feature%2Frain", "repo", NamedVersion("feature/rain")),
        ("/data/repo@{2024-05-01}", "/data/repo", AsOf(MAY)),
        ("/data/repo@{2024-05-01T00:00:00Z}", "/data/repo", AsOf(MAY)),
        ("/data/repo@{2024-05-01T02:00:00+02:00}", "/data/repo", AsOf(MAY)),
        ("/data/repo@dev@{2024-05-01}", "/data/repo", AsOf(MAY, "dev")),
        ("https://me@host.example/repo", "https://me@host.example/repo", None),
        ("https://me@host.example", "https://me@host.example", None),
        ("https://me@host.example/repo@dev", "https://me@host.example/repo", NamedVersion("dev")),
        ("/home/me@work/repo", "/home/me@work/repo", None),
        ("/home/me@work/repo@dev", "/home/me@work/repo", NamedVersion("dev")),
        ("/home/me@work/", "/home/me@work/", None),
        ("/home/me%40work", "/home/me@work", None),
        ("/home/me%40work@dev", "/home/me@work", NamedVersion("dev")),
        ("/home/me%2540work", "/home/me%40work", None),
        ("/home/100%25", "/home/100%25", None),
        ("s3://bucket/me%40work@dev", "s3://bucket/me%40work", NamedVersion("dev")),
        ("s3://bucket/p@dev?region=eu", "s3://bucket/p?region=eu", NamedVersion("dev")),
        ("s3://bucket/p?endpoint_url=http://u@h/", "s3://bucket/p?endpoint_url=http://u@h/", None),
        ("/data/what?@dev", "/data/what?", NamedVersion("dev")),
        ("az://container@account.example", "az://container@account.example", None),
        (
            "az://container@account.example/p@dev",
            "az://container@account.example/p",
            NamedVersion("dev"),
        ),
        ("frazil+s3://bucket/prefix@main", "s3://bucket/prefix", NamedVersion("main")),
        ("icechunk+file:///data/repo", "file:///data/repo", None),
        ("icechunk+notes", "icechunk+notes", None),
    ],
)
def test_the_version_follows_the_last_at_sign_of_the_last_segment(
    text: str, url: str, ref: NamedVersion | AsOf | None
) -> None:
    assert parse_url(text) == RepoUrl(url, ref)


@pytest.mark.parametrize(
    "text", ["repo@", "repo@{yesterday}", "repo@{2024-05-01", "repo@{}", "repo@@{2024-05-01}"]
)
def test_an_unreadable_version_is_refused(text: str) -> None:
    with pytest.raises(InvalidInputError, match="readable") as error:
        parse_url(text)
    assert error.value.kind == ErrorKind.INVALID_REF_NAME
    assert text in str(error.value)


@pytest.mark.parametrize("text", ["", "@main"])
def test_a_location_is_needed(text: str) -> None:
    with pytest.raises(InvalidInputError, match="no location"):
        parse_url(text)


def test_only_marked_urls_say_whose_they_are() -> None:
    assert is_marked("icechunk+s3://bucket/prefix")
    assert is_marked("frazil+memory://weather@dev")
    assert not is_marked("s3://bucket/frazil+icechunk")
    assert not is_marked("frazil+folder")


segments = st.text(st.sampled_from("ab@%2540{}. é"), min_size=1, max_size=12)
names = st.text(st.sampled_from("ab/@%2540{}. é"), min_size=1, max_size=12)
times = st.datetimes(timezones=st.sampled_from([UTC, timezone(timedelta(hours=-5))]))


@given(
    place=st.one_of(
        st.builds(str.__add__, st.sampled_from(["", "/", "/a@b/", "./?/"]), segments),
        st.sampled_from(["s3://bucket/p", "s3://b/p?region=eu", "memory://x", "https://u@h/%40"]),
    ),
    ref=st.one_of(
        st.none(),
        st.builds(NamedVersion, names),
        st.builds(AsOf, times),
        st.builds(AsOf, times, names),
    ),
)
@example(place="/%2540", ref=None)
def test_every_location_and_version_can_be_written(
    place: str, ref: NamedVersion | AsOf | None
) -> None:
    url = RepoUrl(place, ref)
    assert parse_url(str(url)) == url


# --- resolving ---

FIRST, SECOND, THIRD = "1CECHNKREP0F1RSTCMT0", "AAAAA000000000000000", "AAAAB000000000000000"


@dataclass
class History:
    """A repository reduced to its refs: every branch and tag is a list, newest first."""

    branches: dict[str, list[str]] = field(
        default_factory=lambda: {"main": [THIRD, SECOND, FIRST], "old": [SECOND, FIRST]}
    )
    tags: dict[str, list[str]] = field(default_factory=lambda: {"v1": [SECOND, FIRST]})

    def list_branches(self) -> set[str]:
        return set(self.branches)

    def list_tags(self) -> set[str]:
        return set(self.tags)

    def lookup_branch(self, branch: str, /) -> str:
        if branch not in self.branches:
            raise RefNotFoundError(branch)
        return self.branches[branch][0]

    def lookup_tag(self, tag: str, /) -> str:
        if tag not in self.tags:
            raise RefNotFoundError(tag)
        return self.tags[tag][0]

    def lookup_snapshot(self, snapshot_id: str, /) -> SnapshotInfo:
        if snapshot_id not in (FIRST, SECOND, THIRD):
            raise SnapshotNotFoundError(snapshot_id)
        day = (FIRST, SECOND, THIRD).index(snapshot_id)
        return SnapshotInfo(snapshot_id, None, MAY + timedelta(days=day), "", {})

    def ancestry(
        self, *, branch: str | None = None, tag: str | None = None
    ) -> Iterator[SnapshotInfo]:
        ids = self.branches[branch] if branch is not None else self.tags[str(tag)]
        return map(self.lookup_snapshot, ids)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("r", THIRD),
        ("r@main", THIRD),
        ("r@old", SECOND),
        ("r@v1", SECOND),
        (f"r@{FIRST}", FIRST),
        ("r@aaaab", THIRD),
        ("r@1cechnkrep", FIRST),
        ("r@LCECHNKREPO", FIRST),
        ("r@{2024-05-02}", SECOND),
        ("r@{2024-05-01T23:59:59Z}", FIRST),
        ("r@old@{2030-01-01}", SECOND),
    ],
)
def test_a_version_names_one_snapshot(text: str, expected: str) -> None:
    assert resolve_version(parse_url(text).ref, History()) == expected


def test_branches_come_before_tags_and_tags_before_ids() -> None:
    history = History(
        branches={"main": [THIRD, SECOND, FIRST], "x": [THIRD]},
        tags={"x": [SECOND], "1CEC": [SECOND]},
    )
    assert resolve_version(NamedVersion("x"), history) == THIRD
    assert resolve_version(NamedVersion("1CEC"), history) == SECOND


def test_the_beginning_of_several_ids_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="fits 2 snapshots"):
        resolve_version(NamedVersion("AAAA"), History())


@pytest.mark.parametrize("text", ["nothing", "AAA", "AAAC", "ZZZZ0000000000000000"])
def test_what_does_not_exist_is_not_found(text: str) -> None:
    with pytest.raises((RefNotFoundError, SnapshotNotFoundError), match=text):
        resolve_version(NamedVersion(text), History())


def test_before_the_first_snapshot_there_is_nothing() -> None:
    with pytest.raises(SnapshotNotFoundError) as error:
        resolve_version(AsOf(MAY - timedelta(seconds=1)), History())
    assert error.value.kind == ErrorKind.NO_SNAPSHOT_AT_TIME
