"""Every option of the Spark source in one table: names, types, meaning.

Spark hands options over as text with lower-case names. Names are matched without regard to case
and with `-` and `_` taken as the same; both Iceberg's and Delta's spellings are accepted. Three
families have free names: `storage.*` (arguments of the storage), `virtual.*` (credentials of
virtual chunk containers) and `snapshot-property.*` (metadata of a commit).
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Flag, auto
from typing import Any, Final, Generic, TypeVar, cast, overload

from frazil.errors import ErrorKind, InvalidInputError
from frazil.spark.option_texts import (
    count,
    counts,
    document,
    documents,
    names,
    one_of,
    settings,
    text,
)
from frazil.spark.option_texts import flag as flag
from frazil.spark.option_texts import moment as moment
from frazil.spark.option_texts import number as number
from frazil.spark.option_texts import size as size

T = TypeVar("T")

MASK: Final = "***"
_SECRET: Final = re.compile(r"secret|token|password|key|credential|signature|sas", re.IGNORECASE)
_PLAIN_KEYS: Final = frozenset({"access_key_id"})  # names a key, is none


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


# --- the table ---

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
CALENDARS: Final = Option(
    "other-calendars",
    one_of("error", "string"),
    "times in calendars without timestamps: refuse (default) or give them as text",
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
    "for `#changes` and streams: the snapshot after which changes count; streams take `latest`",
    aliases=("startingVersion",),
)
END_SNAPSHOT: Final = Option(
    "end-snapshot-id",
    text,
    "for `#changes`: the snapshot up to which changes count",
    aliases=("endingVersion",),
)
AUTHORIZE: Final = Option(
    "authorize-virtual-chunk-access",
    names,
    "prefixes of virtual chunk containers that may be read, with commas between them; "
    "`=anonymous` after one asks without credentials",
    Use.ANY,
)

STREAM_FROM: Final = Option(
    "stream-from-timestamp",
    moment,
    "changes count that were committed at this time or later",
    Use.STREAM_READ,
    ("startingTimestamp",),
)
MAX_CHUNKS: Final = Option(
    "streaming-max-files-per-micro-batch",
    count,
    "chunks, or blocks of chunks, for each micro-batch at most",
    Use.STREAM_READ,
    ("maxFilesPerTrigger",),
)
MAX_ROWS: Final = Option(
    "streaming-max-rows-per-micro-batch",
    count,
    "cells of changed chunks for each micro-batch; one chunk at least is read",
    Use.STREAM_READ,
    ("maxRowsPerTrigger",),
)
MAX_BYTES: Final = Option(
    "streaming-max-bytes-per-micro-batch",
    size,
    "decoded bytes of changed chunks for each micro-batch; one chunk at least is read",
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
    "with mode overwrite: which cells to replace, as conditions on coordinates joined by AND",
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
CODECS: Final = Option("codecs", document, "codecs of new arrays, as Zarr's JSON list", _WRITING)
ATTRIBUTES: Final = Option(
    "attributes",
    documents,
    "attributes of new arrays as JSON by name; CF encoding follows them",
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
    DECODE_CF,
    CALENDARS,
    TIMESTAMPS,
    SPLIT_SIZE,
    CHUNKS_PER_PARTITION,
    MAX_PARTITIONS,
    START_SNAPSHOT,
    END_SNAPSHOT,
    AUTHORIZE,
    STREAM_FROM,
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
    CODECS,
    ATTRIBUTES,
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
_FROM_SPARK: Final = frozenset({"header", "inferschema", "mode", "outputmode"})
"""What Spark itself may add to the options of a source; none of it concerns us."""


# --- parsed options ---


@dataclass(frozen=True, slots=True, repr=False)
class Options:
    """The options of one read or write; `options[SPLIT_SIZE]` is typed by its option."""

    values: Mapping[str, Any] = field(default_factory=dict)
    storage: Mapping[str, str] = field(default_factory=dict)
    virtual: Mapping[str, str] = field(default_factory=dict)
    properties: Mapping[str, str] = field(default_factory=dict)

    @overload
    def get(self, option: Option[T]) -> T | None: ...

    @overload
    def get(self, option: Option[T], default: T) -> T: ...

    def get(self, option: Option[T], default: T | None = None) -> T | None:
        """The value of an option, or a default."""
        return cast("T | None", self.values.get(option.name, default))

    def __getitem__(self, option: Option[T]) -> T:
        return self.require(option)

    def __contains__(self, option: Option[Any]) -> bool:
        return option.name in self.values

    def require(self, option: Option[T]) -> T:
        """The value of an option that must be given."""
        if option.name not in self.values:
            raise invalid_option(f"option {option.name!r} is missing: {option.meaning}")
        return cast(T, self.values[option.name])

    def __repr__(self) -> str:
        shown = {name: str(value) for name, value in self.values.items()}
        if PATH.name in shown:
            shown[PATH.name] = shown_url(shown[PATH.name])
        for prefix, family in ((STORAGE, self.storage), (VIRTUAL, self.virtual)):
            shown |= {prefix + name: masked(name, value) for name, value in family.items()}
        shown |= {PROPERTY + name: value for name, value in self.properties.items()}
        return f"Options({', '.join(f'{name}={value!r}' for name, value in shown.items())})"


def parse_options(
    given: Mapping[str, str], use: Use, known: Iterable[Option[Any]] = OPTIONS
) -> Options:
    """Read options as Spark gives them.

    Raises:
        InvalidInputError: an option is unknown, given twice or cannot be read.
    """
    by_spelling = {_plain(s): option for option in known for s in option.spellings}
    values: dict[str, Any] = {}
    families: dict[str, dict[str, str]] = {prefix: {} for prefix in FAMILIES}
    for name, written in given.items():
        prefix = next((p for p in FAMILIES if _plain(name).startswith(_plain(p))), None)
        if prefix is not None:
            families[prefix][_family_name(name, prefix)] = written
            continue
        option = by_spelling.get(_plain(name))
        if option is None:
            if name.lower() in _FROM_SPARK:
                continue
            raise _unknown(name, use, by_spelling.values())
        if not option.use & use:
            raise invalid_option(f"option {name!r} has no meaning here: {option.meaning}")
        if option.name in values:
            raise invalid_option(
                f"option {option.name!r} is given twice, under two of its names "
                f"({', '.join(option.spellings)})"
            )
        values[option.name] = _parsed(option, name, written)
    return Options(values, families[STORAGE], families[VIRTUAL], families[PROPERTY])


def masked(name: str, value: str) -> str:
    """A value as it may be shown: secrets are not."""
    plain = name.lower().replace("-", "_")
    return MASK if _SECRET.search(plain) and plain not in _PLAIN_KEYS else value


def shown_url(url: str) -> str:
    """A location as it may be shown: without a password before the host and without a query."""
    place, question, _ = url.partition("?")
    bare = re.sub(r"(?<=://)[^/@]*:[^/@]*@", f"{MASK}@", place)
    return f"{bare}?{MASK}" if question else bare


def invalid_option(message: str) -> InvalidInputError:
    """The error for a wrong option."""
    return InvalidInputError(message, kind=ErrorKind.INVALID_OPTION)


def documented(use: Use = Use.ANY) -> list[tuple[str, str]]:
    """Names and meanings of all options for a use, for documents and help texts."""
    found = [(", ".join(o.spellings), o.meaning) for o in OPTIONS if o.use & use]
    return [*found, *((f"{prefix}*", meaning) for prefix, meaning in FAMILIES.items())]


def nearest(name: str, known: Iterable[str]) -> str:
    """The end of a message about an unknown name: the one that may have been meant."""
    close = difflib.get_close_matches(name, list(known), n=1, cutoff=0.6)
    return f"; did you mean {close[0]!r}?" if close else ""


def _plain(name: str) -> str:
    return name.lower().replace("-", "").replace("_", "")


def _family_name(name: str, prefix: str) -> str:
    rest = name.partition(".")[2]
    if not rest:
        raise invalid_option(f"option {name!r} names nothing: {FAMILIES[prefix]}")
    return rest if prefix == PROPERTY else rest.lower().replace("-", "_")


def _unknown(name: str, use: Use, known: Iterable[Option[Any]]) -> InvalidInputError:
    spellings = sorted({s for option in known if option.use & use for s in option.spellings})
    close = nearest(name.lower(), [s.lower() for s in spellings])
    families = ", ".join(f"{prefix}*" for prefix in FAMILIES)
    return invalid_option(
        f"unknown option {name!r}{close} (options are {', '.join(spellings)}, {families})"
    )


def _parsed(option: Option[T], name: str, written: str) -> T:
    try:
        return option.parse(written)
    except ValueError as error:
        shown = masked(name, written)
        raise invalid_option(f"option {name!r} is {shown!r}: {error}") from None
