"""Histories with merges as drawings."""

from __future__ import annotations

import itertools
import re
from datetime import UTC, datetime, timedelta
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from frazil.ids import SnapshotId
from frazil.model.graph import AncestryGraph
from frazil.model.lineage import MERGE_PARENTS
from frazil.model.values import SnapshotInfo

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
LINE = set("│─╯╮┤╰╭├┴┬┼●")


def name(number: int) -> str:
    return str(SnapshotId(number.to_bytes(12, "big")))


def commit(number: int, *parents: int, message: str = "") -> SnapshotInfo:
    """A commit, made the later the higher its number."""
    metadata = {MERGE_PARENTS: [name(each) for each in parents]} if len(parents) > 1 else {}
    parent = name(parents[0]) if parents else None
    when = BEGIN + timedelta(hours=number)
    return SnapshotInfo(name(number), parent, when, message or f"m{number}", dict(metadata))


def rails(graph: AncestryGraph) -> list[str]:
    """The drawing without what is written beside it."""
    return [re.split(r" [0-9A-Z]{8} ", line)[0].rstrip() for line in str(graph).splitlines()]


def test_a_merge_is_drawn_like_git_does() -> None:
    history = [commit(0), commit(1, 0), commit(2, 0), commit(3, 1, 2), commit(4, 3)]
    graph = AncestryGraph(history, {"main": name(4), "dev": name(2)}, plain=True)
    assert rails(graph) == ["●", "│", "●─╮", "│ │", "│ ●", "│ │", "● │", "│ │", "●─╯"]
    assert "(dev) m2" in str(graph)


def test_merging_main_into_a_branch_reaches_to_the_left() -> None:
    history = [commit(0), commit(1, 0), commit(2, 0), commit(3, 2), commit(4, 3, 1), commit(5, 1)]
    graph = AncestryGraph(history, {"main": name(5), "dev": name(4)}, plain=True)
    assert rails(graph) == [
        "●",
        "│",
        "├─●",
        "│ │",
        "│ ●",
        "│ │",
        "│ ●",
        "│ │",
        "● │",
        "│ │",
        "●─╯",
    ]


def test_lines_across_lanes_are_drawn_through() -> None:
    history = [commit(0), commit(1, 0), commit(2, 0), commit(3, 0), commit(4, 3, 1), commit(5, 2)]
    text = str(AncestryGraph(history, {"main": name(4)}, plain=True))
    assert "●─┼─╮" in text or "●─┬─╮" in text or "●─╮" in text
    for row in text.splitlines():
        assert not set(re.split(r"[0-9A-Z]{8}", row)[0]) - LINE - {" "}


def random_history(count: int, seed: int) -> list[SnapshotInfo]:
    rng = np.random.default_rng(seed)
    history = [commit(0)]
    for number in range(1, count):
        several = 2 if rng.random() < 0.3 and number > 2 else 1
        chosen = rng.choice(np.arange(max(0, number - 8), number), several, replace=False)
        history.append(commit(number, *(int(each) for each in chosen)))
    return history


UP, DOWN, LEFT, RIGHT = set("│╯┤╰├┴┼"), set("│╮┤╭├┬┼"), set("─╯╮┤┴┬┼"), set("─╰╭├┴┬┼")


@pytest.mark.parametrize("seed", range(12))
def test_no_line_ends_in_the_open(seed: int) -> None:
    rows = rails(AncestryGraph(random_history(60, seed), {"main": name(59)}, plain=True))
    width = max(map(len, rows))
    padded = [row.ljust(width) for row in rows]
    for above, below in itertools.pairwise(padded):
        for one, other in zip(above, below, strict=True):
            if one in DOWN:
                assert other in UP | {"●"}, f"{above}\n{below}"
            if other in UP:
                assert one in DOWN | {"●"}, f"{above}\n{below}"
    for row in padded:
        for one, other in itertools.pairwise(row):
            if one in RIGHT:
                assert other in LEFT | {"●"}, row
            if other in LEFT:
                assert one in RIGHT | {"●"}, row


def test_the_picture_has_a_line_for_every_parent() -> None:
    history = random_history(60, 3)
    svg = AncestryGraph(history, {"main": name(59)})._repr_svg_()
    parents = sum(1 + (MERGE_PARENTS in each.metadata) for each in history[1:])
    assert svg.count("<path") == parents
    assert svg.count("<circle") == 60
    ElementTree.fromstring(svg)


