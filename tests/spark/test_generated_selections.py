"""Random conditions, positions and labels: exactly the rows that plain Python finds."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pytest
import xarray as xr
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from frazil.errors import InvalidInputError
from frazil.spark.query.conditions import runs_text
from frazil.spark.reading import cells
from frazil.spark.reading.runs import Runs
from tests.support.spark import make_repository, read_here

Row: TypeAlias = dict[str, Any]
Test: TypeAlias = Callable[[Row], bool | None]
"""Whether a row is wanted; None as SQL has it, when something is missing."""

STEP = timedelta(minutes=17)
TIMES = [datetime(2024, 5, 1, 22, 30) + n * STEP for n in range(9)]
LEVELS = [0.1, 2.5, float("nan"), 10.0, 20.25]
STATIONS = ["ab", "o'k", 'say "hi"', "x`y"]
BIG = [2**53 + 1, 2**62 + 3, -(2**53) - 1]
ODD = "od`d"
SIGNS: dict[str, Callable[[Any, Any], bool]] = {
    "=": lambda a, b: a == b,
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "<>": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}
MIRRORED = {"<": ">", ">": "<", "<=": ">=", ">=": "<="}


class Rows(list[Row]):
    """Rows that do not fill the report of a failing example."""

    def __repr__(self) -> str:
        return f"<{len(self)} rows>"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Cells with coordinates of every kind; single-precision levels, one of which is missing."""
    path = tmp_path_factory.mktemp("generated") / "r"
    shape = (len(TIMES), len(LEVELS), len(STATIONS), len(BIG))
    data = xr.Dataset(
        {"v": (("time", "level", "station", ODD), np.arange(math.prod(shape)).reshape(shape))},
        coords={
            "time": np.array(TIMES, "M8[ns]"),
            "level": ("level", np.array(LEVELS, "f4")),
            "station": STATIONS,
            ODD: np.array(BIG, "i8"),
            "height": 2.0,
        },
    )
    encoding = {"v": {"chunks": (4, 2, 4, 2)}, "level": {"_FillValue": None}}
    make_repository(path, data, **encoding)
    return path


@pytest.fixture(scope="module")
def rows(place: Path) -> Rows:
    """Every row, which other tests compare with xarray."""
    found = Rows({"height": 2.0, **row} for row in read_here(place).to_pylist())
    assert len(found) == len(TIMES) * len(LEVELS) * len(STATIONS) * len(BIG)
    return found


