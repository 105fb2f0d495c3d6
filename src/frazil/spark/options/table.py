"""What a read or a write asks for: one record each, whose fields are the options of the source.

A field says how its option is written, how the text is read and what it means. Both Iceberg's
and Delta's spellings are there. Three families have free names: `storage.*` (arguments of the
storage), `virtual.*` (credentials of virtual chunk containers) and `snapshot-property.*`
(metadata of a commit).
"""

# ruff: noqa: RUF009  (what is called here makes fields)
from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
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


class Use(Flag):
    """What an option is good for."""

    READ = auto()
    WRITE = auto()
    STREAM_READ = auto()
    STREAM_WRITE = auto()
    ANY = READ | WRITE | STREAM_READ | STREAM_WRITE


_READING: Final = Use.READ | Use.STREAM_READ
_WRITING: Final = Use.WRITE | Use.STREAM_WRITE
_STREAMS: Final = Use.STREAM_WRITE | Use.STREAM_READ


@dataclass(frozen=True, slots=True)
class Option:
    """One option: how it is written, how its text is read, and what it means."""

    name: str
    parse: Callable[[str], Any]
    meaning: str
    use: Use
    aliases: tuple[str, ...] = ()
    field: str = ""
    """of the records that hold it"""

    @property
    def spellings(self) -> tuple[str, ...]:
        """All names of the option."""
        return (self.name, *self.aliases)


def option(
    name: str,
    parse: Callable[[str], Any],
    meaning: str,
    use: Use = Use.ANY,
    aliases: tuple[str, ...] = (),
    default: object = None,
) -> Any:  # noqa: ANN401  (a field of the type that its annotation says)
    """A field that is an option."""
    return field(default=default, metadata={"option": Option(name, parse, meaning, use, aliases)})


