"""Rules for manifests: how arrays are split, and which manifests are preloaded."""

from __future__ import annotations

import pytest

from frazil.errors import ErrorKind, InvalidInputError
from frazil.model.config import (
    ManifestConfig,
    ManifestPreloadConfig,
    ManifestSplittingConfig,
    RepositoryConfig,
    should_preload,
    split_sizes,
)
from frazil.model.manifest_config import (
    UNSPLIT,
    ManifestPreloadCondition,
    ManifestSplitCondition,
    ManifestSplitDimCondition,
    SplitSizesDict,
)
from tests.unit.model.examples import rebuilt

Split = ManifestSplitCondition
Dim = ManifestSplitDimCondition
Preload = ManifestPreloadCondition


def _splitting(*rules: tuple[Split, list[tuple[object, int]]]) -> ManifestConfig:
    return ManifestConfig(splitting=ManifestSplittingConfig(rules))  # type: ignore[arg-type]


def test_arrays_are_not_split_by_default() -> None:
    assert split_sizes(None, "/a", None, (3, 4)) == (UNSPLIT, UNSPLIT)
    assert RepositoryConfig().split_sizes("/a", ["t", None], (3, 4)) == (UNSPLIT, UNSPLIT)


def test_the_first_rule_that_speaks_of_an_axis_wins() -> None:
    config = _splitting(
        (Split.name_matches("^temp"), [(Dim.DimensionName("time"), 12)]),
        (Split.AnyArray(), [(Dim.Axis(2), 7), (Dim.Any(), 5)]),
    )
    names = ["time", "lat", "lon"]
    assert split_sizes(config, "/g/temperature", names, (100, 9, 9)) == (12, 5, 7)
    assert split_sizes(config, "/temp/wind", names, (100, 9, 9)) == (5, 5, 7)
    assert split_sizes(config, "/g/temperature", None, (100, 9, 9)) == (5, 5, 7)


@pytest.mark.parametrize(
    ("condition", "path", "expected"),
    [
        (Split.path_matches("b/c"), "/a/b/c", True),
        (Split.path_matches("^b"), "/a/b", False),
        (Split.name_matches("a"), "/a/b", False),
        (Split.name_matches("^b$"), "/a/b", True),
        (Split.name_matches("("), "/(", False),
        (Split.path_matches("(?=a)"), "/a", False),
        (Split.path_matches(r"(.)\1"), "/aa", False),
        (Split.path_matches(r"a\z"), "/b/a", True),
        (Split.AnyArray() & Split.name_matches("x"), "/x", True),
        (Split.AnyArray() & Split.name_matches("x"), "/y", False),
        (Split.name_matches("x") | Split.name_matches("y"), "/y", True),
        (Split.or_conditions([]), "/a", False),
        (Split.and_conditions([]), "/a", True),
    ],
)
def test_conditions_search_like_the_official_package(
    condition: Split, path: str, expected: bool
) -> None:
    assert condition.matches(path) is expected


def test_a_split_size_of_zero_is_said_to_be_wrong() -> None:
    config = _splitting((Split.AnyArray(), [(Dim.Any(), 0)]))
    with pytest.raises(InvalidInputError) as caught:
        split_sizes(config, "/a", None, (3,))
    assert caught.value.kind is ErrorKind.INVALID_MANIFEST_SPLIT_INDEX


def test_splitting_goes_through_dictionaries_in_order() -> None:
    rules: SplitSizesDict = {
        Split.name_matches("a"): {Dim.Axis(0): 3, Dim.Any(): 4},
        Split.AnyArray(): {Dim.DimensionName("t"): 5},
    }
    config = ManifestSplittingConfig.from_dict(rules)
    assert config.to_dict() == rules
    assert list(config.to_dict()) == list(rules)
    assert rebuilt(config) == config


@pytest.mark.parametrize(
    ("path", "num_refs", "expected"),
    [
        ("/time", 10, True),
        ("/g/latitude", 1000, True),
        ("/g/lon", 1001, False),
        ("/level", 1, True),
        ("/temperature", 10, False),
        ("/time/values", 10, False),
    ],
)
def test_small_coordinates_are_preloaded_by_default(
    path: str, num_refs: int, expected: bool
) -> None:
    assert should_preload(ManifestPreloadConfig(), path, num_refs) is expected


def test_preload_conditions_combine() -> None:
    condition = Preload.num_refs(5, 10) & (Preload.name_matches("a") | Preload.false())
    config = ManifestPreloadConfig(preload_if=condition)
    assert should_preload(config, "/a", 5)
    assert should_preload(config, "/a", 9)
    assert not should_preload(config, "/a", 10)
    assert not should_preload(config, "/a", 4)
    assert not should_preload(config, "/b", 7)
    assert Preload.num_refs(None, None).matches("/", 0)
    assert rebuilt(condition) == condition
    with pytest.raises(TypeError):
        condition & Split.path_matches("x")  # type: ignore[operator]