@pytest.fixture(params=[1 << 20, 50], ids=["one slab", "many slabs"])
def slabs(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """How many cells are made at once."""
    monkeypatch.setattr(cells, "REGION_CELLS", request.param)
    return int(request.param)


# --- conditions with what they mean ---


def time_text(when: datetime, zone: int | None) -> str:
    """A time as somebody may write it."""
    if zone is None:
        return when.isoformat(sep=" ")
    there = when.replace(tzinfo=UTC).astimezone(timezone(timedelta(hours=zone)))
    return there.isoformat()


times = st.builds(
    lambda n, minutes: TIMES[0] + n * STEP + timedelta(minutes=minutes),
    st.integers(-1, 10),
    st.sampled_from([0, 0, 0, 1, -1]),
)
zones = st.sampled_from([None, None, 0, 2, -5])


def quoted(text: str, quote: str) -> str:
    """A text in SQL, with its quotes doubled."""
    return quote + text.replace(quote, quote * 2) + quote


@st.composite
def literals(draw: st.DrawFn, name: str) -> tuple[str, Any]:
    """A value to compare a coordinate with: its text and itself."""
    if name == "time":
        when = draw(times)
        word = draw(st.sampled_from(["", "TIMESTAMP ", "timestamp_ntz "]))
        return word + quoted(time_text(when, draw(zones)), draw(st.sampled_from("'\""))), when
    if name == "station":
        text = draw(st.sampled_from([*STATIONS, "b", "'", '"', ""]))
        return quoted(text, draw(st.sampled_from("'\""))), text
    if name == ODD:
        if draw(st.integers(0, 9)) == 0:
            return "0.5", 0.5
        number = draw(st.sampled_from([*BIG, 0])) + draw(st.integers(-1, 1))
        return str(number), number
    level = draw(st.sampled_from([0.1, float(np.float32(0.1)), 2.5, 10.0, 11.0, -1.0, 20.25, 2.0]))
    return repr(level), level


def names(draw: st.DrawFn) -> tuple[str, str]:
    """A coordinate, as it is called and as it is written."""
    name = draw(st.sampled_from(["time", "level", "station", ODD, "height"]))
    plain = name.isidentifier() and draw(st.booleans())
    return name, name if plain else "`" + name.replace("`", "``") + "`"


def compared(value: Any, sign: str, other: Any) -> bool | None:  # noqa: ANN401
    """As Spark compares: nothing is known of what is missing, and NaN is above all numbers."""
    if value is None:
        return None
    if isinstance(value, float) and math.isnan(value):
        return sign in (">", ">=", "!=", "<>")
    if isinstance(value, datetime):
        value = value.replace(tzinfo=None)
    return SIGNS[sign](value, other)


@st.composite
def comparisons(draw: st.DrawFn) -> tuple[str, Test]:
    name, written = names(draw)
    sign = draw(st.sampled_from(sorted(SIGNS)))
    text, value = draw(literals(name))
    if draw(st.booleans()):
        back = MIRRORED.get(sign, sign)
        return f"{text} {back} {written}", lambda row: compared(row[name], sign, value)
    return f"{written} {sign} {text}", lambda row: compared(row[name], sign, value)


def any_of(found: list[bool | None]) -> bool | None:
    return True if True in found else None if None in found else False


def all_of(found: list[bool | None]) -> bool | None:
    return False if False in found else None if None in found else True


def opposite(found: bool | None) -> bool | None:
    return None if found is None else not found


@st.composite
def memberships(draw: st.DrawFn) -> tuple[str, Test]:
    name, written = names(draw)
    count = draw(st.sampled_from([1, 2, 16, 17, 30]))
    chosen = draw(st.lists(literals(name), min_size=count, max_size=count))
    negated = draw(st.booleans())
    text = f"{written} {'NOT ' if negated else ''}IN ({', '.join(each for each, _ in chosen)})"

    def holds(row: Row) -> bool | None:
        found = any_of([compared(row[name], "=", value) for _, value in chosen])
        return opposite(found) if negated else found

    return text, holds


@st.composite
def ranges(draw: st.DrawFn) -> tuple[str, Test]:
    name, written = names(draw)
    (low, first), (high, last) = draw(literals(name)), draw(literals(name))
    negated = draw(st.booleans())
    text = f"{written} {'not ' if negated else ''}BETWEEN {low} AND {high}"

    def holds(row: Row) -> bool | None:
        value = row[name]
        found = all_of([compared(value, ">=", first), compared(value, "<=", last)])
        return opposite(found) if negated else found

    return text, holds


@st.composite
def absences(draw: st.DrawFn) -> tuple[str, Test]:
    name, written = names(draw)
    negated = draw(st.booleans())
    text = f"{written} IS {'NOT ' if negated else ''}NULL"
    return text, lambda row: (row[name] is not None) if negated else row[name] is None


def combined(inner: st.SearchStrategy[tuple[str, Test]]) -> st.SearchStrategy[tuple[str, Test]]:
    def joined(word: str, parts: list[tuple[str, Test]]) -> tuple[str, Test]:
        unite = all_of if word == "AND" else any_of
        text = f" {word} ".join(f"({text})" for text, _ in parts)
        return text, lambda row: unite([holds(row) for _, holds in parts])

    def negated(times: int, part: tuple[str, Test]) -> tuple[str, Test]:
        text, holds = part
        return "NOT " * times + f"({text})", (
            holds if times % 2 == 0 else lambda row: opposite(holds(row))
        )

    many = st.lists(inner, min_size=2, max_size=3)
    return st.one_of(
        st.builds(joined, st.sampled_from(["AND", "OR"]), many),
        st.builds(negated, st.integers(1, 2), inner),
    )


conditions = st.recursive(
    st.one_of(comparisons(), comparisons(), memberships(), ranges(), absences()),
    combined,
    max_leaves=5,
)
quiet = settings(
    deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
)


def values_of(table: pa.Table) -> list[int]:
    found: list[int] = sorted(table["v"].to_pylist())
    return found


@quiet
@given(conditions)
def test_a_condition_gives_the_rows_it_means(
    place: Path, rows: Rows, slabs: int, condition: tuple[str, Test]
) -> None:
    text, holds = condition
    expected = sorted(row["v"] for row in rows if holds(row) is True)
    assert values_of(read_here(place, where=text)) == expected
    lines = read_here(place, where=text, layout="lines")
    assert sorted(v for line in lines["v"].to_pylist() for v in line) == expected
    assert all(lines["v"].to_pylist()), "a line without cells is no line"


@pytest.mark.parametrize(("height", "is_met"), [("height < 0.1", False), ("height = 2", True)])
@pytest.mark.parametrize("word", ["OR", "AND"])
def test_a_coordinate_without_axes_beside_one_with_an_axis(
    place: Path, rows: Rows, word: str, height: str, is_met: bool
) -> None:
    found = values_of(read_here(place, where=f"(station = 'ab' {word} {height})"))
    both = all if word == "AND" else any
    assert found == [row["v"] for row in rows if both((row["station"] == "ab", is_met))]


@pytest.mark.parametrize("count", [0, 30], ids=["short", "long"])
@pytest.mark.parametrize("more", ["0.5", str(2**63), "-0.25", str(2**70)])
@pytest.mark.parametrize("word", ["IN", "NOT IN"])
def test_whole_numbers_are_not_rounded_by_what_else_a_list_has(
    place: Path, rows: Rows, count: int, more: str, word: str
) -> None:
    wanted = [2**53, 2**62 + 3, *range(count)]
    listed = ", ".join([*map(str, wanted), more])
    found = values_of(read_here(place, where=f"`od``d` {word} ({listed})"))
    assert found == [row["v"] for row in rows if (row[ODD] in wanted) == (word == "IN")]


# --- positions and labels ---

SIZES = {"time": len(TIMES), "level": len(LEVELS), "station": len(STATIONS)}


@st.composite
def positions(draw: st.DrawFn) -> tuple[str, str, list[int]]:
    """A dimension, the text of positions along it, and the positions."""
    name = draw(st.sampled_from(sorted(SIZES)))
    size = SIZES[name]
    inside = st.integers(-size, size - 1)
    kind = draw(st.sampled_from(["one", "list", "range"]))
    if kind == "one":
        number = draw(inside)
        return name, str(number), [number % size]
    if kind == "list":
        chosen = draw(st.lists(inside, min_size=1, max_size=4))
        return name, f"[{', '.join(map(str, chosen))}]", sorted({n % size for n in chosen})
    ends = st.none() | st.integers(-size - 2, size + 2)
    start, stop, step = draw(ends), draw(ends), draw(st.none() | st.integers(1, 4))
    shown = [("" if each is None else str(each)) for each in (start, stop, step)]
    return name, ":".join(shown), list(range(size))[start:stop:step]


@quiet
@given(st.lists(positions(), min_size=1, max_size=3, unique_by=lambda each: each[0]))
def test_positions_are_those_of_python(
    place: Path, rows: Rows, slabs: int, chosen: list[tuple[str, str, list[int]]]
) -> None:
    text = ", ".join(f"{name}={written}" for name, written, _ in chosen)
    shape = (*SIZES.values(), len(BIG))
    wanted = np.arange(math.prod(shape)).reshape(shape)
    for name, _, places in chosen:
        wanted = np.take(wanted, places, axis=list(SIZES).index(name))
        shape = wanted.shape
    assert values_of(read_here(place, isel=text)) == sorted(wanted.ravel().tolist())


@quiet
@given(wanted=st.lists(st.booleans(), min_size=len(TIMES), max_size=len(TIMES)))
def test_runs_of_positions_are_those_of_numpy(
    place: Path, rows: Rows, slabs: int, wanted: list[bool]
) -> None:
    mask = np.array(wanted)
    times = {TIMES[n] for n in np.flatnonzero(mask)}
    found = values_of(read_here(place, isel=f"time={runs_text(Runs.where(mask))}"))
    assert found == [row["v"] for row in rows if row["time"].replace(tzinfo=None) in times]


PERIODS = {"%Y": 366 * 86400, "%Y-%m": 31 * 86400, "%Y-%m-%d": 86400}
PERIODS |= {"%Y-%m-%dT%H": 3600, "%Y-%m-%dT%H:%M": 60, "%Y-%m-%dT%H:%M:%S": 0}


def period(when: datetime, form: str) -> tuple[datetime, datetime]:
    """The first moment that a text names, and the first that it does not."""
    start = datetime.strptime(when.strftime(form), form)
    if form == "%Y":
        return start, start.replace(year=start.year + 1)
    if form == "%Y-%m":
        return start, start.replace(month=start.month + 1)
    return start, start + timedelta(seconds=PERIODS[form] or 1e-6)


@quiet
@given(times, times, st.sampled_from(sorted(PERIODS)), st.sampled_from(["one", "range", "list"]))
def test_labels_of_times_mean_all_of_what_they_name(
    place: Path, rows: Rows, first: datetime, last: datetime, form: str, kind: str
) -> None:
    spans = [period(first, form), period(last, form)]
    texts = [first.strftime(form), last.strftime(form)]

    wanted = spans if kind == "list" else spans[:1]
    if kind == "range":
        wanted = [(spans[0][0], spans[1][1])]

    def holds(row: Row) -> bool:
        when = row["time"].replace(tzinfo=None)
        return any(low <= when < high for low, high in wanted)

    # The colon of a range could be that of a time of day, so labels with hours are quoted.
    span = ":".join(f"'{text}'" if "T" in text else text for text in texts)
    text = {"one": texts[0], "range": span, "list": f"[{', '.join(texts)}]"}[kind]
    expected = sorted(row["v"] for row in rows if holds(row))
    if kind != "range" and not all(any(a <= t < b for t in TIMES) for a, b in wanted):
        with pytest.raises(InvalidInputError, match="has no label"):
            read_here(place, sel=f"time={text}")
        return
    assert values_of(read_here(place, sel=f"time={text}")) == expected


@quiet
@given(*[st.sampled_from([-1, 0.1, 2.5, 3, 10, 20.25, 30])] * 2, st.booleans())
def test_labels_of_numbers_go_both_ways(
    place: Path, rows: Rows, one: float, other: float, is_open: bool
) -> None:
    low, high = (one, math.inf) if is_open else (min(one, other), max(one, other))
    text = f"{one}:" if is_open else f"{one}:{other}"
    found = [(row["v"], compared(row["level"], ">=", low)) for row in rows]
    below = {row["v"]: compared(row["level"], "<=", high) for row in rows}
    if is_open:
        below = dict.fromkeys(below, True)
    expected = sorted(v for v, above in found if above and below[v])
    assert values_of(read_here(place, sel=f"level={text}")) == expected


@pytest.mark.parametrize("station", STATIONS)
def test_texts_in_quotes_are_one_label(place: Path, rows: Rows, station: str) -> None:
    expected = sorted(row["v"] for row in rows if row["station"] == station)
    doubled = quoted(station, "'")
    assert values_of(read_here(place, where=f"station = {doubled}")) == expected
