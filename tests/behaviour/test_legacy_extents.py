"""Which chunks a manifest covers is not defined by any text, so nothing is hidden by it."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import zarr

from frazil.errors import FormatError
from frazil.repository import Repository
from frazil.storage.memory import MemoryStorage
from frazil.upgrade import upgrade_older
from tests.support.seed_files import EXTENTS, G1, G2, G3, Array, Measure

GENERATIONS: dict[str, Any] = {"g1": G1, "g2": G2, "g3": G3}


def arrays(manifests: int = 1) -> list[Array]:
    line = np.arange(10, dtype=np.int32)
    plane = np.arange(48, dtype=np.int32).reshape(6, 8)
    sparse = np.arange(100, dtype=np.int32)
    absent = frozenset((n,) for n in range(20) if n not in (3, 4, 7, 11))
    return [
        Array("/line", line, (3,), manifests=manifests),
        Array("/plane", plane, (2, 3), absent=frozenset({(0, 1)}), manifests=manifests),
        Array("/one", line[:3], (3,)),
        Array("/sparse", sparse, (5,), absent=absent, manifests=manifests),
    ]


def seen(repository: Repository, made: list[Array]) -> dict[str, npt.NDArray[Any]]:
    group = zarr.open_group(repository.readonly_session("main").store, mode="r")
    found = {}
    for array in made:
        stored = group[array.path]
        assert isinstance(stored, zarr.Array)
        found[array.path] = np.asarray(stored[...])
        # One by one too: a single chunk is looked up on another way than many.
        for index in range(array.values.shape[0]):
            assert (np.asarray(stored[index]) == found[array.path][index]).all()
    return found


def check(repository: Repository, made: list[Array], changed: dict[str, Any] | None = None) -> None:
    now = seen(repository, made)
    for array in made:
        expected = (changed or {}).get(array.path, array.expected())
        assert now[array.path].tolist() == expected.tolist(), array.path


@pytest.mark.parametrize("manifests", [1, 2, 3])
@pytest.mark.parametrize("meaning", EXTENTS)
@pytest.mark.parametrize("generation", GENERATIONS)
def test_whatever_extents_mean_every_chunk_is_found(
    generation: str, meaning: str, manifests: int
) -> None:
    storage, made = MemoryStorage(), arrays(manifests)
    GENERATIONS[generation](extents=EXTENTS[meaning]).write(storage, made)
    check(Repository.open(storage), made)


@pytest.mark.parametrize("manifests", [1, 2])
@pytest.mark.parametrize("meaning", ["first and last", "first and after", "elements"])
@pytest.mark.parametrize("generation", GENERATIONS)
def test_writing_a_part_keeps_all_other_chunks(
    generation: str, meaning: str, manifests: int
) -> None:
    storage, made = MemoryStorage(), arrays(manifests)
    GENERATIONS[generation](extents=EXTENTS[meaning]).write(storage, made)
    changed = {array.path: array.expected() for array in made}
    for number in range(2):
        session = Repository.open(storage).writable_session("main")
        group = zarr.open_group(session.store)
        for array in made:
            changed[array.path][number] = 1000 + number
            group[array.path][number] = 1000 + number  # type: ignore[index]
        session.commit("a part")
        check(Repository.open(storage), made, changed)
    session = Repository.open(storage).writable_session("main")
    zarr.open_array(session.store, path="line", mode="r+").resize((13,))
    session.commit("longer")
    line = zarr.open_array(Repository.open(storage).readonly_session("main").store, path="line")
    assert np.asarray(line[...]).tolist() == [*changed["/line"].tolist(), -1, -1, -1]


@pytest.mark.parametrize("to", [1, 2])
@pytest.mark.parametrize("manifests", [1, 2])
@pytest.mark.parametrize("meaning", ["first and last", "first and after", "elements"])
@pytest.mark.parametrize("generation", GENERATIONS)
def test_upgrades_keep_all_chunks(generation: str, meaning: str, manifests: int, to: int) -> None:
    storage, made = MemoryStorage(), arrays(manifests)
    GENERATIONS[generation](extents=EXTENTS[meaning]).write(storage, made)
    upgrade_older(storage, to=to)
    check(Repository.open(storage), made)


def clash(coords: Any, array: Array) -> tuple[list[int], list[int]]:  # noqa: ANN401 - coordinates
    return [0] * len(array.grid), [*array.grid]


@pytest.mark.parametrize("measure", [clash, None])
@pytest.mark.parametrize("generation", GENERATIONS)
def test_two_references_for_one_chunk_are_told(generation: str, measure: Measure) -> None:
    """Taking one of them would be a guess."""

    class Doubled(Array):
        def parts(self) -> list[dict[tuple[int, ...], bytes]]:
            whole = self.stored()
            return [whole, {coords: bytes(len(data)) for coords, data in whole.items()}]

    storage = MemoryStorage()
    made = Doubled("/line", np.arange(10, dtype=np.int32), (3,))
    GENERATIONS[generation](extents=measure).write(storage, [made])
    repository = Repository.open(storage)
    with pytest.raises(FormatError, match=r"/line .*nothing tells which"):
        seen(repository, [made])