def test_mermaid_names_commits_and_lines() -> None:
    history = [commit(0), commit(1, 0), commit(2, 0), commit(3, 1, 2)]
    text = AncestryGraph(history, {"main": name(3)}, {"v1": name(0)}).mermaid()
    lines = text.splitlines()
    assert lines[0] == "flowchart BT"
    assert sum("-->" in line for line in lines) == 3
    assert sum("-.->" in line for line in lines) == 1
    assert f'c0["{name(3)[:8]} (main) m3"]' in text


EVIL = 'x"]; click c0 "javascript:alert(1)" <script> `` \x1b[31m \u202e #quot; %%{init}%%'


def test_foreign_text_stays_text_everywhere() -> None:
    secret = "https://user:hush@host/x?sig=hush"
    graph = AncestryGraph(
        [commit(0, message=f"{EVIL[:40]} {secret}"), commit(1, 0, message=EVIL)],
        {EVIL: name(1)},
        plain=True,
    )
    for text in (str(graph), graph._repr_html_(), graph.svg(), graph.mermaid()):
        assert "<script>" not in text or text == str(graph)
        assert not {"\x1b", "\u202e"} & set(text)
        assert "hush" not in text
    node = r'    c\d+\["[\w .,:/()+=@#;-]*"\]'
    for line in graph.mermaid().splitlines()[1:]:
        assert re.fullmatch(node + r"|    c\d+ (-->|-\.->) c\d+", line)
    ElementTree.fromstring(graph.svg())


def test_an_empty_history_is_an_empty_drawing() -> None:
    graph = AncestryGraph([])
    assert str(graph) == ""
    ElementTree.fromstring(graph.svg())
    assert graph.mermaid() == "flowchart BT\n"


def letter(name: str, parent: str | None, day: int, message: str = "") -> SnapshotInfo:
    return SnapshotInfo(
        name * 8, parent and parent * 8, BEGIN + timedelta(days=day), message or f"commit {name}"
    )


def test_a_tree_is_drawn_with_main_on_the_left() -> None:
    graph = AncestryGraph(
        [
            letter("A", None, 0),
            letter("B", "A", 1),
            letter("C", "B", 2),
            letter("D", "B", 3),
        ],
        {"dev": "D" * 8, "main": "C" * 8},
        {"v1": "B" * 8},
        plain=True,
    )
    assert str(graph) == "\n".join(
        [
            "  ● DDDDDDDD (dev) commit D",
            "  │",
            "● │ CCCCCCCC (main) commit C",
            "│ │",
            "●─╯ BBBBBBBB (v1) commit B",
            "│",
            "●   AAAAAAAA commit A",
        ]
    )


def test_colours_can_be_left_out() -> None:
    commits = [letter("A", None, 0)]
    assert "\x1b[" in str(AncestryGraph(commits, {"main": "A" * 8}))
    assert "\x1b[" not in str(AncestryGraph(commits, {"main": "A" * 8}, plain=True))


def test_messages_cannot_break_out_of_the_drawing() -> None:
    nasty = letter("A", None, 0, "<script>\x1b[31m\nsecond line")
    graph = AncestryGraph([nasty], {"<i>": "A" * 8}, plain=True)
    assert "\x1b" not in str(graph)
    assert "second line" not in str(graph)
    assert "<script>" not in graph._repr_svg_()
    assert "<i>" not in graph._repr_svg_()


@given(st.lists(st.integers(0, 30), max_size=25), st.booleans())
def test_every_commit_is_drawn_once_below_its_children(parents: list[int], plain: bool) -> None:
    commits = [
        SnapshotInfo(f"S{i:07}", f"S{p % i:07}" if i else None, BEGIN + timedelta(days=p), f"m{i}.")
        for i, p in enumerate(parents)
    ]
    tips = {f"b{info.id}": info.id for info in commits[::3]}
    graph = AncestryGraph(commits, tips, plain=plain)
    order = re.findall(r"S\d{7} ?", re.sub(r"\x1b\[[\d;]*m", "", str(graph)).replace("bS", "b_"))
    place = {name.strip(): i for i, name in enumerate(order)}
    assert len(order) == len(place) == len(commits)
    assert all(place[c.id] < place[c.parent_id] for c in commits if c.parent_id)
    svg = graph._repr_svg_()
    assert svg.count("<circle") == len(commits)
    assert svg.count("<path") == max(len(commits) - 1, 0)
