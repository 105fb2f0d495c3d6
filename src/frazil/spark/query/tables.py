"""A Frazil table of a query: its columns, and requests to read some of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Final

from frazil.errors import NodeNotFoundError, invalid_option
from frazil.ids import child_path
from frazil.masking import MaskedRecord
from frazil.session import Session
from frazil.spark.location import (
    BranchTip,
    NamedTarget,
    Pinned,
    Tagged,
    open_pinned,
    reachable_target,
)
from frazil.spark.options.parsing import parse_request
from frazil.spark.options.table import OptionUse, ReadRequest
from frazil.spark.options.written import changed_options
from frazil.spark.query.names import ResolvedName
from frazil.spark.reading.aggregating import AggregateScan, make_aggregate_scan
from frazil.spark.reading.scan import Scan, make_scan
from frazil.spark.reading.variables import Group, TableVariable, load_group, with_texts
from frazil.spark.tables.metadata import TABLES
from frazil.spelling import meant, unknown
from frazil.urls import AsOf, NamedVersion, RepoUrl, VersionRef

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

_CHOOSING: Final = frozenset(
    {"branch", "tag", "snapshotid", "versionasof", "asoftimestamp", "timestampasof", "group"}
)
"""Options that say which version and group: found out once, and not asked again."""


@dataclass(frozen=True, repr=False)
class OpenTable(MaskedRecord):
    """A table at one snapshot: a group of variables, or a metadata table."""

    target: NamedTarget
    pinned: Pinned
    session: Session
    options: Mapping[str, str]
    """of the source, for access and decoding, as they were given"""
    request: ReadRequest
    """the same, parsed"""
    node: str
    metadata: str | None = None
    shown: str = field(default="")
    """its name in the query"""

    @cached_property
    def _contents(self) -> tuple[Group, str | None]:
        group, single = load_group(self.session, self.node)
        return (with_texts(group) if self.request.decode_cf else group), single

    @property
    def group(self) -> Group:
        """The variables of the group."""
        return self._contents[0]

    @property
    def path(self) -> str:
        """The URL for the source, at the snapshot that was found."""
        ref: VersionRef | None = NamedVersion(self.pinned.snapshot_id)
        if self.metadata is not None:  # some of them are about a branch
            ref = self.target.ref if isinstance(self.target.ref, NamedVersion | AsOf) else None
        place = str(RepoUrl(self.pinned.location.url, ref))
        place = place if "://" in place else place.replace("#", "%23")
        return f"{place}#{self.metadata or self.node}"

    def source_options(self, request: ReadRequest) -> dict[str, str]:
        """Options by which Spark's data source, which takes texts only, reads the same."""
        found = {**self.options, **changed_options(self.request, request)}
        if self.metadata is not None:
            match self.target.ref:
                case BranchTip(name):
                    found["branch"] = name
                case Tagged(name):
                    found["tag"] = name
        return found

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Every column that a query may name."""
        if self.metadata is not None:
            return tuple(TABLES[self.metadata].schema.fieldNames())
        group, single = self._contents
        if single is not None:
            dims = group.variables[single].dims
            fitting = [n for n, v in group.variables.items() if set(v.dims) <= set(dims)]
            return tuple(dict.fromkeys((*dims, single, *fitting)))
        dims = tuple(dim for each in group.variables.values() for dim in each.dims)
        return tuple(dict.fromkeys((*dims, *group.variables)))

    def find(self, name: str) -> str | None:
        """The column that a name means; Spark does not tell upper from lower case."""
        return meant(name, self.names)

    def variables(self, named: Iterable[str] | None) -> tuple[TableVariable, ...]:
        """The data variables whose cells are the rows: those that a query names, else all."""
        group, single = self._contents
        if single is not None:
            return (group.variables[single],)
        chosen = [name for name in group.data_names if named is not None and name in named]
        return tuple(group.variables[name] for name in chosen or group.data_names)

    def chosen(self, named: Iterable[str] | None) -> ReadRequest:
        """A request for the columns that a query names; None stands for all."""
        wanted = None if named is None else {*named}
        columns = tuple(name for name in self.names if wanted is not None and name in wanted)
        if self.metadata is not None:
            return replace(self.request, columns=columns) if columns else self.request
        variables = self.variables(wanted)
        if not variables:
            return self.request
        widest = max(variables, key=lambda each: len(each.dims))
        dims = set(zip(widest.dims, widest.shape, strict=True))
        found = replace(self.request, variables=tuple(each.name for each in variables))
        is_all = wanted is None or wanted.isdisjoint(self.group.data_names)
        covered = all(set(zip(v.dims, v.shape, strict=True)) <= dims for v in variables)
        if covered or not is_all:
            # Variables without all dimensions of the table are repeated along the others.
            found = replace(found, broadcast=True)
        if wanted is None:
            return found
        return replace(found, columns=columns or (self._counted(variables),))

    def _counted(self, variables: Sequence[TableVariable]) -> str:
        """A column for queries that only count rows: labels are cheaper than values."""
        dims = [dim for each in variables for dim in each.dims]
        return dims[-1] if dims else variables[0].name

    def scan(self, request: ReadRequest) -> Scan:
        """What a request reads."""
        target = NamedTarget(self.target.location, None, None, self.node)
        return make_scan(self.session, target, self.pinned, request)

    def aggregate_scan(self, request: ReadRequest) -> AggregateScan:
        """The same for `layout=aggregates`."""
        target = NamedTarget(self.target.location, None, None, self.node)
        return make_aggregate_scan(self.session, target, self.pinned, request)

    def schema(self, request: ReadRequest) -> StructType:
        """The columns and types of a read."""
        if self.metadata is None:
            return self.scan(request).schema
        schema, wanted = TABLES[self.metadata].schema, request.columns
        from pyspark.sql.types import StructType

        return schema if wanted is None else StructType([schema[name] for name in wanted])


def open_table(place: ResolvedName, options: Mapping[str, str], shown: str = "") -> OpenTable:
    """Open what a name means.

    Raises:
        FrazilError: there is no such repository, version, group or table.
    """
    given = {**place.options, **options}
    request = parse_request(ReadRequest, {"path": place.url, **given}, OptionUse.READ)
    target = reachable_target(request)
    repository = target.location.open()
    pinned = target.pin(repository)
    session = open_pinned(pinned, repository)
    kept = {name: value for name, value in given.items() if _plain(name) not in _CHOOSING}
    node, table = _node(session, target, place.below)
    if table is not None and table not in TABLES:
        raise invalid_option(unknown("metadata table", table, TABLES))
    own = parse_request(ReadRequest, kept, OptionUse.READ)
    return OpenTable(target, pinned, session, kept, own, node, table, shown)


def _node(session: Session, target: NamedTarget, below: Sequence[str]) -> tuple[str, str | None]:
    """The node below a place, and the metadata table if that is what the last name means."""
    node, table = target.node or "/", target.table
    for number, name in enumerate(below):
        children = [*session.state.tree.children(node)]
        found = meant(name, children)
        if found is None:
            is_last = number == len(below) - 1
            if is_last and name.lower() in TABLES:
                return node, name.lower()
            choices = [*children, *TABLES] if is_last else children
            raise NodeNotFoundError(unknown("group or table", name, choices, f" in {node!r}"))
        node = child_path(node, found)
    return node, table


def _plain(name: str) -> str:
    return name.lower().replace("-", "").replace("_", "")
