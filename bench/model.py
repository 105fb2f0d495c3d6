"""What a benchmark is made of: places, datasets, contestants, cases, and what came out.

A *case* is one piece of work; its *contestants* do it, each in its own way, in turn. Several
contestants may read the same *dataset*. A *target* compares two contestants of a case.
Everything here can be imported without Frazil, for one contestant lives where it is absent.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import TypeAlias


class Party(StrEnum):
    """Whose code does the work."""

    FRAZIL = "frazil"
    ICECHUNK2 = "icechunk 2.3.0"
    ICECHUNK1 = "icechunk 1.1.21"
    ZARR = "zarr-python"
    TENSORSTORE = "tensorstore"
    PARQUET = "Spark on Parquet"
    XARRAY_SQL = "xarray-sql"
    DASK = "dask + icechunk 2.3.0"
    LIMIT = "limit"


class Where(StrEnum):
    """What the objects are kept in."""

    LOCAL = "local disk"
    S3 = "S3"
    SLOW_S3 = "S3 + 30 ms"


class Unit(StrEnum):
    """What is compared."""

    SECONDS = "s"
    BYTES = "B"
    PER_SECOND = "1/s"


@dataclass(frozen=True, slots=True)
class Size:
    """How much work; `full` is what the targets are stated for."""

    name: str
    small_chunks: tuple[int, int]
    """the grid of 16 KiB chunks"""
    tiny_chunks: tuple[int, int]
    """the grid of 1 KiB chunks"""
    large_chunks: tuple[int, int]
    """the grid of 4 MiB chunks"""
    references: tuple[int, int]
    """the grid of references, in rows that each name one file"""
    many_references: tuple[int, int]
    """the grid in which a single chunk changes"""
    split: int
    """rows of a grid of references per manifest, where they are split"""
    lookups: int
    snapshots: int
    garbage: int
    """chunk objects for garbage collection, a third of them dead"""
    reference_growth: tuple[int, ...]
    snapshot_growth: tuple[int, ...]
    node_growth: tuple[int, ...]
    writer_growth: tuple[int, ...]
    commits: int
    """of all writers together, per measurement"""
    peer_references: int
    """the largest unsplit commit asked of the official packages"""


SMALL = Size(
    name="small",
    small_chunks=(16, 16),
    tiny_chunks=(32, 32),
    large_chunks=(4, 2),
    references=(100, 1000),
    many_references=(500, 1000),
    split=100,
    lookups=10_000,
    snapshots=100,
    garbage=1_500,
    reference_growth=(10_000, 100_000),
    snapshot_growth=(10, 100),
    node_growth=(10, 100, 1_000),
    writer_growth=(1, 2, 4),
    commits=16,
    peer_references=100_000,
)
FULL = Size(
    name="full",
    small_chunks=(64, 64),
    tiny_chunks=(320, 320),
    large_chunks=(16, 4),
    references=(1000, 1000),
    many_references=(5000, 1000),
    split=100,
    lookups=100_000,
    snapshots=2_000,
    garbage=75_000,
    reference_growth=(10_000, 100_000, 1_000_000, 10_000_000),
    snapshot_growth=(10, 100, 1_000, 10_000, 100_000),
    node_growth=(10, 100, 1_000, 10_000, 100_000),
    writer_growth=(1, 2, 4, 8, 16),
    commits=64,
    peer_references=1_000_000,
)
SIZES = {size.name: size for size in (SMALL, FULL)}


@dataclass(frozen=True, slots=True)
class Place:
    """A folder, or a prefix on an S3 server."""

    path: str
    endpoint: str = ""
    bucket: str = ""

    @property
    def is_local(self) -> bool:
        """Whether this is a folder."""
        return not self.endpoint

    @property
    def folder(self) -> Path:
        """The folder."""
        assert self.is_local, "not a local place"
        return Path(self.path)

    def below(self, name: str) -> Place:
        """A place inside this one."""
        return replace(self, path=f"{self.path}/{name}")

    def plain(self) -> dict[str, str]:
        """The same for another process."""
        return {"path": self.path, "endpoint": self.endpoint, "bucket": self.bucket}


class Timed(float):
    """Seconds that an action measured itself, where only a part of it counts."""


Action: TypeAlias = Callable[[], object]
Prepare: TypeAlias = Callable[[Place], None]
Make: TypeAlias = Callable[[Place, Place], Action]
"""from the place of the dataset and an empty one to what is timed"""


@dataclass(frozen=True, slots=True)
class Dataset:
    """Something to read, made once and shared by all contestants that name it."""

    key: str
    party: Party
    prepare: Prepare


@dataclass(frozen=True, slots=True)
class Contestant:
    """One way to do the work of a case."""

    name: str
    party: Party
    make: Make
    data: Dataset | None = None


@dataclass(frozen=True, slots=True)
class Target:
    """How two contestants should compare: the ratio of the second's figure to the first's."""

    contestant: str
    against: str
    must: float | None = None
    goal: float | None = None


@dataclass(frozen=True, slots=True)
class Case:
    """One piece of work and all who do it."""

    key: str
    title: str
    theme: str
    contestants: tuple[Contestant, ...]
    targets: tuple[Target, ...] = ()
    where: Where = Where.LOCAL
    unit: Unit = Unit.SECONDS
    check: Callable[[object], None] | None = None
    """looks at what the action returned, outside of the time"""
    warm_up: bool = True
    memory: bool = False
    """whether each contestant also runs once in a fresh process to see its memory"""
    amounts: tuple[tuple[str, float], ...] = ()
    """how much work it is, by what is counted: the report tells how much of it is done a second"""

    def without(self, parties: Collection[Party]) -> Case:
        """The same case when some parties are not there."""
        present = tuple(each for each in self.contestants if each.party not in parties)
        return replace(self, contestants=present)


@dataclass(slots=True)
class Figures:
    """What one contestant did."""

    name: str
    party: Party
    values: list[float] = field(default_factory=list)
    requests: dict[str, int] | None = None
    """of the last round, counted between it and the server"""
    base_bytes: int | None = None
    peak_bytes: int | None = None
    failure: str = ""


@dataclass(slots=True)
class Curve:
    """How something grows: per series one list of (x, values)."""

    key: str
    title: str
    x: str
    unit: Unit
    series: dict[str, list[tuple[int, list[float]]]] = field(default_factory=dict)
    remarks: dict[str, list[str]] = field(default_factory=dict)

    def add(self, series: str, x: int, values: list[float]) -> None:
        """Note a point."""
        self.series.setdefault(series, []).append((x, values))
