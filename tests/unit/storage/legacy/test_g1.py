"""No text says how G1 encodes chunk coordinates: it is found out, or refused, never guessed."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zarr

from frazil.errors import FormatError
from frazil.formats.legacy.g1_schemas import COORD_KEY
from frazil.repository import Repository
from frazil.storage.memory import MemoryStorage
from frazil.transaction.opened import context_of
from frazil.upgrade import upgrade_older
from tests.support.seed_files import COORDS, G1, Array, Encode
from tests.unit.formats.legacy.samples import encode_coord

ENCODINGS: dict[str, Encode] = {**COORDS, "ovi1": encode_coord}


def line(chunks: int = 5, absent: frozenset[tuple[int, ...]] = frozenset()) -> Array:
    return Array("/line", np.arange(2 * chunks, dtype=np.int32), (2,), absent=absent)


def plane() -> Array:
    values = np.arange(63, dtype=np.int32).reshape(7, 9)
    return Array("/plane", values, (2, 3), absent=frozenset({(1, 2)}))


def cube() -> Array:
    return Array("/cube", np.arange(24, dtype=np.int32).reshape(2, 3, 4), (1, 1, 2))


def scalar() -> Array:
    return Array("/scalar", np.array(7, np.int32), ())


def check(repository: Repository, arrays: list[Array], snapshot: str | None = None) -> None:
    at = snapshot or repository.lookup_branch("main")
    group = zarr.open_group(repository.readonly_session(snapshot_id=at).store, mode="r")
    for array in arrays:
        stored = group[array.path]
        assert isinstance(stored, zarr.Array)
        assert np.asarray(stored[...]).tolist() == array.expected().tolist(), array.path


@pytest.mark.parametrize("one_inventory", [True, False])
@pytest.mark.parametrize("encoding", ENCODINGS)
def test_every_encoding_that_makes_sense_alone_is_read(encoding: str, one_inventory: bool) -> None:
    storage, arrays = MemoryStorage(), [line(), plane(), cube(), scalar()]
    G1(coords=ENCODINGS[encoding], one_inventory=one_inventory).write(storage, arrays)
    check(Repository.open(storage), arrays)
    session = Repository.open(storage).writable_session("main")
    zarr.open_group(session.store)["plane"][0, 0] = 0  # type: ignore[index]
    session.commit("a part")
    check(Repository.open(storage), arrays)
    upgrade_older(storage)
    check(Repository.open(storage), arrays)


@pytest.mark.parametrize("chunks", [130, 300])
@pytest.mark.parametrize("encoding", [name for name in ENCODINGS if name != "u8"])
def test_long_axes_are_told_by_the_grid(encoding: str, chunks: int) -> None:
    """From 128 chunks on, encodings of several lengths differ in their bytes."""
    storage, arrays = MemoryStorage(), [line(chunks)]
    G1(coords=ENCODINGS[encoding]).write(storage, arrays)
    check(Repository.open(storage), arrays)


@pytest.mark.parametrize("encoding", ["be16", "le16"])
@pytest.mark.parametrize("first", ["one", "both"])
def test_who_reads_first_decides_nothing(encoding: str, first: str) -> None:
    """One snapshot alone knows only some of the arrays that an inventory has references of."""
    storage, both = MemoryStorage(), [line(), plane()]
    ids = G1(coords=ENCODINGS[encoding], one_inventory=True).write(storage, both[:1], both)
    shared = [item.key for item in storage.list("i/")]
    # The first snapshot names the inventory of the second, as writers do who add to a file.
    sizes = {key: len(storage.get(key) or b"") for key in shared}
    small, large = sorted(shared, key=sizes.__getitem__)
    storage.put(small, storage.get(large) or b"")
    repository = Repository.open(storage)
    order = [(ids[1], both[:1]), (ids[2], both)]
    for snapshot, arrays in order if first == "one" else order[::-1]:
        check(repository, arrays, snapshot)


def test_a_worker_that_has_read_no_snapshot_sees_the_same() -> None:
    storage, arrays = MemoryStorage(), [line(), plane()]
    G1(coords=ENCODINGS["le32"]).write(storage, arrays)
    repository = Repository.open(storage)
    snapshot = context_of(repository).assets.snapshot(
        context_of(repository).refs.branch_tip("main")
    )
    elsewhere = context_of(Repository.open(storage)).assets
    for file in snapshot.manifest_files:
        mine = dict(context_of(repository).assets.manifest(file.id, 0).tables())
        other = dict(elsewhere.manifest(file.id, 0).tables())
        assert mine.keys() == other.keys()
        for node, table in mine.items():
            assert table.coords.tolist() == other[node].coords.tolist()


def test_what_cannot_be_decided_is_told() -> None:
    """Of 300 chunks only two are there: they may be 0 and 1, or 0 and 256."""
    absent = frozenset((n,) for n in range(300) if n not in (0, 1))
    storage = MemoryStorage()
    G1(coords=ENCODINGS["be16"]).write(storage, [line(300, absent)])
    session = Repository.open(storage).readonly_session("main")
    with pytest.raises(FormatError, match=r"undecided.* be16 and as le16"):
        zarr.open_array(session.store, path="line", mode="r")[...]


def test_coordinates_of_another_kind_are_told() -> None:
    storage = MemoryStorage()
    G1(coords=lambda coords: "/".join(map(str, coords)).encode()).write(storage, [line(), plane()])
    session = Repository.open(storage).readonly_session("main")
    for path in ("line", "plane"):
        with pytest.raises(FormatError, match="undecided"):
            zarr.open_array(session.store, path=path, mode="r")[...]


def test_an_array_whose_references_were_made_for_another_rank_does_not_read_as_empty() -> None:
    """A file that names how coordinates are encoded is believed, and may be wrong."""
    storage = MemoryStorage()
    G1(coords=lambda coords: encode_coord((*coords, 0))).write(storage, [line(), plane()])
    for key in [item.key for item in storage.list("i/")]:
        table = pq.read_table(pa.BufferReader(storage.get(key)))
        named = {**(table.schema.metadata or {}), COORD_KEY: b"ovi1"}
        pq.write_table(table.replace_schema_metadata(named), sink := pa.BufferOutputStream())
        storage.put(key, sink.getvalue().to_pybytes())
    session = Repository.open(storage).readonly_session("main")
    for path in ("line", "plane"):
        with pytest.raises(FormatError, match="another rank"):
            zarr.open_array(session.store, path=path, mode="r")[...]
