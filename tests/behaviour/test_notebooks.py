"""What notebooks show: pages of their own, in which foreign text is text and secrets are hidden."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import zarr

import frazil
import frazil.icechunk as icechunk
from frazil.drawing.markup import MOST_ROWS
from frazil.model.values import Diff
from frazil.transaction.opened import context_of
from tests.support.notebooks import EVIL, page_of
from tests.support.notebooks import repo as repo


def test_a_repository_shows_refs_and_newest_commits(repo: frazil.Repository) -> None:
    page = page_of(repo)
    assert "2 branches" in page.text
    assert "1 tag" in page.text
    assert repo.lookup_branch("dev") in page.text
    assert page.tags.count("circle") == 5
    assert page.tags.count("path") == 5  # the merge has two parents
    assert "<svg" not in repr(repo)
    assert len(repr(repo)) < 500


def test_a_session_shows_nodes_and_changes(repo: frazil.Repository) -> None:
    session = repo.writable_session("main")
    zarr.open_array(session.store, path="sst", mode="r+")[2] = 5.0
    page = page_of(session)
    assert "(time: 8, <lat>: 40)" in page.text
    assert "float32" in page.text
    assert "~ /sst  4 chunks written" in page.text
    assert "rect" in page.tags
    assert len(repr(session)) < 300


def test_the_facade_shows_what_the_official_package_does(repo: frazil.Repository) -> None:
    same = icechunk.Repository.open(repo.storage)
    for thing in (same, same.readonly_session("main")):
        page = page_of(thing)
        assert "svg" not in page.tags
        assert "table" not in page.tags


def test_an_ancestry_is_drawn_and_not_used_up(repo: frazil.Repository) -> None:
    found = repo.ancestry(branch="main")
    page = page_of(found)
    assert page.tags.count("circle") == 4
    assert "<script>" in page.text
    assert len(list(found)) == 4


def test_a_graph_is_drawn(repo: frazil.Repository) -> None:
    page = page_of(repo.ancestry_graph())
    assert page.tags.count("path") == 5


def test_a_diff_shows_nodes_and_chunks(repo: frazil.Repository) -> None:
    diff = repo.diff(from_tag="v1", to_branch="main")
    page = page_of(diff)
    assert "~ /sst" in page.text
    assert "frazil.Diff" in page.text
    assert "nothing changed" in page_of(Diff()).text
    large = Diff(new_arrays={f"/a{n}{EVIL}" for n in range(1000)}, moved_nodes=[("/a", EVIL)])
    assert f"{1001 - MOST_ROWS:,} more" in page_of(large).text


def test_a_diff_of_arrays_without_axes_and_with_many_chunks() -> None:
    touched = [[int(y), int(x)] for y, x in np.ndindex(300, 300)]
    diff = Diff(updated_chunks={"/point": [[]], "/large": touched, "/none": []})
    page = page_of(diff)
    assert "90,000 chunks written" in page.text
    assert len(diff._repr_html_()) < 100_000


def test_an_array_shows_its_chunks(repo: frazil.Repository) -> None:
    page = page_of(repo.readonly_session("main").array("sst"))
    assert "12 of 16 chunks" in page.text
    assert "across: <lat>" in page.text or "down: <lat>" in page.text
    assert page.tags.count("rect") >= 1
    assert "attributes" in page.text


def test_arrays_of_any_rank_have_a_picture() -> None:
    session = frazil.Repository.create(frazil.in_memory_storage()).writable_session("main")
    root = zarr.create_group(session.store)
    for shape in ((), (0,), (5,), (3, 4, 5), (500, 500)):
        name = f"a{'x'.join(map(str, shape))}"
        array = root.create_array(name, shape=shape, chunks=(1,) * len(shape), dtype="i2")
        if shape and 0 not in shape:
            array[(0,) * len(shape)] = 1
        page = page_of(session.array(name))
        assert name in page.text
        assert "svg" in page.tags
        assert ("rect" in page.tags) == bool(shape and 0 not in shape), shape


def test_reading_that_fails_is_told_in_the_view(
    repo: frazil.Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> Iterator[str]:
        raise frazil.StorageError(f"the network is gone {EVIL}")

    monkeypatch.setattr(context_of(repo).refs, "branches", fail)
    assert "cannot be shown" in page_of(repo).text
