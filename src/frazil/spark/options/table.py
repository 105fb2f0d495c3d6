"""What a read or a write asks for: one record each, whose fields are the options of the source.

A field says what its option means; its name and type say how it is written and read. Both Iceberg's
and Delta's spellings are there. Three families have free names: `storage.*` (arguments of the
storage), `virtual.*` (credentials of virtual chunk containers) and `snapshot-property.*`
(metadata of a commit).
"""

# ruff: noqa: RUF009  (what is called here makes fields)
from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import Field, dataclass, field, fields
from datetime import datetime
from enum import Flag, auto
from functools import partial
from typing import Any, Final

from frazil import texts
from frazil.masking import MaskedRecord
from frazil.spark.options.labels import Isel, Lists, Sel, parse_isel, parse_lists, parse_sel
from frazil.spark.reading.where import Predicate, parse_predicate
from frazil.texts import Compressor

STORAGE: Final = "storage."
VIRTUAL: Final = "virtual."
PROPERTY: Final = "snapshot-property."
FAMILIES: Final = {
    STORAGE: "arguments of the storage: storage.region, storage.endpoint_url, …",
    VIRTUAL: "credentials for virtual chunk containers: virtual.access_key_id, …",
    PROPERTY: "metadata of the commit: snapshot-property.author, …",
}


class OptionUse(Flag):
    """What an option is good for."""

    READ = auto()
    WRITE = auto()
    STREAM_READ = auto()
    STREAM_WRITE = auto()
    ANY = READ | WRITE | STREAM_READ | STREAM_WRITE


_READING: Final = OptionUse.READ | OptionUse.STREAM_READ
_WRITING: Final = OptionUse.WRITE | OptionUse.STREAM_WRITE
_STREAMS: Final = OptionUse.STREAM_WRITE | OptionUse.STREAM_READ


@dataclass(frozen=True, slots=True)
class Option:
    """One option: how it is written, how its text is read, and what it means."""

    name: str
    parse: Callable[[str], Any]
    meaning: str
    use: OptionUse
    aliases: tuple[str, ...]
    field: str
    """of the records that hold it"""

    @property
    def spellings(self) -> tuple[str, ...]:
        """All names of the option."""
        return (self.name, *self.aliases)


_PARSERS: Final[dict[str, Callable[[str], Any]]] = {
    "str": texts.text,
    "bool": texts.flag,
    "int": texts.count,
    "datetime": texts.moment,
    "tuple[str, ...]": texts.names,
    "Mapping[str, int]": texts.lengths,
    "Mapping[str, str]": texts.settings,
    "Mapping[str, Any]": texts.documents,
    "Any": texts.document,
    "Compressor": texts.compressor,
    "Predicate": parse_predicate,
    "Sel": parse_sel,
    "Isel": parse_isel,
    "Lists": parse_lists,
}
"""How texts are read, by what the annotation of a field says."""


def option(
    meaning: str,
    *,
    name: str | None = None,
    parse: Callable[[str], Any] | None = None,
    choices: tuple[str, ...] = (),
    use: OptionUse = OptionUse.ANY,
    aliases: tuple[str, ...] = (),
    default: object = None,
) -> Any:  # noqa: ANN401  (a field of the type that its annotation says)
    """A field that is an option: by default of the field's name, read as its type says.

    Of some `choices` the first is the default.
    """
    if choices:
        parse, default = texts.one_of(*choices), choices[0]
    about = {"name": name, "parse": parse, "meaning": meaning, "use": use, "aliases": aliases}
    return field(default=default, metadata=about)


