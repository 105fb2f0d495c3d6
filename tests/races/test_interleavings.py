"""Whatever another actor does at any storage call of an operation, nothing acknowledged is lost.

`actors.py` has the table of operations and competitors, `judging.py` what must hold afterwards.
A few calls of every pair are tried always, all of them by `make soak`.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from tests.races.actors import COMPETITORS, OPERATIONS
from tests.races.interleaving import Case, calls_of, check, every_case, pairs, telling_call
from tests.races.known import KNOWN, KNOWN_PAIRS
from tests.races.worlds import SPECS
from tests.support.soaking import Soak

SAMPLED = ("v1", "v2")


def is_known(case: Case) -> bool:
    """Whether a case belongs to a pair that is known to fail."""
    return (case.kind, case.operation, case.competitor) in KNOWN_PAIRS


def some_of(operation: str) -> Iterator[Case]:
    """One competitor of every fourth kind, in the generations by turns.

    It comes where it tells most, right before what cannot be taken back; a few come anywhere.
    """
    turn = [*OPERATIONS].index(operation)
    possible = [
        [
            (kind, competitor)
            for kind in SAMPLED
            for competitor in several
            if (operation, competitor) in pairs(kind)
        ]
        for several in [*COMPETITORS.values(), (operation,)]
    ]
    for number, meets in enumerate(filter(None, possible), turn):
        if number % 4 == 0:
            kind, competitor = meets[number // 4 % len(meets)]
            call = telling_call(kind, operation)
            if (number // 4) % 4 == 3:
                numbers = random.Random(f"{kind} {operation} {competitor}")
                call = numbers.randint(1, calls_of(kind, operation))
            yield Case(kind, operation, competitor, call)


def assert_good(*cases: Case) -> None:
    bad = [f"{case} {each}" for case in cases if not is_known(case) for each in check(case)]
    assert not bad, "\n".join(bad)


@pytest.mark.parametrize("operation", OPERATIONS)
def test_nothing_is_lost_when_others_come_in_between(operation: str) -> None:
    assert_good(*some_of(operation))


@pytest.mark.parametrize("kind", [kind for kind in SPECS if kind not in SAMPLED])
def test_nothing_is_lost_in_older_and_remote_repositories(kind: str) -> None:
    numbers = random.Random(kind)
    assert_good(
        *(
            Case(kind, operation, competitor, numbers.randint(1, calls_of(kind, operation)))
            for operation, competitor in numbers.sample([*pairs(kind)], 4)
        )
    )


@pytest.mark.parametrize("kind", SAMPLED)
def test_an_analysis_does_not_tell_what_was_erased_meanwhile(kind: str) -> None:
    last = calls_of(kind, "analyze")
    assert_good(*(Case(kind, "analyze", "purge", last - back) for back in range(6)))


@pytest.mark.parametrize("kind", SAMPLED)
def test_what_is_put_beside_a_table_is_as_long_as_that(kind: str) -> None:
    call = telling_call(kind, "xarray-beside")
    assert_good(Case(kind, "xarray-beside", "sink-append", call))


@pytest.mark.parametrize("kind", SAMPLED)
def test_what_is_erased_meanwhile_is_not_elsewhere_either(kind: str) -> None:
    last = calls_of(kind, "rechunk-elsewhere")
    assert_good(*(Case(kind, "rechunk-elsewhere", "purge", last - back) for back in range(6)))


@pytest.mark.parametrize(
    "case",
    [
        "v1/purge-region/upgrade/11",
        "v1/purge-region/purge-region/30",
        "v1/flush/purge/10",
        "v1/purge/flush/126",
        "g3/upgrade/delete-branch+collect/195",
        "v1/expire-refs/rebuild-branch/38",
        "v1/expire-refs/upgrade/5",
        "v1/restore+branch/purge/23",
    ],
)
def test_what_once_failed_does_not_again(case: str) -> None:
    assert_good(Case.parse(case))


@pytest.mark.parametrize(
    "case", [pytest.param(case, marks=pytest.mark.xfail(reason=why)) for case, why in KNOWN.items()]
)
def test_what_is_known_to_fail(case: str) -> None:
    assert not check(Case.parse(case))


@pytest.mark.soak
@pytest.mark.timeout(0)
def test_nothing_is_lost_whenever_others_come_in_between(soak: Soak) -> None:
    cases = [str(case) for case in every_case() if not is_known(case)]
    random.Random(soak.seed).shuffle(cases)
    soak.run(cases, lambda case: assert_good(Case.parse(case)))
