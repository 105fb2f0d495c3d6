"""The table of options of the Spark source: names, types, meaning.

Both Iceberg's and Delta's spellings are there. Three families have free names: `storage.*`
(arguments of the storage), `virtual.*` (credentials of virtual chunk containers) and
`snapshot-property.*` (metadata of a commit).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Flag, auto
from typing import Any, Final, Generic, TypeVar

from frazil.spark.options.texts import (
    always,
    count,
    counts,
    document,
    documents,
    flag,
    moment,
    names,
    number,
    one_of,
    settings,
    size,
    text,
)

T = TypeVar("T")


class Use(Flag):
    """What an option is good for."""

    READ = auto()
    WRITE = auto()
    STREAM_READ = auto()
    STREAM_WRITE = auto()
    ANY = READ | WRITE | STREAM_READ | STREAM_WRITE


@dataclass(frozen=True, slots=True)
class Option(Generic[T]):
    """One option: how it is written, how its text is read, and what it means."""

    name: str
    parse: Callable[[str], T]
    meaning: str
    use: Use = Use.READ | Use.STREAM_READ
    aliases: tuple[str, ...] = ()

    @property
    def spellings(self) -> tuple[str, ...]:
        """All names of the option."""
        return (self.name, *self.aliases)


PATH: Final = Option("path", text, "where the repository is; what `load` and `save` are given",
                     Use.ANY)  # fmt: skip
GROUP: Final = Option("group", text, "path of the group to read or write; the root by default",
                      Use.ANY)  # fmt: skip
BRANCH: Final = Option("branch", text, "the branch to read, or to commit to", Use.ANY)
TAG: Final = Option("tag", text, "the tag to read")
SNAPSHOT_ID: Final = Option(
    "snapshot-id",
    text,
    "the snapshot to read; the beginning of an id will do",
    aliases=("versionAsOf",),
)
AS_OF: Final = Option(
    "as-of-timestamp",
    moment,
    "read what the branch was at this time: text (UTC) or milliseconds since 1970",
    aliases=("timestampAsOf",),
)
VARIABLES: Final = Option("variables", names, "data variables to read; they share dimensions")
COLUMNS: Final = Option("columns", names, "columns to read, in this order")
WHERE: Final = Option(
    "where", text, "condition on coordinates in SQL; chunks outside it are not fetched"
)
SEL: Final = Option("sel", text, "labels to read: `time=2024-05, lat=10:20`; both ends count")
ISEL: Final = Option("isel", text, "positions to read: `time=0:10, lat=[3, 5], lon=-1`")
LAYOUT: Final = Option(
    "layout",
    one_of("cells", "chunks", "lines"),
    "`cells`: a row per cell; `lines`: a row per line along the last dimension, with arrays; "
    "`chunks`: a row per chunk",
)
VALUES: Final = Option(
    "values",
    one_of("array", "binary"),
    "with `layout=chunks`: values as an array (default) or as little-endian bytes",
)
DECODE_CF: Final = Option(
    "decode_cf",
    flag,
    "whether to apply CF conventions: times, scale and offset, fill values (default true)",
    Use.ANY,
)
WITH_COORDINATES: Final = Option(
    "with-coordinates",
    flag,
    "whether auxiliary coordinates, such as latitudes of two dimensions, are columns too (default"
    " false); `columns` and `where` may name them in any case",
)
DECODE_TIMES: Final = Option(
    "decode_times",
    flag,
    "whether numbers with units of times become times (default true); masks are applied anyway",
)
CALENDARS: Final = Option(
    "other-calendars",
    one_of("error", "string"),
    "times in calendars without timestamps, and those counted from a date before 1582-10-15 in"
    " the standard calendar or before year 1: refuse what does not fit (default) or give all of"
    " them as text",
)
TIMESTAMPS: Final = Option(
    "timestamps",
    one_of("ntz", "utc"),
    "times as TIMESTAMP_NTZ, the same everywhere (default), or as TIMESTAMP, instants in UTC",
)
SPLIT_SIZE: Final = Option(
    "split-size", size, "decoded bytes for each partition, as in 64m (default 64 MiB)"
)
CHUNKS_PER_PARTITION: Final = Option(
    "chunks-per-partition", count, "chunks for each partition, instead of `split-size`"
)
MAX_PARTITIONS: Final = Option(
    "max-partitions", count, "largest number of partitions (default 10000)"
)
START_SNAPSHOT: Final = Option(
    "start-snapshot-id",
    text,
    "give what changed: the snapshot after which changes count; streams take `latest`",
)
STARTING_VERSION: Final = Option(
    "startingVersion",
    text,
    "give what changed: the first snapshot whose changes count; streams take `latest`",
)
END_SNAPSHOT: Final = Option(
    "end-snapshot-id",
    text,
    "with a beginning: the last snapshot whose changes count",
    Use.READ,
    ("endingVersion",),
)
AUTHORIZE: Final = Option(
    "authorize-virtual-chunk-access",
    names,
    "prefixes of virtual chunk containers that may be read, with commas between them; "
    "`=anonymous` after one asks without credentials, `=https://host` allows to send them to "
    "that address, where the repository's own configuration names it",
    Use.ANY,
    ("authorize",),
)

STORE_ROOT: Final = Option(
    "store-root",
    text,
    "where the files of a repository of generation g1 are, if its state file puts them elsewhere;"
    " must be the same place, and is read without credentials",
)

STREAM_FROM: Final = Option(
    "stream-from-timestamp",
    moment,
    "changes count that were committed at this time or later",
    aliases=("startingTimestamp",),
)
SKIP_CHANGES: Final = Option(
    "skipChangeCommits",
    flag,
    "whether only cells come that were not there before, and none that commits have changed "
    "(default false)",
    aliases=("streaming-skip-overwrite-snapshots",),
)
IGNORE_DELETES: Final = Option(
    "ignoreDeletes",
    always,
    "may be true only: cells and arrays that are gone give no rows, and no error",
    aliases=("streaming-skip-delete-snapshots",),
)
MAX_CHUNKS: Final = Option(
    "streaming-max-files-per-micro-batch",
    count,
    "chunks, or blocks of chunks, for each micro-batch; a step at least is read",
    Use.STREAM_READ,
    ("maxFilesPerTrigger",),
)
MAX_ROWS: Final = Option(
    "streaming-max-rows-per-micro-batch",
    count,
    "cells of changed chunks for each micro-batch; a step at least is read",
    Use.STREAM_READ,
    ("maxRowsPerTrigger",),
)
MAX_BYTES: Final = Option(
    "streaming-max-bytes-per-micro-batch",
    size,
    "decoded bytes of changed chunks for each micro-batch; a step at least is read",
    Use.STREAM_READ,
    ("maxBytesPerTrigger",),
)

_WRITING: Final = Use.WRITE | Use.STREAM_WRITE

DIMS: Final = Option("dims", names, "columns that are dimensions of new arrays, in order", _WRITING)
APPEND_DIM: Final = Option(
    "append-dim",
    text,
    "the dimension that new labels may extend; elsewhere rows must have labels that are there",
    _WRITING,
)
REGION: Final = Option(
    "region", text, "with mode overwrite: positions to replace, as for `isel`", Use.WRITE
)
REPLACE_WHERE: Final = Option(
    "replaceWhere",
    text,
    "with mode overwrite: which cells to replace, as conditions on coordinates of one dimension "
    "each, joined by AND",
    Use.WRITE,
)
DUPLICATES: Final = Option(
    "duplicates",
    one_of("error", "first", "last"),
    "several rows for one cell: refuse (default), or take the first or last of the DataFrame",
    _WRITING,
)
CHUNKS: Final = Option(
    "chunks", counts, "chunk lengths of new arrays: `time=24, lat=100`, or one for all", _WRITING
)
SHARDS: Final = Option(
    "shards", counts, "shard lengths of new arrays, multiples of those of chunks", _WRITING
)
DTYPE: Final = Option(
    "dtype", settings, "types of new arrays: `t2m=float32`, or one for all", _WRITING
)
FILL_VALUE: Final = Option(
    "fill-value", settings, "what stands for NULL in new arrays: `n=-1`, or one for all", _WRITING
)
COMPRESSOR: Final = Option(
    "compressor", text, "of new arrays: zstd (default), gzip, blosc, `zstd:9` or none", _WRITING
)
CHECKSUM: Final = Option(
    "checksum", flag, "whether chunks of new arrays end in a CRC-32C (default false)", _WRITING
)
CODECS: Final = Option("codecs", document, "codecs of new arrays, as Zarr's JSON list", _WRITING)
ATTRIBUTES: Final = Option(
    "attributes",
    documents,
    "attributes of new arrays as JSON by name; CF encoding follows them",
    _WRITING,
)
LIKE: Final = Option(
    "like",
    text,
    "a repository, group or array (`URL[@version][#/group]`): new arrays get the types, attributes,"
    " fill values and chunks of those of the same names there, coordinates included",
    _WRITING,
)
COORDS: Final = Option(
    "coords",
    documents,
    "labels of new dimensions as JSON lists by name; else those of the rows, in order",
    _WRITING,
)
MERGE_SCHEMA: Final = Option(
    "merge-schema", flag, "whether unknown columns become new arrays (default false)", _WRITING
)
MESSAGE: Final = Option("message", text, "message of the commit", _WRITING, ("userMetadata",))
TXN_APP: Final = Option(
    "txnAppId",
    text,
    "name of a series of writes; with `txnVersion` one is ignored that was committed before",
    _WRITING,
)
TXN_VERSION: Final = Option(
    "txnVersion", number, "number of a write in the series `txnAppId`; it must grow", Use.WRITE
)
REBASE: Final = Option(
    "rebase",
    one_of("detect", "none", "ours", "theirs"),
    "when others committed meanwhile: go on top unless both changed the same (detect, default), "
    "give up (none), or for chunks that both wrote keep ours or theirs",
    _WRITING,
)
IF_EXISTS: Final = Option(
    "ifExists",
    one_of("write", "error", "ignore"),
    "when the variables are there already: write (default), refuse, or do nothing",
    Use.WRITE,
)
PARTITIONS: Final = Option(
    "write-partitions", count, "tasks that `frazil.spark.write` puts chunks together with",
    Use.WRITE,
)  # fmt: skip
CHECKPOINT: Final = Option(
    "checkpointLocation",
    text,
    "where Spark keeps the state of a stream; it names the series of writes by default",
    Use.STREAM_WRITE | Use.STREAM_READ,
)
QUERY_NAME: Final = Option(
    "queryName", text, "name of the stream for Spark", Use.STREAM_WRITE | Use.STREAM_READ
)

OPTIONS: Final[tuple[Option[Any], ...]] = (
    PATH,
    GROUP,
    BRANCH,
    TAG,
    SNAPSHOT_ID,
    AS_OF,
    VARIABLES,
    COLUMNS,
    WHERE,
    SEL,
    ISEL,
    LAYOUT,
    VALUES,
    WITH_COORDINATES,
    DECODE_CF,
    DECODE_TIMES,
    CALENDARS,
    TIMESTAMPS,
    SPLIT_SIZE,
    CHUNKS_PER_PARTITION,
    MAX_PARTITIONS,
    START_SNAPSHOT,
    STARTING_VERSION,
    END_SNAPSHOT,
    AUTHORIZE,
    STORE_ROOT,
    STREAM_FROM,
    SKIP_CHANGES,
    IGNORE_DELETES,
    MAX_CHUNKS,
    MAX_ROWS,
    MAX_BYTES,
    DIMS,
    APPEND_DIM,
    REGION,
    REPLACE_WHERE,
    DUPLICATES,
    CHUNKS,
    SHARDS,
    DTYPE,
    FILL_VALUE,
    COMPRESSOR,
    CHECKSUM,
    CODECS,
    ATTRIBUTES,
    LIKE,
    COORDS,
    MERGE_SCHEMA,
    MESSAGE,
    TXN_APP,
    TXN_VERSION,
    REBASE,
    IF_EXISTS,
    PARTITIONS,
    CHECKPOINT,
    QUERY_NAME,
)
"""every option with a fixed name"""

STORAGE: Final = "storage."
VIRTUAL: Final = "virtual."
PROPERTY: Final = "snapshot-property."
FAMILIES: Final = {
    STORAGE: "arguments of the storage: storage.region, storage.endpoint_url, …",
    VIRTUAL: "credentials for virtual chunk containers: virtual.access_key_id, …",
    PROPERTY: "metadata of the commit: snapshot-property.author, …",
}