_reads: Final = partial(option, use=_READING)
_writes: Final = partial(option, use=_WRITING)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class RepositoryRequest(MaskedRecord):
    """Which repository and version, and with what access."""

    path: str = option("where the repository is; what `load` and `save` are given", default="")
    group: str | None = option("path of the group to read or write; the root by default")
    branch: str | None = option("the branch to read, or to commit to")
    tag: str | None = _reads("the tag to read")
    snapshot_id: str | None = _reads(
        "the snapshot to read; the beginning of an id will do", aliases=("versionAsOf",)
    )
    as_of: datetime | None = _reads(
        "read what the branch was at this time: text (UTC) or milliseconds since 1970",
        name="as-of-timestamp",
        aliases=("timestampAsOf",),
    )
    decode_cf: bool = option(
        "whether to apply CF conventions: times, scale and offset, fill values (default true)",
        name="decode_cf",
        default=True,
    )
    authorize: tuple[str, ...] = option(
        "prefixes of virtual chunk containers that may be read, with commas between them; "
        "`=anonymous` after one asks without credentials, `=https://host` allows to send them to "
        "that address, where the repository's own configuration names it",
        name="authorize-virtual-chunk-access",
        aliases=("authorize",),
        default=(),
    )
    store_root: str | None = _reads(
        "where the files of a repository of generation g1 are, if its state file puts them "
        "elsewhere; must be the same place, and is read without credentials"
    )
    checkpoint: str | None = option(
        "where Spark keeps the state of a stream, and the id of the query that names the series of "
        "writes by default",
        name="checkpointLocation",
        use=_STREAMS,
    )
    query_name: str | None = option("name of the stream for Spark", name="queryName", use=_STREAMS)
    storage: Mapping[str, str] = field(default_factory=dict)
    virtual: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class ReadRequest(RepositoryRequest):
    """What to read."""

    variables: tuple[str, ...] | None = _reads("data variables to read; they share dimensions")
    columns: tuple[str, ...] | None = _reads("columns to read, in this order")
    where: Predicate | None = _reads(
        "condition on coordinates in SQL; chunks outside it are not fetched"
    )
    value_where: Predicate | None = _reads(
        "condition on values of the chosen variables in SQL; cells where it does not hold give no "
        "rows",
        use=OptionUse.READ,
    )
    sel: Sel | None = _reads("labels to read: `time=2024-05, lat=10:20`; both ends count")
    isel: Isel | None = _reads("positions to read: `time=0:10, lat=[3, 5], lon=[0:4, 8]`")
    layout: str = _reads(
        "`cells`: a row per cell; `lines`: a row per line along the last dimension, with arrays; "
        "`chunks`: a row per chunk; `aggregates`: a row per label of `columns` and part of the "
        "table, with `aggregates`",
        choices=("cells", "chunks", "lines", "aggregates"),
    )
    aggregates: Lists | None = _reads(
        "with `layout=aggregates`: what to compute of each variable over the dimensions that "
        "`columns` do not have: `t2m=[count, sum, min, max, squares]`",
        use=OptionUse.READ,
    )
    broadcast: bool = _reads(
        "whether variables may lack dimensions of others, along which their values are repeated "
        "(default false)",
        use=OptionUse.READ,
        default=False,
    )
    values: str = _reads(
        "with `layout=chunks`: values as an array (default) or as little-endian bytes",
        choices=("array", "binary"),
    )
    with_coordinates: bool = _reads(
        "whether auxiliary coordinates, such as latitudes of two dimensions, are columns too "
        "(default false); `columns` and `where` may name them in any case",
        default=False,
    )
    decode_times: bool = _reads(
        "whether numbers with units of times become times (default true); masks are applied anyway",
        name="decode_times",
        default=True,
    )
    other_calendars: str = _reads(
        "times in calendars without timestamps, and those counted from a date before 1582-10-15 in"
        " the standard calendar or before year 1: refuse what does not fit (default) or give all of"
        " them as text",
        choices=("error", "string"),
    )
    timestamps: str = _reads(
        "times as TIMESTAMP_NTZ, the same everywhere (default), or as TIMESTAMP, instants in UTC",
        choices=("ntz", "utc"),
    )
    split_size: int | None = _reads(
        "decoded bytes for each partition, as in 64m (default 64 MiB); a letter alone and MiB are "
        "powers of 1024, MB is one of 1000",
        parse=texts.size,
    )
    chunks_per_partition: int | None = _reads("chunks for each partition, instead of `split-size`")
    max_partitions: int = _reads("largest number of partitions (default 10000)", default=10_000)
    start_snapshot: str | None = _reads(
        "give what changed: the snapshot after which changes count; streams take `latest`",
        name="start-snapshot-id",
    )
    starting_version: str | None = _reads(
        "give what changed: the first snapshot whose changes count; streams take `latest`",
        name="startingVersion",
    )
    end_snapshot: str | None = _reads(
        "with a beginning: the last snapshot whose changes count",
        name="end-snapshot-id",
        use=OptionUse.READ,
        aliases=("endingVersion",),
    )
    stream_from: datetime | None = _reads(
        "changes count that were committed at this time or later",
        name="stream-from-timestamp",
        aliases=("startingTimestamp",),
    )
    change_feed: bool = _reads(
        "with a beginning: give what each commit did to cells, with the columns `_change_type` "
        "(insert, update_preimage, update_postimage, delete), `_commit_version` and "
        "`_commit_timestamp`; a cell without values counts as not there (default false)",
        name="readChangeFeed",
        use=OptionUse.READ,
        default=False,
    )
    skip_changes: bool = _reads(
        "whether only cells come that were not there before, and none that commits have changed "
        "(default false)",
        name="skipChangeCommits",
        aliases=("streaming-skip-overwrite-snapshots",),
        default=False,
    )
    ignore_deletes: bool = _reads(
        "may be true only: cells and arrays that are gone give no rows, and no error",
        parse=texts.always,
        name="ignoreDeletes",
        aliases=("streaming-skip-delete-snapshots",),
        default=False,
    )
    max_chunks: int | None = _reads(
        "chunks, or blocks of chunks, for each micro-batch; a step at least is read",
        name="streaming-max-files-per-micro-batch",
        use=OptionUse.STREAM_READ,
        aliases=("maxFilesPerTrigger",),
    )
    max_rows: int | None = _reads(
        "cells of changed chunks for each micro-batch; a step at least is read",
        name="streaming-max-rows-per-micro-batch",
        use=OptionUse.STREAM_READ,
        aliases=("maxRowsPerTrigger",),
    )
    max_bytes: int | None = _reads(
        "decoded bytes of changed chunks for each micro-batch; a step at least is read",
        parse=texts.size,
        name="streaming-max-bytes-per-micro-batch",
        use=OptionUse.STREAM_READ,
        aliases=("maxBytesPerTrigger",),
    )


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class WriteRequest(RepositoryRequest):
    """What to write, and how."""

    dims: tuple[str, ...] | None = _writes("columns that are dimensions of new arrays, in order")
    append_dim: str | None = _writes(
        "the dimension that new labels may extend; elsewhere rows must have labels that are there"
    )
    region: Isel | None = _writes(
        "with mode overwrite: positions to replace, as for `isel`", use=OptionUse.WRITE
    )
    replace_where: Predicate | None = _writes(
        "with mode overwrite: which cells to replace, as conditions on coordinates of one "
        "dimension each, joined by AND",
        name="replaceWhere",
        use=OptionUse.WRITE,
    )
    duplicates: str = _writes(
        "several rows for one cell: refuse (default), or take the first or last of the DataFrame",
        choices=("error", "first", "last"),
    )
    statistics: bool = _writes(
        "whether count, extremes and sum of the chunks that are written are kept, for queries that "
        "can do without reading them (default false)",
        default=False,
    )
    chunks: Mapping[str, int] | None = _writes(
        "chunk lengths of new arrays: `time=24, lat=-1` (-1 for all of it), or one for all"
    )
    shards: Mapping[str, int] | None = _writes(
        "shard lengths of new arrays, multiples of those of chunks", parse=texts.counts
    )
    dtype: Mapping[str, str] | None = _writes("types of new arrays: `t2m=float32`, or one for all")
    fill_value: Mapping[str, str] | None = _writes(
        "what stands for NULL in new arrays: `n=-1`, or one for all"
    )
    compressor: Compressor | None = _writes(
        "of new arrays: zstd (default), `zstd:9`, `gzip:5`, `blosc:lz4:5` or none"
    )
    checksum: bool = _writes(
        "whether chunks of new arrays end in a CRC-32C (default false)", default=False
    )
    codecs: Any = _writes("codecs of new arrays, as Zarr's JSON list")
    attributes: Mapping[str, Any] | None = _writes(
        "attributes of new arrays as JSON by name; CF encoding follows them"
    )
    like: str | None = _writes(
        "a repository, group or array (`URL[@version][#/group]`): new arrays get the types, "
        "attributes, fill values and chunks of those of the same names there, coordinates included"
    )
    coords: Mapping[str, Any] | None = _writes(
        "labels of new dimensions as JSON lists by name; else those of the rows, in order"
    )
    merge_schema: bool = _writes(
        "whether unknown columns become new arrays (default false)", default=False
    )
    message: str | None = _writes("message of the commit", aliases=("userMetadata",))
    txn_app: str | None = _writes(
        "name of a series of writes; with `txnVersion` one is ignored that was committed before",
        name="txnAppId",
    )
    txn_version: int | None = _writes(
        "number of a write in the series `txnAppId`; it must grow",
        parse=texts.number,
        name="txnVersion",
        use=OptionUse.WRITE,
    )
    rebase: str = _writes(
        "when others committed meanwhile: go on top unless both changed the same (detect, "
        "default), give up (none), or for chunks that both wrote keep ours or theirs",
        choices=("detect", "none", "ours", "theirs"),
    )
    if_exists: str = _writes(
        "when the variables are there already: write (default), refuse, or do nothing",
        choices=("write", "error", "ignore"),
        name="ifExists",
        use=OptionUse.WRITE,
    )
    max_driver_bytes: int = _writes(
        "rows that `df.write` and streams may put together in one process, since no task has all "
        "of a chunk or all labels of a new table (default 256 MiB); `frazil.spark.write` needs "
        "none of it",
        parse=texts.size,
        default=256 << 20,
    )
    write_partitions: int | None = _writes(
        "tasks that `frazil.spark.write` puts chunks together with", use=OptionUse.WRITE
    )
    properties: Mapping[str, str] = field(default_factory=dict)


def _option_of(each: Field[Any]) -> Option:
    about = dict(each.metadata)
    name = about.pop("name") or each.name.replace("_", "-")
    parse = about.pop("parse") or _PARSERS[str(each.type).removesuffix(" | None")]
    return Option(name, parse, field=each.name, **about)


_FIELDS: Final = {each.name: each for kind in (ReadRequest, WriteRequest) for each in fields(kind)}
OPTIONS: Final = tuple(_option_of(each) for each in _FIELDS.values() if each.metadata)
"""every option with a fixed name"""
