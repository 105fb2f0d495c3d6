"""What is known of a dialect before any of its files is read."""

from __future__ import annotations

import pytest

from frazil.formats.legacy.dialects import LOGGED, SEED_DIALECT, Dialect, LegacyGeneration

FIRST_LOGGED = Dialect.G3B


@pytest.mark.parametrize(
    ("generation", "dialects"),
    [
        (LegacyGeneration.G1, (Dialect.G1, Dialect.G1_LIBRARY)),
        (LegacyGeneration.G2, (Dialect.G2_JSON, Dialect.G2_MIXED, Dialect.G2_NODES)),
        (LegacyGeneration.G3, (Dialect.G3_UNRELEASED, Dialect.G3_SEED, Dialect.G3A, Dialect.G3I)),
    ],
)
def test_names_tell_the_generation(
    generation: LegacyGeneration, dialects: tuple[Dialect, ...]
) -> None:
    assert {dialect.generation for dialect in dialects} == {generation}


@pytest.mark.parametrize("generation", LegacyGeneration)
def test_new_repositories_are_made_in_a_dialect_that_can_be_written(
    generation: LegacyGeneration,
) -> None:
    seed = SEED_DIALECT[generation]
    assert seed.is_writable
    assert seed.generation is generation


def test_random_ids_of_nodes_came_together_with_logs() -> None:
    for dialect in Dialect:
        assert dialect.has_logs == (not dialect.has_numbered_nodes) == (dialect in LOGGED)
    assert not Dialect.G3A.has_logs
    assert not Dialect.G3_UNRELEASED.has_logs
    assert FIRST_LOGGED.has_logs


def test_checksums_came_after_logs() -> None:
    assert not FIRST_LOGGED.has_checksums
    assert Dialect.G3C.has_checksums
    assert all(dialect.has_logs for dialect in Dialect if dialect.has_checksums)


def test_only_two_dialects_keep_attributes_as_json() -> None:
    assert {dialect for dialect in Dialect if dialect.is_json} == {Dialect.G1, Dialect.G2_JSON}
