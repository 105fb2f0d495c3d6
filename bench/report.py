"""The report: `docs/benchmarks.md` with its pictures, from results alone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from bench.plots import plot_cases, plot_curves
from bench.texts import GROWTH, HOW, THEMES

PICTURES = "benchmarks"


def write_report(results: dict[str, Any], docs: Path) -> None:
    """Write the page and the pictures."""
    folder = docs / PICTURES
    folder.mkdir(parents=True, exist_ok=True)
    lines = [
        "# Benchmarks",
        "",
        "Frazil beside all that it can be compared with, on one machine, case by case.",
        "`make bench` measures it anew and writes this page; rows that Frazil loses stay in.",
        "",
        *_circumstances(results),
        "",
        "## How it is measured",
        "",
        HOW,
        "## Where Frazil stands",
        "",
        *_standing(results["cases"]),
    ]
    for theme in dict.fromkeys(case["theme"] for case in results["cases"]):
        chosen = [case for case in results["cases"] if case["theme"] == theme]
        picture = f"{_slug(theme)}.png"
        plot_cases(chosen, folder / picture)
        lines += ["", f"## {theme}", "", f"![{theme}]({PICTURES}/{picture})", ""]
        lines += [THEMES.get(theme, "")]
        for case in chosen:
            lines += _case(case)
    lines += _growth(results["curves"], folder)
    (docs / "benchmarks.md").write_text("\n".join(lines).rstrip() + "\n")


def _slug(text: str) -> str:
    words = "".join(letter if letter.isalnum() else " " for letter in text.lower())
    return "-".join(words.split())


def _table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> Iterator[str]:
    names = list(head)
    yield f"| {' | '.join(names)} |"
    yield f"|{'---|' * len(names)}"
    for row in rows:
        yield f"| {' | '.join(row)} |"


def _circumstances(results: dict[str, Any]) -> Iterator[str]:
    machine = results["machine"]
    memory = machine["memory_bytes"] / 2**30
    counts = [len(each["values"]) for case in results["cases"] for each in case["contestants"]]
    rounds = sorted({count for count in counts if count} or {results["rounds"]})
    said = f"{rounds[0]}" if len(rounds) == 1 else f"{rounds[0]} to {rounds[-1]}"
    yield (
        f"Last measured {results['time']}, size *{results['size']}*, {said} rounds, on "
        f"{machine['processor'] or machine['system']}, {machine['cores']} cores, "
        f"{memory:.0f} GiB, {machine['system']}; load before the run {machine['load_before']}. "
        "A case keeps its figures until it is measured again; all its contestants ran together."
    )
    yield ""
    here = ", ".join(f"{name} {version}" for name, version in results["versions"].items())
    yield f"Versions: {here}."
    if older := results["versions_1.1.21"]:
        there = ", ".join(f"{name} {version}" for name, version in older.items())
        yield f"The older official package: {there}."


# --- tables ---


def _standing(cases: list[dict[str, Any]]) -> Iterator[str]:
    """Every comparison in one table, targets beside figures."""
    rows = [
        (
            f"{case['title']} [{case['where']}]"
            if case["where"] != "local disk"
            else case["title"],
            each["contestant"],
            each["against"],
            _ratio(each),
            _bound(each["must"], case["unit"]),
            _bound(each["goal"], case["unit"]),
            _verdict(each, case["unit"]),
        )
        for case in cases
        for each in case["targets"]
    ]
    yield from _table(("work", "Frazil", "against", "ratio", "must", "goal", ""), rows)


def _ratio(target: dict[str, Any]) -> str:
    if target["ratio"] is None:
        return "not measured"
    return f"**{_short(target['ratio'])}** ({_short(target['low'])} - {_short(target['high'])})"


def _short(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def _bound(value: float | None, unit: str) -> str:
    if value is None:
        return ""
    return f"<= {value:g}" if unit == "B" else f"{value:g}"


def _verdict(target: dict[str, Any], unit: str) -> str:
    ratio = target["ratio"]
    if ratio is None:
        return ""
    if "holds" not in target:
        lost = ratio > 1 if unit == "B" else ratio < 1
        return "slower" if lost else ""
    if target["reached"]:
        return "goal reached"
    return "holds" if target["holds"] else "**LOST**"


def _case(case: dict[str, Any]) -> Iterator[str]:
    """All figures of a case."""
    figures = case["contestants"]
    with_memory = any(each["peak_bytes"] for each in figures)
    with_requests = any(each["requests"] for each in figures)
    head = ["", _quantity(case["unit"])]
    if with_memory:
        head.append("memory peak (before)")
    if with_requests:
        head += ["requests", "received", "sent"]
    amounts: dict[str, float] = case.get("amounts", {})
    head += [f"{name}/s" for name in amounts]
    yield ""
    yield f"### {case['title'][0].upper()}{case['title'][1:]}"
    yield ""
    yield from _table(
        head,
        (
            [*_row(each, case["unit"], with_memory, with_requests), *_rates(each, amounts)]
            for each in figures
        ),
    )


def _rates(figures: dict[str, Any], amounts: dict[str, float]) -> Iterator[str]:
    for amount in amounts.values():
        yield _short(amount / figures["median"]) if "median" in figures else ""


def _row(figures: dict[str, Any], unit: str, memory: bool, requests: bool) -> Iterator[str]:
    yield figures["name"]
    if figures["failure"] or "median" not in figures:
        yield f"no figure: {figures['failure']}".replace("|", "/").replace("\n", " ")
    else:
        spread = f"{_value(figures['low'], unit)} - {_value(figures['high'], unit)}"
        yield f"{_value(figures['median'], unit)} ({spread})"
    if memory:
        peak, base = figures["peak_bytes"], figures["base_bytes"]
        yield f"{_size(peak)} ({_size(base)})" if peak and base else "n/a"
    if requests:
        counted = figures["requests"]
        yield f"{counted['requests']:,}" if counted else "n/a"
        yield _size(counted["received_bytes"]) if counted else "n/a"
        yield _size(counted["sent_bytes"]) if counted else "n/a"


def _quantity(unit: str) -> str:
    return {"s": "time", "B": "size", "1/s": "per second"}[unit]


def _value(value: float, unit: str) -> str:
    if unit == "B":
        return _size(value)
    if unit == "1/s":
        return f"{value:.1f}"
    if value >= 1:
        return f"{value:.2f} s"
    return f"{value * 1e3:.1f} ms" if value >= 1e-3 else f"{value * 1e6:.0f} us"


def _size(value: float) -> str:
    for unit in ("B", "KiB", "MiB"):
        if value < 1024:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.2f} GiB"


# --- curves ---


def _growth(curves: list[dict[str, Any]], folder: Path) -> list[str]:
    lines = ["", "## Growth"] if curves else []
    for group, text in GROWTH.items():
        chosen = [curve for curve in curves if curve["key"].startswith(group)]
        if not chosen:
            continue
        picture = f"{group}.png"
        plot_curves(chosen, folder / picture)
        name = chosen[0]["x"]
        lines += ["", f"### By {name}", "", f"![{name}]({PICTURES}/{picture})", "", text]
        for curve in chosen:
            lines += [f"{curve['title'][0].upper()}{curve['title'][1:]}:", "", *_points(curve), ""]
            for series, remarks in curve["remarks"].items():
                lines += [f"- {series}: {'; '.join(remarks)}.", ""]
    return lines


def _points(curve: dict[str, Any]) -> Iterator[str]:
    found = {
        name: {point["x"]: point for point in points} for name, points in curve["series"].items()
    }
    places = sorted({x for points in found.values() for x in points})
    rows = (
        [name, *(_point(points.get(x), curve["unit"]) for x in places)]
        for name, points in found.items()
    )
    yield from _table((curve["x"], *(f"{x:,}" for x in places)), rows)


def _point(point: dict[str, Any] | None, unit: str) -> str:
    return _value(point["median"], unit) if point else "-"
