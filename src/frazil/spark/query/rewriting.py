"""SELECTs with aggregates, rewritten so that tasks do most of the adding.

Tasks reduce the dimensions that a SELECT does not mention, and give for each label that is left
counts, sums, extremes and squares; Spark computes the answer from these rows. So grouping by
`date_trunc('month', time)` keeps `time` and reduces all else, and no function of SQL is ours.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final

from sqlglot import TokenType, exp

from frazil.spark.query.formulas import FILTER, MADE, RewrittenSelect, of_labels, of_values
from frazil.spark.query.functions import AGGREGATES, GROUPINGS, SCALARS
from frazil.spark.query.linear import Refusal, asks_presence, is_column
from frazil.spark.query.tokens import Block, Tokens, TokenSpan, braced
from frazil.spark.reading.aggregating import ROWS, can_compare, column_name
from frazil.spark.reading.reducing import COUNT, MAX, MIN
from frazil.spark.reading.scan import Column, Scan

_UNREAD: Final = ("window", "qualify", "lateral", "sort by", "cluster by", "distribute by")


@dataclass(frozen=True, slots=True)
class Where:
    """Conditions that the source applies, and those that stay for Spark."""

    applied: tuple[TokenSpan, ...]
    left: tuple[TokenSpan, ...]


@dataclass(frozen=True, slots=True)
class _Call:
    """One aggregate of a SELECT."""

    name: str
    whole: TokenSpan
    """without FILTER"""
    argument: TokenSpan
    is_distinct: bool
    reach: TokenSpan
    """with FILTER"""


def has_aggregates(tokens: Tokens, block: Block) -> bool:
    """Whether a SELECT makes fewer rows of many."""
    return (
        block.is_distinct
        or "group by" in block.clauses
        or any(name in AGGREGATES for span in _spans(block) for name, _ in tokens.calls(span))
    )


def unknown_calls(tokens: Tokens, span: TokenSpan) -> list[str]:
    """Functions that may be anything."""
    known = SCALARS | AGGREGATES.keys() | GROUPINGS
    return [name for name, _ in tokens.calls(span) if name not in known]


def _spans(block: Block) -> Iterator[TokenSpan]:
    yield from block.items
    for name in ("group by", "having", "order by"):
        if name in block.clauses:
            yield block.clauses[name]


_PLAIN: Final = frozenset({"count", "sum", "avg", "min", "max"})


def plain_names(tokens: Tokens, block: Block, scan: Scan) -> list[str] | None:
    """What Spark calls the columns of a SELECT; None where not all are as `avg(t2m)` or `count(*)`.

    What these are rewritten to is surely of the same types.
    """
    found = []
    for span in block.items:
        words = [tokens.text_of(TokenSpan(n, n + 1)) for n in range(span.first, span.stop)]
        if len(words) != 4 or words[0].lower() not in _PLAIN or words[1] != "(" or words[3] != ")":
            return None
        name, argument = words[0].lower(), words[2]
        if argument == "*" and name == "count":
            found.append("count(1)")
        elif argument.isidentifier() and _is_there(scan, argument):
            found.append(f"{name}({argument})")
        else:
            return None
    return found


def rewrite(
    tokens: Tokens,
    block: Block,
    select: exp.Select,
    scan: Scan,
    names: Mapping[int, str],
    alias: str,
    *,
    is_apart: bool,
    where: Where | None = None,
) -> RewrittenSelect:
    """Rewrite a SELECT on one table; `names` has its columns by where they begin in the text.

    `alias` is what it calls the table, and `is_apart` says whether each axis is chosen from alone.
    Without `where`, the source applies all conditions.

    Raises:
        Refusal: it is left to Spark.
    """
    _require_readable(tokens, block, select, scan, names)
    attempt = partial(_rewritten, tokens, block, select, scan, names, alias, is_apart, where)
    try:
        found = attempt(with_extremes=True)
    except Refusal:
        return attempt(with_extremes=False)
    if not found.labels or not is_apart:
        return found
    # Labels that are left may do without being crossed.
    with contextlib.suppress(Refusal):
        other = attempt(with_extremes=False)
        if other.is_apart:
            return other
    return found


def _require_readable(
    tokens: Tokens, block: Block, select: exp.Select, scan: Scan, names: Mapping[int, str]
) -> None:
    """Refuse a SELECT that has something which is not looked into."""
    for clause in _UNREAD:
        if clause in block.clauses:
            raise Refusal(f"it has {clause.upper()}")
    if len(select.selects) != len(block.items):
        raise Refusal("its columns cannot be told apart")
    for span in _spans(block):
        for name in unknown_calls(tokens, span):
            raise Refusal(f"tasks cannot compute {name}()")
        kinds = {tokens.kind(number) for number in range(span.first, span.stop)}
        if TokenType.SELECT in kinds:
            raise Refusal("it has a query within")
        if TokenType.OVER in kinds:
            raise Refusal("it has a window")
    stars = (star for each in select.selects for star in each.find_all(exp.Star))
    if not all(isinstance(star.parent, exp.Count) for star in stars):
        raise Refusal("it takes all columns")
    strange = [name for name in names.values() if not _is_there(scan, name)]
    if strange:
        raise Refusal(f"{strange[0]} may be a column of the answer")


def _rewritten(
    tokens: Tokens,
    block: Block,
    select: exp.Select,
    scan: Scan,
    names: Mapping[int, str],
    alias: str,
    is_apart: bool,
    where: Where | None,
    *,
    with_extremes: bool,
) -> RewrittenSelect:
    """A SELECT; `with_extremes` of coordinates as tasks find them, so that their axes may go."""
    found = RewrittenSelect(alias, is_apart=is_apart, with_extremes=with_extremes)
    covered: list[TokenSpan] = []
    for number, span in enumerate(_spans(block)):
        calls = [*_calls(tokens, span)]
        covered += [_rewrite_call(found, tokens, call, scan, names) for call in calls]
        if number < len(block.items) and calls and not select.selects[number].alias:
            found.unnamed.append(number)
    aliases = {each.alias.lower() for each in select.selects if each.alias}
    for start, name in names.items():
        at = tokens.at(start)
        if at is None or any(span.first <= at < span.stop for span in covered):
            continue
        if any(
            clause in block.clauses
            and block.clauses[clause].first <= at < block.clauses[clause].stop
            and tokens.word(at) in aliases
            for clause in ("having", "order by")
        ):
            continue
        in_where = "where" in block.clauses and _inside(at, block.clauses["where"])
        stays = where is not None and any(_inside(at, span) for span in where.left)
        if in_where and not stays:
            continue
        found.labels.setdefault(name)
        found.mentioned.add(start)
        found.is_apart = False
    if where is not None:
        for span in where.applied:
            last = tokens.all[span.stop - 1]
            found.edits.append((tokens.all[span.first].start, last.end + 1, "TRUE"))
    elif "where" in block.clauses:
        whole = block.clauses["where"]
        first, last = tokens.all[whole.first - 1], tokens.all[whole.stop - 1]
        found.edits.append((first.start, last.end + 1, ""))
    kept = {axis for name in found.labels for axis in _column(scan, name).axes}
    found.is_apart = found.is_apart and len(kept) > 1 and not found.wanted
    if kept == set(range(len(scan.axes))) and scan.axes and not found.is_apart:
        raise Refusal("it mentions every dimension, so that there is nothing to reduce")
    return found


def _inside(at: int, span: TokenSpan) -> bool:
    return span.first <= at < span.stop


def _is_there(scan: Scan, name: str) -> bool:
    return name in scan.values or name in scan.coordinates


def _column(scan: Scan, name: str) -> Column:
    return scan.values.get(name) or scan.coordinates[name]


def _calls(tokens: Tokens, span: TokenSpan) -> Iterator[_Call]:
    stop = -1
    for name, number in tokens.calls(span):
        if name not in AGGREGATES or number < stop:
            continue
        close = tokens.closing(number + 1)
        first = number + 2
        is_distinct = tokens.kind(first) is TokenType.DISTINCT
        stop = close + 1
        if tokens.word(stop) == "filter" and tokens.kind(stop + 1) is TokenType.L_PAREN:
            stop = tokens.closing(stop + 1) + 1
        yield _Call(
            AGGREGATES[name],
            TokenSpan(number, close + 1),
            TokenSpan(first + is_distinct, close),
            is_distinct,
            TokenSpan(number, stop),
        )


def _rewrite_call(
    found: RewrittenSelect, tokens: Tokens, call: _Call, scan: Scan, names: Mapping[int, str]
) -> TokenSpan:
    """Rewrite one aggregate, and tell what of the text needs no columns any more."""
    inside = {
        start: name
        for start, name in names.items()
        if (at := tokens.at(start)) is not None and _inside(at, call.argument)
    }
    text = tokens.text_of(call.argument)
    data = {name for name in inside.values() if name in scan.values}
    if any(name in AGGREGATES for name, _ in tokens.calls(call.argument)):
        raise Refusal("it has an aggregate within another")
    extreme = _extreme_of_label(call, text, scan, inside) if found.with_extremes else None
    if extreme is not None:
        found.wanted.setdefault(extreme, set()).add(call.name)
        made = f"{MADE}{call.name}({found.column(column_name(call.name, extreme))}){FILTER}"
    elif not data:
        found.labels.update(dict.fromkeys(inside.values()))
        found.mentioned.update(inside)
        if call.is_distinct or call.name in (MIN, MAX):
            found.is_mixed = True
            axes = {axis for name in inside.values() for axis in _column(scan, name).axes}
            found.is_apart = found.is_apart and len(axes) <= 1
            return call.whole  # the same for a label, however many cells it has
        found.is_apart = found.is_apart and not inside
        present = _present(tokens, call, names, scan)
        if present is not None:
            found.wanted.setdefault(present, set()).add(COUNT)
            rows = found.column(column_name(COUNT, present))
            made = of_labels(found, call.name, text, rows).replace(FILTER, "")
            found.is_summed = True
            found.edits.append((*_places(tokens, call), made))
            return call.reach
        made = of_labels(found, call.name, text, found.column(ROWS))
    elif call.is_distinct:
        raise Refusal("tasks cannot count distinct values")
    elif len(data) > 1:
        raise Refusal(f"{text} is about more than one variable")
    else:
        made = of_values(found, call.name, text, data.pop(), scan, inside)
    condition = braced(tokens.text_of(TokenSpan(call.whole.stop, call.reach.stop)))
    made = made.replace(FILTER, f" {condition}" if condition else "")
    found.is_summed = True
    found.is_mixed = found.is_mixed or bool(condition)
    found.edits.append((*_places(tokens, call), made))
    return call.whole


def _extreme_of_label(call: _Call, text: str, scan: Scan, inside: Mapping[int, str]) -> str | None:
    """The coordinate of which an extreme is asked, where tasks can find it as that of a variable.

    Its axis need not be kept then.
    """
    names = [*inside.values()]
    if call.is_distinct or call.name not in (MIN, MAX) or len(names) != 1 or not is_column(text):
        return None
    column = scan.coordinates.get(names[0])
    is_plain = column is not None and len(column.axes) == 1 and can_compare(column.dtype)
    return names[0] if is_plain else None


def _places(tokens: Tokens, call: _Call) -> tuple[int, int]:
    return tokens.all[call.whole.first].start, tokens.all[call.reach.stop - 1].end + 1


def _present(tokens: Tokens, call: _Call, names: Mapping[int, str], scan: Scan) -> str | None:
    """The variable of a `FILTER (WHERE variable IS NOT NULL)`; None for other filters."""
    inside = TokenSpan(call.whole.stop + 3, call.reach.stop - 1)  # after FILTER ( WHERE, before )
    if not inside:
        return None
    own = [
        name
        for start, name in names.items()
        if (at := tokens.at(start)) is not None and _inside(at, inside)
    ]
    is_one = len(own) == 1 and own[0] in scan.values
    return own[0] if is_one and asks_presence(tokens.text_of(inside)) else None