_reads: Final = partial(option, use=_READING)
_writes: Final = partial(option, use=_WRITING)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Request(MaskedRecord):
    """Which repository and version, and with what access."""

    path: str = option(
        "path", texts.text, "where the repository is; what `load` and `save` are given", default=""
    )
    group: str | None = option(
        "group", texts.text, "path of the group to read or write; the root by default"
    )
    branch: str | None = option("branch", texts.text, "the branch to read, or to commit to")
    tag: str | None = _reads("tag", texts.text, "the tag to read")
    snapshot_id: str | None = _reads(
        "snapshot-id",
        texts.text,
        "the snapshot to read; the beginning of an id will do",
        aliases=("versionAsOf",),
    )
    as_of: datetime | None = _reads(
        "as-of-timestamp",
        texts.moment,
        "read what the branch was at this time: text (UTC) or milliseconds since 1970",
        aliases=("timestampAsOf",),
    )
    decode_cf: bool = option(
        "decode_cf",
        texts.flag,
        "whether to apply CF conventions: times, scale and offset, fill values (default true)",
        default=True,
    )
    authorize: tuple[str, ...] = option(
        "authorize-virtual-chunk-access",
        texts.names,
        "prefixes of virtual chunk containers that may be read, with commas between them; "
        "`=anonymous` after one asks without credentials, `=https://host` allows to send them to "
        "that address, where the repository's own configuration names it",
        aliases=("authorize",),
        default=(),
    )
    store_root: str | None = _reads(
        "store-root",
        texts.text,
        "where the files of a repository of generation g1 are, if its state file puts them "
        "elsewhere; must be the same place, and is read without credentials",
    )
    checkpoint: str | None = option(
        "checkpointLocation",
        texts.text,
        "where Spark keeps the state of a stream; it names the series of writes by default",
        use=_STREAMS,
    )
    query_name: str | None = option(
        "queryName", texts.text, "name of the stream for Spark", use=_STREAMS
    )
    storage: Mapping[str, str] = field(default_factory=dict)
    virtual: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class ReadRequest(Request):
    """What to read."""

    variables: tuple[str, ...] | None = _reads(
        "variables", texts.names, "data variables to read; they share dimensions"
    )
    columns: tuple[str, ...] | None = _reads(
        "columns", texts.names, "columns to read, in this order"
    )
    where: Predicate | None = _reads(
        "where",
        parse_predicate,
        "condition on coordinates in SQL; chunks outside it are not fetched",
    )
    value_where: Predicate | None = _reads(
        "value-where",
        parse_predicate,
        "condition on values of the chosen variables in SQL; cells where it does not hold give no "
        "rows",
        use=Use.READ,
    )
    sel: Sel | None = _reads(
        "sel", parse_sel, "labels to read: `time=2024-05, lat=10:20`; both ends count"
    )
    isel: Isel | None = _reads(
        "isel", parse_isel, "positions to read: `time=0:10, lat=[3, 5], lon=[0:4, 8]`"
    )
    layout: str = _reads(
        "layout",
        texts.one_of("cells", "chunks", "lines", "aggregates"),
        "`cells`: a row per cell; `lines`: a row per line along the last dimension, with arrays; "
        "`chunks`: a row per chunk; `aggregates`: a row per label of `columns` and part of the "
        "table, with `aggregates`",
        default="cells",
    )
    aggregates: Lists | None = _reads(
        "aggregates",
        parse_lists,
        "with `layout=aggregates`: what to compute of each variable over the dimensions that "
        "`columns` do not have: `t2m=[count, sum, min, max, squares]`",
        use=Use.READ,
    )
    broadcast: bool = _reads(
        "broadcast",
        texts.flag,
        "whether variables may lack dimensions of others, along which their values are repeated "
        "(default false)",
        use=Use.READ,
        default=False,
    )
    values: str = _reads(
        "values",
        texts.one_of("array", "binary"),
        "with `layout=chunks`: values as an array (default) or as little-endian bytes",
        default="array",
    )
    with_coordinates: bool = _reads(
        "with-coordinates",
        texts.flag,
        "whether auxiliary coordinates, such as latitudes of two dimensions, are columns too "
        "(default false); `columns` and `where` may name them in any case",
        default=False,
    )
    decode_times: bool = _reads(
        "decode_times",
        texts.flag,
        "whether numbers with units of times become times (default true); masks are applied anyway",
        default=True,
    )
    other_calendars: str = _reads(
        "other-calendars",
        texts.one_of("error", "string"),
        "times in calendars without timestamps, and those counted from a date before 1582-10-15 in"
        " the standard calendar or before year 1: refuse what does not fit (default) or give all of"
        " them as text",
        default="error",
    )
    timestamps: str = _reads(
        "timestamps",
        texts.one_of("ntz", "utc"),
        "times as TIMESTAMP_NTZ, the same everywhere (default), or as TIMESTAMP, instants in UTC",
        default="ntz",
    )
    split_size: int | None = _reads(
        "split-size", texts.size, "decoded bytes for each partition, as in 64m (default 64 MiB)"
    )
    chunks_per_partition: int | None = _reads(
        "chunks-per-partition", texts.count, "chunks for each partition, instead of `split-size`"
    )
    max_partitions: int = _reads(
        "max-partitions",
        texts.count,
        "largest number of partitions (default 10000)",
        default=10_000,
    )
    start_snapshot: str | None = _reads(
        "start-snapshot-id",
        texts.text,
        "give what changed: the snapshot after which changes count; streams take `latest`",
    )
    starting_version: str | None = _reads(
        "startingVersion",
        texts.text,
        "give what changed: the first snapshot whose changes count; streams take `latest`",
    )
    end_snapshot: str | None = _reads(
        "end-snapshot-id",
        texts.text,
        "with a beginning: the last snapshot whose changes count",
        use=Use.READ,
        aliases=("endingVersion",),
    )
    stream_from: datetime | None = _reads(
        "stream-from-timestamp",
        texts.moment,
        "changes count that were committed at this time or later",
        aliases=("startingTimestamp",),
    )
    skip_changes: bool = _reads(
        "skipChangeCommits",
        texts.flag,
        "whether only cells come that were not there before, and none that commits have changed "
        "(default false)",
        aliases=("streaming-skip-overwrite-snapshots",),
        default=False,
    )
    ignore_deletes: bool = _reads(
        "ignoreDeletes",
        texts.always,
        "may be true only: cells and arrays that are gone give no rows, and no error",
        aliases=("streaming-skip-delete-snapshots",),
        default=False,
    )
    max_chunks: int | None = _reads(
        "streaming-max-files-per-micro-batch",
        texts.count,
        "chunks, or blocks of chunks, for each micro-batch; a step at least is read",
        use=Use.STREAM_READ,
        aliases=("maxFilesPerTrigger",),
    )
    max_rows: int | None = _reads(
        "streaming-max-rows-per-micro-batch",
        texts.count,
        "cells of changed chunks for each micro-batch; a step at least is read",
        use=Use.STREAM_READ,
        aliases=("maxRowsPerTrigger",),
    )
    max_bytes: int | None = _reads(
        "streaming-max-bytes-per-micro-batch",
        texts.size,
        "decoded bytes of changed chunks for each micro-batch; a step at least is read",
        use=Use.STREAM_READ,
        aliases=("maxBytesPerTrigger",),
    )


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class WriteRequest(Request):
    """What to write, and how."""

    dims: tuple[str, ...] | None = _writes(
        "dims", texts.names, "columns that are dimensions of new arrays, in order"
    )
    append_dim: str | None = _writes(
        "append-dim",
        texts.text,
        "the dimension that new labels may extend; elsewhere rows must have labels that are there",
    )
    region: Isel | None = _writes(
        "region",
        parse_isel,
        "with mode overwrite: positions to replace, as for `isel`",
        use=Use.WRITE,
    )
    replace_where: Predicate | None = _writes(
        "replaceWhere",
        parse_predicate,
        "with mode overwrite: which cells to replace, as conditions on coordinates of one "
        "dimension each, joined by AND",
        use=Use.WRITE,
    )
    duplicates: str = _writes(
        "duplicates",
        texts.one_of("error", "first", "last"),
        "several rows for one cell: refuse (default), or take the first or last of the DataFrame",
        default="error",
    )
    chunks: Mapping[str, int] | None = _writes(
        "chunks",
        texts.lengths,
        "chunk lengths of new arrays: `time=24, lat=-1` (-1 for all of it), or one for all",
    )
    shards: Mapping[str, int] | None = _writes(
        "shards", texts.counts, "shard lengths of new arrays, multiples of those of chunks"
    )
    dtype: Mapping[str, str] | None = _writes(
        "dtype", texts.settings, "types of new arrays: `t2m=float32`, or one for all"
    )
    fill_value: Mapping[str, str] | None = _writes(
        "fill-value", texts.settings, "what stands for NULL in new arrays: `n=-1`, or one for all"
    )
    compressor: Compressor | None = _writes(
        "compressor",
        texts.compressor,
        "of new arrays: zstd (default), `zstd:9`, `gzip:5`, `blosc:lz4:5` or none",
    )
    checksum: bool = _writes(
        "checksum",
        texts.flag,
        "whether chunks of new arrays end in a CRC-32C (default false)",
        default=False,
    )
    codecs: Any = _writes("codecs", texts.document, "codecs of new arrays, as Zarr's JSON list")
    attributes: Mapping[str, Any] | None = _writes(
        "attributes",
        texts.documents,
        "attributes of new arrays as JSON by name; CF encoding follows them",
    )
    like: str | None = _writes(
        "like",
        texts.text,
        "a repository, group or array (`URL[@version][#/group]`): new arrays get the types, "
        "attributes, fill values and chunks of those of the same names there, coordinates included",
    )
    coords: Mapping[str, Any] | None = _writes(
        "coords",
        texts.documents,
        "labels of new dimensions as JSON lists by name; else those of the rows, in order",
    )
    merge_schema: bool = _writes(
        "merge-schema",
        texts.flag,
        "whether unknown columns become new arrays (default false)",
        default=False,
    )
    message: str | None = _writes(
        "message", texts.text, "message of the commit", aliases=("userMetadata",)
    )
    txn_app: str | None = _writes(
        "txnAppId",
        texts.text,
        "name of a series of writes; with `txnVersion` one is ignored that was committed before",
    )
    txn_version: int | None = _writes(
        "txnVersion",
        texts.number,
        "number of a write in the series `txnAppId`; it must grow",
        use=Use.WRITE,
    )
    rebase: str = _writes(
        "rebase",
        texts.one_of("detect", "none", "ours", "theirs"),
        "when others committed meanwhile: go on top unless both changed the same (detect, "
        "default), give up (none), or for chunks that both wrote keep ours or theirs",
        default="detect",
    )
    if_exists: str = _writes(
        "ifExists",
        texts.one_of("write", "error", "ignore"),
        "when the variables are there already: write (default), refuse, or do nothing",
        use=Use.WRITE,
        default="write",
    )
    write_partitions: int | None = _writes(
        "write-partitions",
        texts.count,
        "tasks that `frazil.spark.write` puts chunks together with",
        use=Use.WRITE,
    )
    properties: Mapping[str, str] = field(default_factory=dict)


def options_of(*kinds: type[Request]) -> tuple[Option, ...]:
    """The options of some kinds of requests, each once."""
    found = {
        each.name: replace(each.metadata["option"], field=each.name)
        for kind in kinds
        for each in fields(kind)
        if "option" in each.metadata
    }
    return tuple(found.values())


OPTIONS: Final = options_of(ReadRequest, WriteRequest)
"""every option with a fixed name"""
